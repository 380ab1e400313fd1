"""The channels of one knowledge base at its host, with what they come to as triples that are to be written.

Nothing here waits, and what may take long is called in a thread; one call at a time.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from p2prdf.channels import Channels, KnowledgeBase, Notification
from p2prdf.channels.registration import CONFIRMED, INITIAL, ChannelRegistration, read_settings, subject_of
from p2prdf.channels.told import Told, Writes
from p2prdf.errors import P2PRDFError
from p2prdf.reasoning import Rule, Triple

__all__ = ["BaseEngine"]

_TIMER: Final = time.thread_time
"""Each call runs in one thread from its beginning to its end, so the time of others does not count."""


class BaseEngine:
    """Channels, and what was told."""

    def __init__(self, told: Told, rules: Iterable[Rule], graphs: Iterable[Iterable[Triple]]):
        """Begin with the graphs that hold.  Raises what is raised for rules that cannot be used."""
        self.told = told
        self.registrations: dict[str, ChannelRegistration] = {}
        self.refused: dict[str, str] = {}
        """Channels that the engine does not take."""
        self.channels = Channels(KnowledgeBase(rules, refuse_schema=True), _TIMER)
        for graph in graphs:
            self.channels.knowledge.add(graph)

    @property
    def facts(self) -> int:
        """How many facts hold."""
        return len(self.channels.knowledge)

    @property
    def behind(self) -> bool:
        """Whether a query was left out that may find something."""
        return self.channels.behind

    # --- channels ------------------------------------------------------------------------------

    def take_up(self, registrations: Mapping[str, ChannelRegistration], *, again: bool = False) -> Writes:
        """Begin with channels; ``again``: what is wanted of them is known, only the facts are others.

        What holds now is told as initial of a channel that nobody has begun with before, else as confirmed.
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
            begun = again or self.told.take_up(channel)
            writes = self.told.equal(channel, self.channels.bindings(name), CONFIRMED if begun else INITIAL)
            added += writes.added
            removed += writes.removed
            if not begun:
                added += self.told.begin(channel).added
        return Writes(added, removed)

    def drop(self, names: Iterable[str]) -> Writes:
        """Give channels up that were dropped; nothing is told of them any more."""
        removed = list[Triple]()
        for name in names:
            self.refused.pop(name, None)
            if self.registrations.pop(name, None) is not None:
                self.channels.drop(name)
                removed += self.told.forget(subject_of(name)).removed
        return Writes([], removed)

    # --- what happens --------------------------------------------------------------------------

    def publish(self, graph: Iterable[Triple]) -> Writes:
        """Take in a graph; return what is told early.  ``evaluate`` comes next."""
        return self._told(self.channels.publish(graph))

    def evaluate(self) -> Writes:
        """Run the queries whose turn it is."""
        return self._told(self.channels.evaluate())

    def settle(self) -> Writes:
        """Run the queries that were left out."""
        return self._told(self.channels.settle())

    def delete(self, triples: Iterable[Triple]) -> Writes:
        """Take facts back; what was left out runs before, so what held until then is told, and goes."""
        _, found = self.channels.delete_all(triples)
        added, removed = list(self._told(found).added), list[Triple]()
        for name in self.registrations:
            writes = self.told.equal(subject_of(name), self.channels.bindings(name))
            added += writes.added
            removed += writes.removed
        return Writes(added, removed)

    def _told(self, found: Iterable[Notification]) -> Writes:
        added = list[Triple]()
        for each in found:
            kind = f"<urn:p2prdf:{each.kind.value}>"
            added += self.told.tell(subject_of(each.channel), kind, [each.binding]).added
        return Writes(added, [])

    # --- how it is -----------------------------------------------------------------------------

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Return what happened on each channel, by name."""
        found = {each.name: dataclasses.asdict(each) for each in self.channels.statistics()}
        for each in found.values():
            del each["subscribers"]  # they are the overlay's
        return found
