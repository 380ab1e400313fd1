"""All interests in one dataset, kept true from its changesets: the engine of iRap replicas.

For each interest there are two sets of triples.  Its *target* is what its replica holds: the triples of full matches of
the required patterns, and of optional groups that match along with these.  *Potentially interesting* are the others
that match some pattern: they may become interesting when what they lack arrives, and would have to be fetched from
the source then, were they not kept.  After each changeset, with V what the dataset holds::

    S       = triples of V that match some pattern of the interest
    target  = triples of CONSTRUCT { patterns } WHERE { required OPTIONAL { ... } ... } over S
    rho     = S without target

This depends on V alone, not on how it came to be, so a changeset is taken as what it changes in the end: a triple that
is deleted and inserted stays where it is.  The paper's own evaluation (sections 3 and 4) is not that exact;
:mod:`p2prdf.interest.paper` has it, to compare.

Interests share what they have in common (:mod:`p2prdf.interest.relation`), and one pass over a changeset serves all.
It costs one to a few looks into dictionaries for each triple, then work for those interests alone that the triple's
key leads to (:mod:`p2prdf.interest.node`).

Without the dataset's start the sets are those of a dataset that was empty then: ``apply`` a changeset that adds it, or
its triples that match (:meth:`Interests.add` comes first).  ``potential_max`` bounds what is kept of potentially
interesting triples, the oldest going first; then a target may lack triples, and never has one too many.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from p2prdf.errors import InterestOverflow, LocalProtocolError
from p2prdf.interest.changeset import Changeset, Triple
from p2prdf.interest.core import MATCHES_MAX
from p2prdf.interest.evaluation import Evaluation
from p2prdf.interest.expression import Interest
from p2prdf.interest.holdings import Holdings
from p2prdf.interest.relation import Fact

__all__ = ["INTERESTS_MAX", "Change", "Interests", "Round"]

INTERESTS_MAX: Final = 100_000
"""Most interests in one dataset."""


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """What a changeset makes of one target.

    ``removed`` are no longer in the dataset, ``demoted`` lost what they matched with and are potentially interesting
    now; ``added`` are new in the dataset, ``promoted`` were potentially interesting before.
    """

    removed: tuple[Triple, ...] = ()
    demoted: tuple[Triple, ...] = ()
    added: tuple[Triple, ...] = ()
    promoted: tuple[Triple, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.removed or self.demoted or self.added or self.promoted)

    @property
    def deletions(self) -> tuple[Triple, ...]:
        """What to delete from the target."""
        return self.removed + self.demoted

    @property
    def insertions(self) -> tuple[Triple, ...]:
        """What to insert into the target."""
        return self.added + self.promoted


class Round:
    """What one changeset made of all targets.  To be looked at before the next one is applied."""

    def __init__(
        self, changes: Mapping[str, Change], union: Change, holdings: Holdings, evaluations: Mapping[str, Evaluation]
    ):
        self.changes = changes
        """By interest; those whose target stays as it is are left out."""
        self.union = union
        """Of one target for all interests: a triple is there as long as any of them wants it."""
        self._holdings = holdings
        self._evaluations = evaluations

    def potential(self, name: str) -> tuple[tuple[Triple, ...], tuple[Triple, ...]]:
        """Return what left the potentially interesting triples of an interest, and what came to them."""
        evaluation = self._evaluations[name]
        change = self.changes.get(name, Change())
        removed = {fact: None for each in evaluation.selections for fact in each.removed}
        added = {fact: None for each in evaluation.selections for fact in each.added}
        gone = [fact for fact in removed if not evaluation.changed.get(fact, False)]
        new = [fact for fact in added if fact not in evaluation.support]
        triple = self._holdings.triple
        return (*map(triple, gone), *change.promoted), (*map(triple, new), *change.demoted)


class Interests:
    """The interests in one dataset."""

    def __init__(self, *, potential_max: int | None = None, matches_max: int = MATCHES_MAX):
        """``potential_max``: most triples that are kept without being in any target; None: all.

        ``matches_max``: most matches of patterns that go round in a circle, for one interest.
        """
        if potential_max is not None and potential_max < 0:
            raise LocalProtocolError(f"the potentially interesting triples kept cannot be {potential_max}")
        if matches_max < 1:
            raise LocalProtocolError(f"a bound on matches is at least 1, not {matches_max}")
        self._holdings = Holdings(matches_max)
        self._evaluations: dict[str, Evaluation] = {}
        self.potential_max = potential_max
        self._potential: dict[Fact, None] = {}
        """Triples in no target, the oldest first; kept if there is a bound."""
        self._failed: str | None = None
        self._looked_at: tuple[Evaluation, ...] = ()
        self.evicted = 0
        """Potentially interesting triples that were given up for the bound, ever."""
        self.given_up = 0
        """How many since the dataset was here as a whole (:meth:`note_whole`): targets may lack triples if any were."""

    def __len__(self) -> int:
        return len(self._evaluations)

    def __iter__(self) -> Iterator[str]:
        return iter(self._evaluations)

    def __contains__(self, name: object) -> bool:
        return name in self._evaluations

    @property
    def triples(self) -> int:
        """The number of triples held for all interests together."""
        return len(self._holdings.facts)

    def held(self) -> Iterator[Triple]:
        """Yield all triples: those of targets, then the others, those that a bound gives up first coming first."""
        facts, triple = self._holdings.facts, self._holdings.triple
        yield from (triple(fact) for fact, targets in facts.items() if targets)
        if self.potential_max is None:
            yield from (triple(fact) for fact, targets in facts.items() if not targets)
        else:
            yield from map(triple, self._potential)

    # --- interests ---------------------------------------------------------------------------------------

    def add(self, name: str, interest: Interest) -> Change:
        """Take in an interest; return what its target begins with, of triples that are there for others.

        Triples that nobody asked for before are not there: :meth:`apply` them.  Raises LocalProtocolError for a name
        that is taken or one interest too many, InterestOverflow for too many matches.
        """
        self._check()
        if name in self._evaluations:
            raise LocalProtocolError(f"there is an interest {name!r} already")
        if len(self._evaluations) >= INTERESTS_MAX:
            raise LocalProtocolError(f"one dataset has at most {INTERESTS_MAX} interests")
        self._begin()
        evaluation = Evaluation(name, interest, self._holdings)
        self._evaluations[name] = evaluation
        try:
            evaluation.settle(evaluation.everything(), fresh=True)
        except InterestOverflow:
            evaluation.support.clear()  # none of it was told
            self.remove(name)
            raise
        return self._outcome({evaluation: None})[0].get(name, Change())

    def remove(self, name: str) -> Change:
        """Forget an interest, and what no other one asks for; return what one target for all of them loses.

        Raises LocalProtocolError if there is none of the name.
        """
        evaluation = self._evaluation(name)
        del self._evaluations[name]
        facts = self._holdings.facts
        lost = []
        for fact in evaluation.support:
            facts[fact] -= 1
            if facts[fact] == 0:
                lost.append(self._holdings.triple(fact))
                if self.potential_max is not None:
                    self._potential[fact] = None
        self._holdings.release(evaluation.close())
        if self.potential_max is not None:
            self._potential = {fact: None for fact in self._potential if fact in facts}
        return Change(demoted=tuple(lost))

    def interest(self, name: str) -> Interest:
        """Return an interest by its name."""
        return self._evaluation(name).interest

    def union(self) -> Iterator[Triple]:
        """Yield what one target for all interests holds."""
        return (self._holdings.triple(fact) for fact, targets in self._holdings.facts.items() if targets)

    def target(self, name: str) -> Iterator[Triple]:
        """Yield what the replica of an interest holds."""
        return map(self._holdings.triple, self._evaluation(name).support)

    def target_size(self, name: str) -> int:
        """Return how many triples the replica of an interest holds."""
        return len(self._evaluation(name).support)

    def potential(self, name: str) -> Iterator[Triple]:
        """Yield the potentially interesting triples of an interest."""
        evaluation = self._evaluation(name)
        facts = {fact: None for selection in evaluation.selections for fact in selection.facts}
        return (self._holdings.triple(fact) for fact in facts if fact not in evaluation.support)

    def potential_size(self, name: str) -> int:
        """Return how many triples are potentially interesting to an interest."""
        evaluation = self._evaluation(name)
        if len(evaluation.selections) == 1:
            (selection,) = evaluation.selections
            return len(selection.facts) - len(evaluation.support)
        facts = frozenset().union(*(selection.facts for selection in evaluation.selections))
        return len(facts) - len(evaluation.support)

    def _evaluation(self, name: str) -> Evaluation:
        found = self._evaluations.get(name)
        if found is None:
            raise LocalProtocolError(f"there is no interest {name!r}")
        return found

    def forget_potential(self) -> None:
        """Forget all triples that are in no target: what their partners would make of them later is missed."""
        self._begin()
        for fact in [fact for fact, targets in self._holdings.facts.items() if not targets]:
            self._holdings.drop(fact, self._holdings.triple(fact))
        self._potential.clear()
        changes, _ = self._settled()
        assert not changes, "what is in no target holds up none"

    # --- changesets ----------------------------------------------------------------------------------------

    def apply(self, changeset: Changeset) -> Round:
        """Take account of a changeset; return what becomes of the targets.

        Raises InterestOverflow if an interest's bound does not allow it; then the targets are to be begun anew, or
        from a state that was saved before.
        """
        self._check()
        self._begin()
        holdings = self._holdings
        kept = frozenset(changeset.added)
        for triple in changeset.removed:
            if triple not in kept:
                fact = holdings.find(triple)
                if fact is not None:
                    holdings.drop(fact, triple)
                    self._potential.pop(fact, None)
        for triple in changeset.added:
            fact = holdings.put(triple)
            if fact is not None and self.potential_max is not None:
                self._potential[fact] = None
        changes, union = self._settled()
        return Round(changes, union, holdings, self._evaluations)

    def _settled(self) -> tuple[dict[str, Change], Change]:
        concerned = self._holdings.concerned()
        name = ""
        try:
            for evaluation, pending in concerned.items():
                name = evaluation.name
                evaluation.settle(pending)
        except InterestOverflow as error:
            self._failed, error.interest = str(error), name
            raise
        return self._outcome(concerned)

    def _outcome(self, concerned: Iterable[Evaluation]) -> tuple[dict[str, Change], Change]:
        """Return the changes of targets, and of all as one; count in how many of them triples are."""
        self._looked_at = tuple(concerned)
        facts = self._holdings.facts
        before: dict[Fact, bool] = {}
        changes = {}
        for evaluation in self._looked_at:
            turned = list(evaluation.turned())
            if turned:
                changes[evaluation.name] = self._change(turned)
            for fact, was_there in turned:
                before.setdefault(fact, facts.get(fact, 1) > 0)
                if fact in facts:
                    facts[fact] += -1 if was_there else 1
        if self.potential_max is not None:
            for fact in before:
                if facts.get(fact, 1):
                    self._potential.pop(fact, None)
                else:
                    self._potential[fact] = None
        return changes, self._change([(fact, was) for fact, was in before.items() if was != (facts.get(fact, 0) > 0)])

    def _change(self, turned: Iterable[tuple[Fact, bool]]) -> Change:
        holdings = self._holdings
        facts, triple = holdings.facts, holdings.triple
        removed, demoted, added, promoted = [], [], [], []
        for fact, before in turned:
            if before and fact not in facts:
                removed.append(triple(fact))
            elif before:
                demoted.append(triple(fact))
            elif fact in holdings.new:
                added.append(triple(fact))
            else:
                promoted.append(triple(fact))
        return Change(tuple(removed), tuple(demoted), tuple(added), tuple(promoted))

    def trim(self) -> None:
        """Give up what is over the bound now; otherwise that is done when the next changeset comes."""
        self._evict()

    def note_whole(self) -> None:
        """Note that all triples of the dataset that match have been applied: targets lack nothing now."""
        self.given_up = 0
        self._holdings.nothing_given_up()

    def given_up_of(self, name: str) -> int:
        """Return how many triples that an interest's patterns take were given up since the dataset was here as a whole.

        One that several of its patterns take counts for each.
        """
        return sum(selection.given_up for selection in self._evaluation(name).selections)

    def _begin(self) -> None:
        """Begin a round: give up what is over the bound, and forget what the last round changed."""
        self._evict()
        for evaluation in self._looked_at:
            evaluation.changed.clear()
        self._looked_at = ()
        self._holdings.begin()

    def _evict(self) -> None:
        """Give up the oldest triples that are in no target.

        No target loses by that, for a triple in no full match holds up none; but one may lack a match later.
        """
        if self.potential_max is None or len(self._potential) <= self.potential_max:
            return
        for evaluation in self._looked_at:
            evaluation.changed.clear()
        self._holdings.begin()
        for fact in list(self._potential)[: len(self._potential) - self.potential_max]:
            del self._potential[fact]
            self._holdings.drop(fact, self._holdings.triple(fact), given_up=True)
            self.evicted += 1
            self.given_up += 1
        changes, _ = self._settled()
        assert not changes, "what is in no target holds up none"

    def _check(self) -> None:
        if self._failed is not None:
            raise InterestOverflow(f"an earlier changeset went over a bound, begin anew: {self._failed}")
