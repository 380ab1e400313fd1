"""Install a wheel into a fresh environment and run the unit tests against it, far from the source.

Usage: ``python tests/tidy/wheel_run.py dist/p2prdf-*.whl [pytest arguments]`` (``make wheel-test``).
What the wheel forgot to pack shows here, and only here: in the checkout every file is importable.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEST_TOOLS = ("pytest", "pytest-asyncio", "hypothesis")


def main(arguments: list[str]) -> int:
    """Run and return pytest's exit status."""
    wheel, *options = arguments
    with tempfile.TemporaryDirectory(prefix="p2prdf-wheel-") as folder:
        place = Path(folder)
        python = _environment(place / "venv", Path(wheel).resolve())
        _copy_tests(place)
        where = "import p2prdf, sys; print(p2prdf.__file__)"
        found = subprocess.run([python, "-c", where], cwd=place, check=True, text=True, capture_output=True).stdout
        assert found.startswith(str(place)), f"the tests would import the source tree: {found}"
        return subprocess.run([python, "-m", "pytest", "-q", "unit", *options], cwd=place, check=False).returncode


def _environment(place: Path, wheel: Path) -> Path:
    """Make a virtual environment that holds the wheel, its dependencies and the test tools."""
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    python = place / "bin" / "python"
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]
    tools = [requirement for requirement in declared if requirement.split(">=")[0] in TEST_TOOLS]
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel), *tools], check=True)
    return python


def _copy_tests(place: Path) -> None:
    """Copy the unit tests, what they share and pytest's settings; the project file itself names the source tree."""
    for name, target in (("unit", place / "unit"), ("support", place / "tests" / "support")):
        shutil.copytree(ROOT / "tests" / name, target, ignore=shutil.ignore_patterns("__pycache__"))
    for shared in (ROOT / "tests").glob("conftest.py"):
        shutil.copy(shared, place / "unit")
    project = (ROOT / "pyproject.toml").read_text()
    section = project[project.index("[tool.pytest.ini_options]") :].split("\n[", 1)[0]
    (place / "pyproject.toml").write_text(section.replace('testpaths = ["tests"]', ""))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
