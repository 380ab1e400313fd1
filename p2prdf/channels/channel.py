"""One channel: its query, the reported bindings, and its predictors.

A publication has four phases. The knowledge base performs the first, a channel the others:

2. *Test*: the entries for the graph's category give candidates. Reported ones are dropped, and those that hold
   are reported as tentative.
3. *Query*, if it is due: new bindings that it finds are reported, and tentative ones are confirmed.
4. *Analysis*: for bindings that were not predicted, the learners search the graphs since the last run, to
   predict similar ones next time.

*Invariant.* A binding counts as reported if the last run found it or if it is tentative. Between deletions
facts are only added, so the results of a query only grow, and the next run finds every tentative binding. At a
deletion the query runs before and after it.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from typing import Final

from p2prdf.channels.account import Account, Schedule
from p2prdf.channels.category import Categories, Publication
from p2prdf.channels.competition import Competition
from p2prdf.channels.evaluation import Evaluation
from p2prdf.channels.evaluator import Evaluator, Incremental, Reexecuted
from p2prdf.channels.heuristic import Heuristic, OfTexts, Texts
from p2prdf.channels.knowledge import KnowledgeBase
from p2prdf.channels.learner import Learner
from p2prdf.channels.query import Row
from p2prdf.channels.seeding import Seeding
from p2prdf.channels.settings import Settings
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.reasoning import Change

__all__ = ["Channel", "ChannelStatistics", "Timer"]

Timer = Callable[[], float]
"""Returns the time, in any unit and from any origin."""

_PRUNED_EVERY: Final = 64


@dataclasses.dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """Statistics of one channel since its creation; times in the timer's units."""

    name: str
    subscribers: int
    bindings: int
    """Number of reported bindings that hold."""
    told: int
    """Number of new bindings."""
    foreseen: int
    """Number of new bindings that were reported early."""
    recently_foreseen: int
    """The same among the last ten new bindings."""
    candidates: int
    """Number of candidates tested."""
    cut_short: int
    """Publications at which a budget ran out before all candidates were tested or all bindings analysed."""
    runs: int
    skipped: int
    """Publications at which the query did not run."""
    entries: int
    heuristic: str
    """The active heuristic; empty if there is none."""
    speculating: bool
    """Whether prediction pays at the moment."""
    testing: float
    running: float
    analysing: float
    saved: float
    switched_off: int
    """How often prediction was switched off."""
    bound: int
    """A binding waits for at most this many publications before it is reported."""


class Channel:
    """A named query over a knowledge base."""

    def __init__(self, name: str, query: ConjunctiveQuery, knowledge: KnowledgeBase, timer: Timer, settings: Settings):
        self.name = name
        self.settings = settings
        self.subscribers: dict[str, None] = {}
        self._numbers = knowledge.numbers
        self._timer = timer
        made = Reexecuted if settings.evaluation is Evaluation.REEXECUTED else Incremental
        self._evaluator: Evaluator = made(query, knowledge)
        texts = Texts(knowledge.numbers, len(query.answer))
        heuristics = [_heuristic(each, settings, self._evaluator, knowledge, texts) for each in settings.heuristics]
        self._competition = Competition(heuristics) if heuristics else None
        self.account = Account(settings.patience, settings.share, settings.patience_runs)
        self.schedule = Schedule(settings.skip_max if self._evaluator.skippable else 1)
        self._tentative: dict[Row, Publication] = {}
        self._since: deque[Publication] = deque(maxlen=settings.skip_max)
        """Publications since the last run."""
        self._news: list[tuple[Row, tuple[Publication, ...], bool]] = []
        """New bindings to analyse: the graphs that may have caused them, and whether they were predicted."""
        self._told = self._foreseen = self._candidates = self._cut_short = self._skipped = self._switched_off = 0
        self._testing = self._analysing = 0.0
        self._was_on = self.speculating
        self._published = 0
        if self._evaluator.skippable:
            self._run()
        else:  # the first run builds the state; its time says nothing about later runs or about savings
            self._evaluator.run()
        self._take_first()

    def _take_first(self) -> None:
        rows = list(self._evaluator.found)
        step = max(1, len(rows) // self.settings.bindings_first) if self.settings.bindings_first else len(rows) + 1
        if self._competition is not None:
            self._competition.begin(rows[: step * self.settings.bindings_first : step])

    # --- queries -------------------------------------------------------------------------------

    @property
    def bindings(self) -> list[Row]:
        """The bindings that were reported, or true at the beginning, and hold as far as known."""
        return [*self._evaluator.found, *self._tentative]

    @property
    def speculating(self) -> bool:
        """Whether the channel tests and learns at the moment."""
        return self._competition is not None and (self.account.in_credit or not self.settings.switched)

    @property
    def behind(self) -> bool:
        """Whether graphs were published since the query ran."""
        return self.schedule.waiting > 0

    def terms(self, row: Row) -> tuple[str, ...]:
        """Return the terms of a binding."""
        return tuple(map(self._numbers.text, row))

    def statistics(self) -> ChannelStatistics:
        """Return the statistics so far."""
        competition = self._competition
        return ChannelStatistics(
            name=self.name, subscribers=len(self.subscribers),
            bindings=len(self._evaluator.found) + len(self._tentative), told=self._told, foreseen=self._foreseen,
            recently_foreseen=sum(self.schedule.hits), candidates=self._candidates, cut_short=self._cut_short,
            runs=self.account.runs, skipped=self._skipped, entries=competition.entries if competition else 0,
            heuristic=competition.categories.value if competition else "", speculating=self.speculating,
            testing=self._testing, running=self.account.running, analysing=self._analysing, saved=self.account.saved,
            switched_off=self._switched_off, bound=self.schedule.interval - 1,
        )  # fmt: skip

    # --- the phases ----------------------------------------------------------------------------

    def published(self, publication: Publication, change: Change, took: float) -> None:
        """Note a publication that the knowledge base has taken in, which took ``took``."""
        self._evaluator.changed(change)
        self.account.worked(took)
        self.schedule.published()
        self._published += 1
        on = self.speculating
        if on:
            self._since.append(publication)
        self._switched_off += self._was_on and not on
        self._was_on = on

    def wanted(self, publication: Publication) -> Categories | None:
        """Return the way to categorise a graph for candidates; None if it is not tested."""
        if self._competition is None or not self._since or self._since[-1] is not publication:
            return None
        return self._competition.categories

    def charge(self, took: float) -> None:
        """Debit this channel's part of the time for categorising a graph."""
        self._testing += took
        self.account.spend(took)

    def test(self, publication: Publication, begun: float) -> tuple[list[Row], float]:
        """Return the predicted, unreported bindings that a graph makes true; they become tentative.

        The graph must be ``wanted``. ``begun``: the timer's present value; its value at the end is returned,
        too.
        """
        assert self._competition is not None
        timer = self._timer
        until = begun + self.settings.test_budget
        known = (self._evaluator.found, self._tentative)
        found, candidates, cut_short = self._competition.test(publication, known, lambda: timer() >= until)
        ended = timer()
        took = ended - begun
        self.charge(took)
        self._candidates += candidates
        self._cut_short += cut_short
        if not found:
            return found, ended
        earlier = max(0.0, self.account.run_time - took)
        for row in found:
            self._tentative[row] = publication
            self._news.append((row, (publication,), True))
            self._note_told(foreseen=True)
            self.account.save(earlier)
        return found, ended

    def query(self) -> tuple[list[Row], list[Row]]:
        """Run the query; return the confirmed and the new bindings."""
        confirmed = list(self._tentative)
        found = self._run()
        new = [row for row in found if row not in self._tentative]
        assert all(row in self._evaluator.found for row in confirmed), "what was tested to hold is found by the query"
        self._tentative.clear()
        publications = tuple(self._since)
        self._since.clear()
        self.schedule.ran()
        for row in new:
            self._note_told(foreseen=False)
            if publications:
                self._news.append((row, publications, False))
        return confirmed, new

    def skip(self) -> None:
        """Note that the query does not run at this publication."""
        self._skipped += 1
        if self.schedule.by_rate < self.schedule.interval:
            self.account.save(self.account.run_time)

    def analyse(self) -> None:
        """Learn from new bindings."""
        if self._published % _PRUNED_EVERY == 0:
            self._prune()
        if not self._news or self._competition is None:
            return
        begun = now = self._timer()
        until = begun + self.settings.analysis_budget
        for row, publications, foreseen in self._news:
            if now >= until:
                self._cut_short += 1
                break
            self._competition.heard(row, publications, foreseen=foreseen)
            now = self._timer()
        self._news.clear()
        took = now - begun
        self._analysing += took
        self.account.spend(took)

    def _prune(self) -> None:
        """Drop the worst entries if testing and learning took longer than the query does."""
        speculation = (self._testing + self._analysing) / max(1, self._published)
        if speculation > self.account.run_time and self._competition is not None:
            self._competition.prune()

    def _run(self) -> list[Row]:
        begun = self._timer()
        found = self._evaluator.run()
        self.account.ran(self._timer() - begun)
        return found

    def _note_told(self, *, foreseen: bool) -> None:
        self._told += 1
        self._foreseen += foreseen
        self.schedule.reported(foreseen)

    # --- deletions -----------------------------------------------------------------------------

    def deleted(self, change: Change) -> None:
        """Note a deletion: the query runs, so that bindings that no longer hold count as unreported.

        Earlier publications were analysed before the deletion, since the query ran then, too.
        """
        assert not self._tentative
        self._evaluator.changed(change)
        new = self._run()
        assert not new, "a deletion brings no binding"
        self.schedule.ran()
        self._since.clear()


def _heuristic(
    categories: Categories, settings: Settings, evaluator: Evaluator, knowledge: KnowledgeBase, texts: Texts
) -> Heuristic:
    if categories is Categories.CHANGE:
        query, entries, candidates = evaluator.query, settings.entries_max, settings.candidates_max
        return Seeding(query, knowledge, entries_max=entries, candidates_max=candidates)
    learner = Learner(
        categories, threshold=settings.threshold, entries_max=settings.entries_max,
        alternatives_max=settings.alternatives_max, skeletons_tried=settings.skeletons_tried,
    )  # fmt: skip
    return OfTexts(learner, texts, evaluator, settings.candidates_max)
