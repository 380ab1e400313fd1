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
from p2prdf.channels.elements import cut
from p2prdf.channels.evaluation import Evaluation
from p2prdf.channels.evaluator import Evaluator, Incremental, Reexecuted
from p2prdf.channels.knowledge import KnowledgeBase
from p2prdf.channels.learner import Learner
from p2prdf.channels.query import Row
from p2prdf.channels.settings import Settings
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.reasoning import Change

__all__ = ["Channel", "ChannelStatistics", "Timer"]

Timer = Callable[[], float]
"""Tells the time, in any unit and from any beginning."""

_SHADOWED_FIRST: Final = 64
"""New bindings about which all learners are asked at the beginning; later it is every eighth."""
_SHADOWED_EVERY: Final = 8
_COMPARED_LEAST: Final = 10
_BETTER: Final = 0.05
"""By how much more of the new bindings another learner must foresee to be the one that is asked."""
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
        self._width = len(query.answer)
        self._learners = [
            Learner(
                each, threshold=settings.threshold, entries_max=settings.entries_max,
                alternatives_max=settings.alternatives_max, skeletons_tried=settings.skeletons_tried,
            )
            for each in settings.heuristics
        ]  # fmt: skip
        self._active = 0
        self.account = Account(settings.patience, settings.share)
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
        self._run()
        self._take_first()

    def _take_first(self) -> None:
        rows = list(self._evaluator.found)
        step = max(1, len(rows) // self.settings.bindings_first) if self.settings.bindings_first else len(rows) + 1
        for row in rows[: step * self.settings.bindings_first : step]:
            binding = cut(self.text(row))
            for learner in self._learners:
                learner.note(binding)

    # --- what is asked of it -------------------------------------------------------------------

    @property
    def bindings(self) -> list[Row]:
        """What was told, or was there at the beginning, and holds as far as known."""
        return [*self._evaluator.found, *self._tentative]

    @property
    def speculating(self) -> bool:
        """Whether it tests and learns at the moment."""
        return bool(self._learners) and (self.account.in_credit or not self.settings.switched)

    @property
    def behind(self) -> bool:
        """Whether graphs were published since the query ran."""
        return self.schedule.waiting > 0

    def text(self, row: Row) -> str:
        """Return the text of a binding: its terms, a line break between them."""
        text = self._numbers.text
        return "\n".join([text(number) for number in row])

    def terms(self, row: Row) -> tuple[str, ...]:
        """Return the terms of a binding."""
        return tuple(map(self._numbers.text, row))

    def statistics(self) -> ChannelStatistics:
        """Return what happened so far."""
        active = self._learners[self._active] if self._learners else None
        return ChannelStatistics(
            name=self.name, subscribers=len(self.subscribers),
            bindings=len(self._evaluator.found) + len(self._tentative), told=self._told, foreseen=self._foreseen,
            recently_foreseen=sum(self.schedule.hits), candidates=self._candidates, cut_short=self._cut_short,
            runs=self.account.runs, skipped=self._skipped, entries=sum(len(each.table) for each in self._learners),
            heuristic=active.categories.value if active else "", speculating=self.speculating,
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
        looks = bool(self._since) and self._since[-1] is publication
        return self._learners[self._active].categories if looks else None

    def charge(self, took: float) -> None:
        """Take note of time that looking at a graph took, this channel's part of it."""
        self._testing += took
        self.account.spend(took)

    def test(self, publication: Publication) -> list[Row]:
        """Return what the graph makes true, of what was foreseen and not told; it is tentative from now on."""
        if self.wanted(publication) is None:
            return []
        begun = self._timer()
        found = self._tested(publication, begun + self.settings.test_budget)
        took = self._timer() - begun
        self.charge(took)
        earlier = max(0.0, self.account.run_time - took)
        for row in found:
            self._tentative[row] = publication
            self._news.append((row, (publication,), True))
            self._note_told(foreseen=True)
            self.account.save(earlier)
        return found

    def _tested(self, publication: Publication, until: float) -> list[Row]:
        learner, timer = self._learners[self._active], self._timer
        told, tentative = self._evaluator.found, self._tentative
        found: list[Row] = []
        seen: dict[str, bool | None] = {}
        for entry, text in learner.candidates(publication):
            outcome = seen.get(text)
            if text not in seen:
                if len(seen) >= self.settings.candidates_max or timer() >= until:
                    self._cut_short += 1
                    break
                row = self._row(text)
                if row is not None and (row in told or row in tentative):
                    seen[text] = None  # neither a hit nor a miss
                    continue
                self._candidates += 1
                outcome = seen[text] = row is not None and self._evaluator.holds(row)
                if outcome and row is not None:
                    found.append(row)
            if outcome is not None:
                entry.tries += 1
                entry.hits += outcome
        return found

    def _row(self, text: str) -> Row | None:
        """Return the binding of a text, None if it has terms that never came: it holds nowhere."""
        terms = text.split("\n")
        find = self._numbers.find
        row = [number for number in map(find, terms) if number is not None]
        return tuple(row) if len(row) == self._width == len(terms) else None

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
        if not self._news:
            return
        begun = self._timer()
        until = begun + self.settings.analysis_budget
        for row, publications, foreseen in self._news:
            if self._timer() >= until:
                self._cut_short += 1
                break
            self._learn(row, publications, foreseen=foreseen)
        self._news.clear()
        took = self._timer() - begun
        self._analysing += took
        self.account.spend(took)

    def _learn(self, row: Row, publications: tuple[Publication, ...], *, foreseen: bool) -> None:
        several = len(self._learners) > 1
        shadowed = several and (self._told <= _SHADOWED_FIRST or self._told % _SHADOWED_EVERY == 0)
        if foreseen and not shadowed:
            return
        text = self.text(row)
        binding = cut(text)
        for number, learner in enumerate(self._learners):
            if number == self._active:
                right = foreseen
            elif not shadowed:
                continue
            else:
                right = learner.foresees(text, publications, self.settings.candidates_max)
            if several and shadowed:
                learner.foreseen.append(right)
            if not right:
                learner.learn(binding, publications)
        if shadowed:
            self._choose()

    def _choose(self) -> None:
        """Ask the learner that foresaw most of the recent bindings, if it is clearly better."""
        best = max(range(len(self._learners)), key=lambda at: self._learners[at].rate)
        enough = len(self._learners[best].foreseen) >= _COMPARED_LEAST
        if enough and self._learners[best].rate > self._learners[self._active].rate + _BETTER:
            self._active = best

    def _prune(self) -> None:
        """Give up the worst entries if testing and learning took longer than the query does."""
        speculation = (self._testing + self._analysing) / max(1, self._published)
        if speculation > self.account.run_time:
            for learner in self._learners:
                if len(learner.table):
                    learner.table.prune()

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
