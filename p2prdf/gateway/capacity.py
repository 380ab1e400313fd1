"""Bounds on work in progress: a short wait for capacity, then a refusal as busy."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from p2prdf.errors import Busy

__all__ = ["capacity"]

_WAIT_SECONDS: Final = 5.0


@contextlib.asynccontextmanager
async def capacity(places: asyncio.Semaphore, refusal: str) -> AsyncIterator[None]:
    """Hold one place; wait for it up to five seconds.  Raises Busy with the text ``refusal``."""
    try:
        async with asyncio.timeout(_WAIT_SECONDS):
            await places.acquire()
    except TimeoutError:
        raise Busy(refusal, retry_after=1.0) from None
    try:
        yield
    finally:
        places.release()
