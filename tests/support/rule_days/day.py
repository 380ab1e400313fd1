"""A fault schedule with rules left in the network, changing triples and failing peers; it checks their graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from seeded_days import Verdict

from p2prdf.rdf import quads
from p2prdf.rdf.algebra import InferenceRule
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.rdf.standing.insertion import parse_insertion
from p2prdf.rdf.standing.query import parse_query
from p2prdf.reasoning import parse_rules
from p2prdf.reasoning.insertions import insertions
from p2prdf.reasoning.ruled_query import rule_forms
from schedules.checkers import describe_bag
from schedules.closure import closed
from schedules.failures.checkers import check_audits, check_standing, stored
from schedules.failures.clients import Publisher, SubscriberClient
from schedules.failures.copies import Copies
from schedules.failures.mischief import Mischief
from schedules.failures.replicas import difference
from schedules.failures.scenario import draw_bad_day
from schedules.failures.subscriber import ResumingSubscriber
from schedules.failures.world import FailingWorld
from schedules.shares import Configurations, configurations, shown_by_queries

__all__ = ["GRAPH", "RULES", "run_seed"]

SPAN_SECONDS: Final = 12.0
HEAL_SECONDS: Final = 300.0
LEASE_SECONDS: Final = 60.0
"""Lease of rules: a rule left twice, because its answer was lost, ends by itself; holders of its rows ask for it."""
ENDS: Final = 0.3
"""Share of the rules that their client ends."""
GRAPH: Final = "<urn:follows>"
NODES: Final = tuple(f"<urn:n{number}>" for number in range(5))
RULES: Final = tuple(
    f"PREFIX : <urn:> {text}"
    for text in (
        "?x :p ?z :- ?x :p ?y , ?y :p ?z .",
        "?x :p ?y :- ?x :q ?y . ?x :q ?y :- ?x :p ?y .",
        "?y :q ?x :- ?x :q ?y . ?x :q ?z :- ?x :q ?y , ?y :q ?z .",
        "?x :p ?z :- ?x :p ?y , ?y :s ?z . ?x :q ?y :- ?x :p ?y , ?y :p ?x . ?x :s :n0 :- ?x :q ?x .",
        "?x :r ?c :- ?x :r ?b , ?b :s ?c . ?x :s ?z :- ?x :s ?y , ?y :s ?z . :n1 :p ?x :- ?x :r :n2 .",
    )
)
READINGS: Final = (
    "SELECT ?x ?y { GRAPH <urn:follows> { ?x <urn:p> ?y } }",
    "SELECT ?x ?y { GRAPH <urn:follows> { ?x <urn:q> ?y . ?y <urn:q> ?x } }",
    "SELECT ?x ?p ?y { GRAPH <urn:follows> { ?x ?p ?y } }",
    "SELECT ?x (COUNT(*) AS ?n) { ?x <urn:s> ?z GRAPH <urn:follows> { ?x <urn:p> ?y } } GROUP BY ?x",
)


class _Day:
    def __init__(
        self, seed: int, trace: Callable[[str], None] | None, *, calm: bool, configurations: Configurations = "daemon"
    ):
        self._seed = seed
        self._calm = calm
        self._rng = self._random("all")
        day = draw_bad_day(seed, configurations)
        config = replace(
            day.options.config, replicas=3, copies_min=2, indexes="all" if day.daemons else "csbv",
            group_lease_seconds=LEASE_SECONDS,
        )  # fmt: skip
        failures = replace(
            day.failures, span_seconds=SPAN_SECONDS, publisher_crash_probability=0.0, removals=False, standing=False,
            bookmarks=False,
        )  # fmt: skip
        peers = 7 if calm else max(4, day.options.peers)
        self.world = FailingWorld(replace(day.options, config=config, peers=peers), failures, trace=trace)
        self.verdict = Verdict(seed, f"{day}")
        self._rules = parse_rules(self._rng.choice(RULES))
        self._publishers = [Publisher(self.world, f"{seed} {at}", self._random(f"publisher {at}")) for at in range(2)]
        self._readers: list[SubscriberClient] = []
        self._left: list[SubscriberClient] = []
        self._clients: list[SubscriberClient] = []
        self._mischief = Mischief(self.world, self._random("mischief"), Copies(self.world), self._clients)

    def _random(self, name: str) -> Random:
        return Random(f"p2prdf rule day {self._seed} {name}")

    def _leave(self, name: str, query: object, text: str, at: float) -> SubscriberClient:
        record = ResumingSubscriber(name, query, Algorithm.CSBV, False, LEASE_SECONDS, text, True)  # type: ignore[arg-type]
        client = SubscriberClient(self.world, record, self._random(name))
        self._clients.append(client)
        self.world.schedule(at, client.connect)
        return client

    def play(self) -> None:
        """Run the schedule, and let the world come to rest."""
        world, rng = self.world, self._rng
        for number, text in enumerate(insertions(self._rules, GRAPH)):
            rule = parse_insertion(text)
            assert rule is not None
            at = rng.choice((0.0, 0.0, rng.uniform(0.0, SPAN_SECONDS / 2)))
            client = self._leave(f"rule {number}", rule, text, at)
            self._left.append(client)
            if rng.random() < ENDS:
                world.schedule(rng.uniform(at + 2.0, SPAN_SECONDS), client.unsubscribe)
                if rng.random() < 0.5:
                    again = self._leave(f"rule {number} again", rule, text, rng.uniform(at, SPAN_SECONDS))
                    self._left.append(again)
        for number in range(rng.randint(1, 3)):
            text = rng.choice(READINGS)
            standing = parse_query(text)
            query = standing.conjunctive or standing
            client = self._leave(f"reader {number}", query, text, rng.choice((0.0, rng.uniform(0.0, SPAN_SECONDS))))
            self._readers.append(client)
        if not self._calm:
            self._mischief.plan()
        forms = rule_forms(self._rules)
        predicates = sorted({atom[1] for _, body in forms for atom in body})
        end, held = world.now + SPAN_SECONDS, list[tuple[str, str, str]]()
        while world.now < end:
            triple = rng.choice(NODES), rng.choice(predicates), rng.choice(NODES)
            publisher = rng.choice(self._publishers)
            if held and rng.random() < 0.45:
                publisher.publish(0.0, [held.pop(rng.randrange(len(held)))], removed=True)
            else:
                held.append(triple)
                publisher.publish(0.0, [triple])
            world.run_for(rng.choice((0.02, 0.1, 0.5)))
        self._mischief.heal()
        world.network.faults = replace(
            world.network.faults, loss_probability=0.0, duplicate_probability=0.0, straggler_probability=0.0
        )
        world.run_for(5 * LEASE_SECONDS)
        end, still = world.now + HEAL_SECONDS, 0
        while world.now < end and still < 3:
            world.run_for(1.0)
            still = 0 if self._restless() else still + 1
        if why := self._restless():
            self.verdict.problems.append(f"not at rest after {HEAL_SECONDS:g} s: {why}")
        self.verdict.counts["seconds to rest"] += int(HEAL_SECONDS - (end - world.now))

    def _restless(self) -> str | None:
        if any(each.open for publisher in self._publishers for each in publisher.published):
            return "publications are not acknowledged"
        for client in self._clients:
            if client.record.closing_at is not None:
                if client.record.closed_at is None:
                    return f"the end of {client.record.name} is not confirmed"
            elif not client.attached or client.record.unsettled:
                return f"{client.record.name} is not attached, or answers are not settled"
        if not self.world.views.true():
            return "views differ from what is true"
        for node in self.world.living():
            if not node.peer.quiet or node.peer.status()["recomputing"] or not node.peer.status()["in_sync"]:
                return f"peer {node.index} is not quiet"
        return difference(self.world)

    def judge(self) -> None:
        """Check the facts held in the end."""
        verdict, world = self.verdict, self.world
        triples = stored(world, 0)
        base = {each for each in triples if not quads.is_reserved(each[1])}
        held = {each for each in triples if (parts := quads.parts_of(each[1])) is not None and parts[1] == GRAPH}
        stand = {_form(client.record.query) for client in self._left if client.record.closing_at is None}
        owed = closed(stand, base) - base
        for what, facts in (("missing", owed - held), ("unfounded", held - owed)):
            if facts:
                verdict.problems.append(f"{what}: {describe_bag(Counter(facts))} of {sorted(base)}")
        verdict.problems += map(str, check_audits(world))
        for client in self._readers:
            verdict.problems += [
                f"{problem.kind}: {problem}" for problem in check_standing(world, client.record, at_rest=True)
            ]
        verdict.told += f"; {len(self._rules)} rules, {dict(world.happened)} happened"
        verdict.counts.update(world.happened)
        verdict.peers = configurations(world)
        verdict.shown = {"rules", "removals"} | {name for name, count in world.happened.items() if count}
        verdict.shown |= shown_by_queries(client.record.text for client in self._clients)
        verdict.counts["facts held"] += len(held)
        verdict.counts["facts derived"] += len({each for each in held if (each[0], _plain(each), each[2]) not in base})
        verdict.counts["rules ended"] += sum(client.record.closing_at is not None for client in self._left)
        verdict.counts["answers told"] += sum(len(client.record.rows) for client in self._readers)
        for node in world.living():
            for name in ("facts_published", "facts_removed", "facts_published_again"):
                verdict.counts[name] += node.peer.status()[name]
        verdict.counts["messages"] += world.counts.hops


def _form(rule: ConjunctiveQuery) -> InferenceRule:
    """Return a rule as a head and a body of triples, as they are indexed."""

    def atom(pattern: tuple[int, int, int]) -> tuple[str, str, str]:
        s, p, o = (rule.constants[~slot] if slot < 0 else f"?v{slot}" for slot in pattern)
        return s, p, o

    *body, head = map(atom, rule.patterns)
    return head, tuple(body)


def _plain(fact: tuple[str, str, str]) -> str:
    parts = quads.parts_of(fact[1])
    assert parts is not None
    return parts[0]


def run_seed(seed: int, *, trace: Callable[[str], None] | None = None, calm: bool = False) -> Verdict:
    """Run the schedule of a seed and check it; ``calm``: seven peers, none of which fails."""
    day = _Day(seed, trace, calm=calm)
    day.play()
    day.judge()
    return day.verdict
