"""Each operator keeps the contract: the sum of its output is a function of the sums of its inputs.

Random changes with positive and negative multiplicities, sums below zero included, go in. After each change the
sum of all output is compared with the operator's meaning, computed anew from the sums in the plainest way.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest

from p2prdf.continuous.operators import linear
from p2prdf.continuous.operators.aggregates import accumulator
from p2prdf.continuous.operators.closure import Closure
from p2prdf.continuous.operators.construct import Construct
from p2prdf.continuous.operators.distinct import Distinct
from p2prdf.continuous.operators.existence import Existence
from p2prdf.continuous.operators.group import Group
from p2prdf.continuous.operators.join import Join
from p2prdf.continuous.operators.left_join import LeftJoin
from p2prdf.continuous.operators.matching import Sides
from p2prdf.continuous.operators.slice import Slice
from p2prdf.continuous.operators.terms import Terms
from p2prdf.continuous.operators.zset import FIXED_UNBOUND, UNBOUND, Delta, Operator, Row, add
from p2prdf.rdf.algebra import Aggregate, Function
from p2prdf.rdf.dictionary import TermDictionary

U = UNBOUND
Batch = Callable[..., Counter[Row]]


def positive(rows: Delta) -> Counter[Row]:
    return Counter({row: count for row, count in rows.items() if count > 0})


def check(make: Callable[[], Operator], batch: Batch, draw: Sequence[Callable[[random.Random], Row]]) -> None:
    """Feed an operator many histories; ``draw``: a row of each input."""
    for seed in range(60):
        rng = random.Random(seed)
        operator = make()
        sums: list[Delta] = [{} for _ in draw]
        output: Delta = {}
        for _ in range(12):
            changes: list[Delta] = [{} for _ in draw]
            for change, one in zip(changes, draw, strict=True):
                for _ in range(rng.choice((0, 1, 2, 5))):
                    add(change, one(rng), rng.choice((1, 1, 1, 2, -1, -1, -2)))
            if rng.random() < 0.2:  # take all rows back, and add the missing ones
                changes = [{row: -count for row, count in held.items()} for held in sums]
            for held, change in zip(sums, changes, strict=True):
                for row, weight in change.items():
                    add(held, row, weight)
            for row, weight in operator.apply(*changes).items():
                assert weight
                add(output, row, weight)
            expected = {row: count for row, count in batch(*sums).items() if count}
            assert output == expected, (seed, sums)
        operator.apply(*[{row: -count for row, count in held.items()} for held in sums])
        assert operator.rows_held <= 1  # the row of a group without keys


def cells(*choices: Sequence[int]) -> Callable[[random.Random], Row]:
    return lambda rng: tuple(rng.choice(choice) for choice in choices)


# --- linear --------------------------------------------------------------------------------------


def test_project_moves_columns_and_makes_unbound_ones() -> None:
    draw = cells((1, 2), (1, 2))
    check(lambda: linear.Project((1, -1, 1)), lambda rows: _mapped(rows, lambda r: (r[1], U, r[1])), [draw])


def _mapped(rows: Delta, change: Callable[[Row], Row]) -> Counter[Row]:
    found = Counter[Row]()
    for row, count in rows.items():
        found[change(row)] += count
    return found


def test_filter_extend_fix_and_union() -> None:
    draw = cells((1, 2, U), (3, 4))
    check(
        lambda: linear.Filter(lambda row: row[0] == 1),
        lambda rows: Counter({row: count for row, count in rows.items() if row[0] == 1}), [draw],
    )  # fmt: skip
    check(lambda: linear.Extend(sum), lambda rows: _mapped(rows, lambda r: (*r, sum(r))), [draw])
    check(
        lambda: linear.Fix((0,)),
        lambda rows: _mapped(rows, lambda r: (*r, FIXED_UNBOUND if r[0] == U else r[0])), [draw],
    )  # fmt: skip

    def both(a: Delta, b: Delta) -> Counter[Row]:
        found = Counter(a)
        for row, count in b.items():
            found[row] += count
        return found

    check(linear.Union, both, [draw, draw])


# --- joins ---------------------------------------------------------------------------------------

PAIRS = ((0, 0), (1, 1))
DOUBTFUL = cells((1, 2), (5, 6, U), (7, 8))
"""Rows: the first column is always bound, the second is not."""
SIDES = Sides.of(PAIRS, (True, False, True), (True, False, True))
LOOSE = Sides.of(PAIRS, (False, False, True), (False, False, True))
LOOSE_ROWS = cells((1, 2, U), (5, 6, U), (7,))


both_kinds = pytest.mark.parametrize(
    ("sides", "draw"), [(SIDES, DOUBTFUL), (LOOSE, LOOSE_ROWS)], ids=["one certain", "all doubtful"]
)


def compatible(a: Row, b: Row) -> bool:
    return all(U in (a[i], b[j]) or a[i] == b[j] for i, j in PAIRS)


def merged(a: Row, b: Row) -> Row:
    return (*(b[at] if a[at] == U else a[at] for at in (0, 1)), a[2], b[2])


def joined(left: Delta, right: Delta, holds: Callable[[Row], bool] = lambda _: True) -> Counter[Row]:
    found = Counter[Row]()
    for (a, n), (b, m) in itertools.product(left.items(), right.items()):
        if compatible(a, b) and holds(merged(a, b)):
            found[merged(a, b)] += n * m
    return found


@both_kinds
def test_join_is_bilinear_and_knows_compatible_rows(sides: Sides, draw: Callable[[random.Random], Row]) -> None:
    check(lambda: Join(sides, 3), joined, [draw, draw])


@both_kinds
@pytest.mark.parametrize("holds", [None, lambda row: row[2] != row[3]], ids=["always", "condition"])
def test_left_join_gives_a_row_alone_while_it_has_no_partner(
    sides: Sides, draw: Callable[[random.Random], Row], holds: Callable[[Row], bool] | None
) -> None:
    def batch(left: Delta, right: Delta) -> Counter[Row]:
        condition = holds or (lambda _: True)
        found = joined(left, positive(right), condition)
        for a, n in left.items():
            if not any(compatible(a, b) and condition(merged(a, b)) for b in positive(right)):
                found[(*a, U)] += n
        return found

    check(lambda: LeftJoin(sides, 3, holds), batch, [draw, draw])


def _narrowed(right: Delta) -> Counter[Row]:
    """Right rows with a count above zero, projected to the shared columns, so rows that differ elsewhere add up."""
    return positive(_mapped(right, lambda row: row[:2]))


@both_kinds
@pytest.mark.parametrize(("found", "missing"), [((), None), (None, ()), ((9,), (8,))], ids=["exists", "not", "mark"])
def test_exists_keeps_drops_or_marks_rows_with_a_partner(
    sides: Sides, draw: Callable[[random.Random], Row], found: Row | None, missing: Row | None
) -> None:
    def batch(left: Delta, right: Delta) -> Counter[Row]:
        out = Counter[Row]()
        for a, n in left.items():
            behind = found if any(compatible(a, b) for b in _narrowed(right)) else missing
            if behind is not None:
                out[a + behind] += n
        return out

    check(lambda: Existence(sides, found, missing), batch, [draw, draw])


@pytest.mark.parametrize("counted", [(0, 1), (1,)])
def test_minus_wants_a_bound_variable_in_common(counted: tuple[int, ...]) -> None:
    def batch(left: Delta, right: Delta) -> Counter[Row]:
        out = Counter[Row]()
        for a, n in left.items():
            others = [b for b in _narrowed(right) if compatible(a, b)]
            if not any(U not in (a[at], b[at]) for b in others for at in counted):
                out[a] += n
        return out

    sides = Sides.of(PAIRS, (False, False, True), (False, False, True), counted)
    check(lambda: Existence(sides, None, ()), batch, [LOOSE_ROWS, LOOSE_ROWS])


def test_minus_with_a_certain_variable_in_common_needs_no_other() -> None:
    def batch(left: Delta, right: Delta) -> Counter[Row]:
        return Counter({a: n for a, n in left.items() if not any(compatible(a, b) for b in _narrowed(right))})

    sides = Sides.of(PAIRS, (True, False, True), (True, False, True), (0, 1))
    check(lambda: Existence(sides, None, ()), batch, [DOUBTFUL, DOUBTFUL])


def test_sides_without_a_shared_column_match_everything() -> None:
    sides = Sides.of((), (True,), (True,))
    check(
        lambda: Existence(sides, None, ()),
        lambda left, right: Counter() if sum(right.values()) > 0 else Counter(left), [cells((1, 2)), cells((3, 4))],
    )  # fmt: skip


# --- not linear ----------------------------------------------------------------------------------


def test_distinct_gives_rows_above_zero_once() -> None:
    check(Distinct, lambda rows: Counter(dict.fromkeys(positive(rows), 1)), [cells((1, 2, 3))])


@pytest.mark.parametrize(("offset", "limit"), [(0, 3), (2, 3), (2, None), (0, 0), (3, 1)])
def test_slice_is_a_stretch_of_the_sorted_bag(offset: int, limit: int | None) -> None:
    def batch(rows: Delta) -> Counter[Row]:
        ordered = sorted(positive(rows).elements(), key=lambda row: (-row[0], row))
        return Counter(ordered[offset : None if limit is None else offset + limit])

    draw = cells((1, 2, 3), (1, 2))
    check(lambda: Slice(lambda row: (-row[0], row), offset, limit), batch, [draw])


TERMS = Terms(TermDictionary())
XSD = "http://www.w3.org/2001/XMLSchema#"
INTEGERS = {n: TERMS.intern(f'"{n}"^^<{XSD}integer>') for n in range(-500, 500)}
DECIMALS = {Fraction(n, 4): TERMS.intern(f'"{n / 4}"^^<{XSD}decimal>') for n in (1, 3, 5)}
WORD = TERMS.intern('"word"')
OTHER = TERMS.intern('"other"@en')
VALUES = {number: value for value, number in (INTEGERS | DECIMALS).items()}
MEMBERS = [INTEGERS[n] for n in (1, 2, 3)] + list(DECIMALS.values())


def _grouped(rows: Delta, result: Callable[[list[int]], int], *, distinct: bool = False) -> Counter[Row]:
    groups: dict[int, list[int]] = {}
    for row in positive(rows).elements():
        groups.setdefault(row[0], []).append(row[1])
    return Counter({
        (key, result(sorted(set(members)) if distinct else members)): 1 for key, members in groups.items()
    })  # fmt: skip


def _sum(members: list[int]) -> int:
    if not VALUES.keys() >= set(members):
        return U
    total = sum((Fraction(VALUES[member]) for member in members), Fraction(0))
    if set(members) <= set(INTEGERS.values()):
        return INTEGERS[int(total)]
    return TERMS.intern(f'"{int(total) if total.denominator == 1 else float(total)}"^^<{XSD}decimal>')


RESULTS: dict[Function, Callable[[list[int]], int]] = {
    Function.COUNT: lambda members: INTEGERS[sum(member != U for member in members)],
    Function.SUM: _sum,
    Function.MIN: lambda members: U if U in members else min(members, key=TERMS.place),
    Function.MAX: lambda members: U if U in members else max(members, key=TERMS.place),
    Function.SAMPLE: lambda members: min((m for m in members if m != U), key=TERMS.place, default=U),
    Function.GROUP_CONCAT: lambda members: U if U in members else TERMS.intern(
        '"' + "|".join(TERMS.value(member).lexical for member in sorted(members, key=TERMS.place)) + '"'
    ),
}  # fmt: skip


@pytest.mark.parametrize("distinct", [False, True], ids=["all", "distinct"])
@pytest.mark.parametrize("function", list(RESULTS), ids=lambda function: function.value)
def test_aggregates_follow_their_members_and_their_errors(function: Function, distinct: bool) -> None:
    aggregate = Aggregate(function, (1,), distinct, "|" if function is Function.GROUP_CONCAT else " ")
    members = [*MEMBERS, *MEMBERS, U, WORD, OTHER]
    check(
        lambda: Group((0,), [(1,)], [accumulator(aggregate, TERMS)]),
        lambda rows: _grouped(rows, RESULTS[function], distinct=distinct), [cells((1, 2), members)],
    )  # fmt: skip


def test_an_average_is_the_exact_sum_over_the_number() -> None:
    made = accumulator(Aggregate(Function.AVG, (0,)), TERMS)()
    assert made.result() == INTEGERS[0]
    for member in (1, 2, 5):
        made.add((INTEGERS[member],), 1)
    assert TERMS.text(made.result()) == f'"2.666666666666666666"^^<{XSD}decimal>'
    made.add((WORD,), 1)
    assert made.result() == U
    made.add((WORD,), -1)
    made.add((INTEGERS[5],), -1)
    assert TERMS.text(made.result()) == f'"1.5"^^<{XSD}decimal>'


def test_a_sum_of_doubles_depends_on_the_members_alone() -> None:
    spelled = ["0.1", "1e16", "-1e16", "0.2", "INF"]
    numbers = [TERMS.intern(f'"{text}"^^<{XSD}double>') for text in spelled]
    for order in itertools.permutations(numbers[:4]):
        made = accumulator(Aggregate(Function.SUM, (0,)), TERMS)()
        for member in order:
            made.add((member,), 1)
        assert TERMS.text(made.result()) == f'"0.30000000000000004"^^<{XSD}double>'
        made.add((numbers[4],), 1)
        assert TERMS.text(made.result()) == f'"INF"^^<{XSD}double>'
        made.add((numbers[4],), -1)
        for member in order:
            made.add((member,), -1)
        assert made.result() == INTEGERS[0]


def test_without_keys_there_is_one_group_from_the_start() -> None:
    count = accumulator(Aggregate(Function.COUNT, ()), TERMS)
    group = Group((), [()], [count])
    assert group.apply({}) == {(INTEGERS[0],): 1}
    assert group.apply({}) == {}
    assert group.apply({(): 2}) == {(INTEGERS[0],): -1, (INTEGERS[2],): 1}
    assert group.apply({(): -5}) == {(INTEGERS[2],): -1, (INTEGERS[0],): 1}
    assert group.apply({(): 4}) == {(INTEGERS[0],): -1, (INTEGERS[1],): 1}


@pytest.mark.parametrize("seeded", [False, True], ids=["all starts", "seeds"])
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("reflexive", [False, True], ids=["plus", "star"])
def test_closure_holds_the_ends_of_all_paths_in_cycles_too(seeded: bool, backward: bool, reflexive: bool) -> None:
    if reflexive and not seeded:
        return  # nobody knows all nodes

    def batch(edges: Delta, seeds: Delta | None = None) -> Counter[Row]:
        pairs = set(positive(edges))
        while more := {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs:
            pairs |= more
        if seeds is not None:
            starts = {start for (start,) in positive(seeds)}
            pairs = {pair for pair in pairs if pair[backward] in starts}
            if reflexive:
                pairs |= {(start, start) for start in starts}
        return Counter(pairs)

    nodes = range(6)
    draw = [cells(nodes, nodes), cells(nodes)] if seeded else [cells(nodes, nodes)]
    check(lambda: Closure(seeded=seeded, backward=backward, reflexive=reflexive), batch, draw)


def test_construct_makes_blank_nodes_for_each_copy_of_a_row() -> None:
    template = ((0, ~0, 1), (2, ~1, 0))

    def blank(row: Row, number: int, copy: int) -> int:
        return 1000 + 100 * row[0] + 10 * number + copy

    def batch(rows: Delta) -> Counter[Row]:
        found = Counter[Row]()
        for row, count in positive(rows).items():
            for copy in range(count):
                made = blank(row, 0, copy)
                found[row[0], 50, row[1]] += row[1] != U
                found[made, 51, row[0]] += 1
        return found

    check(
        lambda: Construct(template, [50, 51], 2, blank, lambda _s, _p, _o: True), batch, [cells((1, 2), (3, U))]
    )


def test_construct_leaves_out_rows_that_make_no_triple() -> None:
    made = Construct(((0, ~0, 1),), [50], 2, lambda *_: 0, lambda s, _p, _o: s != 7)
    assert made.apply({(1, 2): 3, (7, 2): 1, (1, U): 1}) == {(1, 50, 2): 3}
    assert made.apply({(1, 2): -3}) == {(1, 50, 2): -3}
