"""Clients as a node tells them apart: what each may do, and what it has of the node over all of its connections.

*Who.*  A certificate says who it is; one with the right to speak for others says in its hello for whom, and then counts
as that client in all respects.  A node's certificate may do everything, for it could also speak as a node.  Without TLS
nobody is asked who it is: then each connection is a client of its own, and may do everything.

*Whose.*  A subscription is its client's (*owner*), which its home and all replicas of it know
(:class:`p2prdf.wire.messages.KeepSubscription`): another's requests about it are refused there, wherever they come
from.  Here only a subscription that is delivered to somebody is kept from being taken away before its home has said so.

*Publishers.*  Events are numbered by publishers' numbers, which clients choose.  Of a client with a name what counts is
a number made from the one that it gave, from its name and from the cluster's secret: the same at all nodes, and of
another name another one.

*Quotas.*  Bounds that a client's rights give hold for all of its connections together.  An account stays for as long as
its bucket has not filled up again, so that nobody has more of a node by connecting anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from p2prdf.errors import Busy, NotAllowed
from p2prdf.tls import CLIENT_NAME, NODE
from p2prdf_node.quota import Bucket
from p2prdf_node.rights import ALL, Rights, RightsTable

if TYPE_CHECKING:
    from p2prdf.tls import Identity
    from p2prdf_node.session import ClientSession

__all__ = ["Account", "Accounts"]

ATTACH_AGAIN_SECONDS: Final = 5.0
"""Who was told that a subscription is another client's attaches none for so long."""
BUSY_SECONDS: Final = 0.5
"""When to try again if publications or queries of the client's own have to end first."""
SUBSCRIPTIONS_SECONDS: Final = 60.0
_PERSON: Final = b"p2prdf-publisher"


class Account:
    """One client.  ``owner``: by what its subscriptions are known; "" where nobody is asked who it is."""

    def __init__(self, owner: str, rights: Rights, publisher_key: bytes, now: float):
        self.owner = owner
        self.rights = rights
        self.sessions: dict[ClientSession, None] = {}
        self.open_bytes = 0
        """Bytes of publications that are not acknowledged."""
        self.attach_again_at = 0.0
        """When it may attach again, after it attached what is another client's."""
        self._publisher_key = publisher_key
        self._triples = Bucket(rights.quotas.triples_per_second, now)

    @property
    def asks(self) -> str:
        """By what it is known where it asks for a subscription; "" if it may have to do with all."""
        return "" if self.rights.unbounded and self.owner.startswith(f"{NODE}:") else self.owner

    def publisher(self, number: int) -> int:
        """Return the publisher's number that counts for the one it gave."""
        if not self.asks:
            return number
        text = number.to_bytes(8, "big") + self.owner.encode()
        digest = hashlib.blake2b(text, digest_size=8, key=self._publisher_key, person=_PERSON)
        return int.from_bytes(digest.digest(), "big")

    def hold_to(self, rights: Rights, now: float) -> None:
        """Have other rights from now on."""
        if rights.quotas.triples_per_second != self.rights.quotas.triples_per_second:
            self._triples = Bucket(rights.quotas.triples_per_second, now)
        self.rights = rights

    # --- quotas ----------------------------------------------------------------------------------

    def take_triples(self, count: int) -> None:
        """Note triples that were let in."""
        self._triples.take(count)

    def wait(self, now: float) -> float:
        """Return the seconds until it may publish again: 0 if it may now."""
        return self._triples.wait(now)

    def begin_publication(self, size: int) -> None:
        """Note a publication of so many bytes.  Raises Busy if there are too many; one of any size is let in."""
        most = self.rights.quotas.open_bytes_max
        if self.open_bytes and self.open_bytes + size > most:
            open_now = f"{self.open_bytes} bytes of publications of {self.rights.who} are open"
            raise Busy(f"{open_now} (open_bytes_max {most:.0f} in its rights)", retry_after=BUSY_SECONDS)
        self.open_bytes += size

    def end_publication(self, size: int) -> None:
        """Note that publications of so many bytes are not open any more."""
        self.open_bytes -= size

    def check_room(self, *, once: bool) -> None:
        """Raise Busy if it has as many subscriptions, or queries under way (``once``), as it may have."""
        quotas = self.rights.quotas
        name, most, seconds = (
            ("queries_max", quotas.queries_max, BUSY_SECONDS)
            if once
            else ("subscriptions_max", quotas.subscriptions_max, SUBSCRIPTIONS_SECONDS)
        )
        held = sum(session.held_count(once=once) for session in self.sessions)
        if held >= most:
            raise Busy(f"{self.rights.who} has {held} of {name} {most:.0f} in its rights", retry_after=seconds)

    def check_attach(self, now: float) -> None:
        """Raise Busy if it attached what is another's a moment ago."""
        if now < self.attach_again_at:
            reason = f"{self.rights.who} attached a subscription of another client"
            raise Busy(reason, retry_after=round(self.attach_again_at - now, 3))

    def was_anothers(self, now: float) -> None:
        """Note that it attached a subscription of another client."""
        self.attach_again_at = now + ATTACH_AGAIN_SECONDS

    def idle(self, now: float) -> bool:
        """Tell whether it can be forgotten."""
        full = self.wait(now) == 0 and self._triples.full
        return not self.sessions and full and now >= self.attach_again_at


class Accounts:
    """All clients of a node.  ``rights``: the table in use; None: everybody may do everything."""

    def __init__(self, rights: Callable[[], RightsTable | None], publisher_key: bytes):
        self._rights = rights
        self._publisher_key = publisher_key
        self._by_owner: dict[str, Account] = {}

    def __len__(self) -> int:
        return len(self._by_owner)

    def open(self, identity: Identity | None, speaks_for: str, now: float) -> Account:
        """Return the account of who is at the other end of a connection.

        Raises NotAllowed if it speaks for another and has no right to.
        """
        owner = self._owner(identity, speaks_for)
        if not owner:
            return Account("", ALL, self._publisher_key, now)
        account = self._by_owner.get(owner)
        if account is None:
            account = self._by_owner[owner] = Account(owner, self._rights_of(owner), self._publisher_key, now)
        return account

    def may_stay(self, identity: Identity | None, speaks_for: str) -> None:
        """Raise NotAllowed if an open connection speaks for a client that it may not speak for any more."""
        self._owner(identity, speaks_for)

    def renew(self, now: float) -> None:
        """Hold everybody to the table that is in use now."""
        for account in self._by_owner.values():
            account.hold_to(self._rights_of(account.owner), now)

    def sweep(self, now: float) -> None:
        """Forget who is gone; called once a second or so."""
        for owner in [owner for owner, account in self._by_owner.items() if account.idle(now)]:
            del self._by_owner[owner]

    def _owner(self, identity: Identity | None, speaks_for: str) -> str:
        if not speaks_for:
            if identity is None:
                return ""
            return f"{NODE}:{identity.name}" if identity.role == NODE else identity.name
        if not CLIENT_NAME.fullmatch(speaks_for):
            raise NotAllowed(f"{speaks_for[:80]!r} is not the name of a client")
        if identity is None:
            raise NotAllowed(f"nobody speaks for client {speaks_for} here: without TLS nobody is asked who it is")
        if identity.role != NODE and not self._certificates_rights(identity).may_speak_for(speaks_for):
            raise NotAllowed(f"client {identity.name} may not speak for client {speaks_for}")
        return speaks_for

    def _certificates_rights(self, identity: Identity) -> Rights:
        table = self._rights()
        return Rights(str(identity)) if table is None else table.of(identity.name)

    def _rights_of(self, owner: str) -> Rights:
        table = self._rights()
        return ALL if table is None or owner.startswith(f"{NODE}:") else table.of(owner)
