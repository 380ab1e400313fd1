"""Options of a read from the overlay: names and values."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from p2prdf.errors import LocalProtocolError
from p2prdf.publish.given import OptionReader
from p2prdf.tls import Tls

__all__ = ["BORN", "MARK", "ROWS_MAX", "SIGN", "ReadOptions", "reading_options"]

SIGN: Final = "sign"
BORN: Final = "born"
MARK: Final = "mark"
"""Optional columns besides those of the query."""
ROWS_MAX: Final = 10_000
"""Default bound on the rows of a stream's batch; its offset in Spark's log has 8 bytes for each."""
_ALGORITHMS: Final = ("csbv", "cqc")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """All options of a read; names in brackets are those of the options.

    ``names``: the query's columns. ``since``: ``now``, ``beginning`` or a time (seconds since the epoch); None: not
    given. ``lease_seconds``: how long a stream's subscription lives without a reader (``leaseSeconds``).
    ``rows_max``: bound on a stream's batch (``maxRowsPerBatch``). ``partitions``: number of parts of its rows.
    ``sign``, ``born``, ``mark``: whether these columns exist. ``settled``: whether batches end at marks; None: the
    default of the query. ``fail_on_loss``: whether lost solutions are an error (``failOnDataLoss``).
    ``timeout_seconds``: deadline of a one-time query, and of repeating a batch.
    """

    peers: tuple[str, ...]
    query: str
    names: tuple[str, ...]
    algorithm: str = "csbv"
    since: float | str | None = None
    lease_seconds: float = 86_400.0
    rows_max: int = ROWS_MAX
    partitions: int = 1
    sign: bool = False
    born: bool = False
    settled: bool | None = None
    mark: bool = False
    fail_on_loss: bool = True
    connect_seconds: float = 5.0
    timeout_seconds: float = 60.0
    reconnect_seconds: float = 60.0
    tls: Tls | None = None
    streaming: tuple[str, ...] = field(default=(), compare=False)
    """Names of the given options that apply to streams only."""


_OF_STREAMS: Final = (
    "since", "leaseSeconds", "maxRowsPerBatch", "partitions", "sign", "born", "settled", "mark", "failOnDataLoss",
)  # fmt: skip


def reading_options(given: Mapping[str, str]) -> ReadOptions:
    """Parse the options of a read.

    Raises LocalProtocolError, naming the option, and QueryRefused for the query.
    """
    from p2prdf.reasoning.ruled_query import parse_ruled

    reader = OptionReader(given)
    peers, query = reader.peers(), reader.text("query")
    if not query:
        raise LocalProtocolError("option query is missing: a SPARQL query (SELECT, ASK, CONSTRUCT)")
    settled = reader.flag("settled", default=False) if reader.text("settled") else None
    options = ReadOptions(
        peers=peers,
        query=query,
        names=parse_ruled(query).names,
        algorithm=reader.one_of("algorithm", "csbv", _ALGORITHMS),
        since=_since(reader.text("since"), settled=settled),
        lease_seconds=reader.number("leaseSeconds", 86_400.0, 1.0),
        rows_max=int(reader.number("maxRowsPerBatch", ROWS_MAX, 1)),
        partitions=int(reader.number("partitions", 1, 1)),
        sign=reader.flag(SIGN, default=False),
        born=reader.flag(BORN, default=False),
        settled=settled,
        mark=reader.flag(MARK, default=False),
        fail_on_loss=reader.flag("failOnDataLoss", default=True),
        connect_seconds=reader.number("connectSeconds", 5.0, 0.0),
        timeout_seconds=reader.number("timeoutSeconds", 60.0, 0.0),
        reconnect_seconds=reader.number("reconnectSeconds", 60.0, 0.0),
        tls=reader.tls(),
        streaming=tuple(name for name in _OF_STREAMS if reader.text(name)),
    )
    reader.refuse_others()
    if not options.names:
        raise LocalProtocolError("an ASK query has no columns to read; SELECT something where it is true")
    if options.mark and not settled:
        raise LocalProtocolError("option mark: only a stream with option settled = true has marks")
    for name, wanted in ((SIGN, options.sign), (BORN, options.born), (MARK, options.mark)):
        if wanted and name in options.names:
            raise LocalProtocolError(f"option {name}: the query has a column ?{name} of its own; rename that")
    return options


def _since(text: str, *, settled: bool | None) -> float | str | None:
    if settled and text.lower() not in ("", "beginning"):
        raise LocalProtocolError("option since: with settled = true all triples count; leave since out")
    if text.lower() in ("", "now", "beginning"):
        return text.lower() or None
    try:
        since = float(text)
    except ValueError:
        try:
            since = datetime.fromisoformat(text).timestamp()
        except ValueError:
            raise LocalProtocolError(f"option since: {text!r} is neither now, beginning, nor a time") from None
    if not 0 < since <= time.time():
        raise LocalProtocolError(f"option since: {text} is not in the past")
    return since
