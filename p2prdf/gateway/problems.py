"""Errors over HTTP: a status, and a problem document (RFC 9457) with the input and the reason."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from p2prdf.errors import (
    Busy,
    ChangedMeanwhile,
    DataRefused,
    LocalProtocolError,
    NotAllowed,
    P2PRDFError,
    QueryRefused,
    StampRefused,
    SubscriptionGone,
    TokenMismatch,
    Unavailable,
)

__all__ = ["Handler", "Refused", "broken_off", "described", "problems"]

_LOGGER: Final = logging.getLogger("p2prdf.gateway")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Refused(P2PRDFError):
    """A request refused by the gateway itself, with HTTP status ``status``."""

    code = "request-refused"

    def __init__(self, status: HTTPStatus, reason: str, *, headers: dict[str, str] | None = None):
        self.status = status
        self.headers = headers or {}
        super().__init__(reason)


def described(error: P2PRDFError) -> tuple[HTTPStatus, dict[str, Any], dict[str, str]]:
    """Return status, problem document and further headers of an error."""
    headers: dict[str, str] = {}
    if isinstance(error, Refused):
        status, headers = error.status, error.headers
    elif isinstance(error, NotAllowed):
        status = HTTPStatus.FORBIDDEN
    elif isinstance(error, SubscriptionGone):
        status = HTTPStatus.GONE
    elif isinstance(error, ChangedMeanwhile | StampRefused | TokenMismatch):
        status = HTTPStatus.CONFLICT
    elif isinstance(error, LocalProtocolError):
        status = HTTPStatus.BAD_REQUEST
    elif isinstance(error, Busy | Unavailable):
        status = HTTPStatus.SERVICE_UNAVAILABLE
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)) if isinstance(error, Busy) else 1)
    else:
        status = HTTPStatus.BAD_GATEWAY
    problem: dict[str, Any] = {"title": status.phrase, "status": int(status), "code": error.code, "detail": str(error)}
    if isinstance(error, QueryRefused) and error.construct:
        problem["construct"] = error.construct
    if isinstance(error, QueryRefused | DataRefused) and error.line is not None:
        problem["line"] = error.line
        if isinstance(error, QueryRefused) and error.column is not None:
            problem["column"] = error.column
    return status, problem, headers


def broken_off(request: web.Request, error: Exception) -> ConnectionResetError:
    """Abort a response that has begun, the only way to mark it as incomplete; return the exception to raise.

    Otherwise the error's response would be written into the middle of the first one.
    """
    _LOGGER.error("%s %s aborted", request.method, request.path, exc_info=error)
    if request.transport is not None:
        request.transport.abort()
    return ConnectionResetError("the answer was aborted")


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer errors with a problem document, as long as no response has begun."""
    try:
        return await handler(request)
    except P2PRDFError as error:
        status, problem, headers = described(error)
    except web.HTTPException as error:  # unknown path, wrong method or oversized body
        if error.status < 400:
            raise
        status, headers = HTTPStatus(error.status), {}
        if "Allow" in error.headers:
            headers["Allow"] = error.headers["Allow"]
        detail = f"{request.method} {request.path}: {error.reason}"
        problem = {"title": status.phrase, "status": error.status, "code": "request-refused", "detail": detail}
    except HttpProcessingError as error:  # a part of a form has malformed headers
        status, headers = HTTPStatus.BAD_REQUEST, {}
        detail = " ".join(f"the body cannot be read: {error}".split())
        problem = {"title": status.phrase, "status": 400, "code": "request-refused", "detail": detail}
    except ConnectionError:
        raise  # the client is gone
    except Exception:  # a defect must not reveal internals to the client
        _LOGGER.exception("%s %s failed", request.method, request.path)
        status, headers = HTTPStatus.INTERNAL_SERVER_ERROR, {}
        detail = "the gateway failed; its log says how"
        problem = {"title": status.phrase, "status": 500, "code": "error", "detail": detail}
    text = json.dumps(problem, ensure_ascii=False) + "\n"
    return web.Response(  # echoed parts of headers may hold bytes that are no characters
        status=status, body=text.encode(errors="replace"), headers=headers, content_type="application/problem+json",
        charset="utf-8",
    )  # fmt: skip
