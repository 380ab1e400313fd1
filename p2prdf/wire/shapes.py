"""The layout of frames: numbers of message types, kinds of fields, and bounds.

Message classes declare their fields (:mod:`p2prdf.wire.messages`), columns by metadata and others by annotation.  This
module turns the declarations into one table, which encoder and decoder use.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Final, Generic, TypeVar, get_args

import numpy as np

from p2prdf.wire import messages as m

__all__ = [
    "BY_NUMBER", "CELLS_FREE", "COLUMNS_MAX", "ELEMENTS_MAX", "FEW", "FRAME_BYTES_MAX", "GROUPS", "IN_PARCELS",
    "MESSAGES_MAX", "NUMBERS", "PLANS_BYTES_MAX", "PLANS_MAX", "PLAN_BYTES_MAX", "PLAN_PARTS_MAX",
    "ROWS", "ROWS_MAX", "SHAPES", "TERMS_MAX", "TERM_BYTES_MAX", "VERSION", "WIDTHS", "Memo", "Shape",
]  # fmt: skip

VERSION: Final = 6
FRAME_BYTES_MAX: Final = 8 << 20
TERM_BYTES_MAX: Final = 4 << 20
"""Maximum size of one term: half a frame."""
TERMS_MAX: Final = 1 << 18
"""Maximum number of distinct terms per frame: more than ROWS_MAX rows of three columns contain."""
ROWS_MAX: Final = 1 << 16
"""Maximum number of rows per message."""
MESSAGES_MAX: Final = 1 << 13
"""Maximum number of messages per frame."""
ELEMENTS_MAX: Final = TERMS_MAX + (1 << 18)
"""Maximum number of parts of all msgpack arrays in a frame."""
CELLS_FREE: Final = 1 << 16
"""Number of cells in columns of equal values that every frame may have, besides one for each of its bytes."""
COLUMNS_MAX: Final = 256
"""Maximum number of bindings or constants of one message."""
PLAN_BYTES_MAX: Final = 64 << 10
PLAN_PARTS_MAX: Final = 1024
"""Maximum length of each list in a plan."""
PLANS_MAX: Final = 2048
"""Maximum number of plans in a memo."""
PLANS_BYTES_MAX: Final = 4 << 20

FEW: Final = 32
"""Up to so many rows a loop is faster than ten numpy calls."""
WIDTHS: Final = {
    width: (letter, np.dtype(f"<u{width}")) for width, letter in ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))
}
"""Letter of :mod:`struct` and numpy type of a packed column, by its width in bytes."""

NUMBERS: Final[dict[type, int]] = {
    m.IndexTriples: 1, m.IndexQuery: 2, m.Forward: 3, m.Answers: 4, m.GroupsGone: 5, m.KeepGroups: 6,
    m.GroupLeases: 7, m.RatesRequest: 8, m.RatesResponse: 9, m.AdvertiseIndexes: 10, m.IndexesRequest: 11,
    m.IndexesResponse: 12,
    m.LoadRequest: 13, m.LoadResponse: 14, m.HoldSubKeys: 15, m.KeyDepth: 25,
    m.OpenSubscription: 16, m.SubscriptionOpened: 17, m.SubscriptionRefused: 18, m.AttachSubscription: 19,
    m.CloseSubscription: 20, m.SubscriptionClosed: 21, m.RenewSubscriptions: 22, m.Deliver: 23,
    m.Delivered: 24, m.Acknowledge: 32, m.NotOwner: 33, m.FindNode: 34, m.Nodes: 35,
    m.KeepSubscription: 26, m.EndSubscription: 27, m.KeepAnswers: 28, m.KeepAcknowledged: 29,
    m.SettledAnswers: 30, m.NamesRequest: 31, m.NamesResponse: 41,
    m.PublicationsComplete: 36, m.BucketDigests: 37, m.IdentityList: 38, m.Fetch: 39, m.FetchDone: 40,
    m.MembersKnown: 42,
    m.RootDigests: 43, m.DigestDiff: 44, m.Leaving: 45,
    m.KeepRetracted: 52, m.WatchWatermarks: 46, m.LowWatermark: 47, m.StreamReport: 53, m.PublisherReport: 54,
    m.KeepReported: 55,
    m.KeepEnds: 60, m.RetentionReport: 61, m.ElementsForgotten: 62, m.AdvertiseKeywords: 63,
    m.BookmarksRequest: 50, m.BookmarksResponse: 51,
    m.PeerHello: 48, m.Envelope: 49, m.ExplainSubscription: 56, m.Explanation: 57, m.CountsRequest: 58,
    m.CountsResponse: 59,
    m.ClientHello: 64, m.ClientWelcome: 65, m.ClientPublish: 66, m.ClientPublished: 67,
    m.ClientSubscribe: 68, m.ClientSubscribed: 69, m.ClientAttach: 70, m.ClientRows: 71,
    m.ClientAcknowledge: 72, m.ClientUnsubscribe: 73, m.ClientUnsubscribed: 74, m.ClientStatus: 75,
    m.ClientStatusReply: 76, m.ClientError: 77, m.ClientSettled: 78, m.ClientEnded: 79,
    m.ClientPing: 80, m.ClientPong: 81, m.ClientWantBookmarks: 82, m.ClientBookmark: 83,
    m.ClientExplain: 86, m.ClientExplained: 87, m.ClientHeartbeat: 88, m.ClientEndStream: 89,
    m.ClientStreamEnded: 90, m.ClientListSubscriptions: 91, m.ClientSubscriptionsListed: 92, m.ClientTrace: 93,
    m.Traced: 94, m.ClientExpel: 95, m.ClientExpelled: 96, m.ClientListIntroduced: 97, m.ClientIntroduced: 98,
    m.Expulsions: 99, m.Introduced: 100, m.ClusterKnown: 101,
}  # fmt: skip
"""The number of each message type on the wire."""



@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """The fields of a class in their order.

    ``columns`` and ``tables`` are the indices of its columns and of its tuples of columns.  ``added``: the defaults of
    the fields that were added later.  An encoded message omits the longest run of last fields with their defaults, so
    records on disk from earlier versions stay readable.
    """

    kind: Any
    number: int
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    columns: tuple[int, ...]
    tables: tuple[int, ...]
    added: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The name of the class."""
        return str(self.kind.__name__)


def _shape(kind: Any, number: int) -> Shape:
    fields = dataclasses.fields(kind)
    kinds = [field.metadata.get("kind", "object") for field in fields]
    kinds = [str(field.type) if known == "object" else known for field, known in zip(fields, kinds, strict=True)]
    columns = [at for at, known in enumerate(kinds) if known in ("u32", "u64", "terms")]
    tables = [at for at, known in enumerate(kinds) if known in ("term_columns", "u64_columns")]
    names = tuple(field.name for field in fields)
    added = tuple(field.default for field in fields if field.metadata.get("added"))
    assert all(field.metadata.get("added") for field in fields[len(fields) - len(added) :]), "they are the last ones"
    return Shape(kind, number, names, tuple(kinds), tuple(columns), tuple(tables), added)


SHAPES: Final = {kind: _shape(kind, number) for kind, number in NUMBERS.items()}
BY_NUMBER: Final = {shape.number: shape for shape in SHAPES.values()}
IN_PARCELS: Final = {SHAPES[kind].number: SHAPES[kind] for kind in get_args(m.Message)}
"""The messages that may travel in a Envelope."""
GROUPS: Final = _shape(m.Groups, 0)
ROWS: Final = _shape(m.Rows, 0)


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """The most recently used plans: at most PLANS_MAX, and PLANS_BYTES_MAX encoded bytes."""

    def __init__(self) -> None:
        self._held: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: K) -> V | None:
        """Return the value of a key, None if there is none."""
        held = self._held.get(key)
        if held is None:
            return None
        self._held.move_to_end(key)
        return held[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Store the value of a new key; the least recently used ones are dropped if there is no room."""
        self._held[key] = value, size
        self._size += size
        while len(self._held) > PLANS_MAX or self._size > PLANS_BYTES_MAX:
            _, (_, size) = self._held.popitem(last=False)
            self._size -= size
