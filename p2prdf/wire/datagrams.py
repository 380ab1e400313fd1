"""Datagrams of the overlay: one declared message each, as a msgpack array.

:func:`decode` checks every field before it builds a message.  All lists are bounded, so that every message fits one
datagram of ``DATAGRAM_BYTES_MAX`` bytes.
"""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeVar

from p2prdf.errors import RemoteProtocolError
from p2prdf.wire.compiled import WRITERS, Readers, read_message
from p2prdf.wire.fields import Kind
from p2prdf.wire.messages import Contact
from p2prdf.wire.packing import packer, unpack

__all__ = ["DATAGRAM_BYTES_MAX", "PEER", "PEER_OR_NONE", "decode", "encode", "peers"]

DATAGRAM_BYTES_MAX: Final = 1400
_PARTS_MAX: Final = 64
_TEXT_BYTES_MAX: Final = 64

T = TypeVar("T")


class _Counter:
    """Takes the place of a frame's encoder, which counts parts."""

    elements = 0


def encode(message: object) -> bytes:
    """Encode a declared message."""
    return packer()(WRITERS[type(message)](_Counter(), message))


def decode(data: bytes, expected: type[T]) -> T:
    """Decode a message of a type.  Raises RemoteProtocolError for anything else."""
    try:
        value = unpack(data, arrays_max=_PARTS_MAX, strings_max=_TEXT_BYTES_MAX, bytes_max=0)
        message: T = read_message(None, value, Readers(expected))
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"not a message of a membership: {error}") from None
    return message


@lru_cache(maxsize=4096)
def _canonical(host: str) -> str:
    """Return the canonical spelling of an IP address, because contacts are compared by spelling."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        raise RemoteProtocolError(f"{host!r} is not an IP address") from None


def _numeric(contact: Contact) -> Contact:
    if not contact.port:
        raise RemoteProtocolError("port 0")
    return Contact(contact.key, _canonical(contact.host), contact.port)


_USES: Final = {"Contact": Contact, "numeric": _numeric}

PEER: Final = Kind("Contact", "{v} = numeric(PARTS[Contact](d, {v}))", "PART_WRITERS[Contact](e, {v})", _USES)
"""A peer by an IP address and a port."""
PEER_OR_NONE: Final = replace(
    PEER, read=f"{PEER.read} if {{v}} is not None else None", write=f"{PEER.write} if {{v}} is not None else None"
)


def peers(most: int) -> Kind:
    """Return the kind of a sequence of up to ``most`` peers."""
    read = f"{{v}} = tuple(map(numeric, read_several(d, {{v}}, Contact, {most})))"
    return Kind("Contacts", read, f"write_several(e, {{v}}, Contact, {most})", _USES)
