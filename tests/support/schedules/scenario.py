"""One scenario per seed: a random overlay, network, publications and queries, and the verdict.

A scenario has one or two phases, with concurrent publications and subscriptions at random times.  Between phases the
world comes to rest.  Then some subscriptions end: at once, so that their answers are known exactly, or during the next
phase, so that they must have the answers at rest and may have any later ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

from p2prdf.errors import P2PRDFError
from p2prdf.overlay.address_cache import OVERLAYS
from p2prdf.peer import PeerConfig
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.rdf.standing.query import parse_query
from p2prdf.sim.faults import CALM, HARSH, Faults
from p2prdf.sim.oracle import Oracle, Publication, Triple
from p2prdf.sim.world import World, WorldOptions
from p2prdf_lab.workloads.random_queries import Vocabulary, draw_query, draw_triples, draw_vocabulary
from schedules.checkers import (
    Problem,
    check_answers,
    check_leftovers,
    check_liveness,
    check_placement,
    check_requests,
)
from schedules.shares import Configurations, as_daemons, configurations, draws_daemons
from schedules.texts import draw_text_query, draw_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf.sim.subscriber import Subscriber

__all__ = ["NETWORKS", "Outcome", "Scenario", "draw_scenario", "run_scenario", "run_seed"]

PEERS: Final = (1, 2, 3, 7, 64)
_DAEMONS_MAX: Final = 16

_REORDER: Final = Faults(delay_min_seconds=0.001, delay_max_seconds=0.3, turn_seconds_max=0.005)

NETWORKS: Final[dict[str, Faults]] = {
    "calm": CALM,
    "reorder": _REORDER,
    "stragglers": Faults(
        delay_min_seconds=0.001, delay_max_seconds=0.05, straggler_probability=0.1, straggler_seconds=2.0
    ),
    "duplicates": Faults(delay_min_seconds=0.001, delay_max_seconds=0.3, duplicate_probability=0.3),
    "loss": Faults(delay_min_seconds=0.001, delay_max_seconds=0.05, loss_probability=0.15),
    "skew": Faults(delay_min_seconds=0.001, delay_max_seconds=0.1, skew_seconds_max=0.4),
    "harsh": HARSH,
}


_TEXTS_SHARE: Final = 0.25
"""Share of scenarios with texts."""

HOT: Final[dict[str, Any]] = {"hot_rate_min": 0, "hot_copies_max": 1e9, "hot_sample": 1, "hot_depth_max": 3}
"""Settings that split almost every key repeatedly while messages are under way."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The scenario of a seed."""

    seed: int
    network: str
    options: WorldOptions
    algorithm: str
    per_event: bool
    phases: int
    span_seconds: float
    hot: bool = False
    """Whether peers split keys at almost any load."""
    warm: bool = False
    """Whether some keys are split, known to the senders, before the first subscription."""
    texts: bool = False
    """Whether there are texts, and queries with conditions on them, which use the keyword index where possible."""


@dataclass(slots=True)
class Outcome:
    """The outcome of a seed; without problems, all owed answers arrived once."""

    scenario: Scenario
    problems: list[Problem] = field(default_factory=list)
    publications: int = 0
    queries: int = 0
    answers: int = 0
    messages: int = 0
    splits: int = 0
    """Number of splits of keys."""
    peers: Counter[str] = field(default_factory=Counter)
    """Number of peers by configuration."""
    shown: set[str] = field(default_factory=set)
    """Names that show the features of the schedule (:mod:`schedules.shares`)."""

    @property
    def good(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    def report(self) -> str:
        """Return a text about the scenario and its problems."""
        scenario = self.scenario
        options = scenario.options
        head = (
            f"seed {scenario.seed}: {options.peers} peers, {scenario.algorithm}, "
            f"{'per event' if scenario.per_event else 'per triple'}, {options.tables}, "
            f"indexes {options.config.indexes}, overlay {options.overlay}, multisend {options.config.multisend}, "
            f"network {scenario.network}"
            f"{', through codec' if options.through_codec else ''}"
            f"{f', {self.splits} splits' if self.splits else ''}; "
            f"{self.publications} publications, {self.queries} queries, {self.answers} answers, "
            f"{self.messages} messages"
        )
        return "\n".join([head, *(f"  {problem}" for problem in self.problems)])


def draw_scenario(seed: int, configurations: Configurations = "daemon") -> Scenario:
    """Return the scenario of a seed; the number of peers and the algorithm alternate with the seed.

    Peers with the configuration of daemons see each other from the start and split no key.  Their largest number is 16;
    in a varied configuration it is 64, to test lookups in partial views.
    """
    rng = Random(f"p2prdf scenario {seed}")
    peers = PEERS[seed % len(PEERS)]
    algorithm = ("csbv", "cqc", "mixed")[rng.choices((0, 1, 2), (4, 4, 1))[0]]
    indexes = rng.choice(("csbv", "on-demand", "cqc") if algorithm == "cqc" else ("csbv", "on-demand"))
    network = rng.choice(tuple(NETWORKS))
    options = WorldOptions(
        peers=peers,
        seed=seed,
        tables=rng.choice(("lists", "lists", "arrays", "mixed")),
        config=PeerConfig(indexes=indexes, address_cache=rng.random() < 0.85),
        faults=NETWORKS[network],
        through_codec=rng.random() < 0.2,
        bucket=rng.choice((8, 8, 20)),
        events_max=300_000,
    )
    per_event, phases, span = rng.random() < 0.4, rng.choice((1, 1, 2)), rng.choice((0.0, 0.1, 0.5, 2.0))
    # Options that were added later are drawn last, so the other properties of a seed do not change.
    overlay = rng.choice(tuple(OVERLAYS))
    multisend = rng.choice(("direct", "direct", "recursive"))
    config = replace(options.config, multisend=multisend)
    hot = rng.random() < 0.3
    if hot:
        share, seconds = rng.choice((0.01, 0.05)), rng.choice((0.01, 0.1))
        config = replace(config, **HOT, hot_share=share, hot_interval_seconds=seconds)
    warm = hot and rng.random() < 0.6
    texts = rng.random() < _TEXTS_SHARE
    options = replace(options, overlay=overlay, config=replace(config, keyword_routing=texts))
    if configurations != "varied" and draws_daemons("scenario", seed):
        options, hot, warm = replace(as_daemons(options), peers=min(peers, _DAEMONS_MAX)), False, False
    return Scenario(seed, network, options, algorithm, per_event, phases, span, hot, warm, texts)


def run_seed(
    seed: int, *, configurations: Configurations = "daemon", trace: Callable[[str], None] | None = None
) -> Outcome:
    """Draw and run the scenario of a seed, and compare it with the oracle."""
    return run_scenario(draw_scenario(seed, configurations), trace=trace)


def run_scenario(
    scenario: Scenario,
    *,
    trace: Callable[[str], None] | None = None,
    prepare: Callable[[World], None] | None = None,
) -> Outcome:
    """Run a scenario and return its outcome; ``prepare`` may change the world first."""
    story = _Story(scenario, trace)
    if prepare is not None:
        prepare(story.world)
    try:
        story.play()
    except P2PRDFError as error:
        story.outcome.problems.append(Problem(error.code, "world", str(error)))
    story.judge()
    return story.outcome


class _Story:
    """The run of one scenario."""

    def __init__(self, scenario: Scenario, trace: Callable[[str], None] | None):
        self.scenario = scenario
        self.world = World(scenario.options, trace=trace)
        self.outcome = Outcome(scenario)
        self._random = Random(f"p2prdf story {scenario.seed}")
        self._live: list[Subscriber] = []
        self._ended: list[tuple[Subscriber, list[Publication], bool]] = []
        self._rested: list[Publication] = []

    def play(self) -> None:
        """Play all phases, with a rest after each."""
        rng = self._random
        vocabulary = draw_vocabulary(rng)
        if self.scenario.warm:
            self._warm_up(vocabulary)
        queries: list[ConjunctiveQuery] = []
        for phase in range(self.scenario.phases):
            data = draw_triples(rng, vocabulary, rng.randint(6, 45))
            if phase:
                self._end_some()
            self._subscribe(data, vocabulary, queries)
            if self.scenario.texts:
                data = self._with_texts(data, vocabulary)
            self._publish(data)
            self.world.run_until_rest()
            self._rested = self.world.log()

    def _warm_up(self, vocabulary: Vocabulary) -> None:
        """Publish triples at a few peers that share only their predicates with other data.

        The first round makes keys of predicates hot, and after the second the senders know.  The triples are older than
        all subscriptions, so they match none.
        """
        senders = min(len(self.world.nodes), 8)
        for round_ in range(3):
            for at in range(4 * senders):
                predicate = vocabulary.predicates[at // senders % len(vocabulary.predicates)]
                triple = (f"<urn:warm:{round_}:{at}>", predicate, f'"warm {round_} {at}"')
                self.world.publish(0.02 * at, at % senders, [triple])
            self.world.run_until_quiet()

    def _moment(self) -> float:
        """Draw a time in this phase; several events are at its start."""
        if self._random.random() < 0.2:
            return 0.0
        return self._random.uniform(0.0, self.scenario.span_seconds)

    def _subscribe(
        self, data: list[Triple], vocabulary: Vocabulary, queries: list[ConjunctiveQuery]
    ) -> None:
        rng, scenario = self._random, self.scenario
        for _ in range(rng.randint(1, 4)):
            again = queries and rng.random() < 0.35
            query = rng.choice(queries) if again else draw_query(rng, data, vocabulary)
            queries.append(query)
            mixed = scenario.algorithm == "mixed"
            algorithm = rng.choice(list(Algorithm)) if mixed else Algorithm(scenario.algorithm)
            peer = rng.randrange(scenario.options.peers)
            self._live.append(
                self.world.subscribe(self._moment(), peer, query, algorithm, per_event=scenario.per_event)
            )

    def _with_texts(self, data: list[Triple], vocabulary: Vocabulary) -> list[Triple]:
        """Subscribe to queries with conditions on texts, and return the triples with texts among them."""
        rng = self._random
        for _ in range(rng.randint(1, 4)):
            query = parse_query(draw_text_query(rng, vocabulary)).conjunctive
            assert query is not None, "so it was drawn"
            mixed = self.scenario.algorithm == "mixed"
            algorithm = rng.choice(list(Algorithm)) if mixed else Algorithm(self.scenario.algorithm)
            peer = rng.randrange(self.scenario.options.peers)
            self._live.append(self.world.subscribe(self._moment(), peer, query, algorithm))
        data = [*data, *draw_texts(rng, vocabulary, rng.randint(5, 25))]
        rng.shuffle(data)
        return data

    def _publish(self, data: list[Triple]) -> None:
        rng = self._random
        start = 0
        while start < len(data):
            batch = data[start : start + rng.choice((1, 1, 2, 5, 10))]
            start += len(batch)
            self.world.publish(self._moment(), rng.randrange(self.scenario.options.peers), batch)

    def _end_some(self) -> None:
        """End some subscriptions, now or during the next phase."""
        rng = self._random
        for subscriber in list(self._live):
            if subscriber.opened_at is not None and rng.random() < 0.3:
                at_once = rng.random() < 0.5
                self.world.unsubscribe(0.0 if at_once else self._moment(), subscriber)
                if at_once:
                    self.world.run_until(lambda ended=subscriber: ended.closed_at is not None)  # type: ignore[misc]
                self._live.remove(subscriber)
                self._ended.append((subscriber, self._rested, at_once))

    def judge(self) -> None:
        """Collect all problems and counts."""
        world, outcome = self.world, self.outcome
        log = world.log()
        everything = Oracle(log)
        outcome.problems += check_requests(world)
        outcome.problems += check_leftovers(world)
        outcome.problems += check_placement(world)
        if not self.scenario.options.faults.skew_seconds_max:
            outcome.problems += check_liveness(world, world.subscribers)
        for subscriber in self._live:
            outcome.problems += check_answers(subscriber, everything)
        for subscriber, rested, exactly in self._ended:
            owed = Oracle(rested)
            outcome.problems += check_answers(subscriber, owed, owed if exactly else everything)
        outcome.publications = len(log)
        outcome.queries = len(world.subscribers)
        outcome.answers = sum(len(subscriber.rows) for subscriber in world.subscribers)
        outcome.messages = world.counts.hops
        outcome.splits = world.traces["key-split"]
        outcome.peers = configurations(world)
        outcome.shown = {"texts"} if self.scenario.texts else set()
