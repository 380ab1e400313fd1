"""Replicas of a coordinator of standing queries without peers around them: the test passes their messages on."""

from __future__ import annotations

from p2prdf.columns import LISTS, as_list
from p2prdf.continuous.evaluation import Evaluation
from p2prdf.continuous.home import Home
from p2prdf.continuous.identities import home_key
from p2prdf.hlc import GONE
from p2prdf.peer.subscriptions.items import HomeItems
from p2prdf.rdf.query import Algorithm, make_plan
from p2prdf.rdf.standing.query import parse_query
from p2prdf.wire.messages import (
    Answers,
    Contact,
    EndSubscription,
    KeepAcknowledged,
    KeepAnswers,
    KeepReported,
    KeepRetracted,
    KeepSubscription,
    OpenSubscription,
)

__all__ = ["Replica", "equal"]


class _Whole:
    """A cutter that cuts nothing."""

    def slices(self, count, _):
        return [(0, count)] if count else []


class Replica:
    """A coordinator, and the items that it would send to another."""

    def __init__(self, dictionary, columns=LISTS, **limits):
        self.dictionary, self.columns = dictionary, columns
        self.home = Home(columns, **{"log_rows_max": 1000, **limits})
        self.items = HomeItems(0, self.home, columns, _Whole())

    def open(self, text, since, *, request=1):
        """Open a subscription as a primary does, its query planned without rates."""
        query = parse_query(text)
        key = home_key(query, Algorithm.CSBV)
        opening = OpenSubscription(request, key, query, "csbv", False, Contact(5, "h", 5), 60.0)
        group, _ = self.home.open_group(opening, 7)
        for leaf in group.leaves:
            leaf.plan = make_plan(leaf.query, range(len(leaf.query.patterns)), group.algorithm, per_event=False)
        group.planned = True
        return self.home.subscribe(group, opening, since, now=0.0)

    def take(self, message):
        """Take in a message of another replica; return the leaf's changes, with the leaf."""
        home = self.home
        match message:
            case KeepSubscription():
                home.keep(message, 0.0)
            case EndSubscription():
                for name, stamp in zip(as_list(message.subscriptions), as_list(message.times), strict=True):
                    home.take_end(name, stamp, subscription=True)
            case KeepAcknowledged(number, identity, lost):
                subscription = home.subscriptions[number]
                if lost:
                    subscription.log.lose(identity)
                else:
                    home.acknowledge(subscription, identity, surely=True)
            case KeepAnswers():
                home.owe(home.subscriptions[message.subscription], message.identity, message.born, message.bindings)
            case KeepReported(number):
                home.reported(home.subscriptions[number], message.upto, message.number, message.last)
            case KeepRetracted():
                leaf = home.leaf(message.leaf)
                return leaf, leaf.answers.withdraw(as_list(message.identity), message.youngest)
            case Answers(groups, rows):
                leaf = home.leaf(as_list(groups)[0])
                return leaf, home.record_leaf(leaf, rows.identity, rows.oldest, rows.born, rows.bindings)
            case _:
                raise AssertionError(message)
        return None

    def tell(self, other):
        """Tell another replica everything."""
        for message in list(self.items.everything()):
            other.take(message)

    def evaluation(self, subscription):
        """Begin to evaluate a subscription here."""
        group = subscription.group
        return Evaluation(group.query, group.leaves, subscription.since, self.dictionary)

    def message(self, subscription, evaluation, news):
        """Return the message that tells the other replicas of notifications to the subscriber."""
        make, born = self.columns.column, evaluation.born
        return KeepAnswers(
            subscription.number, make([each.identity for each in news]),
            make([born | GONE if each.over else born for each in news]),
            tuple(make(column, "uint32") for column in zip(*(each.row for each in news), strict=True)), told=True,
        )  # fmt: skip


def equal(*replicas):
    """Return whether replicas hold equal items, and agree on the delivered sets."""
    items = [sorted(each.items.items().identities.tolist()) for each in replicas]
    told = [{number: each.contents.rows for number, each in one.home.subscriptions.items()} for one in replicas]
    return all(each == items[0] for each in items) and all(each == told[0] for each in told)
