"""The client interface that workers and replicas need; :class:`p2prdf.client.Client` implements it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

__all__ = ["Batch", "Connect", "Overlay", "Subscription", "Writing"]


class Batch(Protocol):
    """Solutions that were delivered together."""

    @property
    def bookmark(self) -> float | None:
        """All solutions up to this time have been delivered; None: the batch has no bookmark."""
        ...

    @property
    def lost(self) -> int:
        """Number of solutions that were dropped before this batch."""
        ...

    @property
    def columns(self) -> Sequence[Sequence[str]]:
        """The terms of the solutions, by variable."""
        ...

    @property
    def stamps(self) -> Sequence[int]:
        """When each solution was published or removed."""
        ...

    @property
    def removed(self) -> Sequence[bool]:
        """Whether each solution was removed."""
        ...

    def __len__(self) -> int:
        """Return the number of solutions."""
        ...

    def __iter__(self) -> Any:
        """Yield solutions."""
        ...


class Subscription(Protocol):
    """A subscription to a standing query."""

    @property
    def id(self) -> int:
        """Its number."""
        ...

    @property
    def opened(self) -> float:
        """When it was opened; 0 after :meth:`Overlay.attach`."""
        ...

    @property
    def settled(self) -> bool:
        """Whether it has settled delivery."""
        ...

    def batches(self) -> AsyncIterator[Batch]:
        """Yield its solutions in batches."""
        ...

    def acknowledge(self, sequence: int | None = None) -> None:
        """Acknowledge the batches that were yielded."""
        ...

    def token(self) -> bytes:
        """Return a resume token for the position after the batches that were yielded."""
        ...

    async def unsubscribe(self) -> None:
        """End the subscription."""
        ...


class Overlay(Protocol):
    """A client that subscribes (:class:`p2prdf.client.Client`)."""

    async def subscribe(
        self, query: str, *, since: float | str, bookmarks: bool, hurry: bool, auto_acknowledge: bool,
        lease_seconds: float, settled: bool = False,
    ) -> Subscription:  # fmt: skip
        """Subscribe to a query."""
        ...

    async def attach(self, token: bytes | int, *, bookmarks: bool, auto_acknowledge: bool) -> Subscription:
        """Attach to an existing subscription."""
        ...

    async def unsubscribe(self, subscription: int) -> None:
        """End a subscription; ending an ended subscription is no error."""
        ...


class Writing(Overlay, Protocol):
    """A client that also publishes."""

    async def publish(self, triples: Any, *, graph: str | None = None) -> int:
        """Publish triples into a graph; return when all are acknowledged."""
        ...

    async def retract(self, triples: Any, *, graph: str | None = None) -> int:
        """Delete triples from a graph; return when all deletions are acknowledged."""
        ...

    async def explain(self, query_or_subscription: int) -> Any:
        """Return the state of a subscription; raises SubscriptionGone if it has ended."""
        ...


class Connect(Protocol):
    """A function that opens a connection to an overlay."""

    def __call__(self, *, reconnect_seconds: float) -> AbstractAsyncContextManager[Writing]:
        """Connect.  ``reconnect_seconds``: how long to try other nodes after the loss of a node."""
        ...
