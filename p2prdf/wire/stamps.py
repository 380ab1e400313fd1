"""Every stamp that a message carries: the one table by which stamps from the future are refused and corrected.

A stamp that lies further ahead of a peer's physical time than ``drift_max_seconds`` is *from the future*.  No peer
accepts one: neither from a client, nor from another peer, nor from its own disk.  One such stamp in the tables or in
the clock silences subscriptions until physical time passes it.

``STAMPED`` names for each message the fields that reach tables, records or the clock.  ``UNSTAMPED`` names every other
message and gives the reason why its stamps, if it has any, need no check.  A test compares both with all messages.
The rule for records on the disk is argued in docs/explanation/design/clocks.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np

from p2prdf import hlc
from p2prdf.columns import Column
from p2prdf.wire import messages as m
from p2prdf.wire.messages import Message

__all__ = ["LEASES", "STAMPED", "UNSTAMPED", "Anchor", "latest", "restamped", "with_leases_until"]

STAMPED: Final[dict[type, tuple[str, ...]]] = {
    m.IndexTriples: ("time", "began", "complete", "stamp"),
    m.PublicationsComplete: ("began", "complete"),
    m.IndexQuery: ("groups.since_min", "groups.since_max", "refresh"),
    m.Forward: ("groups.since_min", "groups.since_max", "rows.oldest", "rows.born", "refresh"),
    m.Answers: ("rows.oldest", "rows.born"),
    m.AdvertiseIndexes: ("since",),
    m.AdvertiseKeywords: ("since",),
    m.KeepSubscription: ("since_min", "since_max", "youngest", "since", "changed"),
    m.EndSubscription: ("times",),
    m.KeepAnswers: ("born",),
    m.KeepRetracted: ("youngest",),
    m.BucketDigests: ("began",),
    m.IdentityList: ("began",),
    m.Expulsions: ("times",),
}
"""By message the fields with stamps; ``groups.x`` and ``rows.x`` are columns of its groups and rows."""

_NONE: Final = "it carries no stamp"
_EVENT_TIMES: Final = "it carries event times in milliseconds, which publishers choose"
_LEASE: Final = "a lease ends in the future by design; one that is too long is shortened (LEASES)"
_PASSING: Final = "its stamps concern one cut or request, reach no table and do not move the clock"
_CLIPPED: Final = "a subscription begins now at the latest, whatever its request says"
_OWN: Final = "a peer keeps it for its own next life, which compares it with its clock"

UNSTAMPED: Final[dict[type, str]] = {
    **dict.fromkeys((
        m.GroupsGone, m.KeepGroups, m.RatesRequest, m.RatesResponse, m.IndexesRequest, m.IndexesResponse,
        m.LoadRequest, m.LoadResponse, m.HoldSubKeys,
        m.KeyDepth, m.SubscriptionRefused, m.AttachSubscription, m.CloseSubscription, m.SubscriptionClosed,
        m.RenewSubscriptions, m.Delivered, m.SettledAnswers, m.KeepAcknowledged, m.NamesRequest, m.NamesResponse,
        m.Acknowledge, m.NotOwner, m.FindNode, m.Nodes, m.Leaving, m.RootDigests, m.DigestDiff, m.Fetch, m.FetchDone,
        m.WatchWatermarks, m.ExplainSubscription, m.Explanation, m.CountsResponse, m.ClusterKnown,
    ), _NONE),
    **dict.fromkeys((m.KeepReported, m.KeepEnds, m.ElementsForgotten, m.RetentionReport, m.PublisherReport),
        _EVENT_TIMES),
    m.StreamReport: _EVENT_TIMES,
    m.GroupLeases: _LEASE,
    m.OpenSubscription: _CLIPPED,
    **dict.fromkeys((
        m.CountsRequest, m.Deliver, m.SubscriptionOpened, m.LowWatermark, m.BookmarksRequest, m.BookmarksResponse,
        m.Traced,
    ), _PASSING),
    m.MembersKnown: _OWN,
    m.Introduced: _OWN,
}  # fmt: skip
"""Messages with unchecked stamps, with the reason."""

LEASES: Final[dict[type, str]] = {
    m.IndexQuery: "groups.lease", m.Forward: "groups.lease", m.GroupLeases: "lease",
}  # fmt: skip
"""By message the field with the ends of groups' leases."""

_BOUNDED: Final = {"rows.oldest": "rows.born", "groups.since_min": "groups.since_max"}
"""Fields that are never later than another field, which is checked instead.

Both may be 2^64 - 1, which is later than all stamps: in a query that waits for its first pattern, and in a group that
has ended.
"""
_NO_STAMP: Final = (1 << 64) - 1
_PLAIN: Final = np.uint64(hlc.GONE - 1)
_ELEMENT: Final = np.uint64(hlc.ELEMENT)
_ELEMENTS_END: Final = np.uint64(hlc.ELEMENT << 1)
_FALLBACK: Final = hlc.from_seconds(86_400.0)
"""Stamps from the future are moved into the last day if the peer does not know when its clock jumped."""
_STAMPS_END: Final = 1 << 63


def latest(message: Message) -> int:
    """Return the latest stamp that a message carries into durable state or into the clock; 0: none.

    Event times of elements do not count; the stamp of a deletion does.
    """
    fields = STAMPED.get(type(message))
    if fields is None:
        return 0
    return max(_latest(_value(message, field)) for field in fields if field not in _BOUNDED)


def _value(message: Any, field: str) -> Any:
    for name in field.split("."):
        message = getattr(message, name)
    return message


def _latest(value: int | Column) -> int:
    if isinstance(value, int):
        value = [value]
    if isinstance(value, list):
        return max((each for each in map(hlc.plain, value) if not hlc.is_element(each)), default=0)
    if not len(value):
        return 0
    plain = np.asarray(value, np.uint64) & _PLAIN
    top = int(plain.max())
    if top < hlc.ELEMENT:
        return top
    return int(plain[(plain < _ELEMENT) | (plain >= _ELEMENTS_END)].max(initial=0))


def with_leases_until(message: Message, end: int) -> Message:
    """Return a message with all leases ending at a stamp at the latest.

    A clock that was ahead has made longer ones.  Without this, a group would be kept until then if its end is missed.
    """
    field = LEASES.get(type(message))
    if field is None:
        return message
    leases = _value(message, field)
    if not len(leases) or int(max(leases) if isinstance(leases, list) else leases.max()) <= end:
        return message
    shorter = [min(each, end) for each in leases] if isinstance(leases, list) else np.minimum(leases, np.uint64(end))
    return _with_field(message, field, shorter)


class Anchor:
    """The order-preserving map from stamps of the future to the past.

    ``bound``: the latest stamp that is not from the future.  ``now``: the stamp of physical time.  ``jumped``: the
    first stamp of the process with the wrong clock.  ``before``: the latest stamp that was known when that process
    started.

    A stamp keeps its distance to ``jumped`` if the result lies in the first half of the time from ``before`` to
    ``now``; later stamps are compressed into the second half.  So results keep the order of stamps.  They lie after all
    stamps that preceded the jump, and before all new ones.  Without a known jump the last day takes the place of that
    time.
    """

    def __init__(self, bound: int, now: int, jumped: int = 0, before: int = 0):
        self.bound = bound
        if jumped > bound and 0 < before < now:
            self._from, self._to = jumped, before + 1
        else:
            self._from, self._to = bound, max(1, now - _FALLBACK)
        room = max(2, now - self._to)
        self._half = room // 2
        self._shift = max(0, (_STAMPS_END - 1).bit_length() - (room - self._half).bit_length() + 1)

    def of(self, stamp: int) -> int:
        """Return the corrected stamp of an addition or a deletion; times of elements stay."""
        plain = hlc.plain(stamp)
        if plain <= self.bound or hlc.is_element(plain) or stamp == _NO_STAMP:
            return stamp
        return (stamp & hlc.GONE) | self._mapped(plain)

    def _mapped(self, plain: int) -> int:
        distance = max(0, plain - self._from)
        if distance > self._half:
            distance = self._half + ((distance - self._half) >> self._shift)
        return self._to + distance

    def of_any(self, stamps: int | Column) -> int | Column:
        """Return a corrected stamp, or a column of corrected stamps."""
        if isinstance(stamps, int):
            return self.of(stamps)
        if isinstance(stamps, list):
            return [self.of(each) for each in stamps]
        return np.array([self.of(each) for each in stamps.tolist()], stamps.dtype)


def restamped(message: Message, of: Callable[[Any], Any]) -> Message:
    """Return a message with ``of`` applied to each field with stamps (numbers and columns)."""
    for field in STAMPED[type(message)]:
        message = _with_field(message, field, of(_value(message, field)))
    return message


def _with_field(message: Message, field: str, value: Any) -> Message:
    """Return a message with another value of a field, which may be a column of its groups or rows."""
    outer, _, inner = field.partition(".")
    changed = replace(getattr(message, outer), **{inner: value}) if inner else value
    restamped: Any = replace(message, **{outer: changed})
    return cast("Message", restamped)
