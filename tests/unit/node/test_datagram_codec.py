"""Messages of memberships survive the way through bytes and fit one datagram; nothing else is taken for one."""

from __future__ import annotations

import random

import msgpack
import pytest

from p2prdf.errors import RemoteProtocolError
from p2prdf.overlay.membership import Packet
from p2prdf.overlay.routed_config import SUCCESSORS_MAX
from p2prdf.overlay.routed_messages import (
    CONTACTS_MAX,
    Changed,
    FindOwners,
    GetRing,
    Leaving,
    Names,
    Notify,
    NotMember,
    Ping,
    Pong,
    Ring,
    RingBusy,
)
from p2prdf.overlay.swim_messages import Probe
from p2prdf.wire.datagrams import DATAGRAM_BYTES_MAX, decode, encode
from p2prdf.wire.fields import NUMBERS
from p2prdf.wire.messages import Contact
from p2prdf_node.envelopes import Envelopes
from p2prdf_node.seal import Keyring

SENDER = Contact(1234567890123456789, "127.0.0.1", 7400)
CLAIM = [SENDER.key, SENDER.host, SENDER.port]
LAST = (1 << 64) - 1
A, B = Contact(0, "10.0.0.1", 1), Contact(LAST, "2001:db8::1", 65_535)

MESSAGES = [
    Ping(1),
    Pong(LAST, member=True),
    Pong(0, member=False),
    GetRing(2),
    Ring(3, None, (A,)),
    Ring(3, A, (B, A)),
    RingBusy(4),
    NotMember(5),
    FindOwners(6, LAST),
    Names(7, ()),
    Names(8, (A, B)),
    Notify(),
    Changed(),
    Leaving((B,)),
]


@pytest.mark.parametrize("message", MESSAGES, ids=repr)
def test_an_encoded_message_is_decoded_with_its_sender(message):
    assert decode(encode(Packet(SENDER, message)), Packet) == Packet(SENDER, message)


def test_the_longest_messages_fit_one_datagram():
    longest = [
        Contact(LAST - number, "2001:db8:1234:5678:9abc:def0:1234:5678", 65_535) for number in range(CONTACTS_MAX)
    ]
    sealed = Envelopes(Keyring([bytes(32)]), 1, "chord")
    for message in (
        Names(LAST, tuple(longest)),
        Ring(LAST, longest[0], tuple(longest[:SUCCESSORS_MAX])),
    ):
        payload = encode(Packet(longest[0], message))
        assert decode(payload, Packet).message == message
        assert len(payload) <= DATAGRAM_BYTES_MAX
        assert len(sealed.seal(payload, LAST)) <= 1452  # the payload of IPv6 and UDP in an Ethernet frame


def test_addresses_have_one_spelling():
    names = Names(1, (Contact(1, "2001:DB8:0::1", 9),))
    packet = decode(encode(Packet(Contact(5, "2001:db8:0:0::5", 9), names)), Packet)
    assert packet.message.contacts == (Contact(1, "2001:db8::1", 9),)
    assert packet.sender.host == "2001:db8::5"


PACKET, PING, PONG, RING, NAMES, PROBE = (NUMBERS[each] for each in (Packet, Ping, Pong, Ring, Names, Probe))


@pytest.mark.parametrize(
    "body",
    [
        None,
        7,
        {},
        [],
        [PACKET],
        [PACKET, CLAIM],
        [PACKET, CLAIM, [PING, 1, 2]],
        [PACKET, CLAIM, [0, 1]],
        [PACKET, CLAIM, [99, 1]],
        [PACKET, CLAIM, ["Ping", 1]],
        [PACKET, CLAIM, [[1], 1]],
        [PACKET, CLAIM, [PING, -1]],
        [PACKET, CLAIM, [PING, "1"]],
        [PACKET, CLAIM, [PING, True]],
        [PACKET, CLAIM, [PING, None]],
        [PACKET, CLAIM, [PONG, 1, 1]],
        [PACKET, (-1, "127.0.0.1", 9), [PING, 1]],
        [PACKET, (b"key", "127.0.0.1", 9), [PING, 1]],
        [PACKET, (5, "localhost", 9), [PING, 1]],
        [PACKET, (5, "", 9), [PING, 1]],
        [PACKET, (5, 2130706433, 9), [PING, 1]],
        [PACKET, (5, "127.0.0.1", 0), [PING, 1]],
        [PACKET, (5, "127.0.0.1", 65_536), [PING, 1]],
        [PACKET, (5, "127.0.0.1"), [PING, 1]],
        [PACKET, CLAIM, [NAMES, 1, None]],
        [PACKET, CLAIM, [NAMES, 1, 7]],
        [PACKET, CLAIM, [NAMES, 1, [7]]],
        [PACKET, CLAIM, [NAMES, 1, [(1, "127.0.0.1")]]],
        [PACKET, CLAIM, [NAMES, 1, [(-1, "127.0.0.1", 9)]]],
        [PACKET, CLAIM, [NAMES, 1, [("1", "127.0.0.1", 9)]]],
        [PACKET, CLAIM, [NAMES, 1, [(1, "nowhere", 9)]]],
        [PACKET, CLAIM, [NAMES, 1, [(1, "127.0.0.1", 9)] * (CONTACTS_MAX + 1)]],
        [PACKET, CLAIM, [RING, 1, 5, []]],
        [PACKET, CLAIM, [RING, 1, (1, "127.0.0.1", 9)]],
        [PING, 1],
        [PACKET, CLAIM, [PACKET, CLAIM, [PING, 1]]],
        [PACKET, CLAIM, [PROBE, 1]],
    ],
    ids=repr,
)
def test_any_other_msgpack_is_refused(body):
    with pytest.raises(RemoteProtocolError, match="not a message of a membership"):
        decode(msgpack.packb(body), Packet)


@pytest.mark.parametrize("raw", [b"", b"\xc1", b"\x91" * 2000, b"\xdd\xff\xff\xff\xff", b"\x93\x01\xd4\x05\x00"])
def test_bytes_that_are_no_msgpack_are_refused(raw):
    with pytest.raises(RemoteProtocolError):
        decode(raw, Packet)


def test_noise_and_damaged_messages_raise_nothing_else():
    generator = random.Random(1)
    whole = [encode(Packet(SENDER, message)) for message in MESSAGES]
    for _ in range(5000):
        damaged = bytearray(generator.choice(whole))
        for _ in range(generator.randint(1, 3)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        try:
            decode(bytes(damaged[: generator.randint(1, len(damaged))]), Packet)
        except RemoteProtocolError:
            continue
