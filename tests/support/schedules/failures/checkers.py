"""Checkers of a fault schedule: must <= delivered <= may, no repeats, complete publications, equal replicas.

*Must*: answers from publications that were acknowledged to their publishers and have later stamps than all attempts to
delete their triples.  *May*: answers from all attempted publications, except for triples that were certainly deleted
later.  Publication events are not deleted, and DISTINCT answers not retracted.  A repeated publication has several
stamps: each of them is possible, and the acknowledged ones are owed.  If a query was reported live before a publication
began, the publication is owed with any stamp.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from p2prdf import hlc, keys
from p2prdf.columns import as_list
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.sim.oracle import Oracle, Publication, Row, Triple
from p2prdf_lab.workloads.random_queries import sparql_text
from schedules.checkers import Problem, describe_bag
from schedules.standing import only_grows, standing_answers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from schedules.failures.clients import RepeatedPublishing
    from schedules.failures.subscriber import ResumingSubscriber
    from schedules.failures.world import FailingWorld

__all__ = [
    "attempted", "check_answers", "check_audits", "check_bookmarks", "check_kept", "check_stamps", "check_standing",
    "check_unanswered", "lost_where", "name_of", "owed", "stored",
]  # fmt: skip


_ORDERED_SECONDS: Final = 3.0
"""With wrong clocks, which each peer corrects by itself, publications closer in time may have any order."""


def _removed(world: FailingWorld, publishings: Iterable[RepeatedPublishing], *, surely: bool) -> dict[Triple, int]:
    """Return the latest stamp of each triple's deletions: of certain ones (``surely``), or of attempted ones too."""
    removed: dict[Triple, int] = {}
    for publishing in publishings:
        for event, triple in zip(publishing.events, publishing.triples, strict=True) if publishing.removed else ():
            stamps = publishing.stamps if surely else [*world.stamps.get(event, ()), *publishing.stamps]
            removed[triple] = max(removed.get(triple, 0), *stamps, 0)
    return removed


def owed(
    world: FailingWorld, subscriber: ResumingSubscriber, publishings: Iterable[RepeatedPublishing],
    until: float = math.inf,
) -> list[Publication]:  # fmt: skip
    """Return the acknowledged publications (until a clock showed ``until``).

    Their stamps are such that they count if they came after the query was live.
    """
    if world.failures.clock_steps_max:
        return _owed_by_time(subscriber, list(publishings))
    log = []
    removed = {} if subscriber.per_event else _removed(world, publishings, surely=False)
    for publishing in publishings:
        for publication in publishing.log(until) if not publishing.removed else ():
            stamp = publication.stamp
            if stamp <= removed.get(publication.triple, 0):
                continue
            if _came_after(publishing, subscriber):
                assert subscriber.since is not None
                stamp = max(stamp, subscriber.since)
            log.append(Publication(stamp, publication.event, publication.triple))
    return log


def _owed_by_time(subscriber: ResumingSubscriber, publishings: Sequence[RepeatedPublishing]) -> list[Publication]:
    """Return the owed publications under wrong clocks: by elapsed time, because stamps have no meaning."""
    assert subscriber.since is not None
    log = []
    for publishing in publishings:
        if publishing.removed or subscriber.opened_at is None:
            continue
        if publishing.first_at <= subscriber.opened_at + _ORDERED_SECONDS:
            continue
        for publication in publishing.log():
            removed = not subscriber.per_event and any(
                other.removed and publication.triple in other.triples and not _long_before(other, publishing)
                for other in publishings
            )
            if not removed:
                log.append(Publication(max(publication.stamp, subscriber.since), publication.event, publication.triple))
    return log


def _long_before(one: RepeatedPublishing, other: RepeatedPublishing) -> bool:
    """Return whether one publication was acknowledged long before the other began."""
    return one.completed_at is not None and one.completed_at + _ORDERED_SECONDS < other.first_at


def _possible_by_time(
    subscriber: ResumingSubscriber, publishings: Sequence[RepeatedPublishing], *, ever: bool
) -> list[Publication]:
    """Return the possible publications under wrong clocks, without certainly deleted ones unless ``ever``."""
    assert subscriber.since is not None
    return [
        Publication(subscriber.since, event, triple)
        for publishing in publishings
        if not publishing.removed
        for event, triple in zip(publishing.events, publishing.triples, strict=True)
        if ever or not any(
            other.removed and other.stamps and triple in other.triples and _long_before(publishing, other)
            for other in publishings
        )
    ]


def _came_after(publishing: RepeatedPublishing, subscriber: ResumingSubscriber) -> bool:
    return subscriber.opened_at is not None and publishing.first_at > subscriber.opened_at


def attempted(
    world: FailingWorld, publishings: Iterable[RepeatedPublishing], removed: Mapping[Triple, int]
) -> list[Publication]:
    """Return all attempted publications, each event with its latest observed stamp.

    Triples that were ``removed`` later are left out.
    """
    log = []
    for publishing in publishings:
        if publishing.removed:
            continue
        for event, triple in zip(publishing.events, publishing.triples, strict=True):
            stamps = [*world.stamps.get(event, ()), *publishing.stamps]
            if stamps and max(stamps) > removed.get(triple, 0):
                log.append(Publication(max(stamps), event, triple))
    return log


def _answers(subscriber: ResumingSubscriber, log: Iterable[Publication]) -> Counter[Row]:
    assert subscriber.since is not None
    assert isinstance(subscriber.query, ConjunctiveQuery)
    return Oracle(log).answers(subscriber.query, subscriber.since, per_event=subscriber.per_event)


def check_answers(
    world: FailingWorld, subscriber: ResumingSubscriber, publishings: Sequence[RepeatedPublishing]
) -> list[Problem]:
    """Return the problems of a subscriber's answers at the end."""
    where = name_of(subscriber)
    problems = [Problem("twice" if "twice" in text else "told", where, text) for text in subscriber.complaints]
    if subscriber.since is None:
        last = subscriber.failures[-1] if subscriber.failures else "no answer"
        return [*problems, Problem("unanswered", where, f"never went live: {last}")]
    got = subscriber.bag
    log = owed(world, subscriber, publishings)
    if subscriber.closing_at is None:
        must = _answers(subscriber, log)
        if missing := must - got:
            lost = lost_where(subscriber, log, missing)
            problems.append(Problem("missing", where, f"{lost} of {must.total()} owed, {describe_bag(missing)}"))
    assert isinstance(subscriber.query, ConjunctiveQuery)
    stays = subscriber.per_event or subscriber.query.distinct
    removed = {} if stays else _removed(world, publishings, surely=True)
    if world.failures.clock_steps_max:
        may = _answers(subscriber, _possible_by_time(subscriber, publishings, ever=stays))
        ever = may if stays else _answers(subscriber, _possible_by_time(subscriber, publishings, ever=True))
    else:
        may = _answers(subscriber, attempted(world, publishings, removed))
        ever = _answers(subscriber, attempted(world, publishings, {})) if removed else may
    # A subscription may have ended between an answer of a new validity interval and the retraction of the last one.
    held = got - may if subscriber.closing_at is None else Counter()
    told = Counter(dict.fromkeys(subscriber.rows, 1)) if removed else Counter(subscriber.rows)
    if extra := held or told - ever:
        problems.append(Problem("extra", where, describe_bag(extra)))
    stale = sum(born < subscriber.since for born in subscriber.born)
    if stale and not world.failures.clock_steps_max:
        problems.append(Problem("stale", where, f"{stale} answers were born before the subscription"))
    return problems


def check_stamps(world: FailingWorld) -> list[Problem]:
    """Return the peers that refused a stamp as future although all clocks were right.

    A message that is refused for this reason is repeated without end, and blocks later work.
    """
    if world.failures.clock_steps_max:
        return []
    refused = ((node.index, node.peer.stamps_refused) for node in world.living())
    return [
        Problem("future", f"peer {index}", f"refused {count} messages as stamped in the future")
        for index, count in refused
        if count
    ]


def check_audits(world: FailingWorld) -> list[Problem]:
    """Return the reports of an audit: no peer withholds solutions here, so every report is a false alarm."""
    reports = world.traces["solutions-withheld"]
    return [Problem("alarm", "world", f"audits reported {reports} times that a primary withholds")] if reports else []


def check_bookmarks(
    world: FailingWorld, subscriber: ResumingSubscriber, publishings: Sequence[RepeatedPublishing]
) -> list[Problem]:
    """Return bookmarks that were reported too early.

    A publication that a peer acknowledged before its clock showed a bookmark's stamp has an earlier stamp.  The
    subscriber must have stored all answers that follow from these publications alone before the bookmark.
    """
    if subscriber.since is None or world.failures.clock_steps_max:
        return []  # stamps of wrong clocks do not indicate time
    for stamp, stored in subscriber.bookmarks:
        log = owed(world, subscriber, publishings, stamp)
        must = _answers(subscriber, log)
        if missing := must - Counter(subscriber.rows[:stored]):
            text = f"told at answer {stored} that all born up to {hlc.seconds(stamp)} s came; {describe_bag(missing)}"
            return [Problem("bookmark", name_of(subscriber), text)]
    return []


def check_kept(subscriber: ResumingSubscriber) -> list[Problem]:
    """Return retracted answers of monotonic queries in schedules without deletions."""
    if not subscriber.withdrawn or not only_grows(subscriber.query):
        return []
    return [Problem("taken back", name_of(subscriber), describe_bag(Counter(subscriber.withdrawn.values())))]


def check_standing(world: FailingWorld, subscriber: ResumingSubscriber, *, at_rest: bool) -> list[Problem]:
    """Return the problems of the answers to a query that is not only conjunctive, or has history.

    At rest, the answers must follow from the triples at the peers; subscribers of conjunctive queries show whether
    these triples are right.
    """
    where = name_of(subscriber)
    problems = [Problem("twice" if "twice" in text else "told", where, text) for text in subscriber.complaints]
    if subscriber.since is None:
        last = subscriber.failures[-1] if subscriber.failures else "no answer"
        return [*problems, Problem("unanswered", where, f"never went live: {last}")]
    counts = subscriber.history or not world.failures.clock_steps_max  # otherwise the first stamp may be corrected
    if counts and at_rest and subscriber.closing_at is None:
        must, got = standing_answers(subscriber.query, stored(world, subscriber.since)), subscriber.bag
        if missing := must - got:
            problems.append(Problem("missing", where, f"{missing.total()} of {must.total()}, {describe_bag(missing)}"))
        if extra := got - must:
            problems.append(Problem("extra", where, describe_bag(extra)))
    return problems


def stored(world: FailingWorld, since: int) -> list[Triple]:
    """Return the triples at the live peers that count from a stamp on and are not deleted."""
    latest: dict[Triple, tuple[int, bool]] = {}
    for node in world.living():
        columns = node.peer.triples()
        texts = [node.dictionary.texts(as_list(column)) for column in columns[:3]]
        for s, p, o, time, roles in zip(*texts, as_list(columns[3]), as_list(columns[5]), strict=True):
            if roles & (1 << keys.EVENT_SHIFT) - 1:
                state = hlc.plain(time), time >= hlc.GONE
                latest[s, p, o] = max(latest.get((s, p, o), (0, False)), state)
    return [triple for triple, (stamp, gone) in latest.items() if stamp >= since and not gone]


def lost_where(subscriber: ResumingSubscriber, log: Sequence[Publication], missing: Counter[Row]) -> str:
    """Return whether the lost answers were the first, intermediate or last ones to become true.

    An answer becomes true with the latest of its publications.  Lost first answers indicate missing history, lost last
    answers missing delivery, and lost intermediate ones another defect.
    """
    assert subscriber.since is not None
    assert isinstance(subscriber.query, ConjunctiveQuery)
    places: list[bool] = []
    left, before = Counter(missing), Counter[Row]()
    so_far: list[Publication] = []
    for publication in sorted(log, key=lambda each: (each.stamp, each.event)):
        so_far.append(publication)
        now = Oracle(so_far).answers(subscriber.query, subscriber.since, per_event=subscriber.per_event)
        for row in (now - before).elements():
            places.append(left[row] > 0)
            left[row] -= 1
        before = now
    if all(places):
        return "all"
    lost = [at for at, is_lost in enumerate(places) if is_lost]
    if not lost:
        return "some"
    if lost == list(range(len(lost))):
        return f"prefix of {len(lost)}"
    if lost == list(range(len(places) - len(lost), len(places))):
        return f"tail of {len(lost)}"
    return f"middle: {len(lost)} between {lost[0]} and {lost[-1]}"


def check_unanswered(
    publishings: Iterable[RepeatedPublishing], subscribers: Iterable[ResumingSubscriber]
) -> list[Problem]:
    """Return the requests that clients still wait for."""
    problems = []
    waiting = [publishing for publishing in publishings if publishing.open]
    if waiting:
        first = waiting[0]
        why = first.failures[-1] if first.failures else "no answer"
        which = f"the first (events {first.first_event}..) after {first.attempts} attempts"
        text = f"{len(waiting)} batches, {which}: {why}"
        problems.append(Problem("unanswered", f"publisher {first.publisher:016x}", text))
    problems += [
        Problem("unanswered", name_of(subscriber), "its end was never confirmed")
        for subscriber in subscribers
        if subscriber.closing_at is not None and subscriber.closed_at is None
    ]
    return problems


def name_of(subscriber: ResumingSubscriber) -> str:
    """Name a subscriber with its query."""
    kind = "per event" if subscriber.per_event else "set"
    text = subscriber.text
    if isinstance(subscriber.query, ConjunctiveQuery):
        text = " ".join(sparql_text(subscriber.query).split())
    return f"{subscriber.name} ({subscriber.algorithm.value}, {kind}) {text}"
