"""Standing queries that are more than conjunctive are evaluated where they are delivered from.

All replicas of a home keep what the leaves answered (links send it to all) and what the subscriber was told.  The one
that delivers runs the operators.  What an answer is called follows from what was told before
(:mod:`p2prdf.continuous.told`), so unlike the answers of conjunctive queries these must be known to others before the
subscriber hears of them: they are told to the other replicas, and to the subscriber when ``copies_min`` have them.  A
replica that takes over works out what is true from what the leaves answered, compares it with what was told, and tells
the difference: of rows that were told before, when a low mark says that it knows what the one before did.

Two replicas that both take themselves for the primary call equal answers by equal names as long as they agree on what
was told; where they do not, whoever hears from the other compares anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from p2prdf.continuous.home import Home, Subscription, subscription_home
from p2prdf.continuous.leaf import Change, Leaf
from p2prdf.errors import P2PRDFError
from p2prdf.hlc import GONE
from p2prdf.peer.network.chunking import Cutter
from p2prdf.peer.network.messenger import Exchange
from p2prdf.peer.progress.low_watermark import Known
from p2prdf.peer.subscriptions.replication import Records
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.messages import KeepAnswers

if TYPE_CHECKING:
    from p2prdf.continuous.evaluation import Evaluation, News

__all__ = ["Evaluations"]

RETRY_SECONDS: Final = 60.0
"""How soon what there was no room for is tried again."""
REPORTED_MS: Final = 60_000
"""Other replicas are told which reports are made when these are so much further, in event time,"""
COUNTED_REPORTS: Final = 256
"""or by so many where windows are by count: in no time there may be many elements."""


class Evaluations:
    """The standing queries that are evaluated here.

    ``pump`` hands out what a subscription has got, ``too_large`` ends one that holds too much, and says why.
    """

    def __init__(
        self, exchange: Exchange, home: Home, dictionary: TermDictionary, records: Records, cutter: Cutter,
        pump: Callable[[Subscription], None], too_large: Callable[[Subscription, str], None],
    ):  # fmt: skip
        self._exchange = exchange
        self._home = home
        self._dictionary = dictionary
        self._records = records
        self._cutter = cutter
        self._pump = pump
        self._too_large = too_large
        self._rows_max = exchange.config.query_rows_max
        self._dirty: dict[int, Subscription] = {}
        self._failed_at: dict[int, float] = {}
        """When subscriptions whose query could not be evaluated are tried again."""
        self._doubtful: dict[int, Subscription] = {}
        """Subscriptions that wait for a low mark, as some of their rows are doubtful."""
        self._number = 0
        self._under_way: dict[int, KeepAnswers] = {}
        """What was kept here before others were told, and is in no log yet, numbered."""

    def begin(self, subscription: Subscription) -> None:
        """Evaluate a subscription's query from now on, if it is more than conjunctive."""
        query = subscription.group.query
        if not isinstance(query, StandingQuery) or subscription.evaluation is not None:
            return
        # They take SPARQL's grammar along: only when it is needed.
        from p2prdf.continuous.evaluation import Evaluation
        from p2prdf.continuous.reports import Reports

        leaves, since = subscription.group.leaves, subscription.since
        try:
            if query.report is None:
                subscription.evaluation = Evaluation(query, leaves, since, self._dictionary)
            elif not query.report.every:
                from p2prdf.continuous.counted import CountedReports

                subscription.evaluation = CountedReports(query, leaves, since, self._dictionary, subscription.mark)
            else:
                reported = subscription.reported
                subscription.evaluation = Reports(query, leaves, since, self._dictionary, reported)
        except P2PRDFError as error:
            self._failed(subscription, error)
        self._dirty[subscription.number] = subscription

    def stop(self, subscription: Subscription) -> None:
        """Leave it to others."""
        subscription.evaluation = None
        self._failed_at.pop(subscription.number, None)
        self._doubtful.pop(subscription.number, None)

    def changed(self, leaf: Leaf, changes: Iterable[Change]) -> None:
        """Take note of changes of a leaf."""
        changes = list(changes)
        number = leaf.identity - leaf.group.identity
        for subscription in leaf.group.subscriptions.values() if changes else ():
            if subscription.evaluation is not None:
                subscription.evaluation.changed(number, changes)
                self._dirty[subscription.number] = subscription

    def known_upto(self, subscription: Subscription, upto: int, began: int, whole: int) -> None:
        """Take note that all streams of a query with windows are known up to an event time: reports may be due.

        ``whole``: from when on no element that is in its windows is forgotten.
        """
        if subscription.evaluation is not None:
            subscription.evaluation.advance(upto, began, self._exchange.clock, whole)
            self._dirty[subscription.number] = subscription

    def told_elsewhere(self, subscription: Subscription) -> None:
        """Take note that another replica has told the subscriber something."""
        if subscription.evaluation is not None:
            subscription.evaluation.stale = True
            self._dirty[subscription.number] = subscription

    @staticmethod
    def settled(subscription: Subscription) -> bool:
        """Return whether all is in its log that follows: not if there was no room to evaluate its query."""
        evaluation = subscription.evaluation
        return subscription.contents is None or (evaluation is not None and evaluation.settled)

    def messages(self) -> list[KeepAnswers]:
        """Return what is kept here, for a snapshot, and is in no log yet: others are still being told."""
        return list(self._under_way.values())

    @property
    def doubtful(self) -> bool:
        """Whether low marks are waited for."""
        return bool(self._doubtful)

    def learn(self, known: Known) -> None:
        """Take in a low mark: all is here that was published before it and was known anywhere."""
        for number, subscription in list(self._doubtful.items()):
            evaluation = subscription.evaluation
            if evaluation is None or not evaluation.doubts or self._home.subscriptions.get(number) is not subscription:
                del self._doubtful[number]
            else:
                evaluation.sure(known.upto)
                self._dirty[number] = subscription

    @property
    def restless(self) -> bool:
        """Whether there is anything to work off."""
        return bool(self._dirty)

    def turn(self) -> None:
        """Work off a piece of each query that has something to do."""
        dirty, self._dirty = self._dirty, {}
        stamp = self._exchange.clock if self._exchange.replicated else 0
        for number, subscription in dirty.items():
            evaluation = subscription.evaluation
            if evaluation is None or self._home.subscriptions.get(number) is not subscription or not evaluation.waits:
                continue
            assert subscription.contents is not None
            try:
                news = evaluation.work(subscription.contents, subscription.log, self._rows_max, stamp)
            except P2PRDFError as error:
                self._failed(subscription, error)
                continue
            if evaluation.rows_held > self._rows_max:
                why = f"the query holds more than {self._rows_max} rows (setting query_rows_max)"
                self._too_large(subscription, why)
                continue
            if news:
                self._stage(subscription, evaluation, news)
            else:
                self._tell_reported(subscription, evaluation)
            if evaluation.doubts:
                self._doubtful[number] = subscription
            else:
                self._doubtful.pop(number, None)
            if evaluation.waits:
                self._dirty[number] = subscription

    def _tell_reported(self, subscription: Subscription, evaluation: Evaluation) -> None:
        """Tell other replicas which reports are made and kept, if these are much further than they know."""
        mark, known = evaluation.mark, subscription.mark
        counted = mark.number - known.number >= COUNTED_REPORTS
        if mark.upto >= known.upto + REPORTED_MS or counted:
            self._records.tell_reported(subscription, mark)

    def _failed(self, subscription: Subscription, error: P2PRDFError) -> None:
        """Give up an evaluation that this peer has no room for; it is begun anew in a while."""
        subscription.evaluation = None
        self._failed_at[subscription.number] = self._exchange.now + RETRY_SECONDS
        self._exchange.trace(
            "evaluation-failed", subscription=subscription.number, code=error.code, reason=str(error)
        )

    def wake(self) -> None:
        """Begin anew what could not be evaluated, if it is still delivered from here."""
        for number in [number for number, at in self._failed_at.items() if at <= self._exchange.now]:
            del self._failed_at[number]
            subscription = self._home.subscriptions.get(number)
            if subscription is not None and subscription.delivered:
                self.begin(subscription)

    @property
    def deadline(self) -> float | None:
        """When something is to be tried again."""
        return min(self._failed_at.values(), default=None)

    def _stage(self, subscription: Subscription, evaluation: Evaluation, news: list[News]) -> None:
        """Tell the other replicas what the subscriber is to be told, and it when enough of them have it."""
        columns = self._exchange.columns
        bindings = tuple(columns.column(column, "uint32") for column in zip(*(each.row for each in news), strict=True))
        large = set(self._cutter.too_large(bindings))
        if large:  # it could never be delivered, and everything after it would wait
            self._exchange.trace("answer-too-large", answers=len(large))
            left = columns.column([at for at in range(len(news)) if at not in large], "int64")
            news = [each for at, each in enumerate(news) if at not in large]
            bindings = tuple(columns.take(column, left) for column in bindings)
        born = evaluation.born
        identity = columns.column([each.identity for each in news])
        times = columns.column([born | GONE if each.over else born for each in news])
        for start, stop in self._cutter.slices(len(news), bindings):
            part = tuple(column[start:stop] for column in bindings)
            message = KeepAnswers(subscription.number, identity[start:stop], times[start:stop], part, told=True)
            evaluation.staged += len(message)
            self._number += 1
            self._under_way[self._number] = message
            done = partial(self._staged, subscription, evaluation, self._number)
            token = self._exchange.token(done, sparing=True)
            self._records.tell(subscription_home(subscription.number), message, (token,))
            self._exchange.release((token,))

    def _staged(self, subscription: Subscription, evaluation: Evaluation, number: int) -> None:
        """Let the subscriber have what enough replicas have."""
        message = self._under_way.pop(number)
        evaluation.staged -= len(message)
        if self._home.subscriptions.get(subscription.number) is not subscription:
            return
        self._home.owe(subscription, message.identity, message.born, message.bindings)
        if subscription.evaluation is not evaluation:
            self.told_elsewhere(subscription)
        else:
            self._tell_reported(subscription, evaluation)
            if evaluation.waits:
                self._dirty[subscription.number] = subscription
        self._pump(subscription)
