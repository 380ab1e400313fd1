"""A web server on a real socket, whose answers a test gives by their paths."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from aiohttp import web

__all__ = ["served"]


@contextlib.asynccontextmanager
async def served(answer: Callable[[str], web.Response]) -> AsyncIterator[tuple[str, list[str]]]:
    """Answer GET requests by their paths; yield host and port, and the paths of all requests.

    The path ``/moved`` leads to an address that is never permitted, and ``/slow`` has no answer.
    """
    asked: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(request.path)
        if request.path == "/moved":
            return web.Response(status=302, headers={"Location": "http://169.254.169.254/latest"})
        if request.path == "/slow":
            await asyncio.Event().wait()
        return answer(request.path)

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"127.0.0.1:{runner.addresses[0][1]}", asked
    finally:
        await runner.cleanup()
