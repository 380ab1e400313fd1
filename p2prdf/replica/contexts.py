"""Contexts of JSON-LD, fetched over HTTP from hosts that the operator permits.

:mod:`p2prdf.replica.permitted_fetch` sends the requests, and bounds their targets and answers.  Contexts are kept for
some minutes, since many documents name the same ones.  They are kept as text: parsed ones take far more memory, and
readers would share their objects.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Final

from p2prdf.errors import DataRefused, Unavailable
from p2prdf.rdf.json_ld import FETCHED_CONTEXT_BYTES_MAX
from p2prdf.rdf.remote_contexts import Fetched
from p2prdf.replica.hosts import Hosts
from p2prdf.replica.permitted_fetch import PermittedFetch

__all__ = ["WebContexts"]

_ACCEPT: Final = "application/ld+json, application/json;q=0.9"
_BY_NAME: Final = ("application/json", "application/octet-stream", "text/plain")
"""Media types of contexts, besides those that end in ``+json``."""


class WebContexts:
    """Fetches contexts; for the argument ``contexts`` of :func:`p2prdf.rdf.ntriples.read_triples`."""

    def __init__(
        self, hosts: Hosts, *, bytes_max: int = FETCHED_CONTEXT_BYTES_MAX, seconds_max: float = 15.0,
        kept_seconds: float = 600.0, kept_max: int = 64, clock: Callable[[], float] = time.monotonic,
    ):  # fmt: skip
        """``hosts``: the permitted ones; ``bytes_max``: size of the largest context; ``seconds_max``: for one of them.

        ``kept_seconds`` and ``kept_max``: how long contexts are kept, and how many.
        """
        self._web = PermittedFetch(hosts, bytes_max=bytes_max, server="server", smaller="name a smaller one")
        self._seconds_max = seconds_max
        self._kept_seconds = kept_seconds
        self._kept_max = kept_max
        self._clock = clock
        self._kept: dict[str, tuple[float, bytes]] = {}
        self._lock = threading.Lock()

    def fetch(self, url: str) -> Fetched:
        """Return the JSON document at an address; called in a thread without an event loop.

        Raises TargetRefused, Unavailable, and DataRefused for an answer that is no JSON or out of bounds.
        """
        with self._lock:
            until, body = self._kept.get(url, (0.0, b""))
        if self._clock() < until:
            return _parsed(body, url)
        body = asyncio.run(self._asked(url))
        found = _parsed(body, url)
        with self._lock:
            self._kept.pop(url, None)
            self._kept[url] = self._clock() + self._kept_seconds, body
            while len(self._kept) > self._kept_max:
                del self._kept[next(iter(self._kept))]
        return found

    async def _asked(self, url: str) -> bytes:
        def check_type(kind: str) -> None:
            if kind not in _BY_NAME and not kind.endswith("+json"):
                raise DataRefused(f"{kind[:80]} is no JSON; name the address of the context itself", source=url)

        try:
            async with asyncio.timeout(self._seconds_max):
                body, _ = await self._web.fetch(url, accept=_ACCEPT, check_type=check_type)
        except TimeoutError:
            raise Unavailable(f"{url} was not loaded within {self._seconds_max:g} s") from None
        return body


def _parsed(body: bytes, url: str) -> Fetched:
    try:
        return Fetched(json.loads(body), len(body))
    except (ValueError, RecursionError) as error:
        raise DataRefused(f"no JSON: {error}", source=url) from None
