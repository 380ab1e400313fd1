"""Habits that hold for every file: no leftovers, nothing about the place it was written at, true public names."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
CODE = sorted(
    path
    for folder in ("p2prdf", "node", "cli", "lab", "tests")
    for path in (ROOT / folder).rglob("*.py")
    if "__pycache__" not in path.parts
)
TEXT = sorted(
    [
        *CODE,
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("p2prdf/gateway/page/*"),
        *(path for name in ("*", "src/*", "test/*") for path in ROOT.glob(f"clients/js/{name}") if path.is_file()),
        *(path for path in ROOT.glob("deploy/**/*") if path.is_file() and path.suffix != ".pyc"),
        *ROOT.glob("k8s/**/*.yaml"),
        ROOT / "Makefile",
        ROOT / "pyproject.toml",
        ROOT / "lab/pyproject.toml",
        ROOT / "lab/README.md",
        ROOT / ".ci/run",
    ]
)
THIS = Path(__file__)
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|raise NotImplementedError|<<<<<<< |>>>>>>> ")
SOMEBODYS_MACHINE = re.compile(r"/(?:home|Users|root|work|tmp)/\w")


def _module(path: Path) -> str | None:
    """Return the import name of a module of the packages, or of the fault schedules."""
    for base in (ROOT, ROOT / "node", ROOT / "cli", ROOT / "lab", ROOT / "tests/support"):
        parts = path.relative_to(base).with_suffix("").parts if path.is_relative_to(base) else ()
        if parts and parts[0] in ("p2prdf", "p2prdf_node", "p2prdf_cli", "p2prdf_lab", "schedules"):
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return None


MODULES = [name for path in CODE if (name := _module(path)) and not name.endswith("__main__")]


OF_EXTRAS = {"p2prdf.mcp.server": "mcp", "p2prdf.rdf.jelly": "pyjelly"}
"""Modules that import the package of an extra when they are imported."""


@pytest.mark.parametrize("path", [p for p in TEXT if p != THIS], ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_is_left_for_later_and_nothing_names_a_machine(path: Path) -> None:
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        assert not LEFTOVER.search(line), f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        assert not SOMEBODYS_MACHINE.search(line), f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


def _imported(name: str) -> ModuleType:
    """Import a module; skip the test if it needs the package of an extra that is not installed."""
    if name in OF_EXTRAS:
        pytest.importorskip(OF_EXTRAS[name], reason=f"the package {OF_EXTRAS[name]} is not installed (an extra)")
    return importlib.import_module(name)


@pytest.mark.parametrize("name", MODULES)
def test_all_lists_names_that_exist_each_once(name: str) -> None:
    module = _imported(name)
    listed = getattr(module, "__all__", [])
    assert len(set(listed)) == len(listed)
    assert [entry for entry in listed if not hasattr(module, entry)] == []


def _imported_names(path: Path) -> Iterator[tuple[str, str, int]]:
    """Yield module, name and line of everything a file takes from another module of the project."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module in MODULES:
            for alias in node.names:
                if f"{node.module}.{alias.name}" not in MODULES:
                    yield node.module, alias.name, node.lineno


@pytest.mark.parametrize("path", [p for p in CODE if _module(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_only_names_in_the_all_list_of_another(path: Path) -> None:
    """A name used by other modules is public, and public names are in ``__all__``."""
    for module, name, line in _imported_names(path):
        listed = getattr(_imported(module), "__all__", None)
        assert listed is None or name in listed, f"{path.relative_to(ROOT)}:{line} takes {name}, not listed by {module}"


def test_public_classes_of_the_library_say_where_they_are_used_from() -> None:
    """Each export of ``p2prdf`` is importable from there and has a docstring."""
    import p2prdf

    for name in p2prdf.__all__:
        assert getattr(p2prdf, name).__doc__ or not callable(getattr(p2prdf, name)), name


def test_the_core_can_be_imported_without_any_input_or_output_module() -> None:
    """Importing the peer itself opens nothing: no event loop, no socket, no thread library of ours."""
    code = (
        "import sys; import p2prdf.wire.contract, p2prdf.store, p2prdf.rdf.query;"
        "sys.exit('kademlia' in sys.modules or 'p2prdf_node' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_node_starts_without_opentelemetry() -> None:
    """It is an extra, needed only to send spans to a collector; without it the option is refused with instructions."""
    code = (
        "import sys; import p2prdf_node.daemon, p2prdf_node.otlp; assert 'opentelemetry' not in sys.modules\n"
        "sys.modules['opentelemetry'] = None\n"
        "try: p2prdf_node.otlp.SpanExport('http://localhost:4318/v1/traces', 'node')\n"
        "except p2prdf_node.daemon.LocalProtocolError as error: sys.exit('p2prdf[otel]' not in str(error))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_node_starts_without_the_index_of_texts() -> None:
    """It is needed from the first subscription with a full-text condition on."""
    code = "import sys; import p2prdf_node.daemon; sys.exit('p2prdf.text' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_stems_are_loaded_by_the_first_condition_that_asks_for_them() -> None:
    code = (
        "import sys; import p2prdf_node.daemon, p2prdf.text; from p2prdf.rdf.fulltext import parse_condition as parse;"
        "parse('\"games\" using stop words, \"en\"'); assert 'Stemmer' not in sys.modules;"
        "parse('\"games\" using stemming, \"en\"'); assert 'Stemmer' in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "module", ["p2prdf", "p2prdf.client", "p2prdf.sync", "p2prdf.gateway", "p2prdf_node.daemon", "p2prdf_cli.app"]
)
def test_importing_other_modules_loads_neither_spark_nor_pandas(module: str) -> None:
    code = f"import sys; import {module}; sys.exit(bool({{'pyspark', 'pyarrow', 'pandas'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_import_contracts_hold() -> None:
    outcome = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"],
        cwd=ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_commands_connect_in_one_place() -> None:
    """There it is known whether, and with which certificate, they use TLS; the demonstration has nodes of its own."""
    connects = re.compile(r"p2prdf\.connect\(|from p2prdf(\.client)* import .*\bconnect\b")
    found = {
        str(path.relative_to(ROOT / "cli/p2prdf_cli"))
        for path in (ROOT / "cli/p2prdf_cli").rglob("*.py")
        if connects.search(path.read_text("utf-8"))
    }
    assert found == {"connecting.py", "demo/run.py"}


UNSAFE = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
"""Modules by which the sender of data can have code run."""
MADE_HERE = {
    "p2prdf/reasoning/facts.py": 2,  # loops over orders of triples, by their names
    "p2prdf/reasoning/joins.py": 1,  # joins of rules: of their terms there are numbers alone
    "p2prdf/channels/query.py": 3,  # joins of channels' queries: numbers alone as well
    "p2prdf/wire/compiled.py": 1,  # readers and writers of message types: names of their fields, and bounds
}
"""How often a file has code made and run, of its own texts and of numbers."""


def _runs_code(path: Path) -> Iterator[str]:
    """Yield the ways in which a file runs code from data: modules, calls of ``eval``, ``exec`` or an unsafe load."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Import(names):
                yield from (each.name for each in names if each.name.partition(".")[0] in UNSAFE)
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in UNSAFE:
                yield module
            case ast.Call(func=ast.Name(id="eval" | "exec" | "__import__" as called)):
                yield called
            case ast.Call(func=ast.Attribute(value=ast.Name("yaml"), attr=str(load))) if not load.startswith("safe_"):
                yield f"yaml.{load}"
            case ast.Call(func=ast.Attribute(attr="save_state" | "load_state" as kept)):
                yield kept  # of the package kademlia, by pickle
            case ast.Call(keywords=keywords) if any(
                each.arg in ("allow_pickle", "shell") and getattr(each.value, "value", True) for each in keywords
            ):
                yield "allow_pickle or shell"


def test_no_code_is_made_of_data() -> None:
    """Nothing unpickles, and nothing evaluates text except the places listed above with their reason."""
    found = {str(path.relative_to(ROOT)): list(_runs_code(path)) for path in CODE if _module(path)}
    running = {name: runs for name, runs in found.items() if runs}
    assert {name: len(runs) for name, runs in running.items()} == MADE_HERE, running
    assert {run for runs in running.values() for run in runs} <= {"eval", "exec"}, running


@pytest.mark.parametrize(
    "text",
    [
        "import pickle", "from marshal import loads", "import dill.settings", "eval('1')", "exec(x)", "yaml.load(x)",
        "yaml.unsafe_load(x)", "server.save_state(x)", "numpy.load(x, allow_pickle=True)", "run(x, shell=True)",
    ],
)  # fmt: skip
def test_code_that_is_made_of_data_is_found(tmp_path: Path, text: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(text)
    assert list(_runs_code(path))
