"""Documents of LOAD, fetched over HTTP from hosts that the operator permits.

:mod:`p2prdf.replica.permitted_fetch` sends the requests, and bounds their targets and answers.  Documents are parsed in
a thread, up to a number of statements.
"""

from __future__ import annotations

import asyncio
import io
from typing import IO, Final, NamedTuple, cast
from urllib.parse import urlsplit

from p2prdf.errors import DataRefused, QueryRefused
from p2prdf.interest import Triple
from p2prdf.rdf.lines import DAMAGED, decompressed
from p2prdf.rdf.ntriples import Syntax, detect, read_triples
from p2prdf.rdf.remote_contexts import Contexts
from p2prdf.replica.hosts import Hosts
from p2prdf.replica.permitted_fetch import PermittedFetch

__all__ = ["WebLoader"]

_SYNTAXES: Final = {
    "text/turtle": Syntax.TURTLE, "application/n-triples": Syntax.N_TRIPLES, "application/rdf+xml": Syntax.RDF_XML,
    "application/ld+json": Syntax.JSON_LD, "application/trig": Syntax.TRIG, "application/n-quads": Syntax.N_QUADS,
    "application/x-jelly-rdf": Syntax.JELLY,
}  # fmt: skip
_BY_NAME: Final = (
    "text/plain", "application/octet-stream", "application/xml", "text/xml", "application/json",
    *(f"application/{name}" for name in ("gzip", "x-gzip", "x-bzip2", "x-xz", "zstd", "x-bzip", "bzip2", "xz")),
)  # fmt: skip
"""Media types of servers that do not know RDF: the name of the document decides."""
_EXPANSION_MAX: Final = 8
"""Most bytes from each byte that a document may have, if it is compressed."""
_SMALLER: Final = "publish the document instead"


class WebLoader:
    """Fetches documents in all formats of RDF that are read; a loader of :meth:`p2prdf.client.Client.update`."""

    def __init__(self, hosts: Hosts, *, bytes_max: int = 64 << 20, contexts: Contexts | None = None):
        """``hosts``: the permitted ones; ``bytes_max``: size of the largest document.

        ``contexts``: fetches the contexts at other addresses that JSON-LD names; without it they are refused.
        """
        self._bytes_max = bytes_max
        self._contexts = contexts
        self._web = PermittedFetch(hosts, bytes_max=bytes_max, server="server", smaller=_SMALLER)

    def check(self, url: str) -> None:
        """Raise TargetRefused for a URL that is not HTTP, and for a host that is not permitted."""
        self._web.check(url)

    async def load(self, url: str, *, publication_id: str, statements_max: int) -> list[Triple]:
        """Return the triples of a document; blank nodes are named after ``publication_id``.

        Raises TargetRefused, Unavailable, DataRefused for a document that is malformed, too long or in another
        format, or has a statement in a named graph, and QueryRefused for one with more than ``statements_max``
        statements.
        """

        def check_type(kind: str) -> None:
            _format_of(url, kind)

        body, kind = await self._web.fetch(url, accept=", ".join(_SYNTAXES), check_type=check_type)
        form = _format_of(url, kind)
        return await asyncio.to_thread(self._parsed, body, url, form, publication_id, statements_max)

    def _parsed(self, body: bytes, url: str, form: _Format, publication_id: str, statements_max: int) -> list[Triple]:
        data: IO[bytes] = io.BytesIO(body)
        if form.compressed:
            data = cast("IO[bytes]", _Expanded(data, _EXPANSION_MAX * self._bytes_max, url))
        batches = read_triples(
            data, publication_id=publication_id, syntax=form.syntax, strict=True, source=url, base=url,
            contexts=self._contexts,
        )  # fmt: skip
        found: list[Triple] = []
        for batch in batches:
            if any(batch.g):
                raise DataRefused(f"a statement is in a named graph, and LOAD takes triples; {_SMALLER}", source=url)
            found += zip(batch.s, batch.p, batch.o, strict=True)
            if len(found) > statements_max:
                reason = f"{url} has more than {statements_max:,} statements; {_SMALLER}"
                raise QueryRefused(reason, construct="LOAD")
        return found


class _Format(NamedTuple):
    syntax: Syntax
    compressed: bool


def _format_of(url: str, kind: str) -> _Format:
    """Return the format of a document.  Raises DataRefused for another one."""
    if kind in _SYNTAXES:
        return _Format(_SYNTAXES[kind], compressed=False)
    if kind in _BY_NAME:
        return _Format(*detect(urlsplit(url).path))
    known = ", ".join(_SYNTAXES)
    raise DataRefused(f"{kind[:80]} is not loaded, only {known}; {_SMALLER}", source=url)


class _Expanded:
    """Reads a compressed document up to a number of bytes."""

    def __init__(self, data: IO[bytes], bytes_max: int, url: str):
        self._data = decompressed(data)
        self._bytes_max = self._left = bytes_max
        self._url = url

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes, none at the end.  Raises DataRefused for damaged data and for too much."""
        try:
            found = self._data.read(size if size >= 0 else 1 << 20)
        except DAMAGED as error:
            raise DataRefused(f"the compressed data is damaged: {error}", source=self._url) from None
        self._left -= len(found or b"")
        if self._left < 0:
            raise DataRefused(f"it expands to more than {self._bytes_max:,} bytes; {_SMALLER}", source=self._url)
        return found or b""

