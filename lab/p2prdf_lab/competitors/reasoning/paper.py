"""The paper's program incremental-stream, for comparison (Barbieri et al., ESWC 2010, Tables 4 to 6).

The program has predicates besides the materialisation P and works in two spaces.  New elements of the window are
loaded into the second space, with the expiration times of P that they need; the rules are evaluated there::

    Ins   new elements, and conclusions with them and New:   H[min Ti] :- B1[T1], .., one of them in Ins, others in New
    Old   copies of facts that a longer one supersedes:       Old[T] :- Ins[T1], P[T], T1 > T
    New   the facts after the step:                           P without Old, and Ins
    P++   New[T], not P[T]
    P+    P++[T], not Old[T]                                   net insertions
    P-    P[T], T < now;  Old[T]                               net deletions

Then P- is removed from P, P+ is added, and the second space is cleared.  New is not copied but overlaid: rules are
joined with it, while other readers see P unchanged until the end.

As printed the program cannot run, or gives wrong results:

- Negated atoms have another T than the head ("P++[T] :- New[T], not P[T1]"), so *any* copy blocks.  A renewed fact is
  then superseded, deleted and not added again: in the paper's Figure 4, A isIn D is gone at second 4 instead of
  holding until 14.  Here they have the same T; ``printed`` reads them as printed, to show the effect.
- Expiry is "T = now - 1", so after a skipped tick facts stay for ever, and the T of its head is unbound.  Here: T <
  now.
- Ins needs New, New needs not Old, Old needs Ins: the program is not stratified and has no meaning.  Here Ins grows
  fact by fact; a fact enters if New does not have it with as large a T.
- New keeps superseded copies, and joins with them find nothing new.  Here it drops them.
- There is no retraction.  Here :mod:`p2prdf.reasoning.retraction` does it, before anything enters.

The difference to :class:`~p2prdf.reasoning.materialiser.Materialiser` is the order: facts are processed as they come,
not largest label first, so a fact may be processed once for each T that it passes through.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from p2prdf.reasoning.facts import Fact
from p2prdf.reasoning.given import Given
from p2prdf.reasoning.joins import Derivation, Program, Tell
from p2prdf.reasoning.levels import Levels
from p2prdf.reasoning.maintenance import Change
from p2prdf.reasoning.retraction import Retraction
from p2prdf.reasoning.rule import Rule

__all__ = ["Paper"]


class Paper:
    """The closure under some rules, by the paper's program: a :class:`Maintenance`."""

    def __init__(self, rules: Iterable[Rule], intern: Callable[[str], int], *, printed: bool = False):
        """``intern``: the number of a term.  ``printed``: any copy blocks a negated atom, which loses facts."""
        program = Program(rules, intern)
        self._new = program.facts
        self._raised = program.telling(Tell.RAISED)
        self._retraction = Retraction(program)
        self._printed = printed
        self._holding: dict[Fact, int] = {}
        """P."""
        self._levels = Levels()
        self._given = Given()
        self.touched = 0
        """Number of facts processed, with repetitions, or dropped so far."""

    def __len__(self) -> int:
        return len(self._holding)

    def __iter__(self) -> Iterator[tuple[Fact, int]]:
        return iter(self._holding.items())

    def step(self, now: int, given: Mapping[Fact, int] | None = None, taken_back: Iterable[Fact] = ()) -> Change:
        """Advance to a moment, as :meth:`Maintenance.step` says."""
        turn = self._given.step(now, given or {}, taken_back)
        labels, holding = self._given.labels, self._holding
        expired = self._expired(now)
        self.touched += len(expired)
        withdrawn, left = self._retraction.of(turn.taken_back, labels)
        entering = [*left.items(), *((fact, labels[fact]) for fact in turn.taken)]
        inserted = self._evaluated(entering)
        old = {fact for fact, label in inserted.items() if holding.get(fact, label) < label and fact not in expired}
        old.update(fact for fact, label in withdrawn.items() if inserted.get(fact) != label)
        came = {fact: label for fact, label in inserted.items() if self._is_net_insertion(fact, label, old)}
        return self._applied(came, [*expired, *sorted(old)], inserted)

    def _expired(self, now: int) -> dict[Fact, None]:
        """Remove the expired facts from New, and return them."""
        holding = self._holding
        found: dict[Fact, None] = {}
        for label, filed in self._levels.pop_below(now):
            for fact in filed:
                if holding.get(fact) == label and fact not in found:
                    found[fact] = None
        self._new.drop(found)
        return found

    def _evaluated(self, entering: Iterable[tuple[Fact, int]]) -> dict[Fact, int]:
        """Put new elements and conclusions into New; return Ins, with the largest T of each."""
        new, put = self._new, self._new.put
        inserted: dict[Fact, int] = {}
        queue: deque[Derivation] = deque()
        out: list[Derivation] = [(*fact, label) for fact, label in entering]
        while True:
            for derivation in out:
                s, p, o, label = derivation
                fact = (s, p, o)
                if new.label(fact) < label:
                    put(fact, label)
                    inserted[fact] = label
                    queue.append(derivation)
            out.clear()
            if not queue:
                return inserted
            s, p, o, label = queue.popleft()
            if inserted[s, p, o] == label:
                self.touched += 1
                for fire in self._raised.of(p, o):
                    fire(((s, p, o),), label, out.append)

    def _is_net_insertion(self, fact: Fact, label: int, old: set[Fact]) -> bool:
        """Return whether P+ has a fact of Ins: by atoms with the same T, or with any as printed."""
        if self._printed:
            return fact not in self._holding and fact not in old
        return self._holding.get(fact) != label

    def _applied(self, came: Mapping[Fact, int], went: Iterable[Fact], inserted: Iterable[Fact]) -> Change:
        """Remove P- from P and add P+; New continues as the new P."""
        holding, change = self._holding, Change()
        before = {fact: holding.pop(fact) for fact in went}
        levels: dict[int, list[Fact]] = {}
        for fact, label in came.items():
            kind = change.relabelled if fact in before else change.added
            kind[fact] = holding[fact] = label
            levels.setdefault(label, []).append(fact)
        for label, facts in levels.items():
            self._levels.put(label, facts)
        self._new.drop([fact for fact in inserted if fact not in holding])
        change.removed.extend(fact for fact in before if fact not in holding)
        return change
