"""Exports that clients of this peer begin and read.

*Beginning.*  The entry peer draws a stamp in the near future and asks all members to keep their part as of it
(:mod:`p2prdf.peer.joins.kept_exports`).  If one refuses, or the view changes, it draws a later stamp.  Once all members
have confirmed and a low watermark of the same view has passed the stamp, the parts are complete.

*Reading.*  Each member sends its lines after a place.  The entry peer passes on the lines up to the first place at
which one of them has stopped.  A member that is gone, or has restarted since, is *absent*: the page is read again, and
other replicas send the lines of the absent member.  A line that fits no message fails the page.  Any member that keeps
the export can be the entry peer, so a client continues at another node.

Bounds: ``PAGES_MAX`` pages at a time, ``BEGIN_SECONDS`` and ``PAGE_SECONDS`` per request.

Design: docs/explanation/design/exports.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from p2prdf import hlc, keys
from p2prdf.columns import as_array
from p2prdf.errors import Busy, DataRefused, LocalProtocolError, Unavailable
from p2prdf.peer.network.by_key import ByKey
from p2prdf.peer.network.component import Component, Handlers
from p2prdf.wire.contract import (
    BeginExport,
    Completed,
    EndExport,
    ExportBegun,
    ExportEnded,
    ExportRead,
    Failed,
    Outcome,
)
from p2prdf.wire.contract import ReadExport as ReadRequest
from p2prdf.wire.messages import Contact, DropExport, ExportKept, ExportPart, KeepExport, ReadExport
from p2prdf.wire.validation import CONTACTS_MAX

if TYPE_CHECKING:
    from p2prdf.errors import P2PRDFError
    from p2prdf.peer.joins.kept_exports import KeptExport, KeptExports
    from p2prdf.peer.network.messenger import Messenger
    from p2prdf.peer.progress.low_watermark import Known

__all__ = ["BEGIN_SECONDS", "Exports", "merged"]

PAGES_MAX: Final = 16
"""Pages, and exports being begun, that a peer works on at a time."""
BEGIN_SECONDS: Final = 20.0
"""Seconds until an export without a complete stamp fails."""
AHEAD_SECONDS: Final = 0.25
"""How far the first stamp lies in the future; doubled with each attempt, up to 16 times this value."""
AGAIN_SECONDS: Final = 1.0
"""Pause before the next attempt."""
PAGE_SECONDS: Final = 20.0
"""Seconds until a page fails."""
MEMBER_SECONDS: Final = 8.0
"""Seconds after which a member that has not sent its part of a page counts as absent for this page."""
PAGE_LINES: Final = 8192
"""Lines per page, of all members together."""
MEMBER_LINES_MIN: Final = 64
"""Lines that each member sends at least, if it has so many."""
PAGE_CHARACTERS_MAX: Final = 3 << 19
"""Characters of a page, unless its first line alone has more: at most 6 MiB, and a frame holds 8 MiB."""


@dataclass(slots=True, eq=False)
class _Beginning:
    """An export being begun."""

    request: int
    stream: int
    due: float
    again_at: float
    """When the next attempt begins."""
    ahead: float = AHEAD_SECONDS
    message: KeepExport | None = None
    view: int = 0
    unheard: set[int] = field(default_factory=set)
    refusal: str = "the members are not known yet"
    complete: bool = False
    """Whether a low watermark has passed the stamp."""


@dataclass(slots=True, eq=False)
class _Page:
    """A page being read.  ``number``: that of the questions to members, a new one for each attempt."""

    request: int
    kept: KeptExport
    after: int
    due: float
    number: int = 0
    again_at: float = 0.0
    absent: set[int] = field(default_factory=set)
    unheard: dict[int, int] = field(default_factory=dict)
    """By key of a member its position."""
    parts: list[ExportPart] = field(default_factory=list)


class Exports(Component):
    """The exports that clients of one peer begin and read."""

    def __init__(self, messenger: Messenger, kept: KeptExports):
        self._messenger = messenger
        self._by_key = ByKey(messenger)
        self._kept = kept
        self._beginning: dict[int, _Beginning] = {}
        """By request."""
        self._pages: dict[int, _Page] = {}
        """By number."""
        messenger.signals.view_changed.connect(self.mark_dirty)

    def handlers(self) -> Handlers:
        """Return the handlers of the members' answers."""
        return {ExportKept: self._confirmed, ExportPart: self._received}

    def requests(self) -> Mapping[type[Any], Any]:
        """Return the handlers of clients' requests."""
        return {BeginExport: self._begin, ReadRequest: self._read, EndExport: self._end}

    @property
    def wants_low_watermarks(self) -> bool:
        """Whether an export waits for a low watermark."""
        return any(each.message is not None and not each.unheard for each in self._beginning.values())

    def _complete(self, request: int, outcome: Outcome | P2PRDFError) -> None:
        if not isinstance(outcome, Outcome):
            outcome = Failed(outcome.code, str(outcome))
        self._messenger.effects.append(Completed(request, outcome))

    def _has_room(self, request: int) -> bool:
        room = len(self._beginning) + len(self._pages) < PAGES_MAX
        if not room:
            self._complete(request, Busy(f"this node reads {PAGES_MAX} pages of exports"))
        return room

    # --- beginning -------------------------------------------------------------------------------

    def _begin(self, request: BeginExport) -> None:
        config, now = self._messenger.config, self._messenger.now
        if not config.fixed_roles >> keys.SPO & 1:
            reason = f"an export needs nodes that keep all statements; these have indexes={config.indexes}"
            self._complete(request.request, LocalProtocolError(reason))
        elif self._has_room(request.request):
            stream = keys.term_hash(request.stream) if request.stream else 0
            self._beginning[request.request] = _Beginning(request.request, stream, now + BEGIN_SECONDS, now)

    def _attempt(self, begun: _Beginning) -> None:
        """Ask all members to keep their part as of a new stamp."""
        messenger = self._messenger
        self._give_up(begun)
        begun.again_at = messenger.now + AGAIN_SECONDS + begun.ahead
        contacts = messenger.cache.contacts()
        if messenger.placement.replica_map is None or not messenger.view:
            begun.refusal = "the members are not known yet"
            return
        if len(contacts) > CONTACTS_MAX:
            begun.refusal = f"{len(contacts)} members; an export reads from up to {CONTACTS_MAX}"
            return
        stamp = max(messenger.clock, messenger.present) + hlc.from_seconds(begun.ahead)
        zones = tuple(messenger.zones.get(each.key, "") for each in contacts)
        begun.message = KeepExport(messenger.draw(62), hlc.floor(stamp), begun.stream, tuple(contacts), zones)
        begun.view, begun.ahead = messenger.view, min(2 * begun.ahead, 16 * AHEAD_SECONDS)
        begun.unheard = {each.key for each in contacts}
        begun.refusal = "not all members have answered"
        for contact in contacts:
            self._by_key.reply(contact, begun.message)

    def _give_up(self, begun: _Beginning) -> None:
        """Have the members forget an attempt."""
        message, begun.message = begun.message, None
        if message is not None:
            self._drop(message.export, message.members)

    def _drop(self, export: int, members: tuple[Contact, ...]) -> None:
        for contact in members:
            if self._messenger.is_known(contact):
                self._by_key.reply(contact, DropExport(export))

    def _confirmed(self, sender: Contact, message: ExportKept) -> None:
        for begun in self._beginning.values():
            if begun.message is not None and begun.message.export == message.export:
                if message.refusal:
                    begun.refusal = message.refusal
                    begun.again_at = min(begun.again_at, self._messenger.now + AGAIN_SECONDS)
                else:
                    begun.unheard.discard(sender.key)
                    if not begun.unheard:
                        begun.refusal = "publications before the stamp are still in flight, or nodes are not in sync"
                        begun.again_at = begun.due
                return

    def low_watermark(self, known: Known) -> None:
        """Finish the exports whose stamp a low watermark of their view has passed."""
        for begun in list(self._beginning.values()):
            message = begun.message
            if message is None or begun.unheard or begun.view != self._messenger.view or known.upto < message.stamp:
                continue
            del self._beginning[begun.request]
            self._complete(begun.request, ExportBegun(message.export, message.stamp))

    # --- reading ---------------------------------------------------------------------------------

    def _read(self, request: ReadRequest) -> None:
        kept = self._kept.held.get(request.export)
        if kept is None:
            reason = f"this node does not keep export {request.export:016x}: it has ended, or the node started after it"
            self._complete(request.request, Unavailable(reason))
        elif self._has_room(request.request):
            page = _Page(request.request, kept, request.after, self._messenger.now + PAGE_SECONDS)
            self._ask(page)

    def _ask(self, page: _Page) -> None:
        """Ask all members that are present for their part of a page."""
        messenger, kept = self._messenger, page.kept
        self._pages.pop(page.number, None)
        gone = {place for place, each in enumerate(kept.members) if not messenger.is_known(each)}
        absent = sorted(gone | kept.absent | page.absent)
        if not kept.replica_map.all_covered(absent):
            named = ", ".join(f"{each.host}:{each.port}" for each in (kept.members[place] for place in absent))
            reason = f"no replica of a part of export {kept.export:016x} is left; without the export are {named}"
            self._complete(page.request, Unavailable(reason))
            return
        page.number, page.again_at, page.parts = messenger.draw(62), messenger.now + MEMBER_SECONDS, []
        self._pages[page.number] = page
        page.unheard = {each.key: place for place, each in enumerate(kept.members) if place not in absent}
        most = max(MEMBER_LINES_MIN, PAGE_LINES // len(page.unheard))
        column = messenger.columns.column(absent, "uint32")
        question = ReadExport(page.number, kept.export, page.after, most, column)
        for place in page.unheard.values():
            self._by_key.reply(kept.members[place], question)

    def _received(self, sender: Contact, message: ExportPart) -> None:
        page = self._pages.get(message.request)
        if page is None or (place := page.unheard.pop(sender.key, None)) is None:
            return
        if message.refusal:
            del self._pages[page.number]
            self._complete(page.request, DataRefused(message.refusal))
            return
        if not message.known:
            page.kept.absent.add(place)
            self._ask(page)
            return
        page.parts.append(message)
        if not page.unheard:
            del self._pages[page.number]
            self._complete(page.request, merged(page.parts))

    def _end(self, request: EndExport) -> None:
        kept = self._kept.held.get(request.export)
        if kept is not None:
            self._drop(kept.export, kept.members)
        self._complete(request.request, ExportEnded())

    # --- time ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Begin the next attempts, and read pages again without members that are gone or silent."""
        messenger, now = self._messenger, self._messenger.now
        for begun in list(self._beginning.values()):
            if begun.due <= now:
                del self._beginning[begun.request]
                self._give_up(begun)
                reason = f"no export could begin within {BEGIN_SECONDS:g} s: {begun.refusal}"
                self._complete(begun.request, Unavailable(reason))
            elif begun.again_at <= now or (begun.message is not None and begun.view != messenger.view):
                self._attempt(begun)
        for page in list(self._pages.values()):
            lost = any(not messenger.is_known(page.kept.members[place]) for place in page.unheard.values())
            if page.due <= now:
                del self._pages[page.number]
                self._complete(page.request, Unavailable("nodes did not send their parts of the export in time"))
            elif page.again_at <= now:
                page.absent.update(page.unheard.values())
                self._ask(page)
            elif lost:
                self._ask(page)

    @property
    def deadline(self) -> float | None:
        """When the next action is due."""
        beginning = [min(each.due, each.again_at) for each in self._beginning.values()]
        pages = [min(each.due, each.again_at) for each in self._pages.values()]
        return min([*beginning, *pages], default=None)


def merged(parts: list[ExportPart]) -> ExportRead:
    """Return the lines of all members up to the first place at which one of them has stopped."""
    upto = min(part.last_place for part in parts)
    places = np.concatenate([as_array(part.places) for part in parts])
    lines = [line for part in parts for line in part.lines]
    order = np.argsort(places, kind="stable")
    order = order[places[order] <= np.uint64(upto)]
    characters = 0
    for count, at in enumerate(order.tolist()):
        characters += len(lines[at])
        if count and characters > PAGE_CHARACTERS_MAX:
            upto, order = int(places[order[count - 1]]), order[:count]
            break
    return ExportRead(upto, tuple(lines[at] for at in order.tolist()))
