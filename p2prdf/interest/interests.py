"""All interests in one dataset, maintained from its changesets: the engine of iRap replicas.

Each interest has two sets of triples.  Its *target* is the content of its replica: the triples of full matches of the
required patterns, and of optional groups that match along with these.  *Potentially interesting* triples match some
pattern without a full match; they may become interesting later, and would otherwise have to be fetched from the
source then.  After each changeset, with V the content of the dataset::

    S       = triples of V that match some pattern of the interest
    target  = triples of CONSTRUCT { patterns } WHERE { required OPTIONAL { ... } ... } over S
    rho     = S without target

Both sets depend on V alone, not on its history, so only the net effect of a changeset counts.  The paper's own
evaluation (sections 3 and 4) is less exact; :mod:`p2prdf_lab.competitors.interests` has it, for comparison.

Interests share their common parts (:mod:`p2prdf.interest.relation`), and one pass over a changeset serves all.  A
triple costs a few dictionary look-ups, then work only for the interests that its key leads to
(:mod:`p2prdf.interest.node`).

Without the dataset's initial content, the sets are those of a dataset that was empty then: ``apply`` a changeset that
adds the content, or its matching triples (:meth:`Interests.add` comes first).  ``potential_max`` bounds the
potentially interesting triples, the oldest leave first; a target may then lack triples, and never has one too many.
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
"""Bound on the interests in one dataset."""


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """The change of one target by a changeset.

    ``removed`` triples are no longer in the dataset; ``demoted`` ones lost their match and are potentially
    interesting now; ``added`` ones are new in the dataset; ``promoted`` ones were potentially interesting before.
    """

    removed: tuple[Triple, ...] = ()
    demoted: tuple[Triple, ...] = ()
    added: tuple[Triple, ...] = ()
    promoted: tuple[Triple, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.removed or self.demoted or self.added or self.promoted)

    @property
    def deletions(self) -> tuple[Triple, ...]:
        """The triples to delete from the target."""
        return self.removed + self.demoted

    @property
    def insertions(self) -> tuple[Triple, ...]:
        """The triples to insert into the target."""
        return self.added + self.promoted


class Round:
    """The changes of all targets by one changeset; valid until the next changeset is applied."""

    def __init__(
        self, changes: Mapping[str, Change], union: Change, holdings: Holdings, evaluations: Mapping[str, Evaluation]
    ):
        self.changes = changes
        """By interest; interests with an unchanged target are left out."""
        self.union = union
        """The change of one target for all interests: a triple is present as long as any interest wants it."""
        self._holdings = holdings
        self._evaluations = evaluations

    def potential(self, name: str) -> tuple[tuple[Triple, ...], tuple[Triple, ...]]:
        """Return the triples that left the potentially interesting ones of an interest, and those that joined them."""
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
        """``potential_max``: bound on the triples outside all targets that are kept; None: no bound.

        ``matches_max``: bound on the matches of patterns in a cycle, for one interest.
        """
        if potential_max is not None and potential_max < 0:
            raise LocalProtocolError(f"potential_max must be at least 0, not {potential_max}")
        if matches_max < 1:
            raise LocalProtocolError(f"matches_max must be at least 1, not {matches_max}")
        self._holdings = Holdings(matches_max)
        self._evaluations: dict[str, Evaluation] = {}
        self.potential_max = potential_max
        self._potential: dict[Fact, None] = {}
        """Triples in no target, the oldest first; kept if there is a bound."""
        self._failed: str | None = None
        self._looked_at: tuple[Evaluation, ...] = ()
        self.evicted = 0
        """Number of potentially interesting triples that were ever given up for the bound."""
        self.given_up = 0
        """Number given up since the dataset was complete here (:meth:`note_whole`).

        Above 0, targets may lack triples.
        """

    def __len__(self) -> int:
        return len(self._evaluations)

    def __iter__(self) -> Iterator[str]:
        return iter(self._evaluations)

    def __contains__(self, name: object) -> bool:
        return name in self._evaluations

    @property
    def triples(self) -> int:
        """Number of triples held for all interests together."""
        return len(self._holdings.facts)

    def held(self) -> Iterator[Triple]:
        """Yield all triples: those of targets, then the others in the order in which a bound gives them up."""
        facts, triple = self._holdings.facts, self._holdings.triple
        yield from (triple(fact) for fact, targets in facts.items() if targets)
        if self.potential_max is None:
            yield from (triple(fact) for fact, targets in facts.items() if not targets)
        else:
            yield from map(triple, self._potential)

    # --- interests ---------------------------------------------------------------------------------------

    def add(self, name: str, interest: Interest) -> Change:
        """Add an interest; return its initial target, from triples that are held for other interests.

        Triples that no interest asked for before are missing: :meth:`apply` them.  Raises LocalProtocolError for a
        name in use or one interest too many, InterestOverflow for too many matches.
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
            evaluation.support.clear()  # none of it was reported
            self.remove(name)
            raise
        return self._outcome({evaluation: None})[0].get(name, Change())

    def remove(self, name: str) -> Change:
        """Remove an interest, and triples that no other one needs; return the loss of one target for all of them.

        Raises LocalProtocolError if the name is unknown.
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
        """Yield the content of one target for all interests."""
        return (self._holdings.triple(fact) for fact, targets in self._holdings.facts.items() if targets)

    def target(self, name: str) -> Iterator[Triple]:
        """Yield the content of an interest's replica."""
        return map(self._holdings.triple, self._evaluation(name).support)

    def target_size(self, name: str) -> int:
        """Return the number of triples in an interest's replica."""
        return len(self._evaluation(name).support)

    def potential(self, name: str) -> Iterator[Triple]:
        """Yield the potentially interesting triples of an interest."""
        evaluation = self._evaluation(name)
        facts = {fact: None for selection in evaluation.selections for fact in selection.facts}
        return (self._holdings.triple(fact) for fact in facts if fact not in evaluation.support)

    def potential_size(self, name: str) -> int:
        """Return the number of potentially interesting triples of an interest."""
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
        """Forget all triples in no target; matches that they would complete later are missed."""
        self._begin()
        for fact in [fact for fact, targets in self._holdings.facts.items() if not targets]:
            self._holdings.drop(fact, self._holdings.triple(fact))
        self._potential.clear()
        changes, _ = self._settled()
        assert not changes, "what is in no target holds up none"

    # --- changesets ----------------------------------------------------------------------------------------

    def apply(self, changeset: Changeset) -> Round:
        """Apply a changeset; return the changes of the targets.

        Raises InterestOverflow if an interest exceeds its bound; then the targets must be built again, from the start
        or from a saved state.
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
        """Return the changes of targets, and of all as one; count the targets that contain each triple."""
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
        """Give up the triples beyond the bound now, instead of with the next changeset."""
        self._evict()

    def note_whole(self) -> None:
        """Record that all matching triples of the dataset have been applied: targets lack nothing now."""
        self.given_up = 0
        self._holdings.nothing_given_up()

    def given_up_of(self, name: str) -> int:
        """Return the number of an interest's triples given up since the dataset was complete here.

        A triple that several of its patterns match counts for each.
        """
        return sum(selection.given_up for selection in self._evaluation(name).selections)

    def _begin(self) -> None:
        """Begin a round: give up the triples beyond the bound, and forget the changes of the last round."""
        self._evict()
        for evaluation in self._looked_at:
            evaluation.changed.clear()
        self._looked_at = ()
        self._holdings.begin()

    def _evict(self) -> None:
        """Give up the oldest triples in no target.

        No target changes, because a triple in no full match supports none; but a target may lack a match later.
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
            raise InterestOverflow(f"an earlier changeset exceeded a bound, build the interests again: {self._failed}")
