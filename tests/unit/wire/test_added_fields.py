"""Fields added to messages: texts written without them are read, and they are written only if set."""

from __future__ import annotations

import dataclasses

import msgpack
import pytest

from p2prdf.columns import LISTS
from p2prdf.errors import RemoteProtocolError
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.wire import messages as m
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.describe import describe
from p2prdf.wire.fields import NUMBERS

QUERY = ConjunctiveQuery(((0, ~0, 1),), ("<urn:p>",), (0, 1), ("s", "o"))
RECORD = m.KeepSubscription(
    1 << 20, QUERY, "csbv", False, (0,), 5, 6, 7, 8, 9, 10, 11, 60.0, m.Contact(1, "h", 1), 12, 13, 14
)


def parts(message: object) -> list[object]:
    """Return the fields of a message in a frame, its number first."""
    body = FrameCodec(TermDictionary(), LISTS).encode([m.Envelope(0, 0, message)])[4:]
    return msgpack.unpackb(body)[2][0][3]


def decoded(fields: list[object]) -> object:
    body = msgpack.packb([6, [], [[NUMBERS[m.Envelope], 0, 0, fields]]])
    (envelope,) = FrameCodec(TermDictionary(), LISTS).decode(body)
    return envelope.message


def test_a_record_without_an_owner_is_written_as_it_was_before_there_were_owners() -> None:
    assert len(parts(RECORD)) == 1 + 17
    assert decoded(parts(RECORD)) == RECORD
    assert "owner" not in describe(RECORD)


def test_an_owner_is_written_and_read() -> None:
    owned = dataclasses.replace(RECORD, owner="alice")
    assert parts(owned)[1:] == [*parts(RECORD)[1:], "alice"]
    assert decoded(parts(owned)) == owned
    assert "owner='alice'" in describe(owned)


@pytest.mark.parametrize(("fields", "written"), [
    ({}, 8), ({"reads": ("<urn:g>",)}, 9), ({"writes": ("<urn:g>",)}, 10),
])  # fmt: skip
def test_the_last_fields_are_left_out_as_far_as_all_behind_are(fields: dict[str, object], written: int) -> None:
    opened = m.SubscriptionOpened(1, 2, 3, 60.0, ("x",), (0,), 4, 5, **fields)
    assert len(parts(opened)) == 1 + written
    assert decoded(parts(opened)) == opened


@pytest.mark.parametrize("count", [-2, 1])
def test_other_fields_are_not_left_out_and_there_are_no_more(count: int) -> None:
    fields = parts(dataclasses.replace(RECORD, owner="alice"))
    with pytest.raises(RemoteProtocolError, match="KeepSubscription has 18 fields, not"):
        decoded(fields[:count] if count < 0 else [*fields, "more"])


def test_an_added_field_is_checked() -> None:
    with pytest.raises(RemoteProtocolError, match="not a string"):
        decoded([*parts(RECORD), 7])


@pytest.mark.parametrize(("message", "written"), [
    (m.MembersKnown(3), 1), (m.MembersKnown(3, 2), 2), (m.BucketDigests(1, 2, 3, [0]), 5), (m.BucketDigests(1, 2, 3,
        [0], 0, 1), 6),
    (m.IdentityList(1, 2, True, False, [0], [5]), 6), (m.IdentityList(1, 2, True, False, [0], [5], 0, False, 7), 9),
    (m.MembersKnown(3, 0, True), 3), (m.BucketDigests(1, 2, 3, [0], 0, 0, True), 7),
    (m.BucketDigests(1, 2, 3, [0], began=1 << 40), 8), (m.IdentityList(1, 2, True, False, [0], [5], began=1 << 40), 11),
    (m.IdentityList(1, 2, True, False, [0], [5], complete=True), 12),
])  # fmt: skip
def test_the_recovery_state_of_an_empty_peer_is_written_if_it_is_set(message: object, written: int) -> None:
    assert len(parts(message)) == 1 + written
    assert decoded(parts(message)) == message


@pytest.mark.parametrize("message", [m.MembersKnown(3, 4), m.BucketDigests(1, 2, 3, [0], 0, 4), m.IdentityList(
    1, 2, True, False, [0], [5], 4, 7
), m.IdentityList(1, 2, True, False, [0], [5], 0, False, 1 << 21)])  # fmt: skip
def test_a_recovery_state_outside_of_its_range_is_refused(message: object) -> None:
    with pytest.raises(RemoteProtocolError):
        decoded(parts(message))
