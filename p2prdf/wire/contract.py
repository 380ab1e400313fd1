"""The interface of a peer to its driver: requests, outcomes and effects.

The driver owns clock, sockets, disk, randomness and tasks; the peer makes the decisions (:mod:`p2prdf.peer` lists the
driver's duties).  Requests and effects are plain values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from p2prdf.columns import Column
from p2prdf.rdf.query import Algorithm
from p2prdf.wire.messages import INDEXED, Contact, Envelope, Message, Query
from p2prdf.wire.trace_context import TraceContext

__all__ = [
    "AcknowledgeAnswers", "Attach", "Attached", "BeginExport", "Bookmark", "ClusterEntered", "Completed",
    "ContactLost", "ContactSeen", "Detach", "Effect", "EndExport", "EndStream", "Ended", "Expel", "Expelled",
    "Explain", "Explained", "ExportBegun", "ExportEnded", "ExportRead", "Failed", "FindOwner", "Heartbeat", "Leave",
    "Left", "Notify", "Outcome", "OwnersFound", "Persist", "Publish", "Published", "ReadExport", "Request",
    "SeedsReached", "Send", "Settled", "Span", "StreamEnded", "Subscribe", "Subscribed", "Trace", "Unsubscribe",
    "Unsubscribed", "WantBookmarks",
]  # fmt: skip


# --- requests: from the local application or the driver ------------------------------------------


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish triples (columns of term identifiers).

    Row i is event ``first_event + i`` of ``publisher``.  ``level``: ``indexed`` completes when all owners have the
    triples; ``accepted`` when enough peers have staged them, which then guarantee their delivery to the owners.  If
    staging is impossible, it completes when they are indexed.  ``removed``: delete the triples instead.  ``after``: a
    stamp to exceed, of earlier publications of the publisher, perhaps through another peer.  ``graph`` and
    ``by_content``: as in ClientPublish.  ``times``, if not empty: event times in milliseconds since 1970; the triples
    are elements of the streams in ``graph``.  ``trace``: the trace of the publication, if it is traced.  ``deletions``
    and ``atomic``: as in ClientPublish.  ``versions`` and ``attempt``: as in ClientPublish.
    """

    request: int
    publisher: int
    first_event: int
    s: Column
    p: Column
    o: Column
    level: str = INDEXED
    removed: bool = False
    after: int = 0
    graph: tuple[Column, ...] = ()
    by_content: bool = False
    times: tuple[Column, ...] = ()
    trace: TraceContext | None = None
    deletions: int = 0
    atomic: bool = False
    versions: tuple[Column, ...] = ()
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A publisher's watermark of a stream: all its elements of times up to ``upto`` are acknowledged.

    Its first element has, or will have, the time ``began``; times are milliseconds since 1970.  ``stream`` is the hash
    of the stream (:func:`p2prdf.keys.term_hash`).  ``opening``: a random number, drawn when the publisher opened the
    stream. Not completed.  It counts for some seconds, so it is repeated as long as watermarks should wait for the
    publisher (:mod:`p2prdf.peer.progress.event_watermarks`).
    """

    stream: int
    publisher: int
    began: int
    upto: int
    opening: int = 0


@dataclass(frozen=True, slots=True)
class EndStream:
    """A publisher closes an ``opening`` of a stream: watermarks wait for it no more.

    Other fields as in Heartbeat.  Completed when enough peers have stored it
    (:mod:`p2prdf.peer.progress.end_of_stream`).
    """

    request: int
    stream: int
    publisher: int
    began: int
    upto: int
    opening: int


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Subscribe to a query; completed when the query is live at all its owners.

    ``per_event``: one solution per choice of publication events; conjunctive queries only.  ``lease_seconds``: how long
    the subscription outlives its subscriber.  ``since``: the stamp from which on triples count; 0: from now on.
    ``salt``: as in OpenSubscription.  ``owner``: the owning client; "": any client that knows the number may use the
    subscription.  ``once``: only the present solutions are wanted, up to the first bookmark.
    """

    request: int
    query: Query
    algorithm: Algorithm = Algorithm.CSBV
    per_event: bool = False
    lease_seconds: float = 60.0
    since: int = 0
    salt: int = 0
    owner: str = ""
    once: bool = False


@dataclass(frozen=True, slots=True)
class Attach:
    """Deliver an existing subscription at this peer, except the solutions in ``have``.

    ``have``: identities of acknowledged solutions, as in AcknowledgeAnswers.  ``owner``: the asking client, which is
    refused (NotAllowed) if the subscription belongs to another one; "": clients are not compared.  The following
    requests have the same field.
    """

    request: int
    subscription: int
    have: Column
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Detach:
    """The local subscriber has disconnected; its subscription lives on for its lease."""

    subscription: int


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """End a subscription.  ``owner`` as in Attach."""

    request: int
    subscription: int
    owner: str = ""


@dataclass(frozen=True, slots=True)
class AcknowledgeAnswers:
    """The local subscriber acknowledges these solutions.

    Completed with Settled when all replicas of the coordinator know; until then a failover may deliver the solutions
    again. Repetition is harmless.  ``owner`` as in Attach.
    """

    request: int
    subscription: int
    identity: Column
    owner: str = ""


@dataclass(frozen=True, slots=True)
class WantBookmarks:
    """Request bookmarks of a subscription (:class:`Bookmark`) for as long as it is delivered here.

    ``urgent``: eight per second for some time, then one per second as usual.
    """

    subscription: int
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class Explain:
    """Explain a subscription or, if that is 0, how a query would be evaluated; completed with Explained.

    ``per_event`` as in Subscribe.  No subscription is opened.  ``owner`` as in Attach.
    """

    request: int
    subscription: int = 0
    query: Query | None = None
    algorithm: Algorithm = Algorithm.CSBV
    per_event: bool = False
    owner: str = ""


@dataclass(frozen=True, slots=True)
class BeginExport:
    """Begin an export of all statements, or of the elements of a stream (empty: none); completed with ExportBegun."""

    request: int
    stream: str = ""


@dataclass(frozen=True, slots=True)
class ReadExport:
    """Read the lines of an export from places after ``after``; completed with ExportRead."""

    request: int
    export: int
    after: int


@dataclass(frozen=True, slots=True)
class EndExport:
    """End an export; completed with ExportEnded."""

    request: int
    export: int


@dataclass(frozen=True, slots=True)
class OwnersFound:
    """Outcome of a FindOwner: the live peers closest to ``key``, closest first, this peer included.

    No live peer closer to ``key`` than the last contact may be missing.  ``complete``: no other peers exist.
    ``before``: the last live peer before the key, if the overlay reports it (Chord).  Without contacts the lookup
    failed.
    """

    key: int
    contacts: tuple[Contact, ...]
    complete: bool
    before: Contact | None = None


@dataclass(frozen=True, slots=True)
class ContactSeen:
    """The overlay has found this live peer; ``zone``: its failure zone ("": none)."""

    contact: Contact
    zone: str = ""


@dataclass(frozen=True, slots=True)
class ContactLost:
    """The overlay believes this peer to be gone.

    ``left``: it said goodbye.  Otherwise it may live unseen, and come back.
    """

    contact: Contact
    left: bool = False


@dataclass(frozen=True, slots=True)
class SeedsReached:
    """The overlay has reached all seeds of this peer: no seed is away."""


@dataclass(frozen=True, slots=True)
class ClusterEntered:
    """The overlay has joined or founded a cluster: its identity can be exchanged, or drawn."""


@dataclass(frozen=True, slots=True)
class Leave:
    """This peer will stop for good: hand its data over to the others."""

    request: int


@dataclass(frozen=True, slots=True)
class Expel:
    """An administrator expels a member, or readmits it (not ``expelled``).

    No peer exchanges messages with an expelled member.
    """

    request: int
    member: int
    expelled: bool


Request = (
    Leave | Expel | Publish | Heartbeat | EndStream | Subscribe | Attach | Detach | Unsubscribe | AcknowledgeAnswers
    | WantBookmarks | Explain | BeginExport | ReadExport | EndExport | OwnersFound | ContactSeen | ContactLost
    | SeedsReached | ClusterEntered
)  # fmt: skip


# --- outcomes ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Published:
    """The requested level is reached (Publish); ``time`` is the triples' publication stamp."""

    time: int


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """Enough peers have stored that the publisher closed the stream."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The query is live.

    ``order``: its patterns in order of evaluation, by position.  ``opened``: a stamp before which it was not live.
    """

    subscription: int
    since: int
    order: tuple[int, ...]
    opened: int = 0


@dataclass(frozen=True, slots=True)
class Attached:
    """Solutions are delivered here; fields as in Subscribed, and the projected names.

    ``reads`` and ``writes``: the graphs that its query reads and writes (:class:`p2prdf.rdf.reach.Reach`).
    """

    subscription: int
    since: int
    names: tuple[str, ...]
    order: tuple[int, ...]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """The subscription has ended."""

    subscription: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The request failed; ``code`` is that of :mod:`p2prdf.errors`."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Left:
    """This peer has nothing more to hand over.

    ``handed_over``: enough other peers have all items that it acknowledged.  Otherwise too few others were live: its
    disk may be the only place of some items.
    """

    handed_over: bool


@dataclass(frozen=True, slots=True)
class Expelled:
    """This peer has stored the decision about a member and sent it to all peers in its view."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The acknowledged solutions are not delivered again."""

    subscription: int


@dataclass(frozen=True, slots=True)
class Explained:
    """How a query is evaluated: JSON text of moderate size (docs/reference/explain.md lists the keys)."""

    json: str


@dataclass(frozen=True, slots=True)
class ExportBegun:
    """All members keep the export, and it is complete as of ``stamp``."""

    export: int
    stamp: int


@dataclass(frozen=True, slots=True)
class ExportRead:
    """All lines of the export from the requested place up to the place ``upto``, in no order."""

    upto: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExportEnded:
    """The members are told that the export has ended."""


Outcome = (
    Left | Expelled | Published | StreamEnded | Subscribed | Attached | Unsubscribed | Settled | Explained
    | ExportBegun | ExportRead | ExportEnded | Failed
)  # fmt: skip


# --- effects: from the peer to its driver, in the order to be carried out ------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send an envelope to a peer.  Sends need no particular order."""

    to: Contact
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class Notify:
    """Deliver solutions to a local subscriber (fields as in Deliver).

    Within an epoch they come in order and once, without solutions that were settled in another epoch.  An
    unacknowledged solution may come again in another epoch, even in one that began earlier; its identity shows that.
    """

    subscription: int
    first: int
    lost: int
    identity: Column
    born: Column
    bindings: tuple[Column, ...]
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Bookmark:
    """All solutions of a local subscription born at or before ``stamp`` have been delivered.

    Solutions of publications that were not acknowledged when it was made are excepted.
    """

    subscription: int
    stamp: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A local subscription delivers nothing more: it has ended, or was attached elsewhere.

    If it ended here, this follows Unsubscribed and informs its other local users.
    """

    subscription: int
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Completed:
    """A request is completed."""

    request: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class FindOwner:
    """Look up the peers closest to ``key`` and submit OwnersFound."""

    key: int


@dataclass(frozen=True, slots=True)
class Persist:
    """Store a message that the peer has accepted and will acknowledge; ``Peer.restore`` gets it back.

    It must be safe on the disk before any later effect of the same list is carried out.
    """

    message: Message


@dataclass(frozen=True, slots=True)
class Trace:
    """An event for the log or a counter: a name and plain fields."""

    event: str
    fields: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of work of a traced publication, from ``began`` (seconds) until this effect is carried out.

    ``parent``: the span that caused it, here or at another peer; 0: unknown.
    """

    name: str
    trace: int
    span: int
    parent: int
    began: float
    fields: dict[str, object] = field(default_factory=dict)


Effect = Send | Notify | Bookmark | Ended | Completed | FindOwner | Persist | Trace | Span
