"""HTTP ports for the supervision of a process: health checks and metrics.

The ports are read-only and report names and counts only, so they need no authentication.  Metrics are computed at most
once a second, by one request at a time, however many requests come.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from p2prdf.monitoring.exposition import CONTENT_TYPE

__all__ = ["SERVER_LOGGER", "checked_at", "watched_at"]

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_LOGGER: Final = logging.getLogger(__name__)
SERVER_LOGGER: Final = logging.getLogger(f"{__name__}.http")
"""Logger of the HTTP servers.  It never logs bytes that a stranger sent."""
_FRESH_SECONDS: Final = 1.0
"""How long computed metrics are served again."""
_GOODBYE_SECONDS: Final = 1.0


def _without_content(record: logging.LogRecord) -> bool:
    """Log malformed or interrupted HTTP at level DEBUG, with the name of the error only.

    The server would log the received bytes, which may contain a token in a malformed header, and a stranger could write
    as many lines into the log as it likes.  The server has already answered with 400, or the connection is closed.
    """
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError | ConnectionError):
        record.levelno, record.levelname = logging.DEBUG, logging.getLevelName(logging.DEBUG)
        record.msg, record.args, record.exc_info = "a request came to nothing: %s", (type(error).__name__,), None
    return True


SERVER_LOGGER.addFilter(_without_content)


class _Watched:
    """The text of the metrics, and when it was computed."""

    def __init__(self, tell: Callable[[], Awaitable[str]]):
        self._tell = tell
        self._text = ""
        self._at = -float("inf")
        self._lock = asyncio.Lock()

    async def metrics(self, _request: web.Request) -> web.StreamResponse:
        async with self._lock:
            if time.monotonic() - self._at >= _FRESH_SECONDS:
                try:
                    self._text = await self._tell()
                except Exception:  # a bug here must not show internals to a stranger, nor end the monitored process
                    _LOGGER.exception("metrics cannot be computed")
                    return web.Response(status=HTTPStatus.INTERNAL_SERVER_ERROR, text="metrics cannot be computed\n")
                self._at = time.monotonic()
        return web.Response(text=self._text, headers={"Content-Type": CONTENT_TYPE})


@contextlib.asynccontextmanager
async def checked_at(address: tuple[str, int], checks: Mapping[str, Callable[[], str | None]]) -> AsyncIterator[str]:
    """Serve health checks over HTTP, without access control; yield the address as a URL.

    ``checks``: by path a function that returns why the check fails (answered with 503), or None if it passes (200).

    Raises OSError if the address cannot be bound.
    """
    async with _served(address, {path: _answering(check) for path, check in checks.items()}) as url:
        yield url


@contextlib.asynccontextmanager
async def watched_at(
    address: tuple[str, int], tell: Callable[[], Awaitable[str]], lacks: Callable[[], str | None]
) -> AsyncIterator[str]:
    """Serve metrics and probes; yield the address as a URL.

    ``tell`` returns the text of the metrics; ``lacks`` returns the reason why the process is not ready, None if it is.

    Raises OSError if the address cannot be bound.
    """
    handlers = {
        "/metrics": _Watched(tell).metrics, "/healthz": _answering(lambda: None), "/readyz": _answering(lacks, "ready"),
    }  # fmt: skip
    async with _served(address, handlers) as url:
        yield url


def _answering(check: Callable[[], str | None], passed: str = "ok") -> _Handler:
    """Return a handler of a check: 200, or 503 with the reason."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        reason = check()
        if reason is not None:
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=f"{reason}\n")
        return web.Response(text=f"{passed}\n")

    return answer


@contextlib.asynccontextmanager
async def _served(address: tuple[str, int], handlers: Mapping[str, _Handler]) -> AsyncIterator[str]:
    app = web.Application(client_max_size=1)
    for path, handler in handlers.items():
        app.router.add_get(path, handler)
    runner = web.AppRunner(
        app, handle_signals=False, access_log=None, auto_decompress=False, shutdown_timeout=_GOODBYE_SECONDS,
        logger=SERVER_LOGGER,
    )  # fmt: skip
    await runner.setup()
    try:
        await web.TCPSite(runner, *address).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        await runner.cleanup()
