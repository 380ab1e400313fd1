"""The channels of one knowledge base, with their notifications as triples to be written.

The engine never waits.  Long calls run in a thread, one call at a time.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from p2prdf.channels import Channels, KnowledgeBase, Notification
from p2prdf.channels.notification_state import NotificationState, Writes
from p2prdf.channels.registration import CONFIRMED, INITIAL, ChannelRegistration, read_settings, subject_of
from p2prdf.errors import P2PRDFError
from p2prdf.reasoning import Rule, Triple

__all__ = ["BaseEngine"]

_TIMER: Final = time.thread_time
"""A call runs in one thread from start to end, so the time of other threads does not count."""


class BaseEngine:
    """Channels and their notifications."""

    def __init__(self, notifications: NotificationState, rules: Iterable[Rule], graphs: Iterable[Iterable[Triple]]):
        """Build the engine over existing graphs.  Raises the errors of unusable rules."""
        self.notifications = notifications
        self.registrations: dict[str, ChannelRegistration] = {}
        self.refused: dict[str, str] = {}
        """Channels that the engine refused, with the reason."""
        self.channels = Channels(KnowledgeBase(rules, refuse_schema=True), _TIMER)
        for graph in graphs:
            self.channels.knowledge.add(graph)

    @property
    def facts(self) -> int:
        """Number of current facts, including derived ones."""
        return len(self.channels.knowledge)

    @property
    def behind(self) -> bool:
        """Whether a skipped query may have new bindings."""
        return self.channels.behind

    # --- channels ------------------------------------------------------------------------------

    def take_up(self, registrations: Mapping[str, ChannelRegistration], *, again: bool = False) -> Writes:
        """Create channels; ``again``: the channels existed before, and only the facts have changed.

        The current bindings of a channel become initial notifications if no worker has evaluated the channel before,
        otherwise confirmed ones.
        """
        added, removed = list[Triple](), list[Triple]()
        for name, registration in registrations.items():
            channel = subject_of(name)
            try:
                self.channels.create(name, registration.query, read_settings(registration.settings))
            except P2PRDFError as error:
                self.refused[name] = str(error)
                continue
            self.registrations[name] = registration
            begun = again or self.notifications.take_up(channel)
            writes = self.notifications.equal(channel, self.channels.bindings(name), CONFIRMED if begun else INITIAL)
            added += writes.added
            removed += writes.removed
            if not begun:
                added += self.notifications.begin(channel).added
        return Writes(added, removed)

    def drop(self, names: Iterable[str]) -> Writes:
        """Drop channels, and retract their notifications."""
        removed = list[Triple]()
        for name in names:
            self.refused.pop(name, None)
            if self.registrations.pop(name, None) is not None:
                self.channels.drop(name)
                removed += self.notifications.forget(subject_of(name)).removed
        return Writes([], removed)

    # --- publications and deletions ------------------------------------------------------------

    def publish(self, graph: Iterable[Triple]) -> Writes:
        """Add a graph; return early notifications.  Call ``evaluate`` next."""
        return self._notified(self.channels.publish(graph))

    def evaluate(self) -> Writes:
        """Run the queries that are due."""
        return self._notified(self.channels.evaluate())

    def settle(self) -> Writes:
        """Run the skipped queries."""
        return self._notified(self.channels.settle())

    def delete(self, triples: Iterable[Triple]) -> Writes:
        """Delete facts.  Skipped queries run first, so bindings that held until now are notified and then retracted."""
        _, found = self.channels.delete_all(triples)
        added, removed = list(self._notified(found).added), list[Triple]()
        for name in self.registrations:
            writes = self.notifications.equal(subject_of(name), self.channels.bindings(name))
            added += writes.added
            removed += writes.removed
        return Writes(added, removed)

    def _notified(self, found: Iterable[Notification]) -> Writes:
        added = list[Triple]()
        for each in found:
            kind = f"<urn:p2prdf:{each.kind.value}>"
            added += self.notifications.tell(subject_of(each.channel), kind, [each.binding]).added
        return Writes(added, [])

    # --- statistics ----------------------------------------------------------------------------

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Return the counters of each channel, by name."""
        found = {each.name: dataclasses.asdict(each) for each in self.channels.statistics()}
        for each in found.values():
            del each["subscribers"]  # the overlay counts subscribers
        return found
