"""Load: arrivals at a peer by key, and the mean load of all peers.

Each peer samples one in ``hot_sample`` of its arrivals: a triple counts once per index, a row once, as in the QPL of
the paper.  An interval ends with the first turn after ``hot_interval_seconds``; no timer wakes an idle peer.  If a
key had ``hot_rate_min`` triples, the peer asks some contacts for their arrivals.  Their answers and its own arrivals,
weighted by the number of peers, give the mean of all peers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from p2prdf.peer.joins.depths import Frequent, Sampler
from p2prdf.wire.messages import Contact, LoadRequest, LoadResponse

if TYPE_CHECKING:
    from p2prdf.peer.network.messenger import Messenger

__all__ = ["Load", "Suspect"]

_ASKED = 8
"""Contacts asked for their loads."""
_COUNTED_MAX = 1024
"""Keys counted at once; a hot key has more than a thousandth of the arrivals."""
_ANSWER_SECONDS = 2.0
"""Seconds to wait for answers; after that the answers that arrived suffice."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A key that may be hot: arrivals per second of triples and of rows, counted from ``since`` on."""

    role: int
    key: int
    triples: float
    rows: float
    since: float


@dataclass(slots=True)
class _Inquiry:
    """Suspects, and the peers that have not reported their load yet."""

    request: int
    asked: float
    suspects: list[Suspect]
    own: float
    waiting: dict[int, None]
    rates: list[float] = field(default_factory=list)


class Load:
    """Arrivals at one peer by key, and the mean of all peers once a key may be hot."""

    def __init__(self, messenger: Messenger, judge: Callable[[list[Suspect], float], None]):
        """``judge`` is called with keys that may be hot and the mean arrivals per second of all peers."""
        self._messenger = messenger
        self._judge = judge
        config = messenger.config
        self._sample, self._seconds = config.hot_sample, config.hot_interval_seconds
        self._enough = config.hot_rate_min / config.hot_interval_seconds
        self.triples_seen = Sampler(self._sample)
        self.rows_seen = Sampler(self._sample)
        self.triples = Frequent(_COUNTED_MAX)
        self.rows = Frequent(_COUNTED_MAX)
        self._arrived = 0
        self._started: float | None = None
        self._last = (0, 0.0)
        self._inquiry: _Inquiry | None = None
        self._inquiries = 0

    def arrived(self, count: int) -> None:
        """Count sampled arrivals."""
        self._arrived += count

    def turn(self) -> bool:
        """Return whether an interval has just ended; if so, start the next and ask others if some key may be hot."""
        now = self._messenger.now
        if self._started is None:
            self._started = now
        seconds = now - self._started
        if seconds < self._seconds:
            return False
        scale = self._sample / seconds
        suspects = [
            Suspect(*place, count * scale, self.rows.counts.get(place, 0) * scale, self._started)
            for place, count in self.triples.counts.items()
            if count * scale >= self._enough
        ]
        self._started = now
        self._last, self._arrived = (self._arrived * self._sample, seconds), 0
        self.triples.counts, self.rows.counts = {}, {}
        if self._inquiry is None or now - self._inquiry.asked >= _ANSWER_SECONDS:
            self._conclude()
            if suspects and self._messenger.config.hot_keys:
                self._ask(suspects)
        return True

    def _ask(self, suspects: list[Suspect]) -> None:
        """Ask a few contacts, evenly along the ring and others each time, for their loads."""
        messenger = self._messenger
        others = [each for each in messenger.cache.contacts() if each.key != messenger.own.key]
        self._inquiries += 1
        count = min(_ASKED, len(others))
        chosen = [others[(self._inquiries + at * len(others) // count) % len(others)] for at in range(count)]
        arrivals, seconds = self._last
        waiting = dict.fromkeys(contact.key for contact in chosen)
        self._inquiry = _Inquiry(self._inquiries, messenger.now, suspects, arrivals / seconds, waiting)
        for contact in chosen:
            messenger.send(contact, LoadRequest(self._inquiries))

    def asked(self, sender: Contact, message: LoadRequest) -> None:
        """Report the arrivals of the last interval, or those so far in the first one."""
        arrivals, seconds = self._last
        if not seconds and self._started is not None:
            arrivals, seconds = self._arrived * self._sample, self._messenger.now - self._started
        if sender.key != self._messenger.own.key:
            self._messenger.send(sender, LoadResponse(message.request, arrivals, seconds))

    def told(self, sender: Contact, message: LoadResponse) -> None:
        """Note a load; when all are known, have the suspects judged."""
        inquiry = self._inquiry
        if inquiry is None or message.request != inquiry.request or sender.key not in inquiry.waiting:
            return
        del inquiry.waiting[sender.key]
        if message.seconds > 0:  # 0: the peer has just started and has counted nothing
            inquiry.rates.append(message.arrivals / message.seconds)
        if not inquiry.waiting:
            self._conclude()

    def _conclude(self) -> None:
        inquiry, self._inquiry = self._inquiry, None
        if inquiry is not None and inquiry.rates:
            peers = self._messenger.cache.size
            others = sum(inquiry.rates) / len(inquiry.rates)
            self._judge(inquiry.suspects, (inquiry.own + (peers - 1) * others) / peers)
