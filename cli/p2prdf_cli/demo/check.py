"""Check of the demonstration: received solutions against a centralised evaluation of the same data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from p2prdf.rdf.standing.conjunctive import parse_select
from p2prdf.sim.oracle import Oracle, Publication
from p2prdf_cli.demo.airports import Triple
from p2prdf_cli.demo.queries import StandingQuery

__all__ = ["Row", "Verdict", "expected_solutions", "judge"]

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Differences between a query's received and expected solutions; all zero if they agree."""

    owed: int
    missing: int
    extra: int
    doubled: int

    @property
    def good(self) -> bool:
        """Whether there is no difference."""
        return not (self.missing or self.extra or self.doubled)

    def __str__(self) -> str:
        if self.good:
            return "all"
        parts = ((self.missing, "missing"), (self.extra, "extra"), (self.doubled, "doubled"))
        return ", ".join(f"{count:,} {word}" for count, word in parts if count)


def expected_solutions(queries: Sequence[StandingQuery], triples: Sequence[Triple]) -> list[Counter[Row]]:
    """Evaluate the queries centrally over all triples, in one process, without any index of the product."""
    oracle = Oracle(Publication(0, number, triple) for number, triple in enumerate(triples))
    return [oracle.answers(parse_select(query.sparql), since=0) for query in queries]


def judge(rows: Counter[Row], identities: Counter[int], owed: Counter[Row]) -> Verdict:
    """Compare the solutions of one subscriber with the expected ones, as bags.

    ``identities``: number of deliveries of each solution, by identity.
    """
    return Verdict(
        owed=owed.total(),
        missing=(owed - rows).total(),
        extra=(rows - owed).total(),
        doubled=sum(times - 1 for times in identities.values()),
    )
