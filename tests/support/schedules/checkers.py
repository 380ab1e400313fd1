"""Checkers of a finished simulation: complete answers, no other answers, no unfinished work.

A checker returns problems instead of raising, so that one report shows all of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from p2prdf import keys
from p2prdf.rdf.fulltext import text_of
from p2prdf.rdf.quads import word_parts_of
from p2prdf_lab.workloads.random_queries import sparql_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from p2prdf.sim.oracle import Oracle, Row, Triple
    from p2prdf.sim.subscriber import Subscriber
    from p2prdf.sim.world import World

__all__ = [
    "Problem", "check_answers", "check_leftovers", "check_liveness", "check_placement", "check_requests",
    "describe_bag",
]  # fmt: skip

_SHOWN_MAX = 8

_EMPTY_AT_REST = (
    "outbox", "forwarding", "batches_waiting", "publications_open", "operations_pending", "keys_migrating", "refused",
)  # fmt: skip
"""Counters of :meth:`p2prdf.peer.Peer.status` that must be zero at rest."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken promise: its kind, the peer or subscriber, and the details."""

    kind: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}: {self.text}"


def describe_bag(bag: Counter[Row]) -> str:
    """Return some rows of a bag as text."""
    rows = sorted(bag.items())
    shown = [f"{count} x ({', '.join(row)})" for row, count in rows[:_SHOWN_MAX]]
    if len(rows) > _SHOWN_MAX:
        shown.append(f"and {len(rows) - _SHOWN_MAX} more rows")
    return f"{bag.total()} answers: " + "; ".join(shown)


def check_answers(subscriber: Subscriber, owed: Oracle, possible: Oracle | None = None) -> list[Problem]:
    """Return the problems of a subscriber's answers.

    The subscriber must have all answers of ``owed`` and only answers of ``possible`` (None: of ``owed``), each once, in
    a sequence without gap or loss.  The two differ for a subscription that ended while publications were under way.
    """
    where = _name(subscriber)
    problems = [Problem("sequence", where, text) for text in subscriber.complaints]
    if subscriber.since is None:
        return [*problems, Problem("unanswered", where, f"never went live: {subscriber.failed}")]
    got = subscriber.bag
    must = owed.answers(subscriber.query, subscriber.since, per_event=subscriber.per_event)
    if missing := must - got:
        problems.append(Problem("missing", where, describe_bag(missing)))
    may = must
    if possible is not None:
        may = possible.answers(subscriber.query, subscriber.since, per_event=subscriber.per_event)
    if extra := got - may:
        problems.append(Problem("extra", where, describe_bag(extra)))
    stale = sum(born < subscriber.since for born in subscriber.born)
    if stale:
        problems.append(Problem("stale", where, f"{stale} answers were born before the subscription"))
    return problems


def check_requests(world: World) -> list[Problem]:
    """Return the requests that failed or got no answer."""
    problems = []
    for publishing in world.publishings:
        if publishing.stamp is None:
            why = publishing.failed or "no answer"
            problems.append(
                Problem("unanswered", f"peer {publishing.peer}", f"publish {publishing.first_event}: {why}")
            )
    problems += [
        Problem("refused", _name(subscriber), str(subscriber.failed))
        for subscriber in world.subscribers
        if subscriber.failed is not None
    ]
    for node in world.nodes:
        problems += [
            Problem("unanswered", f"peer {node.index}", f"request {request}: {handle}")
            for request, handle in node.requests.items()
        ]
        for subscription, notifies in node.early.items():
            text = f"{len(notifies)} deliveries for unknown subscription {subscription:#x}"
            problems.append(Problem("stray", f"peer {node.index}", text))
    return problems


def check_leftovers(world: World) -> list[Problem]:
    """Return the peers' unfinished work in a world at rest."""
    problems = []
    for node in world.nodes:
        status = node.peer.status()
        problems += [
            Problem("leftover", f"peer {node.index}", f"{name} = {status[name]} at rest")
            for name in _EMPTY_AT_REST
            if status.get(name)
        ]
    return problems


def check_placement(world: World) -> list[Problem]:
    """Return peers with more or fewer triples than they own (invariant: every row is at its owner).

    Peers report counts only.  In each index that all peers have from the start, a triple must be at the owner of its
    key, and only there.  Owners may also have triples in indexes that were advertised later, in the indexes of events,
    in wildcard buckets and in the keyword index.  A triple of a hot key may be at the sub-key of any depth; the sum
    shows that it is at one of them.
    """
    log = world.log()
    fixed = world.options.config.fixed_roles
    depths = _depths(world)
    must: Counter[int] = Counter()
    may: Counter[int] = Counter()
    count = 0
    for triple in {publication.triple for publication in log}:
        count += _count_owners(world, triple, must, may, fixed, depths)
    for publication in log:
        count += _count_owners(world, publication.triple, must, may, fixed >> keys.EVENT_SHIFT, depths)
    for triple in _with_words(world, {publication.triple for publication in log}):
        _count_owners(world, triple, must, may, 0, depths)
    bucket_owners = {each.key for bucket in range(keys.BUCKETS) for each in world.owners(keys.bucket_key(bucket))}
    problems = _check_copies(world)
    total = 0
    for node in world.nodes:
        key = node.contact.key
        held = int(str(node.peer.status()["index_entries"]))
        total += held
        most = may[key] + (2 * len(log) if key in bucket_owners else 0)
        if not must[key] <= held <= most:
            text = f"holds {held} triples by role, owns {must[key]} for sure and {most} at most"
            problems.append(Problem("placement", f"peer {node.index}", text))
    if total < count:
        problems.append(Problem("placement", "all peers", f"hold {total} triples by role of {count}"))
    return problems


def _with_words(world: World, triples: Iterable[Triple]) -> Iterator[Triple]:
    """Yield the triples, and their entries in the keyword index under words that queries wait for."""
    known = {predicate: None for node in world.nodes for predicate in node.peer.words}
    waiting = {predicate: parts for predicate in known if (parts := word_parts_of(predicate)) is not None}
    for s, p, o in sorted(triples) if waiting else ():
        text = text_of(o)
        words = set() if text is None else set(text.words)
        for predicate, (own, some) in waiting.items():
            if own == p and not words.isdisjoint(some):
                yield s, predicate, o


def _depths(world: World) -> dict[tuple[int, int], int]:
    """Return the greatest depth of each hot key."""
    depths: dict[tuple[int, int], int] = {}
    for node in world.nodes:
        for place, depth in node.peer.split_keys.items():
            depths[place] = max(depth, depths.get(place, 0))
    return depths


def _check_copies(world: World) -> list[Problem]:
    """Return owners of sub-keys without all rows that wait under the key: each triple there must meet all of them."""
    problems = []
    for node in world.nodes:
        for (role, key), depth in node.peer.split_keys.items():
            wait = [row for row in node.peer.waiting(role, key) if any(n.peer.is_home(row[0]) for n in world.nodes)]
            if not wait:
                continue
            for holder in sorted({world.ring.owner(keys.sub_key(key, index)).key for index in range(1 << depth)}):
                held = set(world.by_key[holder].peer.waiting(role, key))
                if lacking := [row for row in wait if row not in held]:
                    text = f"{len(lacking)} of {len(wait)} rows under {keys.ROLE_NAMES[role]} {key:016x} are not held"
                    problems.append(Problem("placement", f"peer {world.by_key[holder].index}", text))
    return problems


def _count_owners(
    world: World, triple: Triple, must: Counter[int], may: Counter[int], fixed: int,
    depths: dict[tuple[int, int], int],
) -> int:  # fmt: skip
    """Count a triple for the owner of each of its keys; in ``must`` if the index is in ``fixed``, otherwise in ``may``.

    Returns the number of copies that must exist.  With replication no key is split, and all replicas have the triple.
    """
    hashes = [keys.term_hash(term) for term in triple]
    whole = keys.role_key(keys.SPO, *hashes)
    for role in (1, 2, 3, 4, 5, 6, 7):
        key = keys.role_key(role, *hashes)
        places = [keys.sub_key(key, whole & (1 << depth) - 1) for depth in range(depths.get((role, key), 0) + 1)]
        owners = sorted({each.key for place in places for each in world.owners(place)})
        for owner in owners:
            may[owner] += 1
            must[owner] += fixed >> role & 1 and (len(owners) == 1 or len(places) == 1)
    return (fixed & keys.CSBV_ROLES).bit_count() * min(world.options.config.replicas, len(world.nodes))


def check_liveness(world: World, subscribers: Iterable[Subscriber]) -> list[Problem]:
    """Return publications that came after a subscription was live but do not count for it.

    Only for correct clocks: with skew, the order of stamps may differ from the observed order.
    """
    problems = []
    for subscriber in subscribers:
        if subscriber.opened_at is None or subscriber.since is None:
            continue
        for publishing in world.publishings:
            late = publishing.at > subscriber.opened_at
            if late and publishing.stamp is not None and publishing.stamp < subscriber.since:
                text = (
                    f"peer {publishing.peer} published after the subscription was live, but its stamp "
                    f"{publishing.stamp:#x} is below {subscriber.since:#x}"
                )
                problems.append(Problem("not live", _name(subscriber), text))
    return problems


def _name(subscriber: Subscriber) -> str:
    kind = "per event" if subscriber.per_event else "set"
    text = " ".join(sparql_text(subscriber.query).split())
    return f"{subscriber.name} at peer {subscriber.peer} ({subscriber.algorithm.value}, {kind}) {text}"
