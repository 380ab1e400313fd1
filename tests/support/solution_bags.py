"""Solutions of SPARQL's JSON results, and the comparison of bags of solutions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from p2prdf.errors import DataRefused
from p2prdf.rdf import terms
from p2prdf.rdf.results import Row


def rows_of(
    names: Sequence[str], found: Iterable[Mapping[str, Mapping[str, str]]]
) -> Iterator[tuple[str | None, ...]]:
    """Turn the bindings of a results document back into rows of canonical terms.

    Raises DataRefused when a binding names a variable that is not in ``names``.
    """
    known = set(names)
    for binding in found:
        if not known.issuperset(binding):
            extra = sorted(set(binding) - known)
            raise DataRefused(f"a solution binds {extra}, which is not among {list(names)}")
        yield tuple(terms.from_json(binding[name]) if name in binding else None for name in names)


def same_bag(a: Iterable[Row], b: Iterable[Row]) -> bool:
    """Tell whether two bags of rows are equal up to a renaming of blank nodes.

    Blank nodes get colours from the rows that contain them, refined until nothing changes; nodes that are still alike
    are paired one by one.  A true result is always right.  A false result could be wrong only for blank nodes that
    are joined as evenly as in a regular graph, which does not occur in solutions of queries.
    """
    left, right = Counter(map(tuple, a)), Counter(map(tuple, b))
    if left == right:
        return True
    if sum(left.values()) != sum(right.values()):
        return False
    return _same_up_to_blanks(left, right)


_Solution = tuple[str | None, ...]
_Bag = Counter[_Solution]


def _same_up_to_blanks(left: _Bag, right: _Bag) -> bool:
    colours_left, colours_right = _blanks(left), _blanks(right)
    while True:
        names: dict[object, int] = {}  # shared, so that equal surroundings get equal colours
        _refine(left, colours_left, names)
        _refine(right, colours_right, names)
        classes_left, classes_right = _classes(colours_left), _classes(colours_right)
        if {c: len(m) for c, m in classes_left.items()} != {c: len(m) for c, m in classes_right.items()}:
            return False
        tied = next((c for c, members in classes_left.items() if len(members) > 1), None)
        if tied is None:
            renaming = {classes_left[c][0]: classes_right[c][0] for c in classes_left}
            return Counter({_renamed(row, renaming): n for row, n in left.items()}) == right
        pairs = zip(classes_left[tied], classes_right[tied], strict=True)
        for fresh, (one, other) in enumerate(pairs):
            colours_left[one] = colours_right[other] = -1 - fresh
            if not _alone(one, left):
                break  # a pairing may distinguish the other nodes of its rows, so refine again


def _blanks(bag: _Bag) -> dict[str, int]:
    return {value: 0 for row in bag for value in row if value is not None and terms.is_skolem(value)}


def _refine(bag: _Bag, colours: dict[str, int], names: dict[object, int]) -> None:
    """Colour each blank node by the coloured rows that contain it, until no class is split any more."""
    count = len(set(colours.values()))
    while True:
        seen: dict[str, list[object]] = {blank: [] for blank in colours}
        for row, times in bag.items():
            coloured = tuple(str(colours[v]) if v in colours else v for v in row if v is not None)
            for blank in {v for v in row if v in colours}:
                places = tuple(at for at, v in enumerate(row) if v == blank)
                seen[blank].append((times, len(row), tuple(v is None for v in row), places, coloured))
        for blank, signs in seen.items():
            sign = (colours[blank], tuple(sorted(signs, key=repr)))
            colours[blank] = names.setdefault(sign, len(names))
        distinct = len(set(colours.values()))
        if distinct == count:
            return
        count = distinct


def _classes(colours: Mapping[str, int]) -> dict[int, list[str]]:
    classes: dict[int, list[str]] = {}
    for blank, colour in colours.items():
        classes.setdefault(colour, []).append(blank)
    return classes


def _alone(blank: str, bag: _Bag) -> bool:
    """Tell whether no row holds this blank node together with another."""
    others = (
        value != blank and value is not None and terms.is_skolem(value)
        for row in bag
        if blank in row
        for value in row
    )
    return not any(others)


def _renamed(row: _Solution, renaming: Mapping[str, str]) -> _Solution:
    return tuple(renaming.get(value, value) if value is not None else None for value in row)
