"""The console: a web page for operators and for authors of queries.

The page is a few files of this package, kept in memory; they contain no secret and need no token.  It fetches its
data from the gateway's other paths, with the token that the user enters, like any other client.

The page shows published data of unknown origin.  It therefore inserts all text as text, and the headers make browsers
enforce further limits: scripts and styles come only from files of this gateway, nothing is loaded from elsewhere, no
text can become markup (trusted types, none of which exist), and no other site can embed the page in a frame.
"""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from importlib.resources import files
from typing import Final, NamedTuple

from aiohttp import web

from p2prdf.gateway.problems import Refused

__all__ = ["FILES", "HEADERS", "POLICY", "file", "page"]

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}  # fmt: skip
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_PAGE: Final = "index.html"


class _File(NamedTuple):
    body: bytes
    media_type: str
    mark: str
    """ETag, which changes with the body."""


def _read() -> dict[str, _File]:
    found = {}
    for each in sorted(files("p2prdf.gateway").joinpath("page").iterdir(), key=lambda each: each.name):
        media_type = _TYPES.get(f".{each.name.rpartition('.')[2]}")
        if media_type is not None:
            body = each.read_bytes()
            found[each.name] = _File(body, media_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
    assert _PAGE in found, "the page is installed with the package"
    return found


FILES: Final = _read()
"""The files of the page, by name."""


async def page(request: web.Request) -> web.StreamResponse:
    """Return the page."""
    return _answer(request, FILES[_PAGE])


async def file(request: web.Request) -> web.StreamResponse:
    """Return a file of the page."""
    name = request.match_info["name"]
    if name not in FILES:
        raise Refused(HTTPStatus.NOT_FOUND, f"{name[:80]!r} is no part of the console, which is at /console")
    return _answer(request, FILES[name])


def _answer(request: web.Request, found: _File) -> web.StreamResponse:
    headers = {**HEADERS, "ETag": found.mark}
    if found.mark in request.headers.get("If-None-Match", ""):
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    return web.Response(body=found.body, content_type=found.media_type, charset="utf-8", headers=headers)
