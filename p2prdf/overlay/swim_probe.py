"""Failure detection: probes in turn, rapid probes, and probes on behalf of other members.

*In turn* (SWIM, section 4.3).  Once a period the next member is probed, in an order that is shuffled for each round.
If it does not answer in time, helpers are asked to probe it (section 3.1), a TCP connection is tried, and it is probed
once more.  A member that has not answered by the end of the period is *silent*.

*Rapid probe.*  A member with a broken connection is probed three times within ``rapid_probe_seconds``; helpers and
the TCP probe start at once.  After a refused connection the second probe is the last: the first one has had its time.

*Refusal.*  The kernel accepts connections for a busy process and refuses them without a process, so a silent member
that refuses connections is dead.  :mod:`p2prdf.overlay.swim` draws that conclusion.

*Local health* (Lifeguard, section IV.A).  ``score`` grows when this peer seems faulty: it wakes late, no helper
reports, it is suspected.  Answers lower it.  Periods and timeouts of probes in turn grow with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from p2prdf.overlay.swim_messages import Answer, Probe, ProbeReport, ProbeRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from p2prdf.overlay.swim_config import Entropy, SwimConfig
    from p2prdf.overlay.swim_messages import Record, SwimMessage
    from p2prdf.overlay.timers import Timers
    from p2prdf.wire.messages import Contact

__all__ = ["Hub", "Prober", "sample"]

SCORE_MAX: Final = 3
EXCUSES_MAX: Final = 3
"""A conclusion is put off at most so often because this peer itself was late."""
PROBINGS_MAX: Final = 256
RELAYS_MAX: Final = 256
_RAPID_PROBES: Final = 3

_T = TypeVar("_T")


class Hub(Protocol):
    """The part of :class:`~p2prdf.overlay.swim.Swim` that this module uses."""

    now: float
    living: dict[int, Record]

    def post(self, to: Contact, message: SwimMessage) -> None:
        """Send a message with gossip."""
        ...

    def tcp_probe(self, contact: Contact) -> None:
        """Start a TCP probe."""
        ...

    def silent(self, contact: Contact, *, refused: bool) -> None:
        """Handle the result that a member did not answer, and whether it refused connections."""
        ...


@dataclass(slots=True, eq=False)
class _Probing:
    """The probes of one member; ``rapid``: they are a rapid probe."""

    contact: Contact
    rapid: bool
    numbers: list[int] = field(default_factory=list)
    refused_at: float | None = None
    """The time of the first refused connection."""
    helpers: int = 0
    reports: int = 0
    excuses: int = 0


class Prober:
    """The probes of one peer, and those on behalf of others."""

    def __init__(self, hub: Hub, timers: Timers, config: SwimConfig, entropy: Entropy):
        self._hub, self._timers, self._config, self._entropy = hub, timers, config, entropy
        self._number = entropy.getrandbits(62)
        self._probing: dict[int, _Probing] = {}
        self._asked: dict[int, tuple[_Probing, float]] = {}
        self._relays: dict[int, tuple[Contact, ProbeRequest]] = {}
        self._turns: list[int] = []
        self._started = False
        self.score = 0

    @property
    def under_way(self) -> int:
        """Number of members that are being probed."""
        return len(self._probing)

    def start(self) -> None:
        """Start to probe in turn."""
        if not self._started:
            self._started = True
            self._timers.at(self._hub.now + self._config.probe_seconds * self._entropy.random(), self._turn)

    def trouble(self) -> None:
        """Raise the score, because this peer seems to be the faulty one."""
        self.score = min(self.score + 1, SCORE_MAX)

    # --- targets ---------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._timers.at(self._hub.now + self._config.probe_seconds * (1 + self.score), self._turn)
        living = self._hub.living
        for refilled in (False, True):
            if refilled:
                self._turns = sample(list(living), len(living), self._entropy)
            while self._turns:
                record = living.get(self._turns.pop())
                if record is not None:
                    self.probe(record.contact)
                    return

    def probe(self, contact: Contact) -> None:
        """Probe a member, unless it is being probed."""
        if contact.key in self._probing or len(self._probing) >= PROBINGS_MAX:
            return
        probing = self._probing[contact.key] = _Probing(contact, rapid=False)
        self._ask(probing)
        self._timers.at(self._hub.now + self._timeout, lambda: self._seek_help(probing))

    def rapid_probe(self, contact: Contact, *, refused: bool = False) -> None:
        """Find out within ``rapid_probe_seconds`` whether a member lives.  ``refused``: it has refused a connection."""
        probing = self._probing.get(contact.key)
        if probing is None or not probing.rapid or probing.contact != contact:
            if probing is not None:
                self._end(probing)
            elif len(self._probing) >= PROBINGS_MAX:
                return
            probing = self._probing[contact.key] = _Probing(contact, rapid=True)
            self._rapid_probe_again(probing, _RAPID_PROBES)
            self._hub.tcp_probe(contact)
            self._ask_helpers(probing)
        if refused:
            self._note_refusal(probing)

    def refused(self, contact: Contact) -> None:
        """Handle a refused connection to a member: start a rapid probe unless a probe is under way."""
        probing = self._probing.get(contact.key)
        if probing is not None and probing.contact == contact:
            self._note_refusal(probing)
        elif (record := self._hub.living.get(contact.key)) is not None and record.contact == contact:
            self.rapid_probe(contact, refused=True)

    def _note_refusal(self, probing: _Probing) -> None:
        if probing.refused_at is None:
            probing.refused_at = self._hub.now

    def heard(self, contact: Contact, *, answered: bool = False) -> None:
        """Handle any packet of a member; ``answered``: it answers a pending question.

        A rapid probe ends only by an answer, as any other packet may be older than the broken connection.
        """
        probing = self._probing.get(contact.key)
        if probing is not None and probing.contact == contact and (answered or not probing.rapid):
            self._end(probing)
            self.score = max(self.score - 1, 0)

    def gone(self, key: int) -> None:
        """Stop probing a member that is known to be gone."""
        if key in self._probing:
            self._end(self._probing[key])

    # --- probing ---------------------------------------------------------------------------------

    @property
    def _timeout(self) -> float:
        return self._config.probe_timeout_seconds * (1 + self.score)

    def _next(self) -> int:
        self._number = (self._number + 1) % (1 << 62)
        return self._number

    def _ask(self, probing: _Probing) -> None:
        number = self._next()
        probing.numbers.append(number)
        self._asked[number] = probing, self._hub.now
        self._hub.post(probing.contact, Probe(number))

    def _rapid_probe_again(self, probing: _Probing, times: int) -> None:
        if self._probing.get(probing.contact.key) is not probing:
            return
        pause = self._config.rapid_probe_seconds / _RAPID_PROBES
        no_process = probing.refused_at is not None and self._hub.now - probing.refused_at >= pause / 2
        if times and not no_process:
            self._ask(probing)
            self._timers.at(self._hub.now + pause, lambda: self._rapid_probe_again(probing, times - 1))
        else:
            self._conclude(probing)

    def _seek_help(self, probing: _Probing) -> None:
        if self._probing.get(probing.contact.key) is not probing:
            return
        self._ask(probing)
        self._hub.tcp_probe(probing.contact)
        self._ask_helpers(probing)
        self._timers.at(self._hub.now + self._timeout, lambda: self._conclude(probing))

    def _ask_helpers(self, probing: _Probing) -> None:
        others = [record.contact for record in self._hub.living.values() if record.contact != probing.contact]
        helpers = sample(others, self._config.helpers, self._entropy)
        probing.helpers = len(helpers)
        for helper in helpers:
            number = self._next()
            probing.numbers.append(number)
            self._asked[number] = probing, self._hub.now
            self._hub.post(helper, ProbeRequest(number, probing.contact))

    def _conclude(self, probing: _Probing) -> None:
        """Report that a member is silent, unless this peer may be at fault."""
        if self._probing.get(probing.contact.key) is not probing:
            return
        if self._hub.now < self._timers.grace_until and probing.excuses < EXCUSES_MAX:
            probing.excuses += 1
            self._ask(probing)
            self._timers.at(self._timers.grace_until, lambda: self._conclude(probing))
            return
        self._end(probing)
        if probing.helpers and not probing.reports:
            self.trouble()
        self._hub.silent(probing.contact, refused=probing.refused_at is not None)

    def _end(self, probing: _Probing) -> None:
        if self._probing.get(probing.contact.key) is probing:
            del self._probing[probing.contact.key]
        for number in probing.numbers:
            self._asked.pop(number, None)

    # --- messages --------------------------------------------------------------------------------

    def answered(self, sender: Contact, answer: Answer) -> float | None:
        """Handle an answer; return when its question was sent, or None if the question is unknown."""
        relay = self._relays.get(answer.request)
        if relay is not None and relay[1].target == sender:
            self._report(answer.request, heard=True)
            return None
        probing, asked_at = self._asked.get(answer.request, (None, 0.0))
        if probing is None or probing.contact != sender:
            return None
        self.heard(sender, answered=True)
        return asked_at

    def help(self, sender: Contact, question: ProbeRequest) -> None:
        """Probe a peer on behalf of another."""
        if len(self._relays) >= RELAYS_MAX:
            return
        number = self._next()
        self._relays[number] = sender, question
        self._hub.post(question.target, Probe(number))
        until = self._hub.now + 0.8 * self._config.probe_timeout_seconds
        self._timers.at(until, lambda: self._report(number, heard=False))

    def _report(self, number: int, *, heard: bool) -> None:
        relay = self._relays.pop(number, None)
        if relay is not None:
            self._hub.post(relay[0], ProbeReport(relay[1].request, heard))

    def reported(self, report: ProbeReport) -> None:
        """Handle a helper's report."""
        probing, _ = self._asked.get(report.request, (None, 0.0))
        if probing is None:
            return
        probing.reports += 1
        if report.heard:
            self.heard(probing.contact, answered=True)


def sample(of: Sequence[_T], count: int, entropy: Entropy) -> list[_T]:
    """Return ``count`` items of a sequence in random order, or all if there are fewer."""
    rest = list(of)
    taken = []
    for place in range(min(count, len(rest))):
        other = place + int(entropy.random() * (len(rest) - place))
        rest[place], rest[other] = rest[other], rest[place]
        taken.append(rest[place])
    return taken
