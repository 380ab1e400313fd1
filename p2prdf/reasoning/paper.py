"""incremental-stream as its paper gives it (Barbieri et al., ESWC 2010, Tables 4 to 6), as far as it can be run.

The paper's maintenance program has predicates beside the materialisation P, and works in two spaces: what enters the
window is loaded into the second one, with the expiration times it needs of P; there the rules are evaluated::

    Ins   what enters, and what follows with it and New:      H[min Ti] :- B1[T1], .., one of them in Ins, others in New
    Old   copies of facts that a longer one supersedes:       Old[T] :- Ins[T1], P[T], T1 > T
    New   what holds in the end:                              what is in P and not in Old, and Ins
    P++   New[T], not P[T]
    P+    P++[T], not Old[T]                                   net insertions
    P-    P[T], T < now;  Old[T]                               net deletions

then P- is taken out of P, P+ put in, and the second space cleared.  New is not copied but overlaid: it is what rules
are joined with, while P, which others read, stays as it is until the end.

As printed this cannot be run, or runs wrong:

- The negated atoms carry another T than the head ("P++[T] :- New[T], not P[T1]"), so that *any* copy blocks.  A fact
  that is renewed is then superseded, deleted and not put in again: in the paper's own Figure 4, A isIn D is gone at
  second 4 instead of holding until 14.  Here they carry the same T; ``printed`` takes them as printed, to see it.
- What expired is "T = now - 1", so with a tick left out facts stay for ever; and the T of its head is unbound.  Here
  it is T < now.
- Ins is defined by New, New by not Old, Old by Ins: the program is not stratified and says nothing.  Here Ins grows
  fact by fact, and a fact enters it that is not in New with as large a T.
- New keeps superseded copies, and joins with them find nothing new.  Here it does not.
- Nothing can be taken back.  Here that is done as in :mod:`p2prdf.reasoning.withdrawal`, before anything enters.

What differs from :class:`~p2prdf.reasoning.materialiser.Materialiser` is the order: facts are looked at as they come,
and not those that last longest first, so a fact may be looked at once for each T that it passes through.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from p2prdf.reasoning.facts import Fact
from p2prdf.reasoning.given import Given
from p2prdf.reasoning.joins import Derivation, Program, Tell
from p2prdf.reasoning.levels import Levels
from p2prdf.reasoning.maintenance import Change
from p2prdf.reasoning.rule import Rule
from p2prdf.reasoning.withdrawal import Withdrawal

__all__ = ["Paper"]


class Paper:
    """All that follows by some rules, by the paper's program: a :class:`Maintenance`."""

    def __init__(self, rules: Iterable[Rule], intern: Callable[[str], int], *, printed: bool = False):
        """``intern``: the number of a term.  ``printed``: negated atoms are blocked by any copy, which loses facts."""
        program = Program(rules, intern)
        self._new = program.facts
        self._raised = program.telling(Tell.RAISED)
        self._withdrawal = Withdrawal(program)
        self._printed = printed
        self._holding: dict[Fact, int] = {}
        """P."""
        self._levels = Levels()
        self._given = Given()
        self.touched = 0
        """Facts looked at, so far, as often as they were, or dropped."""

    def __len__(self) -> int:
        return len(self._holding)

    def __iter__(self) -> Iterator[tuple[Fact, int]]:
        return iter(self._holding.items())

    def step(self, now: int, given: Mapping[Fact, int] | None = None, taken_back: Iterable[Fact] = ()) -> Change:
        """Go on to a moment, as :meth:`Maintenance.step` says."""
        turn = self._given.step(now, given or {}, taken_back)
        labels, holding = self._given.labels, self._holding
        expired = self._expired(now)
        self.touched += len(expired)
        withdrawn, left = self._withdrawal.of(turn.taken_back, labels)
        entering = [*left.items(), *((fact, labels[fact]) for fact in turn.taken)]
        inserted = self._evaluated(entering)
        old = {fact for fact, label in inserted.items() if holding.get(fact, label) < label and fact not in expired}
        old.update(fact for fact, label in withdrawn.items() if inserted.get(fact) != label)
        came = {fact: label for fact, label in inserted.items() if self._is_net_insertion(fact, label, old)}
        return self._applied(came, [*expired, *sorted(old)], inserted)

    def _expired(self, now: int) -> dict[Fact, None]:
        """Take out of New what has expired, and return it."""
        holding = self._holding
        found: dict[Fact, None] = {}
        for label, filed in self._levels.pop_below(now):
            for fact in filed:
                if holding.get(fact) == label and fact not in found:
                    found[fact] = None
        self._new.drop(found)
        return found

    def _evaluated(self, entering: Iterable[tuple[Fact, int]]) -> dict[Fact, int]:
        """Put into New what enters and what follows; return Ins, with the largest T of each."""
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
        """Whether P+ has a fact of Ins: by atoms with the same T, or with any as printed."""
        if self._printed:
            return fact not in self._holding and fact not in old
        return self._holding.get(fact) != label

    def _applied(self, came: Mapping[Fact, int], went: Iterable[Fact], inserted: Iterable[Fact]) -> Change:
        """Take P- out of P, put P+ in; New goes on as what P is then."""
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
