"""Mutations of a frame: its bytes, its length, its parts, its counts, its depth, its terms."""

from __future__ import annotations

import struct
from random import Random
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]

__all__ = ["MUTATIONS", "framed", "mutated"]

_LENGTH: Final = struct.Struct(">I")
_TOP: Final = (1 << 64) - 1
_JUNK: Final[tuple[Any, ...]] = (
    None, -1, 0, 1, 3, 64, 255, 65_537, 1 << 32, _TOP, 1.5, float("nan"), float("inf"), True, "", "x", "<a>", b"",
    b"\x01", b"\xff\x01", b"\xff" * 8 + b"\x08", b"\x00\x00\x03", [], [1], [2, 1], [65_537, 0], [1, _TOP], [[]], {},
    {"a": 1}, msgpack.ExtType(5, b"x"), msgpack.Timestamp(0), "\U0001f600" * 50, [[]] * 50,
)  # fmt: skip
_BOMBS: Final = (
    b"\xdd\xff\xff\xff\xff", b"\x93\x06\xdb\xff\xff\xff\xff", b"\x93\x06\xdd\x7f\xff\xff\xff", b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01", b"\x93\x06\x91\xa2\xff\xfe\x90", b"\x93\x06\x90\xdc\xff\xff",
)  # fmt: skip
"""Headers that promise more than there is, and invalid text."""
_TERMS: Final = ("", "x", "<>", "<a", '"', "<a\nb>", '"\n"', "<\x00>", "_:b", "<" + "a" * 5000 + ">", '"\\', "\ud800", 7)  # noqa: E501


def framed(body: bytes) -> bytes:
    """Return a body with its length before it."""
    return _LENGTH.pack(len(body)) + body


def _flipped(rng: Random, body: bytes) -> bytes:
    changed = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return framed(bytes(changed))


def _overwritten(rng: Random, body: bytes) -> bytes:
    changed = bytearray(body)
    for _ in range(rng.randint(1, 3)):
        changed[rng.randrange(len(changed))] = rng.choice((0, 1, 0x90, 0xC0, 0xC4, 0xD9, 0xFF, rng.randrange(256)))
    return framed(bytes(changed))


def _truncated(rng: Random, body: bytes) -> bytes:
    return framed(body[: rng.randrange(1, len(body))])


def _extended(rng: Random, body: bytes) -> bytes:
    return framed(body + rng.randbytes(rng.randint(1, 20)))


def _replaced(rng: Random, body: bytes) -> bytes:
    return framed(msgpack.packb(_changed(rng, _parts(body)), unicode_errors="surrogatepass"))


def _nested(rng: Random, body: bytes) -> bytes:
    depth = rng.choice((2, 30, 511, 512, 513, 2000))
    if rng.random() < 0.5:
        return framed(b"\x91" * depth + body)
    return framed(b"\x93\x06\x90\x91" + b"\x91" * depth + b"\xc0")


def _promised(rng: Random, body: bytes) -> bytes:
    return framed(rng.choice(_BOMBS) + body[: rng.randrange(len(body))])


def _lied(rng: Random, body: bytes) -> bytes:
    length = rng.choice((0, (8 << 20) + 1, 0xFFFF_FFFF, rng.randrange(1 << 31, 1 << 32), rng.randrange(1, len(body) + 1)))  # noqa: E501
    return _LENGTH.pack(length) + body


def _renamed(rng: Random, body: bytes) -> bytes:
    """Give some terms other spellings."""
    parts = _parts(body)
    if isinstance(parts, list) and len(parts) > 2 and isinstance(parts[1], list):
        terms = [rng.choice(_TERMS) if rng.random() < 0.5 else term for term in parts[1]] or [rng.choice(_TERMS)]
        parts[1] = terms
    return framed(msgpack.packb(parts, unicode_errors="surrogatepass"))


def _other(rng: Random, body: bytes) -> bytes:
    """Give another version, or number of a message."""
    parts = _parts(body)
    if rng.random() < 0.3:
        parts[0] = rng.choice((0, 1, 5, 7, 255, -1, None, "6", _TOP))
    else:
        parts[2][0][0] = rng.choice((0, 255, 1 << 40, -1, None, "x", rng.randrange(128)))
    return framed(msgpack.packb(parts, unicode_errors="surrogatepass"))


def _noise(rng: Random, _body: bytes) -> bytes:
    return rng.randbytes(rng.randint(4, 400))


def _parts(body: bytes) -> Any:
    return msgpack.unpackb(body, strict_map_key=False)


def _changed(rng: Random, value: Any) -> Any:
    """Replace one part somewhere inside by junk, or drop or double it."""
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        change = rng.random()
        if change < 0.1:
            return value[:at] + value[at + 1 :]
        if change < 0.2:
            return [*value, value[at]]
        return [*value[:at], _changed(rng, value[at]), *value[at + 1 :]]
    if isinstance(value, bytes) and len(value) > 30 and rng.random() < 0.5:
        return value[:-9] + value[-1:]
    return rng.choice(_JUNK)


MUTATIONS: Final = (
    _replaced, _replaced, _replaced, _flipped, _overwritten, _truncated, _extended, _nested, _promised, _lied, _renamed,
    _other, _noise,
)  # fmt: skip


def mutated(rng: Random, body: bytes) -> bytes:
    """Return a genuine body after one mutation, length prefix included."""
    return rng.choice(MUTATIONS)(rng, body)
