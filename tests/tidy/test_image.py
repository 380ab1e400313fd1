"""``make image`` finds an engine that works, and hands pip's settings to the build without leaving them in it."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def image() -> ModuleType:
    """The script, as a module."""
    spec = importlib.util.spec_from_file_location("image", ROOT / "deploy/image.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH beside the shell's own programs: engines are put there."""
    folder = tmp_path / "engines"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("ENGINE", raising=False)
    return folder


def _engine(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_a_client_without_its_engine_is_passed_over(image: ModuleType, engines: Path) -> None:
    _engine(engines, "docker", "echo 'Cannot connect to the Docker daemon at unix:///x.' >&2; exit 0")
    _engine(engines, "podman", "exit 125")
    _engine(engines, "buildah", "exit 0")
    assert image.working_engine() == "buildah"
    with pytest.raises(image.Failed, match="docker: Cannot connect to the Docker daemon"):
        image.working_engine(("docker", "podman"))


def test_a_missing_engine_is_named(
    image: ModuleType, engines: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert image.main(["build"]) == 1
    assert "buildah: not installed" in capsys.readouterr().err
    monkeypatch.setenv("ENGINE", "lxc")
    assert image.main(["check"]) == 1
    assert "ENGINE=lxc: use one of docker, podman" in capsys.readouterr().err
    assert image.main([]) == 2


def test_settings_of_pip_are_handed_to_the_build_as_secrets(
    image: ModuleType, engines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    authorities = tmp_path / "ca.pem"
    authorities.write_text("certificates")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:word@index.example/simple")
    monkeypatch.setenv("PIP_CERT", str(authorities))
    monkeypatch.setenv("PIP_FIND_LINKS", "/folder/of/this/machine")
    monkeypatch.setenv("BASE", "local-base")
    shows = """
        [ "$1" = image ] && echo 300000000
        [ "$1" = build ] || exit 0
        echo "$@"
        for word; do
            case $word in *pip-settings*) while read -r line; do echo "$line"; done < "${word#*src=}";; esac
        done"""
    _engine(engines, "podman", shows)
    assert image.main(["build"]) == 0
    out = capfd.readouterr().out
    command, *settings = [line for line in out.splitlines() if line and not line.startswith("build --quiet")]
    assert "--format=docker" in command
    assert "--no-cache" in command, "the cache does not see changed wheels of a mounted stage"
    assert "--build-arg PYTHON_IMAGE=local-base" in command
    assert "word@index" not in command
    assert settings[0] == "[global]"
    assert set(settings[1:-1]) >= {
        "index-url = https://user:word@index.example/simple", "cert = /run/secrets/pip-authorities",
    }  # fmt: skip
    assert not any("find-links" in line for line in settings)
    assert settings[-1].startswith("p2prdf:latest: built by podman in ")
    assert settings[-1].endswith("300 MB, 0 MB above local-base")


def test_a_build_falls_back_to_a_chroot_where_no_container_starts(
    image: ModuleType, engines: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BASE", "local-base")
    refuses = """
        case "$*" in
            build*--isolation=chroot*) echo "$@";;
            build*) echo "no cgroups" >&2; exit 1;;
            image*) echo 1;;
        esac"""
    _engine(engines, "podman", refuses)
    assert image.main(["build"]) == 0
    assert "--isolation=chroot" in capfd.readouterr().out
    _engine(engines, "podman", 'case "$1" in build) echo "no cgroups" >&2; exit 1;; esac')
    assert image.main(["build"]) == 1
    assert "no cgroups" in capfd.readouterr().err


@pytest.mark.parametrize(("command", "file"), [("build", "Dockerfile"), ("fleet", "fleet.Dockerfile")])
def test_each_image_is_built_from_its_dockerfile_with_the_settings_of_pip(
    image: ModuleType, engines: Path, capfd: pytest.CaptureFixture[str], command: str, file: str
) -> None:
    _engine(engines, "docker", 'case "$1" in build) echo "$@";; image) echo 1;; esac')
    assert image.main([command]) == 0
    built = capfd.readouterr().out
    assert f"--file {ROOT / 'deploy' / file} " in built
    assert f"--tag {'p2prdf' if command == 'build' else 'p2prdf-fleet'}:latest" in built
    text = (ROOT / "deploy" / file).read_text()
    for secret in ("id=pip-settings,target=/etc/pip.conf", "id=pip-authorities,target=/run/secrets/pip-authorities"):
        assert f"--mount=type=secret,{secret}" in text
    assert "PIP_BREAK_SYSTEM_PACKAGES=1 pip install" in text, "pip of Debian installs into the system only with this"
