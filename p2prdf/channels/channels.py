"""Semantic channels: named queries over a knowledge base, whose subscribers hear early of what is new.

After *SENS*, the semantic event notification service whose heuristics the package is about: bindings of a channel are
learned to follow from kinds of graphs, and told before the query is run, or instead of running it each time.

Duties of whoever drives it:

1. :meth:`Channels.publish` a graph: it is taken in, with what follows, and what was foreseen and holds is returned, as
   *tentative*.  Send that.
2. :meth:`Channels.evaluate`: the queries whose turn it is run; what they find is returned, as *confirmed*.  Send
   that.  A binding is confirmed once, having been tentative or not.
3. When nothing is published for a while, and at the end, :meth:`Channels.settle`: queries that were left out run.  So a
   binding waits for ``skip_max`` - 1 further publications at most, or for that.
4. :meth:`Channels.delete`: what was left out runs before, so what held until then is told.

There is no clock here: ``timer`` is given, and with the same timer the same calls give the same notifications.  Which
bindings are told does not depend on it, only when.
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
"""Most subscribers of one channel."""
_NAME_MAX: Final = 1024


class Channels:
    """A knowledge base and its channels."""

    def __init__(self, knowledge: KnowledgeBase, timer: Timer):
        """``timer``: tells the time in seconds, if the settings of channels are not in another unit."""
        self.knowledge = knowledge
        self._timer = timer
        self._channels: dict[str, Channel] = {}
        self._cuts = Cuts()
        self._after = 0
        self._open = False
        """Whether the last publication waits to be evaluated."""

    def __len__(self) -> int:
        return len(self._channels)

    def __contains__(self, name: object) -> bool:
        return name in self._channels

    # --- channels and subscribers --------------------------------------------------------------

    def create(self, name: str, query: str, settings: Settings | None = None) -> None:
        """Make a channel of a SELECT query; what its query answers now is nothing new.

        Raises QueryRefused for the query, LocalProtocolError for a name that is taken or no name, one channel too
        many, or a setting that cannot be.
        """
        if not 0 < len(name) <= _NAME_MAX:
            raise LocalProtocolError(f"the name of a channel has 1 to {_NAME_MAX} characters, not {len(name)}")
        if name in self._channels:
            raise LocalProtocolError(f"there is a channel {name!r} already")
        if len(self._channels) >= CHANNELS_MAX:
            raise LocalProtocolError(f"channel {name!r}: there are {CHANNELS_MAX:,} channels, which is the most")
        settings = settings or Settings()
        settings.validate()
        self._channels[name] = Channel(name, parse_channel(query), self.knowledge, self._timer, settings)

    def drop(self, name: str) -> None:
        """Forget a channel.  Raises LocalProtocolError if there is none of that name."""
        self._channel(name)
        del self._channels[name]

    def subscribe(self, name: str, subscriber: str) -> tuple[tuple[str, ...], ...]:
        """Let a subscriber hear of a channel; return the bindings that hold, as far as they were told to others.

        Who subscribes twice is told once.  Raises LocalProtocolError if there is no such channel, or no room.
        """
        channel = self._channel(name)
        if subscriber not in channel.subscribers and len(channel.subscribers) >= SUBSCRIBERS_MAX:
            raise LocalProtocolError(f"channel {name!r} has {SUBSCRIBERS_MAX:,} subscribers, which is the most")
        channel.subscribers[subscriber] = None
        return self.bindings(name)

    def unsubscribe(self, name: str, subscriber: str) -> None:
        """Let a subscriber hear of a channel no more.  Raises LocalProtocolError if it does not."""
        channel = self._channel(name)
        if subscriber not in channel.subscribers:
            raise LocalProtocolError(f"{subscriber!r} has not subscribed to channel {name!r}")
        del channel.subscribers[subscriber]

    def bindings(self, name: str) -> tuple[tuple[str, ...], ...]:
        """Return the bindings that hold on a channel, as far as they were told, or were there at the beginning.

        Raises LocalProtocolError if there is no such channel.
        """
        channel = self._channel(name)
        return tuple(map(channel.terms, channel.bindings))

    @property
    def behind(self) -> bool:
        """Whether a query was left out since something was published, so that ``settle`` may find something."""
        return any(channel.behind for channel in self._channels.values())

    def statistics(self) -> tuple[ChannelStatistics, ...]:
        """Return what happened on each channel."""
        return tuple(channel.statistics() for channel in self._channels.values())

    # --- what happens --------------------------------------------------------------------------

    def publish(self, graph: Iterable[Triple]) -> list[Notification]:
        """Take in a graph with what follows; return what was foreseen of it and holds.  ``evaluate`` comes next.

        Raises DataRefused for what is no graph, LocalProtocolError if the last one was not evaluated: nothing is taken
        in then.
        """
        if self._open:
            raise LocalProtocolError("the last publication waits to be evaluated: call evaluate before the next one")
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
        """Find a graph's categories and elements, once for all channels that want them, at their common expense.

        ``now``: the timer's last reading, for a reading may cost as much as what is measured; returns the next one.
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
        """Run the queries whose turn it is after a publication; return what they found.  Without one nothing
        happens."""
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
        """Run all queries that were left out since something was published; return what they found."""
        self._open = False
        found: list[Notification] = []
        for channel in self._channels.values():
            if channel.behind:
                found += self._run(channel)
            channel.analyse()
        return found

    def delete(self, pattern: Triple) -> tuple[int, list[Notification]]:
        """Remove the explicit facts that match a pattern, and what followed from them alone.

        Returns how many were removed, and what was found before: queries that were left out run first.  What was told
        is not taken back, but is told again if it comes to hold again.  Raises LocalProtocolError for what is no
        pattern.
        """
        check_pattern(pattern)
        return self._delete(lambda: self.knowledge.remove(pattern))

    def delete_all(self, triples: Iterable[Triple]) -> tuple[int, list[Notification]]:
        """Remove those of some triples that are explicit facts, all at once, as :meth:`delete` does."""
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
