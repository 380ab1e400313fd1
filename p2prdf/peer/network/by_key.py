"""Routing of messages about single subscriptions and groups to the owner of a key, and of replies."""

from __future__ import annotations

from functools import partial

from p2prdf.columns import as_list
from p2prdf.peer.network.messenger import Exchange
from p2prdf.wire.messages import Contact, Message

__all__ = ["ByKey"]


class ByKey:
    """Sends messages to the owners of single keys."""

    def __init__(self, exchange: Exchange):
        self._exchange = exchange

    def at_owner(self, key: int, message: Message, sender: Contact) -> bool:
        """Return whether this peer owns ``key``; if not, forward the message to the owner.

        While views disagree there may be no owner to find.  Without replicas, this peer then answers like any other.
        With replicas it does not answer, because only the primary may report that something does not exist.  The sender
        asks again.
        """
        config = self._exchange.config
        owner = as_list(self._exchange.closest_known([key]))[0]
        if owner == 0:
            return True
        if message.hops >= config.hops_max:  # type: ignore[union-attr]  # only routed messages come here
            return not self._exchange.replicated
        self._exchange.pass_on(sender, self._exchange.contact(owner), message)
        return False

    def to_owner(self, key: int, message: Message, tokens: tuple[int, ...] = ()) -> None:
        """Send a message to the owner of a key, which may be this peer."""
        exchange = self._exchange
        owner = exchange.owner(key)
        if owner is None:
            exchange.hold(tokens)

            def again() -> None:
                self.to_owner(key, message, tokens)
                exchange.release(tokens)

            exchange.park([key], again)
        elif owner.key == exchange.own.key:
            self._exchange.to_self.append(message)
        else:
            exchange.send(owner, message, tokens)

    def to_all(self, key: int, message: Message, tokens: tuple[int, ...] = ()) -> None:
        """Send a message to all replicas of a key; this peer may be one of them."""
        exchange = self._exchange
        if not exchange.replicated:
            self.to_owner(key, message, tokens)
            return
        keepers = exchange.replica_set(key)
        if keepers is None or exchange.members.short_of_peers:
            exchange.hold(tokens)

            def again() -> None:
                self.to_all(key, message, tokens)
                exchange.release(tokens)

            if keepers is None:
                exchange.park([exchange.cache.gap() or 0], again)
            else:
                exchange.wait_for_peers(again)
            return
        for keeper in keepers:
            if keeper.key == exchange.own.key:
                self._exchange.to_self.append(message)
                exchange.hold(tokens)
                exchange.after_turn.append(partial(exchange.release, tokens))
            else:
                exchange.send(keeper, message, tokens)

    def reply(self, to: Contact, message: Message) -> None:
        """Send a message to a peer, which may be this one."""
        if to.key == self._exchange.own.key:
            self._exchange.to_self.append(message)
        else:
            self._exchange.send(to, message)
