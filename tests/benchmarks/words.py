"""Standing queries about the texts of one predicate, with predicate or keyword routing: the load of each peer.

Simulated peers of the daemon's own code; passages of real texts, each published alone.  A query has one to
three words that a text must have: drawn as often as they occur (*common*: most are common words), or all words
alike (*rare*). *Texts*: triples with a text that arrived from another peer, once more for each copy under
keywords.  *Conditions*: the number waiting under the key that a text arrived under, summed over texts; an index
tests few of them, but holds them all. Answers are compared with the evaluation of each condition on each text.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from p2prdf.errors import DataRefused
from p2prdf.peer import PeerConfig
from p2prdf.rdf.fulltext import condition_holds, parse_condition, text_of, words_of
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.terms import literal
from p2prdf.sim.world import Node, World, WorldOptions
from p2prdf.store.light_texts import TextRows
from p2prdf.wire.messages import Envelope, IndexTriples
from p2prdf_lab.workloads.passages import find_texts, read_passages

BAR = 0.5
"""Bound on the busiest peer's conditions with keyword routing, as a part of those by predicate, if rare."""
_PREDICATE: Final = "<http://schema.org/articleBody>"
_PASSAGE: Final = 50


@dataclass
class Seen:
    """The counts of a run: by peer, and altogether."""

    texts: Counter[int] = field(default_factory=Counter)
    conditions: Counter[int] = field(default_factory=Counter)
    held: Counter[int] = field(default_factory=Counter)
    messages: int = 0
    answers: int = 0
    wrong: int = 0
    words: int = 0


class _Counting(World):
    """Records the peer that has the turn, and the arriving texts."""

    def __init__(self, options: WorldOptions):
        super().__init__(options)
        self.seen = Seen()
        self.turn = -1
        self.counting = False

    def _wake(self, node: Node) -> None:
        self.turn = node.index
        super()._wake(node)

    def send(self, node: Node, to: Any, envelope: Envelope) -> None:
        if self.counting and isinstance(envelope.message, IndexTriples):
            target = self.by_key[to.key]
            self.seen.texts[target.index] += len(envelope.message)
            self.seen.messages += target is not node
        super().send(node, to, envelope)


def _texts(passages: list[list[str]], count: int) -> list[str]:
    rng = random.Random("texts of words")
    found = []
    for _ in range(count):
        text = rng.choice(passages)
        start = rng.randrange(max(1, len(text) - _PASSAGE))
        found.append(literal(" ".join(text[start : start + _PASSAGE])))
    return found


def _conditions(texts: list[str], count: int, *, rare: bool) -> list[str]:
    rng = random.Random("conditions of words")
    words = [word for text in texts for word in words_of(text)]
    if rare:
        words = sorted(set(words))
    found: dict[str, None] = {}
    while len(found) < count:
        chosen = dict.fromkeys(rng.choice(words) for _ in range(rng.randint(1, 3)))
        found[" ftAND ".join(f'"{word}"' for word in chosen)] = None
    return list(found)


def _run(peers: int, texts: list[str], conditions: list[str], *, by_words: bool, split: bool) -> Seen:
    config = PeerConfig(
        indexes="on-demand", keyword_routing=by_words, hot_keys=split, hot_interval_seconds=1.0, hot_rate_min=20,
        hot_sample=1,
    )
    world = _Counting(WorldOptions(peers=peers, seed=1, places="even", config=config))
    seen = world.seen
    original = TextRows.met_by

    def met_by(self: TextRows, key: Any, term: int) -> Any:
        if world.counting:
            seen.conditions[world.turn] += len(self._under.get(key, ()))
        return original(self, key, term)

    TextRows.met_by = met_by  # type: ignore[method-assign]
    try:
        subscribers = []
        for at, condition in enumerate(conditions):
            body = f"SELECT ?s ?t {{ ?s {_PREDICATE} ?t FILTER ftcontains(?t, {condition}) }}"
            query = parse_query(body).conjunctive
            assert query is not None
            subscribers.append(world.subscribe(0.0, at % peers, query))
        world.run_until_quiet()
        world.run_for(0.01)
        seen.words = int(str(world.nodes[0].peer.status()["keywords"]))
        world.counting = True
        for at, text in enumerate(texts):
            world.publish(0.01 * at, at % peers, [(f"<urn:article:{at}>", _PREDICATE, text)])
        world.run_until_quiet()
        world.counting = False
    finally:
        TextRows.met_by = original  # type: ignore[method-assign]
    for node in world.nodes:
        seen.held[node.index] = int(str(node.peer.status()["queries"]))
    known = [text_of(text) for text in texts]
    for subscriber, spelled in zip(subscribers, conditions, strict=True):
        condition = parse_condition(spelled)
        fitting = [at for at, text in enumerate(known) if condition_holds(condition, text)]
        owed = Counter((f"<urn:article:{at}>", texts[at]) for at in fitting)
        got = Counter(subscriber.bag)
        seen.answers += owed.total()
        seen.wrong += (owed - got).total() + (got - owed).total() + len(subscriber.complaints)
    return seen


def run(console: Console, quick: bool) -> bool:
    """Print the load of each peer; return whether the bar is met and all answers are right."""
    try:
        passages = read_passages(find_texts())
    except DataRefused as refused:
        console.print(f"not run: {refused}")
        return True
    peers, queries, count = (16, 60, 100) if quick else (64, 400, 800)
    texts = _texts(passages, count)
    table = Table(title=f"{peers} peers, {queries} queries, {count} texts of {_PASSAGE} words; most: at any peer")
    for column in (
        "words", "wait by", "keys", "known", "queries, most", "texts, most", "all", "met, most", "all",
        "messages each", "answers",
    ):  # fmt: skip
        table.add_column(column, justify="right")
    met: dict[tuple[str, bool, bool], int] = {}
    wrong = 0
    for kind in ("common", "rare"):
        conditions = _conditions(texts, queries, rare=kind == "rare")
        for by_words in (False, True):
            for split in (False, True):
                seen = _run(peers, texts, conditions, by_words=by_words, split=split)
                met[kind, by_words, split] = max(seen.conditions.values(), default=0)
                wrong += seen.wrong
                table.add_row(
                    kind, "word" if by_words else "predicate", "split" if split else "whole", f"{seen.words:,}",
                    f"{max(seen.held.values()):,}", f"{max(seen.texts.values()):,}", f"{seen.texts.total():,}",
                    f"{max(seen.conditions.values(), default=0):,}", f"{seen.conditions.total():,}",
                    f"{seen.messages / count:.2f}", f"{seen.answers:,}" if not seen.wrong else f"{seen.wrong} wrong",
                )  # fmt: skip
    console.print(table)
    part = met["rare", True, False] / (met["rare", False, False] or 1)
    console.print(f"bar: the busiest peer meets {part:.3f} of the conditions it meets by the predicate, {wrong} wrong")
    return part <= BAR and not wrong
