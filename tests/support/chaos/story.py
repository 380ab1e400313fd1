"""One run: a cluster, clients, faults, rest, verdict."""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from chaos import workload
from chaos.cluster import Cluster, NodeFailed
from chaos.faults import FaultOptions, Faults, Kill
from chaos.following import Follower
from chaos.judge import Judge
from chaos.probes import Probes
from chaos.publishing import Publication, Publisher, Source
from chaos.queries import Query
from chaos.report import GAP_AFTER_SECONDS, Report, gaps

__all__ = ["Happenings", "Options", "play", "play_on"]

PUBLISHERS: Final = 3
FOLLOWERS: Final = 3
LATE_FOLLOWERS: Final = 3
"""Followers that come during the faults, one after each third of the time."""
QUIET_SECONDS: Final = 2.0
"""Seconds without any further answer before the verdict."""
POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run."""

    seconds: float = 60.0
    kills_max: int | None = None
    """Stop after this number of kills even if there is time left."""
    nodes: int = 5
    seed: int = 1
    publications_per_second: float = 20.0
    """Publications a second by all publishers together, of 1 to 40 triples each."""
    rest_seconds: float = 60.0
    """Bound in seconds for publications, and then for answers, after the last fault."""
    give_up: float = 0.1
    """Share of broken publications that are given up."""
    reconnect_seconds: float = 0.0
    """Seconds for which the publishers' library looks for another node; an error that it does not hide is a problem."""
    proxy: bool = False
    hogs: int = 0
    """Number of extra processes of normal priority, each of which uses a whole processor, until the verdict."""
    faults: FaultOptions = field(default_factory=FaultOptions)
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of every node."""
    folder: Path | None = None
    """Folder of logs and data, which are kept."""


class Happenings(Protocol):
    """Events of a cluster while clients publish and subscribe; for :class:`Faults`, kills and cuts."""

    kills: list[Kill]
    counts: Counter[str]
    """The number of events, by kind."""
    whole_seconds: list[float]
    """Seconds from an event until the cluster was whole again."""

    async def run(self, *, until: float = float("inf"), kills_max: int | None = None) -> None:
        """Run the events; all nodes run at the end.  Raises NodeFailed."""
        ...


async def play(options: Options) -> Report:
    """Run and judge.  Errors end up in the report."""
    cluster = Cluster(
        options.nodes, options.settings, behind_proxy=options.proxy, folder=options.folder, seed=options.seed
    )
    with _hogs(options.hogs):
        return await play_on(cluster, options, Faults(cluster, options.faults, options.seed))


@contextlib.contextmanager
def _hogs(count: int) -> Iterator[None]:
    """Keep processors busy; the processes end with this one, however it ends."""
    code = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"
    hogs = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


async def play_on(
    cluster: Cluster, options: Options, happenings: Happenings, *, before_closing: Callable[[], None] = lambda: None
) -> Report:
    """Start a cluster, run the events, judge, and take the cluster down; call ``before_closing`` before that."""
    try:
        await cluster.start()
        report = await _Story(cluster, options, happenings).play()
        report.problems += cluster.failures + await cluster.stop()
        report.problems += [
            f"{node.name}: {count} tracebacks in its log"
            for node in (*cluster.nodes, *cluster.former)
            if (count := node.tracebacks())
        ]
        if not report.good:
            cluster.keep = True
            report.problems.append(f"logs and data are kept in {cluster.folder}")
        before_closing()
        return report
    finally:
        await cluster.close()


class _Story:
    """The parts of one run while it goes on."""

    def __init__(self, cluster: Cluster, options: Options, happenings: Happenings):
        self._cluster = cluster
        self._happenings = happenings
        self._options = options
        self._rng = random.Random(options.seed)
        self._addresses = cluster.addresses
        self._probes = Probes()
        self._publications = workload.publications(options.seed)
        self._stopped = False
        self._followers: list[Follower] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._report = Report({**asdict(options), "folder": str(cluster.folder)})

    async def play(self) -> Report:
        """Run all parts in order."""
        queries = workload.generated_queries() + workload.real_queries()
        for number in range(FOLLOWERS):
            self._follow(queries[number::FOLLOWERS])
        for number in range(2):
            self._follow(self._probes.queries[number::2], probes=True)
        await asyncio.gather(*(follower.live.wait() for follower in self._followers))
        begun = time.monotonic()
        publishers = [self._publisher(self._next_publication) for _ in range(PUBLISHERS)]
        prober = self._publisher(self._probes.next_publication)
        publishing = [asyncio.create_task(each.run()) for each in publishers]
        probing = asyncio.create_task(prober.run())
        late = asyncio.create_task(self._late(queries))
        try:
            await self._happenings.run(until=begun + self._options.seconds, kills_max=self._options.kills_max)
        except NodeFailed as failed:
            self._report.problems.append(str(failed))
        late.cancel()
        self._report.seconds = time.monotonic() - begun
        self._stopped = True
        last_gap = asyncio.create_task(asyncio.sleep(GAP_AFTER_SECONDS))
        await asyncio.wait([*publishing, last_gap], timeout=self._options.rest_seconds)
        self._probes.stop()
        await asyncio.wait([probing], timeout=self._options.rest_seconds)
        publishers.append(prober)
        publishing.append(probing)
        ledger = [publication for each in publishers for publication in each.publications]
        judge = Judge(ledger, started_at=begun)
        await self._rest(judge)
        for task in (*publishing, *self._tasks):
            task.cancel()
        await asyncio.gather(*publishing, *self._tasks, late, return_exceptions=True)
        self._tell(judge, ledger, publishers)
        return self._report

    # --- clients ---------------------------------------------------------------------------------

    def _follow(self, queries: Sequence[Query], *, probes: bool = False) -> None:
        rng = random.Random(self._rng.getrandbits(64))
        follower = Follower(self._addresses, queries, rng, arrived=self._probes.take) if probes else Follower(
            self._addresses, queries, rng
        )  # fmt: skip
        self._followers.append(follower)
        self._tasks.append(asyncio.create_task(follower.run()))

    async def _late(self, queries: Sequence[Query]) -> None:
        """Subscribe to some queries again while faults happen: publications from then on count."""
        for number in range(LATE_FOLLOWERS):
            await asyncio.sleep(self._options.seconds / (LATE_FOLLOWERS + 1))
            self._follow(queries[number :: len(queries) // 4])

    def _publisher(self, source: Source) -> Publisher:
        rng = random.Random(self._rng.getrandbits(64))
        options = self._options
        return Publisher(
            self._addresses, source, rng, give_up=options.give_up, reconnect_seconds=options.reconnect_seconds
        )

    async def _next_publication(self) -> Publication | None:
        """Return a publisher's next publication after a while that makes up the rate wanted."""
        due = time.monotonic() + self._rng.expovariate(self._options.publications_per_second / PUBLISHERS)
        await asyncio.sleep(due - time.monotonic())
        return None if self._stopped else Publication(next(self._publications), due)

    async def _rest(self, judge: Judge) -> None:
        """Wait until everything owed is there and nothing more comes, up to a bound."""
        followed = [each for follower in self._followers for each in follower.followed if each.token is not None]
        deadline = time.monotonic() + self._options.rest_seconds
        count, since = -1, 0.0
        while time.monotonic() < deadline:
            now = sum(len(each.answers) + len(each.taken_back) + each.repeated for each in followed)
            if now != count:
                count, since = now, time.monotonic()
            if time.monotonic() - since > QUIET_SECONDS and judge.complete(followed):
                return
            await asyncio.sleep(POLL_SECONDS)

    # --- the end ---------------------------------------------------------------------------------

    def _tell(self, judge: Judge, ledger: Sequence[Publication], publishers: Sequence[Publisher]) -> None:
        report, faults = self._report, self._happenings
        followed = [each for follower in self._followers for each in follower.followed if each.token is not None]
        report.verdict, report.queries = judge.judge_all(followed)
        report.losses = judge.losses(followed)
        failures = sum((each.failures for each in publishers), Counter[str]())
        acknowledged = [publication for publication in ledger if publication.acknowledged_at]
        report.publications = {
            "publications_attempted": len(ledger),
            "publications_acknowledged": len(acknowledged),
            "triples_attempted": sum(len(publication.triples) for publication in ledger),
            "triples_acknowledged": sum(len(publication.triples) for publication in acknowledged),
            "attempts": sum(len(publication.attempts) for publication in ledger),
            "unfinished": sum(each.unfinished for each in publishers),
            "errors": sum(count for code, count in failures.items() if code.startswith("refused")),
        }
        report.failures = {
            "publishers": dict(failures),
            "subscribers": dict(sum((each.failures for each in self._followers), Counter[str]())),
        }
        report.faults = dict(faults.counts)
        report.delays = self._probes.delays(0.0, float("inf"))
        report.gaps = gaps(faults.kills, self._probes)
        begun = judge.started_at
        report.outages = self._probes.outages(begun)
        report.kills = [replace(kill, at=kill.at - begun, back_at=kill.back_at - begun) for kill in faults.kills]
        report.whole = faults.whole_seconds
        report.proxy = dict(self._cluster.proxy.counts) if self._cluster.proxy is not None else {}
        to_be_hidden = self._options.reconnect_seconds > 0
        report.problems += [
            f"publisher: {count:,} {code}"
            for code, count in failures.items()
            if to_be_hidden or code.startswith("refused")
        ]
        if report.publications["unfinished"]:
            report.problems.append(f"{report.publications['unfinished']} publications were never acknowledged")
