"""Install a wheel into a fresh environment, use it, and run the unit tests against it, far from the source.

Usage: ``python tests/tidy/wheel_run.py dist/p2prdf-*.whl [--install-only] [pytest arguments]``
(``make wheel-test``, ``make install-check``).  Only this shows that the wheel lacks a file: in the checkout every file
can be imported.  The script needs nothing but Python.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEST_TOOLS = ("pytest", "pytest-asyncio", "hypothesis")
IN_THE_WHEEL = ("p2prdf", "p2prdf_node", "p2prdf_cli")
MISSING = re.compile(r"^E\s+ModuleNotFoundError: (?:No module named '(\w+)|\S+ needs (\w+))", re.MULTILINE)
COMMAND_SECONDS = 60
DATA = "<urn:install:a> <urn:install:says> \"hello\" .\n"
QUERY = "SELECT ?text WHERE { <urn:install:a> <urn:install:says> ?text }"


def main(arguments: list[str]) -> int:
    """Run and return pytest's exit status, or 0 after ``--install-only``."""
    wheel, *options = arguments
    with tempfile.TemporaryDirectory(prefix="p2prdf-wheel-") as folder:
        place = Path(folder)
        python = _install(place / "venv", Path(wheel).resolve())
        where = "import p2prdf, sys; print(p2prdf.__file__)"
        found = subprocess.run([python, "-c", where], cwd=place, check=True, text=True, capture_output=True).stdout
        assert found.startswith(str(place)), f"the tests would import the source tree: {found}"
        _use(python.with_name("p2prdf"), place)
        if "--install-only" in options:
            return 0
        subprocess.run([python, "-m", "pip", "install", "--quiet", *_test_tools()], check=True)
        _copy_tests(place)
        left_out = [f"--ignore={path}" for path in _needing_more(python, place)]
        command = [python, "-m", "pytest", "-q", "unit", *left_out, *options]
        return subprocess.run(command, cwd=place, check=False).returncode


# --- the installation ----------------------------------------------------------------------------


def _install(place: Path, wheel: Path) -> Path:
    """Make a virtual environment with the wheel and its dependencies; print seconds, megabytes and packages."""
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    python = place / "bin" / "python"
    before, began = _bytes(place), time.monotonic()
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    seconds, megabytes = time.monotonic() - began, (_bytes(place) - before) / 1e6
    listing = [python, "-m", "pip", "list", "--format=freeze"]
    listed = subprocess.run(listing, check=True, text=True, capture_output=True).stdout
    names = {line.partition("==")[0].lower() for line in listed.split()} - {"pip", "setuptools", "wheel"}
    print(f"pip install {wheel.name}: {seconds:.0f} s, {megabytes:.0f} MB, {len(names)} packages", flush=True)
    tools = {_name(requirement) for requirement in _extra("dev")} - {_name(each) for each in _project()["dependencies"]}
    assert not names & tools, f"a runtime installation has development tools: {sorted(names & tools)}"
    return python


def _bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def _project() -> dict[str, list[str]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _extra(name: str) -> list[str]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"][name]


def _name(requirement: str) -> str:
    return re.split(r"[^\w-]", requirement, maxsplit=1)[0].lower()


# --- its commands --------------------------------------------------------------------------------


def _use(program: Path, place: Path) -> None:
    """Start a node in a new home folder, subscribe and publish; print the seconds."""
    (place / "home").mkdir()
    (place / "data.nt").write_text(DATA)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("P2PRDF_", "PYTHON", "XDG_"))}
    environment = kept | {"HOME": str(place / "home")}
    began = time.monotonic()
    with _node(program, place, environment) as address:
        common = {"cwd": place, "env": environment, "text": True}
        subscribe = [program, "subscribe", QUERY, "--peer", address, "--count", "1"]
        with subprocess.Popen(subscribe, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **common) as subscriber:
            assert subscriber.stderr is not None
            subscribed = subscriber.stderr.readline()
            assert subscribed.startswith("p2prdf: subscription "), subscribed
            for words in (("publish", "data.nt"), ("status",)):
                command = [program, *words, "--peer", address]
                done = subprocess.run(command, capture_output=True, timeout=COMMAND_SECONDS, check=False, **common)
                assert done.returncode == 0, f"p2prdf {words[0]}: exit code {done.returncode}: {done.stderr}"
            solutions, _ = subscriber.communicate(timeout=COMMAND_SECONDS)
            assert solutions == '?text\n"hello"\n', f"p2prdf subscribe: {solutions!r}"
    print(f"p2prdf node, subscribe, publish, status: {time.monotonic() - began:.1f} s", flush=True)


@contextlib.contextmanager
def _node(program: Path, place: Path, environment: dict[str, str]) -> Iterator[str]:
    """Run ``p2prdf node`` and give its address; stop it afterwards, and check that it ends with 0."""
    with (place / "node.log").open("wb") as log, subprocess.Popen(
        [program, "node", "--listen", "127.0.0.1:0"], cwd=place, env=environment, stdout=subprocess.PIPE, stderr=log,
        text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("ready "), f"p2prdf node: {(place / 'node.log').read_text()}"
            yield line.split()[1]
            process.terminate()
            assert process.wait(COMMAND_SECONDS) == 0, (place / "node.log").read_text()
        finally:
            process.kill()


# --- the unit tests ------------------------------------------------------------------------------


def _test_tools() -> list[str]:
    return [requirement for requirement in _extra("dev") if _name(requirement) in TEST_TOOLS]


def _copy_tests(place: Path) -> None:
    """Copy the unit tests, their shared modules and pytest's settings, but not the project file.

    The project file names the source tree.
    """
    for name, target in (("unit", place / "unit"), ("support", place / "tests" / "support")):
        shutil.copytree(ROOT / "tests" / name, target, ignore=shutil.ignore_patterns("__pycache__"))
    for shared in (ROOT / "tests").glob("conftest.py"):
        shutil.copy(shared, place / "unit")
    project = (ROOT / "pyproject.toml").read_text()
    section = project[project.index("[tool.pytest.ini_options]") :].split("\n[", 1)[0]
    (place / "pyproject.toml").write_text(section.replace('testpaths = ["tests"]', ""))


def _needing_more(python: Path, place: Path) -> list[str]:
    """Return the test modules that need the laboratory or a package of an extra; print their number.

    A missing module of the wheel itself is not among them, so its tests fail.
    """
    listing = [python, "-m", "pytest", "-q", "--collect-only", "unit"]
    output = subprocess.run(listing, cwd=place, check=False, text=True, capture_output=True).stdout
    needed: dict[str, str] = {}
    for section in re.split(r"^_+ ERROR collecting ", output, flags=re.MULTILINE)[1:]:
        missing = MISSING.search(section)
        if missing and (name := missing[1] or missing[2]) not in IN_THE_WHEEL:
            needed[section.split()[0]] = name
    print(f"{len(needed)} test modules left out, which need {', '.join(sorted(set(needed.values())))}", flush=True)
    return list(needed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
