"""Exports: all statements as of one stamp, or the elements of a stream, page by page.

An export belongs to no node: after a loss the client reads on at another one.  A later process continues with the
number of the export and the last place that it has stored.  docs/explanation/design/exports.md has the argument.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from p2prdf.errors import LocalProtocolError, P2PRDFError
from p2prdf.rdf import terms
from p2prdf.wire import messages

if TYPE_CHECKING:
    from p2prdf.client.sessions import Sessions

__all__ = ["LAST_PLACE", "Export", "ExportPage", "begin_export"]

LAST_PLACE: Final = (1 << 64) - 1
"""The place of the last page."""
_BUSY_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class ExportPage:
    """All lines from the page before up to the place ``upto``: N-Quads, or event time, tabulator and triple."""

    upto: int
    lines: tuple[str, ...]


class Export:
    """An export that nodes keep.

    ``number`` identifies it at all nodes; ``stamp`` is the stamp of the state (:mod:`p2prdf.hlc`).
    """

    def __init__(self, sessions: Sessions, number: int, stamp: int):
        if not (0 < number < 1 << 64 and 0 < stamp < 1 << 64):
            raise LocalProtocolError(f"{number} and {stamp} are not the number and the stamp of an export")
        self._sessions = sessions
        self.number = number
        self.stamp = stamp

    async def pages(self, after: int = 0) -> AsyncIterator[ExportPage]:
        """Yield the pages after a place, the last one with ``LAST_PLACE``.

        Raises NotAllowed, Busy, Unavailable, also if no node keeps the export any more, or DataRefused for a statement
        that fits no message.
        """
        while after < LAST_PLACE:
            page = await self._page(after)
            after = page.upto
            yield page

    async def _page(self, after: int) -> ExportPage:
        _, page = await self._sessions.ask(
            lambda request: messages.ClientReadExport(request, self.number, after), busy_seconds=_BUSY_SECONDS
        )
        return ExportPage(page.last_place, page.lines)

    async def end(self) -> None:
        """Have the nodes forget the export; after a failure they do so by themselves, an hour after the last page."""
        with contextlib.suppress(P2PRDFError):
            await self._sessions.ask(lambda request: messages.ClientEndExport(request, self.number))


async def begin_export(sessions: Sessions, stream: str) -> Export:
    """Begin an export; see :meth:`p2prdf.client.Client.export`."""
    name = terms.parse_term(stream) if stream.startswith("<") else terms.iri(stream) if stream else ""
    _, answer = await sessions.ask(lambda request: messages.ClientExport(request, name), busy_seconds=_BUSY_SECONDS)
    begun = json.loads(answer.json)
    return Export(sessions, begun["export"], begun["stamp"])
