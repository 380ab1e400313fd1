"""Routing of messages about single subscriptions and groups to the owner of a key, and of replies."""

from __future__ import annotations

from functools import partial

from p2prdf.columns import as_list
from p2prdf.peer.network.messenger import Messenger
from p2prdf.wire.messages import Contact, Message

__all__ = ["ByKey"]


class ByKey:
    """Sends messages to the owners of single keys."""

    def __init__(self, messenger: Messenger):
        self._messenger = messenger

    def at_owner(self, key: int, message: Message, sender: Contact) -> bool:
        """Return whether this peer owns ``key``; if not, forward the message to the owner.

        While views disagree there may be no owner to find (:attr:`Placement.answers_misrouted`).
        """
        config = self._messenger.config
        owner = as_list(self._messenger.closest_known([key]))[0]
        if owner == 0:
            return True
        if message.hops >= config.hops_max:  # type: ignore[attr-defined]  # only routed messages come here
            return self._messenger.placement.answers_misrouted
        self._messenger.pass_on(sender, self._messenger.contact(owner), message)
        return False

    def to_owner(self, key: int, message: Message, tokens: tuple[int, ...] = ()) -> None:
        """Send a message to the owner of a key, which may be this peer."""
        messenger = self._messenger
        owner = messenger.owner(key)
        if owner is None:
            messenger.park([key], partial(self.to_owner, key, message, tokens), tokens)
        elif owner.key == messenger.own.key:
            self._messenger.to_self.append(message)
        else:
            messenger.send(owner, message, tokens)

    def to_all(self, key: int, message: Message, tokens: tuple[int, ...] = ()) -> None:
        """Send a message to all replicas of a key; this peer may be one of them."""
        messenger = self._messenger
        keepers = messenger.placement.replica_set(key)
        if keepers is None or messenger.members.short_of_peers:
            again = partial(self.to_all, key, message, tokens)
            if keepers is None:
                messenger.park(messenger.placement.wanted([key]), again, tokens)
            else:
                messenger.wait_for_peers(again, tokens)
            return
        for keeper in keepers:
            if keeper.key == messenger.own.key:
                self._messenger.to_self.append(message)
                messenger.hold(tokens)
                messenger.after_turn.append(partial(messenger.release, tokens))
            else:
                messenger.send(keeper, message, tokens)

    def reply(self, to: Contact, message: Message) -> None:
        """Send a message to a peer, which may be this one."""
        if to.key == self._messenger.own.key:
            self._messenger.to_self.append(message)
        else:
            self._messenger.send(to, message)
