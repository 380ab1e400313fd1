"""Who lost what it knew, and was not given it again, counts as missing."""

from __future__ import annotations

import pytest

from p2prdf.columns import LISTS
from p2prdf.peer import PeerConfig
from p2prdf.peer.exchange import Exchange, Lacks
from p2prdf.wire.messages import Contact

OWN, ONE, OTHER = (Contact(key, f"peer-{key}", 1) for key in (1, 2, 3))


@pytest.fixture
def exchange() -> Exchange:
    """Return that of one of three peers, of which two keep each key, and which knows all."""
    exchange = Exchange(OWN, PeerConfig(replicas=2, copies_min=2), LISTS)
    exchange.observe(1000.0)
    exchange.lacks_less(Lacks.NOTHING)
    for contact in (OWN, ONE, OTHER):
        exchange.seen(contact)
    exchange.count_members()
    return exchange


def _returns(exchange: Exchange, contact: Contact, lacks: Lacks) -> None:
    exchange.give_up(contact)
    exchange.seen(contact)
    exchange.note_lacking(contact, lacks)


@pytest.mark.parametrize(("lacks", "copies", "homes"), [
    (Lacks.NOTHING, False, False), (Lacks.COPIES, True, False), (Lacks.HOMES, True, True),
])  # fmt: skip
def test_one_that_lost_what_it_knew_and_one_that_is_away_are_two(
    exchange: Exchange, lacks: Lacks, copies: bool, homes: bool
) -> None:
    _returns(exchange, ONE, lacks)
    assert not exchange.copies_missing
    exchange.give_up(OTHER)
    assert exchange.copies_missing == copies
    assert (exchange.lost_together_until is not None) == homes
    assert exchange.waits_for_peers_until == (1020.0 if homes else None)
    exchange.note_lacking(ONE, Lacks.NOTHING)
    assert not exchange.copies_missing


def test_who_is_new_has_lost_nothing(exchange: Exchange) -> None:
    exchange.give_up(OTHER)
    exchange.seen(Contact(4, "newcomer", 1))
    exchange.note_lacking(Contact(4, "newcomer", 1), Lacks.HOMES)
    assert not exchange.copies_missing
    assert exchange.waits_for_peers_until is None


def test_who_starts_again_does_not_know_who_is_new(exchange: Exchange) -> None:
    exchange.restored = True
    newcomer = Contact(4, "newcomer", 1)
    exchange.seen(newcomer)
    exchange.note_lacking(newcomer, Lacks.COPIES)
    exchange.give_up(OTHER)
    assert exchange.copies_missing


def test_who_lost_its_disk_itself_waits_for_one_fewer(exchange: Exchange) -> None:
    exchange.lacks = Lacks.HOMES
    assert exchange.waits_for_peers_until is None
    exchange.hear_members(4)
    assert exchange.waits_for_peers_until == 1020.0
    exchange.lacks_less(Lacks.COPIES)
    assert exchange.waits_for_peers_until is None
    exchange.hear_members(9)
    assert exchange.members_max == 4, "who was told all counts for itself"
