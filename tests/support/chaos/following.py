"""Followers: clients that hold standing queries and keep every answer.

The client library handles broken connections; when it gives up, followers come back with their tokens.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import p2prdf
from chaos.queries import Query, Row
from p2prdf.client import Batch, Client, Subscription
from p2prdf.errors import Busy, P2PRDFError, Unavailable

__all__ = ["Followed", "Follower"]

CONNECT_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 15.0
RECONNECT_SECONDS: Final = 30.0
PING_SECONDS: Final = 5.0
AGAIN_SECONDS: Final = 0.05
LEASE_SECONDS: Final = 3600.0


@dataclass(slots=True, eq=False)
class Followed:
    """One standing query and all its deliveries.

    ``called_at``, ``live_at``: when subscribe was called and had returned (monotonic seconds). ``repeated``:
    answers delivered a second time.  ``contradicted``: of these, with other terms. ``taken_back``: retracted;
    as nothing is removed, that is wrong, even if they come again. ``gap``: answers that the coordinator
    reported as dropped.  ``gone``: the reason for the end of the subscription.
    """

    query: Query
    answers: dict[int, Row] = field(default_factory=dict)
    taken_back: dict[int, Row] = field(default_factory=dict)
    repeated: int = 0
    contradicted: int = 0
    gap: int = 0
    called_at: float = 0.0
    live_at: float = 0.0
    token: bytes | None = None
    """Resume token; None before the subscription is there."""
    gone: str = ""

    @property
    def rows(self) -> Counter[Row]:
        """The bag of answers, each identity once, without the retracted ones."""
        return Counter(self.answers.values()) - Counter(self.taken_back.values())

    @property
    def held(self) -> int:
        """The number of answers held."""
        return len(self.answers) - len(self.taken_back)

    def take(self, batch: Batch) -> None:
        """Take answers in."""
        self.gap += batch.lost
        rows = zip(*batch.columns, strict=True)
        for identity, row, removed in zip(batch.identities, rows, batch.removed, strict=True):
            known = (self.taken_back if removed else self.answers).setdefault(identity, row)
            if known is not row:
                self.repeated += 1
                self.contradicted += known != row


class Follower:
    """One client with some queries.  ``arrived`` is given each row and the time it came."""

    def __init__(
        self,
        addresses: Sequence[str],
        queries: Sequence[Query],
        rng: random.Random,
        *,
        arrived: Callable[[Row, float], None] = lambda _row, _now: None,
    ):
        self.followed = [Followed(query) for query in queries]
        self.live = asyncio.Event()
        """Set when all queries have been subscribed to."""
        self.failures: Counter[str] = Counter()
        """Connections and requests that failed, by code."""
        self._addresses = list(addresses)
        self._rng = rng
        self._arrived = arrived

    async def run(self) -> None:
        """Follow until cancelled, or until no subscription is left."""
        while any(not each.gone for each in self.followed):
            self._rng.shuffle(self._addresses)
            connecting = p2prdf.connect(
                ",".join(self._addresses), connect_seconds=CONNECT_SECONDS, timeout_seconds=ANSWER_SECONDS,
                reconnect_seconds=RECONNECT_SECONDS, ping_seconds=PING_SECONDS,
            )
            try:
                async with connecting as client, asyncio.TaskGroup() as group:
                    for each in self.followed:
                        if not each.gone:
                            group.create_task(self._follow(client, each))
            except* P2PRDFError as errors:
                self.failures[getattr(errors.exceptions[0], "code", "error")] += 1
            await asyncio.sleep(AGAIN_SECONDS)

    async def _follow(self, client: Client, each: Followed) -> None:
        try:
            await self._take_all(client, each)
        except (Unavailable, Busy):
            raise
        except P2PRDFError as error:
            each.gone = f"{error.code}: {error}"

    async def _take_all(self, client: Client, each: Followed) -> None:
        """Store the answers and the resume token, and only then acknowledge, as an application does."""
        subscription = await self._begin(client, each)
        each.token = subscription.token()
        if all(followed.token is not None or followed.gone for followed in self.followed):
            self.live.set()
        async for batch in subscription.batches():
            now = time.monotonic()
            each.take(batch)
            each.token = subscription.token()
            subscription.acknowledge()
            for row in zip(*batch.columns, strict=True):
                self._arrived(row, now)

    async def _begin(self, client: Client, each: Followed) -> Subscription:
        if each.token is not None:
            return await client.attach(each.token, auto_acknowledge=False)
        each.called_at = each.called_at or time.monotonic()
        query = each.query
        subscription = await client.subscribe(
            query.text, algorithm=query.algorithm, per_event=query.per_event, lease_seconds=LEASE_SECONDS,
            auto_acknowledge=False,
        )  # fmt: skip
        each.live_at = time.monotonic()
        return subscription
