"""The map and the layers of CONTRIBUTING are those of the repository and of its import contracts."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from documents import parse

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def test_layers_of_contributing_are_those_of_the_import_contracts() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = {tuple(each.get("containers", ())): each["layers"] for each in contracts if each["type"] == "layers"}
    outer, inner, peer = layers[()], layers["p2prdf",], layers["p2prdf.peer",]
    assert outer[-1] == "p2prdf"
    assert [block.text.splitlines() for block in parse(TEXT) if block.language == "layers"] == [
        [*outer[:-1], *inner],
        peer,
    ]


def test_map_of_contributing_has_every_package_once() -> None:
    named = re.findall(r"`([\w/]+)`", "".join(re.findall(r"^\| (`.*?) \|", TEXT, re.MULTILINE)))
    packages = [f"p2prdf/{path.parent.name}" for path in ROOT.glob("p2prdf/*/__init__.py")]
    assert sorted(each for each in named if each.startswith("p2prdf/")) == sorted(packages)
    assert [each for each in named if not (ROOT / each).is_dir()] == []


def test_lines_of_front_pages_have_at_most_100_characters() -> None:
    for name in ("README.md", "CONTRIBUTING.md", "docs/README.md", "docs/tutorial.md"):
        lines = (ROOT / name).read_text("utf-8").splitlines()
        assert [line for line in lines if len(line) > 100 and not line.startswith("|")] == [], name
