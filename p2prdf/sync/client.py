"""The blocking client: the methods of :class:`p2prdf.client.Client` for programs without an event loop."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Self

from p2prdf.client import Client as AsyncClient
from p2prdf.client import connect as connect_async
from p2prdf.client.channel_store import ChannelStore as AsyncChannelStore
from p2prdf.client.concluding import Concluding as AsyncConcluding
from p2prdf.client.interest_store import InterestStore as AsyncInterestStore
from p2prdf.sync.background import Background
from p2prdf.sync.facade import Facade, blocking, converted, entered, iterated, made
from p2prdf.sync.publishing import Export, Stream, Transaction
from p2prdf.sync.subscription import ChannelSubscription, Cohort, Subscription

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["ChannelStore", "Client", "Concluding", "InterestStore", "connect"]

_P = ParamSpec("_P")


class InterestStore(Facade[AsyncInterestStore]):
    """``client.interests``: the interests registered in the client's overlay."""

    add = blocking(AsyncInterestStore.add)
    registered = blocking(AsyncInterestStore.registered)
    pause = blocking(AsyncInterestStore.pause)
    resume = blocking(AsyncInterestStore.resume)
    remove = blocking(AsyncInterestStore.remove)
    status = blocking(AsyncInterestStore.status)
    verify = blocking(AsyncInterestStore.verify)
    repair = blocking(AsyncInterestStore.repair)


class ChannelStore(Facade[AsyncChannelStore]):
    """``client.channels``: the channels registered in the client's overlay."""

    create = blocking(AsyncChannelStore.create)
    registered = blocking(AsyncChannelStore.registered)
    list = blocking(AsyncChannelStore.list)
    stats = blocking(AsyncChannelStore.stats)
    drop = blocking(AsyncChannelStore.drop)
    publish = blocking(AsyncChannelStore.publish)
    delete = blocking(AsyncChannelStore.delete)
    query_of = blocking(AsyncChannelStore.query_of)
    subscribe = converted(AsyncChannelStore.subscribe, ChannelSubscription)
    attach = converted(AsyncChannelStore.attach, ChannelSubscription)


class Concluding(Facade[AsyncConcluding]):
    """Rules registered with the nodes; ``rules`` is their number."""

    watch = blocking(AsyncConcluding.watch)

    @property
    def rules(self) -> int:
        """Number of the registered rules."""
        return self._behind.rules


class Client(Facade[AsyncClient]):
    """A connection to an overlay, for any number of threads.  Made by :func:`connect`; a context manager.

    One background thread runs an event loop with a :class:`p2prdf.client.Client`. Each call waits there for its
    result, with the arguments and the errors of the asynchronous call. Functions given as arguments
    (``on_progress``, ``on_refused``, ``on_reconnect``) are called in that thread, and may not call the client.
    """

    publish = blocking(AsyncClient.publish)
    retract = blocking(AsyncClient.retract)
    subscribe = converted(AsyncClient.subscribe, Subscription)
    attach = converted(AsyncClient.attach, Subscription)
    cohort = converted(AsyncClient.cohort, Cohort)
    unsubscribe = blocking(AsyncClient.unsubscribe)
    query = blocking(AsyncClient.query)
    snapshot = blocking(AsyncClient.snapshot)
    update = blocking(AsyncClient.update)
    add_rules = blocking(AsyncClient.add_rules)
    rules = blocking(AsyncClient.rules)
    remove_rules = blocking(AsyncClient.remove_rules)
    derive = iterated(AsyncClient.derive)
    derive_by_rules = iterated(AsyncClient.derive_by_rules)
    conclude = entered(AsyncClient.conclude, Concluding)
    drop_derived = blocking(AsyncClient.drop_derived)
    status = blocking(AsyncClient.status)
    stamp = blocking(AsyncClient.stamp)
    export = converted(AsyncClient.export, Export)
    subscriptions = blocking(AsyncClient.subscriptions)
    expel = blocking(AsyncClient.expel)
    introduced = blocking(AsyncClient.introduced)
    histories = blocking(AsyncClient.histories)
    transaction = made(AsyncClient.transaction, Transaction)
    stream = made(AsyncClient.stream, Stream)
    continue_export = made(AsyncClient.continue_export, Export)

    def explain(
        self, query_or_subscription: str | int | Subscription, *, algorithm: str = "csbv", per_event: bool = False
    ) -> dict[str, Any]:
        """Return the plan of a query, or the state of a subscription with the work that it waits for.

        ``query_or_subscription``: a query, a subscription, or its number (an integer or 16 hexadecimal digits).
        Other arguments and errors are those of :meth:`p2prdf.client.Client.explain`.
        """
        given = query_or_subscription
        wanted = given.id if isinstance(given, Subscription) else given
        return self._background.run(lambda: self._behind.explain(wanted, algorithm=algorithm, per_event=per_event))

    @property
    def peer_key(self) -> str:
        """Ring position of the node in use, or of the last one, as 16 hexadecimal digits."""
        return self._behind.peer_key

    @property
    def peer_address(self) -> str:
        """Address of the node in use, or of the last one, as that node reports it."""
        return self._behind.peer_address

    @property
    def others(self) -> list[str]:
        """Addresses of other nodes, as reported by the node in use."""
        return self._background.read(lambda: self._behind.others)

    @property
    def interests(self) -> InterestStore:
        """Interests that are registered in the overlay; interest workers maintain their targets."""
        return InterestStore(self._background, self._behind.interests)

    @property
    def channels(self) -> ChannelStore:
        """Semantic channels that are registered in the overlay; channel workers evaluate them."""
        return ChannelStore(self._background, self._behind.channels)

    def close(self) -> None:
        """Close the connection and end the background thread; calls under way in other threads raise Unavailable.

        Subscriptions survive until their leases run out; streams send no more heartbeats. A second call does
        nothing. The interpreter closes clients that are still open at its exit.
        """
        self._background.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _connector(make: Callable[_P, connect_async]) -> Callable[_P, Client]:
    """Return the function that connects, with the arguments of the asynchronous one."""

    @functools.wraps(make, assigned=("__name__",), updated=())
    def connect(*args: _P.args, **kwargs: _P.kwargs) -> Client:
        """Connect to a node: ``with connect("host:port") as client``, or ``client = connect("host:port")``.

        Arguments and errors are those of :class:`p2prdf.connect`.
        """
        background = Background()

        async def connected() -> AsyncClient:
            return await make(*args, **kwargs)

        try:
            client = background.run(connected)
        except BaseException:
            background.close()
            raise
        background.before_closing(client.close)
        return Client(background, client)

    return connect


connect = _connector(connect_async)
