"""Evaluation of standing queries that are more than conjunctive, at the peer that delivers them.

All replicas of a coordinator store the solutions of the leaves and the delivered solutions.  The primary alone runs
the operators.  The identity of a solution depends on earlier deliveries (:mod:`p2prdf.continuous.incarnations`), so the
primary first stages a solution at ``copies_min`` replicas and then delivers it.  A replica that takes over evaluates
the leaves, compares the result with the delivered solutions and delivers the difference.  It retracts an earlier
solution only after a low watermark shows that it has all data of its predecessor.

Two peers that both act as the primary give equal solutions equal identities while they agree on the delivered ones; a
replica that learns of another delivery compares again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from p2prdf.continuous.counted import CountedReports
from p2prdf.continuous.evaluation import Evaluation
from p2prdf.continuous.home import Home, Subscription, subscription_home
from p2prdf.continuous.leaf import Change, Leaf
from p2prdf.continuous.reports import Reports
from p2prdf.continuous.settled import SettledEvaluation
from p2prdf.errors import P2PRDFError
from p2prdf.hlc import GONE
from p2prdf.peer.network.chunking import Chunker
from p2prdf.peer.network.component import Component
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.progress.low_watermark import Known
from p2prdf.peer.subscriptions.marks import Marks
from p2prdf.peer.subscriptions.replication import RecordReplication
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.messages import KeepAnswers

if TYPE_CHECKING:
    from p2prdf.continuous.evaluation import News

__all__ = ["Evaluations"]

RETRY_SECONDS: Final = 60.0
"""Seconds until an evaluation is tried again for which there was no room."""
REPORTED_MS: Final = 60_000
"""Progress of reports, in milliseconds of event time, after which the other replicas are told."""
COUNTED_REPORTS: Final = 256
"""Progress of reports by count after which the other replicas are told."""


class Evaluations(Component):
    """The standing queries that this peer evaluates.

    ``pump`` delivers the solutions of a subscription; ``too_large`` ends a subscription that exceeds a bound, with the
    reason.
    """

    def __init__(
        self, messenger: Messenger, home: Home, dictionary: TermDictionary, records: RecordReplication,
        chunker: Chunker,
        pump: Callable[[Subscription], None], too_large: Callable[[Subscription, str], None],
    ):  # fmt: skip
        self._messenger = messenger
        self._home = home
        self._dictionary = dictionary
        self._records = records
        self._chunker = chunker
        self._pump = pump
        self._too_large = too_large
        self._rows_max = messenger.config.query_rows_max
        self.waiting: dict[int, Subscription] = {}
        """Subscriptions with changes to evaluate, at the end of the turn."""
        self._failed_at: dict[int, float] = {}
        """By subscription with a failed evaluation, the time of the next attempt."""
        self._doubtful: dict[int, Subscription] = {}
        """Subscriptions with tentative rows, which wait for a low watermark."""
        self._number = 0
        self._under_way: dict[int, KeepAnswers] = {}
        """Staged solutions that enough replicas do not have yet, by number."""
        self.marks = Marks(messenger, home)

    def begin(self, subscription: Subscription) -> None:
        """Evaluate the query of a subscription from now on, unless it is conjunctive."""
        query = subscription.group.query
        if not isinstance(query, StandingQuery) or subscription.evaluation is not None:
            return
        leaves, since = subscription.group.leaves, subscription.since
        try:
            if query.is_settled:
                settled = SettledEvaluation(query, leaves, self._dictionary, self._messenger.clock)
                subscription.evaluation = settled
                self.marks.begin(subscription, settled)
            elif query.report is None:
                subscription.evaluation = Evaluation(query, leaves, since, self._dictionary)
            elif not query.report.every:
                subscription.evaluation = CountedReports(query, leaves, since, self._dictionary, subscription.mark)
            else:
                reported = subscription.reported
                subscription.evaluation = Reports(query, leaves, since, self._dictionary, reported)
        except P2PRDFError as error:
            self._failed(subscription, error)
        self.waiting[subscription.number] = subscription

    def stop(self, subscription: Subscription) -> None:
        """Stop the evaluation of a subscription: another replica continues."""
        subscription.evaluation = None
        self._failed_at.pop(subscription.number, None)
        self._doubtful.pop(subscription.number, None)

    def changed(self, leaf: Leaf, changes: Iterable[Change]) -> None:
        """Pass changes of a leaf to the evaluations of its group."""
        changes = list(changes)
        number = leaf.identity - leaf.group.identity
        for subscription in leaf.group.subscriptions.values() if changes else ():
            if subscription.evaluation is not None:
                subscription.evaluation.changed(number, changes)
                self.waiting[subscription.number] = subscription
                if leaf.group.settled:
                    self.marks.hurry()

    def known_upto(self, subscription: Subscription, upto: int, began: int, whole: int) -> None:
        """Advance the watermark of a query with windows: reports may be due.

        ``whole``: the event time from which on no element of its windows is forgotten.
        """
        if subscription.evaluation is not None:
            subscription.evaluation.advance(upto, began, self._messenger.clock, whole)
            self.waiting[subscription.number] = subscription

    def told_elsewhere(self, subscription: Subscription) -> None:
        """Note that another replica has delivered solutions to the subscriber."""
        if subscription.evaluation is not None:
            subscription.evaluation.stale = True
            self.waiting[subscription.number] = subscription

    @staticmethod
    def settled(subscription: Subscription) -> bool:
        """Return whether the log contains all results of the query; false while its evaluation waits for room."""
        evaluation = subscription.evaluation
        return subscription.contents is None or (evaluation is not None and evaluation.settled)

    def messages(self) -> list[KeepAnswers]:
        """Return the staged solutions for a snapshot."""
        return list(self._under_way.values())

    @property
    def doubtful(self) -> bool:
        """Whether a subscription waits for a low watermark."""
        return bool(self._doubtful)

    def learn(self, known: Known) -> None:
        """Take a low watermark: everything published before it is known here."""
        for number, subscription in list(self._doubtful.items()):
            evaluation = subscription.evaluation
            if evaluation is None or not evaluation.doubts or self._home.subscriptions.get(number) is not subscription:
                del self._doubtful[number]
            else:
                evaluation.sure(known.upto)
                self.waiting[number] = subscription
        for subscription in self.marks.learn(known):
            self._pump(subscription)

    def turn(self) -> None:
        """Do a piece of work for each query that has some."""
        waiting, self.waiting = self.waiting, {}
        stamp = self._messenger.placement.tentative_stamp
        for number, subscription in waiting.items():
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
            elif isinstance(evaluation, SettledEvaluation):
                self._pump(subscription)
            else:
                self._tell_reported(subscription, evaluation)
            if evaluation.doubts:
                self._doubtful[number] = subscription
            else:
                self._doubtful.pop(number, None)
            if evaluation.waits:
                self.waiting[number] = subscription

    def _tell_reported(self, subscription: Subscription, evaluation: Evaluation) -> None:
        """Tell the other replicas the last report once it is far beyond the one that they know."""
        mark, known = evaluation.mark, subscription.mark
        counted = mark.number - known.number >= COUNTED_REPORTS
        if mark.upto >= known.upto + REPORTED_MS or counted:
            self._records.tell_reported(subscription, mark)

    def _failed(self, subscription: Subscription, error: P2PRDFError) -> None:
        """Give up an evaluation for which there is no room; it begins again after ``RETRY_SECONDS``."""
        subscription.evaluation = None
        self._failed_at[subscription.number] = self._messenger.now + RETRY_SECONDS
        self.dirty = True
        self._messenger.trace(
            "evaluation-failed", subscription=subscription.number, code=error.code, reason=str(error)
        )

    def wake(self) -> None:
        """Begin failed evaluations again if this peer still delivers them."""
        for number in [number for number, at in self._failed_at.items() if at <= self._messenger.now]:
            del self._failed_at[number]
            subscription = self._home.subscriptions.get(number)
            if subscription is not None and subscription.delivered:
                self.begin(subscription)

    @property
    def deadline(self) -> float | None:
        """The time of the next attempt."""
        return min(self._failed_at.values(), default=None)

    def _stage(self, subscription: Subscription, evaluation: Evaluation, news: list[News]) -> None:
        """Send solutions to the other replicas; deliver them when enough replicas have them."""
        columns = self._messenger.columns
        bindings = tuple(columns.column(column, "uint32") for column in zip(*(each.row for each in news), strict=True))
        large = set(self._chunker.too_large(bindings))
        if large:  # it could never be delivered, and everything after it would wait
            self._messenger.trace("answer-too-large", answers=len(large))
            left = columns.column([at for at in range(len(news)) if at not in large], "int64")
            news = [each for at, each in enumerate(news) if at not in large]
            bindings = tuple(columns.take(column, left) for column in bindings)
        born = evaluation.born
        identity = columns.column([each.identity for each in news])
        times = columns.column([born | GONE if each.over else born for each in news])
        for start, stop in self._chunker.slices(len(news), bindings):
            part = tuple(column[start:stop] for column in bindings)
            message = KeepAnswers(subscription.number, identity[start:stop], times[start:stop], part, told=True)
            evaluation.staged += len(message)
            self._number += 1
            self._under_way[self._number] = message
            done = partial(self._staged, subscription, evaluation, self._number)
            token = self._messenger.token(done, sparing=True)
            self._records.tell(subscription_home(subscription.number), message, (token,))
            self._messenger.release((token,))

    def _staged(self, subscription: Subscription, evaluation: Evaluation, number: int) -> None:
        """Deliver staged solutions that enough replicas have."""
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
                self.waiting[subscription.number] = subscription
        self._pump(subscription)
