"""The other mode: subscribers are processes that write a file, and they are killed, again and again.

They are ``p2prdf subscribe --name NAME --output FILE``, as users run it under a supervisor: started again
whenever it ends.  Each is killed at a random moment of its life: while it starts, while it takes its
subscription up, while it writes.  At the end its file must hold every answer owed, each once, numbered without
a gap.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from chaos import workload
from chaos.cluster import Cluster, NodeFailed
from chaos.faults import FaultOptions, Faults
from chaos.following import Followed
from chaos.judge import Judge
from chaos.publishing import Publication, Publisher
from chaos.queries import NS, Query
from chaos.report import Report
from p2prdf.rdf.terms import to_json

__all__ = ["Subscriber", "SubscriberOptions", "play_subscriber_kills"]

LIVE_SECONDS: Final = 30.0
REST_SECONDS: Final = 60.0
QUIET_SECONDS: Final = 2.0
POLL_SECONDS: Final = 0.1
AGAIN_SECONDS: Final = 0.1
LEASE_SECONDS: Final = 3600.0
UNAVAILABLE: Final = 3
"""Exit code of a command that found no node."""
QUERIES: Final = (
    Query((("?s", f"<{NS}of>", "?o"),), ("?s", "?o")),
    Query((("?r", f"<{NS}of>", "?d"), ("?d", f"<{NS}class>", "?c")), ("?r", "?c")),
)


@dataclass(frozen=True, slots=True)
class SubscriberOptions:
    """The options of a run."""

    kills: int = 100
    life_seconds: tuple[float, float] = (0.0, 3.0)
    """Seconds from a start to the next kill."""
    nodes: int = 5
    seed: int = 1
    publications_per_second: float = 20.0
    faults: FaultOptions | None = None
    """Faults of the nodes in the meantime."""
    settings: Mapping[str, object] = field(default_factory=dict)
    folder: Path | None = None


def _environment() -> dict[str, str]:
    """Return the environment of a subscriber's process: it finds this package where this process did."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


class Subscriber:
    """One subscriber: a process, its output and its state, over all its incarnations.

    ``kills``: of living processes.  ``ended``: how often one ended by itself, by exit code.
    """

    def __init__(self, query: Query, addresses: list[str], folder: Path, name: str):
        self.followed = Followed(query)
        self.output = folder / f"{name}.jsonl"
        self.log = folder / f"{name}.log"
        self.kills = 0
        self.ended: Counter[int] = Counter()
        self._command = [
            sys.executable, "-m", "p2prdf_cli", "subscribe", query.text, "--peer", ",".join(addresses), "--json",
            "--name", name, "--state", str(folder / "names"), "--output", str(self.output),
            "--lease", str(LEASE_SECONDS),
        ]  # fmt: skip
        self._process: asyncio.subprocess.Process | None = None
        self._began = asyncio.Event()

    async def keep_running(self) -> None:
        """Start the process, and again whenever it has ended, until cancelled; kill it then."""
        try:
            while True:
                with self.log.open("ab") as log:
                    self._process = await asyncio.create_subprocess_exec(
                        *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, env=_environment()
                    )
                self._began.set()
                code = await self._process.wait()
                if code != -signal.SIGKILL:
                    self.ended[code] += 1
                    await asyncio.sleep(AGAIN_SECONDS)
        finally:
            if self._process is not None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()

    async def kill(self) -> None:
        """SIGKILL, when there is a process, and wait until the next one has been started."""
        while self._process is None or self._process.returncode is not None:
            self._began.clear()
            await self._began.wait()
        with contextlib.suppress(ProcessLookupError):
            self._began.clear()
            self._process.kill()
            self.kills += 1
            await self._began.wait()

    async def until_live(self) -> None:
        """Wait until its subscription is there.  Raises NodeFailed."""
        deadline = time.monotonic() + LIVE_SECONDS
        while not self.log.exists() or b"subscription " not in self.log.read_bytes():
            if time.monotonic() > deadline:
                raise NodeFailed(f"no subscription after {LIVE_SECONDS:.0f} s: {self.tail()}")
            await asyncio.sleep(POLL_SECONDS)
        self.followed.live_at = time.monotonic()

    def tail(self) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-2000:].strip()

    @property
    def lines(self) -> int:
        """Answers in the file, the last one perhaps torn."""
        return self.output.read_bytes().count(b"\n") if self.output.exists() else 0

    def read(self, known: Mapping[str, str]) -> None:
        """Take in the file; ``known``: canonical terms by how JSON spells them.  Raises ValueError if it is torn."""
        for number, line in enumerate(self.output.read_text().splitlines(), 1):
            answer = json.loads(line)
            if answer["sequence"] != number:
                raise ValueError(f"line {number} has number {answer['sequence']}")
            spelled = (json.dumps(answer["bindings"][name[1:]], sort_keys=True) for name in self.followed.query.select)
            row = tuple(known.get(text, text) for text in spelled)
            before = self.followed.answers.setdefault(int(answer["identity"], 16), row)
            if before is not row:
                self.followed.repeated += 1
                self.followed.contradicted += before != row


async def play_subscriber_kills(options: SubscriberOptions) -> Report:
    """Run and judge."""
    cluster = Cluster(options.nodes, options.settings, folder=options.folder, seed=options.seed)
    try:
        await cluster.start()
        report = await _play(cluster, options)
        report.problems += cluster.failures + await cluster.stop()
        if not report.good:
            cluster.keep = True
            report.problems.append(f"logs, outputs and data are kept in {cluster.folder}")
        return report
    finally:
        await cluster.close()


async def _play(cluster: Cluster, options: SubscriberOptions) -> Report:
    rng = random.Random(options.seed)
    addresses = [node.address for node in cluster.nodes]
    subscribers = [
        Subscriber(query, addresses, cluster.folder, f"subscriber{number}") for number, query in enumerate(QUERIES)
    ]
    report = Report({**asdict(options), "folder": str(cluster.folder)})
    source = _Source(options, rng)
    publisher = Publisher(addresses, source.next_publication, random.Random(rng.getrandbits(64)))
    faults = Faults(cluster, options.faults or FaultOptions(), options.seed)
    running = [asyncio.create_task(subscriber.keep_running()) for subscriber in subscribers]
    try:
        for subscriber in subscribers:
            await subscriber.until_live()
        begun = time.monotonic()
        publishing = asyncio.create_task(publisher.run())
        failing = asyncio.create_task(faults.run()) if options.faults else None
        await asyncio.gather(
            *(
                _kill_again_and_again(each, len(range(number, options.kills, len(subscribers))), options, rng)
                for number, each in enumerate(subscribers)
            )
        )
        if failing is not None:
            faults.stop()
            await failing
        report.seconds = time.monotonic() - begun
        source.stopped = True
        await asyncio.wait([publishing], timeout=REST_SECONDS)
        judge = Judge(publisher.publications, started_at=begun)
        await _rest(judge, subscribers)
        publishing.cancel()
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)
    _tell(report, judge, publisher, subscribers, faults)
    return report


class _Source:
    """Pieces of the generated stream at a steady rate."""

    def __init__(self, options: SubscriberOptions, rng: random.Random):
        self.stopped = False
        self._publications = workload.publications(options.seed, real_share=0.0)
        self._rate = options.publications_per_second
        self._rng = rng

    async def next_publication(self) -> Publication | None:
        due = time.monotonic() + self._rng.expovariate(self._rate)
        await asyncio.sleep(due - time.monotonic())
        return None if self.stopped else Publication(next(self._publications), due)


async def _kill_again_and_again(
    subscriber: Subscriber, times: int, options: SubscriberOptions, rng: random.Random
) -> None:
    for _ in range(times):
        await asyncio.sleep(rng.uniform(*options.life_seconds))
        await subscriber.kill()


async def _rest(judge: Judge, subscribers: list[Subscriber]) -> None:
    """Wait until each file has at least the answers owed, and no more are added, up to a bound."""
    deadline = time.monotonic() + REST_SECONDS
    count, since = -1, 0.0
    while time.monotonic() < deadline:
        now = sum(each.lines for each in subscribers)
        if now != count:
            count, since = now, time.monotonic()
        if time.monotonic() - since > QUIET_SECONDS and all(
            each.lines >= judge.owed(each.followed).total() for each in subscribers
        ):
            return
        await asyncio.sleep(POLL_SECONDS)


def _tell(
    report: Report, judge: Judge, publisher: Publisher, subscribers: list[Subscriber], faults: Faults
) -> None:
    terms = {term for publication in publisher.publications for triple in publication.triples for term in triple}
    known = {json.dumps(to_json(term), sort_keys=True): term for term in terms}
    for subscriber in subscribers:
        try:
            subscriber.read(known)
        except (ValueError, KeyError) as error:
            report.problems.append(f"{subscriber.output.name} is torn: {error}")
    followed = [each.followed for each in subscribers]
    report.verdict, report.queries = judge.judge_all(followed)
    report.losses = judge.losses(followed)
    report.faults = {"subscribers_killed": sum(each.kills for each in subscribers), **faults.counts}
    report.publications = {
        "publications_attempted": len(publisher.publications),
        "publications_acknowledged": sum(1 for publication in publisher.publications if publication.acknowledged_at),
        "triples_attempted": sum(len(publication.triples) for publication in publisher.publications),
        "unfinished": publisher.unfinished,
    }
    ended = sum((each.ended for each in subscribers), Counter())
    report.failures = {
        "publishers": dict(Counter(publisher.failures)),
        "subscribers": {f"exit code {code}": count for code, count in ended.items()},
    }
    for subscriber in subscribers:
        if not set(subscriber.ended) <= {UNAVAILABLE}:
            report.problems.append(f"{subscriber.output.name}: the command failed: {subscriber.tail()}")
    if publisher.unfinished:
        report.problems.append(f"{publisher.unfinished} publications were never acknowledged")
