"""A gateway on its port, until it is told to stop: then it finishes what it has begun, and takes nothing new."""

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
"""Of a request's first line, in which a query may be, and of a header, in which a resume token may be."""


async def serve(
    app: web.Application, host: str, port: int, *, ready: Callable[[str], None], announce_seconds: float = 0.0
) -> None:
    """Serve until cancelled.  ``ready`` is called with the address.

    ``announce_seconds``: so long the gateway goes on when it is told to stop, telling at ``/readyz`` that it will.

    Raises Unavailable if no node answers, OSError if the address cannot be had.
    """
    # Bodies are not decompressed: a small one may become a very large one.
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
