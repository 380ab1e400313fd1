"""What members of a group and replicas ask of a client of an overlay (:class:`p2prdf.client.Client`), and get of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

__all__ = ["Batch", "Connect", "Left", "Overlay", "Writing"]


class Batch(Protocol):
    """Solutions that came together."""

    @property
    def bookmark(self) -> float | None:
        """Up to when all has come, if that is said."""
        ...

    @property
    def lost(self) -> int:
        """Solutions that were dropped before these."""
        ...

    @property
    def columns(self) -> Sequence[Sequence[str]]:
        """The terms of solutions, by variable."""
        ...

    @property
    def stamps(self) -> Sequence[int]:
        """When they were published, or removed."""
        ...

    @property
    def removed(self) -> Sequence[bool]:
        """Which of them are not true any more."""
        ...

    def __len__(self) -> int:
        """Return the number of solutions."""
        ...

    def __iter__(self) -> Any:
        """Yield solutions."""
        ...


class Left(Protocol):
    """A standing query that was left."""

    @property
    def id(self) -> int:
        """Its number."""
        ...

    @property
    def opened(self) -> float:
        """When it was left; 0: it was taken up again."""
        ...

    def batches(self) -> AsyncIterator[Batch]:
        """Yield what is answered."""
        ...

    def acknowledge(self, sequence: int | None = None) -> None:
        """Note that what was given out is dealt with."""
        ...

    def token(self) -> bytes:
        """Return what to go on from behind what was given out."""
        ...

    async def unsubscribe(self) -> None:
        """End it."""
        ...


class Overlay(Protocol):
    """What is asked of a client (:class:`p2prdf.client.Client`)."""

    async def subscribe(
        self, query: str, *, since: float | str, bookmarks: bool, hurry: bool, auto_acknowledge: bool,
        lease_seconds: float,
    ) -> Left:  # fmt: skip
        """Leave a standing query."""
        ...

    async def attach(self, token: bytes | int, *, bookmarks: bool, auto_acknowledge: bool) -> Left:
        """Take one up again."""
        ...

    async def unsubscribe(self, subscription: int) -> None:
        """End a subscription; to end one that has ended is no error."""
        ...


class Writing(Overlay, Protocol):
    """What is asked of a client by who publishes as well."""

    async def publish(self, triples: Any, *, graph: str | None = None) -> int:
        """Publish triples into a graph; return when all is acknowledged."""
        ...

    async def retract(self, triples: Any, *, graph: str | None = None) -> int:
        """Remove triples from a graph; return when all is acknowledged."""
        ...

    async def explain(self, query_or_subscription: int) -> Any:
        """Tell how a subscription is doing; raises SubscriptionGone if it has ended."""
        ...


class Connect(Protocol):
    """What opens a connection to an overlay."""

    def __call__(self, *, reconnect_seconds: float) -> AbstractAsyncContextManager[Writing]:
        """Connect; ``reconnect_seconds``: how long to look for another node when one goes away."""
        ...
