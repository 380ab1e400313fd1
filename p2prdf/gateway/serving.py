"""Serves a gateway on its port; a stopping gateway finishes pending requests and accepts no new ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from aiohttp import web

from p2prdf.gateway.state import GATEWAY
from p2prdf.monitoring.serving import SERVER_LOGGER

__all__ = ["serve"]

_LINE_BYTES_MAX: Final = 64 << 10
"""Most bytes of a request line, which may hold a query, and of a header, which may hold a resume token."""


async def serve(
    app: web.Application, host: str, port: int, *, ready: Callable[[str], None], announce_seconds: float = 0.0
) -> None:
    """Serve until cancelled.  ``ready`` is called with the URL.

    ``announce_seconds``: time for which a stopping gateway still serves while ``/readyz`` announces the stop.

    Raises Unavailable if no node answers, OSError if the address cannot be bound.
    """
    # Bodies are not decompressed: a small one could expand enormously.
    runner = web.AppRunner(
        app, handle_signals=False, access_log=None, max_line_size=_LINE_BYTES_MAX, max_field_size=_LINE_BYTES_MAX,
        auto_decompress=False, shutdown_timeout=app[GATEWAY].config.drain_seconds, logger=SERVER_LOGGER,
    )  # fmt: skip
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        ready("http://{}:{}".format(*_shown(runner.addresses[0])))
        await asyncio.Event().wait()
    finally:
        gateway = app[GATEWAY]
        gateway.leaving = True
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(announce_seconds)
        gateway.stopping.set()
        await runner.cleanup()


def _shown(address: tuple[str, int]) -> tuple[str, int]:
    host, port = address[:2]
    return (f"[{host}]" if ":" in host else host), port
