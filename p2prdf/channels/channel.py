"""One channel: its query, what was told, and what it has learned to foresee.

At a publication it goes through the last three phases of the four (the first is the knowledge base's):

2. *Test*: entries for the graph's category give candidates; what was told is left out, what holds is told as tentative.
3. *Query*, if it is its turn: what the query finds and nobody was told is told, what was tentative is confirmed.
4. *Analysis*: what nobody foresaw is looked for in the graphs since the last run, to foresee its like next time.

*Invariant.*  A binding counts as told if the last run found it or if it is tentative.  Between deletions facts only
come, and what a query answers only grows, so what was tentative is found by the next run; deletions run the query
before and after.
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
"""Tells the time, in any unit and from any beginning."""

_PRUNED_EVERY: Final = 64


@dataclasses.dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """Of one channel since it was created; times in the timer's units."""

    name: str
    subscribers: int
    bindings: int
    """That hold, as far as told."""
    told: int
    """New bindings."""
    foreseen: int
    """Of these, told early."""
    recently_foreseen: int
    """Of the last ten new bindings."""
    candidates: int
    """That were tested."""
    cut_short: int
    """Publications at which a budget was used up before all candidates were tested, or all bindings looked into."""
    runs: int
    skipped: int
    """Publications at which the query did not run."""
    entries: int
    heuristic: str
    """The one that candidates come from; empty if there is none."""
    speculating: bool
    """Whether it pays at the moment."""
    testing: float
    running: float
    analysing: float
    saved: float
    switched_off: int
    """How often speculation was switched off."""
    bound: int
    """No binding waits for more publications than so many before it is told."""


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
        """New bindings to be analysed: with the graphs that may have brought them, and whether they were foreseen."""
        self._told = self._foreseen = self._candidates = self._cut_short = self._skipped = self._switched_off = 0
        self._testing = self._analysing = 0.0
        self._was_on = self.speculating
        self._published = 0
        if self._evaluator.skippable:
            self._run()
        else:  # it is built up: later runs take nothing like that, and what may be saved follows from what they take
            self._evaluator.run()
        self._take_first()

    def _take_first(self) -> None:
        rows = list(self._evaluator.found)
        step = max(1, len(rows) // self.settings.bindings_first) if self.settings.bindings_first else len(rows) + 1
        if self._competition is not None:
            self._competition.begin(rows[: step * self.settings.bindings_first : step])

    # --- what is asked of it -------------------------------------------------------------------

    @property
    def bindings(self) -> list[Row]:
        """What was told, or was there at the beginning, and holds as far as known."""
        return [*self._evaluator.found, *self._tentative]

    @property
    def speculating(self) -> bool:
        """Whether it tests and learns at the moment."""
        return self._competition is not None and (self.account.in_credit or not self.settings.switched)

    @property
    def behind(self) -> bool:
        """Whether graphs were published since the query ran."""
        return self.schedule.waiting > 0

    def terms(self, row: Row) -> tuple[str, ...]:
        """Return the terms of a binding."""
        return tuple(map(self._numbers.text, row))

    def statistics(self) -> ChannelStatistics:
        """Return what happened so far."""
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
        """Take note of a publication that the knowledge base took in; ``took``: the time of that."""
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
        """Return by what categories a graph must be looked at for candidates; None if it is not looked at."""
        if self._competition is None or not self._since or self._since[-1] is not publication:
            return None
        return self._competition.categories

    def charge(self, took: float) -> None:
        """Take note of time that looking at a graph took, this channel's part of it."""
        self._testing += took
        self.account.spend(took)

    def test(self, publication: Publication, begun: float) -> tuple[list[Row], float]:
        """Return what the graph makes true, of what was foreseen and not told; it is tentative from now on.

        The graph is one that is ``wanted``.  ``begun``: what the timer says; what it says at the end is returned, too.
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
        """Run the query; return what is confirmed of what was tentative, and what is new."""
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
        """Take note that the query does not run at this publication."""
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
        """Give up the worst entries if testing and learning took longer than the query does."""
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
        self.schedule.told(foreseen)

    # --- deletions -----------------------------------------------------------------------------

    def deleted(self, change: Change) -> None:
        """Take note of a deletion: the query runs, so that what holds no more counts as told no more.

        What was published before it was analysed before it, for the query ran then, too.
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
