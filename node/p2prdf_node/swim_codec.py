"""Codec of SWIM packets: a msgpack array of message kind, sender's record, clock, fields and gossip.

    [kind, [position, host, port, zone, incarnation, state], clock, [field, ...], [[position, host, ...], ...]]

Gossip is bounded, so that every packet fits one datagram of ``DATAGRAM_BYTES_MAX`` bytes.  :func:`decode` checks
every field before it builds a packet.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]

from p2prdf.errors import RemoteProtocolError
from p2prdf.overlay.swim_config import is_zone
from p2prdf.overlay.swim_messages import (
    BUCKETS,
    GOSSIP_BYTES_MAX,
    Answer,
    Gossip,
    OtherTime,
    Packet,
    Probe,
    ProbeReport,
    ProbeRequest,
    PushPull,
    Record,
    State,
    SwimMessage,
    SyncStates,
)
from p2prdf.wire.messages import Contact

__all__ = ["DATAGRAM_BYTES_MAX", "decode", "encode"]

DATAGRAM_BYTES_MAX: Final = 1400

_U64: Final = 1 << 64
_INCARNATIONS: Final = 1 << 62
"""Bound of incarnations, below 64 bits, so that a higher incarnation always exists."""
_HOST_CHARACTERS_MAX: Final = 45
_GOSSIP_MAX: Final = GOSSIP_BYTES_MAX // 34

_KINDS: Final[dict[int, tuple[type[SwimMessage], tuple[str, ...]]]] = {
    1: (Probe, ("number",)),
    2: (Answer, ("number",)),
    3: (ProbeRequest, ("number", "contact")),
    4: (ProbeReport, ("number", "flag")),
    5: (PushPull, ("digests", "flag")),
    6: (Gossip, ()),
    7: (SyncStates, ()),
    8: (OtherTime, ("number", "number")),
}
_KIND_OF: Final = {kind: number for number, (kind, _) in _KINDS.items()}


def encode(packet: Packet) -> bytes:
    """Encode a packet."""
    message = packet.message
    fields = [_plain(getattr(message, name)) for name in message.__slots__]
    gossip = [_flat(record) for record in packet.gossip]
    body: bytes = msgpack.packb([_KIND_OF[type(message)], _flat(packet.sender), packet.clock, fields, gossip])
    return body


def _plain(value: Any) -> Any:
    return (value.key, value.host, value.port) if isinstance(value, Contact) else value


def _flat(record: Record) -> tuple[Any, ...]:
    contact = record.contact
    return contact.key, contact.host, contact.port, record.zone, record.incarnation, int(record.state)


def decode(data: bytes) -> Packet:
    """Decode a packet.  Raises RemoteProtocolError for anything else."""
    try:
        body = msgpack.unpackb(
            data, use_list=False, raw=False, max_array_len=max(BUCKETS, _GOSSIP_MAX), max_str_len=64, max_bin_len=0,
            max_map_len=0, max_ext_len=0,
        )  # fmt: skip
        kind, sender, clock, fields, gossip = body
        message_type, forms = _KINDS[kind]
        made = [_field(form, value) for form, value in zip(forms, fields, strict=True)]
        records = tuple(map(_record, gossip))
        return Packet(_record(sender), _field("number", clock), message_type(*made), records)
    except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
        reason = str(error) or type(error).__name__
        raise RemoteProtocolError(f"not a packet of a view: {reason[:200]}") from None


def _field(form: str, value: Any) -> Any:
    if form == "flag" and type(value) is bool:
        return value
    if form == "number" and type(value) is int and 0 <= value < _U64:
        return value
    if form == "contact" and type(value) is tuple:
        return _contact(*value)
    if form == "digests" and type(value) is tuple and len(value) == BUCKETS:
        return tuple(_field("number", each) for each in value)
    raise ValueError(f"{value!r} is no {form}")


def _record(value: Any) -> Record:
    key, host, port, zone, incarnation, state = value
    if type(zone) is not str or not is_zone(zone):
        raise ValueError("that is no zone")
    if type(incarnation) is not int or not 0 <= incarnation < _INCARNATIONS or type(state) is not int:
        raise ValueError("an incarnation or a state is out of range")
    return Record(_contact(key, host, port), zone, incarnation, State(state))


def _contact(key: Any, host: Any, port: Any) -> Contact:
    if type(key) is not int or not 0 <= key < _U64 or type(port) is not int or not 0 < port < 65_536:
        raise ValueError("a position or a port is out of range")
    return Contact(key, _address(host), port)


@lru_cache(maxsize=4096)
def _address(host: str) -> str:
    """Return the canonical spelling of an IP address, because contacts are compared by spelling."""
    if not isinstance(host, str) or len(host) > _HOST_CHARACTERS_MAX:
        raise TypeError("an address is a text, and not a long one")
    return str(ipaddress.ip_address(host))

