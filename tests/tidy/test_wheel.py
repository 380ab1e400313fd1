"""The wheel holds the three packages, typed, and nothing else at top level; the laboratory has a wheel of its own."""

from __future__ import annotations

import tomllib
import zipfile
from pathlib import Path

import hatchling.build
import pytest

ROOT = Path(__file__).parents[2]


def _names(source: Path, folder: Path) -> list[str]:
    """Return the names in a wheel that the backend builds in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(source)
        wheel = hatchling.build.build_wheel(str(folder))
    with zipfile.ZipFile(folder / wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return _names(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def names_of_lab(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return _names(ROOT / "lab", tmp_path_factory.mktemp("wheel"))


def test_top_level_is_the_three_packages(names: list[str]) -> None:
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top == {"p2prdf", "p2prdf_node", "p2prdf_cli"}


def test_every_module_of_the_checkout_is_in_the_wheel(names: list[str]) -> None:
    for folder in ("p2prdf", "node/p2prdf_node", "cli/p2prdf_cli"):
        base = ROOT / folder
        expected = {f"{base.name}/{path.relative_to(base).as_posix()}" for path in base.rglob("*.py")}
        assert not expected - set(names)


def test_wheel_of_the_laboratory_has_its_package_alone(names_of_lab: list[str]) -> None:
    assert {name.split("/")[0] for name in names_of_lab if ".dist-info/" not in name} == {"p2prdf_lab"}
    base = ROOT / "lab/p2prdf_lab"
    expected = {f"p2prdf_lab/{path.relative_to(base).as_posix()}" for path in base.rglob("*.py")}
    assert expected | {"p2prdf_lab/py.typed"} <= set(names_of_lab)


def test_program_that_runs_lucene_is_in_the_wheel_of_the_laboratory(names_of_lab: list[str]) -> None:
    lucene = "p2prdf_lab/competitors/lucene"
    assert {f"{lucene}/StandingQueries.java", f"{lucene}/pom.xml"} <= set(names_of_lab)


def test_laboratory_needs_the_version_of_p2prdf_beside_it() -> None:
    files = (ROOT / "pyproject.toml", ROOT / "lab/pyproject.toml")
    product, lab = (tomllib.loads(file.read_text())["project"] for file in files)
    assert lab["version"] == product["version"]
    assert lab["dependencies"] == [f"p2prdf=={product['version']}"]


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
    assert not (ROOT / "lab/__init__.py").exists()
