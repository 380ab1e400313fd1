"""Random histories of a small university, channels on it, and an oracle: pyoxigraph, each time asked anew.

The oracle shares nothing with the code under test: rules are CONSTRUCT queries run until nothing is new, and
the right bindings of a channel after each publication and deletion are pyoxigraph's answers to its query.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace

import pyoxigraph as ox

from p2prdf.channels import Categories, Channels, Evaluation, Kind, KnowledgeBase, Notification, Settings
from p2prdf.reasoning import Triple, parse_rules

__all__ = [
    "CHANNELS", "RULES", "History", "Ran", "Ticks", "expected", "problems", "random_history", "random_settings", "run",
    "states", "without_heuristics",
]  # fmt: skip

HERE = "http://www.uni1.edu"
PREFIXES = f"PREFIX : <{HERE}/onto#>\n"
RULES = (
    "?x a :Person :- ?x a :Student .",
    "?x a :Person :- ?x a :Professor .",
    "?x a :Student :- ?x :takes ?c , ?c a :Course .",
    "?c a :Course :- ?p :teaches ?c .",
    "?y :hasMember ?x :- ?x :memberOf ?y .",
    "?x :partOf ?z :- ?x :partOf ?y , ?y :partOf ?z .",
    "?x :memberOf ?z :- ?x :memberOf ?y , ?y :partOf ?z .",
)
CHANNELS = {
    "persons": "SELECT ?x { ?x a :Person }",
    "students": "SELECT ?x { ?x a :Student }",
    "members": f"SELECT ?x ?m {{ ?x a :Person . ?x :memberOf <{HERE}/Dept1> . ?x :mail ?m }}",
    "taught": "SELECT ?p ?c { ?p :teaches ?c . ?p a :Professor }",
    "triangle": "SELECT ?x ?p ?c { ?x :advisor ?p . ?p :teaches ?c . ?x :takes ?c }",
    "parts": "SELECT ?x { ?x :partOf ?y . ?y :hasMember ?z }",
    "about": f"SELECT ?p ?y {{ <{HERE}/Dept1> ?p ?y }}",
    "young": "SELECT ?x ?a { ?x :age ?a . ?x a :Student FILTER(?a < 25) }",
    "itself": "SELECT ?x { ?x :partOf ?x }",
    "anything": "SELECT ?x ?p { ?x ?p ?x }",
    "all": "SELECT ?p { ?x ?p ?y }",
}
"""Queries with bindings inside and outside of the graph; with projection, filter, circles, variable predicates."""


@dataclass(frozen=True)
class History:
    """Operations in order: a graph to publish, or a pattern to delete; and the creation of channels."""

    operations: tuple[tuple[Triple, ...] | Triple, ...]
    created: dict[str, int]
    """The operation before which each channel is created."""


@dataclass
class Ran:
    """The notifications of a run, each with the number of operations done before it."""

    told: list[tuple[int, Notification]]
    channels: Channels

    def first(self) -> Counter[tuple[str, tuple[str, ...]]]:
        """Return how often each binding was reported as new."""
        return Counter((each.channel, each.binding) for _, each in self.told if each.first)


class Ticks:
    """A timer that advances by random steps at each reading."""

    def __init__(self, seed: int, step: float = 0.0001):
        self._random = random.Random(seed)
        self._step = step
        self._now = 0.0

    def __call__(self) -> float:
        self._now += self._random.random() * self._step
        return self._now


def random_history(seed: int, length: int = 40) -> History:
    """Return a history; equal seeds give equal ones."""
    rng = random.Random(seed)
    operations: list[tuple[Triple, ...] | Triple] = []
    graphs: list[tuple[Triple, ...]] = []
    for _ in range(length):
        if graphs and rng.random() < 0.12:
            operations.append(_pattern(rng, rng.choice(graphs)))
        elif graphs and rng.random() < 0.1:
            operations.append(rng.choice(graphs))  # again
        else:
            graphs.append(_graph(rng))
            operations.append(graphs[-1])
    created = {name: rng.choice((0, 0, 0, length // 4)) for name in CHANNELS}
    return History(tuple(operations), created)


def random_settings(seed: int) -> Settings:
    """Return settings of any kind; all of them lead to the same bindings."""
    rng = random.Random(seed)
    kinds = list(Categories)
    return Settings(
        evaluation=rng.choice((Evaluation.REEXECUTED, Evaluation.REEXECUTED, Evaluation.INCREMENTAL)),
        heuristics=tuple(rng.sample(kinds, rng.randint(1, 4))), skip_max=rng.choice((1, 2, 5, 10)),
        threshold=rng.choice((2, 2, 2, 3)), test_budget=rng.choice((0.001, 1.0, 1.0, 1.0)),
        analysis_budget=rng.choice((0.001, 1.0, 1.0, 1.0)), candidates_max=rng.choice((1, 4, 16)),
        skeletons_tried=rng.choice((1, 2)), alternatives_max=rng.choice((1, 4)),
        entries_max=rng.choice((2, 1000, 1000)), bindings_first=rng.choice((0, 64)), switched=rng.random() < 0.3,
        patience=rng.choice((0.0, 0.01, 1.0)), share=rng.choice((0.0, 0.03, 1.0)),
        patience_runs=rng.choice((0.0, 8.0, 1000.0)),
    )  # fmt: skip


def run(history: History, settings: Settings, seed: int = 0) -> Ran:
    """Run a history with the same settings for all channels; settle at the end."""
    channels = Channels(KnowledgeBase(parse_rules(PREFIXES + "\n".join(RULES))), Ticks(seed))
    told: list[tuple[int, Notification]] = []
    for at, operation in enumerate(history.operations):
        for name, when in history.created.items():
            if when == at:
                channels.create(name, PREFIXES + CHANNELS[name], settings)
                channels.subscribe(name, "somebody")
        if isinstance(operation[0], str):
            told += [(at, each) for each in channels.delete(operation)[1]]  # type: ignore[arg-type]
        else:
            published = channels.publish(operation)  # type: ignore[arg-type]
            told += [(at + 1, each) for each in (*published, *channels.evaluate())]
    told += [(len(history.operations), each) for each in channels.settle()]
    return Ran(told, channels)


# --- the oracle ----------------------------------------------------------------------------------


def states(history: History) -> list[dict[str, set[tuple[str, ...]]]]:
    """Return the bindings of each channel before the first operation, and after each."""
    given: set[Triple] = set()
    store = ox.Store()
    found = [_answers(store)]
    for operation in history.operations:
        if isinstance(operation[0], str):
            given = {triple for triple in given if not _matches(operation, triple)}  # type: ignore[arg-type]
            store = ox.Store()
            _load(store, given)
        else:
            given.update(operation)  # type: ignore[arg-type]
            _load(store, set(operation))  # type: ignore[arg-type]
        found.append(_answers(store))
    return found


def expected(history: History) -> Counter[tuple[str, tuple[str, ...]]]:
    """Return how often each binding began to hold on each channel since the channel was created."""
    every = states(history)
    return Counter(
        (name, row)
        for name, created in history.created.items()
        for before, after in zip(every[created:], every[created + 1 :], strict=False)
        for row in after[name] - before[name]
    )


def _load(store: ox.Store, triples: set[Triple]) -> None:
    text = "".join(f"{s} {p} {o} .\n" for s, p, o in triples)
    store.extend(ox.parse(text.encode(), format=ox.RdfFormat.N_TRIPLES))
    constructs = []
    for rule in RULES:
        head, body = rule.removesuffix(".").split(" :- ")
        constructs.append(f"{PREFIXES} CONSTRUCT {{ {head} }} WHERE {{ {body.replace(' , ', ' . ')} }}")
    while True:
        before = len(store)
        for construct in constructs:
            store.extend([ox.Quad(each.subject, each.predicate, each.object) for each in store.query(construct)])
        if len(store) == before:
            return


def _answers(store: ox.Store) -> dict[str, set[tuple[str, ...]]]:
    return {
        name: {tuple(str(value) for value in row) for row in store.query(PREFIXES + text)}
        for name, text in CHANNELS.items()
    }


def _matches(pattern: Triple, triple: Triple) -> bool:
    bound: dict[str, str] = {}
    return all(
        (bound.setdefault(part, term) if part.startswith("?") else part) == term
        for part, term in zip(pattern, triple, strict=True)
    )


# --- events at the university --------------------------------------------------------------------


def _name(kind: str, number: int) -> str:
    return f"<{HERE}/{kind}{number}>"


def _of(name: str) -> str:
    return f"<{HERE}/onto#{name}>"


TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"


def _graph(rng: random.Random) -> tuple[Triple, ...]:
    number, dept = rng.randrange(30), _name("Dept", rng.randrange(1, 4))
    kind = rng.choice(("Student", "Student", "Graduate", "Professor", "Course", "Part"))
    me = _name(kind, number)
    mail = (me, _of("mail"), f'"{kind}{number}@uni1.edu"')
    if kind == "Student":
        triples = [(me, TYPE, _of("Student")), (me, _of("memberOf"), dept), mail]
        triples.append((me, _of("age"), f'"{rng.randrange(18, 32)}"^^<{INTEGER}>'))
    elif kind == "Graduate":
        triples = [(me, _of("takes"), _name("Course", rng.randrange(6))), (me, _of("memberOf"), dept), mail]
        triples.append((me, _of("advisor"), _name("Professor", rng.randrange(4))))
    elif kind == "Professor":
        me = _name(kind, number % 4)
        triples = [(me, TYPE, _of("Professor")), (me, _of("teaches"), _name("Course", rng.randrange(6))),
                   (me, _of("memberOf"), dept)]  # fmt: skip
    elif kind == "Course":
        triples = [(_name("Course", number % 6), TYPE, _of("Course"))]
    else:
        triples = [(dept, _of("partOf"), _name(rng.choice(("Dept", "School")), rng.randrange(1, 4)))]
    if rng.random() < 0.2:
        triples.append((me, _of("takes"), _name("Course", rng.randrange(6))))
    if rng.random() < 0.1:
        rng.shuffle(triples)
    if rng.random() < 0.1:
        triples.append((me, _of("about"), me))
    return tuple(triples)


def _pattern(rng: random.Random, graph: tuple[Triple, ...]) -> Triple:
    s, p, o = rng.choice(graph)
    kept = rng.choice(((1, 1, 1), (1, 0, 0), (1, 1, 0), (0, 1, 1), (0, 0, 1), (1, 0, 1)))
    if rng.random() < 0.05:
        return "?x", p, "?x"
    s, p, o = (part if keep else name for part, keep, name in zip((s, p, o), kept, ("?s", "?p", "?o"), strict=True))
    return s, p, o


def problems(history: History, settings: Settings, seed: int = 0) -> tuple[str, int]:
    """Run a history and judge its notifications; return the errors, if any, and the number of early notifications."""
    ran, every = run(history, settings, seed), states(history)
    wrong = []
    for at, each in ran.told:
        if each.after != at:
            wrong.append(f"told after {at} operations, but says {each.after}: {each}")
        if each.binding not in every[at][each.channel]:
            wrong.append(f"not true after {at}: {each}")
    if ran.first() != expected(history):
        wrong.append(f"not told: {expected(history) - ran.first()}; too much: {ran.first() - expected(history)}")
    tentative = Counter((each.channel, each.binding) for _, each in ran.told if each.kind is Kind.TENTATIVE)
    confirmed = Counter((each.channel, each.binding) for _, each in ran.told if not each.first)
    if tentative != confirmed:
        wrong.append(f"tentative, not confirmed: {tentative - confirmed}; the other way round: {confirmed - tentative}")
    wrong += _late(history, settings, ran, every)
    return "\n".join(wrong), tentative.total()


def _late(history: History, settings: Settings, ran: Ran, every: list[dict[str, set[tuple[str, ...]]]]) -> list[str]:
    """Return the bindings reported later than ``skip_max`` - 1 publications after they began to hold."""
    wrong = []
    for at, each in ran.told:
        if each.first:
            since = at
            while since and each.binding in every[since - 1][each.channel]:
                since -= 1
            since = max(since, history.created[each.channel])
            between = [operation for operation in history.operations[since:at] if not isinstance(operation[0], str)]
            if len(between) > settings.skip_max - 1:
                wrong.append(f"{len(between)} publications late: {each}")
    return wrong


def without_heuristics(settings: Settings) -> Settings:
    """Return settings by which each query runs at each publication."""
    return replace(settings, heuristics=(), skip_max=1)
