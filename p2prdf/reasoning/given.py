"""The given facts (base facts): present ones, and those that come and go with a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from p2prdf.errors import LocalProtocolError
from p2prdf.reasoning.facts import ABSENT, Fact
from p2prdf.reasoning.levels import Levels
from p2prdf.reasoning.maintenance import FOREVER

__all__ = ["Given", "Turn"]


@dataclass(frozen=True, slots=True)
class Turn:
    """The change of the given facts by a step."""

    expired: list[Fact]
    taken_back: dict[Fact, int]
    """The retracted facts with the labels they had."""
    taken: dict[Fact, int]
    """Facts that were added or got a better label: their labels before, ABSENT if none."""

    def entered(self) -> list[Fact]:
        """Return the facts that are given now and were not before the step, regardless of labels."""
        left = {*self.expired, *self.taken_back}
        return [fact for fact, was in self.taken.items() if was == ABSENT and fact not in left]

    def left(self) -> list[Fact]:
        """Return the facts that were given before the step and are not any more, regardless of labels."""
        return [fact for fact in (*self.expired, *self.taken_back) if fact not in self.taken]


class Given:
    """Given facts by label, each until it expires or is retracted."""

    def __init__(self) -> None:
        self.labels: dict[Fact, int] = {}
        self._levels = Levels()
        self.now = 0
        self.late = 0
        """Number of facts that had expired when they were given."""

    def step(self, now: int, given: Mapping[Fact, int], taken_back: Iterable[Fact]) -> Turn:
        """Advance to a moment.  Raises LocalProtocolError if time goes back."""
        if now < self.now:
            raise LocalProtocolError(f"time goes back from {self.now} to {now}")
        self.now = now
        expired = self._expired()
        back = [fact for fact in dict.fromkeys(taken_back) if fact in self.labels]
        return Turn(expired, {fact: self.labels.pop(fact) for fact in back}, self._taken(given))

    @property
    def lasting(self) -> bool:
        """Whether all given facts, and so all conclusions, last for ever."""
        return not self._levels

    def descending(self) -> Iterator[tuple[int, list[Fact]]]:
        """Yield labels and the given facts with them, largest label first."""
        labels = self.labels
        yield FOREVER, [fact for fact, label in labels.items() if label == FOREVER]
        for level, filed in self._levels.descending():
            yield level, [fact for fact in filed if labels.get(fact) == level]

    def _expired(self) -> list[Fact]:
        labels, found = self.labels, []
        for label, filed in self._levels.pop_below(self.now):
            for fact in filed:
                if labels.get(fact) == label:
                    del labels[fact]
                    found.append(fact)
        return found

    def _taken(self, given: Mapping[Fact, int]) -> dict[Fact, int]:
        labels, taken = self.labels, {}
        levels: dict[int, list[Fact]] = {}
        for fact, label in given.items():
            if label < self.now:
                self.late += 1
                continue
            was = labels.get(fact, ABSENT)
            if label > was:
                labels[fact] = label
                taken[fact] = was
                if label != FOREVER:
                    levels.setdefault(label, []).append(fact)
        for label, facts in levels.items():
            self._levels.put(label, facts)
        return taken
