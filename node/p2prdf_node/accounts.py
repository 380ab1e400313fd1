"""Accounts of clients: identity, permissions, quotas and publisher numbers, across connections.

*Identity.*  A certificate names its client.  A client that is permitted to act as others names one in its hello and
then counts as that client in all respects.  The certificate of a node may do everything, because its holder could
also act as a node.  Without TLS there are no identities: each connection is a client of its own and may do
everything.

*Ownership.*  A subscription belongs to its client (*owner*).  Its coordinator and all replicas know the owner
(:class:`p2prdf.wire.messages.KeepSubscription`) and refuse requests of other clients, at any node.  This node only
checks subscriptions that it delivers, so that no client loses one before the coordinator has answered.

*Publishers.*  Clients choose the publisher numbers of events.  For a named client the node replaces the number by a
keyed hash of number, name and the cluster's secret: all nodes compute the same, and two names never share one.

*Quotas.*  The bounds in a client's permissions hold for all of its connections together.  An account outlives the
connections until its token bucket is full again, so that reconnecting gains nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from p2prdf.errors import Busy, NotAllowed
from p2prdf.tls import CLIENT_NAME, NODE
from p2prdf_node.permissions import ALL, Permissions, PermissionsTable
from p2prdf_node.quota import Bucket

if TYPE_CHECKING:
    from p2prdf.tls import Identity
    from p2prdf_node.session import ClientSession

__all__ = ["Account", "Accounts"]

ATTACH_AGAIN_SECONDS: Final = 5.0
"""Seconds for which a client may attach nothing after it attached a subscription of another client."""
BUSY_SECONDS: Final = 0.5
"""``retry_after`` of a refusal that ends with the client's own publications or queries."""
SUBSCRIPTIONS_SECONDS: Final = 60.0
_PERSON: Final = b"p2prdf-publisher"


class Account:
    """One client.  ``owner``: its name, which its subscriptions carry; "" without identities (no TLS)."""

    def __init__(self, owner: str, permissions: Permissions, publisher_key: bytes, now: float):
        self.owner = owner
        self.permissions = permissions
        self.sessions: dict[ClientSession, None] = {}
        self.open_bytes = 0
        """Bytes of publications that are not acknowledged."""
        self.attach_again_at = 0.0
        """Monotonic time before which this client may attach nothing; it attached a subscription of another client."""
        self._publisher_key = publisher_key
        self._triples = Bucket(permissions.quotas.triples_per_second, now)

    @property
    def requester(self) -> str:
        """Name sent with requests about subscriptions; "" (nodes, and clients without TLS) may use all of them."""
        return "" if self.permissions.unbounded and self.owner.startswith(f"{NODE}:") else self.owner

    def publisher(self, number: int) -> int:
        """Return the publisher number used for the number that the client gave."""
        if not self.requester:
            return number
        text = number.to_bytes(8, "big") + self.owner.encode()
        digest = hashlib.blake2b(text, digest_size=8, key=self._publisher_key, person=_PERSON)
        return int.from_bytes(digest.digest(), "big")

    def hold_to(self, permissions: Permissions, now: float) -> None:
        """Use other permissions from now on."""
        if permissions.quotas.triples_per_second != self.permissions.quotas.triples_per_second:
            self._triples = Bucket(permissions.quotas.triples_per_second, now)
        self.permissions = permissions

    # --- quotas ----------------------------------------------------------------------------------

    def take_triples(self, count: int) -> None:
        """Note triples that were admitted."""
        self._triples.take(count)

    def wait(self, now: float) -> float:
        """Return the seconds until this client may publish again; 0: now."""
        return self._triples.wait(now)

    def begin_publication(self, size: int) -> None:
        """Note a publication of ``size`` bytes; raise Busy beyond ``open_bytes_max``, unless no other is open."""
        most = self.permissions.quotas.open_bytes_max
        if self.open_bytes and self.open_bytes + size > most:
            open_now = f"{self.open_bytes} bytes of publications of {self.permissions.who} are open"
            raise Busy(f"{open_now} (open_bytes_max {most:.0f} in its permissions)", retry_after=BUSY_SECONDS)
        self.open_bytes += size

    def end_publication(self, size: int) -> None:
        """Note that publications of ``size`` bytes in total are acknowledged or refused."""
        self.open_bytes -= size

    def check_room(self, *, once: bool) -> None:
        """Raise Busy if the client has as many subscriptions, or one-time queries (``once``), as permitted."""
        quotas = self.permissions.quotas
        name, most, seconds = (
            ("queries_max", quotas.queries_max, BUSY_SECONDS)
            if once
            else ("subscriptions_max", quotas.subscriptions_max, SUBSCRIPTIONS_SECONDS)
        )
        held = sum(session.held_count(once=once) for session in self.sessions)
        if held >= most:
            reason = f"{self.permissions.who} has {held} open ({name} {most:.0f} in its permissions)"
            raise Busy(reason, retry_after=seconds)

    def check_attach(self, now: float) -> None:
        """Raise Busy if the client attached a subscription of another client less than 5 s ago."""
        if now < self.attach_again_at:
            reason = f"{self.permissions.who} attached a subscription of another client"
            raise Busy(reason, retry_after=round(self.attach_again_at - now, 3))

    def note_foreign_attach(self, now: float) -> None:
        """Note that the client attached a subscription of another client."""
        self.attach_again_at = now + ATTACH_AGAIN_SECONDS

    def idle(self, now: float) -> bool:
        """Tell whether the account can be dropped: no session, a full bucket, no pending penalty."""
        full = self.wait(now) == 0 and self._triples.full
        return not self.sessions and full and now >= self.attach_again_at


class Accounts:
    """All clients of a node.  ``permissions``: returns the permissions in use; None: everything is permitted."""

    def __init__(self, permissions: Callable[[], PermissionsTable | None], publisher_key: bytes):
        self._permissions = permissions
        self._publisher_key = publisher_key
        self._by_owner: dict[str, Account] = {}

    def __len__(self) -> int:
        return len(self._by_owner)

    def open(self, identity: Identity | None, speaks_for: str, now: float) -> Account:
        """Return the account of the client at the other end of a connection.

        Raises NotAllowed if it acts as another client without permission.
        """
        owner = self._owner(identity, speaks_for)
        if not owner:
            return Account("", ALL, self._publisher_key, now)
        account = self._by_owner.get(owner)
        if account is None:
            account = self._by_owner[owner] = Account(owner, self._permissions_of(owner), self._publisher_key, now)
        return account

    def may_stay(self, identity: Identity | None, speaks_for: str) -> None:
        """Raise NotAllowed if an open connection acts as a client for which it has lost the permission."""
        self._owner(identity, speaks_for)

    def renew(self, now: float) -> None:
        """Apply the permissions in use to all accounts."""
        for account in self._by_owner.values():
            account.hold_to(self._permissions_of(account.owner), now)

    def sweep(self, now: float) -> None:
        """Drop idle accounts; called once a second or so."""
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
            raise NotAllowed(f"nothing can act as client {speaks_for}: without TLS clients have no identity")
        if identity.role != NODE and not self._certificate_permissions(identity).may_speak_for(speaks_for):
            raise NotAllowed(f"client {identity.name} may not act as client {speaks_for}")
        return speaks_for

    def _certificate_permissions(self, identity: Identity) -> Permissions:
        table = self._permissions()
        return Permissions(str(identity)) if table is None else table.of(identity.name)

    def _permissions_of(self, owner: str) -> Permissions:
        table = self._permissions()
        return ALL if table is None or owner.startswith(f"{NODE}:") else table.of(owner)
