"""Keeps a target true to interests: changesets in, updates out, from where it was left.

The order of things, for each changeset: the interests work out what changes, the target takes it together with its
cursor, and only then, and not each time, is the state written.  So the target is never behind the state, and after a
crash:

1. The state is read, of an earlier changeset perhaps.
2. The target's cursor is read: the changeset that it is at.
3. Changesets between the two go through the interests again, and nothing is sent.
4. From there on all is as before.

A change that is too large for one update goes in parts, and the cursor says how many of them are there (``POSITION
+2``). After a crash in between, all parts go again: deleting what is gone and inserting what is there changes
nothing.  Cursors are written where something changes, so a state may be ahead of a cursor by changesets that meant
nothing to the target; it notes the cursor that it left.

If the cursor is neither the one noted nor of a changeset to come, the target was set back or written to by someone else
(TargetMoved).  :meth:`Replica.repair` compares and mends it, which needs no changeset.
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
"""The position of the slice that a replica begins with."""
_CHUNK: Final = 50_000
_CURSOR: Final = re.compile(r"(.*?)( \+[0-9]+)?(?:'([0-9]+))?", re.DOTALL)
"""A position, the part of it that is there, and how often the same was there before."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What a changeset came to at the target: triples deleted and inserted, and whether they were sent now."""

    position: str
    removed: int
    added: int
    sent: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """A target beside what it should hold."""

    expected: int
    found: int
    equal: bool
    lacking: int = 0
    foreign: int = 0


class Replica:
    """Interests, their target, and where they are."""

    def __init__(self, interests: Interests, target: Target, *, state: Path | None = None, position: str = "",
                 note: str = ""):  # fmt: skip
        """``state``: where it is kept between runs; ``position``, ``note``: what was saved (:meth:`load`)."""
        self.interests = interests
        self.target = target
        self.position = position
        self._state = state
        self._noted = note
        self._cursor: str | None = None
        self._done = _rank("")
        """What the target had at the time of :meth:`resume`: what is not beyond it is not sent again."""
        self._saved = position
        self._variants: Variants | None = None

    @classmethod
    def load(cls, state: Path, target: Target) -> Replica | None:
        """Return the replica that was saved, None if none was.  Raises DataRefused for a damaged state."""
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
        """Fill interests that are empty from the source's start, and an empty target; return the target's size.

        ``slice_of_source``: all of the source's triples, or those that match a pattern.  ``potential``: keep those that
        are in no full match yet; without, what their partners would make of them is missed, as in the paper's tables.
        ``position``: of the last changeset in the source, or a day or an hour that all in it lies before.

        If the target has a cursor already, the state was lost and not the target: it is left as it is, and
        :meth:`apply` sends nothing before the changeset of its cursor is reached.
        """
        if self.interests.triples or self.position:
            raise LocalProtocolError("the replica has begun already")
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
                f"the target's cursor is {self._cursor!r}, and the replica left {self._noted!r}: it was set back or"
                " written to; compare and repair it"
            )
        self._done = _rank(found)

    async def apply(self, position: str, changeset: Changeset) -> Applied:
        """Take account of a changeset, and send what changes; positions ascend, and one that is done is left out."""
        if _rank(position) <= _rank(self.position):
            return Applied(position, 0, 0, sent=False)
        change = self.interests.apply(changeset).union
        self.position = position
        removed, added = change.deletions, change.insertions
        # What the target has already was sent before the crash that this run follows.
        send = bool(change) and self._is_beyond(position)
        kept = self._kept_variants(removed, added)
        if send:
            await self._send(removed, (*added, *kept), position)
        return Applied(position, len(removed), len(added), sent=send)

    def _is_beyond(self, position: str) -> bool:
        return _rank(position) > self._done

    def _kept_variants(self, removed: Iterable[Triple], added: Iterable[Triple]) -> list[Triple]:
        """Return triples to be inserted again, since deleting others may take them along.

        Many stores keep a number's value and not its spelling, so that 01 and 1 are one; the dataset tells them apart.
        """
        if not self.target.respells:
            return []
        if self._variants is None:  # with the change at hand in it
            self._variants = Variants(self.interests.union())
        self._variants.add(added)
        return self._variants.remove(removed)

    async def _send(self, removed: Iterable[Triple], added: Iterable[Triple], position: str) -> None:
        parts = parts_of(removed, added, self.target.triples_max) or [([], [])]
        for number, (less, more) in enumerate(parts, 1):
            await self._update(less, more, position if number == len(parts) else f"{position} +{number}")
        self._noted = self._cursor or ""

    async def _update(self, removed: Iterable[Triple], added: Iterable[Triple], after: str) -> None:
        """Send one update; where the cursor would stay as it is, for a part is sent again, it is numbered."""
        known = _CURSOR.fullmatch(self._cursor or "")
        if known is not None and known[1] + (known[2] or "") == after:
            after += f"'{int(known[3] or 0) + 1}"
        await self.target.update(removed, added, before=self._cursor, after=after)
        self._cursor = after

    def save(self) -> None:
        """Write the state, if there is a place for it and something is new."""
        if self._state is not None:
            note = self._cursor or ""
            replace_file(self._state, save(self.interests, position=self.position, note=note))
            self._saved = self.position

    @property
    def last_changeset(self) -> str | None:
        """The position of the changeset that was applied last, None if none was."""
        return None if self.position in ("", START) else self.position

    @property
    def is_saved(self) -> bool:
        """Whether the state that is kept is the one of now."""
        return self._saved == self.position

    # --- comparing ---------------------------------------------------------------------------------------

    async def verify(self) -> Comparison:
        """Compare the target's digest with that of what it should hold.  Reads the target once.

        Where a target spells numbers its own way, triples are compared by value, and those of one value count once.
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
        """Make the target what it should be; return how it was.  Holds both in memory.

        What does not belong there is deleted: the target graph is the replica's alone.
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
        """Write the state and let go of the target."""
        if not self.is_saved:
            await asyncio.to_thread(self.save)
        await self.target.close()


def _rank(cursor: str) -> tuple[int, tuple[tuple[int, int, str], ...], int]:
    """Return by what cursors and positions are in order: the empty one, the start, then changesets.

    A changeset of which a part is there comes before the same one as a whole.
    """
    match = _CURSOR.fullmatch(cursor)
    assert match is not None, "any text without a line end fits"
    position = match[1]
    whole = 0 if match[2] else 1
    if not position:
        return 0, (), 0
    return (1, (), whole) if position == START else (2, position_order(position), whole)
