"""Codec of membership datagrams: a msgpack array of message kind, header and fields.

    [kind, sender, header field, ..., message field, ...]

A codec is declared by a packet class (its fields except ``message`` are the header), by its message classes, numbered
in their order, and by the longest array.  The annotation of a field selects the check of its value, and
:meth:`Codec.decode` checks every field before it builds a packet.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

from p2prdf.errors import RemoteProtocolError
from p2prdf.wire.messages import Contact
from p2prdf.wire.packing import packer, unpack

__all__ = ["DATAGRAM_BYTES_MAX", "Codec", "Form", "array_of", "number", "read_contact"]

DATAGRAM_BYTES_MAX: Final = 1400

_U64: Final = 1 << 64
_HOST_CHARACTERS_MAX: Final = 45

P = TypeVar("P")

Form = Callable[[Any], Any]
"""Check of one received value.  Returns the value of the field; raises ValueError or TypeError."""


def number(value: Any, end: int = _U64) -> int:
    """Check a number of 64 bits without a sign, or one below ``end``."""
    if type(value) is not int or not 0 <= value < end:
        raise ValueError(f"{value!r} is no number, or out of range")
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{value!r} is no flag")
    return value


def read_contact(value: Any) -> Contact:
    """Check a peer's key, IP address and port."""
    key, host, port = value
    if not number(port, 1 << 16):
        raise ValueError("port 0")
    return Contact(number(key), _address(host), port)


@lru_cache(maxsize=4096)
def _address(host: str) -> str:
    """Return the canonical spelling of an IP address, because contacts are compared by spelling."""
    if not isinstance(host, str) or len(host) > _HOST_CHARACTERS_MAX:
        raise TypeError("an address is a text, and not a long one")
    return str(ipaddress.ip_address(host))


def array_of(form: Form) -> Form:
    """Return the check of an array of values of one form."""

    def check(value: Any) -> tuple[Any, ...]:
        if type(value) is not tuple:
            raise ValueError(f"{value!r} is no array")
        return tuple(map(form, value))

    return check


_FORMS: Final[dict[str, Form]] = {
    "int": number,
    "bool": _flag,
    "Contact": read_contact,
    "Contact | None": lambda value: None if value is None else read_contact(value),
    "tuple[int, ...]": array_of(number),
    "tuple[Contact, ...]": array_of(read_contact),
}


class Codec(Generic[P]):
    """Codec of one membership; ``forms`` adds checks by annotation."""

    def __init__(
        self, packet: type[P], messages: tuple[type, ...], *, arrays_max: int, forms: Mapping[str, Form] | None = None
    ):
        checks = {**_FORMS, **(forms or {})}
        self._packet: Any = packet
        self._pack = packer()
        self._arrays_max = arrays_max
        self._header = {name: checks[form] for name, form in _fields(packet) if name != "message"}
        self._kinds = dict(enumerate(messages, 1))
        self._kind_of = {kind: place for place, kind in self._kinds.items()}
        self._forms = {kind: [checks[form] for _, form in _fields(kind)] for kind in messages}

    def encode(self, packet: P) -> bytes:
        """Encode a packet."""
        message = packet.message  # type: ignore[attr-defined]
        header = [_plain(getattr(packet, name)) for name in self._header]
        return self._pack([self._kind_of[type(message)], *header, *_plain(message)])

    def decode(self, data: bytes) -> P:
        """Decode a packet.  Raises RemoteProtocolError for anything else."""
        try:
            kind, *values = unpack(data, arrays_max=self._arrays_max, strings_max=64, bytes_max=0)
            message = self._kinds[kind]
            forms = (*self._header.values(), *self._forms[message])
            checked = [form(value) for form, value in zip(forms, values, strict=True)]
            header = dict(zip(self._header, checked, strict=False))
            packet: P = self._packet(**header, message=message(*checked[len(header) :]))
        except (RemoteProtocolError, ValueError, TypeError, KeyError) as error:
            reason = str(error) or type(error).__name__
            raise RemoteProtocolError(f"not a message of a membership: {reason[:200]}") from None
        return packet


def _fields(kind: Any) -> list[tuple[str, str]]:
    """Return the names of a class's fields, with their annotations as written."""
    return [(field.name, str(field.type)) for field in dataclasses.fields(kind)]


def _plain(value: Any) -> Any:
    """Return a message, or a field of one, as msgpack's types: a dataclass becomes an array of its fields."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    names = getattr(value, "__dataclass_fields__", None)
    return value if names is None else [_plain(getattr(value, name)) for name in names]
