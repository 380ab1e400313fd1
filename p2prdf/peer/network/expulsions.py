"""Expulsions: the members that an administrator has excluded, stored and reported to other members.

A member that lies has to be excluded at all nodes, also at those that are down at the time, and after restarts.  If
members accepted such a list from each other, each could expel all others.

A node therefore accepts a decision from an administrator, a client with the permission ``administer``.  From members it
accepts a decision that two of them report, so one bad member expels no other.  Reports of expelled members do not
count.  The latest decision about a member counts, so a readmission undoes an expulsion everywhere.

A member is named by its key.  With certificates, the key follows from the public key of the node's certificate.
Without them, a node chooses its key and can return under another one: the list then prevents accidents, not attacks.

Bounds: ``DECISIONS_MAX`` decisions, as many reporters, and as many reports of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from p2prdf import hlc
from p2prdf.columns import as_list
from p2prdf.errors import LocalProtocolError
from p2prdf.peer.network.component import Component, Handlers, Restorers
from p2prdf.wire.messages import Contact, Expulsions

if TYPE_CHECKING:
    from p2prdf.peer.network.messenger import Messenger

__all__ = ["REPORTS_NEEDED", "ExpelledMembers"]

DECISIONS_MAX: Final = 1_024
REPORTS_NEEDED: Final = 2
"""Number of members that must report a decision before this peer adopts it."""


class ExpelledMembers(Component):
    """The decisions that one peer knows."""

    def __init__(self, messenger: Messenger):
        self._messenger = messenger
        self._decisions: dict[int, tuple[int, bool]] = {}
        """By member: the stamp of the latest decision, and whether the member is expelled."""
        self._reports: dict[int, dict[int, tuple[int, bool]]] = {}
        """By reporter: the decisions in its last report."""
        self.keys: frozenset[int] = frozenset()
        """The expelled members."""

    def decide(self, member: int, *, expelled: bool) -> None:
        """Adopt the decision of an administrator, and send it to all other members.

        Raises LocalProtocolError if it concerns this peer itself, or if there are too many.
        """
        if member == self._messenger.own.key:
            raise LocalProtocolError(f"this node is {member:016x} itself: name another node by --peer")
        if member not in self._decisions and len(self._decisions) >= DECISIONS_MAX:
            raise LocalProtocolError(f"this node knows decisions about {DECISIONS_MAX} members, which is the bound")
        if expelled != (member in self.keys):
            self._adopt(member, self._messenger.tick(), expelled=expelled)
        for contact in self._messenger.cache.contacts():
            self.met(contact)

    def met(self, contact: Contact) -> None:
        """Send the decisions to another member."""
        if self._decisions and contact.key != self._messenger.own.key and contact.key not in self.keys:
            self._messenger.send(contact, self._message())

    def take(self, sender: Contact, message: Expulsions) -> None:
        """Handle the decisions that another member reports: all of them."""
        if sender.key in self.keys or (sender.key not in self._reports and len(self._reports) >= DECISIONS_MAX):
            return
        columns = (message.members, message.times, message.expelled)
        before = self._reports.get(sender.key, {})
        told: dict[int, tuple[int, bool]] = {}
        for member, stamp, state in zip(*map(as_list, columns), strict=True):
            if member not in (self._messenger.own.key, sender.key) and len(told) < DECISIONS_MAX:
                told[member] = max((stamp, bool(state)), before.get(member, (0, False)))  # messages overtake each other
        self._reports[sender.key] = told
        for member, report in told.items():
            if report != before.get(member) and self._is_news(member, *report):
                self._messenger.trace(
                    "expulsion-reported", member=f"{member:016x}", expelled=report[1], reporter=f"{sender.key:016x}"
                )
                self._count(member, expelled=report[1])

    def _is_news(self, member: int, stamp: int, expelled: bool) -> bool:
        held = self._decisions.get(member)
        return held is None or (stamp > held[0] and expelled != held[1])

    def _reporters(self, member: int, *, expelled: bool) -> list[tuple[int, int]]:
        """Return stamp and key of the members that report a new decision about a member, the latest first."""
        found = []
        for reporter, told in self._reports.items():
            stamp, state = told.get(member, (0, not expelled))
            if reporter not in self.keys and state == expelled and self._is_news(member, stamp, state):
                found.append((stamp, reporter))
        return sorted(found, reverse=True)

    def _count(self, member: int, *, expelled: bool) -> None:
        """Adopt a decision that enough members report.

        The reports have different stamps; with two needed, the earlier of the latest two counts.
        """
        reporters = self._reporters(member, expelled=expelled)
        if len(reporters) >= REPORTS_NEEDED and (member in self._decisions or len(self._decisions) < DECISIONS_MAX):
            self._adopt(member, reporters[REPORTS_NEEDED - 1][0], expelled=expelled)
            for contact in self._messenger.cache.contacts():
                self.met(contact)

    def _adopt(self, member: int, stamp: int, *, expelled: bool) -> None:
        self._set(member, stamp, expelled=expelled)
        self._messenger.trace("member-expelled" if expelled else "member-readmitted", member=f"{member:016x}")
        self._messenger.persist(self._message())

    def _set(self, member: int, stamp: int, *, expelled: bool) -> None:
        self._decisions[member] = stamp, expelled
        self.keys = frozenset(each for each, (_, out) in self._decisions.items() if out)

    # --- over restarts ---------------------------------------------------------------------------

    def restore(self, message: Expulsions) -> None:
        """Restore the decisions of an earlier process."""
        columns = (message.members, message.times, message.expelled)
        for member, stamp, state in zip(*map(as_list, columns), strict=True):
            if stamp > self._decisions.get(member, (0, False))[0]:
                self._set(member, stamp, expelled=bool(state))

    def handlers(self) -> Handlers:
        """Return the handler of decisions that other members report."""
        return {Expulsions: self.take}

    def restorers(self) -> Restorers:
        """Return the method that restores decisions."""
        return {Expulsions: self.restore}

    def kept(self) -> Iterator[Expulsions]:
        """Return the decisions for a snapshot."""
        if self._decisions:
            yield self._message()

    def _message(self) -> Expulsions:
        make = self._messenger.columns.column
        return Expulsions(
            make(list(self._decisions), "uint64"), make([stamp for stamp, _ in self._decisions.values()], "uint64"),
            make([int(out) for _, out in self._decisions.values()], "uint32"),
        )  # fmt: skip

    # --- state -----------------------------------------------------------------------------------

    def status(self) -> Mapping[str, object]:
        """Return the expelled members, and the number of decisions that are only reported."""
        return {
            "expelled": [f"{key:016x}" for key in sorted(self.keys)],
            "expulsions_reported": sum(each["reporters"] is not None for each in self.listed()),
        }

    def listed(self) -> list[dict[str, Any]]:
        """Return the decisions as JSON values, followed by those that are only reported."""
        found: list[dict[str, Any]] = [
            {"member": f"{member:016x}", "expelled": out, "since": hlc.shown(stamp), "reporters": None}
            for member, (stamp, out) in self._decisions.items()
        ]
        reported = {(member, out) for told in self._reports.values() for member, (_, out) in told.items()}
        for member, out in sorted(reported):
            if reporters := self._reporters(member, expelled=out):
                by = sorted(f"{each:016x}" for _, each in reporters)
                since = hlc.shown(reporters[0][0])
                found.append({"member": f"{member:016x}", "expelled": out, "since": since, "reporters": by})
        return found
