"""Durable subscriptions of the tools: start, read by repeated calls, stop.

*Problem.*  A model reads the solutions of a subscription in separate calls, and the server may end between two of
them: hosts start a server for each conversation.  A resume token of the client grows with the solutions that it
covers, and a model would have to copy it without an error.

*Solution.*  The model receives a short token: the number of the subscription and the number of the last answer.  The
server keeps the client's resume tokens in a folder, one file for each subscription.  A call attaches with the stored
token, waits for solutions, replaces the file, and answers; the next call acknowledges these solutions.  The file
has the tokens before and after the last answer, so an answer that was lost is read again with the token of the answer
before it.  Without the file (another machine, a deleted folder) the nodes deliver all unacknowledged solutions, so
those of the last answer may repeat.  The answers of a settled watch end at marks.  One call at a time reads a
subscription: a lock of its file orders the calls of all servers with this folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from p2prdf.errors import Busy, LocalProtocolError, NotAllowed, QueryRefused, SubscriptionGone, TokenRefused
from p2prdf.mcp.tools import Row

if TYPE_CHECKING:
    from p2prdf.client import Solution, Subscription
    from p2prdf.gateway.connections import Connections

__all__ = ["WATCHES_MAX", "Changes", "Watch", "Watches"]

WATCHES_MAX: Final = 64
"""Most subscriptions in one folder."""
_POLLS_MAX: Final = 32
"""Most calls that wait at a time; each has a connection to a node."""
_LINGER_SECONDS: Final = 0.3
"""Silence after a solution that ends an answer before it is full."""
_MARK_SECONDS: Final = 10.0
"""Longest wait for the mark behind the solutions of a settled watch."""
_WAIT_SECONDS_MIN: Final = 1.0
"""Shortest wait for the first solution: nodes send the waiting ones after the attachment."""
_UNKNOWN_LEASE_SECONDS: Final = 604_800.0
"""Time for which the state of a subscription is kept that was begun elsewhere."""
_TOKEN: Final = re.compile(r"([0-9a-f]{16})-([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Watch:
    """The stored state of a subscription."""

    number: str
    """The number of the subscription, as 16 hexadecimal digits."""
    client: str
    """The client that it belongs to; "": the server itself."""
    query: str
    since: str
    lease_seconds: float
    answers: int
    """Number of answers so far."""
    before: str
    after: str
    """The client's resume tokens before and after the last answer, in hexadecimal."""

    @property
    def token(self) -> str:
        """The token that continues after the last answer."""
        return f"{self.number}-{self.answers}"


@dataclass(frozen=True, slots=True)
class Changes:
    """One answer: solutions that became true and solutions that ceased to be true, in their order."""

    token: str
    names: tuple[str, ...]
    changes: list[tuple[bool, Row]]
    """Whether the solution was removed, and its terms."""
    lost: int
    """Solutions that the nodes dropped, because too many waited for this subscriber."""
    full: bool
    """Whether more solutions may be waiting."""
    repeated: bool
    """Whether solutions of earlier answers may be among them."""
    settled: bool = False
    mark: float | None = None
    """Of a settled watch: all solutions so far are the answer to the graph as of this time; None: more follow first."""


class Watches:
    """The durable subscriptions of one folder."""

    def __init__(self, connections: Connections, folder: Path, *, query_characters_max: int, characters_max: int):
        self._connections = connections
        self._folder = folder
        self._query_characters_max = query_characters_max
        self._characters_max = characters_max
        self._under_way: set[str] = set()
        self._starting = 0

    async def start(
        self, name: str, query: str, *, since: str | None, lease_seconds: float, settled: bool | None = None
    ) -> tuple[Watch, tuple[str, ...]]:
        """Subscribe; return the state and the names of the columns.

        Raises QueryRefused, LocalProtocolError if the folder is full, Busy, Unavailable.
        """
        if len(query) > self._query_characters_max:
            raise QueryRefused(
                f"{len(query):,} characters; at most {self._query_characters_max:,} are accepted", construct="text"
            )
        if len(self._all()) + self._starting >= WATCHES_MAX:
            raise LocalProtocolError(f"{WATCHES_MAX} watches exist, the maximum: end one with watch_stop")
        self._starting += 1
        try:
            async with await self._connections.own(name) as client:
                subscription = await client.subscribe(
                    query, since=since, lease_seconds=lease_seconds, auto_acknowledge=False, settled=settled
                )
                token = subscription.token().hex()
                since = since or ("beginning" if subscription.settled else "now")
                watch = Watch(f"{subscription.id:016x}", name, query, since, lease_seconds, 0, token, token)
                try:
                    self._save(watch)
                except OSError:
                    await subscription.unsubscribe()
                    raise
        finally:
            self._starting -= 1
        return watch, subscription.names

    async def poll(self, name: str, token: str, *, wait_seconds: float, solutions_max: int) -> Changes:
        """Return the next solutions; wait for the first up to ``wait_seconds``, and at least a second.

        ``token``: of the last answer; the token of the answer before it reads a lost last answer again, until the
        next call has acknowledged it.

        Raises TokenRefused for any other token, SubscriptionGone, NotAllowed, Busy while another call reads the same
        subscription, Unavailable, OSError.
        """
        number, answers = _read(token)
        with self._alone(number):
            watch = self._load(number, name)
            again = watch is not None and answers == watch.answers - 1 and watch.before != watch.after
            if watch is not None and answers != watch.answers and not again:
                raise TokenRefused(f"{token} is not the token of the last answer: continue with {watch.token}")
            async with await self._connections.own(name) as client:
                try:
                    known = int(number, 16) if watch is None else bytes.fromhex(watch.before if again else watch.after)
                    subscription = await client.attach(known, auto_acknowledge=False, again=again)
                except SubscriptionGone as error:
                    self._path(number).unlink(missing_ok=True)
                    raise SubscriptionGone(f"{error}; start it again with watch_start") from None
                start = subscription.token().hex()
                seconds, mark = max(wait_seconds, _WAIT_SECONDS_MIN), None
                if subscription.settled:
                    found, mark = await self._read_state(subscription, seconds, solutions_max)
                else:
                    found = await self._read_some(subscription, seconds, solutions_max)
                lost = sum(each.lost for each in found)
                repeated = watch is None and bool(found)
                watch = watch or Watch(number, name, "", "", _UNKNOWN_LEASE_SECONDS, answers, start, start)
                if found or lost:
                    watch = replace(watch, answers=answers + 1, before=start, after=subscription.token().hex())
                elif not again:  # the attachment has acknowledged the last answer
                    watch = replace(watch, before=start, after=start)
                self._save(watch)
        changes = [(each.removed, each.terms) for each in found]
        full = len(found) >= solutions_max or subscription.waiting
        return Changes(
            watch.token if found or lost else token, subscription.names, changes, lost, full=full, repeated=repeated,
            settled=subscription.settled, mark=mark,
        )  # fmt: skip

    async def stop(self, name: str, token: str) -> None:
        """End a subscription; ending it twice is no error.  Raises TokenRefused, NotAllowed, Busy,
        Unavailable, OSError.
        """
        number, _ = _read(token)
        with self._alone(number):
            self._load(number, name)
            async with await self._connections.own(name) as client:
                await client.unsubscribe(int(number, 16))
            self._path(number).unlink(missing_ok=True)

    def of(self, name: str) -> list[Watch]:
        """Return the subscriptions of a client, without expired ones."""
        return [each for each in self._all() if each.client == name]

    async def _read_some(self, subscription: Subscription, seconds: float, most: int) -> list[Solution]:
        """Return the solutions until there are ``most``, their text is long, or none follows the last one soon."""
        found: list[Solution] = []
        characters, loop = 0, asyncio.get_running_loop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds) as limit:
                async for solution in subscription:
                    found.append(solution)
                    characters += sum(len(term) for term in solution.terms if term is not None)
                    if len(found) >= most or characters >= self._characters_max:
                        break
                    limit.reschedule(loop.time() + _LINGER_SECONDS)
        return found

    async def _read_state(
        self, subscription: Subscription, seconds: float, most: int
    ) -> tuple[list[Solution], float | None]:
        """Return the solutions up to a mark, and its time; None if there are more than fit an answer."""
        found: list[Solution] = []
        characters, mark = 0, None
        is_full = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds) as limit:
                async for batch in subscription.batches(solutions_max=most):
                    if len(batch) and (is_full or len(found) + len(batch) > most):
                        subscription.put_back(batch)
                        return found, None
                    if len(batch):
                        limit.reschedule(asyncio.get_running_loop().time() + _MARK_SECONDS)
                        mark = None
                    found += batch
                    characters += sum(len(term) for each in batch for term in each.terms if term is not None)
                    is_full = len(found) >= most or characters >= self._characters_max
                    if batch.bookmark is not None:
                        mark = batch.bookmark
                        if found:
                            break
        return found, mark

    # --- files -------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _alone(self, number: str) -> Iterator[None]:
        """Exclude other calls for a subscription, also those of other processes.  Raises Busy; OSError."""
        if number in self._under_way:
            raise Busy(f"another call reads the watch {number}", retry_after=5.0)
        if len(self._under_way) >= _POLLS_MAX:
            raise Busy(f"{_POLLS_MAX} watches are being read, the maximum", retry_after=5.0)
        self._under_way.add(number)
        try:
            with self._locked(number):
                yield
        finally:
            self._under_way.discard(number)

    @contextlib.contextmanager
    def _locked(self, number: str) -> Iterator[None]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(number).with_suffix(".lock")
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_current = os.path.samestat(os.fstat(lock), path.stat())
            except (BlockingIOError, FileNotFoundError):  # held, or removed by the last holder
                is_current = False
            if not is_current:
                raise Busy(f"another server reads the watch {number}", retry_after=5.0)
            try:
                yield
            finally:
                if not self._path(number).exists():
                    path.unlink(missing_ok=True)
        finally:
            os.close(lock)

    def _path(self, number: str) -> Path:
        return self._folder / f"{number}.json"

    def _load(self, number: str, name: str) -> Watch | None:
        """Return the state of a subscription, None if this folder has none.  Raises NotAllowed for another client's."""
        watch = _loaded(self._path(number))
        if watch is not None and watch.client != name:
            raise NotAllowed(f"the watch {number} belongs to another client")
        return watch

    def _all(self) -> list[Watch]:
        """Return all stored subscriptions; delete files that were not used for a lease."""
        found: list[Watch] = []
        for path in sorted(self._folder.glob("*.json")):
            watch = _loaded(path)
            if watch is None:
                continue
            if path.stat().st_mtime + watch.lease_seconds < time.time():
                path.unlink(missing_ok=True)
                path.with_suffix(".lock").unlink(missing_ok=True)
                continue
            found.append(watch)
        return found

    def _save(self, watch: Watch) -> None:
        """Replace the file of a subscription.  Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(watch.number)
        beside = path.with_suffix(f".{os.getpid()}.new")
        beside.write_text(json.dumps(asdict(watch)), encoding="utf-8")
        beside.replace(path)


def _loaded(path: Path) -> Watch | None:
    """Return the state in a file; None for a missing or damaged file, since the nodes have the subscription."""
    try:
        return Watch(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _read(token: str) -> tuple[str, int]:
    match = _TOKEN.fullmatch(token.strip().lower())
    if match is None:
        reason = "give the token of watch_start or of the last answer"
        raise TokenRefused(f"{token[:40]!r} is no token of a watch: {reason}")
    return match[1], int(match[2])
