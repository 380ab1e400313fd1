"""Every exception of p2prdf.

::

    P2PRDFError
    ├── LocalProtocolError        the caller used this library or peer wrongly
    │   ├── QueryRefused          a query that is malformed or not supported (position and construct)
    │   ├── DataRefused           RDF that cannot be taken (line number and reason)
    │   ├── InterestOverflow      an interest that needs more than its bound allows
    │   ├── LateElement           an element of a stream at or before a time up to which all were promised to be there
    │   ├── TargetMoved           a replica's target is not where its cursor was
    │   ├── TargetRefused         a replica's target, or the way to it, is not allowed or says no
    │   ├── NotAllowed            what the client's rights do not allow, or another client's
    │   ├── SubscriptionGone      a subscription that was ended, or whose lease ran out
    │   └── TokenRefused          a resume token that is damaged or forged
    │       └── TokenMismatch     a resume token of another query than the one asked for
    ├── RemoteProtocolError       a peer or client sent what the protocol forbids
    │   └── FalseDigest           a peer sent a term with the digest of another term
    ├── Busy                      a bound is reached; try again after ``retry_after`` seconds
    └── Unavailable               a node cannot be reached or left the conversation
        ├── NodeLeaving           a node is about to stop: go on at another one
        ├── ClustersMerging       two clusters have met: a query would be answered in parts until all data has moved
        └── TlsRefused            no TLS with the other side: its certificate, or ours, is not accepted

A message always names the input and the reason.  ``code`` is the stable name that travels
on the wire and in ``--json`` output.
"""

from __future__ import annotations

import re

__all__ = [
    "Busy",
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

    ``construct`` names what is not supported or wrong; ``line`` and ``column`` (both from 1)
    say where, when known.
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
    """RDF data was refused; ``line`` (from 1) says where, when known."""

    code = "data-refused"

    def __init__(self, reason: str, *, source: str = "", line: int | None = None):
        self.reason = reason
        self.source = source
        self.line = line
        place = ":".join(part for part in (source, str(line) if line is not None else "") if part)
        super().__init__(f"{place}: {reason}" if place else reason)


class InterestOverflow(LocalProtocolError):
    """An interest's patterns have more matches at once than its bound allows; its replica goes no further.

    ``interest``: its name among several, if it has one.
    """

    code = "interest-overflow"
    interest = ""


class LateElement(LocalProtocolError):
    """An element of a stream comes at or before a time up to which its publisher has said that all are there.

    ``time`` and ``promised``: both event times, in milliseconds since 1970.
    """

    code = "late-element"

    def __init__(self, stream: str, time: int, promised: int):
        self.stream = stream
        self.time = time
        self.promised = promised
        super().__init__(
            f"an element of {stream} at {time / 1000:.3f} s since 1970 comes late: its publisher has said that all up"
            f" to {promised / 1000:.3f} s are there; say with lateness how far elements may be out of order, and"
            " publish those of one time together"
        )


class NotAllowed(LocalProtocolError):
    """The client lacks a permission, or the subscription belongs to another client."""

    code = "not-allowed"


class SubscriptionGone(LocalProtocolError):
    """There is no such subscription: it was ended, or nobody renewed its lease.  Its answers are lost."""

    code = "subscription-gone"


class TargetMoved(LocalProtocolError):
    """A replica's target has another cursor than the replica: someone else wrote to it, or it was set back.

    The replica stops; compare and repair it.
    """

    code = "target-moved"


class TargetRefused(LocalProtocolError):
    """A replica's target said no, or must not be asked: its host is not on the operator's list."""

    code = "target-refused"


class TokenRefused(LocalProtocolError):
    """A resume token is damaged, of a version not known here, or made for another query."""

    code = "token-refused"


class TokenMismatch(TokenRefused):
    """A resume token belongs to a subscription of another query than the one asked for."""

    code = "token-mismatch"


class RemoteProtocolError(P2PRDFError):
    """The other side violated the protocol; the connection is closed."""

    code = "remote-protocol"


class FalseDigest(RemoteProtocolError):
    """A frame or record names a term with the digest of another term; the connection is closed.

    ``texts``: the terms whose digests are false.  A correct node never sends one: find out which node sent it, and
    see "A bad member" in docs/explanation/security.md.
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
    """A node was told to stop and takes nothing new; others go on, and subscriptions can be attached there."""

    code = "leaving"

    def __init__(self, reason: str = "the node was told to stop: go on at another one"):
        super().__init__(reason)


class ClustersMerging(Unavailable):
    """Two clusters that were begun apart have met; one-time queries are refused until their data is in one place.

    Ask again some seconds later.  Subscriptions and publications are not refused.
    """

    code = "clusters-merging"


class StampRefused(P2PRDFError):
    """A stamp lies further in the future than a node's clock allows: one of the two clocks is wrong.

    Set the wrong clock right; a client that was told the stamp forgets it and publishes again.
    """

    code = "stamp-refused"


class TlsRefused(Unavailable):
    """TLS failed: one side does not trust the other, or the certificate has another name.

    ``reason``: in a word, by which such refusals are counted; empty where the error was told by the other side.
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


_AGAIN = re.compile(r"(.*) \(try again in ([0-9.e+-]+) s\)", re.DOTALL)


def error_from_code(
    code: str, text: str, retry_after: float = 0.0, *, construct: str = "", line: int = 0, column: int = 0
) -> P2PRDFError:
    """Rebuild an error that travelled as its code, its text and the fields of :class:`Busy` or :class:`QueryRefused`.

    ``retry_after``: 0 if the text says it.  ``line``: 0 if it is not known.
    """
    if code == QueryRefused.code:
        place = (line, column) if line else (None, None)
        around = str(QueryRefused("\0", construct=construct, line=place[0], column=place[1])).split("\0")
        reason = text.removeprefix(around[0]).removesuffix(around[1])
        return QueryRefused(reason, construct=construct, line=place[0], column=place[1])
    if code == DataRefused.code:
        return DataRefused(text)
    if code == Busy.code:
        if retry_after > 0:
            return Busy(text, retry_after=retry_after)
        told = _AGAIN.fullmatch(text)
        return Busy(told[1], retry_after=float(told[2])) if told else Busy(text)
    return _BY_CODE.get(code, P2PRDFError)(text)
