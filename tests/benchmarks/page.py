"""Run benchmarks and write their output into docs/benchmarks.md: ``make benchmarks``.

Each section of the page holds the output of one section of ``make bench``, with the command, the commit, the date
and the machine's load at that moment.  A run of some sections replaces these and leaves the others.  The page is
therefore a record of commands: no figure on it is typed by hand.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "benchmarks.md"
SECTION: Final = re.compile(r"<!-- section: (?P<name>\w+) -->\n.*?<!-- end: (?P=name) -->\n", re.DOTALL)
"""One section of the page, with its markers."""

HEAD: Final = """# Benchmarks

All measured figures of the project, written by `make benchmarks`. Each section is the output of one
command, with the commit, the date and the load of the machine at its start. `make benchmarks
ARGS='daemons publishing'` replaces two sections and leaves the others.

The first lines of a section name its configuration: copies, durability and indexes. "Default" means
the defaults of `p2prdf node`: three copies, two of them acknowledged, every index. Latency counts
from the caller's call to the caller's answer; the delay in section `settled` counts from the
acknowledgement, and is negative if the subscriber reads the solution first. Figures of the papers'
experiments are in [experiments.md](experiments.md); results of fault tests are in
[reliability.md](reliability.md).

"""


def machine() -> str:
    """Return processor, cores, memory, system and Python of this machine in one line."""
    described = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            described = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    return f"{described}, {os.cpu_count()} cores, {memory:.0f} GiB, {system}, Python {platform.python_version()}"


def commit() -> str:
    """Return the commit that is measured; ``+`` behind it: with changes that are not committed."""
    asked = ["git", "-C", str(ROOT)]
    name = subprocess.run([*asked, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    changed = subprocess.run([*asked, "status", "--porcelain", "--", "p2prdf", "node", "cli", "lab", "tests"],
                             capture_output=True, text=True, check=True)  # fmt: skip
    return name.stdout.strip() + ("+" if changed.stdout.strip() else "")


def section(name: str, output: str, *, quick: bool, at: datetime.datetime, load: float, revision: str) -> str:
    """Return one section of the page."""
    command = f"make bench ARGS='{name}{' --quick' if quick else ''}'"
    text = "\n".join(line.rstrip() for line in output.strip().splitlines())
    return (
        f"<!-- section: {name} -->\n## {name}\n\n"
        f"`{command}` at {revision}, {at:%Y-%m-%d}, load {load:.1f} before it.\n{machine()}.\n\n"
        f"```\n{text}\n```\n<!-- end: {name} -->\n"
    )


def replaced(page: str, sections: dict[str, str], order: list[str]) -> str:
    """Return the page with ``sections`` in the place of those of their names, all in ``order``."""
    held = {found["name"]: found.group() for found in SECTION.finditer(page)} | sections
    return HEAD + "\n".join(held[name] for name in order if name in held)


def main() -> int:
    """Run the sections asked for, one process each; return 1 if one of them missed its bar."""
    from run import SECTIONS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="default: all")
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    arguments = parser.parse_args()
    good, order = True, list(SECTIONS)
    for name in arguments.sections or order:
        print(f"{name} ...", flush=True)
        at, load, revision = datetime.datetime.now(tz=datetime.UTC), os.getloadavg()[0], commit()
        command = [sys.executable, str(Path(__file__).with_name("run.py")), name, *["--quick"] * arguments.quick]
        outcome = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        good &= outcome.returncode == 0
        text = section(name, outcome.stdout, quick=arguments.quick, at=at, load=load, revision=revision)
        PAGE.write_text(replaced(PAGE.read_text() if PAGE.exists() else "", {name: text}, order))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
