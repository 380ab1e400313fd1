"""Type the commands of README as a newcomer does: in a fresh clone, with an empty home and a new virtual environment.

``python -m newcomer`` prints the words of README, the commands typed, and the seconds from ``pip install`` to the first
solution.  ``pip`` downloads the dependencies, unless ``PIP_NO_INDEX`` and ``PIP_FIND_LINKS`` name a folder of wheels.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from documents import DocumentFails, Session, Typed, run

__all__ = ["main", "report"]

ROOT = Path(__file__).parents[2]
SECONDS = 900.0
"""Deadline of one command: an installation downloads 100 MB."""


def report(text: str, transcript: list[Typed]) -> str:
    """Return words of a README, commands typed, and seconds from the installation to the first solution."""
    typed = [each for each in transcript if each.command.text and each.command.text != "^C"]
    began = next(each.began for each in typed if each.command.text.startswith("pip install"))
    installed = next(each.ended for each in typed if each.command.text.startswith("pip install"))
    first = next(each.ended for each in transcript if not each.command.text)  # later output in another terminal
    return (
        f"words of README                          {len(text.split()):6}\n"
        f"commands typed                           {len(typed):6}\n"
        f"seconds of pip install                   {installed - began:6.1f}\n"
        f"seconds from pip install to first answer {first - began:6.1f}"
    )


def main() -> int:
    """Run README in a clone of this repository; return 1 if a command's output differs from README."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "p2prdf"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        text = (clone / "README.md").read_text("utf-8")
        programs = os.pathsep.join(  # neither this environment nor another one that is active
            part for part in os.environ.get("PATH", "").split(os.pathsep)
            if not (Path(part).parent / "pyvenv.cfg").exists()
        )  # fmt: skip
        environment = {"PATH": programs, "PYTHONPATH": "", "VIRTUAL_ENV": "", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        with Session(clone, seconds=SECONDS, environment=environment) as session:
            try:
                # The output of pip is no part of README.
                run(text.replace("$ pip install .\n", "$ pip install . > pip.log 2>&1\n"), session, install=True)
            except DocumentFails as error:
                print(error, file=sys.stderr)
                if (clone / "pip.log").exists():
                    print(*(clone / "pip.log").read_text().splitlines()[-5:], sep="\n", file=sys.stderr)
                return 1
        print(report(text, session.transcript))
    return 0


if __name__ == "__main__":
    sys.exit(main())
