"""Interest replicas: the share of a dataset's changes that concerns one interest, its cost, and its growth.

Tables 2 and 3 and figures 4a to 4e of the iRap paper, on a feed of the paper's proportions
(:mod:`p2prdf_lab.workloads.changeset_feed`) with changesets as large as the paper's, or on changesets of a folder.
The time of a changeset includes reading its N-Triples, evaluating it, and writing the result to a store of pyoxigraph.
None of these steps waits, so the time is processor time of the whole process, which the load of the machine does not
change.  The elapsed time stands beside it.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from p2prdf.errors import LocalProtocolError
from p2prdf.interest import Changeset, Interests, Triple, parse_interest
from p2prdf.rdf.ntriples import read_triples
from p2prdf.replica.changeset_files import ChangesetFolder, read_changeset
from p2prdf.replica.embedded import EmbeddedStore
from p2prdf.replica.target import parts_of
from p2prdf_lab.experiments.interest_replica_result import Bounded, Followed, Many, Measured, Span, result_of
from p2prdf_lab.experiments.results import Result
from p2prdf_lab.experiments.setting import Progress, quiet
from p2prdf_lab.workloads.changeset_feed import FOOTBALL, LOCATION, Feed, FeedShape

__all__ = ["ReplicaSetting", "interest_replica"]

_GRAPH = "<urn:slice>"
_CLASSES = "http://dbpedia.org/ontology/Class"
_MANY_ROUNDS = 30


@dataclass(frozen=True, slots=True)
class ReplicaSetting:
    """Input and sizes: a feed or the changesets of a folder, and the number of interests in one pass."""

    shape: FeedShape
    interests: int = 10_000
    folder: Path | None = None

    def validate(self) -> None:
        """Raise LocalProtocolError for a setting that cannot be run."""
        self.shape.validate()
        if not 2 <= self.interests <= 100_000:
            raise LocalProtocolError(f"{self.interests} interests: there are 2 to 100,000")
        if self.folder is not None and not ChangesetFolder(self.folder).scan().ready:
            raise LocalProtocolError(f"{self.folder}: there are no changesets")

    def as_dict(self) -> dict[str, str | int | float]:
        """Return the setting as plain values."""
        if self.folder is not None:
            return {"changesets of": self.folder.name, "interests in one pass": self.interests}
        return {
            "triples of the Football slice": self.shape.slice_triples, "changesets of a day": self.shape.changesets,
            "interests in one pass": self.interests, "seed": self.shape.seed,
        }  # fmt: skip


def interest_replica(setting: ReplicaSetting, progress: Progress = quiet) -> Result:
    """Follow a feed with both interests, with bounds, and with many interests at once."""
    setting.validate()
    followed = []
    for number, (name, text) in enumerate((("Football", FOOTBALL), ("Location", LOCATION))):
        progress(number / 5)
        followed.append(asyncio.run(_follow(name, text, setting)))
    progress(0.4)
    bounded = _bounded(setting)
    progress(0.6)
    many = [_many(count, setting) for count in (1, setting.interests)]
    progress(1.0)
    return result_of(setting.as_dict(), Measured(tuple(followed), bounded, tuple(many), setting.folder is None))


# --- one interest ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Counts:
    """Running counts of one interest over a span of changesets."""

    label: str
    changesets: int = 0
    removed: int = 0
    added: int = 0
    interesting_removed: int = 0
    interesting_added: int = 0
    potential: int = 0
    source_bytes: int = 0
    sent_bytes: int = 0
    seconds: list[tuple[float, float, float]] = field(default_factory=list)
    elapsed: list[float] = field(default_factory=list)


async def _follow(name: str, text: str, setting: ReplicaSetting) -> Followed:
    interests = Interests()
    interests.add(name, parse_interest(text))
    target = EmbeddedStore(None, dataset="experiment", graph=_GRAPH)
    start, feed = _fed(setting)
    cursor: str | None = None
    mirror = 0
    chunk: list[Triple] = []
    for triple in start:
        mirror += 1
        chunk.append(triple)
    interests.apply(Changeset(added=tuple(chunk)))
    for number, (less, more) in enumerate(parts_of([], interests.target(name), 50_000)):
        await target.update(less, more, before=cursor, after=f"start {number}")
        cursor = f"start {number}"
    begun = (interests.target_size(name), mirror)
    spans: dict[str, _Counts] = {}
    sizes: list[tuple[int, int, int]] = [(mirror, begun[0], interests.potential_size(name))]
    for label, changeset in feed:
        counts = spans.setdefault(label, _Counts(label))
        data = [_lines(changeset.removed), _lines(changeset.added)]
        clock, began = time.perf_counter(), time.process_time()
        read = Changeset(_read(data[0]), _read(data[1]), changeset.sequence)
        was_read = time.process_time()
        made = interests.apply(read)
        worked_out = time.process_time()
        change = made.union
        if change:
            await target.update(change.deletions, change.insertions, before=cursor, after=str(changeset.sequence))
            cursor = str(changeset.sequence)
        done = time.process_time()
        counts.seconds.append((was_read - began, worked_out - was_read, done - worked_out))
        counts.elapsed.append(time.perf_counter() - clock)
        _, potential = made.potential(name)
        counts.changesets += 1
        counts.removed += len(changeset.removed)
        counts.added += len(changeset.added)
        counts.interesting_removed += len(change.removed)
        counts.interesting_added += len(change.added)
        counts.potential += len(potential) - len(change.demoted)
        counts.source_bytes += sum(map(len, data))
        counts.sent_bytes += len(_lines((*change.deletions, *change.insertions)))
        mirror += len(changeset.added) - len(changeset.removed)
        sizes.append((mirror, interests.target_size(name), interests.potential_size(name)))
    found = {triple async for triple in target.triples()}
    exact = found == set(interests.target(name)) == _from_scratch(text, setting)
    return Followed(name, begun[0], tuple(map(_span, spans.values())), tuple(sizes), exact)


def _span(counts: _Counts) -> Span:
    read, evaluated, written = (sum(each) / len(counts.seconds) for each in zip(*counts.seconds, strict=True))
    elapsed = sum(counts.elapsed) / len(counts.elapsed)
    return Span(
        counts.label, counts.changesets, counts.removed, counts.added, counts.interesting_removed,
        counts.interesting_added, counts.potential, counts.source_bytes, counts.sent_bytes, read, evaluated, written,
        elapsed, max(counts.elapsed),
    )  # fmt: skip


def _fed(setting: ReplicaSetting) -> tuple[Iterable[Triple], Iterator[tuple[str, Changeset]]]:
    """Return the initial dataset of a feed, and its changesets with their spans."""
    if setting.folder is None:
        feed = Feed(setting.shape)
        return feed.start(), ((f"day {day + 1}", changeset) for day, changeset in feed.changesets())

    def changesets(folder: Path) -> Iterator[tuple[str, Changeset]]:
        for number, files in enumerate(ChangesetFolder(folder).scan().ready, 1):
            yield files.position.rpartition("/")[0] or folder.name, read_changeset(files, sequence=number)

    # A triple that is removed without an earlier addition was in the initial dataset.
    known: set[Triple] = set()
    start: dict[Triple, None] = {}
    for _, changeset in changesets(setting.folder):
        start.update((triple, None) for triple in changeset.removed if triple not in known)
        known.update((*changeset.removed, *changeset.added))
    return start, changesets(setting.folder)


def _from_scratch(text: str, setting: ReplicaSetting) -> set[Triple]:
    """Return the target of an interest in the final dataset, computed from scratch."""
    start, feed = _fed(setting)
    dataset = dict.fromkeys(start)
    for _, changeset in feed:
        for triple in changeset.removed:
            dataset.pop(triple, None)
        dataset.update(dict.fromkeys(changeset.added))
    interests = Interests()
    interests.add("it", parse_interest(text))
    interests.apply(Changeset(added=tuple(dataset)))
    return set(interests.target("it"))


def _lines(triples: Iterable[Triple]) -> bytes:
    return "".join(f"{s} {p} {o} .\n" for s, p, o in triples).encode()


def _read(data: bytes) -> tuple[Triple, ...]:
    batches = read_triples(io.BytesIO(data), publication_id="feed", strict=True)
    return tuple(triple for batch in batches for triple in zip(batch.s, batch.p, batch.o, strict=True))


# --- with bounds -----------------------------------------------------------------------------------------


def _bounded(setting: ReplicaSetting) -> tuple[Bounded, ...]:
    """Return the completeness of targets with a bound on potentially interesting triples.

    The feed is reordered: names and labels come first, the triples that make them interesting later.
    """
    late = _late(setting.shape.changesets * 40)
    found = []
    exact: set[Triple] = set()
    for share in (None, 0.5, 0.25, 0.1, 0.0):
        most = None if share is None else round(share * sum(len(each) for each in late) / 2)
        interests = Interests(potential_max=most)
        interests.add("it", parse_interest(FOOTBALL))
        for changeset in late:
            interests.apply(changeset)
        target = set(interests.target("it"))
        exact = exact or target
        assert target <= exact, "a bound adds nothing"
        found.append(Bounded(most, interests.potential_size("it"), len(target) / len(exact)))
    return tuple(found)


def _late(players: int) -> list[Changeset]:
    """Return changesets with each player's name before the player's other triples; longer delays are rarer."""
    feed = Feed(FeedShape(max(1000, players * 3 + players // 20), 2))
    triples = list(feed.start())
    by_player = [tuple(triples[at : at + 3]) for at in range(0, len(triples) - 2, 3)]
    names, rest = [], []
    for number, each in enumerate(by_player):
        names.append((number, each[1:2]))
        rest.append((number + len(by_player) * (number % 16) ** 2 // 256, (*each[:1], *each[2:])))
    ordered = [part for _, part in sorted((*names, *rest), key=lambda each: each[0])]
    return [
        Changeset.of((), (triple for part in ordered[at : at + 400] for triple in part), number)
        for number, at in enumerate(range(0, len(ordered), 400))
    ]


# --- many interests --------------------------------------------------------------------------------------


def _many(count: int, setting: ReplicaSetting) -> Many:
    """Return the cost of one pass with many interests, each in the people of one class, with their names and teams.

    The interests share patterns with common predicates and have constants of their own.  The feed is the same.
    """
    interests = Interests()
    began = time.process_time()
    for number in range(count):
        text = FOOTBALL.replace("dbo:SoccerPlayer", f"<{_CLASSES}{number}>")
        interests.add(str(number), parse_interest(text))
    added = time.process_time() - began
    shape = FeedShape(min(setting.shape.slice_triples, 60_000), max(2, _MANY_ROUNDS // 5), setting.shape.seed)
    feed = Feed(shape)
    interests.apply(Changeset(added=tuple(_classed(feed.start(), setting.interests))))
    seconds, changed = [], 0
    for _, changeset in feed.changesets():
        classed = Changeset(
            tuple(_classed(changeset.removed, setting.interests)), tuple(_classed(changeset.added, setting.interests))
        )
        began = time.process_time()
        changed += len(interests.apply(classed).changes)
        seconds.append(time.process_time() - began)
    held = sum(interests.target_size(name) for name in interests)
    return Many(count, added, sum(seconds) / len(seconds), changed, held)


def _classed(triples: Iterable[Triple], classes: int) -> Iterator[Triple]:
    """Yield triples with players in many classes, by player number; half of the players are in the first class."""
    for s, p, o in triples:
        if o == "<http://dbpedia.org/ontology/SoccerPlayer>":
            number = int(s[s.rindex("_") + 1 : -1])
            o = f"<{_CLASSES}{0 if number % 2 else number // 2 % classes}>"
        yield s, p, o

