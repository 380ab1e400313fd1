"""A replica as a process that dies at a chosen point, and a history to replicate.

``python -m replica_runner FOLDER TARGET STATE [--die-at N]`` applies the changesets of FOLDER to TARGET (the
URL of an endpoint, or a folder of files) and keeps its state in STATE.  There is a point to die at before and
after each update and each time the state is written; the N-th one ends the process with status 9, and if there
are fewer it ends well.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import os
import random
import subprocess
import sys
from pathlib import Path

from interest_histories import UNIVERSE, Written, slice_of

from p2prdf.interest import Interests, Triple, parse_interest
from p2prdf.replica.changeset_files import ChangesetFolder, read_changeset, read_file
from p2prdf.replica.endpoint import Endpoint, EndpointConfig
from p2prdf.replica.hosts import Hosts
from p2prdf.replica.replica import Replica
from p2prdf.replica.target import Target
from p2prdf.replica.triple_files import TripleFiles

GRAPH = "<http://example.org/slice>"
WRITTEN = Written(((("?a <urn:p0> ?b", "?b <urn:p1> ?c"), ""), (("?a <urn:p2> ?d",), "")))
DIED = 9


def write_history(folder: Path, seed: int, changesets: int = 12) -> set[Triple]:
    """Write a start and changesets; return the dataset after the last."""
    rng = random.Random(seed)
    dataset = set(rng.sample(UNIVERSE, 90))
    _write(folder / "start.nt", sorted(dataset))
    for number in range(1, changesets + 1):
        removed = rng.sample(sorted(dataset), rng.randrange(12))
        added = rng.sample(UNIVERSE, rng.randrange(14))
        _write(folder / f"changes/{number:06}.removed.nt.gz", removed)
        _write(folder / f"changes/{number:06}.added.nt.gz", added)
        dataset = (dataset - set(removed)) | set(added)
    return dataset


def _write(path: Path, triples: list[Triple]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(f"{s} {p} {o} .\n" for s, p, o in triples).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def expected(dataset: set[Triple]) -> set[Triple]:
    """Return the right content of the target."""
    return slice_of(dataset, WRITTEN)[0]


def run(folder: Path, target: str, state: Path, *, die_at: int = 0) -> int:
    """Run the process to its end; return its exit status."""
    return subprocess.run(
        [sys.executable, "-m", "replica_runner", str(folder), target, str(state), "--die-at", str(die_at)],
        check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ).returncode  # fmt: skip


class Points:
    """Counts points, and dies at one."""

    def __init__(self, die_at: int):
        self._left = die_at

    def pass_one(self) -> None:
        """Pass a point, or die."""
        self._left -= 1
        if self._left == 0:
            os._exit(DIED)


def open_target(name: str, *, attempts: int = 6) -> Target:
    """Return the target of a name, with at most three triples in an update."""
    if not name.startswith("http"):
        return TripleFiles(Path(name))
    config = EndpointConfig(f"{name}/update", f"{name}/query", GRAPH, 3, attempts=attempts, pause_seconds=0.01)
    return Endpoint(config, dataset="data", hosts=Hosts(["127.0.0.1"], private=True))


async def follow(folder: Path, target: Target, state: Path, points: Points) -> Replica:
    """Resume a replica or begin it, and apply all changesets."""
    replica = Replica.load(state, target)
    if replica is None:
        interests = Interests()
        interests.add("it", parse_interest(WRITTEN.text))
        replica = Replica(interests, target, state=state)
        await replica.begin(read_file(folder / "start.nt"))
    else:
        await replica.resume()
    points.pass_one()
    for files in ChangesetFolder(folder / "changes").scan(replica.last_changeset).ready:
        await replica.apply(files.position, read_changeset(files))
        points.pass_one()
        if files.number % 4 == 0:
            replica.save()
            points.pass_one()
    return replica


async def _main(options: argparse.Namespace) -> None:
    points = Points(options.die_at)
    target = open_target(options.target)
    update = target.update

    async def counted(*args: object, **named: object) -> None:
        points.pass_one()
        await update(*args, **named)  # type: ignore[arg-type]
        points.pass_one()

    target.update = counted  # type: ignore[method-assign,assignment]
    replica = await follow(options.folder, target, options.state, points)
    assert (await replica.verify()).equal, "the target is not what it should be"
    await replica.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("target")
    parser.add_argument("state", type=Path)
    parser.add_argument("--die-at", type=int, default=0)
    asyncio.run(_main(parser.parse_args()))
