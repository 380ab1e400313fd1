"""The datagram service of a membership: one socket, sealed packets, questions with answers, and one timer.

A membership sends packets and asks questions.  Received datagrams are opened (:mod:`p2prdf_node.envelopes`), decoded
(:mod:`p2prdf.wire.datagrams`), checked against the excluded peers, matched with an open question, and passed on.
Each refusal is counted.

*Questions.*  A question of this service has a random number with the highest bit set; state machines number their own
questions without that bit.  A question without an answer ends after ``ping_timeout_seconds``.  If the timeout fires
late, this process was stalled and the answer may lie unread in the socket: the question waits once more.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import structlog

from p2prdf.errors import RemoteProtocolError
from p2prdf.wire.datagrams import DATAGRAM_BYTES_MAX, decode, encode
from p2prdf_node.envelopes import Envelopes
from p2prdf_node.logs import LineLimit

if TYPE_CHECKING:
    import socket

    from p2prdf.wire.messages import Contact
    from p2prdf_node.members import Environment
    from p2prdf_node.seeds import Address

__all__ = ["OWN_QUESTION", "QUESTIONS_MAX", "Datagrams", "P"]

QUESTIONS_MAX: Final = 512
"""Open questions; one more counts as unanswered."""
HELD_UP_SHARE: Final = 0.5
"""A timeout that fires late by more than this share of its length shows that the process was stalled."""
LOG_LINES_PER_SECOND: Final = 20
OWN_QUESTION: Final = 1 << 63
"""Bit of the numbers of this service's questions."""

log = structlog.get_logger("membership")


class _Packet(Protocol):
    @property
    def sender(self) -> Any:
        """The sender; its attribute ``key`` is its ring position."""
        ...

    @property
    def message(self) -> Any:
        """The message; questions and answers have an attribute ``request``."""
        ...


P = TypeVar("P", bound=_Packet)


@dataclass(slots=True, eq=False)
class _Question(Generic[P]):
    answer: asyncio.Future[P | None]
    asked_at: float


class Datagrams(asyncio.DatagramProtocol, Generic[P]):
    """The datagram socket of one membership of the kind ``kind`` (:mod:`p2prdf_node.envelopes`).

    ``answers``: classes of messages that answer a question.  ``received`` gets each packet, answers included.
    ``untimely`` gets packets that are refused only for their time; they count for nothing else.
    """

    def __init__(
        self, environment: Environment, kind: str, packet: type[P], *, answers: tuple[type, ...],
        received: Callable[[P], None], untimely: Callable[[P], None] | None = None,
    ):  # fmt: skip
        self._environment, self._packet, self._answers = environment, packet, answers
        self._received, self._untimely = received, untimely
        self._envelopes = Envelopes(environment.keyring, environment.contact.key, kind, environment.now)
        self._lines = LineLimit(LOG_LINES_PER_SECOND)
        self._malformed = self._revoked = 0
        self._questions: dict[int, _Question[P]] = {}
        self._transport: asyncio.DatagramTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False

    async def start(self, bound: socket.socket) -> None:
        """Begin to receive on a bound datagram socket."""
        self._transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=bound)

    def close(self) -> None:
        """Close the socket, and end all questions without an answer."""
        self.closed = True
        self.wake_at(None, lambda: None)
        for number in list(self._questions):
            self.settle(number, None)
        if self._transport is not None:
            self._transport.close()

    @property
    def refused(self) -> dict[str, int]:
        """Number of refused datagrams, by reason."""
        return {**self._envelopes.refused, "malformed": self._malformed, "revoked": self._revoked}

    def may_log(self) -> bool:
        """Tell whether one more line may be logged: senders must not fill the disk."""
        return self._lines.allow(time.monotonic())

    def wake_at(self, deadline: float | None, wake: Callable[[], None]) -> None:
        """Call ``wake`` at a time of the node's clock, instead of at the time set before; None: never."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline is not None and not self.closed:
            wait = max(0.0, deadline - self._environment.now())
            self._timer = asyncio.get_running_loop().call_later(wait, wake)

    # --- sending ---------------------------------------------------------------------------------

    def send(self, packet: P, to: Contact) -> None:
        """Send a packet once to a known peer."""
        self._send(packet, (to.host, to.port), to.key)

    def _send(self, packet: P, address: Address, receiver: int) -> None:
        payload = encode(packet)
        assert len(payload) <= DATAGRAM_BYTES_MAX, f"{type(packet.message).__name__} of {len(payload)} bytes"
        self._put(self._envelopes.seal(payload, receiver), address)

    def _put(self, datagram: bytes, address: Address) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(datagram, address)

    async def ask(self, make: Callable[[int], P], address: Address) -> P | None:
        """Send the packet that ``make`` returns for a number; return the answer, or None after a timeout."""
        if len(self._questions) >= QUESTIONS_MAX or self.closed:
            return None
        number = OWN_QUESTION | secrets.randbits(63)
        loop = asyncio.get_running_loop()
        question = self._questions[number] = _Question[P](loop.create_future(), self._environment.now())
        seconds = self._environment.config.ping_timeout_seconds
        try:
            self._send(make(number), address, 0)
            for _ in range(2):
                began = loop.time()
                await asyncio.wait([question.answer], timeout=seconds)
                if question.answer.done():
                    return question.answer.result()
                if loop.time() - began <= (1 + HELD_UP_SHARE) * seconds:
                    break
        finally:
            del self._questions[number]
        return None

    def asked_at(self, number: int) -> float | None:
        """Return the time of a question without an answer, by the node's clock; None if there is no such question."""
        question = self._questions.get(number)
        return None if question is None or question.answer.done() else question.asked_at

    def settle(self, number: int, answer: P | None) -> None:
        """End a question, if it is open."""
        question = self._questions.get(number)
        if question is not None and not question.answer.done():
            question.answer.set_result(answer)

    # --- receiving -------------------------------------------------------------------------------

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Open and decode a datagram, and pass the packet on."""
        address: Address = addr[:2]
        payload = self._envelopes.open(data, address, lambda notice: self._put(notice, address))
        timely = payload is not None
        if not timely and self._untimely is not None:
            payload = self._envelopes.open_untimely(data)
        if payload is None or self.closed:
            return
        try:
            packet = decode(payload, self._packet)
        except RemoteProtocolError as error:
            self._malformed += timely  # an untimely one already counts as refused for its time
            if timely and self.may_log():
                log.warning("datagram_malformed", sender=str(address), reason=str(error))
            return
        if self._environment.excluded(packet.sender.key):
            self._revoked += timely
        elif not timely:
            assert self._untimely is not None
            self._untimely(packet)
        else:
            message = packet.message
            if type(message) in self._answers:
                self.settle(message.request, packet)
            self._received(packet)

    def error_received(self, exc: Exception) -> None:
        """Ignore an error report: questions detect an unreachable peer."""
