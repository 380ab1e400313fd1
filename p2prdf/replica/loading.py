"""Documents of LOAD, fetched over HTTP from hosts that the operator permits.

:mod:`p2prdf.replica.permitted_fetch` sends the requests, and bounds their targets and answers.  Documents are parsed in
a thread, up to a number of statements.
"""

from __future__ import annotations

import asyncio
import functools
import io
from typing import Final
from urllib.parse import urlsplit

from p2prdf.errors import DataRefused, QueryRefused
from p2prdf.interest import Triple
from p2prdf.rdf.ntriples import Syntax, detect, read_triples
from p2prdf.replica.hosts import Hosts
from p2prdf.replica.permitted_fetch import PermittedFetch

__all__ = ["WebLoader"]

_SYNTAXES: Final = {
    "text/turtle": Syntax.TURTLE, "application/n-triples": Syntax.N_TRIPLES, "application/rdf+xml": Syntax.RDF_XML,
}  # fmt: skip
_BY_NAME: Final = ("text/plain", "application/octet-stream", "application/xml", "text/xml")
"""Media types of servers that do not know RDF: the name of the document decides."""
_SMALLER: Final = "publish the document instead"


class WebLoader:
    """Fetches documents in Turtle, N-Triples and RDF/XML; a loader of :meth:`p2prdf.client.Client.update`."""

    def __init__(self, hosts: Hosts, *, bytes_max: int = 64 << 20):
        """``hosts``: the permitted ones; ``bytes_max``: size of the largest document."""
        self._web = PermittedFetch(hosts, bytes_max=bytes_max, server="server", smaller=_SMALLER)

    def check(self, url: str) -> None:
        """Raise TargetRefused for a URL that is not HTTP, and for a host that is not permitted."""
        self._web.check(url)

    async def load(self, url: str, *, publication_id: str, statements_max: int) -> list[Triple]:
        """Return the triples of a document; blank nodes are named after ``publication_id``.

        Raises TargetRefused, Unavailable, DataRefused for a document that is malformed, too long or in another
        format, and QueryRefused for one with more than ``statements_max`` statements.
        """
        check_type = functools.partial(_syntax_of, url)
        body, kind = await self._web.fetch(url, accept=", ".join(_SYNTAXES), check_type=check_type)
        syntax = _syntax_of(url, kind)
        return await asyncio.to_thread(_parsed, body, url, syntax, publication_id, statements_max)


def _syntax_of(url: str, kind: str) -> Syntax:
    """Return the format of a document.  Raises DataRefused for another one."""
    if kind in _SYNTAXES:
        return _SYNTAXES[kind]
    if kind in _BY_NAME:
        found, compressed = detect(urlsplit(url).path)
        if found in _SYNTAXES.values() and not compressed:
            return found
    known = ", ".join(_SYNTAXES)
    raise DataRefused(f"{kind[:80]} is not loaded, only {known}; {_SMALLER}", source=url)


def _parsed(body: bytes, url: str, syntax: Syntax, publication_id: str, statements_max: int) -> list[Triple]:
    found: list[Triple] = []
    batches = read_triples(
        io.BytesIO(body), publication_id=publication_id, syntax=syntax, strict=True, source=url, base=url
    )
    for batch in batches:
        found += zip(batch.s, batch.p, batch.o, strict=True)
        if len(found) > statements_max:
            reason = f"{url} has more than {statements_max:,} statements; {_SMALLER}"
            raise QueryRefused(reason, construct="LOAD")
    return found
