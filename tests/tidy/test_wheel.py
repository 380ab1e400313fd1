"""The wheel holds the three packages, typed, and nothing else at top level."""

from __future__ import annotations

import zipfile
from pathlib import Path

import hatchling.build
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Names in a wheel built by the backend itself (no isolated environment: this is about contents)."""
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        wheel = hatchling.build.build_wheel(str(folder))
    with zipfile.ZipFile(folder / wheel) as archive:
        return archive.namelist()


def test_top_level_is_the_three_packages(names: list[str]) -> None:
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top == {"p2prdf", "p2prdf_node", "p2prdf_cli"}


def test_every_module_of_the_checkout_is_in_the_wheel(names: list[str]) -> None:
    for folder in ("p2prdf", "node/p2prdf_node", "cli/p2prdf_cli"):
        base = ROOT / folder
        expected = {f"{base.name}/{path.relative_to(base).as_posix()}" for path in base.rglob("*.py")}
        assert not expected - set(names)


def test_the_program_that_runs_lucene_is_in_the_wheel(names: list[str]) -> None:
    assert {"p2prdf/sim/lucene/StandingQueries.java", "p2prdf/sim/lucene/pom.xml"} <= set(names)


def test_the_console_is_in_the_wheel(names: list[str]) -> None:
    page = ROOT / "p2prdf/gateway/page"
    needed = {f"p2prdf/gateway/page/{path.name}" for path in page.iterdir()}
    assert {"p2prdf/gateway/page/index.html", "p2prdf/gateway/page/main.js"} <= needed <= set(names)


def test_packages_are_marked_as_typed_and_the_licence_is_there(names: list[str]) -> None:
    assert {"p2prdf/py.typed", "p2prdf_node/py.typed", "p2prdf_cli/py.typed"} <= set(names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_folders_that_are_not_packages_have_no_init() -> None:
    assert not (ROOT / "node/__init__.py").exists()
    assert not (ROOT / "cli/__init__.py").exists()
