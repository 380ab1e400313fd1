"""One fault schedule per seed: an overlay, clients, failures, healing, and the verdict.

A schedule begins with all peers up and in agreement.  Queries and publications come at random times during failures;
some queries end.  Then all failures are healed.  Within ``HEAL_SECONDS`` of virtual time all requests must be answered,
all peers at rest and all replicas equal, and every subscriber must have a bookmark from after the healing.  Only while
answers still arrive, the bound grows, at most to ten times.  Otherwise the schedule fails (*restless*), as it does for
a lost answer.  The checkers verify the other promises.

Without replication no other peer replaces an absent one.  Such a schedule (*one copy*) comes to rest, crashes some
peers, restarts them from their disks, and continues.
"""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath
from random import Random
from typing import TYPE_CHECKING, Final

from p2prdf import hlc
from p2prdf.errors import P2PRDFError
from p2prdf.overlay.address_cache import OVERLAYS
from p2prdf.peer import PeerConfig
from p2prdf.rdf.query import Algorithm, constant_mask
from p2prdf.rdf.standing.query import parse_query
from p2prdf.sim.faults import CALM, Faults
from p2prdf.sim.world import WorldOptions
from p2prdf_lab.workloads.random_queries import draw_query, draw_triples, draw_vocabulary
from schedules.checkers import Problem
from schedules.failures.asked import AskedQueries
from schedules.failures.checkers import (
    check_answers,
    check_audits,
    check_bookmarks,
    check_kept,
    check_stamps,
    check_standing,
    check_unanswered,
)
from schedules.failures.clients import Publisher, RepeatedPublishing, SubscriberClient
from schedules.failures.copies import Copies
from schedules.failures.features import IDLE_SECONDS, Feature, features
from schedules.failures.islands import OneTimeQueries, check_clusters
from schedules.failures.mischief import Mischief
from schedules.failures.options import Failures
from schedules.failures.replicas import difference
from schedules.failures.snapshots import Snapshots
from schedules.failures.subscriber import ResumingSubscriber
from schedules.failures.world import FailingWorld
from schedules.shares import Configurations, as_daemons, configurations, draws_daemons, shown_by_queries
from schedules.standing import draw_standing
from schedules.texts import draw_text_query, draw_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from p2prdf.rdf.algebra import StandingQuery
    from p2prdf.sim.oracle import Triple
    from p2prdf.sim.world import Node
    from p2prdf_lab.workloads.random_queries import Vocabulary

__all__ = [
    "COPIES", "HEAL_SECONDS", "BadDay", "Verdict", "draw_bad_day", "run_bad_day", "run_seed", "with_bookmarks",
    "with_features", "with_removals", "with_standing", "with_texts",
]

HEAL_SECONDS: Final = 60.0
"""Time within which a healed world must be at rest."""
SLOW_HEAL_SECONDS: Final = 240.0
"""The bound with slow peers, whose work, recovery included, takes up to forty times as long."""

COPIES: Final = ((3, 2), (3, 2), (3, 2), (3, 2), (3, 2), (5, 3), (2, 2), (1, 1))
"""Replicas per key and least durable copies; most schedules have the first."""

_NETWORKS: Final[dict[str, Faults]] = {
    "calm": replace(CALM, delay_min_seconds=0.001, delay_max_seconds=0.02),
    "reorder": Faults(delay_min_seconds=0.001, delay_max_seconds=0.2, turn_seconds_max=0.005),
    "lossy": Faults(
        delay_min_seconds=0.001, delay_max_seconds=0.1, loss_probability=0.05, duplicate_probability=0.05,
        turn_seconds_max=0.005,
    ),
    "bad": Faults(
        delay_min_seconds=0.001, delay_max_seconds=0.15, loss_probability=0.3, duplicate_probability=0.1,
        straggler_probability=0.05, straggler_seconds=1.5, turn_seconds_max=0.01,
    ),
}  # fmt: skip

_STEP_SECONDS = 1.0
_AHEAD_SECONDS: Final = 60.0
"""A bookmark further in the future is from a wrong clock."""
_SLOWLY_MAX: Final = 10
_SLOW_SECONDS: Final = 0.25
REMOVALS_SHARE: Final = 0.4
"""Share of schedules with deletions."""
_REMOVALS_PER_BATCH: Final = 0.35
_REPLACED_SECONDS: Final = 6.0
"""The longest time until the next deletion or publication of a batch that is replaced."""
_PUBLISHED_AGAIN: Final = 0.6
_HISTORY: Final = 0.4
"""Share of queries with history, among those that may have it."""
STANDING_SHARE: Final = 0.4
"""Share of schedules with queries that are not only conjunctive."""
TEXTS_SHARE: Final = 0.3
"""Share of schedules with texts and queries with conditions on them."""
BY_WORDS_SHARE: Final = 0.8
"""Share of these schedules that use the keyword index."""
_EAGER_BATCHES: Final = 3
_EAGER_SECONDS: Final = 0.3
"""Batches after a query became live, and the time in which they are published."""
BOOKMARKS_SHARE: Final = 0.3
"""Share of schedules with bookmarks."""
GRAPHS_SHARE: Final = 0.25
"""Share of drawn schedules with named graphs."""
RULES_SHARE: Final = 0.15
"""Share of drawn schedules with rules."""
WINDOWS_SHARE: Final = 0.15
"""Share of drawn schedules with streams and windows."""


@dataclass(frozen=True, slots=True)
class BadDay:
    """The fault schedule of a seed."""

    seed: int
    network: str
    options: WorldOptions
    failures: Failures
    algorithm: str
    per_event: bool
    daemons: bool = False
    """Whether its peers have the configuration of daemons."""

    def __str__(self) -> str:
        options, config = self.options, self.options.config
        return (
            f"{options.peers} peers, r={config.replicas} W={config.copies_min}, {self.algorithm}, "
            f"{'per event' if self.per_event else 'per triple'}, {options.tables}, indexes {config.indexes}, "
            f"overlay {options.overlay}, network {self.network}, skew {options.faults.skew_seconds_max:g} s"
            f"{', through codec' if options.through_codec else ''}"
        )


@dataclass(slots=True)
class Verdict:
    """The outcome of a seed."""

    day: BadDay
    problems: list[Problem] = field(default_factory=list)
    publications: int = 0
    acknowledged: int = 0
    answers: int = 0
    repeats: int = 0
    messages: int = 0
    seconds: float = 0.0
    happened: dict[str, int] = field(default_factory=dict)
    peers: Counter[str] = field(default_factory=Counter)
    """Number of peers by configuration."""
    shown: set[str] = field(default_factory=set)
    """Names that show the features of the schedule (:mod:`schedules.shares`)."""

    @property
    def good(self) -> bool:
        """Whether every promise was kept."""
        return not self.problems

    def report(self) -> str:
        """Return a text about the schedule, its failures and its problems."""
        happened = ", ".join(f"{name} {count}" for name, count in self.happened.items())
        head = (
            f"seed {self.day.seed}: {self.day}; {happened or 'nothing'} happened; {self.acknowledged} of "
            f"{self.publications} publications acknowledged, {self.answers} answers, {self.repeats} dropped as "
            f"repeats, {self.messages} messages, {self.seconds:.0f} s"
        )
        return "\n".join([head, *(f"  {problem}" for problem in self.problems)])


def draw_bad_day(seed: int, configurations: Configurations = "daemon") -> BadDay:
    """Return the fault schedule of a seed."""
    rng = Random(f"p2prdf bad day {seed}")
    replicas, copies_min = rng.choice(COPIES)
    algorithm = rng.choice(("csbv", "csbv", "cqc", "cqc", "mixed"))
    indexes = rng.choice(("csbv", "on-demand", "cqc") if algorithm == "cqc" else ("csbv", "on-demand"))
    per_event = rng.random() < 0.4
    network = rng.choice(tuple(_NETWORKS))
    skew = rng.choice((0.0, 0.0, 0.4))
    config = PeerConfig(
        indexes=indexes, replicas=replicas, copies_min=copies_min, durable=True, clock_skew_seconds=2 * skew,
        request_seconds=6.0, settle_seconds=rng.choice((0.0, 2.0)), hot_keys=False,
        retry_seconds=rng.choice((0.3, 1.0)), has_seeds=True,
    )  # fmt: skip
    options = WorldOptions(
        peers=rng.randint(max(3, replicas), 9),
        seed=seed,
        overlay=rng.choice(tuple(OVERLAYS)),
        tables=rng.choice(("lists", "lists", "lists", "arrays", "mixed")),
        config=config,
        faults=replace(_NETWORKS[network], skew_seconds_max=skew),
        through_codec=rng.random() < 0.15,
        events_max=400_000,
    )
    failures = Failures(span_seconds=rng.choice((3.0, 8.0, 15.0)), happenings_max=rng.choice((2, 6, 12)))
    daemons = configurations != "varied" and draws_daemons("bad day", seed)
    options = as_daemons(options) if daemons else options
    if configurations == "forgetting":
        options = replace(options, config=replace(options.config, forget_intervals=True))
    day = BadDay(seed, network, options, failures, algorithm, per_event, daemons)
    if Random(f"p2prdf bad day {seed} removals").random() < REMOVALS_SHARE:
        day = with_removals(day)
    if Random(f"p2prdf bad day {seed} standing").random() < STANDING_SHARE:
        day = with_standing(day)
    texts = Random(f"p2prdf bad day {seed} texts")
    if texts.random() < TEXTS_SHARE:
        day = with_texts(day, by_words=texts.random() < BY_WORDS_SHARE)
    more = Random(f"p2prdf bad day {seed} bookmarks")
    return with_bookmarks(day, slow=more.random() < 0.5) if more.random() < BOOKMARKS_SHARE else day


def with_removals(day: BadDay) -> BadDay:
    """Return the schedule with deletions."""
    return replace(day, failures=replace(day.failures, removals=True))


def with_standing(day: BadDay) -> BadDay:
    """Return the schedule with queries that are not only conjunctive."""
    return replace(day, failures=replace(day.failures, standing=True))


def with_texts(day: BadDay, *, by_words: bool) -> BadDay:
    """Return the schedule with texts and conditions; ``by_words``: with the keyword index where possible."""
    options = replace(day.options, config=replace(day.options.config, keyword_routing=by_words))
    return replace(day, options=options, failures=replace(day.failures, texts=True))


def with_features(day: BadDay) -> BadDay:
    """Return the schedule with named graphs, rules and windows as a random stream of their own draws them.

    A schedule with a varied configuration has none: its peers may lack the indexes.
    """
    if not day.daemons:
        return day
    rng = Random(f"p2prdf bad day {day.seed} features")
    graphs, rules, windows = (rng.random() < share for share in (GRAPHS_SHARE, RULES_SHARE, WINDOWS_SHARE))
    config = day.options.config
    if windows:
        config = replace(config, stream_idle_seconds=IDLE_SECONDS)
    failures = replace(day.failures, graphs=graphs, rules=rules, windows=windows)
    return replace(day, options=replace(day.options, config=config), failures=failures)


def with_bookmarks(day: BadDay, *, slow: bool) -> BadDay:
    """Return the schedule with bookmarks; ``slow``: with slow subscribers, so that answers wait at coordinators."""
    failures = replace(day.failures, bookmarks=True)
    if not slow:
        return replace(day, failures=failures)
    options = replace(day.options, config=replace(day.options.config, solutions_window=6))
    return replace(day, options=options, failures=replace(failures, handle_seconds_max=_SLOW_SECONDS))


def run_seed(
    seed: int, *, configurations: Configurations = "daemon", trace: Callable[[str], None] | None = None
) -> Verdict:
    """Draw, run and check the schedule of a seed."""
    return run_bad_day(draw_bad_day(seed, configurations), trace=trace)


def run_bad_day(
    day: BadDay,
    *,
    trace: Callable[[str], None] | None = None,
    prepare: Callable[[FailingWorld], None] | None = None,
) -> Verdict:
    """Run a schedule and return the verdict; ``prepare`` may change the world first."""
    story = _Story(day, trace)
    if prepare is not None:
        prepare(story.world)
    try:
        story.play()
    except P2PRDFError as error:
        story.verdict.problems.append(Problem(error.code, "world", str(error)))
    except Exception as error:  # noqa: BLE001 - any error of a peer is a finding of this seed
        story.verdict.problems.append(Problem("raised", "world", _where(error)))
    story.judge()
    return story.verdict


def _where(error: Exception) -> str:
    """Return an exception and its calls as a text."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    calls = ", ".join(f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames)
    return f"{type(error).__name__}: {error} ({calls})"


class _Story:
    """The run of one fault schedule."""

    def __init__(self, day: BadDay, trace: Callable[[str], None] | None):
        self.day = day
        self.world = FailingWorld(day.options, day.failures, trace=trace)
        self.verdict = Verdict(day)
        self._random = Random(f"p2prdf bad day's story {day.seed}")
        self._publishers: list[Publisher] = []
        self._clients: list[SubscriberClient] = []
        self._copies = Copies(self.world)
        self._mischief = Mischief(self.world, self._generator("mischief"), self._copies, self._clients)
        self.world.on_acknowledged = self._copies.acknowledged
        self._snapshots = Snapshots(self.world)
        self.world.on_compacted = self._snapshots.compacted
        self._queries = OneTimeQueries(self.world, self._generator("one-time queries"), self._publishers)
        self._asked = AskedQueries(self.world, self._generator("asked"), lambda: self._everything_published)
        self._named = bool(day.failures.islands_seconds or day.failures.late_bootstrap_seconds)
        """Whether peers have a cluster identity, as those of daemons do."""
        self._healed_at = 0.0
        self._never: list[Problem] = []
        """Missing events at rest, reported after the promises that were broken before."""
        self._features: list[Feature] = []
        self._held_back: list[Callable[[float], object]] = []
        """Publications that wait for a live query; each is called with its delay."""

    def _generator(self, name: str) -> Random:
        return Random(f"p2prdf bad day {self.day.seed} {name}")

    @property
    def _publishings(self) -> list[RepeatedPublishing]:
        drawn = [publishing for publisher in self._publishers for publishing in publisher.published]
        return drawn + [publishing for feature in self._features for publishing in feature.publishings]

    @property
    def _everything_published(self) -> list[RepeatedPublishing]:
        """All publications, with those of features that no drawn query can match."""
        others = [publishing for feature in self._features for publishing in feature.all_publishings]
        return list(dict.fromkeys([*self._publishings, *others]))

    # --- playing ---------------------------------------------------------------------------------

    def play(self) -> None:
        """Run the schedule and its healing."""
        rng = self._random
        vocabulary = draw_vocabulary(rng)
        data = draw_triples(rng, vocabulary, rng.randint(14, 40) * self.day.failures.times_as_much)
        span = self.day.failures.span_seconds
        for _ in range(rng.randint(2, 4)):
            at, query = rng.choice((0.0, rng.uniform(0.0, span / 2))), draw_query(rng, data, vocabulary)
            self._subscribe(at, query)
            for _ in range(rng.randint(1, 3) if self.day.failures.shared else 0):
                self._subscribe(rng.uniform(0.0, 0.8 * span), query)
        if self.day.failures.standing:
            self._leave_standing(self._generator("standing"), lambda drawn: draw_standing(drawn, data, vocabulary))
        if self.day.failures.texts:
            data = self._with_texts(data, vocabulary)
        if self.day.failures.again:  # so few that most answers are from repeats
            data = self._generator("again").choices(data[: len(data) // 6], k=len(data) // 3)
        for number in range(rng.randint(1, 3)):
            name = f"publisher {number} of seed {self.day.seed}"
            self._publishers.append(Publisher(self.world, name, self._generator(name)))
        if self.day.options.config.replicas == 1:
            half = len(data) // 2
            self._publish(data[:half], span)
            self._crash_at_rest()
            self._publish(data[half:], span)
        else:
            self._publish(data, span)
            self._mischief.plan()
        if self.day.failures.islands_seconds:
            self._queries.plan()
        if self.day.failures.asked:
            self._asked.plan(self.day.failures.asked)
        if self.day.failures.clock_steps_max:
            self._mischief.plan_clock_steps(self._generator("clock steps"))
        for client in self._clients:
            client.on_live = partial(self._publish_held_back, _EAGER_BATCHES)
        self._features += features(self.world, self._generator)
        self.world.run_for(span)
        self._publish_held_back(len(self._held_back))
        self._heal()

    def _crash_at_rest(self) -> None:
        """Crash some peers at rest, and restart them from their disks before a detection."""
        self.world.run_for(self.day.failures.span_seconds)
        if self._comes_to_rest(4 * HEAL_SECONDS) is not None:  # longer, because the network still loses up to 30 %
            self._end_losses()
            self._settle()
        for node in self.world.living():
            if self._random.random() < 0.7:
                self.world.crash(node)
                self.world.schedule(self._random.uniform(0.01, 0.25), self.world.restart, node)
        self.world.run_for(0.25)

    def _heal(self) -> None:
        self._mischief.heal()
        self._healed_at = self.world.now
        self._end_losses()
        self._settle()
        if not self.world.failures.bookmarks:
            self._want_bookmarks()

    def _want_bookmarks(self) -> None:
        """Let all subscribers request bookmarks at rest; a missing one is a failure of the schedule."""
        self.world.failures = replace(self.world.failures, bookmarks=True)
        for client in self._clients:
            client.want_bookmarks()
        if why := self._comes_to_rest(HEAL_SECONDS):
            self._never.append(Problem("restless", "world", f"after {HEAL_SECONDS:g} s at rest: {why}"))

    def _end_losses(self) -> None:
        """Let the network deliver every message once and in time."""
        network = self.world.network
        network.faults = replace(
            network.faults, loss_probability=0.0, duplicate_probability=0.0, straggler_probability=0.0
        )

    def _subscribe(self, at: float, query: object) -> None:
        rng, day = self._random, self.day
        number = len(self._clients)
        at = max(at, day.failures.span_seconds / 4) if day.failures.late else at
        algorithm = rng.choice(list(Algorithm)) if day.algorithm == "mixed" else Algorithm(day.algorithm)
        record = ResumingSubscriber(f"subscriber {number}", query, algorithm, day.per_event, 86_400.0)  # type: ignore[arg-type]
        client = SubscriberClient(self.world, record, self._generator(f"subscriber {number}"))
        self._clients.append(client)
        self.world.schedule(at, client.connect)
        if rng.random() < 0.2:
            self.world.schedule(at + rng.uniform(1.0, day.failures.span_seconds), client.unsubscribe)

    def _with_texts(self, data: Sequence[Triple], vocabulary: Vocabulary) -> list[Triple]:
        """Subscribe to queries with conditions on texts, and return the triples with texts among them."""
        rng, span = self._generator("texts"), self.day.failures.span_seconds
        for _ in range(rng.randint(1, 3)):
            query = parse_query(draw_text_query(rng, vocabulary)).conjunctive
            for _ in range(rng.choice((1, 1, 2))):
                self._subscribe(rng.choice((0.0, rng.uniform(0.0, span / 2))), query)
        self._leave_standing(rng, lambda drawn: draw_text_query(drawn, vocabulary, standing=drawn.random() < 0.5))
        slow = self.day.failures.handle_seconds_max >= _SLOW_SECONDS  # owed answers must be delivered during healing
        mixed = [*data, *draw_texts(rng, vocabulary, rng.randint(8, 12) if slow else rng.randint(10, 30))]
        rng.shuffle(mixed)
        return mixed

    def _leave_standing(self, rng: Random, draw: Callable[[Random], str]) -> None:
        """Subscribe to queries that need not be conjunctive; to some of them twice, at different times."""
        span = self.day.failures.span_seconds
        for _ in range(rng.randint(1, 3)):
            text = draw(rng)
            standing = parse_query(text)
            simple = standing.conjunctive
            query = standing if simple is None or simple.distinct else simple
            for _ in range(rng.choice((1, 1, 2))):
                number = len(self._clients)
                mixed = self.day.algorithm == "mixed"
                algorithm = rng.choice(list(Algorithm)) if mixed else Algorithm(self.day.algorithm)
                name = f"subscriber {number}"
                history = rng.random() < _HISTORY and self._keeps_history(standing)
                record = ResumingSubscriber(name, query, algorithm, False, 86_400.0, text, history)
                client = SubscriberClient(self.world, record, self._generator(name))
                self._clients.append(client)
                at = rng.choice((0.0, rng.uniform(0.0, span / 2)))
                self.world.schedule(at, client.connect)
                if rng.random() < 0.1:
                    self.world.schedule(at + rng.uniform(1.0, span), client.unsubscribe)

    def _keeps_history(self, query: StandingQuery) -> bool:
        """Return whether peers have all indexes of a query before its subscription."""
        indexes = self.day.options.config.indexes
        patterns = [pattern for leaf in query.leaves for pattern in leaf.patterns]
        return indexes == "all" or (indexes == "csbv" and all(constant_mask(pattern) for pattern in patterns))

    def _publish(self, data: Sequence[tuple[str, str, str]], span: float) -> None:
        rng, other = self._random, self._generator(f"removals {len(self._publishings)}")
        start = 0
        while start < len(data):
            batch = data[start : start + rng.choice((1, 1, 2, 5))]
            start += len(batch)
            at = rng.uniform(0.0, 0.9 * span)
            publish = rng.choice(self._publishers).publish
            if self.day.failures.eager:
                self._held_back.append(partial(publish, triples=batch))
            else:
                publish(at, batch)
            if self.day.failures.removals and other.random() < _REMOVALS_PER_BATCH:
                late = other.choice((at, other.uniform(at, 0.9 * span)))
                some = dict.fromkeys([other.choice(batch), *other.choices(data, k=other.choice((0, 0, 1, 2)))])
                other.choice(self._publishers).publish(late, list(some), removed=True)
            if self.day.failures.replaced:
                self._replace(batch, at, span, other)

    def _replace(self, batch: Sequence[tuple[str, str, str]], at: float, span: float, rng: Random) -> None:
        """Delete a batch after its publication, often twice; publish and delete it again, some times."""
        for _ in range(rng.choice((1, 2, 3))):
            for _ in range(rng.choice((1, 1, 2))):
                at = rng.uniform(at, min(at + _REPLACED_SECONDS, span))
                rng.choice(self._publishers).publish(at, batch, removed=True)
            if rng.random() < _PUBLISHED_AGAIN:
                at = rng.uniform(at, min(at + _REPLACED_SECONDS, span))
                rng.choice(self._publishers).publish(at, batch)

    def _publish_held_back(self, count: int) -> None:
        """Publish some waiting publications at once, at different peers."""
        rng = self._generator(f"held back {len(self._held_back)}")
        some, self._held_back = self._held_back[:count], self._held_back[count:]
        for publish in some:
            publish(rng.uniform(0.0, _EAGER_SECONDS))

    # --- healing ---------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Let the world come to rest; report a problem if it does not."""
        seconds = SLOW_HEAL_SECONDS if self.day.failures.slowness_max else HEAL_SECONDS
        why = self._comes_to_rest(seconds)
        if why is not None:
            self.verdict.problems.append(Problem("restless", "world", f"not at rest after {seconds:g} s: {why}"))

    def _comes_to_rest(self, seconds: float) -> str | None:
        """Let the world come to rest within some seconds; otherwise return the pending work as a text.

        The wait continues while slow subscribers get new answers or retractions.  There may be a thousand of them for a
        query; a query that joins a triple three times with itself has the cube of its deletions.
        """
        world = self.world
        end, last = world.now + seconds, world.now + _SLOWLY_MAX * seconds
        still = taken = 0
        while world.now < end:
            world.run_for(_STEP_SECONDS)
            still = 0 if self._restless() else still + 1
            if still >= 3:
                return None
            before, taken = taken, sum(len(client.record.heard) for client in self._clients)
            if taken > before:
                end = min(last, max(end, world.now + seconds / 3))
        return self._restless()

    def _restless(self) -> str | None:
        """Return the pending work as a text; None at rest."""
        waiting = sum(publishing.open for publishing in self._everything_published)
        if waiting:
            return f"{waiting} publications are not acknowledged"
        for client in self._clients:
            if client.record.closed_at is None and not client.attached:
                return f"{client.record.name} is not attached"
            if client.record.closed_at is None and client.record.unsettled:
                return f"{len(client.record.unsettled)} answers of {client.record.name} are not settled"
            if self.world.failures.bookmarks and client.attached and client.record.closed_at is None:
                last = client.record.bookmarks[-1][0] if client.record.bookmarks else 0
                if not self._healed_at <= hlc.seconds(last) <= self.world.now + _AHEAD_SECONDS:
                    return f"{client.record.name} has no bookmark since all is healed"
            for node in self.world.living() if client.record.closed_at is not None else ():
                if client.record.subscription in self.world.machines[node.index].held:
                    return f"peer {node.index} was not told of the end of {client.record.name}"
        for feature in self._features:
            if why := feature.restless():
                return why
        return self._peers_restless()

    def _peers_restless(self) -> str | None:
        if not self.world.views.true():
            return "views differ from what is true"
        for node in self.world.living():
            if busy := self._busy(node):
                return f"peer {node.index} {busy}"
        # Each replica drops old reports at its own time.
        homes = not self.day.failures.windows
        return difference(self.world, homes=homes) if self.day.options.config.replicas > 1 else None

    def _busy(self, node: Node) -> str | None:
        """Return a peer's pending work as a text; None at rest."""
        status = node.peer.status()
        if not node.peer.quiet or status["recomputing"]:
            return f"is not quiet: {_status(node)}"
        if not status["in_sync"]:
            return "does not speak for its subscriptions yet"
        if self._named and (node.peer.cluster.merging or not node.peer.cluster.identity):
            return f"does not know its cluster: {node.peer.cluster.merging}"
        return "waits for what it is given before it tells subscribers more" if status["receiving_handoff"] else None

    # --- judging ---------------------------------------------------------------------------------

    def judge(self) -> None:
        """Collect all problems and counts."""
        world, verdict, publishings = self.world, self.verdict, self._publishings
        records = [client.record for client in self._clients]
        self._copies.look("at the end")
        if not verdict.problems:  # at rest
            self._copies.check_whole(self._everything_published)
        verdict.problems += self._copies.problems
        more = [client.record for feature in self._features for client in feature.clients]
        verdict.problems += check_unanswered(self._everything_published, [*records, *more])
        at_rest = not verdict.problems
        for feature in self._features:
            verdict.problems += feature.judge(at_rest=at_rest)
        for record in records:
            if not (self.day.failures.removals or self.day.failures.rules):  # rules have deletions
                verdict.problems += check_kept(record)
            if record.text:
                verdict.problems += check_standing(world, record, at_rest=at_rest)
                continue
            verdict.problems += check_answers(world, record, publishings)
            verdict.problems += check_bookmarks(world, record, publishings)
        verdict.problems += [*self._snapshots.problems, *self._never, *check_stamps(world), *check_audits(world)]
        verdict.problems += [*self._queries.problems, *self._asked.judge()]
        if self._named:
            verdict.problems += check_clusters(world)
        verdict.publications = sum(len(publishing.triples) for publishing in publishings)
        verdict.acknowledged = sum(len(publishing.log()) for publishing in publishings)
        verdict.answers = sum(len(record.rows) for record in records)
        verdict.repeats = sum(record.repeats for record in records)
        verdict.messages = world.counts.hops
        verdict.seconds = world.now - world.started
        if forgotten := sum(each.peer._tables.sizes().intervals_forgotten for each in world.living()):
            world.happened["intervals-forgotten"] = forgotten
        if withdrawn := sum(len(record.withdrawn) for record in records):
            world.happened["withdrawn"] = withdrawn
        if bookmarks := sum(len(record.bookmarks) for record in records):
            world.happened["bookmark"] = bookmarks
        if audited := sum(int(str(node.peer.status()["audited"])) for node in world.living()):
            world.happened["rows audited"] = audited
        verdict.happened = dict(sorted(world.happened.items()))
        verdict.peers = configurations(world)
        verdict.shown = self._shown(publishings)

    def _shown(self, publishings: Sequence[RepeatedPublishing]) -> set[str]:
        """Return the names that show features of this schedule."""
        shown = {name for name, count in self.world.happened.items() if count}
        clients = [*self._clients, *(client for feature in self._features for client in feature.clients)]
        shown |= shown_by_queries(client.record.text for client in clients)
        if any(publishing.removed for publishing in publishings):
            shown.add("removals")
        if self.day.failures.rules:
            shown.add("rules")
        return shown | {"texts"} if self.day.failures.texts else shown


def _status(node: Node) -> str:
    status = node.peer.status()
    names = ("outbox", "batches_waiting", "operations_pending", "forwarding", "publications_open")
    return ", ".join(f"{name}={status[name]}" for name in names if status[name])
