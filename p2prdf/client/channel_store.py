"""Semantic channels in the overlay: created, published to and subscribed to by any client.

Channel workers evaluate them. All state is triples (:mod:`p2prdf.channels.registration`,
:mod:`p2prdf.channels.publication`). A channel therefore outlives the client that creates it, a publication is
durable once acknowledged, with or without a worker, and a channel's subscription is a standing query with all
its guarantees.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from p2prdf.client.group_requests import ANSWER_SECONDS, GroupRequests
from p2prdf.errors import LocalProtocolError, P2PRDFError

if TYPE_CHECKING:
    from p2prdf.channels.registration import ChannelRegistration
    from p2prdf.client.client import Client
    from p2prdf.client.pieces import Triple
    from p2prdf.client.solutions import Solution
    from p2prdf.client.subscription import Subscription

__all__ = ["ChannelNotification", "ChannelStore", "ChannelSubscription", "Notifications", "RegisteredChannel"]

_LOOK_SECONDS: Final = 0.2
_CONFIRMED_MAX: Final = 4096
"""Bound on the bindings that a subscriber remembers as confirmed."""

_Channels: TypeAlias = "list[RegisteredChannel]"
_States: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class RegisteredChannel:
    """A registered channel; ``error`` is the reason if its registration is not valid."""

    name: str
    registration: ChannelRegistration | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ChannelNotification:
    """A notification on a channel.

    ``kind``: ``initial`` (true when the channel began), ``tentative`` (predicted and tested: true) or
    ``confirmed`` (found by a run of the query). ``binding``: canonical terms by variable. ``removed``: the
    binding is no longer true. ``solution``: the solution that carried it, with its sequence number and
    publication time.
    """

    kind: str
    binding: Mapping[str, str]
    removed: bool
    solution: Solution


class Notifications:
    """Converts solutions of a channel's query to notifications.

    Answers take several ways, so a tentative binding occasionally arrives after its confirmation. It is
    dropped, since it tells the subscriber nothing new.
    """

    def __init__(self, names: tuple[str, ...], *, removed: bool):
        """``removed``: also report bindings that are no longer true."""
        self._names = names
        self._removed = removed
        self._confirmed: dict[str, bool] = {}
        """The last confirmed bindings, and whether a late tentative one was dropped since."""

    def of(self, solution: Solution) -> ChannelNotification | None:
        """Return the notification in a solution; None if it is dropped or if no channel worker wrote it."""
        from p2prdf.channels.registration import KINDS, read_binding

        kind, literal = solution.get("kind", ""), solution.get("binding", "")
        binding = read_binding(literal)
        if kind not in KINDS or binding is None or len(binding) != len(self._names):
            return None
        word = kind.removeprefix("<urn:p2prdf:").removesuffix(">")
        late = word == "tentative" and self._is_late(literal, removed=solution.removed)
        if word == "confirmed":
            self._note(literal, removed=solution.removed)
        if late or (solution.removed and not self._removed):
            return None
        return ChannelNotification(word, dict(zip(self._names, binding, strict=True)), solution.removed, solution)

    def _is_late(self, literal: str, *, removed: bool) -> bool:
        known = self._confirmed.get(literal)
        if known is None or (removed and not known):
            return False
        self._confirmed[literal] = not removed
        return True

    def _note(self, literal: str, *, removed: bool) -> None:
        left_out = self._confirmed.pop(literal, False)
        if not removed or left_out:  # the retraction of a dropped binding is dropped as well
            self._confirmed[literal] = left_out
        if len(self._confirmed) > _CONFIRMED_MAX:
            del self._confirmed[next(iter(self._confirmed))]


class ChannelSubscription:
    """Notifications of a channel: ``async for notification in subscription``.

    ``subscription`` has the tokens, the acknowledgements and the end of the underlying subscription.
    """

    def __init__(self, subscription: Subscription, names: tuple[str, ...], *, removed: bool):
        self.subscription = subscription
        self._notifications = Notifications(names, removed=removed)

    def of(self, solution: Solution) -> ChannelNotification | None:
        """Return the notification in a solution; None if it tells the subscriber nothing."""
        return self._notifications.of(solution)

    async def __aiter__(self) -> AsyncIterator[ChannelNotification]:
        async for solution in self.subscription:
            found = self.of(solution)
            if found is not None:
                yield found


class ChannelStore:
    """``client.channels``: the channels registered in the client's overlay."""

    def __init__(self, client: Client):
        self._client = client

    # --- channels ------------------------------------------------------------------------------

    async def create(
        self, name: str, base: str, query: str, *, settings: Mapping[str, Any] | None = None,
        begin_seconds: float = 10.0, timeout_seconds: float = 60.0,
    ) -> bool:  # fmt: skip
        """Register a channel over a knowledge base (a canonical IRI); return whether a worker has begun.

        Registering the same channel again changes nothing. ``settings``: the settings of
        :class:`p2prdf.channels.Settings` that differ from their defaults, by name. ``begin_seconds``: how long
        to wait for a channel worker to begin. Once one has begun, later publications are reported as new;
        earlier ones may count as initially true.

        Raises QueryRefused for the query, LocalProtocolError for other bad arguments and for a name in use by
        another channel; DataRefused, Busy, Unavailable.
        """
        from p2prdf.channels.registration import CHANNELS_GRAPH, ChannelRegistration

        made = ChannelRegistration(name, base, query, dict(settings or {}))
        made.check()
        known = {each.name: each for each in await self.registered(timeout_seconds=timeout_seconds)}.get(name)
        if known is not None and known.registration != made:
            raise LocalProtocolError(f"there is another channel {name}: drop it first")
        if known is None:
            await self._client.publish([made.triple], graph=CHANNELS_GRAPH)
        loop = asyncio.get_running_loop()
        until = loop.time() + begin_seconds
        while not await self._has_begun(made, timeout_seconds):
            if loop.time() >= until:
                return False
            await asyncio.sleep(_LOOK_SECONDS)
        return True

    async def _has_begun(self, made: ChannelRegistration, timeout_seconds: float) -> bool:
        from p2prdf.channels.registration import BEGUN, notifications_graph, subject_of

        ask = f"ASK {{ GRAPH {notifications_graph(made.base)} {{ {made.base} {BEGUN} {subject_of(made.name)} }} }}"
        return bool(await self._client.query(ask, timeout_seconds=timeout_seconds))

    async def registered(self, *, timeout_seconds: float = 60.0) -> _Channels:
        """Return the registered channels, by name.  Raises the errors of :meth:`p2prdf.client.Client.query`."""
        from p2prdf.channels.registration import CHANNEL, CHANNELS_GRAPH, name_of, read_channel

        query = f"SELECT ?s ?o {{ GRAPH {CHANNELS_GRAPH} {{ ?s {CHANNEL} ?o }} }}"
        result = await self._client.query(query, timeout_seconds=timeout_seconds)
        found: dict[str, RegisteredChannel] = {}
        for s, o in sorted((str(s), str(o)) for s, o in result.rows):
            name = name_of(s)
            if name is None:
                continue
            try:
                known = RegisteredChannel(name, read_channel(s, o))
            except P2PRDFError as error:
                known = RegisteredChannel(name, None, str(error))
            if name in found:
                known = RegisteredChannel(name, None, "it is registered twice: drop it, and create it again")
            found[name] = known
        return [found[name] for name in sorted(found)]

    async def list(self, *, timeout_seconds: float = 60.0) -> _States:
        """Return each channel with its query, knowledge base, state and, if it has one, its channel worker."""
        shown = ("name", "base", "query", "settings", "state", "worker", "error")
        return [
            {key: each[key] for key in shown if key in each}
            for each in await self.stats(timeout_seconds=timeout_seconds)
        ]

    async def stats(self, name: str | None = None, *, timeout_seconds: float = 60.0) -> _States:
        """Return the state of channels, by name, as their workers report it.

        docs/reference/channels.md lists the keys. A channel without an answer of a worker within five seconds
        has the state ``unassigned``. Raises LocalProtocolError if there is no channel of that name, and the errors
        of :meth:`p2prdf.client.Client.query`.
        """
        from p2prdf.channels.registration import ANSWERS, CHANNEL_WORKERS, REQUESTS_GRAPH

        registered = await self.registered(timeout_seconds=timeout_seconds)
        if name is not None:
            registered = [each for each in registered if each.name == name]
            if not registered:
                raise LocalProtocolError(f"there is no channel {name}")
        requests = GroupRequests(self._client, CHANNEL_WORKERS, REQUESTS_GRAPH, ANSWERS)
        found = await requests.ask("stats", name, ANSWER_SECONDS, timeout_seconds=timeout_seconds) if registered else []
        known = {str(each.get("name")): each for each in found}
        return [{**_about(each), **known.get(each.name, {})} for each in registered]

    async def drop(self, name: str, *, timeout_seconds: float = 60.0) -> int:
        """Delete a channel and its notifications; return 1 if it existed, else 0.

        The graphs of its knowledge base stay. So do its subscriptions, which receive nothing more.
        """
        from p2prdf.channels.registration import (
            BEGUN,
            CHANNEL,
            CHANNELS_GRAPH,
            KINDS,
            name_of,
            notifications_graph,
            read_channel,
            subject_of,
        )

        subject = subject_of(name)
        query = f"SELECT ?o {{ GRAPH {CHANNELS_GRAPH} {{ {subject} {CHANNEL} ?o }} }}"
        found = [str(o) for (o,) in (await self._client.query(query, timeout_seconds=timeout_seconds)).rows]
        if not found or name_of(subject) is None:
            return 0
        await self._client.retract([(subject, CHANNEL, each) for each in found], graph=CHANNELS_GRAPH)
        for each in found:
            try:
                base = read_channel(subject, each).base
            except P2PRDFError:
                continue  # no worker has published notifications on it
            graph = notifications_graph(base)
            notifications = [(base, BEGUN, subject)]
            for kind in KINDS:
                result = await self._client.query(
                    f"SELECT ?o {{ GRAPH {graph} {{ {subject} {kind} ?o }} }}", timeout_seconds=timeout_seconds
                )
                notifications += [(subject, kind, str(o)) for (o,) in result.rows]
            await self._client.retract(notifications, graph=graph)
        return 1

    # --- publications --------------------------------------------------------------------------

    async def publish(self, base: str, graph: Iterable[Triple], *, publisher: str | None = None) -> str:
        """Publish a graph as one unit into a knowledge base; return its identifier when it is acknowledged.

        ``publisher``: the same graph from the same publisher counts once as long as any of it is left. After an
        error of unknown outcome, publish it again. None: each call is a new publication.

        Raises DataRefused for an invalid graph, for statements about classes or properties, and for a graph
        larger than one literal may be; Busy, Unavailable.
        """
        from p2prdf.channels.publication import GRAPH, graph_literal, identifier_of
        from p2prdf.channels.registration import check_base

        check_base(base)
        statements = tuple(dict.fromkeys(graph))
        identifier = secrets.token_hex(16) if publisher is None else identifier_of(publisher, (base, statements))
        literal = graph_literal(identifier, await self._client.stamp(), statements)
        await self._client.publish([(base, GRAPH, literal)], graph=base)
        return identifier

    async def delete(self, base: str, pattern: Triple, *, publisher: str | None = None) -> str:
        """Delete the triples that match a pattern from the graphs published so far; return the identifier.

        Returns when the deletion is acknowledged. ``pattern``: canonical terms and variables (``?name``).
        Graphs published after the return are not affected. ``publisher``: as in :meth:`publish`.

        Raises LocalProtocolError for an invalid pattern; DataRefused, Busy, Unavailable.
        """
        from p2prdf.channels.publication import DELETE, deletion_literal, identifier_of
        from p2prdf.channels.registration import check_base

        check_base(base)
        identifier = secrets.token_hex(16) if publisher is None else identifier_of(publisher, (base, "-", pattern))
        literal = deletion_literal(identifier, await self._client.stamp(), pattern)
        await self._client.publish([(base, DELETE, literal)], graph=base)
        return identifier

    # --- notifications -------------------------------------------------------------------------

    async def query_of(self, name: str, *, timeout_seconds: float = 60.0) -> tuple[str, tuple[str, ...]]:
        """Return the standing query for a channel's notifications, and the variables of its bindings.

        Raises LocalProtocolError if there is no such channel.
        """
        from p2prdf.channels.query import parse_channel
        from p2prdf.channels.registration import notifications_graph, subject_of

        found = [each for each in await self.registered(timeout_seconds=timeout_seconds) if each.name == name]
        if not found:
            raise LocalProtocolError(f"there is no channel {name}")
        registration = found[0].registration
        if registration is None:
            raise LocalProtocolError(f"the registration of the channel {name} is not valid: {found[0].error}")
        graph = notifications_graph(registration.base)
        query = f"SELECT DISTINCT ?kind ?binding {{ GRAPH {graph} {{ {subject_of(name)} ?kind ?binding }} }}"
        return query, parse_channel(registration.query).names

    async def subscribe(
        self, name: str, *, since: float | str = "beginning", lease_seconds: float = 60.0,
        auto_acknowledge: bool = True, removed: bool = False, timeout_seconds: float = 60.0, settled: bool = False,
    ) -> ChannelSubscription:  # fmt: skip
        """Subscribe to a channel: its present bindings first, then new ones.

        With ``since="now"`` only new ones. ``removed``: also report bindings that are no longer true.
        ``settled``: refused, because channels have no states. Other arguments and errors are those of
        :meth:`p2prdf.client.Client.subscribe`; LocalProtocolError if there is no such channel.
        """
        if settled:
            raise LocalProtocolError(
                "settled: a channel reports bindings before they are certain, so it has no states; subscribe to its"
                " query with settled=True for states of the graph"
            )
        query, names = await self.query_of(name, timeout_seconds=timeout_seconds)
        subscription = await self._client.subscribe(
            query, since=since, lease_seconds=lease_seconds, auto_acknowledge=auto_acknowledge
        )
        return ChannelSubscription(subscription, names, removed=removed)

    async def attach(
        self, name: str, token: bytes | int, *, auto_acknowledge: bool = True, removed: bool = False,
        timeout_seconds: float = 60.0,
    ) -> ChannelSubscription:  # fmt: skip
        """Resume an earlier subscription of a channel; see :meth:`p2prdf.client.Client.attach`.

        Raises TokenMismatch for a token of another channel.
        """
        query, names = await self.query_of(name, timeout_seconds=timeout_seconds)
        expected = None if isinstance(token, int) else query
        subscription = await self._client.attach(token, query=expected, auto_acknowledge=auto_acknowledge)
        return ChannelSubscription(subscription, names, removed=removed)


def _about(each: RegisteredChannel) -> dict[str, Any]:
    state: dict[str, Any] = {"name": each.name}
    if each.registration is not None:
        made = each.registration
        state |= {"base": made.base[1:-1], "query": made.query, "settings": dict(made.settings)}
    state["state"] = "refused" if each.error else "unassigned"
    if each.error:
        state["error"] = each.error
    return state
