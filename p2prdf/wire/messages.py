"""All messages, and the columns that they carry.

Peers exchange batches: a message is a frozen dataclass of scalars, plans, contacts and *columns* (parallel sequences of
integers, :mod:`p2prdf.columns`).  Inside a process a term column contains identifiers of that process's dictionary; on
the wire it contains indices into the frame's own dictionary (:mod:`p2prdf.wire.codec`).  The annotation of each
field says how it is written, read and checked (:mod:`p2prdf.wire.fields`).

A message between peers travels in an :class:`Envelope` with the sender's clock.  If it must not be lost, it has a
transfer number that the receiver acknowledges.

Names in the papers: IndexTriples is NewTriple, IndexQuery is IndexTriplePattern (CQC) and IndexQuery (CSBV), Forward is
FwdValuation (CQC) and FwdRewritten (CSBV).
"""

from typing import Annotated, Final, TypeAlias

from p2prdf import hlc, keys
from p2prdf.columns import Column, as_list
from p2prdf.errors import Busy, P2PRDFError, QueryRefused, RemoteProtocolError, error_from_code
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.dictionary import TermDictionary, TermNames
from p2prdf.rdf.quads import word_parts_of
from p2prdf.rdf.query import ConjunctiveQuery, Plan
from p2prdf.wire import validation as check
from p2prdf.wire.compiled import one_of
from p2prdf.wire.fields import Batch, Declared, Kind, Role, checked, column, columns, message, number, part, several

CLIENT_VERSION: Final = 9
"""Version of the protocol between clients and nodes; a node refuses other versions with its own number."""
INDEXED: Final = "indexed"
ACCEPTED: Final = "accepted"
LEVELS: Final = (INDEXED, ACCEPTED)
"""The points at which a publication is acknowledged (:class:`ClientPublish`)."""
TRANSACTION_STATEMENTS_MAX: Final = 1 << 14
TRANSACTION_BYTES_MAX: Final = 4 << 20
"""Bounds of a transaction: statements, and bytes of their texts.  It fits one message between peers."""

CONDITIONS_MAX: Final = 64
"""Bound on the subjects that a conditional transaction depends on."""

EVENTS_COUNTED: Final = 16
NOT_COUNTED: Final = 8
"""Takes the place of an index in :class:`CountsRequest` if no triples are to be counted."""
FORMER_MAX: Final = 64
"""Maximum number of former identities of one cluster (:class:`ClusterKnown`)."""

TRACES_MAX: Final = 64
"""Maximum number of traces of one message (:class:`Traced`)."""

Dictionary: TypeAlias = TermDictionary | TermNames

WITHDRAWN: Final = 1 << 63
"""The identities of a solution and of its retraction differ in this bit."""
SURE: Final = 1 << 62
"""Set in the time of a delivered retraction if the subscriber has acknowledged the solution."""


class Message(Declared):
    """A message between peers, which travels in an :class:`Envelope`."""

    __slots__ = ()


class ClientMessage(Declared):
    """A message between a client and its node."""

    __slots__ = ()


Number = Annotated[int, number()]
Identity = Annotated[int, number(role=Role.IDENTITY)]
Stamp = Annotated[int, number(role=Role.STAMP)]
PassingStamp = Annotated[int, number(role=Role.PASSING)]
ClippedStamp = Annotated[int, number(role=Role.CLIPPED)]
OwnStamp = Annotated[int, number(role=Role.OWN)]
EventTime = Annotated[int, number(role=Role.EVENT_TIME)]
ElementTime = Annotated[int, number(hlc.ELEMENT_MS_MAX, Role.EVENT_TIME)]
Roles = Annotated[int, number((1 << keys.MARK_SHIFT) - 1, Role.INDEXES)]
SplitRole = Annotated[int, checked("int", check.split_role, role=Role.INDEX)]
Depth = Annotated[int, number(keys.DEPTH_MAX)]
ItemType = Annotated[int, number(check.KINDS_MAX - 1)]
RecoveryState = Annotated[int, number(check.LACKS_MAX)]
MemberCount = Annotated[int, number(check.MEMBERS_MAX)]

Numbers = Annotated[Column, column()]
SmallNumbers = Annotated[Column, column(check.U32_MAX)]
Identities = Annotated[Column, column(role=Role.IDENTITY)]
Stamps = Annotated[Column, column(role=Role.STAMP)]
BoundedStamps = Annotated[Column, column(role=Role.BOUNDED, quiet=True)]
OwnStamps = Annotated[Column, column(role=Role.OWN)]
EventTimes = Annotated[Column, column(role=Role.EVENT_TIME)]
ElementTimes = Annotated[Column, column(hlc.ELEMENT_MS_MAX, Role.EVENT_TIME)]
LeaseEnds = Annotated[Column, column(role=Role.LEASE_END)]
EventIdentities = Annotated[Column, column(quiet=True)]
BirthStamps = Annotated[Column, column(role=Role.STAMP, quiet=True)]
PassingStamps = Annotated[Column, column(role=Role.PASSING, quiet=True)]
DeliveredStamps = Annotated[Column, column(role=Role.PASSING, quiet=True)]
RoleSets = Annotated[Column, column((1 << keys.MARK_SHIFT) - 1, Role.INDEXES)]
MarkedRoleSets = Annotated[Column, column((1 << keys.PRIMARY_SHIFT + 8) - 1, Role.INDEXES)]
Positions = Annotated[Column, column(check.PATTERNS_MAX - 1)]
ItemTypes = Annotated[Column, column(check.KINDS_MAX - 1, rows_max=check.KINDS_MAX)]
NameKinds = Annotated[Column, column(1)]

Terms = Annotated[Column, Kind("terms", "{v} = d.terms({v})", "e.terms({v})", quiet=True)]
TermColumns = Annotated[tuple[Column, ...], columns("term_columns")]
OptionalTerms = Annotated[tuple[Column, ...], columns("term_columns", 1)]
OptionalNumbers = Annotated[tuple[Column, ...], columns("u64_columns", 1)]

Strings = Annotated[tuple[str, ...], checked("strings", check.strings, "e.counted({v})")]
Order = Annotated[tuple[int, ...], checked("order", check.permutation, "e.counted({v})")]
AlgorithmName = Annotated[str, checked("str", check.algorithm)]
StreamName = Annotated[str, checked("str", check.stream)]
LeaseSeconds = Annotated[float, checked("float", check.lease)]
Query = Annotated[ConjunctiveQuery | StandingQuery, Kind("query", "{v} = d.query({v})", "e.query({v})")]
"""The query of a subscription: one conjunctive query, or a standing query composed of conjunctive queries."""


@part
class Contact(Declared):
    """A peer's ring position and address; ``key`` is the first 64 bits of its 160-bit identifier."""

    key: Identity
    host: Annotated[str, checked("str", check.host)]
    port: Annotated[int, number(65_535)]

    def __str__(self) -> str:
        return f"{self.key:016x}@{self.host}:{self.port}"


Contacts = Annotated[tuple[Contact, ...], several(Contact, check.CONTACTS_MAX)]


@part
class Groups(Declared, Batch):
    """Groups of subscriptions to equal queries under one plan, as columns.

    Rows refer to a group by its index.  ``since_min`` and ``since_max`` are the stamps of the group's earliest and
    latest subscription.  A triple counts from the earliest on; a triple that is published again counts again if a
    subscription was opened in between.  ``lease`` is the stamp until which state may live without a renewal by the
    coordinator.  ``params`` has one column per constant of the plan.
    """

    ids: Identities
    since_min: BoundedStamps
    since_max: Stamps
    lease: LeaseEnds
    params: TermColumns


@part
class Rows(Declared, Batch):
    """Partial results or solutions of one plan and step, as columns.

    ``group`` is the index of the row's group in the message's ``groups``; ``identity`` the sum of its triples'
    contributions; ``oldest`` and ``born`` the minimum and maximum publication stamp of its triples; ``bindings`` one
    column per carried variable.
    """

    group: SmallNumbers
    identity: Identities
    oldest: BoundedStamps
    born: BirthStamps
    bindings: TermColumns


# --- peer to peer: the engine --------------------------------------------------------------------


@message(1, added="introducer")
class IndexTriples(Message, Batch):
    """Entry peer to owners: triples to store under the receiver's indexes.

    Seed 004, section 3.3: NewTriple; one row is one logical message per index.  ``time``: publication stamp, or event
    time of a stream's element (:func:`p2prdf.hlc.element`).  ``event``: identity of the publication event.  ``roles``:
    the indexes (:func:`p2prdf.keys.role_bit`); bit ``role + 16`` marks a sub-key of a hot key
    (:mod:`p2prdf.peer.joins.hot_keys`), bit ``role + 24`` that in ``view`` (0: incomplete) the receiver is the primary
    and joins.  Rows without indexes are only staged (:mod:`p2prdf.peer.replication.staging`).

    ``origin``: key of the publishing peer; 0: all owners have the triples.  ``published``: all indexes of the
    publication. All publications of the origin from ``began``, its start, to ``complete`` are at their owners
    (:mod:`p2prdf.peer.replication.redelivery`).  ``stamp``: of elements their latest publication stamp, of redeliveries
    their beginning, else 0.  ``words``: digest of the keywords under which the origin indexed texts
    (:mod:`p2prdf.peer.joins.keyword_index`); 0: none or unknown.  ``introducer``: used on disk only: the sending
    member, unless it is ``origin`` (:mod:`p2prdf.peer.replication.introductions`).
    """

    s: Terms
    p: Terms
    o: Terms
    time: Stamps
    event: EventIdentities
    roles: MarkedRoleSets
    hops: Number = 0
    view: Number = 0
    origin: Identity = 0
    published: Roles = 0
    began: Stamp = 0
    complete: Stamp = 0
    stamp: Stamp = 0
    words: Number = 0
    introducer: Number = 0

    def _check(self, dictionary: Dictionary) -> None:
        check.indexable(self.s, dictionary, "subject")
        check.indexable(self.p, dictionary, "predicate")


@message(36)
class PublicationsComplete(Message):
    """Peer to all others: its publications between these stamps are at their owners (see IndexTriples)."""

    began: Stamp
    complete: Stamp


@message(42, added="lacks")
class MembersKnown(Message):
    """Peer to its own next process: the maximum number of members at a time, minus orderly departures.

    ``lacks``: its recovery state (:class:`p2prdf.peer.network.quorum.RecoveryState`).  ``returned``: it had been a
    member before it started empty.  ``jumped``: the stamp at which the latest process started with a clock further
    ahead of all known stamps than clocks may drift; ``before``: the latest stamp known then (0: there was no such
    process).
    """

    count: Number
    lacks: RecoveryState = 0
    returned: bool = False
    jumped: OwnStamp = 0
    before: OwnStamp = 0


@message(99)
class Expulsions(Message, Batch):
    """Decisions of administrators about members, by key: 1 expelled, 0 readmitted.

    The later decision about a member counts.  A peer sends decisions to each peer that it meets, and stores them
    (:mod:`p2prdf.peer.network.expulsions`).
    """

    members: Numbers
    times: Stamps
    expelled: SmallNumbers


@message(100)
class Introduced(Message, Batch):
    """Peer to its own next process: the members that sent statements to this peer.

    ``first_hand``: 1 if the member was the origin itself.  ``since``: the record is complete from this stamp on.  See
    :mod:`p2prdf.peer.replication.introductions`.
    """

    since: OwnStamp
    members: Numbers
    first_hand: SmallNumbers
    s: Terms
    p: Terms
    o: Terms
    time: OwnStamps


@message(102)
class DeletionsStable(Message):
    """Peer to its own next process: deletions before ``upto`` are stable in a view with these ``members``; 0: none are.

    See :mod:`p2prdf.peer.joins.stable_deletions`.
    """

    upto: OwnStamp
    members: Numbers


@message(138)
class DeletionsForgotten(Message):
    """Peer to others when it meets or loses one, and to its own next process: intervals that ended ``before`` may go.

    All members, present and absent, know these ends.  ``at``: the stamp of the cut that proves it.  ``members``: on the
    disk alone, the members that this peer has ever met and that have not left.  See
    :mod:`p2prdf.peer.joins.stable_deletions`.
    """

    before: Stamp
    at: Stamp
    members: Numbers


@message(101)
class ClusterKnown(Message):
    """Peer to a peer that it meets, and to its own next process: its cluster's identity (0: unknown).

    ``members``: the maximum number of members that the cluster has had, to the sender's knowledge.  ``former``:
    identities of clusters that merged with this one.  ``asks``: the receiver should answer with its own.
    """

    identity: Identity
    members: MemberCount
    former: Annotated[Column, column(rows_max=FORMER_MAX)]
    asks: bool = False


def _check_step(message: "IndexQuery | Forward") -> None:
    plan = message.plan
    if message.step >= len(plan.order):
        raise RemoteProtocolError(f"step {message.step} of a plan of {len(plan.order)}")
    if len(message.groups.params) != plan.constant_count:
        raise RemoteProtocolError(f"{len(message.groups.params)} constants for a plan of {plan.constant_count}")


@message(2)
class IndexQuery(Message):
    """Coordinator to owners of a step's key: wait for the pattern of these groups.

    CSBV sends step 0 only.  CQC sends every step of the query chain, so that each link knows the triples to store
    (steps after 0 have no rows of their own).  ``refresh`` as in Forward.
    """

    plan: Plan
    step: Number
    groups: Groups
    refresh: Stamp = 0
    hops: Number = 0

    def _check(self, _: Dictionary) -> None:
        _check_step(self)
        step = self.plan.steps[self.step]
        if any(slot >= 0 and step.role & bit for bit, slot in zip((keys.S, keys.P, keys.O), step.pattern, strict=True)):
            raise RemoteProtocolError(f"step {self.step} waits under values that only rows have")


@message(3, added="suspect")
class Forward(Message):
    """Link to owners of the next step's key: partial results that wait for the next pattern.

    ``refresh``: 0, or the stamp of a later subscription to the group: stored triples from that stamp on are joined even
    with known rows.  ``view`` as in IndexTriples.  ``copied``: from the owner of a hot key to the owner of sub-keys,
    which stores the rows and copies them no further; a query that waits for its first pattern is copied as a row of
    step 0. ``kept``: in the sender's view the receiver is not the primary, and only stores the rows.  ``suspect``: 0,
    or the key of the primary that should have sent the rows (:mod:`p2prdf.peer.joins.audit`).
    """

    plan: Plan
    step: Number
    groups: Groups
    rows: Rows
    refresh: Stamp = 0
    hops: Number = 0
    view: Number = 0
    copied: bool = False
    kept: bool = False
    suspect: Number = 0

    def _check(self, _: Dictionary) -> None:
        _check_step(self)
        bound = self.plan.steps[self.step].bound
        if len(self.rows.bindings) != len(bound):
            raise RemoteProtocolError(f"{len(self.rows.bindings)} bindings for a step that carries {len(bound)}")
        check.below(self.rows.group, len(self.groups), "a row of group")


@message(4, added="suspect")
class Answers(Message):
    """Last link to the group's coordinator: solutions, with bindings in the order of the plan's answer.

    ``suspect``: 0, or the key of the primary that should have sent them (:mod:`p2prdf.peer.joins.audit`).
    """

    groups: Identities
    rows: Rows
    hops: Number = 0
    suspect: Number = 0

    def _check(self, _: Dictionary) -> None:
        check.below(self.rows.group, len(self.groups), "a row of group")


@message(5)
class GroupsGone(Message):
    """Coordinator to a holder of rows: these groups have no subscription any more; delete their rows."""

    groups: Identities


@message(6)
class KeepGroups(Message):
    """Holder of rows to coordinator: the leases of these groups have expired; ask whether the groups live."""

    holder: Contact
    groups: Identities
    hops: Number = 0


@message(7)
class GroupLeases(Message):
    """Coordinator to a holder of rows: the groups live until these stamps."""

    groups: Identities
    lease: LeaseEnds


@message(8)
class RatesRequest(Message, Batch):
    """Planning coordinator to owner of a pattern's key: ask for numbers of triples with these constants.

    One row per pattern, named by its ``position``.  Parts that the index does not contain hold any term.
    """

    request: Number
    asker: Contact
    position: Positions
    roles: RoleSets
    s: Terms
    p: Terms
    o: Terms
    hops: Number = 0


@message(9)
class RatesResponse(Message):
    """Owner to planning coordinator: the number of triples of each pattern plus one; 0: not indexed here."""

    request: Number
    position: Positions
    counts: Numbers


@message(58)
class CountsRequest(Message, Batch):
    """Explaining peer to every other peer: ask for numbers of waiting rows and of matching triples.

    One row per step: the identity of its leaf (0: no rows are counted), its number, the index in which triples are
    counted (``NOT_COUNTED``: none), and in ``masks`` the parts that must match; other parts hold any term.  ``since``:
    rows and triples from this stamp on count for the subscription.  With ``EVENTS_COUNTED`` added to the index,
    publication events are counted instead of triples.
    """

    request: Number
    since: PassingStamp
    leaves: Annotated[Column, column(role=Role.IDENTITY, rows_max=check.COUNTS_MAX)]
    steps: SmallNumbers
    under: Annotated[Column, column(EVENTS_COUNTED + NOT_COUNTED - 1)]
    masks: Annotated[Column, column(keys.SPO)]
    s: Terms
    p: Terms
    o: Terms


@message(59)
class CountsResponse(Message, Batch):
    """Answer to CountsRequest, row by row: counts of items of which the sender is the first replica.

    ``waiting``: rows that wait and count; ``over``: rows that waited and have ended; ``triples``: matching triples;
    ``young``: matching triples that count.  ``estimated``: 1 if the rows, 2 if the triples (3: both) were sampled.
    """

    request: Number
    waiting: Numbers
    over: Numbers
    triples: Numbers
    young: Numbers
    estimated: SmallNumbers


@message(126)
class KeepExport(Message):
    """Entry peer to every member: keep the statements as of ``stamp`` for an export, or the elements of a stream.

    ``stamp`` is in the future.  ``stream``: the hash of its IRI; 0: the statements.  ``members`` and ``zones``: the
    view, from which the readers of each key follow (:mod:`p2prdf.peer.joins.kept_exports`).
    """

    export: Identity
    stamp: PassingStamp
    stream: Identity
    members: Contacts
    zones: Strings

    def _check(self, _: Dictionary) -> None:
        if len(self.zones) != len(self.members) or not self.members:
            raise RemoteProtocolError(f"{len(self.zones)} zones of {len(self.members)} members")
        if len({each.key for each in self.members}) < len(self.members):
            raise RemoteProtocolError("a member twice in a view")


@message(127)
class ExportKept(Message):
    """Answer to KeepExport.  ``refusal``: why the sender does not keep the export; empty: it does."""

    export: Identity
    refusal: str


@message(128)
class ReadExport(Message):
    """Entry peer to every other member: send the next lines of an export, from places after ``after``.

    ``absent``: members, by position in the view of the export, whose lines other replicas send.
    """

    request: Number
    export: Identity
    after: Number
    lines_max: Number
    absent: SmallNumbers


@message(129)
class ExportPart(Message):
    """Answer to ReadExport: lines in order of their places, and all of this peer up to ``last_place``.

    ``known``: whether the sender keeps the export.  ``refusal``: why no peer can send the next line; empty: it is sent.
    """

    request: Number
    known: bool
    last_place: Number
    places: Numbers
    lines: Strings
    refusal: str = ""

    def _check(self, _: Dictionary) -> None:
        if len(self.places) != len(self.lines):
            raise RemoteProtocolError(f"{len(self.places)} places of {len(self.lines)} lines")


@message(130)
class DropExport(Message):
    """Entry peer to every member: an export has ended."""

    export: Identity


@message(135)
class AskGrants(Message, Batch):
    """Entry peer to replicas of subjects: may a transaction with this ``stamp`` change them?

    Only if each is unchanged since its version, a stamp.  ``attempt`` and ``view`` as in Publish and IndexTriples.  See
    :mod:`p2prdf.peer.replication.conditions`.
    """

    subjects: Terms
    versions: Stamps
    stamp: Stamp
    attempt: Number
    view: Number = 0


@message(136)
class GrantsAnswer(Message, Batch):
    """Answer to AskGrants of this ``stamp`` and ``view``, for some subjects.

    ``present``: 0: granted; 1: the replica cannot tell yet; 2: it does not hold all statements of the subject; else
    refused: a stamp at or after the last change.
    """

    subjects: Terms
    present: Numbers
    stamp: PassingStamp
    view: Number = 0


@message(137)
class GrantsKept(Message, Batch):
    """Peer to its own next process: the stamp of the latest transaction granted for each subject, and its attempt.

    ``floor``: the latest stamp of forgotten grants.
    """

    subjects: Terms
    stamps: OwnStamps
    attempts: Numbers
    floor: OwnStamp = 0


@message(139)
class ReadTriples(Message, Batch):
    """Entry peer to a member: read the triples under some keys, and report the work in flight up to ``stamp``.

    One row per key: its index, and terms of which those in the index count.  ``view`` as in IndexTriples.  A member
    that has work in flight up to the stamp, or lacks data, answers later.  See
    :mod:`p2prdf.peer.progress.stable_reads`.
    """

    request: Number
    view: Number
    stamp: PassingStamp
    roles: Annotated[Column, column(keys.SPO - 1, rows_max=check.KEYS_READ_MAX)]
    s: Terms
    p: Terms
    o: Terms


@message(140)
class TriplesRead(Message, Batch):
    """Answer to ReadTriples: the valid triples, each with the number of its key, and its stamp.

    ``process``: identifies the process of the sender.  ``at``: the stamp of reading.  ``busy_until``: a stamp since
    which no work up to the stamp of the question was in flight at the sender.  ``issued``: the latest publication that
    it has stamped.  ``latest``: the latest change under any of the keys.  ``left_out``: a bit for each key with too
    many triples; the last bit stands for all keys from number 63 on.
    """

    request: Number
    view: Number
    process: Identity
    at: PassingStamp
    busy_until: PassingStamp
    issued: PassingStamp
    latest: PassingStamp
    left_out: Number
    places: Annotated[Column, column(check.KEYS_READ_MAX - 1)]
    s: Terms
    p: Terms
    o: Terms
    time: PassingStamps


@message(10)
class AdvertiseIndexes(Message):
    """Coordinator to every peer: queries wait in these indexes now; index triples under them.

    ``since``: publications from this stamp on under fewer indexes are to be added to these (0: none is, as no query can
    wait for them).
    """

    roles: Roles
    since: Stamp = 0


@message(63)
class AdvertiseKeywords(Message):
    """Coordinator to every peer: queries wait for texts with these keywords; index such texts under them.

    ``predicates`` are qualified by keywords (:func:`p2prdf.rdf.quads.worded`).  ``since``, for each: publications from
    this stamp on without it are to be indexed under it.
    """

    predicates: Terms
    since: Stamps

    def _check(self, dictionary: Dictionary) -> None:
        for each in dictionary.texts(as_list(self.predicates)):
            if word_parts_of(each) is None:
                raise RemoteProtocolError(f"{each!r:.60} is no predicate of texts with words")


@message(11)
class IndexesRequest(Message):
    """New peer to a neighbour: ask for the indexes in use."""


@message(12)
class IndexesResponse(Message):
    """Neighbour to new peer: the indexes in use, as far as it knows."""

    roles: Roles


@message(13)
class LoadRequest(Message):
    """Owner of a possibly hot key to a few others: ask for the load."""

    request: Number


@message(14)
class LoadResponse(Message):
    """Answer to LoadRequest: triples (once per index) and rows that arrived within some seconds."""

    request: Number
    arrivals: Number
    seconds: float


@message(15)
class HoldSubKeys(Message):
    """Owner of a hot key to the owner of some sub-keys: store its triples; all rows will be sent there."""

    role: SplitRole
    key: Identity
    depth: Depth


@message(25)
class KeyDepth(Message):
    """A key has 2^depth sub-keys.

    Owner of the key to a sender: spread triples over the sub-keys.  Owner of a sub-key to the owner of the key, from
    time to time while triples arrive: the depth for which the sender was asked to hold (0: it was not).
    """

    role: SplitRole
    key: Identity
    depth: Depth


# --- peer to peer: repair ------------------------------------------------------------------------


@message(45)
class Leaving(Message):
    """Peer to all others: it is about to leave, and accepts no further items."""


@message(43)
class RootDigests(Message):
    """Replica to replica: a root digest per item type, of the items that both should store.

    ``kinds``: item types (:mod:`p2prdf.peer.replication.anti_entropy`).  ``view`` as in IndexTriples: only equal views
    agree on these items.  Not acknowledged: the sender repeats it.
    """

    request: Number
    view: Number
    kinds: ItemTypes
    sums: Identities


@message(44)
class DigestDiff(Message):
    """Answer to RootDigests: the item types with a different digest."""

    request: Number
    kinds: ItemTypes


@message(46)
class WatchWatermarks(Message):
    """Peer with subscribers that want bookmarks to each other: send low watermarks for some seconds.

    ``urgent``: eight times a second instead of once.  ``streams``: a column of hashes of streams for which StreamReport
    and PublisherReport are requested, too.  ``early``: the cut that the sender has passed last, to report some early
    cuts after it, too; 0: none.  Not acknowledged: it is repeated.
    """

    urgent: bool = False
    streams: OptionalNumbers = ()
    early: PassingStamp = 0


@message(47, added="whole")
class LowWatermark(Message):
    """Answer to WatchWatermarks at each cut: no work in flight here leads to a solution born before ``low``.

    ``low`` 0: unknown.  ``busy``: the ring keys of coordinators with any work in flight here, regardless of its stamp;
    ``many``: there are more.  ``view`` as in IndexTriples.  ``whole``: the sender misses no member, however long ago it
    was lost.  Not acknowledged: the next cut replaces it.
    """

    cut: PassingStamp
    low: PassingStamp
    view: Number
    busy: Numbers
    many: bool = False
    whole: bool = False


@message(53)
class StreamReport(Message):
    """Sent with a LowWatermark: for each stream with elements in flight the earliest event time, in ``times``.

    Not sent if there are too many streams, or if the times are unknown.
    """

    cut: PassingStamp
    view: Number
    times: EventTimes


@message(54)
class PublisherReport(Message):
    """Sent with a LowWatermark: the reports of publishers for the requested streams, as of the cut.

    For each report the hash of its stream, and ``began``, ``upto`` and ``openings`` as in
    :class:`p2prdf.wire.contract.Heartbeat`; ``ended`` is 1 for an end of stream (as in KeepEnds), else 0.
    """

    cut: PassingStamp
    view: Number
    streams: Numbers
    publishers: Numbers
    began: EventTimes
    upto: EventTimes
    openings: Numbers
    ended: SmallNumbers


@message(61)
class RetentionReport(Message):
    """Sent with a LowWatermark, every eighth cut: the retention report of each stream.

    For each the hash of the stream, the event time (ms) from which on queries coordinated here need its elements (2^62:
    none does), and the event time before which elements are forgotten here (0: none are).  Stream 0: all elements of
    all streams are to be kept.
    """

    cut: PassingStamp
    view: Number
    streams: Numbers
    needed: EventTimes
    forgotten: EventTimes


@message(62)
class ElementsForgotten(Message):
    """Peer to each other: elements of these streams (by hash) before these event times (ms) are forgotten.

    Sent when that is decided, and to each peer that the sender meets.
    """

    streams: Numbers
    before: EventTimes


@message(50)
class BookmarksRequest(Message):
    """Entry peer to coordinator: ask for a report when all solutions of these subscriptions are delivered.

    In the asker's ``view`` all solutions with a stamp up to ``upto`` have arrived at their coordinator.  Not
    acknowledged.
    """

    subscriber: Contact
    upto: PassingStamp
    view: Number
    subscriptions: Identities


@message(51, added="exact")
class BookmarksResponse(Message):
    """Answer to BookmarksRequest: all solutions are delivered, in ``epoch`` up to number ``sent``.

    ``exact``: a mark of settled subscriptions, which comes unasked.  The solutions up to ``sent`` are the state as of
    ``upto``; it is no mark any more behind later solutions.
    """

    upto: PassingStamp
    subscriptions: Identities
    epoch: Identities
    sent: Numbers
    exact: bool = False


@message(37, added="lacks")
class BucketDigests(Message):
    """Replica to replica: digests of the items of one type that both should store.

    ``kind``: item type (:mod:`p2prdf.peer.replication.anti_entropy`).  ``sums``: one digest per bucket of identities, a
    power of two of them; buckets before ``first`` are not compared.  ``view`` as in IndexTriples: only equal views
    agree on these items.  ``lacks`` and ``returned`` as in MembersKnown.  ``began``: the stamp at which the sender's
    process started; 0: it has no event yet.
    """

    request: Number
    kind: ItemType
    view: Number
    sums: Identities
    first: Number = 0
    lacks: RecoveryState = 0
    returned: bool = False
    began: Stamp = 0

    def _check(self, _: Dictionary) -> None:
        if not len(self.sums) or len(self.sums) & len(self.sums) - 1:
            raise RemoteProtocolError(f"{len(self.sums)} sums; a power of two is needed")


@message(38, added="lacks")
class IdentityList(Message):
    """Identities of items of one type that sender and receiver should both store.

    ``asked``: answer to the BucketDigests of that number, with the items in differing buckets (identity 0 for a
    bucket without items; no rows if all buckets are equal).  ``more``: further buckets differ; ask again.
    ``lacks``, ``returned`` and ``began`` as in BucketDigests.  ``members``: the number of members that there should
    be.  ``known``: the receiver was a member before its present process.  ``complete``: the sender is in sync and
    misses no member.

    Not ``asked``: an unsolicited offer of misplaced items.
    """

    request: Number
    kind: ItemType
    asked: bool
    more: bool
    buckets: SmallNumbers
    identities: Identities
    lacks: RecoveryState = 0
    returned: bool = False
    members: MemberCount = 0
    known: bool = False
    began: Stamp = 0
    complete: bool = False


@message(39)
class Fetch(Message):
    """Answer to an IdentityList, with the same fields: fetch these items; no rows: the receiver has them all."""

    request: Number
    kind: ItemType
    asked: bool
    identities: Identities


@message(40)
class FetchDone(Message):
    """Answer to a Fetch: all requested items have been acknowledged, if the asking peer waits for that."""

    request: Number
    kind: ItemType


# --- peer to peer: subscriptions -----------------------------------------------------------------


@message(16, added="owner")
class OpenSubscription(Message):
    """Entry peer to coordinator (owner of the query's key): open a subscription for ``subscriber``.

    ``since``: the stamp from which on triples count; 0: from now on.  ``salt``: 0, or an isolation nonce: equal queries
    are evaluated together only if their salts are equal.  ``owner``: the owning client (:class:`Subscribe` of
    :mod:`p2prdf.wire.contract`).
    """

    request: Number
    key: Identity
    query: Query
    algorithm: AlgorithmName
    per_event: bool
    subscriber: Contact
    lease_seconds: LeaseSeconds
    since: ClippedStamp = 0
    salt: Number = 0
    hops: Number = 0
    owner: str = ""


@message(17, added="reads")
class SubscriptionOpened(Message):
    """Coordinator to entry peer: the query is live at all its owners and counts triples from ``since`` on.

    ``opened``: the stamp of its record, before which it was not live.  ``epoch``: the current epoch of deliveries;
    earlier epochs of this coordinator have smaller numbers.  ``reads`` and ``writes``: the graphs that the query reads
    and writes (:class:`p2prdf.rdf.reach.Reach`).
    """

    request: Number
    subscription: Identity
    since: PassingStamp
    lease_seconds: LeaseSeconds
    names: Strings
    order: Order
    opened: PassingStamp = 0
    epoch: Identity = 0
    reads: Strings = ()
    writes: Strings = ()


@message(18)
class SubscriptionRefused(Message):
    """Coordinator to entry peer: the new subscription is refused, or an existing one is unknown."""

    request: Number
    code: str
    text: str


@message(19, added="owner")
class AttachSubscription(Message):
    """Entry peer to coordinator: deliver this subscription here, except the solutions in ``have``.

    ``have``: identities of acknowledged solutions, as in Delivered.  ``owner``: the asking client; "": clients are not
    identified.  Another client than the owner is refused, in this and the following messages.
    """

    request: Number
    subscription: Identity
    subscriber: Contact
    have: Identities
    hops: Number = 0
    owner: str = ""


@message(20, added="owner")
class CloseSubscription(Message):
    """Entry peer to coordinator: end this subscription.  ``owner`` as in AttachSubscription."""

    request: Number
    subscription: Identity
    subscriber: Contact
    hops: Number = 0
    owner: str = ""


@message(21)
class SubscriptionClosed(Message):
    """Coordinator to entry peer: the subscription has ended, or is delivered elsewhere.

    It ended because of ``request`` or (0) by its lease, by the coordinator, or by another client.  ``why``: the reason
    if neither a client nor the lease ended it.  ``elsewhere``: it lives, but the deliveries that ``request`` opened or
    attached go to another peer from now on.
    """

    request: Number
    subscription: Identity
    elsewhere: bool = False
    why: str = ""


@message(22)
class RenewSubscriptions(Message):
    """Entry peer to coordinator: the subscribers are connected; renew the leases.

    ``requests``: for each subscription the request that opened or attached it, to the entry peer's knowledge.  If the
    coordinator delivers to another peer, it answers SubscriptionClosed: repeated attachments, and the messages about
    them, may overtake each other.
    """

    subscriber: Contact
    subscriptions: Identities
    requests: Numbers
    hops: Number = 0


@message(56, added="owner")
class ExplainSubscription(Message):
    """Entry peer to coordinator: ask how a subscription is evaluated, and where rows wait.

    ``owner`` as in AttachSubscription.
    """

    request: Number
    asker: Contact
    subscription: Identity
    hops: Number = 0
    owner: str = ""


@message(57)
class Explanation(Message):
    """Coordinator to entry peer: the explanation as JSON text; with a ``code``, the reason of a refusal."""

    request: Number
    json: str
    code: str = ""
    text: str = ""


@message(23, added="mark")
class Deliver(Message, Batch):
    """Coordinator to entry peer: solutions of one subscription, numbered from ``first`` on.

    Numbers count from 1 without gaps within an ``epoch``, a random number of one run of deliveries.  An epoch begins
    when a peer becomes coordinator or a subscriber attaches.  Unacknowledged solutions are delivered again in the next
    epoch. ``lost``: number of solutions that were dropped right before ``first``, because the subscriber's log was full
    or they were too old.  A gap is always reported, if necessary without solutions.  ``mark``: the last mark of a
    settled subscription before these solutions (:class:`BookmarksResponse`); 0: none in this epoch.
    """

    subscription: Identity
    first: Number
    lost: Number
    identity: Identities
    born: DeliveredStamps
    bindings: TermColumns
    epoch: Identity = 0
    mark: PassingStamp = 0


@message(24, added="owner")
class Delivered(Message):
    """Entry peer to coordinator: the subscriber acknowledges these solutions; send more.

    ``owner`` as in AttachSubscription.
    """

    subscriber: Contact
    request: Number
    subscription: Identity
    identity: Identities
    hops: Number = 0
    owner: str = ""


@message(30)
class SettledAnswers(Message):
    """Coordinator to entry peer: all replicas know the acknowledgement ``request``.

    Its solutions are not delivered again.  Deliveries that are in flight may still arrive: in ``epoch`` their numbers
    are at most ``sent``.
    """

    request: Number
    subscription: Identity
    epoch: Identity = 0
    sent: Number = 0


# --- peer to peer: between the replicas of a home ------------------------------------------------


@message(26, added="owner")
class KeepSubscription(Message):
    """Coordinator's replica to another: the record of a subscription and of its group.

    ``opener`` and ``opening`` name the request that opened it; repeated, it leads to the same subscription.  ``order``:
    the orders of its leaves' plans, concatenated.  ``since_min``, ``since_max`` and ``youngest`` (the maximum
    ``oldest`` of any solution) only grow apart, so records of a group can be merged in any order.  ``changed`` is the
    stamp of the variable part, the place of delivery: the later record counts.  ``owner``: the client that opened it;
    "": clients are not identified, and any may attach.
    """

    group: Identity
    query: Query
    algorithm: AlgorithmName
    per_event: bool
    order: Order
    opener: Identity
    opening: Number
    since_min: Stamp
    since_max: Stamp
    youngest: Stamp
    subscription: Identity
    since: Stamp
    lease_seconds: LeaseSeconds
    subscriber: Contact
    request: Number
    changed: Stamp
    salt: Number = 0
    owner: str = ""

    def _check(self, _: Dictionary) -> None:
        query, first = self.query, 0
        for leaf in (query,) if isinstance(query, ConjunctiveQuery) else query.leaves:
            part = self.order[first : first + len(leaf.patterns)]
            check.permutation(tuple(position - first for position in part), len(leaf.patterns))
            first += len(leaf.patterns)
        if first != len(self.order):
            raise RemoteProtocolError(f"an order of {len(self.order)} patterns for a query of {first}")


@message(27)
class EndSubscription(Message):
    """Coordinator's replica to another: these subscriptions ended at the stamps ``times``, for good.

    ``groups``: for each subscription the group that ended with it, or 0.  Subscription 0: only the group's end is
    reported.
    """

    subscriptions: Identities
    groups: Identities
    times: Stamps


@message(28)
class KeepAnswers(Message, Batch):
    """Coordinator's replica to another: unacknowledged solutions of a subscription.

    ``told``: the subscriber receives them as soon as enough replicas have them.
    """

    subscription: Identity
    identity: Identities
    born: BirthStamps
    bindings: TermColumns
    told: bool = False


@message(55)
class KeepReported(Message):
    """Coordinator's replica to another: all window reports up to this event time are made and stored.

    ``upto``: milliseconds since 1970.  Elements that only those reports needed are forgotten.  For a window by count,
    ``number`` is that of the last report and ``last`` a hash of the triple of its last element; else both are 0.
    """

    subscription: Identity
    upto: EventTime
    number: Number = 0
    last: Number = 0


@message(60)
class KeepEnds(Message, Batch):
    """Entry peer to all replicas of a stream's key, and between these: a publisher closed the stream.

    For each end the hash of the stream, the publisher, the ``opening`` that was closed (0 between replicas: it does not
    matter any more), the earliest event time, and the event time up to which all elements are published, in
    milliseconds since 1970.
    """

    streams: Numbers
    publishers: Numbers
    openings: Numbers
    began: ElementTimes
    upto: ElementTimes


@message(52)
class KeepRetracted(Message, Batch):
    """Coordinator's replica to another: these solutions of a leaf of a standing query are retracted.

    ``youngest``: the stamp of the retractions, the maximum stamp of all solutions of the leaf.
    """

    leaf: Identity
    youngest: Stamp
    identity: Identities


@message(29)
class KeepAcknowledged(Message):
    """Coordinator's replica to another: the subscriber has acknowledged these solutions.

    The receiver may not have stored them.  ``lost``: instead, the solutions were dropped, and the subscriber has not
    been informed yet.
    """

    subscription: Identity
    identity: Identities
    lost: bool = False


@message(31)
class NamesRequest(Message):
    """Coordinator's replica to another: ask for the state of unknown groups and subscriptions.

    ``kinds``: 0 for a group, 1 for a subscription.
    """

    identities: Identities
    kinds: NameKinds


@message(41)
class NamesResponse(Message):
    """Answer to NamesRequest: a :class:`p2prdf.continuous.home.Known` for each; records and ends go first."""

    identities: Identities
    kinds: NameKinds
    known: Annotated[Column, column(check.KNOWN_MAX)]


# --- peer to peer: overlay -----------------------------------------------------------------------


@message(32)
class Acknowledge(Message):
    """Receiver to sender: these messages have been accepted and need no repetition."""

    transfers: Numbers


@message(33)
class NotOwner(Message):
    """Receiver to sender: other peers are closer to the keys; the message has been forwarded to them.

    ``before``: empty, or for each contact the last peer before it, so that the contact owns all keys between the two
    (Chord).
    """

    contacts: Contacts
    before: Contacts = ()

    def _check(self, _: Dictionary) -> None:
        if self.before and len(self.before) != len(self.contacts):
            raise RemoteProtocolError(f"{len(self.before)} peers before {len(self.contacts)} others")


@message(34)
class FindNode(Message):
    """Lookup, driver to driver: ask for the known peers closest to ``key``."""

    request: Number
    key: Identity


@message(35)
class Nodes(Message):
    """Answer to FindNode, closest first, the answering peer included."""

    request: Number
    contacts: Contacts


@message(94)
class Traced(Message, Batch):
    """Precedes a message of type ``kind`` with traced rows (:mod:`p2prdf.peer.network.tracing`).

    For each trace the publication stamp of its rows, the trace identifier (128 bits in ``high`` and ``low``) and the
    message's span.  Before a Deliver, ``answers`` are identities of traced solutions, else 0.  Not acknowledged: a loss
    affects the trace only.
    """

    kind: Annotated[int, number(4)]
    stamps: Annotated[Column, column(role=Role.PASSING, rows_max=TRACES_MAX)]
    high: Numbers
    low: Numbers
    parents: Numbers
    answers: Numbers

    def _check(self, _: Dictionary) -> None:
        if not self.kind:
            raise RemoteProtocolError("traces of messages of kind 0")


@message(48)
class PeerHello(Declared):
    """First frame on a connection between peers: the sender, and the key of the expected receiver."""

    sender: Contact
    receiver_key: Identity
    version: Number = 8


@message(49)
class Envelope(Declared):
    """The envelope of a message between peers.

    ``transfer``: 0 for a message that may be lost, else the sender's number for it.  ``clock``: the sender's hybrid
    logical clock.
    """

    transfer: Number
    clock: Stamp
    message: Annotated[Message, one_of(Message)]


# --- client to node ------------------------------------------------------------------------------


@message(64, added="speaks_for")
class ClientHello(ClientMessage):
    """First frame of a client.

    ``speaks_for``: the client on whose behalf the sender acts; its own certificate must permit that.
    """

    version: Number = CLIENT_VERSION
    agent: str = ""
    speaks_for: str = ""


@message(65)
class ClientWelcome(ClientMessage):
    """Node to client: the node, the maximum number of pending publications, and alternative nodes."""

    peer: Contact
    publications_max: Number
    version: Number = CLIENT_VERSION
    others: Contacts = ()


@message(66, added="deletions")
class ClientPublish(ClientMessage, Batch):
    """Publish triples.  The publisher numbers events: an equal number means the same event.

    ``level``: when to answer with ClientPublished, ``indexed`` or ``accepted``.  ``removed``: delete the triples
    instead. ``after``: the latest stamp that the publisher knows; the stamps of the triples will be later.  ``graph``:
    a column with the graph of each triple ("": default graph); without it all triples belong to the default graph.
    ``by_content``: events have no numbers (``first_event`` is 0), but are identified by content: the same statement of
    the same publisher is the same event.

    ``times``: a column of event times in milliseconds since 1970.  With it, the triples are elements of the streams
    named by ``graph``; they have numbers and cannot be deleted.

    ``atomic``: a transaction, of which everything or nothing takes effect, at one stamp.  Its first ``deletions``
    triples are deleted, the others published; no statement is among both.

    ``versions``: a column of stamps; a transaction is refused unless the subject of each statement is unchanged since
    its stamp (0: it does not matter).  ``attempt``: equal in all repetitions of one such transaction, and random.
    """

    request: Number
    publisher: Identity
    first_event: Number
    s: Terms
    p: Terms
    o: Terms
    level: str = INDEXED
    removed: bool = False
    after: PassingStamp = 0
    graph: OptionalTerms = ()
    by_content: bool = False
    times: OptionalNumbers = ()
    deletions: Number = 0
    atomic: bool = False
    versions: OptionalNumbers = ()
    attempt: Number = 0

    def _check(self, _: Dictionary) -> None:
        if self.by_content and self.first_event:
            raise RemoteProtocolError(f"first event {self.first_event} of events that have no numbers")


@message(93)
class ClientTrace(ClientMessage):
    """Precedes the ClientPublish of the same ``request``, which is to be traced.

    The context is a W3C ``traceparent`` (:mod:`p2prdf.wire.trace_context`).  Not answered.
    """

    request: Number
    traceparent: str


@message(88)
class ClientHeartbeat(ClientMessage):
    """All elements of a publisher with times up to ``upto`` are acknowledged; none is before ``began``.

    Times are milliseconds since 1970; ``stream`` is an IRI.  ``opening``: a random number, drawn when the publisher
    opened the stream, which it may close and open again.  Not answered.  Repeated about every second as long as
    watermarks should wait for the publisher (:mod:`p2prdf.peer.progress.event_watermarks`).
    """

    stream: StreamName
    publisher: Identity
    began: ElementTime
    upto: ElementTime
    opening: Number


@message(89)
class ClientEndStream(ClientMessage):
    """A publisher closes an ``opening`` of a stream: watermarks wait for it no more.

    Other fields as in ClientHeartbeat.  Answered with ClientDone when enough nodes know it.  Repetition is
    harmless.
    """

    request: Number
    stream: StreamName
    publisher: Identity
    began: ElementTime
    upto: ElementTime
    opening: Number


@message(67)
class ClientPublished(ClientMessage):
    """The requested level is reached, or a higher one; ``time`` is the triples' publication stamp."""

    request: Number
    time: PassingStamp


@message(68, added="once")
class ClientSubscribe(ClientMessage):
    """Subscribe to a query in SPARQL.  ``since`` and ``salt`` as in OpenSubscription.

    ``ordered``: add columns with the sort keys of ORDER BY behind the others.  ``once``: a one-time query: the client
    ends the subscription when it has received all current solutions.  ``settled``: settled delivery, of all triples
    from the beginning on.  ``cohort``: the queries of a cohort, without ``query``.  ``by_default``: the node may choose
    settled delivery, and then ignores ``since``.
    """

    request: Number
    query: str
    algorithm: AlgorithmName
    per_event: bool
    lease_seconds: float
    since: PassingStamp = 0
    salt: Number = 0
    ordered: bool = False
    once: bool = False
    settled: bool = False
    cohort: Strings = ()
    by_default: bool = False


@message(69)
class ClientSubscribed(ClientMessage):
    """The query is live; its solutions follow as ClientRows.

    ``opened`` as in SubscriptionOpened.  ``settled``: whether a new subscription has settled delivery.
    """

    request: Number
    subscription: Identity
    since: PassingStamp
    names: Strings
    order: Order
    opened: PassingStamp = 0
    settled: bool = False


@message(70)
class ClientAttach(ClientMessage):
    """Attach to an existing subscription.  ``have``: identities of acknowledged solutions."""

    request: Number
    subscription: Identity
    have: Identities


@message(71)
class ClientRows(ClientMessage, Batch):
    """Solutions of a subscription, as in Deliver."""

    subscription: Identity
    first: Number
    lost: Number
    identity: Identities
    born: DeliveredStamps
    bindings: TermColumns
    epoch: Identity = 0


@message(82)
class ClientWantBookmarks(ClientMessage):
    """Request bookmarks of a subscription that is delivered to this client.  Not answered.

    ``urgent`` as in :class:`p2prdf.wire.contract.WantBookmarks`.
    """

    subscription: Identity
    urgent: bool = False


@message(83)
class ClientBookmark(ClientMessage):
    """All solutions of a subscription born at or before ``time`` have been sent.

    Solutions of publications that were not acknowledged at that time are excepted.
    """

    subscription: Identity
    time: PassingStamp


@message(72)
class ClientAcknowledge(ClientMessage):
    """The subscriber acknowledges these solutions."""

    request: Number
    subscription: Identity
    identity: Identities


@message(79)
class ClientEnded(ClientMessage):
    """A subscription is not delivered to this client any more; ``code`` as in :mod:`p2prdf.errors`."""

    subscription: Identity
    code: str
    text: str


@message(73)
class ClientUnsubscribe(ClientMessage):
    """End a subscription."""

    request: Number
    subscription: Identity


@message(80)
class ClientPing(ClientMessage):
    """Ask whether the node is alive; sent by a client after some silence."""

    request: Number


@message(75)
class ClientStatus(ClientMessage):
    """Ask for the node's status."""

    request: Number


@message(86)
class ClientExplain(ClientMessage):
    """Explain a subscription or, if that is 0, how a query would be evaluated.  No subscription is opened."""

    request: Number
    subscription: Identity
    query: str
    algorithm: AlgorithmName
    per_event: bool


@message(91)
class ClientListSubscriptions(ClientMessage):
    """Ask for a page of the subscriptions that the node coordinates, with numbers above ``after``."""

    request: Number
    after: PassingStamp = 0


@message(95)
class ClientExpel(ClientMessage):
    """Expel a member, or readmit it (not ``expelled``); member 0: only list the known decisions."""

    request: Number
    member: Number
    expelled: bool = True


@message(97)
class ClientListIntroduced(ClientMessage):
    """Ask for a page of statements that a member introduced at this node, records above ``after``.

    With ``statements`` (three texts each; the predicate qualified by the graph): the recorded history of each.
    """

    request: Number
    member: Number
    after: PassingStamp
    statements: Strings = ()

    def _check(self, _: Dictionary) -> None:
        if len(self.statements) % 3:
            raise RemoteProtocolError(f"{len(self.statements)} texts of statements; each has three")


@message(131)
class ClientExport(ClientMessage):
    """Begin an export of all statements, or of the elements of a stream (empty: none), as of one stamp.

    Answered with ClientReply: the number of the export and its stamp.
    """

    request: Number
    stream: StreamName


@message(132)
class ClientReadExport(ClientMessage):
    """Read the lines of an export from places after ``after``; 0: from the beginning."""

    request: Number
    export: Identity
    after: Number


@message(133)
class ClientExportPage(ClientMessage):
    """All lines of an export from the requested place up to ``last_place``, in no order.

    The last page has the greatest place.
    """

    request: Number
    last_place: Number
    lines: Strings


@message(134)
class ClientEndExport(ClientMessage):
    """End an export: its nodes need not keep it any longer."""

    request: Number
    export: Identity


@message(123)
class ClientDone(ClientMessage):
    """The request is done.

    ClientPing: the node is alive.  ClientUnsubscribe: the subscription has ended.  ClientEndStream: enough nodes know
    that the publisher has closed the stream.  ClientAcknowledge: the solutions never return, from any node.
    """

    request: Number


@message(124)
class ClientReply(ClientMessage):
    """The requested information as JSON text.

    The keys are those of docs/reference/operations.md (ClientStatus, ClientExpel), docs/reference/explain.md
    (ClientExplain), docs/reference/http.md (ClientListSubscriptions), and of
    :mod:`p2prdf.peer.replication.introductions` (ClientListIntroduced).  ClientExport: ``export`` and ``stamp``.
    """

    request: Number
    json: str


@message(77, added="construct")
class ClientError(ClientMessage):
    """A request failed, or (request 0) the node is about to close the connection.

    ``retry_after``: seconds after which a busy node may have room; else 0.  ``construct``, ``line`` and ``column``: the
    refused part of a query and its position (from 1; 0: unknown); ``text`` contains them, too.
    """

    request: Number
    code: str
    text: str
    retry_after: float = 0.0
    construct: str = ""
    line: Number = 0
    column: Number = 0


def client_error(error: P2PRDFError, request: int = 0) -> ClientError:
    """Return an error as a message to a client."""
    if isinstance(error, Busy):
        return ClientError(request, error.code, error.reason, error.retry_after)
    if isinstance(error, QueryRefused):
        place = error.line or 0, error.column or 0
        return ClientError(request, error.code, str(error), 0.0, error.construct, *place)
    return ClientError(request, error.code, str(error))


def error_of(message: ClientError) -> P2PRDFError:
    """Return the error in a message to a client."""
    m = message
    return error_from_code(m.code, m.text, m.retry_after, construct=m.construct, line=m.line, column=m.column)


IN_FRAMES: Final = (Message, ClientMessage, PeerHello, Envelope)
"""The classes of the messages in frames."""
