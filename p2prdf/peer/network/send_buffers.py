"""The send buffers of one turn: triples, rows and solutions for other peers.

A turn sends one message per destination and type, or more where one would be too large.  Each triple and row holds its
completion counters until all messages with a part of it are acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from p2prdf.columns import Column
from p2prdf.peer.network.batches import TripleBatch, joined_batches
from p2prdf.peer.network.chunking import Chunker
from p2prdf.peer.network.messenger import Messenger
from p2prdf.rdf.query import Plan
from p2prdf.store.backlog import joined
from p2prdf.store.tables import Derived, Tables
from p2prdf.wire.messages import Answers, Forward, IndexTriples, Rows

__all__ = ["SendBuffers"]


class SendBuffers:
    """Triples, rows and solutions for other peers, by contact number; :meth:`send` sends them."""

    def __init__(self, messenger: Messenger, tables: Tables, chunker: Chunker, complete: Callable[[], int]):
        """``complete`` returns the stamp up to which all publications of this peer have reached their owners."""
        self._messenger = messenger
        self._tables = tables
        self._columns = tables.columns
        self._chunker = chunker
        self.complete = complete
        self._answered: Derived | None = None
        self._messages: list[tuple[Column, Rows]] = []
        """The messages of the solutions that were divided last in a turn."""
        self._clear()

    def _clear(self) -> None:
        self._triples: dict[tuple[int, int, int, int, int, bool], list[TripleBatch]] = {}
        self._rows: dict[tuple[int, int, bool, bool, Plan, int, int], list[tuple[Derived, tuple[int, ...]]]] = {}
        self._answers: dict[tuple[int, int], list[Derived]] = {}
        self.filled = False
        self._view: int | None = None  # the view while messages were routed; 0: it changed meanwhile

    # --- buffering -------------------------------------------------------------------------------

    def add_triples(self, owner: int, part: TripleBatch) -> None:
        """Buffer triples for another peer; their completion counters are held already."""
        self._routed()
        elements = bool(part.stamp)
        self._triples.setdefault((owner, part.hops, part.origin, part.published, part.words, elements), []).append(part)

    def add_rows(
        self, owner: int, rows: Derived, hops: int, tokens: tuple[int, ...] = (), *, kept: bool = False
    ) -> None:
        """Buffer rows for another peer and hold completion counters; ``kept`` as in Forward."""
        self._messenger.hold(tokens)
        self._routed()
        place = (owner, hops, False, kept, rows.plan, rows.step, rows.refresh)
        self._rows.setdefault(place, []).append((rows, tokens))

    def add_copies(self, holder: int, rows: Derived) -> None:
        """Buffer copies of rows for a holder of sub-keys; the view does not matter there."""
        self.filled = True
        self._rows.setdefault((holder, 0, True, False, rows.plan, rows.step, rows.refresh), []).append((rows, ()))

    def add_answers(self, home: int, answers: Derived) -> None:
        """Buffer solutions for the coordinator of their groups."""
        self.filled = True
        self._answers.setdefault((home, len(answers.plan.answer)), []).append(answers)

    def _routed(self) -> None:
        """Record the view in which an item is routed."""
        self.filled = True
        view = self._messenger.view
        self._view = view if self._view in (None, view) else 0

    # --- sending ---------------------------------------------------------------------------------

    def send(self) -> None:
        """Send all buffers."""
        triples, rows, answers, view = self._triples, self._rows, self._answers, self._view or 0
        self._clear()
        for (owner, hops, *_), batches in triples.items():
            self._send_triples(owner, hops, view, batches)
        for (owner, hops, copied, kept, *_), gathered in rows.items():
            tokens = tuple(chain.from_iterable(held for _, held in gathered))
            whole = joined([each for each, _ in gathered], self._columns)
            self.send_rows(owner, hops, view, whole, tokens, copied=copied, kept=kept)
        for (owner, _), parts in answers.items():
            self._send_answers(owner, parts)
        self._answered, self._messages = None, []

    def _send_answers(self, owner: int, parts: list[Derived]) -> None:
        for groups, rows in self.answers(parts):
            self._messenger.send(self._messenger.addressed(owner), Answers(groups, rows))

    def _send_triples(self, owner: int, hops: int, view: int, batches: list[TripleBatch]) -> None:
        messenger = self._messenger
        tokens = tuple(chain.from_iterable(batch.tokens for batch in batches))
        once = tuple(dict.fromkeys(tokens))  # else they multiply each time these triples are routed again
        whole = joined_batches(self._columns, batches)
        columns = whole.columns()
        if whole.origin == messenger.own.key:
            whole.complete = self.complete()
        count = len(whole.s)
        for start, stop in self._chunker.slices(count, columns[:3]):
            s, p, o, time, event, roles = (
                columns if stop - start == count else [column[start:stop] for column in columns]
            )
            message = IndexTriples(
                s, p, o, time, event, roles, hops, view,
                whole.origin, whole.published, whole.began, whole.complete, whole.stamp, whole.words,
            )  # fmt: skip
            messenger.send(messenger.addressed(owner), message, once)
        messenger.release(tokens)

    def send_rows(
        self, owner: int, hops: int, view: int, whole: Derived, tokens: tuple[int, ...],
        *, copied: bool = False, kept: bool = False,
    ) -> None:  # fmt: skip
        """Send rows now, and release the completion counters held for them."""
        once = tuple(dict.fromkeys(tokens))
        for message in self.forwards(whole, hops, view, copied=copied, kept=kept):
            self._messenger.send(self._messenger.addressed(owner), message, once)
        self._messenger.release(tokens)

    def forwards(
        self, whole: Derived, hops: int = 0, view: int = 0, *, copied: bool = False, kept: bool = False
    ) -> Iterator[Forward]:
        """Return rows as messages of bounded size."""
        rows = Rows(whole.group, whole.identity, whole.oldest, whole.born, whole.bindings)
        for start, stop in self._chunker.slices(len(rows), rows.bindings):
            piece = _slice_rows(rows, start, stop)
            groups, places = self._tables.export_groups(whole.plan, piece.group)
            yield Forward(
                whole.plan, whole.step, groups, replace(piece, group=places), whole.refresh, hops, view, copied, kept
            )

    def answers(self, parts: list[Derived]) -> list[tuple[Column, Rows]]:
        """Return groups and rows of solutions of several plans of one width, for messages of bounded size."""
        if len(parts) == 1 and parts[0] is self._answered:
            return self._messages  # the replicas of a coordinator get the same rows
        groups, rows = self._answer_columns(parts)
        large = set(self._chunker.too_large(rows.bindings))
        if large:
            self._messenger.trace("answer-too-large", answers=len(large))
            rows = self._chunker.without(rows, large)
        slices = self._chunker.slices(len(rows), rows.bindings)
        if len(slices) == 1 and not large and slices[0] == (0, len(rows)):
            found = [(groups, rows)]
        else:
            found = [_compact(groups, _slice_rows(rows, start, stop)) for start, stop in slices]
        if len(parts) == 1:
            self._answered, self._messages = parts[0], found
        return found

    def _answer_columns(self, parts: list[Derived]) -> tuple[Column, Rows]:
        """Return the groups and rows of solutions of several plans of one width."""
        concat, group_ids = self._columns.concat, self._tables.group_ids
        if len(parts) == 1:
            ids = group_ids(parts[0].plan, parts[0].group)
        else:
            ids = concat([group_ids(part.plan, part.group) for part in parts])
        if isinstance(ids, list):
            places: dict[int, int] = {}
            group: Column = [places.setdefault(each, len(places)) for each in ids]
            distinct: Column = list(places)
        else:
            distinct, group = np.unique(ids, return_inverse=True)
            group = group.astype(np.uint32)
        if len(parts) == 1:
            part = parts[0]
            return distinct, Rows(group, part.identity, part.oldest, part.born, part.bindings)
        width = len(parts[0].bindings)
        return distinct, Rows(
            group,
            concat([part.identity for part in parts]),
            concat([part.oldest for part in parts]),
            concat([part.born for part in parts]),
            tuple(concat([part.bindings[at] for part in parts]) for at in range(width)),
        )


def _slice_rows(rows: Rows, start: int, stop: int) -> Rows:
    if start == 0 and stop == len(rows):
        return rows
    return Rows(
        rows.group[start:stop], rows.identity[start:stop], rows.oldest[start:stop], rows.born[start:stop],
        tuple(column[start:stop] for column in rows.bindings),
    )  # fmt: skip


def _compact(groups: Column, rows: Rows) -> tuple[Column, Rows]:
    """Keep only the groups that the rows name."""
    if isinstance(groups, list):
        used = sorted(set(rows.group))
        if len(used) == len(groups):
            return groups, rows
        places = {each: at for at, each in enumerate(used)}
        return [groups[each] for each in used], replace(rows, group=[places[each] for each in rows.group])
    distinct, places_array = np.unique(rows.group, return_inverse=True)
    if len(distinct) == len(groups):
        return groups, rows
    return groups[distinct], replace(rows, group=places_array.astype(np.uint32))
