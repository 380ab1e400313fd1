"""Keeps a target equal to the slices of interests: changesets in, updates out, resumable.

For each changeset, the target applies the change together with its cursor. Only then, and not every time, is
the state saved, so the target is never behind the state. After a crash the state is loaded and the cursor read;
the changesets in between go through the interests again, without updates.

A change too large for one update goes in parts, and the cursor counts them (``POSITION +2``). After a crash in
between, all parts are sent again; repeated deletions and insertions change nothing. Cursors are written only
with changes, so a state may be ahead of its cursor by changesets without effect; it stores the cursor that it
left.

A cursor that is neither the stored one nor of a later changeset means that the target was restored or written
to by others (TargetMoved). :meth:`Replica.repair` needs no changesets.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from p2prdf.errors import LocalProtocolError, TargetMoved
from p2prdf.interest import Changeset, Interests, Triple
from p2prdf.interest.saved import restore, save
from p2prdf.replica.changeset_files import position_order
from p2prdf.replica.spelling import Variants, by_value
from p2prdf.replica.target import Digest, Target, parts_of
from p2prdf.replica.triple_files import replace_file

__all__ = ["START", "Applied", "Comparison", "Replica"]

START: Final = "start"
"""The position of the slice with which a replica begins."""
_CHUNK: Final = 50_000
_CURSOR: Final = re.compile(r"(.*?)( \+[0-9]+)?(?:'([0-9]+))?", re.DOTALL)
"""A position, the number of its last applied part, and the number of earlier equal cursors."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The effect of a changeset: triples deleted and inserted, and whether they were sent now."""

    position: str
    removed: int
    added: int
    sent: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """Sizes and differences of a target and its expected content."""

    expected: int
    found: int
    equal: bool
    lacking: int = 0
    foreign: int = 0


class Replica:
    """Interests, their target, and their position."""

    def __init__(self, interests: Interests, target: Target, *, state: Path | None = None, position: str = "",
                 note: str = ""):  # fmt: skip
        """``state``: the file for it between runs; ``position``, ``note``: from :meth:`load`."""
        self.interests = interests
        self.target = target
        self.position = position
        self._state = state
        self._noted = note
        self._cursor: str | None = None
        self._done = _rank("")
        """The target's position at :meth:`resume`: changesets up to it are not sent again."""
        self._saved = position
        self._variants: Variants | None = None

    @classmethod
    def load(cls, state: Path, target: Target) -> Replica | None:
        """Return the saved replica, None if there is none.  Raises DataRefused for a damaged state."""
        try:
            data = state.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LocalProtocolError(f"{state}: the state cannot be read: {error.strerror}") from None
        interests, position, note = restore(data, source=str(state))
        return cls(interests, target, state=state, position=position, note=note)

    async def begin(
        self, slice_of_source: AsyncIterable[Triple] | Iterable[Triple], *, potential: bool = True,
        position: str = START,
    ) -> int:  # fmt: skip
        """Fill empty interests from the initial source, and an empty target; return the target's size.

        ``slice_of_source``: all triples of the source, or those that match a pattern. ``potential``: keep
        triples that are not in a full match yet; without them, later matches with them are missed, as in the
        paper's tables. ``position``: that of the last changeset in the source, or a day or an hour after all of
        it.

        If the target has a cursor already, the state was lost and the target was not: it is left unchanged, and
        :meth:`apply` sends nothing until its cursor's changeset is reached.
        """
        if self.interests.triples or self.position:
            raise LocalProtocolError("the replica is not empty")
        chunk: list[Triple] = []
        if isinstance(slice_of_source, AsyncIterable):
            async for triple in slice_of_source:
                chunk = self._take(chunk, triple)
        else:
            for triple in slice_of_source:
                chunk = self._take(chunk, triple)
        self.interests.apply(Changeset(added=tuple(dict.fromkeys(chunk))))
        if not potential:
            self.interests.forget_potential()
        await self.resume(fresh=True)
        found = list(self.interests.union())
        if self._is_beyond(START):
            await self._send([], found, START)
        self.position = position
        self.save()
        return len(found)

    def _take(self, chunk: list[Triple], triple: Triple) -> list[Triple]:
        chunk.append(triple)
        if len(chunk) < _CHUNK:
            return chunk
        self.interests.apply(Changeset(added=tuple(dict.fromkeys(chunk))))
        return []

    async def resume(self, *, fresh: bool = False) -> None:
        """Read the target's cursor.  Raises TargetMoved if it is behind the state, or gone."""
        self._cursor = await self.target.cursor()
        found = self._cursor or ""
        if not fresh and found != self._noted and _rank(found) <= _rank(self._noted):
            raise TargetMoved(
                f"the target's cursor is {self._cursor!r}, and the replica left {self._noted!r}: it was restored or"
                " written to; compare and repair it"
            )
        self._done = _rank(found)

    async def apply(self, position: str, changeset: Changeset) -> Applied:
        """Apply a changeset to interests and target; positions ascend, and a repeated one is skipped."""
        if _rank(position) <= _rank(self.position):
            return Applied(position, 0, 0, sent=False)
        change = self.interests.apply(changeset).union
        self.position = position
        removed, added = change.deletions, change.insertions
        # An update that the target has already was sent before the crash.
        send = bool(change) and self._is_beyond(position)
        kept = self._kept_variants(removed, added)
        if send:
            await self._send(removed, (*added, *kept), position)
        return Applied(position, len(removed), len(added), sent=send)

    def _is_beyond(self, position: str) -> bool:
        return _rank(position) > self._done

    def _kept_variants(self, removed: Iterable[Triple], added: Iterable[Triple]) -> list[Triple]:
        """Return triples to insert again, since deleting others may delete them, too.

        Many stores keep a number's value and not its spelling, so that 01 and 1 are equal there; the dataset
        distinguishes them.
        """
        if not self.target.respells:
            return []
        if self._variants is None:  # includes the present change
            self._variants = Variants(self.interests.union())
        self._variants.add(added)
        return self._variants.remove(removed)

    async def _send(self, removed: Iterable[Triple], added: Iterable[Triple], position: str) -> None:
        parts = parts_of(removed, added, self.target.triples_max) or [([], [])]
        for number, (less, more) in enumerate(parts, 1):
            await self._update(less, more, position if number == len(parts) else f"{position} +{number}")
        self._noted = self._cursor or ""

    async def _update(self, removed: Iterable[Triple], added: Iterable[Triple], after: str) -> None:
        """Send one update; number the cursor if it would stay the same because a part is repeated."""
        known = _CURSOR.fullmatch(self._cursor or "")
        if known is not None and known[1] + (known[2] or "") == after:
            after += f"'{int(known[3] or 0) + 1}"
        await self.target.update(removed, added, before=self._cursor, after=after)
        self._cursor = after

    def save(self) -> None:
        """Save the state, if it has a file and has changed."""
        if self._state is not None:
            note = self._cursor or ""
            replace_file(self._state, save(self.interests, position=self.position, note=note))
            self._saved = self.position

    @property
    def last_changeset(self) -> str | None:
        """The position of the last applied changeset, None if there is none."""
        return None if self.position in ("", START) else self.position

    @property
    def is_saved(self) -> bool:
        """Whether the saved state is current."""
        return self._saved == self.position

    # --- comparison --------------------------------------------------------------------------------------

    async def verify(self) -> Comparison:
        """Compare the digests of actual and expected content.  Reads the target once.

        If the target respells numbers, triples are compared by value, and those of equal value count once.
        """
        found = Digest()
        seen: set[Triple] = set()
        async for triple in self.target.triples():
            found.add(triple)
            if self.target.respells:
                seen.add(by_value(triple))
        expected = Digest(self.interests.union())
        equal = found == expected
        if not equal and self.target.respells:
            equal = seen == {by_value(triple) for triple in self.interests.union()}
        return Comparison(expected.count, found.count, equal)

    async def repair(self, on_part: Callable[[int], object] | None = None) -> Comparison:
        """Repair the target; return its state before.  Both contents are in memory.

        Foreign triples are deleted: the target graph belongs to the replica alone.
        """
        expected = {self._spelled(triple): triple for triple in self.interests.union()}
        found: dict[Triple, Triple] = {}
        async for triple in self.target.triples():
            found[self._spelled(triple)] = triple
        lacking = [triple for spelled, triple in expected.items() if spelled not in found]
        foreign = [triple for spelled, triple in found.items() if spelled not in expected]
        self._cursor = await self.target.cursor()
        parts = parts_of(foreign, lacking, self.target.triples_max) or [([], [])]
        for number, (less, more) in enumerate(parts, 1):
            position = self.position or START
            await self._update(less, more, position if number == len(parts) else f"{position} +{number}")
            if on_part is not None:
                on_part(number)
        self._noted, self._done = self._cursor or "", _rank("")
        self.save()
        return Comparison(len(expected), len(found), not lacking and not foreign, len(lacking), len(foreign))

    def _spelled(self, triple: Triple) -> Triple:
        return by_value(triple) if self.target.respells else triple

    async def close(self) -> None:
        """Save the state and close the target."""
        if not self.is_saved:
            await asyncio.to_thread(self.save)
        await self.target.close()


def _rank(cursor: str) -> tuple[int, tuple[tuple[int, int, str], ...], int]:
    """Return the sort key of cursors and positions: the empty one, the start, then changesets.

    A partly applied changeset precedes the complete one.
    """
    match = _CURSOR.fullmatch(cursor)
    assert match is not None, "any text without a line end fits"
    position = match[1]
    whole = 0 if match[2] else 1
    if not position:
        return 0, (), 0
    return (1, (), whole) if position == START else (2, position_order(position), whole)
