"""Messages between the peers of a fleet: counts by sender and receiver, rows and bytes.

A fleet joins without sending.  This one also routes its derived rows as peers do, in turns.  In a turn a peer processes
all arrivals, lowest step first, and the rows that it derived for itself.  It then sends each other peer one message for
each plan and step, one with answers, and one acknowledgement.  All peers have their turns at the same time, messages
keep their order, and each publication comes to rest before the next.  A calm World behaves alike, as
tests/lab/test_planner.py shows.  In a busy overlay publications overlap, so there are fewer and larger messages;
peers with turns at different times send more.

Address caches are warm, so there are no lookups.

Every k-th message of a kind is built with stamps and identities as wide as a peer's, and encoded in a frame of its own
(:mod:`p2prdf_lab.capacity.ledger`).  A daemon may put several messages into one frame, which encodes common terms once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from p2prdf import hlc, keys
from p2prdf.columns import ARRAYS, as_array
from p2prdf.continuous.identities import home_key
from p2prdf.hash_index import HashIndex
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, Plan
from p2prdf.store.backlog import joined
from p2prdf.store.tables import Derived
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.messages import (
    Acknowledge,
    Answers,
    Contact,
    Deliver,
    Delivered,
    Envelope,
    Forward,
    Groups,
    IndexTriples,
    Message,
    Rows,
    SettledAnswers,
)
from p2prdf_lab.capacity.footprint import Share
from p2prdf_lab.capacity.ledger import KINDS, ROWS_MAX, Kind
from p2prdf_lab.capacity.loaded_keys import LoadedKeys
from p2prdf_lab.fleets.fleet import Fleet, Messages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from p2prdf_lab.fleets.fleet import Ring

__all__ = ["TracedFleet"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]

_BIRTH: Final = 1_700_000_000.0
_BATCH_SECONDS: Final = 0.25
"""Time between publications; stamps begin at a recent date, so they have their usual width."""

_LEASE_SECONDS: Final = 300.0
_SUBSCRIBER: Final = Contact(keys.fmix(1), "127.0.0.1", 7400)
"""A receiver of answers, with a contact of typical length."""


@dataclass(slots=True)
class _Answered:
    """Answers of one turn: deriving peers, groups, and rows in the columns of a message."""

    source: I64
    group: U64
    rows: Derived


class TracedFleet(Fleet):
    """A fleet that counts the messages and the loads of keys on its first ring.

    ``entries``: peers at which publications enter, in turn.  ``subscribers``: number of subscriptions of a query, by
    its coordinator's key (default 1); the number of a subscription determines its peer.
    """

    def __init__(
        self,
        dictionary: TermDictionary,
        rings: Sequence[Ring],
        algorithm: Algorithm,
        *,
        indexes: str = "all",
        entries: Sequence[int] = (0,),
        subscribers: Mapping[int, int] | None = None,
    ):
        super().__init__(dictionary, rings, algorithm, indexes=indexes, on_messages=self._heard)
        self.kinds = {name: Kind.of(len(rings[0])) for name in KINDS}
        self.loaded = LoadedKeys(dictionary)
        self.delivered = 0
        self.homes: dict[Plan, U64] = {}
        self.answered = np.zeros(len(rings[0]), np.int64)
        """Number of different answers that each peer has seen as a coordinator."""
        self._terms = dictionary
        self._codec = FrameCodec(dictionary, ARRAYS)
        self._entries = list(entries)
        self._subscribers = subscribers or {}
        self._batch = 0
        self._starts: list[int] = []
        self._columns: tuple[U32, U32, U32] | None = None
        self._role_keys = np.zeros((0, 0), np.uint64)
        self._known = HashIndex()

    # --- queries ---------------------------------------------------------------------------------

    def _install(self, plan: Plan, constants: list[tuple[str, ...]]) -> None:
        super()._install(plan, constants)
        homes = [
            home_key(
                ConjunctiveQuery(plan.patterns, each, plan.answer, (), plan.distinct, plan.filters), plan.algorithm
            )
            for each in constants
        ]
        self.homes[plan] = np.array(homes, np.uint64)
        params = [as_array(self._terms.intern_all(column), np.uint32) for column in zip(*constants, strict=True)]
        self.loaded.plans[plan] = params

    # --- triples ---------------------------------------------------------------------------------

    def publish(self, s: U32, p: U32, o: U32) -> None:
        """Publish triples at once, at the next entry peer."""
        self._starts.append(self.published)
        self._columns = (s, p, o)
        super().publish(s, p, o)
        self._batch += 1

    def _heard(self, messages: Messages) -> None:
        """Keep the keys of a publication, a row for each index in the order of ``keys.ROLES``."""
        if messages.origin is None:
            assert self._columns is not None
            self._role_keys = messages.key.reshape(-1, len(self._columns[0]))

    def _work_off(self, derived: list[Derived]) -> None:
        """Process derived rows as a fleet does, in turns after which peers send each other their rows."""
        self._count_triples()
        todo: dict[tuple[int, int], list[Derived]] = {}
        sent: list[tuple[Derived, I64, I64]] = []
        answers: list[_Answered] = []
        self._route(derived, todo, sent, answers)
        while todo or sent or answers:
            while todo:
                self._route(self._store(joined(todo.pop(min(todo)), ARRAYS)), todo, sent, answers)
            pairs = self._count_rows(sent)
            pairs += self._count_answers(answers)
            self._acknowledge(pairs)
            for rows, _, _ in sent:
                todo.setdefault((rows.step, rows.plan.identity), []).append(rows)
            sent.clear()
            answers.clear()

    def _route(
        self,
        derived: list[Derived],
        todo: dict[tuple[int, int], list[Derived]],
        sent: list[tuple[Derived, I64, I64]],
        answers: list[_Answered],
    ) -> None:
        """Sort derived rows into those for the deriving peer, for other peers, and answers for coordinators."""
        ring = self.rings[0]
        for rows in derived:
            source = ring.owners(rows.origin)  # type: ignore[attr-defined]  # rows of a traced fleet have it
            if rows.step == len(rows.plan.steps):
                answers.append(_Answered(source, self.homes[rows.plan][as_array(rows.group, np.int64)], rows))
                continue
            row_keys = as_array(self._tables.row_keys(rows))
            self.loaded.add_rows(rows, row_keys)
            target = ring.owners(row_keys)
            here = source == target
            if here.any():
                todo.setdefault((rows.step, rows.plan.identity), []).append(_taken(rows, np.flatnonzero(here)))
            away = np.flatnonzero(~here)
            if len(away):
                sent.append((_taken(rows, away), source[away], target[away]))

    # --- contents of peers -----------------------------------------------------------------------

    def shares(self, peers: Sequence[int]) -> list[Share]:
        """Return the contents of some peers of the first ring."""
        ring, tables = self.rings[0], self._tables
        table = tables._triples
        s, p, o = (column.values for column in (table.s, table.p, table.o))
        bits = {peer: np.zeros(len(s), np.uint32) for peer in peers}
        for role in keys.ROLES:
            if self.roles >> role & 1:
                owners = ring.owners(as_array(tables.triple_keys(role, s, p, o)))
                for peer, held in bits.items():
                    held |= (owners == peer).astype(np.uint32) << np.uint32(role)
        shares = []
        for peer in peers:
            here = np.flatnonzero(bits[peer])
            shares.append(Share(peer, s[here], p[here], o[here], bits[peer][here], [], [], int(self.answered[peer])))
        for plan, held_plan in tables._plans.items():
            self._share_queries(plan, len(held_plan.groups), shares)
            for step in held_plan.steps[1:]:
                self._share_rows(_held_rows(step), shares)
        return shares

    def _share_queries(self, plan: Plan, groups: int, shares: list[Share]) -> None:
        every = np.arange(groups)
        for step in range(len(plan.steps) if self.algorithm is Algorithm.CQC else 1):
            owners = self.rings[0].owners(as_array(self._tables.query_keys(plan, step, every)))
            for share in shares:
                here = np.flatnonzero(owners == share.peer)
                if len(here):
                    share.waiting.append((plan, step, here))

    def _share_rows(self, rows: Derived, shares: list[Share]) -> None:
        owners = self.rings[0].owners(as_array(self._tables.row_keys(rows)))
        for share in shares:
            here = np.flatnonzero(owners == share.peer)
            if len(here):
                share.rows.append(_taken(rows, here))

    # --- counting --------------------------------------------------------------------------------

    def _count_triples(self) -> None:
        """Count the entry peer's messages: one to each owner, with a row for each triple with a key of that owner."""
        assert self._columns is not None
        s, p, o = self._columns
        ring = self.rings[0]
        entry = self._entries[self._batch % len(self._entries)]
        roles = [role for role in keys.ROLES if self.roles >> role & 1]
        owners = np.empty((len(roles), len(s)), np.int64)
        for at, (role, role_keys) in enumerate(zip(roles, self._role_keys, strict=True)):
            owners[at] = ring.owners(role_keys)
            self.loaded.add_triples(role, role_keys, s, p, o)
        places = np.unique(owners * len(s) + np.arange(len(s)))  # an owner of several keys of a triple gets it once
        targets, rows = np.unique(places // len(s), return_counts=True)
        away = targets != entry
        targets, rows = targets[away], rows[away]
        kind = self.kinds["index"]
        sources = np.full(len(targets), entry, np.int64)
        for at in kind.count(sources, targets, rows):
            mine = owners == targets[at]
            some = np.flatnonzero(mine.any(axis=0))[:ROWS_MAX]
            bits = (mine[:, some] << np.array(roles)[:, np.newaxis]).sum(axis=0).astype(np.uint32)
            numbers = np.arange(self._starts[-1], self._starts[-1] + len(s), dtype=np.uint64)[some]
            message = IndexTriples(
                s[some], p[some], o[some], self._now(len(some)), keys.fmix_array(numbers), bits, 0, keys.fmix(7),
            )  # fmt: skip
            self._weigh("index", len(some), message)
        self._acknowledge([(sources, targets)])

    def _count_rows(self, sent: list[tuple[Derived, I64, I64]]) -> list[tuple[I64, I64]]:
        """Count partial results: one message for each sender, receiver, plan and step."""
        by_place: dict[tuple[int, int], list[tuple[Derived, I64, I64]]] = {}
        for part in sent:
            by_place.setdefault((part[0].step, part[0].plan.identity), []).append(part)
        pairs = []
        for parts in by_place.values():
            rows = joined([part[0] for part in parts], ARRAYS)
            source, target = (np.concatenate([part[at] for part in parts]) for at in (1, 2))
            order, first, count = _grouped(source, target)
            pairs.append((source[order[first]], target[order[first]]))
            for at in self.kinds["forward"].count(*pairs[-1], count):
                some = order[first[at] : first[at] + min(int(count[at]), ROWS_MAX)]
                self._weigh("forward", len(some), self._forward(_taken(rows, some)))
        return pairs

    def _count_answers(self, answers: list[_Answered]) -> list[tuple[I64, I64]]:
        """Count answers: one message for each deriving peer, coordinator and width; then deliveries to subscribers."""
        by_width: dict[int, list[_Answered]] = {}
        for each in answers:
            by_width.setdefault(len(each.rows.plan.answer), []).append(each)
        pairs = []
        for parts in by_width.values():
            identity, oldest, bindings = self._answer_columns(parts)
            source = np.concatenate([each.source for each in parts])
            group = np.concatenate([each.group for each in parts])
            home = self.rings[0].owners(group)
            order, first, count = _grouped(source, home)
            ends = first + count
            away = source[order[first]] != home[order[first]]
            first, count = first[away], count[away]
            pairs.append((source[order[first]], home[order[first]]))
            for at in self.kinds["answers"].count(*pairs[-1], count):
                some = order[first[at] : first[at] + min(int(count[at]), ROWS_MAX)]
                ids, places = np.unique(group[some], return_inverse=True)
                rows = Rows(
                    places.astype(np.uint32), identity[some], self._stamps(oldest[some]), self._now(len(some)),
                    tuple(each[some] for each in bindings),
                )  # fmt: skip
                self._weigh("answers", len(some), Answers(ids, rows))
            # A coordinator delivers the answers of one message at once, group by group.
            arrived = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
            self._deliver(group[order], home[order], arrived, identity[order], [each[order] for each in bindings])
        return pairs

    def _answer_columns(self, parts: list[_Answered]) -> tuple[U64, U64, list[U32]]:
        """Return identities, oldest stamps and bindings of answers; identities of DISTINCT by the solution alone."""
        hashes = self._terms.hash_array()
        identities = []
        for each in parts:
            if not each.rows.plan.distinct:
                identities.append(as_array(each.rows.identity))
                continue
            identity = keys.fmix_array(each.group)
            for place, column in enumerate(each.rows.bindings):
                identity = identity + keys.contributions(hashes[as_array(column, np.uint32)], place)
            identities.append(identity)
        width = len(parts[0].rows.bindings)
        bindings = [
            np.concatenate([as_array(each.rows.bindings[at], np.uint32) for each in parts]) for at in range(width)
        ]
        oldest = np.concatenate([as_array(each.rows.oldest) for each in parts])
        return np.concatenate(identities), oldest, bindings

    def _deliver(self, group: U64, home: I64, arrived: I64, identity: U64, bindings: list[U32]) -> None:
        """Count the messages of coordinators to subscribers' peers, and these peers' receipts."""
        _, fresh = self._known.insert(identity)
        new = np.flatnonzero(fresh)
        if not len(new):
            return
        np.add.at(self.answered, home[new], 1)
        order = new[np.lexsort((group[new], arrived[new]))]
        changed = np.ones(len(order), np.bool_)
        changed[1:] = (group[order][1:] != group[order][:-1]) | (arrived[order][1:] != arrived[order][:-1])
        first = np.flatnonzero(changed)
        count = np.diff(first, append=len(order))
        subscriptions = np.array([self._subscribers.get(int(each), 1) for each in group[order[first]]], np.int64)
        self.delivered += int((count * subscriptions).sum())
        piece = np.repeat(np.arange(len(first)), subscriptions)
        number = np.arange(len(piece)) - np.repeat(np.cumsum(subscriptions) - subscriptions, subscriptions)
        name = keys.fmix_array(group[order[first]][piece] + number.astype(np.uint64) + np.uint64(1))
        place = (name % np.uint64(len(self.answered))).astype(np.int64)  # independent of the coordinator
        source = home[order[first]][piece]
        away = np.flatnonzero(source != place)
        piece, source, place, name = piece[away], source[away], place[away], name[away]
        for at in self.kinds["deliver"].count(source, place, count[piece]):
            some = order[first[piece[at]] : first[piece[at]] + min(int(count[piece[at]]), ROWS_MAX)]
            solutions = tuple(each[some] for each in bindings)
            message = Deliver(
                int(name[at]), self.delivered, 0, identity[some], self._now(len(some)), solutions, keys.fmix(at)
            )
            self._weigh("deliver", len(some), message)
        # A subscriber acknowledges all answers of a turn at once.
        _, once, which = np.unique(name, return_index=True, return_inverse=True)
        told = np.bincount(which, weights=count[piece]).astype(np.int64)
        name, source, place = name[once], source[once], place[once]
        for at in self.kinds["delivered"].count(place, source, told):
            acknowledged = identity[order[: min(int(told[at]), ROWS_MAX)]]
            receipt = Delivered(_SUBSCRIBER, int(name[at]) >> 2, int(name[at]), acknowledged)
            self._weigh("delivered", len(acknowledged), receipt)
        for at in self.kinds["settled"].count(source, place, np.ones(len(place), np.int64)):
            self._weigh("settled", 1, SettledAnswers(int(name[at]) >> 2, int(name[at])))
        self._acknowledge([(source, place)])
        self._acknowledge([(place, source)])
        self._acknowledge([(source, place)])

    def _acknowledge(self, pairs: list[tuple[I64, I64]]) -> None:
        """Count the acknowledgements of one turn: one for each pair of peers, with all messages between the two."""
        if not pairs:
            return
        source, target = (np.concatenate([pair[at] for pair in pairs]) for at in (0, 1))
        order, first, count = _grouped(source, target)
        for at in self.kinds["acknowledge"].count(target[order[first]], source[order[first]], count):
            numbers = np.arange(int(count[at]), dtype=np.uint64) + np.uint64(keys.fmix(at) >> 16)
            self._weigh("acknowledge", len(numbers), Acknowledge(numbers), transfer=0)

    # --- bytes -----------------------------------------------------------------------------------

    def _weigh(self, kind: str, rows: int, message: Message, *, transfer: int = keys.fmix(3) >> 16) -> None:
        frame = self._codec.encode([Envelope(transfer, self._stamp(self._batch), message)])
        self.kinds[kind].weigh(rows, len(frame))

    def _stamp(self, batch: int) -> int:
        """Return the stamp of a publication."""
        return hlc.from_seconds(_BIRTH + batch * _BATCH_SECONDS) + 1

    def _now(self, count: int) -> U64:
        """Return the stamp of the current publication, ``count`` times."""
        return np.full(count, self._stamp(self._batch), np.uint64)

    def _stamps(self, times: U64) -> U64:
        """Return the stamps of publications for the fleet's stamps, which number triples from 2."""
        batch = np.searchsorted(np.array(self._starts), times.astype(np.int64) - 2, side="right") - 1
        step = round(_BATCH_SECONDS * 1000) << hlc.COUNTER_BITS
        return batch.astype(np.uint64) * np.uint64(step) + np.uint64(self._stamp(0))

    def _forward(self, rows: Derived) -> Forward:
        """Build the message of rows; their groups have different times, as at peers."""
        numbers, places = np.unique(as_array(rows.group, np.int64), return_inverse=True)
        homes = self.homes[rows.plan][numbers]
        since = np.uint64(hlc.from_seconds(_BIRTH - 1e6)) + (homes >> np.uint64(40) << np.uint64(hlc.COUNTER_BITS))
        lease = since + np.uint64(hlc.from_seconds(_LEASE_SECONDS))
        params = tuple(column[numbers] for column in self.loaded.plans[rows.plan])
        groups = Groups(homes | np.uint64(1), since, since, lease, params)
        carried = Rows(
            places.astype(np.uint32), as_array(rows.identity), self._stamps(as_array(rows.oldest)),
            self._stamps(as_array(rows.born)), rows.bindings,
        )  # fmt: skip
        return Forward(rows.plan, rows.step, groups, carried, 0, 0, keys.fmix(7))


def _held_rows(step: Any) -> Derived:
    """Return the rows that wait at a step of the tables."""
    bindings = tuple(column.values for column in step.bindings)
    columns = (step.group.values, step.index.keys, step.oldest.values, step.born.values)
    return Derived(step.plan.plan, step.number, *columns, bindings)


def _taken(rows: Derived, index: npt.NDArray[Any]) -> Derived:
    """Return some of the rows, without cause and origin."""
    take = ARRAYS.take
    return Derived(
        rows.plan, rows.step, take(rows.group, index), take(rows.identity, index), take(rows.oldest, index),
        take(rows.born, index), tuple(take(column, index) for column in rows.bindings), rows.refresh,
    )  # fmt: skip


def _grouped(source: I64, target: I64) -> tuple[I64, I64, I64]:
    """Return an order that groups equal pairs, the first index of each pair in it, and its count."""
    order = np.lexsort((target, source))
    new = np.ones(len(order), np.bool_)
    new[1:] = (source[order][1:] != source[order][:-1]) | (target[order][1:] != target[order][:-1])
    first = np.flatnonzero(new)
    return order, first, np.diff(first, append=len(order))
