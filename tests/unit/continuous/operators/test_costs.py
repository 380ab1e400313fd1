"""Work is proportional to the change, not to the rows held: counted in steps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from p2prdf.continuous.operators import matching
from p2prdf.continuous.operators.closure import Closure
from p2prdf.continuous.operators.existence import Existence
from p2prdf.continuous.operators.join import Join
from p2prdf.continuous.operators.left_join import LeftJoin
from p2prdf.continuous.operators.matching import Matching, Sides
from p2prdf.continuous.operators.zset import UNBOUND, Row

HELD = 2000


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """Collect every row that any index hands out."""
    rows: list[Row] = []
    plain = Matching.matches

    def counting(self: Matching, row: Row) -> Iterator[tuple[Row, int]]:
        for match in plain(self, row):
            rows.append(match[0])
            yield match

    monkeypatch.setattr(matching.Matching, "matches", counting)
    return rows


def test_a_row_meets_only_its_partners_where_variables_may_be_unbound(found: list[Row]) -> None:
    sides = Sides.of(((0, 0), (1, 1)), (True, False), (True, False))
    join = Join(sides, 2)
    join.apply({}, {(n % 50, UNBOUND if n % 100 == 0 else n): 1 for n in range(HELD)})
    found.clear()
    out = join.apply({(7, 57): 1, (8, UNBOUND): 1, (0, 3): 1}, {})
    # (7, 57) itself; all rows of 8, with any second value; all rows of 0 with an unbound second value.
    assert len(found) == 1 + HELD // 50 + 1
    assert sum(out.values()) == len(found)


@pytest.mark.parametrize("operator", [LeftJoin, Existence])
def test_rows_come_and_go_without_a_look_at_others(operator: type, found: list[Row]) -> None:
    sides = Sides.of(((0, 0),), (True, True), (True,))
    made = LeftJoin(sides, 1, None) if operator is LeftJoin else Existence(sides, (), None)
    made.apply({(n, n): 1 for n in range(HELD)}, {(n,): 1 for n in range(HELD)})
    found.clear()
    made.apply({(5, 99): 1}, {(7,): -1})
    assert len(found) == 2


def test_an_edge_that_no_way_needs_goes_without_a_trace() -> None:
    closure = Closure(seeded=True, backward=False, reflexive=False)
    chain = {(n, n + 1): 1 for n in range(HELD)}
    closure.apply({**chain, (0, HELD // 2): 1, (5, 3): 1}, {(0,): 1})
    touched = closure.rows_held
    assert closure.apply({(5, 3): -1}, {}) == {}
    assert closure.rows_held == touched - 1


def test_an_edge_at_the_end_costs_only_the_nodes_behind_it() -> None:
    closure = Closure(seeded=True, backward=False, reflexive=True)
    closure.apply({(n, n + 1): 1 for n in range(HELD)}, {(0,): 1})
    assert closure.apply({(HELD - 1, HELD): -1}, {}) == {(0, HELD): -1}
    assert closure.apply({(HELD - 1, HELD): 1}, {}) == {(0, HELD): 1}
