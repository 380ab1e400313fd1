"""Apache Jena Fuseki as a process, where Java and its jar are there.

The jar is that of ``org.apache.jena:jena-fuseki-server`` in Maven's local repository
(``mvn dependency:get -Dartifact=org.apache.jena:jena-fuseki-server:5.6.0 -Dtransitive=false``), or the one that
P2PRDF_FUSEKI_JAR names.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

__all__ = ["Fuseki", "missing"]

_REPOSITORY: Final = Path.home() / ".m2/repository/org/apache/jena/jena-fuseki-server"
_STARTED: Final = re.compile(r"Start Fuseki \(http=([0-9]+)\)")


def _jar() -> Path | None:
    named = os.environ.get("P2PRDF_FUSEKI_JAR")
    if named:
        return Path(named)
    return max(_REPOSITORY.glob("*/jena-fuseki-server-*.jar"), default=None)


def missing() -> str:
    """Return the missing prerequisite, empty if none is missing."""
    if shutil.which("java") is None:
        return "there is no Java"
    jar = _jar()
    return "" if jar is not None and jar.exists() else "its jar is not in the local repository of Maven"


class Fuseki:
    """A dataset in memory, or in TDB2 in a folder, with ``/ds/update`` and ``/ds/query``."""

    def __init__(self, folder: Path, *, tdb2: bool = False):
        self._folder = folder
        self._where = ["--tdb2", f"--loc={folder / 'tdb'}"] if tdb2 else ["--mem"]
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Fuseki:
        """Begin it, and wait until it listens."""
        (self._folder / "tdb").mkdir(parents=True, exist_ok=True)
        command = ["java", "-Xmx512m", "-cp", str(_jar()), "org.apache.jena.fuseki.main.cmds.FusekiMainCmd"]
        self._process = subprocess.Popen(
            [*command, "--update", "--localhost", f"--port={self.port}", *self._where, "/ds"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self._folder,
        )  # fmt: skip
        assert self._process.stdout is not None
        said = []
        for line in self._process.stdout:
            said.append(line)
            found = _STARTED.search(line)
            if found:
                self.port = int(found[1])
                return self
        raise AssertionError("Fuseki did not start:\n" + "".join(said))

    @property
    def url(self) -> str:
        """The dataset."""
        return f"http://127.0.0.1:{self.port}/ds"

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
