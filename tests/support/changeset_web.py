"""A web server of changesets on a real socket, with faults on request."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from aiohttp import web

__all__ = ["ChangesetWeb", "put", "served"]

LINE = "<urn:s{0}> <urn:p> <urn:o> .\n"
Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


class ChangesetWeb:
    """Serves a folder.

    ``faults``: by path, answers that come before the file's, each once; None stands for the file's own answer.
    """

    def __init__(self, folder: Path, *, index: bool):
        self.folder = folder
        self.index = index
        self.url = ""
        self.asked: Counter[str] = Counter()
        """Requests by method and path."""
        self.answered: Counter[int] = Counter()
        """Answers by status."""
        self.faults: dict[str, list[Fault]] = {}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked[f"{request.method} {request.path}"] += 1
        faults = self.faults.get(request.path, [])
        answer = await faults.pop(0)(request) if faults and request.method == "GET" else None
        if answer is None:
            answer = self._answer(request)
        return answer

    async def count(self, request: web.Request, answer: web.StreamResponse) -> None:
        self.answered[answer.status] += 1

    def _answer(self, request: web.Request) -> web.StreamResponse:
        path = self.folder / request.path.lstrip("/")
        if path.is_dir():
            if not self.index or not request.path.endswith("/"):
                return web.Response(status=403)
            names = [each.name + ("/" if each.is_dir() else "") for each in sorted(path.iterdir())]
            links = "".join(f'<a href="{name}">{name[:20]}</a>\n' for name in ["../", "?C=N;O=D", *names])
            body = f"<html><head><title>Index of {request.path}</title></head><body>{links}</body></html>"
            return web.Response(text=body, content_type="text/html")
        if not path.is_file():
            return web.Response(status=404)
        return web.FileResponse(path)


@contextlib.asynccontextmanager
async def served(folder: Path, *, index: bool = True) -> AsyncIterator[ChangesetWeb]:
    """Serve a folder on a free port of this machine."""
    told = ChangesetWeb(folder, index=index)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", told.handle)
    app.on_response_prepare.append(told.count)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        told.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        yield told
    finally:
        await runner.cleanup()
        await asyncio.sleep(0)


def put(folder: Path, name: str, text: str | None = None) -> Path:
    """Write a file of changesets; its triple is made from its name unless a text is given."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = (LINE.format(f":{name}") if text is None else text).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    return path
