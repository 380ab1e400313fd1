"""The part that all memberships have in common: the daemon's interface, joining, and driving a state machine.

*Joining.*  A node without bootstrap addresses begins an overlay.  Otherwise it pings them, and joins through a member
that answers.  Without a member, one node begins an overlay: if all addresses answer, the node with the lowest key; if
some are silent, any node that has met others for ``CREATE_SECONDS``, or for ``MINORITY_SECONDS`` if most are silent (up
to twice as long, at random).  A node that has met no other node retries, because names may resolve late, except with
the setting ``first`` (unless it remembers other members) or if all addresses are its own.  Later it pings the addresses
from time to time, so that a second overlay is found and merged (docs/explanation/design/membership.md).
"""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic

import structlog

from p2prdf.overlay.membership import Broken, Create, Leave, Post
from p2prdf.wire.contract import ClusterEntered, ContactLost, ContactSeen, OwnersFound, SeedsReached, Trace
from p2prdf.wire.messages import Contact
from p2prdf_node.datagrams import Datagrams, P
from p2prdf_node.seeds import Address, Seeds

if TYPE_CHECKING:
    import socket

    from p2prdf_node.config import NodeConfig
    from p2prdf_node.seal import Keyring

__all__ = ["CONFIRM_PINGS", "CREATE_SECONDS", "Environment", "Members", "Spawn"]

CONFIRM_PINGS: Final = 8
"""Pings of a peer that connects, before it is refused; it may be busy sending."""
CREATE_SECONDS: Final = 1.0
MINORITY_SECONDS: Final = 20.0
"""Wait of nodes that have met at most half of their bootstrap addresses; up to twice as long, at random."""
RETRY_SECONDS_MIN: Final = 0.1
RETRY_SECONDS_STARTING: Final = 0.2
"""Pause between attempts of a starting node until it has met a member or begun an overlay."""
RETRY_SECONDS_ALONE: Final = 1.0
"""Pause of a member that knows no other node: others may be just starting."""
RETRY_SECONDS_UNREACHED: Final = 2.0
"""Pause of a node that has reached no bootstrap address for STARTING_SECONDS."""
STARTING_SECONDS: Final = 5.0
"""Time for which nodes that start together may be slower than this one."""
RETRY_SECONDS_MAX: Final = 5.0

_LEVELS: Final = {
    "peer_seen": "info",
    "peer_gone": "info",
    "ring_joined": "info",
    "view_joined": "info",
    "clock_trusted": "info",
    "successors_lost": "warning",
    "answer_malformed": "warning",
    "position_taken": "error",
    "clock_suspect": "error",
    "view_full": "error",
}

Spawn = Callable[[Coroutine[Any, Any, None], str], object]

log = structlog.get_logger("membership")


@dataclass(slots=True)
class Environment:
    """The daemon around a membership.

    ``clock``: the node's clock, which others compare with theirs.  ``seen`` receives each contact that becomes known as
    live, with its zone; ``lost`` each that failed or left, and whether in order.  ``known`` receives facts about all
    members.  ``linked`` tells whether a connection with the peer of a key is open.  ``excluded`` tells which keys are
    cut off (revoked certificates, expelled members).  ``keyring`` seals datagrams.  ``remembered`` returns the most
    members that this node has known in any incarnation, itself included.
    """

    config: NodeConfig
    contact: Contact
    keyring: Keyring
    clock: Callable[[], float]
    seen: Callable[[Contact, str], None]
    lost: Callable[[Contact, bool], None]
    known: Callable[[OwnersFound | SeedsReached | ClusterEntered], None]
    linked: Callable[[int], bool]
    spawn: Spawn
    excluded: Callable[[int], bool] = lambda _key: False
    remembered: Callable[[], int] = lambda: 1

    def now(self) -> float:
        """Return the time by the node's clock."""
        return self.clock()


class Members(ABC, Generic[P]):
    """The overlay as one node sees it: live peers and owners of keys.

    ``machine`` decides (:mod:`p2prdf.overlay.membership`); this class gives it packets, requests and the time, and
    carries out its effects.  ``joined`` is set once another node is known.  ``entered`` is set once this node is a
    member: it has reached another node, or begins an overlay.
    """

    def __init__(
        self, environment: Environment, machine: Any, kind: str, packet: type[P], *, answers: tuple[type, ...],
        untimely: Callable[[P], None] | None = None,
    ):  # fmt: skip
        self.environment = environment
        self.contact = environment.contact
        self.joined, self.entered = asyncio.Event(), asyncio.Event()
        self._machine = machine
        self._began = time.monotonic()
        self._seeds = Seeds(environment.config.bootstrap)
        self._datagrams = Datagrams(
            environment, kind, packet, answers=answers, received=self._received, untimely=untimely
        )

    # --- calls of the daemon -------------------------------------------------------------------------

    @property
    def fenced(self) -> str | None:
        """Reason why this node must take no new work, or None."""
        return None

    @property
    def joining(self) -> str | None:
        """Reason why this node is not a member yet, with the remedy; None for a member."""
        return None if self.entered.is_set() else self._seeds.problem()

    async def start(self, bound: socket.socket) -> None:
        """Begin to answer on a bound datagram socket."""
        self._seeds.use(bound)
        await self._datagrams.start(bound)

    def stop(self, *, in_order: bool = True) -> None:
        """Announce that this node leaves, and close; ``in_order``: others have its copies, so it is not missing."""
        self._submit(Leave(in_order))
        self.entered.set()
        self._datagrams.close()

    def contacts(self) -> list[Contact]:
        """Return the live peers that this node monitors."""
        found: list[Contact] = self._machine.contacts()
        return found

    @abstractmethod
    async def find_owners(self, key: int) -> OwnersFound:
        """Look up the live peers closest to a key, once this node is a member: alone it would seem to own all keys."""

    async def confirm(self, contact: Contact) -> bool:
        """Tell whether the peer ``contact`` answers at its claimed address."""
        if contact in self.contacts():
            return True
        for _ in range(CONFIRM_PINGS):
            answer = await self._ping((contact.host, contact.port))
            if answer is not None:
                return self._sender(answer) == contact
        return False

    def suspect(self, key: int) -> None:
        """Test at once whether a peer lives, because a connection with it broke or was refused."""
        self._submit(Broken(key))

    def status(self) -> dict[str, Any]:
        """Return counts for people and monitoring."""
        return {
            "overlay": self.environment.config.overlay,
            "peers": len(self.contacts()),
            "joining": self.joining,
            "datagrams_refused": self._datagrams.refused,
        }

    # --- parts of each membership ----------------------------------------------------------------

    @property
    @abstractmethod
    def _is_inside(self) -> bool:
        """Whether this node is a member at this time, and needs none to admit it."""

    @abstractmethod
    def _question(self, number: int) -> P:
        """Return the packet that pings any peer."""

    @abstractmethod
    def _is_member(self, answer: P) -> bool:
        """Tell whether the peer that sent an answer can admit this node."""

    @abstractmethod
    def _note_answers(self, answers: dict[Address, P | None], found: dict[Contact, bool]) -> None:
        """Introduce peers that have answered; ``found`` tells which are members, ``answers`` who was asked where."""

    @abstractmethod
    def _effect(self, effect: Any) -> None:
        """Carry out an effect that only this machine has."""

    def _note_lost(self, contact: Contact) -> None:
        """Note that a peer is gone."""

    def _sender(self, packet: P) -> Contact:
        contact: Contact = packet.sender
        return contact

    def _begin(self, met: str) -> None:  # noqa: ARG002
        """Begin an overlay of this node alone, after this outcome of pings."""
        self._submit(Create())

    # --- joining ---------------------------------------------------------------------------------

    async def _ping(self, address: Address) -> P | None:
        """Return the answer of the peer at an address; None after a timeout."""
        return await self._datagrams.ask(self._question, address)

    async def run(self) -> None:
        """Join an overlay, later find and merge others; runs until cancelled."""
        if not self.environment.config.bootstrap:
            self._begin("")
        pause = RETRY_SECONDS_MIN
        share = random.uniform(1, 2)  # noqa: S311 - guards nothing
        met, since = "", time.monotonic()
        while True:
            before, met = met, await self._ping_seeds()
            if met != before:
                since = time.monotonic()
            if not self._is_inside and time.monotonic() >= since + self._patience(met) * share:
                log.info("overlay_begun", met=met)
                self._begin(met)
            pause = min(2 * pause, self._pause_max(met))
            await asyncio.sleep(pause * random.uniform(0.75, 1.25))  # noqa: S311 - spreads load, guards nothing

    def _patience(self, met: str) -> float:
        """Return how long an outcome must last before this node begins an overlay; infinite: it must not."""
        config = self.environment.config
        match met:
            case "only itself":
                return 0.0
            case "only higher keys":
                return 2 * config.ping_timeout_seconds
            case "a majority":
                return CREATE_SECONDS
            case "a minority":
                return MINORITY_SECONDS
            case "nobody" if config.first and self.environment.remembered() <= 1:
                return CREATE_SECONDS
            case _:
                return float("inf")

    def _pause_max(self, met: str) -> float:
        if self.contacts():
            return RETRY_SECONDS_MAX
        if self._is_inside or met == "a member":
            return RETRY_SECONDS_ALONE
        is_late = met == "nobody" and time.monotonic() >= self._began + STARTING_SECONDS
        return RETRY_SECONDS_UNREACHED if is_late else RETRY_SECONDS_STARTING

    def _is_asked(self, address: Address, known: set[Address]) -> bool:
        """Tell whether to ping a seed: no known peer is behind it, or this node needs a member that admits it."""
        return address not in known or not self._is_inside

    async def _ping_seeds(self) -> str:
        """Ping all seeds without a known peer behind them; return the best outcome (see :meth:`_patience`)."""
        addresses = await self._seeds.addresses()
        known = {(contact.host, contact.port) for contact in self.contacts()}
        own = self.contact.host, self.contact.port
        asked = [each for each in addresses if each != own and self._is_asked(each, known)]
        answers = dict(zip(asked, await asyncio.gather(*map(self._ping, asked)), strict=True))
        found = {self._sender(each): self._is_member(each) for each in answers.values() if each is not None}
        found.pop(self.contact, None)
        self._note_answers(answers, found)
        if self._seeds.only(own) and all(address == own for address in addresses):
            return "only itself"
        if any(found.values()):
            return "a member"
        if not found:
            return "nobody"
        is_all = not self._seeds.unresolved and None not in answers.values()
        if is_all and all(self.contact.key < each.key for each in found):
            return "only higher keys"
        return "a majority" if self._seeds.majority(len(found), own) else "a minority"

    # --- driving the state machine -------------------------------------------------------------------

    def _submit(self, request: Any) -> None:
        if not self._datagrams.closed:
            self._carry_out(self._machine.submit(request, now=self.environment.now()))

    def _received(self, packet: P) -> None:
        self._carry_out(self._machine.receive(packet, now=self.environment.now()))

    def _wake(self) -> None:
        self._carry_out(self._machine.wake(now=self.environment.now()))

    def _carry_out(self, effects: list[Any]) -> None:
        self._datagrams.wake_at(self._machine.deadline, self._wake)
        for effect in effects:
            match effect:
                case Post(to, packet):
                    self._datagrams.send(packet, to)
                case ContactSeen(contact, zone):
                    self.joined.set()
                    self._seeds.found((contact.host, contact.port))
                    self.environment.seen(contact, zone)
                case ContactLost(contact, left):
                    self._note_lost(contact)
                    self.environment.lost(contact, left)
                case Trace(event, fields):
                    level = _LEVELS.get(event, "debug")
                    if level == "debug" or self._datagrams.may_log():
                        getattr(log, level)(event, **fields)
                case _:
                    self._effect(effect)
        if not self.entered.is_set() and self._machine.member:
            self._enter()

    def _enter(self) -> None:
        """Report that this node is a member."""
        self.entered.set()
        self.environment.known(ClusterEntered())
