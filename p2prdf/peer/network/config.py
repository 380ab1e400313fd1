"""Settings of one peer."""

from __future__ import annotations

from dataclasses import dataclass

from p2prdf import hlc, keys
from p2prdf.errors import LocalProtocolError
from p2prdf.overlay.address_cache import OVERLAYS

__all__ = ["PeerConfig"]

_EVERY_EVENT_ROLE = keys.CSBV_ROLES << keys.EVENT_SHIFT
_KEY_BITS = 64
_WILDCARDS = (1 << keys.ANY) | (1 << (keys.ANY + keys.EVENT_SHIFT))
_FIXED_ROLES = {
    "all": keys.CSBV_ROLES | 1 << keys.ANY, "on-demand": 0, "csbv": keys.CSBV_ROLES, "cqc": keys.CQC_ROLES,
}  # fmt: skip
"""By value of ``indexes``: the set of indexes that every triple is stored in."""


@dataclass(frozen=True, slots=True)
class PeerConfig:
    """Settings of one peer; all peers of an overlay must agree on ``overlay``, and should on ``indexes``.

    ``indexes``: the indexes of every triple, besides those that a query in use needs.

    - ``all``: the seven with a constant, and the wildcard index of ``?s ?p ?o``: every query covers all earlier
      publications.
    - ``on-demand``: none; the indexes of a query are advertised to every peer before its subscription is live.
    - ``csbv``: the seven, for comparison with the papers.
    - ``cqc``: the three of CQC, for comparison with the papers.

    ``events``: rows per event in the same indexes as well; queries per event need them for earlier publications.
    """

    indexes: str = "all"
    events: bool = False
    settle_seconds: float = 2.0
    """How many seconds a new peer of ``on-demand`` uses every index before it trusts advertisements."""

    overlay: str = "kademlia"
    """The owner of a key: ``kademlia``, the XOR-closest peer, or ``chord``, the first at or after it."""

    replicas: int = 1
    """Size of the *replica set* of a key.

    More than one replica requires a complete view: every peer knows all others.
    """

    copies_min: int = 1
    """Copies that must be safe before an acknowledgement; never more than peers exist for them."""

    joins: bool = False
    """Whether this peer has seeds.

    An empty peer with seeds that sees only empty peers waits 20 s before it assumes a new network, unless it has
    reached all seeds (``SeedsReached``).
    """

    durable: bool = False
    """Ask the driver to store received items (``Persist``); off: all data ends with the process."""

    address_cache: bool = True
    """Off: every key is looked up each time, to measure the benefit of the cache."""

    multisend: str = "direct"
    """How triples and rows reach unknown owners.

    ``direct``: after a lookup; ``recursive``: from peer to peer (:mod:`p2prdf.overlay.multisend`).
    """

    trace_every: int = 0
    """Trace one of so many local publications; 0: only those with a request of their publishers.

    See :mod:`p2prdf.peer.network.tracing`.
    """

    lookups_max: int = 16
    """Concurrent lookups."""

    hops_max: int = 8
    """Bound on forwarding, after which the receiver stores a message: views of the ring disagree."""

    turn_budget_seconds: float = 0.02
    """Work in seconds after which a turn pauses for the driver (docs/explanation/design/turns.md)."""

    batch_rows_max: int = 4096
    """Rows per message."""

    message_bytes_max: int = 6 << 20
    """Bytes of term text per message; a frame holds 8 MiB."""

    window_transfers: int = 256
    """Unacknowledged messages in flight to one peer."""

    retry_seconds: float = 1.0
    """Initial time to wait for an acknowledgement; doubles up to four times this value."""

    request_seconds: float = 60.0
    """How many seconds a coordinator has before a request of the application fails."""

    repair_seconds: float = 5.0
    """Delay of anti-entropy after a local change; a change of the view starts it at once."""

    audit_seconds: float = 0.0
    """Delay after a publication until replicas check the deliveries of the primary; 0: no checks."""

    introductions_max: int = 0
    """Statements with a record of the member that introduced them; 0: none.

    See :mod:`p2prdf.peer.replication.introductions`.
    """

    rates_seconds: float = 0.5
    """How many seconds a coordinator waits for rates before it orders a query's patterns without them."""

    answers_window: int = 16_384
    """Solutions sent to a subscriber and not acknowledged."""

    answers_pending_max: int = 1_000_000
    """Solutions stored for a subscriber; beyond, the oldest are dropped and the gap is reported."""

    answers_pending_characters_max: int = 512 << 20
    """Approximate characters of text in these solutions; beyond, the oldest are dropped as well."""

    query_rows_max: int = 1_000_000
    """Rows in the operators of a subscription to a non-conjunctive query, and solutions of each leaf.

    Beyond this bound the subscription is ended.
    """

    answers_age_seconds: float = 7 * 86_400.0
    """Age of a solution's latest triple at which it is dropped, acknowledged or not; a gap is reported."""

    stream_idle_seconds: float = 10.0
    """How many seconds a silent publisher of a stream delays its windows.

    After that, windows close without its later elements.
    """

    stream_retention_seconds: float = 7 * 86_400.0
    """Retention of streams in event time before their watermark, or longer where queries need it; 0: all.

    The same at all peers: one peer with 0 makes all peers keep everything (:mod:`p2prdf.peer.progress.retention`).
    """

    group_lease_seconds: float = 300.0
    """Lease of the state of a group; then its holder asks the coordinator whether the query lives."""

    rows_under_way_max: int = 262_144
    """Rows of publications in flight to their owners; beyond, new publications are refused."""

    triples_max: int = 200_000_000
    """Triples and partial results stored; beyond, new publications are refused."""

    clock_skew_seconds: float = 0.0
    """Largest skew between clocks; a subscription waits as long, so that later publications count."""

    hot_keys: bool = True
    """Split hot keys; off: this peer splits none, but follows the splits of other peers.

    With several replicas no key is split.
    """

    hot_interval_seconds: float = 30.0
    """Interval in seconds between decisions about hot keys."""

    hot_rate_min: int = 10_000
    """Triples under one key in an interval below which it is not hot, however idle the other keys are."""

    hot_share: float = 0.5
    """A key is hot if a sub-key carries more than this fraction of a peer's average arrivals."""

    hot_depth_max: int = 8
    """Bound on the splits of a key: 2^8 sub-keys, and at most four times as many as peers."""

    hot_copies_max: float = 1.0
    """Bound on copied rows per triple of a key: beyond it, the key is not split further."""

    hot_text: bool = False
    """Route queries with conditions on texts by a keyword, if they cover only later publications.

    Off: such a query waits under its predicate.  All peers index by the keywords in use, whatever their own setting
    (:mod:`p2prdf.peer.joins.keyword_index`).
    """

    hot_sample: int = 256
    """One of so many arrivals is sampled."""

    drift_max_seconds: float = hlc.DRIFT_MAX_SECONDS
    """Greatest lead of another clock that this peer accepts."""

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        if self.indexes not in _FIXED_ROLES:
            raise LocalProtocolError(f"indexes must be {', '.join(_FIXED_ROLES)}, not {self.indexes!r}")
        if self.overlay not in OVERLAYS:
            raise LocalProtocolError(f"overlay must be {' or '.join(OVERLAYS)}, not {self.overlay!r}")
        if self.multisend not in ("direct", "recursive"):
            raise LocalProtocolError(f"multisend must be direct or recursive, not {self.multisend!r}")
        if not 1 <= self.copies_min <= self.replicas:
            raise LocalProtocolError(f"copies_min must be from 1 to {self.replicas} replicas, not {self.copies_min}")
        if self.replicas > 1 and (self.multisend == "recursive" or not self.address_cache):
            raise LocalProtocolError("replicas above 1 need multisend=direct and an address cache")
        for name in (
            "batch_rows_max", "window_transfers", "answers_window", "answers_pending_max", "lookups_max", "hot_sample",
            "query_rows_max",
        ):  # fmt: skip
            if getattr(self, name) < 1:
                raise LocalProtocolError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.stream_retention_seconds < 0:
            text = f"stream_retention_seconds must be 0 (all is kept) or above, not {self.stream_retention_seconds}"
            raise LocalProtocolError(text)
        if not 0 <= self.hot_depth_max <= keys.DEPTH_MAX:
            raise LocalProtocolError(f"hot_depth_max must be from 0 to {keys.DEPTH_MAX}, not {self.hot_depth_max}")
        for name in ("hot_interval_seconds", "hot_share"):
            if getattr(self, name) <= 0:
                raise LocalProtocolError(f"{name} must be above 0, not {getattr(self, name)}")

    @property
    def query_hops_allowed(self) -> int:
        """Hops of queries; with replicas one, as for triples and rows."""
        return 1 if self.replicas > 1 else self.hops_max

    @property
    def hops_allowed(self) -> int:
        """Hops of triples and rows; with recursive routing, one more for each bit of a key.

        With replicas one: a peer that is no replica in its own view sends the items to all replicas in that view.  If
        these disagree again, they store the items and offer them later.
        """
        if self.replicas > 1:
            return 1
        return self.hops_max + (_KEY_BITS if self.multisend == "recursive" else 0)

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
