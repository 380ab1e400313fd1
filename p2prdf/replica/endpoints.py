"""Other SPARQL endpoints that queries call by SERVICE, on hosts that the operator permits.

:mod:`p2prdf.replica.permitted_fetch` sends the requests, and bounds their targets and answers.  Results are bounded in
rows, too, and parsed in a thread.
"""

from __future__ import annotations

import asyncio
from typing import Final

from p2prdf.errors import DataRefused
from p2prdf.rdf.query_results import RESULT_FORMATS, Solutions, read_solutions
from p2prdf.replica.hosts import Hosts
from p2prdf.replica.permitted_fetch import PermittedFetch

__all__ = ["WebEndpoints"]

_ACCEPT: Final = "application/sparql-results+json, application/sparql-results+xml;q=0.8"


class WebEndpoints:
    """Asks endpoints over HTTP; for the argument ``endpoints`` of :meth:`p2prdf.client.Client.query`."""

    def __init__(self, hosts: Hosts, *, bytes_max: int = 16 << 20):
        """``hosts``: the permitted ones; ``bytes_max``: size of the largest answer."""
        self._web = PermittedFetch(hosts, bytes_max=bytes_max, server="endpoint", smaller="ask for less")

    def check(self, url: str) -> None:
        """Raise TargetRefused for a URL that is not HTTP, and for a host that is not permitted."""
        self._web.check(url)

    async def ask(self, url: str, query: str, *, scope: str, rows_max: int) -> Solutions:
        """Return the solutions of a SELECT query; ``scope`` names their blank nodes.

        Raises TargetRefused, Unavailable, and DataRefused for an answer without solutions or out of bounds.
        """

        def check_type(kind: str) -> None:
            if kind not in RESULT_FORMATS:
                reason = f"the endpoint answers with {kind[:80]}, which is no SPARQL result in JSON or XML"
                raise DataRefused(reason, source=url)

        body, kind = await self._web.fetch(url, accept=_ACCEPT, check_type=check_type, form={"query": query})
        return await asyncio.to_thread(read_solutions, body, kind, scope=scope, source=url, rows_max=rows_max)
