"""What a gateway knows of all nodes: who is there and who is missing, their loads, the subscriptions they are home of.

The problem
-----------
A node tells its own state, and whom it believes to be there.  To show a ring somebody has to ask each member.  But
there may be a thousand, and any number of people may be looking: asked each time anew by each of them, nodes would do
little else.

The idea
--------
Nodes are asked in *rounds*, and only when somebody looks: a round is used for ``REUSE_SECONDS``, and whoever looks
while one is under way waits for the same one.  It asks the node that the gateway uses who is there, and then at most
``ASKED_MAX`` members, those first who were not asked for longest.  What the others said last stays, with its age.  So
the load on nodes does not depend on how many look, and that on the gateway not on how many nodes there are.

Who is missing
--------------
Where nodes all know each other, they say for ten minutes who is dead and who has left.  Elsewhere each knows some: the
members are those that any of those asked has named, and who is named and does not answer is missing.  A member that was
here and that nobody names any more is missing until it is forgotten, too.
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
"""So long a round is news."""
ASKED_MAX: Final = 32
"""Members asked in a round, all at a time."""
MEMBERS_MAX: Final = 4096
FORGET_SECONDS: Final = 600.0
"""So long a member is remembered that nobody names."""
SUBSCRIPTIONS_MAX: Final = 4096
"""Subscriptions kept, of all members; of each as many as its part is, but four."""
_ASK_SECONDS: Final = 2.0
_STATE_SECONDS: Final = 3.0
"""How long the node in use has."""
_RATE_SECONDS: Final = (0.5, 120.0)
"""Of two counts of a member, to tell a rate by: at least and at most so long after each other."""
_LOADS: Final = {
    **{name: ("peer", name) for name in (
        "storage_load", "processing_load", "triples", "queries", "rows", "subscriptions_home", "subscriptions_here",
        "answers_held", "busy", "in_step",
    )},
    "clients": ("clients", "clients"), "memory_bytes": ("memory_bytes",), "uptime_seconds": ("uptime_seconds",),
    "stopping": ("stopping",),
}  # fmt: skip
"""What is told of a node, and where that is in its state."""

Told = Mapping[str, Any]


@dataclass(slots=True)
class Member:
    """What is known of a node.  Times are monotonic seconds.

    ``named``: when a node named it last.  ``belief``: what the node in use believes, if it is not alive.
    """

    key: str
    address: str
    named: float
    belief: str = ""
    asked: float = 0.0
    heard: float | None = None
    silence: str = ""
    """Why it did not answer when it was asked last."""
    load: dict[str, Any] | None = None
    per_second: float | None = None
    """By how much its processing load grew."""
    subscriptions: list[dict[str, Any]] = field(default_factory=list)
    subscriptions_total: int = 0

    def take(self, state: Told, now: float) -> None:
        """Take in its state."""
        load = {name: _found(state, path) for name, path in _LOADS.items()}
        before, heard = self.load, self.heard
        self.per_second = None
        if before is not None and heard is not None and _RATE_SECONDS[0] <= now - heard <= _RATE_SECONDS[1]:
            grown = float(load["processing_load"]) - float(before["processing_load"])
            if grown >= 0 and float(load["uptime_seconds"]) > float(before["uptime_seconds"]):
                self.per_second = grown / (now - heard)
        self.load, self.heard, self.silence = load, now, ""

    def state(self, named_at: float) -> tuple[str, str]:
        """Return whether it is ``here``, ``missing``, has ``left`` or is ``unasked``, and the reason if it is missing.

        ``named_at``: who was not named since is named by nobody any more.
        """
        unnamed = self.named < named_at
        said_goodbye = self.load is not None and bool(self.load["stopping"]) and bool(unnamed or self.silence)
        if self.belief == "left" or (said_goodbye and self.belief != "dead"):
            return "left", ""
        if self.belief == "dead":
            return "missing", self.silence or "the other nodes believe that it is dead"
        if self.silence:
            return "missing", self.silence
        if unnamed:
            return "missing", "no node names it any more"
        return ("unasked" if self.heard is None else "here"), ""


class Survey:
    """Asks nodes, and keeps what they said."""

    def __init__(self, used: Callable[[], Client], reach: Callable[[str], Awaitable[Client]] | None):
        """``used`` returns the client of the node in use, ``reach`` connects to that at an address and no other.

        Without ``reach`` the node in use alone is asked.
        """
        self._used = used
        self._reach = reach
        self.members: dict[str, Member] = {}
        self.left_out = 0
        """Members that there was no room for, in the last round."""
        self.state: Told = {}
        """Of the node in use."""
        self.rounds = 0
        self.made = 0.0
        """When the last round ended."""
        self.named_at = 0.0
        self._round: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """Return when there is a round that is news.  Raises Unavailable if the node in use does not answer."""
        if self._round is None:
            if self.rounds and time.monotonic() - self.made < REUSE_SECONDS:
                return
            self._round = asyncio.create_task(self._ask_all(), name="survey")
            self._round.add_done_callback(self._ended)
        await asyncio.shield(self._round)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._round = None
        if not task.cancelled():
            task.exception()  # it was told to whoever waited

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
        self._believe(state, now)
        # Where all know all, who is not named now is named by nobody; elsewhere any may name it, and not all are asked.
        self.named_at = now if everyone_known(state) else now - FORGET_SECONDS / 2
        chosen = self._chosen(own)
        asked = [self._ask(member) for member in chosen]
        if own is not None:
            own.belief = ""
            asked.append(self._ask_used(own, client, state))
        await asyncio.gather(*asked)
        self._forget(time.monotonic())
        self.rounds += 1
        self.made = time.monotonic()

    def _chosen(self, own: Member | None) -> list[Member]:
        """Return whom to ask, longest not asked first."""
        if self._reach is None:
            return []
        candidates = [
            each for each in self.members.values()
            if each is not own and not each.belief and each.named >= self.named_at
        ]  # fmt: skip
        return sorted(candidates, key=lambda each: each.asked)[:ASKED_MAX]

    async def _ask_used(self, member: Member, client: Client, state: Told) -> None:
        member.asked = time.monotonic()
        await self._taken(member, client, state)

    async def _ask(self, member: Member) -> None:
        assert self._reach is not None
        member.asked = time.monotonic()
        try:
            async with asyncio.timeout(_ASK_SECONDS), await self._reach(member.address) as client:
                state = await client.status()
                if state["key"] == member.key:
                    if not everyone_known(self.state):
                        self._name(state, time.monotonic())
                    await self._taken(member, client, state)
                else:
                    member.silence = "another node is at its address"
        except TimeoutError:
            member.silence = f"it does not answer within {_ASK_SECONDS:g} s"
        except (P2PRDFError, OSError) as error:
            member.silence = str(error)
        except (KeyError, TypeError, ValueError) as error:
            member.silence = f"what it tells is not understood: {error!r}"

    async def _taken(self, member: Member, client: Client, state: Told) -> None:
        """Take in the state of a node, and its subscriptions if it tells any."""
        member.take(state, time.monotonic())
        found: list[dict[str, Any]] = []
        most, total, more = max(4, SUBSCRIPTIONS_MAX // len(self.members)), 0, True
        # Who tells its state is here, though it cannot be asked for these.
        with contextlib.suppress(P2PRDFError, TimeoutError, KeyError, TypeError, ValueError):
            async with asyncio.timeout(_ASK_SECONDS):
                while more and len(found) < most:
                    told = await client.subscriptions(after=int(found[-1]["number"], 16) if found else 0)
                    total, more = int(told["total"]), bool(told["more"] and told["subscriptions"])
                    found += told["subscriptions"]
        member.subscriptions, member.subscriptions_total = found[:most], total

    # --- who there is --------------------------------------------------------------------------------------------

    def _name(self, state: Told, now: float) -> None:
        """Note whom a node names."""
        for peer in state["peers"]:
            self._member(str(peer["key"]), str(peer["address"]), now)

    def _member(self, key: str, address: str, now: float) -> Member | None:
        member = self.members.get(key)
        if member is None:
            if len(self.members) >= MEMBERS_MAX:
                self.left_out += 1
                return None
            member = self.members[key] = Member(key, address, now)
        elif member.address != address:  # it was started again elsewhere
            member.address, member.silence = address, ""
        member.named = now
        return member

    def _believe(self, state: Told, now: float) -> None:
        """Note what the node in use believes of those that are not alive, if it tells."""
        for member in self.members.values():
            member.belief = ""
        for told in state["discovery"].get("members", ()):
            if told["state"] in ("dead", "left"):
                host = f"[{told['host']}]" if ":" in told["host"] else told["host"]
                key = str(told["key"])
                gone = self.members.get(key) or self._member(key, f"{host}:{told['port']}", now)
                if gone is not None:
                    gone.belief = str(told["state"])

    def _forget(self, now: float) -> None:
        for key, member in list(self.members.items()):
            if member.named < now - FORGET_SECONDS and not member.belief:
                del self.members[key]


def everyone_known(state: Told) -> bool:
    """Return whether a node knows all others, by its state."""
    return state["discovery"].get("membership") == "view" and bool(state["discovery"].get("complete"))


def _found(state: Told, path: tuple[str, ...]) -> Any:
    value: Any = state
    for name in path:
        value = value[name]
    return value
