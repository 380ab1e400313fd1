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
"""By ``indexes`` the set of roles that is indexed always."""


@dataclass(frozen=True, slots=True)
class PeerConfig:
    """Settings of one peer; all peers of an overlay must agree on ``overlay``, and should on ``indexes``.

    ``indexes``: the indexes that every triple is put into, besides those that a query in use needs.
    ``all``: the seven of triples with a constant, and the wildcard index that ``?s ?p ?o`` needs, so
    that every query is answered over everything published.  ``on-demand``: none; a query's indexes
    are told to every peer before its subscription is live.  For comparison with the papers ``csbv``:
    the seven, and ``cqc``: the three of CQC.  ``events``: rows per event in the same indexes, too,
    which queries per event need for what was published before them.
    """

    indexes: str = "all"
    events: bool = False
    settle_seconds: float = 2.0
    """How long a new peer of ``on-demand`` puts triples into every index before it trusts what others tell it."""

    overlay: str = "kademlia"
    """What the owner of a key is: ``kademlia``, the XOR-closest peer, or ``chord``, the first at or after it."""

    replicas: int = 1
    """Peers that keep a copy of what lies under a key: its *replica set*.  More than one needs a complete view of
    the ring: all peers know all."""

    copies_min: int = 1
    """Copies that must be safe before anything counts as done; never more than there are peers for them."""

    joins: bool = False
    """Whether this peer was told of others to join: if it begins with nothing, and so did all whom it sees, they are
    not the first of a network for 20 s, unless all are there of whom it was told (``DoorsMet``)."""

    durable: bool = False
    """Ask the driver to keep what this peer takes in (``Persist``); off: nothing outlives the process."""

    address_cache: bool = True
    """Off: each key is looked up each time (to show what the cache is worth)."""

    multisend: str = "direct"
    """How triples and rows go to owners that are not known: ``direct``, after a lookup, or ``recursive``,
    from peer to peer (:mod:`p2prdf.overlay.multisend`)."""

    trace_every: int = 0
    """Every so many publications that are made here one is traced (:mod:`p2prdf.peer.network.tracing`); 0: those alone
    whose publishers ask for it."""

    lookups_max: int = 16
    """Lookups under way at once."""

    hops_max: int = 8
    """A message passed on this often is kept where it is: views of the ring disagree."""

    turn_budget_seconds: float = 0.02
    """Work after which a turn stops and the driver goes on with other things (docs/explanation/design/turns.md)."""

    batch_rows_max: int = 4096
    """Rows per message."""

    message_bytes_max: int = 6 << 20
    """Term text per message; a frame holds 8 MiB."""

    window_transfers: int = 256
    """Unacknowledged messages under way to one peer."""

    retry_seconds: float = 1.0
    """First wait for an acknowledgement; doubles up to four times as long."""

    request_seconds: float = 60.0
    """How long a home may take to answer before a request of the application fails."""

    repair_seconds: float = 5.0
    """How long after something has changed replicas compare what they hold; at once when peers come or go."""

    audit_seconds: float = 0.0
    """How long after a publication replicas check that the primary delivered what follows; 0: they do not."""

    introductions_max: int = 0
    """Statements of which is recorded which member introduced them (:mod:`p2prdf.peer.replication.introductions`); 0:
    of none."""

    rates_seconds: float = 0.5
    """How long a home waits for counted rates before it orders a query's patterns without."""

    answers_window: int = 16_384
    """Solutions sent to a subscriber and not acknowledged."""

    answers_pending_max: int = 1_000_000
    """Solutions kept for a subscriber; beyond that the oldest are dropped and the gap is told."""

    answers_pending_characters_max: int = 512 << 20
    """Characters of text of these, about; beyond that the oldest are dropped too."""

    query_rows_max: int = 1_000_000
    """Rows that the operators of a query, which is more than conjunctive, hold for a subscription, and answers of each
    leaf; beyond that the subscription is ended."""

    answers_age_seconds: float = 7 * 86_400.0
    """Solutions whose youngest triple is older are dropped, acknowledged or not; so is the gap told."""

    stream_idle_seconds: float = 10.0
    """How long a silent publisher of a stream is waited for; then windows close without what it may publish later."""

    stream_retention_seconds: float = 7 * 86_400.0
    """How much of a stream is kept, in event time before its watermark, and what queries need of it beyond; 0: all.
    The same at all peers: one that keeps all has all others keep all.  :mod:`p2prdf.peer.progress.retention`"""

    group_lease_seconds: float = 300.0
    """How long state lives at a peer before it asks the group's home whether it still matters."""

    rows_under_way_max: int = 262_144
    """Rows of publications not yet at their owners; beyond that new publications are refused."""

    triples_max: int = 200_000_000
    """Triples and partial results held; beyond that new publications are refused."""

    clock_skew_seconds: float = 0.0
    """How far apart the peers' clocks may be; `subscribe` waits as long, so that later publications count."""

    hot_keys: bool = True
    """Split keys under which too much arrives; off: this peer splits none, but goes along with others.  With
    several replicas no key is split."""

    hot_interval_seconds: float = 30.0
    """How often conclusions are drawn from what has arrived."""

    hot_rate_min: int = 10_000
    """Triples under one key in an interval below which it is not hot, however idle the others are."""

    hot_share: float = 0.5
    """A key is hot if one of its sub-keys carries more than this part of what arrives at a peer on average."""

    hot_depth_max: int = 8
    """A key is split into at most 2^8 sub-keys, and into four times as many as there are peers."""

    hot_copies_max: float = 1.0
    """Rows copied per triple of a key, at most: where more would be, the key is split no further."""

    hot_text: bool = False
    """Let queries that are left here, with conditions on texts, wait by a word that they need, if they count what is
    published from then on (:mod:`p2prdf.peer.joins.keyword_index`); off: under the predicate.  All peers index by what
    is waited for, whatever their own setting."""

    hot_sample: int = 256
    """One in so many arrivals is looked at."""

    drift_max_seconds: float = hlc.DRIFT_MAX_SECONDS
    """A clock further ahead than this is not followed."""

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
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
    def hops_allowed(self) -> int:
        """Hops of triples and rows: where they find their own way, one more for each bit of a key.

        With replicas one: whoever is asked to keep what others should keep by its view sends it to all of them.
        If these see it otherwise again, they keep it, and offer it to others later.
        """
        if self.replicas > 1:
            return 1
        return self.hops_max + (_KEY_BITS if self.multisend == "recursive" else 0)

    @property
    def fixed_roles(self) -> int:
        """The set of roles every peer indexes under from the start."""
        roles = _FIXED_ROLES[self.indexes]
        if self.events:
            roles |= roles << keys.EVENT_SHIFT
        return roles

    @property
    def element_roles(self) -> int:
        """The set of roles that every peer indexes elements of streams under, besides those in use.

        All, where everything is to be found later: an element is an event, and roles of events are used by few queries.
        With ``all`` as that without constants, too: what windows by count are about.
        """
        if self.indexes not in ("all", "csbv"):
            return 0
        return _FIXED_ROLES[self.indexes] << keys.EVENT_SHIFT

    @property
    def cautious_roles(self) -> int:
        """The set of roles a peer indexes under until it knows better."""
        if self.indexes == "on-demand":
            return keys.CSBV_ROLES | _EVERY_EVENT_ROLE | _WILDCARDS
        return self.fixed_roles
