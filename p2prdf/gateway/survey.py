"""State of all nodes as the gateway knows it: members, missing members, loads, coordinated subscriptions.

*Problem.*  A node reports its own state and the members that it believes to be alive.  A view of the whole ring has
to ask each member.  There may be a thousand members and any number of viewers; if each viewer asked each member,
nodes would do little else.

*Solution.*  Nodes are asked in *rounds*, and only on demand: a round is reused for ``REUSE_SECONDS``, and viewers
that come while one runs share it.  A round asks the node in use for the members, and then at most ``ASKED_MAX``
members, least recently asked first.  Older answers stay, with their age.  So the load on nodes is independent of the
number of viewers, and the load on the gateway of the number of nodes.

*Missing members.*  With complete views, nodes report dead and departed members for ten minutes.  Otherwise each node
knows some others: the members are those named by any node asked, and a named member that does not answer is missing.
A member that answered before and that no node names any more also counts as missing until it is forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from p2prdf.client import Client
from p2prdf.errors import P2PRDFError, Unavailable

__all__ = ["ASKED_MAX", "REUSE_SECONDS", "Member", "Survey", "everyone_known"]

REUSE_SECONDS: Final = 1.5
"""Time for which a round is reused."""
ASKED_MAX: Final = 32
"""Members asked in one round, concurrently."""
MEMBERS_MAX: Final = 4096
FORGET_SECONDS: Final = 600.0
"""Time for which a member is remembered that no node names."""
SUBSCRIPTIONS_MAX: Final = 4096
"""Subscriptions kept for all members together; each has an equal share, at least four."""
_ASK_SECONDS: Final = 2.0
_STATE_SECONDS: Final = 3.0
"""Deadline for the node in use."""
_RATE_SECONDS: Final = (0.5, 120.0)
"""Least and greatest interval between two counts from which a rate is computed."""
_LOADS: Final = {
    **{name: ("peer", name) for name in (
        "storage_load", "processing_load", "triples", "queries", "rows", "subscriptions_coordinated",
        "subscriptions_local", "solutions_held", "busy", "in_sync",
    )},
    "clients": ("clients", "clients"), "memory_bytes": ("memory_bytes",), "uptime_seconds": ("uptime_seconds",),
    "stopping": ("stopping",),
}  # fmt: skip
"""Reported figures of a node, and their paths in its state."""

Told = Mapping[str, Any]


@dataclass(slots=True)
class Member:
    """Knowledge about one node.  Times are in monotonic seconds.

    ``named``: last time that a node named it.  ``view_state``: state in the view of the node in use, unless alive.
    """

    key: str
    address: str
    named: float
    view_state: str = ""
    asked: float = 0.0
    heard: float | None = None
    silence: str = ""
    """Reason why it did not answer last time."""
    load: dict[str, Any] | None = None
    per_second: float | None = None
    """Growth rate of its processing load."""
    subscriptions: list[dict[str, Any]] = field(default_factory=list)
    subscriptions_total: int = 0

    def take(self, state: Told, now: float) -> None:
        """Note a state that the node reported."""
        load = {name: _found(state, path) for name, path in _LOADS.items()}
        before, heard = self.load, self.heard
        self.per_second = None
        if before is not None and heard is not None and _RATE_SECONDS[0] <= now - heard <= _RATE_SECONDS[1]:
            grown = float(load["processing_load"]) - float(before["processing_load"])
            if grown >= 0 and float(load["uptime_seconds"]) > float(before["uptime_seconds"]):
                self.per_second = grown / (now - heard)
        self.load, self.heard, self.silence = load, now, ""

    def state(self, named_at: float) -> tuple[str, str]:
        """Return its state, ``here``, ``missing``, ``left`` or ``unasked``, and the reason if it is missing.

        ``named_at``: a member not named since then is no longer named by any node.
        """
        unnamed = self.named < named_at
        said_goodbye = self.load is not None and bool(self.load["stopping"]) and bool(unnamed or self.silence)
        if self.view_state == "left" or (said_goodbye and self.view_state != "dead"):
            return "left", ""
        if self.view_state == "dead":
            return "missing", self.silence or "the other nodes report that it is dead"
        if self.silence:
            return "missing", self.silence
        if unnamed:
            return "missing", "no node names it any longer"
        return ("unasked" if self.heard is None else "here"), ""


class Survey:
    """Asks nodes for their states, and keeps the answers."""

    def __init__(self, used: Callable[[], Client], reach: Callable[[str], Awaitable[Client]] | None):
        """``used`` returns the client of the node in use; ``reach`` connects to the node at an address and to no other.

        Without ``reach`` only the node in use is asked.
        """
        self._used = used
        self._reach = reach
        self.members: dict[str, Member] = {}
        self.left_out = 0
        """Members beyond MEMBERS_MAX in the last round."""
        self.state: Told = {}
        """State of the node in use."""
        self.rounds = 0
        self.made = 0.0
        """End of the last round."""
        self.named_at = 0.0
        self._round: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """Ensure a recent round.  Raises Unavailable if the node in use does not answer."""
        if self._round is None:
            if self.rounds and time.monotonic() - self.made < REUSE_SECONDS:
                return
            self._round = asyncio.create_task(self._ask_all(), name="survey")
            self._round.add_done_callback(self._ended)
        await asyncio.shield(self._round)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._round = None
        if not task.cancelled():
            task.exception()  # the callers of refresh have received it

    async def close(self) -> None:
        """Stop asking."""
        task = self._round
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, P2PRDFError):
                await task

    # --- a round -------------------------------------------------------------------------------------------------

    async def _ask_all(self) -> None:
        client = self._used()
        try:
            async with asyncio.timeout(_STATE_SECONDS):
                state = await client.status()
        except TimeoutError:
            raise Unavailable(f"no node has answered within {_STATE_SECONDS:g} s") from None
        now = time.monotonic()
        self.left_out = 0
        self.state = state
        self._name(state, now)
        own = self._member(str(state["key"]), str(state["address"]), now)
        self._note_view(state, now)
        # With complete views, a member not named now is named by no node; otherwise any node may name it, and not all
        # are asked.
        self.named_at = now if everyone_known(state) else now - FORGET_SECONDS / 2
        chosen = self._chosen(own)
        asked = [self._ask(member) for member in chosen]
        if own is not None:
            own.view_state = ""
            asked.append(self._ask_used(own, client, state))
        await asyncio.gather(*asked)
        self._forget(time.monotonic())
        self.rounds += 1
        self.made = time.monotonic()

    def _chosen(self, own: Member | None) -> list[Member]:
        """Return the members to ask, least recently asked first."""
        if self._reach is None:
            return []
        candidates = [
            each for each in self.members.values()
            if each is not own and not each.view_state and each.named >= self.named_at
        ]  # fmt: skip
        return sorted(candidates, key=lambda each: each.asked)[:ASKED_MAX]

    async def _ask_used(self, member: Member, client: Client, state: Told) -> None:
        member.asked = time.monotonic()
        await self._note_state(member, client, state)

    async def _ask(self, member: Member) -> None:
        assert self._reach is not None
        member.asked = time.monotonic()
        try:
            async with asyncio.timeout(_ASK_SECONDS), await self._reach(member.address) as client:
                state = await client.status()
                if state["key"] == member.key:
                    if not everyone_known(self.state):
                        self._name(state, time.monotonic())
                    await self._note_state(member, client, state)
                else:
                    member.silence = "another node is at its address"
        except TimeoutError:
            member.silence = f"no answer within {_ASK_SECONDS:g} s"
        except (P2PRDFError, OSError) as error:
            member.silence = str(error)
        except (KeyError, TypeError, ValueError) as error:
            member.silence = f"its answer is not understood: {error!r}"

    async def _note_state(self, member: Member, client: Client, state: Told) -> None:
        """Note the state of a node, and its subscriptions if it reports them."""
        member.take(state, time.monotonic())
        found: list[dict[str, Any]] = []
        most, total, more = max(4, SUBSCRIPTIONS_MAX // len(self.members)), 0, True
        # A node that reports its state is alive even if it does not report its subscriptions.
        with contextlib.suppress(P2PRDFError, TimeoutError, KeyError, TypeError, ValueError):
            async with asyncio.timeout(_ASK_SECONDS):
                while more and len(found) < most:
                    told = await client.subscriptions(after=int(found[-1]["number"], 16) if found else 0)
                    total, more = int(told["total"]), bool(told["more"] and told["subscriptions"])
                    found += told["subscriptions"]
        member.subscriptions, member.subscriptions_total = found[:most], total

    # --- members -----------------------------------------------------------------------------------------------------

    def _name(self, state: Told, now: float) -> None:
        """Note the members that a node names."""
        for peer in state["peers"]:
            self._member(str(peer["key"]), str(peer["address"]), now)

    def _member(self, key: str, address: str, now: float) -> Member | None:
        member = self.members.get(key)
        if member is None:
            if len(self.members) >= MEMBERS_MAX:
                self.left_out += 1
                return None
            member = self.members[key] = Member(key, address, now)
        elif member.address != address:  # it was restarted at another address
            member.address, member.silence = address, ""
        member.named = now
        return member

    def _note_view(self, state: Told, now: float) -> None:
        """Note the members that are dead or have left in the view of the node in use."""
        for member in self.members.values():
            member.view_state = ""
        for told in state["discovery"].get("members", ()):
            if told["state"] in ("dead", "left"):
                host = f"[{told['host']}]" if ":" in told["host"] else told["host"]
                key = str(told["key"])
                gone = self.members.get(key) or self._member(key, f"{host}:{told['port']}", now)
                if gone is not None:
                    gone.view_state = str(told["state"])

    def _forget(self, now: float) -> None:
        for key, member in list(self.members.items()):
            if member.named < now - FORGET_SECONDS and not member.view_state:
                del self.members[key]


def everyone_known(state: Told) -> bool:
    """Tell whether a node has a complete view, by its state."""
    return state["discovery"].get("membership") == "view" and bool(state["discovery"].get("complete"))


def _found(state: Told, path: tuple[str, ...]) -> Any:
    value: Any = state
    for name in path:
        value = value[name]
    return value
