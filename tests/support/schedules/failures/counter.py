"""Writers that increment a counter by conditional transactions while peers crash and links are cut.

Each writer reads the counter by a one-time query, and replaces the value that it read by the next one, if the counter
has not changed since the stamp of the result.  With each new value it publishes a mark of its own, and the marks tell
which increments took effect.  Two increments of one value would leave a value below the number of acknowledged ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from p2prdf.columns import as_list
from p2prdf.errors import ChangedMeanwhile, error_from_code
from p2prdf.hlc import FIRST, GONE
from p2prdf.peer import PeerConfig
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.sim.faults import Faults
from p2prdf.sim.world import WorldOptions
from p2prdf.wire import contract
from p2prdf.wire.messages import WITHDRAWN
from schedules.failures.checkers import stored
from schedules.failures.links import SHAPES, draw_cut
from schedules.failures.options import Failures
from schedules.failures.world import FailingWorld

if TYPE_CHECKING:
    from p2prdf.sim.world import Node
    from p2prdf.wire.contract import Bookmark, Notify, Outcome

__all__ = ["Outcomes", "count_up"]

COUNTER, VALUE, BY = "<urn:counter>", "<urn:value>", "<urn:by>"
_QUERY = ConjunctiveQuery(((~0, ~1, 0),), (COUNTER, VALUE), (0,), ("v",))
_PATIENCE_SECONDS = 8.0


@dataclass
class Outcomes:
    """The end of one schedule, and the answers to the writers."""

    value: list[int] = field(default_factory=list)
    """The values at the end: one, if no update was lost."""
    marks: int = 0
    succeeded: int = 0
    missing: int = 0
    """Acknowledged increments without a mark at the end."""
    heard: Counter[str] = field(default_factory=Counter)

    @property
    def lost(self) -> bool:
        """Whether an acknowledged update was lost.

        The value is at least the number of acknowledged increments.  Others may have taken effect as well, also late:
        then the mark is there, and a later increment has replaced the value.
        """
        return len(self.value) != 1 or self.missing > 0 or not self.succeeded <= self.value[0] <= self.marks


@dataclass
class _Increment:
    """One increment: the value read, the stamp as of which it was read, and the attempt."""

    read: int
    version: int
    mark: str
    attempt: int
    doubtful: bool = False


class _Writer:
    """Reads and increments, one after the other.  Each turn ends the connections of the one before."""

    def __init__(self, world: FailingWorld, number: int, random: Random, outcomes: Outcomes, done: list[str]):
        self._world, self._number, self._random = world, number, random
        self._outcomes, self._done = outcomes, done
        self._turn = 0
        self._made = 0
        self._increment: _Increment | None = None
        self._rows: dict[int, int] = {}
        self._opened = 0
        self._node = world.nodes[0]
        self._subscription = 0
        self.stopped = False

    def go_on(self) -> None:
        """Begin the next turn: read, or repeat a transaction without an outcome."""
        self._turn += 1
        living = self._world.living()
        if self.stopped and self._increment is None:
            return
        self._world.schedule(_PATIENCE_SECONDS, self._lose_patience, self._turn)
        if not living:
            return
        self._node = self._random.choice(living)
        if self._increment:
            self._write()
        else:
            self._read()

    def _again(self, seconds: float) -> None:
        turn = self._turn = self._turn + 1
        self._world.schedule(seconds, self._go_on_in, turn)

    def _go_on_in(self, turn: int) -> None:
        if turn == self._turn:
            self.go_on()

    def _lose_patience(self, turn: int) -> None:
        if turn == self._turn:
            self._outcomes.heard["patience"] += 1
            if self._increment:
                self._increment.doubtful = True
            self.go_on()

    # --- reading ---------------------------------------------------------------------------------

    def _read(self) -> None:
        self._rows = {}
        salt = self._random.getrandbits(32) + 1
        self._world.request(
            self._node, lambda request: contract.Subscribe(request, _QUERY, since=FIRST, salt=salt),
            _Connection(self, self._turn),
        )  # fmt: skip

    def subscribed(self, outcome: contract.Subscribed, turn: int) -> None:
        """Ask for bookmarks."""
        self._opened, self._subscription = outcome.opened, outcome.subscription
        self._world.machines[self._node.index].listeners[outcome.subscription] = _Connection(self, turn)
        self._world.submit(self._node, contract.WantBookmarks(outcome.subscription, urgent=True))

    def notified(self, notify: Notify) -> None:
        """Take solutions and retractions."""
        texts = self._node.dictionary.texts(as_list(notify.bindings[0]))
        for identity, born, text in zip(as_list(notify.identity), as_list(notify.born), texts, strict=True):
            if born >= GONE:
                self._rows.pop(identity ^ WITHDRAWN, None)
            else:
                self._rows[identity] = int(text.strip('"'))

    def bookmarked(self, bookmark: Bookmark) -> None:
        """End the query; write, if there is a value."""
        if bookmark.stamp <= self._opened:
            return
        self._world.machines[self._node.index].listeners.pop(self._subscription, None)
        if self._world.alive(self._node):
            self._world.request(
                self._node, lambda request: contract.Unsubscribe(request, self._subscription), _Connection(self, -1)
            )
        if len(self._rows) != 1:
            self._outcomes.heard[f"{len(self._rows)} values read"] += 1
            self._again(0.2)
            return
        self._made += 1
        (value,) = self._rows.values()
        self._increment = _Increment(
            value, bookmark.stamp, f"<urn:by/{self._number}/{self._made}>", self._random.getrandbits(60) + 1
        )
        self._again(self._random.choice((0.0, self._random.uniform(0.0, 0.3))))

    # --- writing ---------------------------------------------------------------------------------

    def _write(self) -> None:
        step, node = self._increment, self._node
        assert step is not None
        rows = [
            (COUNTER, VALUE, f'"{step.read}"'), (COUNTER, VALUE, f'"{step.read + 1}"'), (COUNTER, BY, step.mark),
        ]  # fmt: skip
        intern, make = node.dictionary.intern_all, node.columns.column
        s, p, o = (make(intern(each), "uint32") for each in zip(*rows, strict=True))
        versions = make([step.version] * len(rows))
        self._world.request(
            node,
            lambda request: contract.Publish(
                request, step.attempt, 0, s, p, o, deletions=1, atomic=True, versions=(versions,),
                attempt=step.attempt,
            ),
            _Connection(self, self._turn),
        )  # fmt: skip

    def written(self, outcome: Outcome) -> None:
        """Take the outcome of a transaction."""
        step, heard = self._increment, self._outcomes.heard
        assert step is not None
        if isinstance(outcome, contract.Published):
            self._done.append(step.mark)
            heard["published"] += 1
            self._increment = None
        else:
            assert isinstance(outcome, contract.Failed), outcome
            error = error_from_code(outcome.code, outcome.text)
            heard[error.code] += 1
            if isinstance(error, ChangedMeanwhile):
                heard["doubtful"] += step.doubtful
                self._increment = None
        self._again(self._random.uniform(0.02, 0.4))

    def cut_off(self, turn: int) -> None:
        """Go on at another peer after a loss."""
        if turn == self._turn:
            if self._increment:
                self._increment.doubtful = True
            self._again(0.3)

    def completed(self, outcome: Outcome, turn: int) -> None:
        """Take an outcome of this turn."""
        if turn != self._turn:
            return
        if isinstance(outcome, contract.Subscribed):
            self.subscribed(outcome, turn)
        elif self._increment:
            self.written(outcome)
        else:
            self._again(0.3)


class _Connection:
    """The client's end of a request, or of a subscription, in one turn of a writer."""

    def __init__(self, writer: _Writer, turn: int):
        self._writer, self._turn = writer, turn

    def completed(self, _node: Node, _request: int, outcome: Outcome) -> None:
        self._writer.completed(outcome, self._turn)

    def notified(self, _node: Node, notify: Notify) -> None:
        if self._turn == self._writer._turn:
            self._writer.notified(notify)

    def bookmarked(self, bookmark: Bookmark) -> None:
        if self._turn == self._writer._turn:
            self._writer.bookmarked(bookmark)

    def ended(self, _why: str) -> None:
        self._writer.cut_off(self._turn)

    def cut_off(self, _node: Node) -> None:
        self._writer.cut_off(self._turn)


class _Nobody:
    """A client that does not mind the outcome."""

    def completed(self, *_: object) -> None:
        pass

    def cut_off(self, *_: object) -> None:
        pass


def count_up(seed: int, *, seconds: float = 12.0, writers: int = 3, failures: int = 3, replicas: int = 3) -> Outcomes:
    """Run one schedule; return its end."""
    random = Random(f"counter {seed}")
    config = PeerConfig(
        replicas=replicas, copies_min=min(2, replicas), durable=True, hot_keys=False, has_seeds=True, retry_seconds=0.3
    )
    tables = ("lists", "arrays")[seed % 2]
    faults = Faults(delay_min_seconds=0.001, delay_max_seconds=0.03, loss_probability=random.choice((0.0, 0.02)))
    options = WorldOptions(peers=5, seed=seed, config=config, faults=faults, tables=tables)  # type: ignore[arg-type]
    world = FailingWorld(options, Failures(publisher_crash_probability=0.0))
    world.run_for(6.0)
    outcomes = Outcomes()
    done: list[str] = []
    node = random.choice(world.nodes)
    intern, make = node.dictionary.intern_all, node.columns.column
    s, p, o = (make(intern([each]), "uint32") for each in (COUNTER, VALUE, '"0"'))
    world.request(node, lambda request: contract.Publish(request, 1, 0, s, p, o), _Nobody())
    world.run_for(3.0)
    made = [_Writer(world, number, random, outcomes, done) for number in range(writers)]
    for each in made:
        world.schedule(random.uniform(0.0, 1.0), each.go_on)
    for _ in range(failures):
        world.schedule(random.uniform(0.5, seconds * 0.8), _fail, world, random)
    world.run_for(seconds)
    for each in made:
        each.stopped = True
    world.run_for(25.0)
    now = [each for each in stored(world, 0) if each[0] == COUNTER]
    marks = {each[2] for each in now if each[1] == BY}
    outcomes.value = sorted(int(each[2].strip('"')) for each in now if each[1] == VALUE)
    outcomes.marks, outcomes.succeeded, outcomes.missing = len(marks), len(done), len(set(done) - marks)
    return outcomes


def _fail(world: FailingWorld, random: Random) -> None:
    """Crash a peer for some seconds, or cut links."""
    living = world.living()
    if random.random() < 0.6 and len(living) > 3:
        node = random.choice(living)
        world.crash(node)
        world.schedule(random.choice((0.1, random.uniform(0.5, 6.0))), world.restart, node)
    else:
        links = draw_cut(random, [each.index for each in world.nodes], random.choice(SHAPES))
        noticed = random.random() < 0.6
        world.cut(links, noticed=noticed, why="cut")
        world.schedule(random.uniform(0.3, 5.0), lambda: world.mend(links, noticed=noticed))
