"""Judges of a finished simulation: everything owed is there, nothing else is, and nothing is left over.

A checker returns problems instead of raising, so that one report shows all of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from p2prdf import keys
from p2prdf.sim.workload import sparql_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from p2prdf.sim.oracle import Oracle, Row, Triple
    from p2prdf.sim.subscriber import Subscriber
    from p2prdf.sim.world import World

__all__ = [
    "Problem", "check_answers", "check_leftovers", "check_liveness", "check_placement", "check_requests",
    "describe_bag",
]  # fmt: skip

_SHOWN_MAX = 8

_EMPTY_AT_REST = ("outbox", "passing_on", "parked", "publications_open", "refused")
"""Counters of :meth:`p2prdf.peer.Peer.status` that must be zero when nothing is under way."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken promise: what kind, whose, and what exactly."""

    kind: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}: {self.text}"


def describe_bag(bag: Counter[Row]) -> str:
    """Spell a bag of rows, cut to a few."""
    rows = sorted(bag.items())
    shown = [f"{count} x ({', '.join(row)})" for row, count in rows[:_SHOWN_MAX]]
    if len(rows) > _SHOWN_MAX:
        shown.append(f"and {len(rows) - _SHOWN_MAX} more rows")
    return f"{bag.total()} answers: " + "; ".join(shown)


def check_answers(subscriber: Subscriber, owed: Oracle, possible: Oracle | None = None) -> list[Problem]:
    """Return what is wrong with what a subscriber holds.

    It must hold all answers of ``owed`` and none that ``possible`` does not have (if None, the
    same), each once, in a sequence without gap or loss.  The two differ for a subscription
    that ended while publications were under way.
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
    """Return every request that failed or was never answered."""
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
    """Return what peers still hold of unfinished work although the world is at rest."""
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
    """Return peers that hold more or fewer triples than they own (invariant: every row is at its owner).

    Counts are all that shows from outside: under each role that every peer indexes from the
    start, a triple must be held by the owner of its key and by nobody else.  Roles that were
    advertised later, per-event rows and wildcard buckets may be held by their owners too.
    """
    log = world.log()
    fixed = world.options.config.fixed_roles
    must: Counter[int] = Counter()
    may: Counter[int] = Counter()
    for triple in {publication.triple for publication in log}:
        _count_owners(world, triple, must, may, fixed)
    for publication in log:
        _count_owners(world, publication.triple, must, may, fixed >> keys.EVENT_SHIFT)
    bucket_owners = {world.ring.owner(keys.bucket_key(bucket)).key for bucket in range(keys.BUCKETS)}
    problems = []
    for node in world.nodes:
        key = node.contact.key
        held = int(str(node.peer.status()["triple_roles"]))
        most = may[key] + (2 * len(log) if key in bucket_owners else 0)
        if not must[key] <= held <= most:
            text = f"holds {held} triples by role, owns {must[key]} for sure and {most} at most"
            problems.append(Problem("placement", f"peer {node.index}", text))
    return problems


def _count_owners(world: World, triple: Triple, must: Counter[int], may: Counter[int], fixed: int) -> None:
    """Count a triple for the owner of each of its keys; for sure if the role is among ``fixed``."""
    hashes = [keys.term_hash(term) for term in triple]
    for role in (1, 2, 3, 4, 5, 6, 7):
        owner = world.ring.owner(keys.role_key(role, *hashes)).key
        may[owner] += 1
        must[owner] += fixed >> role & 1


def check_liveness(world: World, subscribers: Iterable[Subscriber]) -> list[Problem]:
    """Return publications that came after a subscription was live but do not count for it.

    Only where all clocks are right: with skew, stamps may differ from what an observer saw.
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
