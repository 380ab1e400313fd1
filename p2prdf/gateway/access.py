"""Access control: bearer tokens with permissions, and protection against scripts of other web sites.

Without tokens every client may do everything, and the gateway listens on loopback only.  A browser on this machine
may still run scripts of any web site.  Two checks keep them out.  A request with an ``Origin`` must come from the
gateway's own host or an origin that the operator allows.  On loopback the ``Host`` must be a name of loopback;
otherwise a foreign name that resolves to loopback would pass as the own host (DNS rebinding).

A token may name a client of the overlay.  The gateway then acts as that client, and nodes enforce the client's
permissions (docs/how-to/secure.md); the permissions of the token only narrow them.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from aiohttp import web

from p2prdf.errors import LocalProtocolError
from p2prdf.gateway.problems import Handler, Refused
from p2prdf.private_files import read_private
from p2prdf.tls import CLIENT_NAME

__all__ = ["Access", "Permission", "Token", "is_loopback", "read_tokens"]

_TOKEN_BYTES_MIN: Final = 16
_CROSS_ORIGIN: Final = {
    "Access-Control-Expose-Headers": "Allow, Location, Retry-After, WWW-Authenticate",
    "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, traceparent",
    "Access-Control-Max-Age": "600",
}  # fmt: skip


class Permission(enum.StrEnum):
    """Permissions of a token."""

    READ = "read"
    """Queries, subscriptions, the state of a node; updates that read, by WHERE or as whole graphs."""
    WRITE = "write"
    """Publications, deletions and updates."""


@dataclass(frozen=True, slots=True)
class Token:
    """Permissions of a bearer token, and the client of the overlay that it acts as; "": the gateway itself."""

    permissions: frozenset[Permission]
    client: str = ""


def read_tokens(path: Path) -> dict[bytes, Token]:
    """Read a file of lines ``TOKEN RIGHT[,RIGHT] [CLIENT]``; ``#`` begins a remark.  Return tokens by their digests.

    Raises LocalProtocolError for a file that other users may read, and for a bad line by its number, never its content.
    """
    found: dict[bytes, Token] = {}
    for number, line in enumerate(read_private(path, "tokens").splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        try:
            token, permissions, client = words if len(words) > 2 else (*words, "")
            held = Token(frozenset(Permission(each) for each in permissions.split(",")), client)
        except ValueError:
            reason = "expected TOKEN read|write|read,write [CLIENT]"
            raise LocalProtocolError(f"{path}:{number}: {reason}") from None
        if client and (not CLIENT_NAME.fullmatch(client) or client in tuple(Permission)):
            raise LocalProtocolError(
                f"{path}:{number}: expected TOKEN read|write|read,write [CLIENT]: the third word is not a client's name"
            )
        if len(token.encode()) < _TOKEN_BYTES_MIN or not token.isprintable():
            raise LocalProtocolError(f"{path}:{number}: a token has at least {_TOKEN_BYTES_MIN} visible characters")
        found[_digest(token)] = held
    if not found:
        raise LocalProtocolError(f"{path}: there is no token in it")
    return found


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address denotes only this machine's loopback."""
    name = host.strip("[]").lower()
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


class Access:
    """Admits or refuses requests."""

    def __init__(self, tokens: Mapping[bytes, Token] | None, origins: Iterable[str], *, loopback: bool):
        """``origins``: web sites with access for their scripts, as ``https://example.org``; ``*``: all web sites.

        ``loopback``: the gateway listens on loopback only.
        """
        self._tokens = tokens
        self._origins = frozenset(origins)
        self._loopback = loopback
        if "*" in self._origins and tokens is None:
            raise LocalProtocolError("origin * requires tokens: without them, name the permitted origins")
        for origin in self._origins - {"*"}:
            if re.fullmatch(r"https?://[^/\s]+", origin) is None:
                raise LocalProtocolError(f"{origin!r} is not an origin, as https://example.org is")

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests of foreign scripts; answer CORS preflight requests."""
        self.check_site(request.headers)
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            return web.Response(status=HTTPStatus.NO_CONTENT)
        return await handler(request)

    async def add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add CORS headers to a response, so that scripts of allowed web sites can read it."""
        origin = request.headers.get("Origin")
        if origin is not None and (origin in self._origins or "*" in self._origins):
            response.headers.update(_CROSS_ORIGIN)
            response.headers.add("Vary", "Origin")
            response.headers["Access-Control-Allow-Origin"] = origin

    def check(self, request: web.Request, permission: Permission) -> str:
        """Return the client of the overlay that the request acts as.  Raises Refused without the permission."""
        return self.check_token(request.headers.get("Authorization", ""), permission)

    def permits(self, request: web.Request, permission: Permission) -> bool:
        """Return whether the request has a permission."""
        try:
            self.check(request, permission)
        except Refused:
            return False
        return True

    def check_token(self, authorization: str, permission: Permission | None) -> str:
        """Return the client that an ``Authorization`` header acts as; "": the gateway itself.

        ``permission``: None: any known token will do.

        Raises Refused for an unknown token, and for one without the permission.
        """
        if self._tokens is None:
            return ""
        kind, _, token = authorization.partition(" ")
        if kind.lower() != "bearer" or not token:
            raise Refused(
                HTTPStatus.UNAUTHORIZED, "a bearer token is needed: Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": 'Bearer realm="p2prdf"'},
            )  # fmt: skip
        given = _digest(token.strip())
        held = [known for digest, known in self._tokens.items() if hmac.compare_digest(digest, given)]
        if not held:
            raise Refused(
                HTTPStatus.UNAUTHORIZED, "the bearer token is not known",
                headers={"WWW-Authenticate": 'Bearer realm="p2prdf", error="invalid_token"'},
            )  # fmt: skip
        if permission is not None and permission not in held[0].permissions:
            raise Refused(HTTPStatus.FORBIDDEN, f"the bearer token lacks the permission to {permission}")
        return held[0].client

    def check_site(self, headers: Mapping[str, str]) -> None:
        """Raise Refused for scripts of web sites without access.

        ``headers``: of the request; its names are in lower case, or compared without regard to case.
        """
        host = _host_of(headers.get("host", ""))
        if self._loopback and self._tokens is None and not is_loopback(host):
            raise Refused(HTTPStatus.FORBIDDEN, f"Host: {host!r} is no name of this machine's loopback")
        origin = headers.get("origin")
        if origin is None:
            # Browsers send no Origin with plain GET requests, which suffice to run queries; but Sec-Fetch-Site names
            # another site.  A followed link (Dest: document) is harmless.
            site, what = (headers.get(f"sec-fetch-{name}") for name in ("site", "dest"))
            if site in ("cross-site", "same-site") and what != "document" and "*" not in self._origins:
                raise Refused(HTTPStatus.FORBIDDEN, f"Sec-Fetch-Site: {site}: scripts of other sites have no access")
            return
        if origin in self._origins or "*" in self._origins:
            return
        # "null" has no host, and a malformed origin has none either.
        if origin.partition("://")[2] != headers.get("host") or not host:
            raise Refused(HTTPStatus.FORBIDDEN, f"Origin: {origin}: scripts of this web site have no access")


def _host_of(header: str) -> str:
    """Return the host of a ``Host`` header, without its port."""
    return re.sub(r":[0-9]*$", "", header)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()  # a header may hold any bytes
