"""Build the images with docker, podman or buildah, and check a node's image with three containers and a client.

Usage: ``python deploy/image.py build`` (``make image``), ``python deploy/image.py fleet`` (``make fleet-image``: the
drivers and executors of Spark) and ``python deploy/image.py check`` (``make image-check``).
The script needs nothing but Python and an engine that works.  Environment variables:

``ENGINE``  docker, podman or buildah; by default the first of these whose engine answers (not its client alone)
``BASE``    base image with Python 3.11 or newer and pip, also a local one; by default that of deploy/Dockerfile
``TAG``     name of the image, by default ``p2prdf:latest``, of the fleet ``p2prdf-fleet:latest``

pip's settings (index, trusted hosts, proxy, certificate authorities) reach the build as secrets: neither the image
nor its history holds them.  docs/how-to/build-an-image.md says how a base is made without a registry.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENGINES = ("docker", "podman", "buildah")
ANSWER_SECONDS = 20
CHECK_SECONDS = 120
NODES = 3
MODERATE = 16384
"""Open files and processes of a container, where the engine's own limits are not allowed."""
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout", "retries")
"""Settings of pip that hold in a container too; others name files of this machine."""


class Failed(Exception):
    """The build or the check failed; the text says why and what to do."""


def main(arguments: list[str]) -> int:
    """Run ``build``, ``fleet`` or ``check``; return the exit code."""
    if arguments not in (["build"], ["fleet"], ["check"]):
        print("usage: python deploy/image.py build|fleet|check", file=sys.stderr)
        return 2
    tag = os.environ.get("TAG") or ("p2prdf-fleet:latest" if arguments == ["fleet"] else "p2prdf:latest")
    try:
        if arguments == ["build"]:
            build(tag)
        elif arguments == ["fleet"]:
            build(tag, "deploy/fleet.Dockerfile")
        else:
            check(tag)
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


# --- engines -------------------------------------------------------------------------------------


def working_engine(choices: tuple[str, ...] = ENGINES) -> str:
    """Return the engine to use.  Raises Failed, with what each one answered, if none works."""
    wished = os.environ.get("ENGINE")
    if wished and wished not in choices:
        raise Failed(f"ENGINE={wished}: use one of {', '.join(choices)}")
    answers = []
    for name in [wished] if wished else choices:
        if shutil.which(name) is None:
            answers.append(f"{name}: not installed")
            continue
        try:
            done = subprocess.run(
                [name, "info"], capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            answers.append(f"{name}: `{name} info` did not answer within {ANSWER_SECONDS} s")
            continue
        # docker exits with 0 in some versions although only the client answered.
        if done.returncode == 0 and "Cannot connect to the Docker daemon" not in done.stdout + done.stderr:
            return name
        answers.append(f"{name}: {_last_line(done.stderr or done.stdout)}")
    raise Failed("no container engine works here; install one of them, or start it:\n  " + "\n  ".join(answers))


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["(no message)"])[-1]


def _limits() -> list[str]:
    """Return options with moderate limits: by default engines ask for more than some machines allow."""
    limits = (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC))
    hard = ((name, resource.getrlimit(number)[1]) for name, number in limits)
    chosen = ((name, MODERATE if most == resource.RLIM_INFINITY else min(most, MODERATE)) for name, most in hard)
    return [f"--ulimit={name}={most}:{most}" for name, most in chosen]


def _first_that_works(commands: list[list[str]], *, purpose: str) -> int:
    """Return the position of the first command that succeeds.  Raises Failed with the errors of all."""
    errors = []
    for position, command in enumerate(commands):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return position
        errors.append(f"{' '.join(command)}: {_last_line(done.stderr)}")
    raise Failed(f"{purpose} fails:\n  " + "\n  ".join(errors))


# --- build ---------------------------------------------------------------------------------------


def build(tag: str, dockerfile: str = "deploy/Dockerfile") -> None:
    """Build an image and print engine, seconds and size."""
    engine = working_engine()
    began = time.monotonic()
    base = os.environ.get("BASE")
    with tempfile.TemporaryDirectory(prefix="p2prdf-image-") as folder:
        command = [engine, "build", *_build_options(engine, base, Path(folder)), *_pip_secrets(Path(folder))]
        for name in PROXIES:
            command += ["--build-arg", name] if name in os.environ else []
        command += ["--build-arg", f"PYTHON_IMAGE={base}"] if base else []
        command += ["--file", str(ROOT / dockerfile), "--tag", tag, str(ROOT)]
        done = subprocess.run(command, check=False, env=os.environ | {"DOCKER_BUILDKIT": "1"})
    if done.returncode != 0:
        raise Failed(f"{engine} could not build {tag}; its message is above")
    seconds = time.monotonic() - began
    print(f"{tag}: built by {engine} in {seconds:.0f} s, {_sizes(engine, tag, base)}")


def _build_options(engine: str, base: str | None, folder: Path) -> list[str]:
    """Return the options that this engine needs.

    podman and buildah write images in a format without HEALTHCHECK by default, and their cache ignores that the files
    of a mounted stage changed: a second build would install the wheels of the first one.  Where their container runtime
    does not work (nested containers, hybrid cgroups), they build in a plain chroot.
    """
    if engine == "docker":
        return []
    options = ["--format=docker", "--no-cache"]
    if base is None:
        return options
    probe = folder / "probe"
    probe.mkdir()
    (probe / "Dockerfile").write_text(f"FROM {base}\nRUN true\n")
    ways: list[list[str]] = [[], ["--isolation=chroot"]]
    commands = [[engine, "build", "--quiet", "--no-cache", *way, str(probe)] for way in ways]
    return options + ways[_first_that_works(commands, purpose=f"RUN in an image made from {base}")]


def _pip_secrets(folder: Path) -> list[str]:
    """Write pip's settings of this machine into files; return the options that hand them to the build."""
    found = _pip_settings()
    lines = [f"{name} = {' '.join(value.split())}" for name, value in found.items() if name in PIP_SETTINGS]
    options = []
    authorities = Path(found.get("cert", ""))
    if authorities.is_file():
        options += ["--secret", f"id=pip-authorities,src={authorities.resolve()}"]
        lines.append("cert = /run/secrets/pip-authorities")
    if lines:
        (folder / "pip.conf").write_text("\n".join(["[global]", *lines, ""]))
        options += ["--secret", f"id=pip-settings,src={folder / 'pip.conf'}"]
    return options


def _pip_settings() -> dict[str, str]:
    """Return pip's settings by name, of its files and, before these, of the environment."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    found: dict[str, str] = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        with contextlib.suppress(ValueError, SyntaxError):
            found[name.rpartition(".")[2]] = str(ast.literal_eval(value))
    return found


def _sizes(engine: str, tag: str, base: str | None) -> str:
    size = _size(engine, tag)
    text = f"{size / 1e6:.0f} MB"
    return f"{text}, {(size - _size(engine, base)) / 1e6:.0f} MB above {base}" if base else text


def _size(engine: str, image: str) -> int:
    if engine == "buildah":  # tells sizes as text only
        asked = [engine, "images", "--json", image]
        listed = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        number, unit = json.loads(listed)[0]["size"].split()
        return int(float(number) * {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}[unit.upper()])
    asked = [engine, "image", "inspect", "--format", "{{.Size}}", image]
    return int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)


# --- check ---------------------------------------------------------------------------------------

CLIENT = '''
import asyncio, sys
import p2prdf

PEERS, HALF = sys.argv[1], 500
SAYS = "<urn:image-check:says>"

def part(first):
    return [(f"<urn:image-check:{n}>", SAYS, f'"{n}"') for n in range(first, first + HALF)]

async def main():
    async with p2prdf.connect(PEERS) as client:
        subscription = await client.subscribe(f"SELECT ?s ?o WHERE {{ ?s {SAYS} ?o }}")
        seen = []

        async def read():
            async for solution in subscription:
                seen.append(solution.terms)
                if len(set(seen)) == 2 * HALF:
                    return

        reader = asyncio.create_task(read())
        await client.publish(part(0))
        print("published", flush=True)
        await asyncio.to_thread(sys.stdin.readline)  # a node is killed meanwhile
        await client.publish(part(HALF))
        async with asyncio.timeout(60):
            await reader
        print(f"solutions {len(seen)} different {len(set(seen))} published {2 * HALF}", flush=True)

asyncio.run(main())
'''


def check(tag: str) -> None:
    """Run three nodes and a client of the image, kill a node, and compare what the client received."""
    engine = working_engine(("docker", "podman"))
    began = time.monotonic()
    _check_settings(engine, tag)
    mark = f"p2prdf-check-{uuid.uuid4().hex[:8]}"
    names = [f"{mark}-{n}" for n in range(1, NODES + 1)]
    with _network(engine, mark, [*names, f"{mark}-client"]):
        start = [*_run_command(engine, tag), f"--network={mark}"]
        secret = uuid.uuid4().hex + uuid.uuid4().hex
        seeds = ",".join(f"{name}:7400" for name in names[:2])
        for name in names:
            settings = {"SECRET": secret, "BOOTSTRAP": seeds, "ADVERTISE": f"{name}:7400"}
            options = [f"--env=P2PRDF_{key}={value}" for key, value in settings.items()]
            guards = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
            _run([*start, "--detach", f"--name={name}", *options, *guards, tag])
        _wait_until_all_know_each_other(engine, names)
        peers = ",".join(f"{name}:7400" for name in names)
        line = _kill_one_meanwhile(
            [*start, "--interactive", f"--name={mark}-client", "--entrypoint=python3", tag, "-c", CLIENT, peers],
            [engine, "kill", names[0]],
        )
    words = line.split()
    if words[1:2] != words[5:6] or words[3:4] != words[5:6]:
        raise Failed(f"answers were lost or repeated: {line}")
    print(
        f"{tag}: {_size(engine, tag) / 1e6:.0f} MB; {NODES} containers of {engine}, one killed between publications: "
        f"{words[5]} triples published, {words[1]} solutions, each once; {time.monotonic() - began:.0f} s"
    )


def _check_settings(engine: str, tag: str) -> None:
    asked = subprocess.run([engine, "image", "inspect", tag], capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        raise Failed(f"{engine} has no image {tag}; `make image` builds it")
    described = json.loads(asked.stdout)[0]
    config = described["Config"]
    if not (config.get("Healthcheck") or described.get("HealthCheck") or described.get("Healthcheck")):
        raise Failed(f"{tag} has no HEALTHCHECK: build it in docker's format (--format=docker)")
    if config.get("User") != "10001:10001":
        raise Failed(f"{tag} runs as {config.get('User') or 'root'}, not as 10001:10001")


def _run_command(engine: str, tag: str) -> list[str]:
    """Return the beginning of ``run`` for this engine and machine, with its limits and another runtime if need be."""
    ways = [[engine, "run"], [engine, "run", *_limits()]]
    if engine == "podman":
        ways.append([engine, "--runtime=runc", "run", *_limits()])
    commands = [[*way, "--rm", "--network=none", "--entrypoint=true", tag] for way in ways]
    return ways[_first_that_works(commands, purpose=f"a container of {tag}")]


@contextlib.contextmanager
def _network(engine: str, name: str, containers: list[str]) -> Iterator[None]:
    """Make a network; in the end remove it, the containers and their volumes."""
    _run([engine, "network", "create", name])
    try:
        yield
    finally:
        for container in containers:
            subprocess.run([engine, "rm", "--force", "--volumes", container], capture_output=True, check=False)
        _run([engine, "network", "rm", name])


def _wait_until_all_know_each_other(engine: str, names: list[str]) -> None:
    deadline = time.monotonic() + CHECK_SECONDS
    waiting = list(names)
    while waiting:
        asked = [engine, "exec", waiting[0], "p2prdf", "status", "--peer", f"{waiting[0]}:7400", "--json"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0 and len(json.loads(done.stdout)["peers"]) == len(names) - 1:
            waiting.pop(0)
        elif time.monotonic() > deadline:
            logs = subprocess.run([engine, "logs", waiting[0]], capture_output=True, text=True, check=False)
            said = _last_line(done.stderr) if done.returncode else "it does not know all others"
            raise Failed(f"{waiting[0]} is not ready after {CHECK_SECONDS} s: {said}\n{logs.stderr[-2000:]}")
        else:
            time.sleep(0.5)


def _kill_one_meanwhile(client: list[str], kill: list[str]) -> str:
    """Run the client; kill a node between its two publications; return its last line."""
    with subprocess.Popen(client, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "published\n":
            process.kill()
            raise Failed("the client could not publish; its message is above")
        _run(kill)
        try:
            out, _ = process.communicate("go on\n", timeout=CHECK_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Failed(f"the client did not receive all solutions within {CHECK_SECONDS} s") from None
    if process.returncode != 0:
        raise Failed(f"the client ended with {process.returncode}; its message is above")
    return _last_line(out)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command[:3])} ...: {_last_line(done.stderr)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
