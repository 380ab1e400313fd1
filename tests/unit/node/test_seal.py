from __future__ import annotations

import random

import pytest

from p2prdf_node import seal
from p2prdf_node.seal import OVERHEAD, Keyring, Sealer

KEY = bytes(range(32))


def pair():
    return Sealer(Keyring([KEY]), receiver=1), Sealer(Keyring([KEY]), receiver=2)


def nonce(number=0):
    return number.to_bytes(8, "big")


def test_a_sealed_datagram_is_opened_once():
    a, b = pair()
    datagram = a.seal(b"payload", receiver=2, nonce=nonce(), now=1000.0)
    assert len(datagram) == len(b"payload") + OVERHEAD
    assert b.open(datagram, now=1000.5) == b"payload"
    assert b.open(datagram, now=1000.6) is None
    assert b.refused["replayed"] == 1


def test_a_replay_is_refused_for_as_long_as_its_time_is_good():
    """The nonce is remembered at least until the time check alone would refuse the datagram."""
    a, b = pair()
    early = a.seal(b"x", receiver=2, nonce=nonce(1), now=1000.0 + seal.WINDOW_SECONDS)
    assert b.open(early, now=1000.0) == b"x"
    for step in range(1, 300):
        now = 1000.0 + step * 0.25
        b.open(a.seal(b"y", receiver=2, nonce=nonce(1 + step), now=now), now=now)
        assert b.open(early, now=now) is None


def test_every_bit_is_covered():
    a, b = pair()
    datagram = a.seal(b"payload", receiver=2, nonce=nonce(), now=1000.0)
    for position in range(len(datagram) * 8):
        changed = bytearray(datagram)
        changed[position // 8] ^= 1 << position % 8
        assert b.open(bytes(changed), now=1000.0) is None
    assert b.open(datagram, now=1000.0) == b"payload"


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda _: b"", "short"),
        (lambda a: a.seal(b"p", receiver=2, nonce=nonce(), now=1000)[: OVERHEAD - 1], "short"),
        (lambda a: b"\x01" + a.seal(b"p", receiver=2, nonce=nonce(), now=1000)[1:], "version"),
        (lambda _: Sealer(Keyring([bytes(32)]), 1).seal(b"p", receiver=2, nonce=nonce(), now=1000), "key"),
        (lambda a: a.seal(b"p", receiver=2, nonce=nonce(), now=1000)[:-1] + b"\x00", "forged"),
        (lambda a: a.seal(b"p", receiver=3, nonce=nonce(), now=1000), "receiver"),
        (lambda a: a.seal(b"p", receiver=2, nonce=nonce(), now=989), "time"),
        (lambda a: a.seal(b"p", receiver=2, nonce=nonce(), now=1011), "time"),
    ],
)
def test_why_a_datagram_is_refused_is_counted(made, reason):
    a, b = pair()
    assert b.open(made(a), now=1000.0) is None
    assert {name: count for name, count in b.refused.items() if count} == {reason: 1}


def test_a_datagram_without_a_receiver_is_opened_by_anyone():
    a, b = pair()
    assert b.open(a.seal(b"hello", receiver=0, nonce=nonce(), now=5.0), now=5.0) == b"hello"


def test_the_replay_memory_is_bounded_and_fails_closed(monkeypatch):
    monkeypatch.setattr(seal, "NONCES_MAX", 10)
    a, b = pair()
    opened = [b.open(a.seal(b"x", receiver=2, nonce=nonce(n), now=1.0), now=1.0) for n in range(20)]
    assert opened == [b"x"] * 10 + [None] * 10
    assert b.refused["full"] == 10


def test_garbage_of_any_length_is_refused():
    generator = random.Random(7)
    _, b = pair()
    for _ in range(2000):
        assert b.open(generator.randbytes(generator.randrange(0, 200)), now=1000.0) is None
