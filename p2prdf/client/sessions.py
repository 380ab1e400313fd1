"""The sessions of a client: one at a time, and a search for the next one when it is lost.

Each caller uses *the current session*, and the next one if that fails. A session ends when its connection
breaks, when the node leaves, when a request times out, after repeated refusals as unavailable, or when a silent
node does not answer a ping.

Then a *search* tries all known addresses in rounds, the lost one last; the first welcome wins. Pauses between
rounds double and are random. An *outage* begins with the loss. It ends when the next session has answered a
request or has lasted a while; a node that welcomes and disconnects does not end it. After ``reconnect_seconds``
of outage the search fails for all callers, and a later call starts a new search.

docs/explanation/design/client.md explains why the repetition of requests, publications and attachments is safe.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from p2prdf.client.session import Session, Silent, open_session
from p2prdf.errors import Busy, P2PRDFError, Unavailable
from p2prdf.wire import messages

if TYPE_CHECKING:
    import ssl

    from p2prdf.tls import Tls
    from p2prdf.wire.messages import Contact

__all__ = ["Address", "Retry", "Sessions"]

PAUSE_SECONDS_MIN: Final = 0.05
PAUSE_SECONDS_MAX: Final = 2.0
SETTLED_SECONDS: Final = 2.0
"""A session of this age has ended the outage before it, even without a request."""
REFUSALS_MAX: Final = 3
"""Number of refusals of a request as unavailable after which the client changes the node."""
NEXT_SECONDS: Final = 0.25
"""Wait for an answer before the next address is tried concurrently."""
OTHERS_MAX: Final = 64
"""Bound on the addresses remembered from a node's report."""

Address = tuple[str, int]

log = logging.getLogger("p2prdf.client")


class Sessions:
    """The session in use, and the search for the next one.

    ``on_session`` is called with each new session before its first use, ``on_down`` with the reason when there
    is no session and no search, ``on_reconnect`` with the address after a search. ``reconnect_seconds``: how
    long an outage may last; 0: the first loss is final.
    """

    def __init__(
        self,
        addresses: list[Address],
        *,
        connect_seconds: float,
        timeout_seconds: float,
        reconnect_seconds: float,
        ping_seconds: float,
        on_reconnect: Callable[[str], None] | None = None,
        tls: Tls | ssl.SSLContext | None = None,
        speaks_for: str = "",
    ):
        self.peer: Contact
        """The node of the session in use, or of the last one."""
        self.timeout_seconds = timeout_seconds
        self.reconnect_seconds = reconnect_seconds
        self._ping_seconds = ping_seconds
        self.on_session: Callable[[Session], None] = lambda _session: None
        self.on_down: Callable[[P2PRDFError], None] = lambda _error: None
        self.on_reconnect = on_reconnect
        self.ended: P2PRDFError | None = None
        """Why there will never be a session again."""
        self.latest = 0
        """The latest stamp of an acknowledged publication: later publications follow it, at any node."""
        self._connect_seconds = connect_seconds
        self._tls = tls
        self._speaks_for = speaks_for
        self._given = addresses
        self._others: list[Address] = []
        self._address = addresses[0]
        self._session: Session | None = None
        self._loss: P2PRDFError = Unavailable("there was no connection yet")
        self._outage = 0.0
        self._rounds = 0
        self._found: asyncio.Future[Session] | None = None
        self._searching: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    # --- for callers -----------------------------------------------------------------------------

    @property
    def others(self) -> list[str]:
        """Addresses of other nodes that the one in use reported, at most ``OTHERS_MAX``."""
        return list(map(_text, self._others))

    @property
    def live(self) -> Session | None:
        """The session in use, if there is one now."""
        session = self._session
        return session if session is not None and session.lost is None else None

    async def current(self) -> Session:
        """Return the session in use, or wait for the next one.  Raises Unavailable when the search fails."""
        if self.live is not None:
            return self.live
        if self.ended is not None:
            raise self.ended
        if self._found is None:  # an earlier search has failed
            self._outage, self._rounds = time.monotonic(), 0
            self._search()
        assert self._found is not None
        return await asyncio.shield(self._found)

    async def ask(self, make: Callable[[int], Any], *, busy_seconds: float = 0.0) -> tuple[Session, Any]:
        """Send the request that ``make`` builds, with retries at other nodes; return session and answer.

        Only for idempotent requests. ``busy_seconds``: how long to retry at a busy node. Raises Unavailable,
        Busy, or the error in the answer.
        """
        retry = Retry(self, busy_seconds=busy_seconds)
        while True:
            session = await self.current()
            try:
                return session, await session.ask(make, timeout_seconds=self.timeout_seconds)
            except (Busy, Unavailable) as error:
                await retry.after(session, error)

    # --- life ------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect for the first time: try each address once, in order.

        Raises Unavailable, or the node's error.
        """
        reasons: list[P2PRDFError] = []
        for address in self._given:
            try:
                self._use(address, await self._connect(address, self._connect_seconds))
            except P2PRDFError as error:
                reasons.append(error)
            else:
                return
        if len(reasons) == 1:
            raise reasons[0]
        raise Unavailable("no node answers: " + "; ".join(str(reason) for reason in reasons)) from reasons[-1]

    def close(self) -> None:
        """Close the session and search for no other."""
        if self.ended is None:
            self._end(Unavailable("the client was closed"))
        if self._session is not None:
            self._session.close()

    async def closed(self) -> None:
        """Wait until all tasks and the connection have ended."""
        tasks = [task for task in (self._searching, self._watching) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._session is not None:
            await self._session.closed()

    def _end(self, error: P2PRDFError) -> None:
        self.ended = error
        if self._searching is not None:
            self._searching.cancel()
        self._give_up(error)

    def _give_up(self, error: P2PRDFError) -> None:
        found, self._found = self._found, None
        if found is not None and not found.done():
            found.set_exception(error)
        self.on_down(error)

    # --- searching -------------------------------------------------------------------------------

    def _lost(self, session: Session, error: P2PRDFError) -> None:
        """Called by a session at its end."""
        if session is not self._session or self.ended is not None:
            return
        if self.reconnect_seconds <= 0:
            self._end(error)
            return
        session.drop(error)
        self._loss = error
        now = time.monotonic()
        if session.answered or now - session.opened_at >= SETTLED_SECONDS or not self._outage:
            self._outage, self._rounds = now, 0
        log.warning("%s: %s; reconnecting", _text(self._address), error)
        self._search()

    def _search(self) -> None:
        loop = asyncio.get_running_loop()
        self._found = loop.create_future()
        self._found.add_done_callback(_look_at)
        self._searching = loop.create_task(self._search_on(), name="p2prdf-reconnect")

    async def _search_on(self) -> None:
        deadline = self._outage + self.reconnect_seconds
        error = self._loss
        while (left := deadline - time.monotonic()) > 0:
            await asyncio.sleep(min(_pause(self._rounds), left))
            self._rounds += 1
            left = max(deadline - time.monotonic(), PAUSE_SECONDS_MIN)
            try:
                address, session = await self._first_of(self._candidates(), min(self._connect_seconds, left))
            except P2PRDFError as reason:
                error = reason
            else:
                self._use(address, session)
                return
        self._give_up(Unavailable(f"no node answered for {self.reconnect_seconds:g} s; the last error: {error}"))

    def _candidates(self) -> list[Address]:
        """Return all known addresses in the order of trying."""
        same = {self._address, (self.peer.host, self.peer.port)}
        others = [each for each in dict.fromkeys([*self._given, *self._others]) if each not in same]
        random.shuffle(others)
        return [*others, self._address]

    async def _first_of(self, addresses: list[Address], seconds: float) -> tuple[Address, Session]:
        """Connect to the first address that welcomes; ``seconds`` for each.  Raises the last error."""
        loop = asyncio.get_running_loop()
        waiting = list(reversed(addresses))
        trying: dict[asyncio.Task[Session], Address] = {}
        found: list[tuple[Address, Session]] = []
        error: P2PRDFError | None = None
        try:
            while not found and (waiting or trying):
                if waiting:
                    address = waiting.pop()
                    trying[loop.create_task(self._connect(address, seconds))] = address
                patience = NEXT_SECONDS if waiting else None
                done, _ = await asyncio.wait(trying, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    address = trying.pop(task)
                    try:
                        session = task.result()
                    except P2PRDFError as reason:
                        error = reason
                    else:
                        error = session.lost  # it may be lost already
                        found += [(address, session)] if error is None else []
        finally:
            for task in trying:
                task.cancel()
        for _, session in found[1:]:
            session.close()
        if found:
            return found[0]
        assert error is not None
        raise error

    async def _connect(self, address: Address, seconds: float) -> Session:
        session = await open_session(
            *address, connect_seconds=seconds, tls=self._tls, speaks_for=self._speaks_for
        )
        if session.lost is not None:
            raise session.lost
        return session

    def _use(self, address: Address, session: Session) -> None:
        welcome = session.welcome.result()
        self.peer = welcome.peer
        self._address, self._session = address, session
        self._others = [(each.host, each.port) for each in welcome.others[:OTHERS_MAX]]
        session.on_lost = partial(self._lost, session)
        self.on_session(session)
        if self.reconnect_seconds > 0:
            watch = self._watch(session)
            self._watching = asyncio.get_running_loop().create_task(watch, name="p2prdf-watch")
        found, self._found = self._found, None
        if found is None:
            return
        log.info("%s: reconnected after %.1f s", _text(address), time.monotonic() - self._outage)
        if not found.done():
            found.set_result(session)
        if self.on_reconnect is not None:
            self.on_reconnect(_text(address))


    async def _watch(self, session: Session) -> None:
        """Drop a session to a node that stays silent even after a ping."""
        while session.lost is None:
            due = session.heard_at + self._ping_seconds
            await asyncio.sleep(max(due - time.monotonic(), PAUSE_SECONDS_MIN))
            if session.lost is not None or time.monotonic() - session.heard_at < self._ping_seconds:
                continue
            try:
                await session.ask(messages.ClientPing, timeout_seconds=self.timeout_seconds)
            except Silent as error:
                session.drop(error)
            except P2PRDFError:
                pass  # it is lost


class Retry:
    """Retry policy of one request: how often, and where.

    ``busy_seconds``: total wait for busy nodes. ``stay``: stay with a node that refuses this request and
    answers others. ``since``: start of the retry time (monotonic seconds), by default the first failure.
    """

    def __init__(
        self, sessions: Sessions, *, busy_seconds: float = 0.0, stay: bool = False, since: float | None = None
    ):
        self._sessions = sessions
        self._busy_left = busy_seconds
        self._stay = stay
        self._since = since
        self._tries = 0
        self._refusals = 0

    async def after(self, session: Session, error: Busy | Unavailable) -> None:
        """Return when a retry makes sense, at the session then in use; otherwise raise ``error``."""
        pause = _pause(self._tries)
        self._tries += 1
        if isinstance(error, Busy):
            pause = max(pause, error.retry_after * random.uniform(1.0, 1.5))  # noqa: S311 - spreads load, guards nothing
            if pause > self._busy_left:
                raise error
            self._busy_left -= pause
            await asyncio.sleep(pause)
            return
        seconds, now = self._sessions.reconnect_seconds, time.monotonic()
        self._since = now if self._since is None else self._since
        if self._sessions.ended is not None or seconds <= 0 or now - self._since > seconds:
            raise error
        if session.lost is not None:
            return
        # A node that answers other requests waits for a slow coordinator: another node would, too.
        hung = isinstance(error, Silent) and now - session.heard_at >= self._sessions.timeout_seconds
        self._refusals += REFUSALS_MAX if hung else 1
        if self._refusals >= REFUSALS_MAX and not (self._stay and session.answered):
            self._refusals = 0
            session.drop(error)
        else:
            await asyncio.sleep(pause)


def _pause(tries: int) -> float:
    """Return seconds to wait: random, doubling with the number of tries up to a bound."""
    return random.uniform(0.5, 1.0) * min(PAUSE_SECONDS_MIN * (1 << min(tries, 16)), PAUSE_SECONDS_MAX)  # noqa: S311 - guards nothing


def _text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _look_at(found: asyncio.Future[Any]) -> None:
    if not found.cancelled():
        found.exception()
