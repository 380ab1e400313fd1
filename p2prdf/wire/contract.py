"""What goes into a peer from its driver, and what comes out.

The driver owns clock, sockets, disk, randomness and tasks; the peer owns the decisions
(:mod:`p2prdf.peer` lists the driver's duties).  Requests and effects are plain values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from p2prdf.columns import Column
from p2prdf.rdf.query import Algorithm
from p2prdf.wire.messages import INDEXED, Contact, Message, Parcel, Query
from p2prdf.wire.trace_context import TraceContext

__all__ = [
    "AcknowledgeAnswers", "Attach", "Attached", "Bookmark", "ClusterEntered", "Completed", "ContactLost", "ContactSeen",
    "Detach", "DoorsMet", "Effect", "EndStream", "Ended", "Expel", "Expelled", "Explain", "Explained", "Failed",
    "FindOwner", "Heartbeat", "Leave", "Left", "Notify", "Outcome", "OwnersFound", "Persist", "Publish", "Published",
    "Request", "Send", "Settled", "Span", "StreamEnded", "Subscribe", "Subscribed", "Trace", "Unsubscribe",
    "Unsubscribed", "WantBookmarks",
]  # fmt: skip


# --- requests: from the local application or the driver ------------------------------------------


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish triples (columns of term identifiers).

    ``publisher`` and ``first_event`` number the events: row i is event ``first_event + i``.  ``level`` says when it is
    completed: ``indexed``, when all owners hold them; ``accepted``, when enough peers keep them, whichever, and will
    see to it that the owners get them; if that cannot be had it is completed when they are indexed.
    ``removed``: they are removed instead.  ``after``: a stamp that theirs is to be after, of what came before it for
    the publisher, perhaps at another peer.  ``graph`` and ``by_content``: as in ClientPublish.  ``times``, if not
    empty: they are elements of streams, of these event times (milliseconds since 1970), and ``graph`` names streams.
    ``trace``: the trace that it belongs to, if it is to be traced.
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


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A publisher of a stream tells how far it is: all its elements of times up to ``upto`` are acknowledged.

    Its first was, or will be, of time ``began``; times are milliseconds since 1970.  ``stream`` is the hash of the
    stream (:func:`p2prdf.keys.term_hash`).  Not completed.  It counts for some seconds: it is repeated as long as the
    publisher is to be waited for (:mod:`p2prdf.peer.progress.event_watermarks`).  ``opening``: a number that the
    publisher drew at random when it opened the stream.
    """

    stream: int
    publisher: int
    began: int
    upto: int
    opening: int = 0


@dataclass(frozen=True, slots=True)
class EndStream:
    """A publisher closes a stream: nothing more comes of this ``opening``, and it is not to be waited for any more.

    Other fields as in Heartbeat.  Completed when enough peers keep it (:mod:`p2prdf.peer.progress.end_of_stream`).
    """

    request: int
    stream: int
    publisher: int
    began: int
    upto: int
    opening: int


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Leave a standing query; completed when it is live at all its owners.

    ``per_event``: solutions per choice of publication events; of conjunctive queries only.
    ``lease_seconds``: how long the subscription outlives its subscriber.  ``since``: the stamp from which on triples
    count, 0: from now on.  ``salt``: as in OpenSubscription.  ``owner``: the client whose it is; empty: anybody who
    knows its number may have to do with it.
    """

    request: int
    query: Query
    algorithm: Algorithm = Algorithm.CSBV
    per_event: bool = False
    lease_seconds: float = 60.0
    since: int = 0
    salt: int = 0
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Attach:
    """Deliver an existing subscription at this peer, but none of ``have``.

    ``have``: identities of answers that the subscriber is done with, as in AcknowledgeAnswers.
    ``owner``: the client that asks, who is refused (NotAllowed) if the subscription is another's; empty: it is not
    compared.  The same in what follows.
    """

    request: int
    subscription: int
    have: Column
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Detach:
    """The local subscriber left; its subscription lives on for its lease."""

    subscription: int


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """End a subscription.  ``owner`` as in Attach."""

    request: int
    subscription: int
    owner: str = ""


@dataclass(frozen=True, slots=True)
class AcknowledgeAnswers:
    """The local subscriber has dealt with the answers of these identities.

    Completed with Settled when all replicas of the home know: until then they may come again, after a failover.
    To acknowledge again is harmless.  ``owner`` as in Attach.
    """

    request: int
    subscription: int
    identity: Column
    owner: str = ""


@dataclass(frozen=True, slots=True)
class WantBookmarks:
    """Tell bookmarks of a subscription that is delivered here (:class:`Bookmark`), until it is not any more.

    ``urgent``: eight a second for some time, then one a second as ever.
    """

    subscription: int
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class Explain:
    """Tell how a subscription is evaluated or, if that is 0, how a query would be; completed with Explained.

    Of a query that would be ``per_event``, as in Subscribe.  Nothing is left standing for it.  ``owner`` as in Attach.
    """

    request: int
    subscription: int = 0
    query: Query | None = None
    algorithm: Algorithm = Algorithm.CSBV
    per_event: bool = False
    owner: str = ""


@dataclass(frozen=True, slots=True)
class OwnersFound:
    """Outcome of a FindOwner: live peers closest to ``key``, closest first, this peer included.

    They must be *all* peers of their neighbourhood: none that is closer to ``key`` than the last
    one is missing.  ``complete`` says that there are no further peers at all.  ``before`` is the
    last live peer before the key, where the overlay tells: Chord.  Empty: it failed.
    """

    key: int
    contacts: tuple[Contact, ...]
    complete: bool
    before: Contact | None = None


@dataclass(frozen=True, slots=True)
class ContactSeen:
    """The overlay knows of this live peer; ``zone``: peers that may fail together with it ("": none)."""

    contact: Contact
    zone: str = ""


@dataclass(frozen=True, slots=True)
class ContactLost:
    """The overlay believes this peer to be gone.

    ``left``: it said goodbye.  Otherwise it may live where it is not seen, and come back.
    """

    contact: Contact
    left: bool = False


@dataclass(frozen=True, slots=True)
class DoorsMet:
    """The overlay knows all whom this peer was told of to join by: none of them is away."""


@dataclass(frozen=True, slots=True)
class ClusterEntered:
    """The overlay has begun a cluster with this peer, or has taken it into one: its identity can be told and drawn."""


@dataclass(frozen=True, slots=True)
class Leave:
    """This peer is to stop for good: give others what they are to keep then."""

    request: int


@dataclass(frozen=True, slots=True)
class Expel:
    """An administrator expels a member, or readmits it (not ``expelled``): no peer deals with an expelled one."""

    request: int
    member: int
    expelled: bool


Request = (
    Leave | Expel | Publish | Heartbeat | EndStream | Subscribe | Attach | Detach | Unsubscribe | AcknowledgeAnswers
    | WantBookmarks | Explain | OwnersFound | ContactSeen | ContactLost | DoorsMet | ClusterEntered
)  # fmt: skip


# --- outcomes ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Published:
    """Every owner holds the triples; ``time`` is their publication stamp."""

    time: int


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """That a publisher closed is kept."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The query is live.

    ``order``: its patterns in order of evaluation, by position.  ``opened``: a stamp before which it was not.
    """

    subscription: int
    since: int
    order: tuple[int, ...]
    opened: int = 0


@dataclass(frozen=True, slots=True)
class Attached:
    """Delivery goes on here; fields as in Subscribed, and the projected names.

    ``reads`` and ``writes``: the graphs that its query is about (:class:`p2prdf.rdf.reach.Reach`).
    """

    subscription: int
    since: int
    names: tuple[str, ...]
    order: tuple[int, ...]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """The subscription is ended."""

    subscription: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The request failed; ``code`` is that of :mod:`p2prdf.errors`."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Left:
    """This peer has nothing left to give away.

    ``handed_over``: all it had acknowledged is with enough others.  If not, too few others were there: its disk may be
    the only place where something is.
    """

    handed_over: bool


@dataclass(frozen=True, slots=True)
class Expelled:
    """This peer has taken the decision about a member and told it to the other peers that it sees."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What was acknowledged never comes again."""

    subscription: int


@dataclass(frozen=True, slots=True)
class Explained:
    """How a query is evaluated, as JSON text of moderate size (docs/reference/explain.md lists the keys)."""

    json: str


Outcome = (
    Left | Expelled | Published | StreamEnded | Subscribed | Attached | Unsubscribed | Settled | Explained | Failed
)


# --- effects: from the peer to its driver, in the order to be carried out ------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send a parcel to a peer.  Order between sends need not be kept."""

    to: Contact
    parcel: Parcel


@dataclass(frozen=True, slots=True)
class Notify:
    """Hand solutions to a local subscriber (fields as in Deliver).

    Within an epoch in order and once; what was settled in another epoch is left out of it.  What the subscriber
    has not acknowledged may come again in another epoch, also in one that began earlier: it is known by its identity.
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
    """No solution of a local subscription born at or before ``stamp`` follows but those handed over before.

    Except of publications that were not acknowledged when it was made.
    """

    subscription: int
    stamp: int


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing more comes of a local subscription: it is ended, or somebody attached it elsewhere.

    If it was ended here this follows the Unsubscribed: who else holds it has to be told.
    """

    subscription: int
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Completed:
    """A request came to its end."""

    request: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class FindOwner:
    """Look up the peers closest to ``key`` and submit OwnersFound."""

    key: int


@dataclass(frozen=True, slots=True)
class Persist:
    """Keep what the peer has just taken in and will acknowledge; it is given back to ``Peer.restore``.

    Carried out, and safe on the disk, before any later effect of the same list.
    """

    message: Message


@dataclass(frozen=True, slots=True)
class Trace:
    """Something worth a log line or a counter: a name and plain fields."""

    event: str
    fields: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of work for a traced publication, which began at ``began`` (seconds) and ends as this is carried out.

    ``parent``: the span that led to it, here or at another peer; 0: nobody said.
    """

    name: str
    trace: int
    span: int
    parent: int
    began: float
    fields: dict[str, object] = field(default_factory=dict)


Effect = Send | Notify | Bookmark | Ended | Completed | FindOwner | Persist | Trace | Span
