"""Semantic channels: named queries over a knowledge base, with early notifications of new bindings.

After *SENS*, the semantic event notification service: a channel learns which bindings follow from which kinds
of graphs, and reports them before the query runs. Duties of a driver:

1. :meth:`Channels.publish` a graph. Predicted bindings that hold are returned as *tentative*. Send them.
2. :meth:`Channels.evaluate`: due queries run and return bindings as *confirmed*. Send them. Each binding is
   confirmed once, tentative before or not.
3. When publications pause, and at the end, call :meth:`Channels.settle`: skipped queries run. A binding thus
   waits for at most ``skip_max`` - 1 further publications, or for this call.
4. :meth:`Channels.delete`: skipped queries run first, so that bindings true until then are reported.

There is no clock here: with equal timers (an argument) equal calls give equal notifications. The timer affects
when bindings are reported, never which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from p2prdf.channels.category import Categories, Publication
from p2prdf.channels.channel import Channel, ChannelStatistics, Timer
from p2prdf.channels.elements import Cuts
from p2prdf.channels.knowledge import KnowledgeBase, check_pattern
from p2prdf.channels.notification import Kind, Notification
from p2prdf.channels.query import Row, parse_channel
from p2prdf.channels.settings import Settings
from p2prdf.errors import LocalProtocolError
from p2prdf.reasoning import Change, Triple

__all__ = ["CHANNELS_MAX", "SUBSCRIBERS_MAX", "Channels"]

CHANNELS_MAX: Final = 10_000
SUBSCRIBERS_MAX: Final = 100_000
"""Bound on the subscribers of one channel."""
_NAME_MAX: Final = 1024


class Channels:
    """A knowledge base and its channels."""

    def __init__(self, knowledge: KnowledgeBase, timer: Timer):
        """``timer``: returns the time, in seconds unless the channels' settings use another unit."""
        self.knowledge = knowledge
        self._timer = timer
        self._channels: dict[str, Channel] = {}
        self._cuts = Cuts()
        self._after = 0
        self._open = False
        """Whether the last publication is not evaluated yet."""

    def __len__(self) -> int:
        return len(self._channels)

    def __contains__(self, name: object) -> bool:
        return name in self._channels

    # --- channels and subscribers --------------------------------------------------------------

    def create(self, name: str, query: str, settings: Settings | None = None) -> None:
        """Create a channel from a SELECT query; its present results are not reported.

        Raises QueryRefused for the query, LocalProtocolError for an invalid name or one in use, for too many
        channels, and for an invalid setting.
        """
        if not 0 < len(name) <= _NAME_MAX:
            raise LocalProtocolError(f"the name of a channel has 1 to {_NAME_MAX} characters, not {len(name)}")
        if name in self._channels:
            raise LocalProtocolError(f"there is a channel {name!r} already")
        if len(self._channels) >= CHANNELS_MAX:
            raise LocalProtocolError(f"channel {name!r}: there are {CHANNELS_MAX:,} channels already, the maximum")
        settings = settings or Settings()
        settings.validate()
        self._channels[name] = Channel(name, parse_channel(query), self.knowledge, self._timer, settings)

    def drop(self, name: str) -> None:
        """Delete a channel.  Raises LocalProtocolError if there is none of that name."""
        self._channel(name)
        del self._channels[name]

    def subscribe(self, name: str, subscriber: str) -> tuple[tuple[str, ...], ...]:
        """Add a subscriber to a channel; return the bindings that hold, as far as they were reported.

        Subscribing twice has no further effect. Raises LocalProtocolError if there is no such channel or no
        room.
        """
        channel = self._channel(name)
        if subscriber not in channel.subscribers and len(channel.subscribers) >= SUBSCRIBERS_MAX:
            raise LocalProtocolError(f"channel {name!r} has {SUBSCRIBERS_MAX:,} subscribers already, the maximum")
        channel.subscribers[subscriber] = None
        return self.bindings(name)

    def unsubscribe(self, name: str, subscriber: str) -> None:
        """Remove a subscriber from a channel.  Raises LocalProtocolError if it has not subscribed."""
        channel = self._channel(name)
        if subscriber not in channel.subscribers:
            raise LocalProtocolError(f"{subscriber!r} has not subscribed to channel {name!r}")
        del channel.subscribers[subscriber]

    def bindings(self, name: str) -> tuple[tuple[str, ...], ...]:
        """Return the bindings of a channel that hold, were reported or were true at the beginning.

        Raises LocalProtocolError if there is no such channel.
        """
        channel = self._channel(name)
        return tuple(map(channel.terms, channel.bindings))

    @property
    def behind(self) -> bool:
        """Whether a query was skipped since the last publication, so ``settle`` may find bindings."""
        return any(channel.behind for channel in self._channels.values())

    def statistics(self) -> tuple[ChannelStatistics, ...]:
        """Return the statistics of each channel."""
        return tuple(channel.statistics() for channel in self._channels.values())

    # --- events --------------------------------------------------------------------------------

    def publish(self, graph: Iterable[Triple]) -> list[Notification]:
        """Take in a graph and its derived facts; return the predicted bindings that hold.

        Call ``evaluate`` next. Raises DataRefused for an invalid graph, LocalProtocolError if the last
        publication was not evaluated; nothing is taken in then.
        """
        if self._open:
            raise LocalProtocolError("the last publication is not evaluated: call evaluate before the next publish")
        begun = self._timer()
        published = self.knowledge.add(graph)
        now = self._timer()
        took = now - begun
        self._after += 1
        self._open = True
        publication = Publication(self._after, published.statements, self._cuts, published.change.added)
        for channel in self._channels.values():
            channel.published(publication, published.change, took)
        now = self._look(publication, now)
        found: list[Notification] = []
        for channel in self._channels.values():
            if channel.wanted(publication) is not None:
                rows, now = channel.test(publication, now)
                if rows:
                    found += self._notifications(channel, Kind.TENTATIVE, rows, first=True)
        return found

    def _look(self, publication: Publication, now: float) -> float:
        """Categorise a graph, once for all channels that test it; they share the cost.

        ``now``: the timer's last value, since reading the timer may cost as much as the work; returns the next
        value.
        """
        wanted: dict[Categories, list[Channel]] = {}
        for channel in self._channels.values():
            categories = channel.wanted(publication)
            if categories is not None:
                wanted.setdefault(categories, []).append(channel)
        for categories, channels in wanted.items():
            begun = now
            publication.look(categories)
            now = self._timer()
            took = (now - begun) / len(channels)
            for channel in channels:
                channel.charge(took)
        return now

    def evaluate(self) -> list[Notification]:
        """Run the queries that are due after a publication; return their notifications.

        Without a publication since the last call it does nothing.
        """
        if not self._open:
            return []
        self._open = False
        found: list[Notification] = []
        for channel in self._channels.values():
            if channel.schedule.due:
                found += self._run(channel)
            elif channel.behind:
                channel.skip()
        for channel in self._channels.values():
            channel.analyse()
        return found

    def settle(self) -> list[Notification]:
        """Run all queries skipped since a publication; return their notifications."""
        self._open = False
        found: list[Notification] = []
        for channel in self._channels.values():
            if channel.behind:
                found += self._run(channel)
            channel.analyse()
        return found

    def delete(self, pattern: Triple) -> tuple[int, list[Notification]]:
        """Delete the base facts that match a pattern, and the facts derived from them alone.

        Returns the number of deleted facts, and the notifications of skipped queries, which run first. Reports
        are not withdrawn; a binding that holds again is reported again. Raises LocalProtocolError for an
        invalid pattern.
        """
        check_pattern(pattern)
        return self._delete(lambda: self.knowledge.remove(pattern))

    def delete_all(self, triples: Iterable[Triple]) -> tuple[int, list[Notification]]:
        """Delete those of some triples that are base facts, in one step; otherwise as :meth:`delete`."""
        return self._delete(lambda: self.knowledge.remove_all(triples))

    def _delete(self, remove: Callable[[], tuple[int, Change]]) -> tuple[int, list[Notification]]:
        found = self.settle()
        count, change = remove()
        self._after += 1
        if change.added or change.removed:
            for channel in self._channels.values():
                channel.deleted(change)
        return count, found

    def _run(self, channel: Channel) -> list[Notification]:
        confirmed, new = channel.query()
        return [
            *self._notifications(channel, Kind.CONFIRMED, confirmed, first=False),
            *self._notifications(channel, Kind.CONFIRMED, new, first=True),
        ]

    def _notifications(self, channel: Channel, kind: Kind, rows: Iterable[Row], *, first: bool) -> list[Notification]:
        subscribers = tuple(channel.subscribers)
        return [
            Notification(channel.name, kind, channel.terms(row), subscribers, self._after, first) for row in rows
        ]

    def _channel(self, name: str) -> Channel:
        found = self._channels.get(name)
        if found is None:
            raise LocalProtocolError(f"there is no channel {name!r}")
        return found
