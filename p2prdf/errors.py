"""Every exception of p2prdf.

::

    P2PRDFError
    ├── LocalProtocolError        the caller used this library or peer wrongly
    │   ├── QueryRefused          a query is malformed or not supported (position and construct)
    │   ├── DataRefused           RDF data is invalid or not supported (line number and reason)
    │   ├── InterestOverflow      an interest needs more than its bound allows
    │   ├── LateElement           an element of a stream is not later than the promised watermark
    │   ├── TransactionTooLarge   a transaction has more statements, or more text, than one may have
    │   ├── ChangedMeanwhile      a subject has changed since the version that a transaction depends on
    │   ├── TargetMoved           the cursor of a replica's target was changed by another writer
    │   ├── TargetRefused         a replica's target, or the way to it, is not allowed or refuses
    │   ├── NotAllowed            a permission is missing, or the subscription belongs to another client
    │   ├── SubscriptionGone      a subscription was ended, or its lease ran out
    │   └── TokenRefused          a resume token is damaged or forged
    │       └── TokenMismatch     a resume token belongs to another query
    ├── RemoteProtocolError       a peer or client violated the protocol
    │   └── FalseDigest           a peer sent a term with the digest of another term
    ├── Busy                      a bound is reached; try again after ``retry_after`` seconds
    ├── StampRefused              a stamp lies too far in the future: a clock is wrong
    └── Unavailable               a node cannot be reached or closed the connection
        ├── NodeLeaving           a node is about to stop: continue at another one
        ├── ClustersMerging       two clusters are merging: a query would have partial results
        └── TlsRefused            no TLS with the other side: its certificate, or ours, is not accepted

A message always names the input and the reason.  ``code`` is the stable name on the wire and in ``--json`` output.
"""

from __future__ import annotations

import re

__all__ = [
    "Busy",
    "ChangedMeanwhile",
    "ClustersMerging",
    "DataRefused",
    "FalseDigest",
    "InterestOverflow",
    "LateElement",
    "LocalProtocolError",
    "NodeLeaving",
    "NotAllowed",
    "P2PRDFError",
    "QueryRefused",
    "RemoteProtocolError",
    "StampRefused",
    "SubscriptionGone",
    "TargetMoved",
    "TargetRefused",
    "TlsRefused",
    "TokenMismatch",
    "TokenRefused",
    "TransactionTooLarge",
    "Unavailable",
    "error_from_code",
]


class P2PRDFError(Exception):
    """Base of all errors raised on purpose by p2prdf."""

    code = "error"


class LocalProtocolError(P2PRDFError):
    """The local caller violated the contract."""

    code = "local-protocol"


class QueryRefused(LocalProtocolError):
    """A query was refused at registration.

    ``construct`` names the unsupported or invalid part; ``line`` and ``column`` (both from 1) give its position, if
    known.
    """

    code = "query-refused"

    def __init__(self, reason: str, *, construct: str = "", line: int | None = None, column: int | None = None):
        self.reason = reason
        self.construct = construct
        self.line = line
        self.column = column
        where = f" at line {line}, column {column}" if line is not None else ""
        what = f"{construct}: " if construct else ""
        super().__init__(f"{what}{reason}{where}")


class DataRefused(LocalProtocolError):
    """RDF data was refused; ``line`` (from 1) is its position, if known."""

    code = "data-refused"

    def __init__(self, reason: str, *, source: str = "", line: int | None = None):
        self.reason = reason
        self.source = source
        self.line = line
        place = ":".join(part for part in (source, str(line) if line is not None else "") if part)
        super().__init__(f"{place}: {reason}" if place else reason)


class InterestOverflow(LocalProtocolError):
    """An interest's patterns have more matches at once than its bound allows; its replica stops.

    ``interest``: its name among several, if it has one.
    """

    code = "interest-overflow"
    interest = ""


class LateElement(LocalProtocolError):
    """An element of a stream is not later than its publisher's watermark.

    The watermark promised that no more such elements follow.  ``time`` and ``promised``: both event times, in
    milliseconds since 1970.
    """

    code = "late-element"

    def __init__(self, stream: str, time: int, promised: int):
        self.stream = stream
        self.time = time
        self.promised = promised
        super().__init__(
            f"an element of {stream} at {time / 1000:.3f} s since 1970 is late: its publisher has promised that all up"
            f" to {promised / 1000:.3f} s are published; set a larger lateness, and"
            " publish elements of one time together"
        )


class TransactionTooLarge(LocalProtocolError):
    """A transaction has more statements, or more text, than one may have; nothing of it was sent."""

    code = "transaction-too-large"


class ChangedMeanwhile(LocalProtocolError):
    """A subject may have changed since the version that a conditional transaction depends on; nothing was published.

    ``subject``: its IRI or blank node; ``expected``: the stamp that the transaction named; ``present``: a stamp at or
    after the last change.  ``repeated``: the answer to an earlier attempt was lost, so that attempt may have taken
    effect, and be the change.  Read the subject again and decide anew.
    """

    code = "changed-meanwhile"

    def __init__(self, subject: str, expected: int, present: int, *, repeated: bool = False):
        self.subject = subject
        self.expected = expected
        self.present = present
        self.repeated = repeated
        hint = "an earlier attempt may have taken effect; " if repeated else ""
        super().__init__(
            f"{subject} may have changed: expected as of stamp {expected}, changed up to stamp {present};"
            f" {hint}read it again and decide anew"
        )


class NotAllowed(LocalProtocolError):
    """The client lacks a permission, or the subscription belongs to another client."""

    code = "not-allowed"


class SubscriptionGone(LocalProtocolError):
    """There is no such subscription: it was ended, or its lease ran out.  Its solutions are lost."""

    code = "subscription-gone"


class TargetMoved(LocalProtocolError):
    """A replica's target has another cursor: another program wrote to it, or it was set back.

    The replica stops; compare and repair it.
    """

    code = "target-moved"


class TargetRefused(LocalProtocolError):
    """A replica's target refused a request, or its host is not on the operator's list."""

    code = "target-refused"


class TokenRefused(LocalProtocolError):
    """A resume token is damaged, of an unknown version, or belongs to another query."""

    code = "token-refused"


class TokenMismatch(TokenRefused):
    """A resume token belongs to a subscription to another query, or with the other delivery."""

    code = "token-mismatch"


class RemoteProtocolError(P2PRDFError):
    """The other side violated the protocol; the connection is closed."""

    code = "remote-protocol"


class FalseDigest(RemoteProtocolError):
    """A frame or record names a term with the digest of another term; the connection is closed.

    ``texts``: the terms with a false digest.  A correct node never sends one: find out which node sent it, and see "A
    bad member" in docs/explanation/security.md.
    """

    code = "false-digest"

    def __init__(self, text: str, texts: tuple[str, ...] = ()):
        self.texts = texts
        super().__init__(text)


class Busy(P2PRDFError):
    """A stated bound is reached; the same call may succeed after ``retry_after`` seconds."""

    code = "busy"

    def __init__(self, reason: str, *, retry_after: float = 1.0):
        self.reason = reason
        self.retry_after = retry_after
        super().__init__(f"{reason} (try again in {retry_after:g} s)")


class Unavailable(P2PRDFError):
    """A node cannot be reached, did not answer in time, or closed the connection."""

    code = "unavailable"


class NodeLeaving(Unavailable):
    """A node is stopping and accepts nothing new; continue, and attach subscriptions, at another one."""

    code = "leaving"

    def __init__(self, reason: str = "the node is stopping: connect to another one"):
        super().__init__(reason)


class ClustersMerging(Unavailable):
    """Two separate clusters are merging; one-time queries are refused until their data is in one place.

    Ask again some seconds later.  Subscriptions and publications are not refused.
    """

    code = "clusters-merging"


class StampRefused(P2PRDFError):
    """A stamp lies further in the future than a node's clock allows: one of the two clocks is wrong.

    Set the wrong clock right; a client that received this error forgets the stamp and publishes again.
    """

    code = "stamp-refused"


class TlsRefused(Unavailable):
    """TLS failed: one side does not trust the other, or the certificate has another name.

    ``reason``: a short code under which such refusals are counted; empty if the other side reported the error.
    """

    code = "tls-refused"

    def __init__(self, text: str, *, reason: str = ""):
        self.reason = reason
        super().__init__(text)


_BY_CODE: dict[str, type[P2PRDFError]] = {
    kind.code: kind
    for kind in (
        P2PRDFError, LocalProtocolError, InterestOverflow, NotAllowed, StampRefused, SubscriptionGone, TargetMoved,
        TargetRefused, TlsRefused, TokenMismatch, TokenRefused, RemoteProtocolError, FalseDigest, Unavailable,
        NodeLeaving, ClustersMerging,
    )
}  # fmt: skip


_CHANGED = re.compile(r"(.*) may have changed: expected as of stamp (\d+), changed up to stamp (\d+);.*", re.DOTALL)
_AGAIN = re.compile(r"(.*) \(try again in ([0-9.e+-]+) s\)", re.DOTALL)


def error_from_code(
    code: str, text: str, retry_after: float = 0.0, *, construct: str = "", line: int = 0, column: int = 0
) -> P2PRDFError:
    """Rebuild an error from its code, its text and the fields of :class:`Busy` or :class:`QueryRefused`.

    ``retry_after``: 0 if the text contains it.  ``line``: 0 if unknown.
    """
    if code == QueryRefused.code:
        place = (line, column) if line else (None, None)
        around = str(QueryRefused("\0", construct=construct, line=place[0], column=place[1])).split("\0")
        reason = text.removeprefix(around[0]).removesuffix(around[1])
        return QueryRefused(reason, construct=construct, line=place[0], column=place[1])
    if code == DataRefused.code:
        return DataRefused(text)
    if code == ChangedMeanwhile.code and (told := _CHANGED.fullmatch(text)):
        return ChangedMeanwhile(told[1], int(told[2]), int(told[3]))
    if code == Busy.code:
        if retry_after > 0:
            return Busy(text, retry_after=retry_after)
        told = _AGAIN.fullmatch(text)
        return Busy(told[1], retry_after=float(told[2])) if told else Busy(text)
    return _BY_CODE.get(code, P2PRDFError)(text)
