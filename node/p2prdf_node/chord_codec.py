"""Codec of Chord's messages: a msgpack array of message kind, sender and fields.

    [kind, [identifier, host, port], field, ...]

The sender's identifier has 160 bits, of which the first 64 are its ring position.  Other peers are named by position
and address: ``[position, host, port]``.  All lists are bounded, so that every message fits one datagram of
``DATAGRAM_BYTES_MAX`` bytes.  :func:`decode` checks every field before it builds a message.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]

from p2prdf import keys
from p2prdf.errors import RemoteProtocolError
from p2prdf.overlay.chord_config import SUCCESSORS_MAX
from p2prdf.overlay.chord_lookup import WAYS_ON
from p2prdf.overlay.chord_messages import (
    Changed,
    FindSuccessor,
    GetRing,
    Leaving,
    Names,
    Notify,
    NotMember,
    Ping,
    Pong,
    Ring,
    RingBusy,
    RingMessage,
)
from p2prdf.wire.messages import Contact

__all__ = ["CONTACTS_MAX", "DATAGRAM_BYTES_MAX", "ID_BYTES", "decode", "encode"]

ID_BYTES: Final = 20
CONTACTS_MAX: Final = SUCCESSORS_MAX + WAYS_ON
DATAGRAM_BYTES_MAX: Final = 1400

_U64: Final = 1 << 64

_KINDS: Final[dict[int, tuple[type[RingMessage], tuple[str, ...]]]] = {
    1: (Ping, ("number",)),
    2: (Pong, ("number", "flag")),
    3: (GetRing, ("number",)),
    4: (Ring, ("number", "contact or none", "contacts")),
    5: (RingBusy, ("number",)),
    6: (NotMember, ("number",)),
    7: (FindSuccessor, ("number", "number")),
    8: (Names, ("number", "contacts")),
    9: (Notify, ()),
    10: (Changed, ()),
    11: (Leaving, ("contacts",)),
}
_KIND_OF: Final = {kind: number for number, (kind, _) in _KINDS.items()}


def encode(message: RingMessage, claim: tuple[bytes, str, int]) -> bytes:
    """Encode a message of the peer that claims identifier, host and port."""
    fields = [getattr(message, name) for name in message.__slots__]
    body: bytes = msgpack.packb([_KIND_OF[type(message)], claim, *fields], default=_plain)
    return body


def _plain(value: Any) -> Any:
    if isinstance(value, Contact):
        return (value.key, value.host, value.port)
    raise TypeError(f"{type(value).__name__} is no field of a message")


def decode(data: bytes) -> tuple[RingMessage, Contact]:
    """Decode a message and its claimed sender.  Raises RemoteProtocolError for anything else."""
    try:
        body = msgpack.unpackb(
            data, use_list=False, raw=False, max_array_len=CONTACTS_MAX, max_str_len=64, max_bin_len=ID_BYTES,
            max_map_len=0, max_ext_len=0,
        )  # fmt: skip
        kind, (identifier, host, port), *fields = body
        message_type, forms = _KINDS[kind]
        made = [_field(form, value) for form, value in zip(forms, fields, strict=True)]
        return message_type(*made), _contact((keys.node_key(_field("identifier", identifier)), host, port))
    except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
        reason = str(error) or type(error).__name__
        raise RemoteProtocolError(f"not a message of a ring: {reason[:200]}") from None


def _field(form: str, value: Any) -> Any:
    if form == "identifier" and type(value) is bytes and len(value) == ID_BYTES:
        return value
    if form == "flag" and type(value) is bool:
        return value
    if form == "number" and type(value) is int and 0 <= value < _U64:
        return value
    if form == "contact or none":
        return None if value is None else _contact(value)
    if form == "contacts" and type(value) is tuple:
        return tuple(map(_contact, value))
    raise ValueError(f"{value!r} is no {form}")


def _contact(value: Any) -> Contact:
    key, host, port = value
    if type(key) is not int or not 0 <= key < _U64 or type(port) is not int or not 0 < port < 65_536:
        raise ValueError("a position or a port is out of range")
    return Contact(key, _address(host), port)


@lru_cache(maxsize=4096)
def _address(host: str) -> str:
    """Return the canonical spelling of an IP address, because contacts are compared by spelling."""
    if not isinstance(host, str):
        raise TypeError("an address is a text")
    return str(ipaddress.ip_address(host))
