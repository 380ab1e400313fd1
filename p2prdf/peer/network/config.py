"""Settings of one peer."""

from __future__ import annotations

from dataclasses import dataclass

from p2prdf import hlc, keys
from p2prdf.errors import LocalProtocolError
from p2prdf.settings import PeerSettings, check_settings, setting

__all__ = ["PeerConfig"]

_EVERY_EVENT_ROLE = keys.CSBV_ROLES << keys.EVENT_SHIFT
_WILDCARDS = (1 << keys.ANY) | (1 << (keys.ANY + keys.EVENT_SHIFT))
_FIXED_ROLES = {
    "all": keys.CSBV_ROLES | 1 << keys.ANY, "on-demand": 0, "csbv": keys.CSBV_ROLES, "cqc": keys.CQC_ROLES,
}  # fmt: skip
"""By value of ``indexes``: the set of indexes that every triple is stored in."""


@dataclass(frozen=True, slots=True)
class PeerConfig(PeerSettings):
    """Configuration of one peer: the operators' settings, and what drivers, simulations and measurements set.

    The defaults here are those of a lone peer.  All peers of an overlay must agree on ``overlay``, and should on
    ``indexes``.

    ``indexes``: the indexes of every triple, besides those that a query in use needs.

    - ``all``: the seven with a constant, and the wildcard index of ``?s ?p ?o``: every query covers all earlier
      publications.
    - ``on-demand``: none; the indexes of a query are advertised to every peer before its subscription is live.
    - ``csbv``: the seven, for comparison with the papers.
    - ``cqc``: the three of CQC, for comparison with the papers.

    ``events``: rows per event in the same indexes as well; queries per event need them for earlier publications.
    """

    indexes: str = setting("all", "Indexes of every triple.", choices=tuple(_FIXED_ROLES))
    replicas: int = setting(1, "Size of the replica set of a key; more than one requires a complete view.", least=1)
    copies_min: int = setting(1, "Copies that must be safe before an acknowledgement.", least=1)
    audit_seconds: float = setting(0.0, "Delay after a publication until replicas check deliveries; 0: none.", least=0)
    introductions_max: int = setting(0, "Statements with a record of the member that introduced them.", least=0)
    clock_skew_seconds: float = setting(0.0, "Largest skew between clocks.", least=0)

    events: bool = False
    settle_seconds: float = 2.0
    """How many seconds a new peer of ``on-demand`` uses every index before it trusts advertisements."""

    has_seeds: bool = False
    """Whether this peer has seeds.

    An empty peer with seeds that sees only empty peers waits 20 s before it assumes a new network, unless it has
    reached all seeds (``SeedsReached``).
    """

    durable: bool = False
    """Ask the driver to store received items (``Persist``); off: all data ends with the process."""

    address_cache: bool = True
    """Off: every key is looked up each time, to measure the benefit of the cache."""

    multisend: str = setting("direct", "Routing to unknown owners.", choices=("direct", "recursive"))
    """``direct``: after a lookup; ``recursive``: from peer to peer (:mod:`p2prdf.overlay.multisend`)."""

    lookups_max: int = setting(16, "Concurrent lookups.")

    hops_max: int = 8
    """Bound on forwarding, after which the receiver stores a message: views of the ring disagree."""

    batch_rows_max: int = setting(4096, "Rows per message.")

    message_bytes_max: int = 6 << 20
    """Bytes of term text per message; a frame holds 8 MiB."""

    window_transfers: int = setting(256, "Unacknowledged messages in flight to one peer.")

    retry_seconds: float = 1.0
    """Initial time to wait for an acknowledgement; doubles up to four times this value."""

    request_seconds: float = 60.0
    """How many seconds a coordinator has before a request of the application fails."""

    repair_seconds: float = 5.0
    """Delay of anti-entropy after a local change; a change of the view starts it at once."""

    rates_seconds: float = 0.5
    """How many seconds a coordinator waits for rates before it orders a query's patterns without them."""

    group_lease_seconds: float = 300.0
    """Lease of the state of a group; then its holder asks the coordinator whether the query lives."""

    hot_depth_max: int = setting(8, "Bound on the splits of a key.", least=0, most=keys.DEPTH_MAX)
    """2^8 sub-keys, and at most four times as many as peers."""

    hot_copies_max: float = 1.0
    """Bound on copied rows per triple of a key: beyond it, the key is not split further."""

    hot_sample: int = setting(256, "One of so many arrivals is sampled.")

    drift_max_seconds: float = hlc.DRIFT_MAX_SECONDS
    """Greatest lead of another clock that this peer accepts."""

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        check_settings(self)
        if self.copies_min > self.replicas:
            raise LocalProtocolError(f"setting copies_min: {self.copies_min} is more than {self.replicas} replicas")
        if self.replicas > 1 and (self.multisend == "recursive" or not self.address_cache):
            raise LocalProtocolError("replicas above 1 need multisend=direct and an address cache")

    @property
    def fixed_roles(self) -> int:
        """The set of indexes that every peer uses from the start."""
        roles = _FIXED_ROLES[self.indexes]
        if self.events:
            roles |= roles << keys.EVENT_SHIFT
        return roles

    @property
    def element_roles(self) -> int:
        """The set of indexes that every peer uses for elements of streams, besides those in use.

        With ``all`` and ``csbv`` these are the indexes of events, because an element is an event.  With ``all`` the
        wildcard index is included, which windows by count need.
        """
        if self.indexes not in ("all", "csbv"):
            return 0
        return _FIXED_ROLES[self.indexes] << keys.EVENT_SHIFT

    @property
    def cautious_roles(self) -> int:
        """The set of indexes that a peer uses until it knows the advertised ones."""
        if self.indexes == "on-demand":
            return keys.CSBV_ROLES | _EVERY_EVENT_ROLE | _WILDCARDS
        return self.fixed_roles
