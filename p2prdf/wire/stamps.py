"""Stamps that messages carry: stamps from the future are refused and corrected here.

A stamp that lies further ahead of a peer's physical time than ``drift_max_seconds`` is *from the future*.  No peer
accepts one: neither from a client, nor from another peer, nor from its own disk.  One such stamp in the tables or in
the clock silences subscriptions until physical time passes it.

The fields are those that messages declare as stamps (:class:`p2prdf.wire.fields.Role`).  The rule for records on the
disk is argued in docs/explanation/design/clocks.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final, cast

import numpy as np

from p2prdf import hlc
from p2prdf.columns import Column
from p2prdf.wire.fields import NUMBERS, Role, fields_in
from p2prdf.wire.messages import Message

__all__ = ["LEASED", "Anchor", "latest", "restamped", "with_leases_until"]

_MESSAGES: Final = [each for each in NUMBERS if issubclass(each, Message)]
_CHECKED: Final = {each: [attrgetter(name) for name in fields_in(each, Role.STAMP)] for each in _MESSAGES}
_STAMPED: Final = {each: fields_in(each, Role.STAMP, Role.BOUNDED) for each in _MESSAGES}
"""By message the fields with stamps that are checked, and those with stamps that are corrected."""
_LEASES: Final = {each: names[0] for each in _MESSAGES if (names := fields_in(each, Role.LEASE_END))}
"""By message the field with the ends of groups' leases."""
LEASED: Final = frozenset(_LEASES)
"""The messages with leases of groups."""
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
    found = 0
    for stamps in _CHECKED[type(message)]:
        value = stamps(message)
        if not isinstance(value, int):
            value = _latest(value)
        elif value >= hlc.ELEMENT:
            value = _latest([value])
        if value > found:
            found = value
    return found


def _latest(value: Column) -> int:
    if isinstance(value, list):
        plain_stamps = [each & (hlc.GONE - 1) for each in value]
        return max([each for each in plain_stamps if not hlc.ELEMENT <= each < hlc.ELEMENT << 1], default=0)
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
    field = _LEASES.get(type(message))
    if field is None:
        return message
    leases = attrgetter(field)(message)
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
    for field in _STAMPED[type(message)]:
        message = _with_field(message, field, of(attrgetter(field)(message)))
    return message


def _with_field(message: Message, field: str, value: Any) -> Message:
    """Return a message with another value of a field, which may be a column of its groups or rows."""
    outer, _, inner = field.partition(".")
    changed = replace(getattr(message, outer), **{inner: value}) if inner else value
    restamped: Any = replace(message, **{outer: changed})
    return cast("Message", restamped)
