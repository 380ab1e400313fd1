"""Query plans as readable text: patterns as SPARQL, operators in a few words.

A query on the wire has numbers for its variables, and names only for its projection.  These names are propagated from
the root down to the leaves.  Variables that get no name this way, such as one that only joins two patterns, receive a
generated name (``?v0``, ``?v1``, ...), the same in all leaves where they are joined.  All texts are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

from p2prdf.rdf import algebra, quads
from p2prdf.rdf.algebra import Operator, StandingQuery
from p2prdf.rdf.layouts import inputs_of, layouts
from p2prdf.rdf.query import ConjunctiveQuery, Pattern

__all__ = ["TEXT_CHARACTERS_MAX", "Names", "spell_expression", "spell_pattern"]

TEXT_CHARACTERS_MAX: Final = 240
"""Longest text of one operator or filter, in characters."""
_TERM_CHARACTERS_MAX: Final = 120
_LISTED_MAX: Final = 12

_VARIABLE: Final = re.compile(r"\?v(\d+)\b")


class Names:
    """Names for the variables and columns of a query.

    ``leaves``: the names of each leaf's variables, by number.
    """

    def __init__(self, query: ConjunctiveQuery | StandingQuery):
        taken = dict.fromkeys(query.names)
        self._fresh: Iterator[str] = (name for number in count() if (name := f"v{number}") not in taken)
        self._columns: list[dict[int, str]] = []
        if isinstance(query, ConjunctiveQuery):
            self.leaves = [self._of_leaf(query, dict(enumerate(query.names)))]
        else:
            self._operators = query.operators
            self._follow(query)
            pairs = zip(query.operators, self._columns, strict=True)
            self.leaves = [
                self._of_leaf(operator.query, known) for operator, known in pairs if isinstance(operator, algebra.Leaf)
            ]

    def _of_leaf(self, leaf: ConjunctiveQuery, columns: dict[int, str]) -> tuple[str, ...]:
        known = {variable: columns[at] for at, variable in enumerate(leaf.answer) if at in columns}
        return tuple(known.get(each) or next(self._fresh) for each in range(leaf.variable_count))

    # --- down from the root ----------------------------------------------------------------------

    def _follow(self, query: StandingQuery) -> None:
        self._widths = [len(layout) for layout in layouts(query.operators)]
        self._columns = [{} for _ in query.operators]
        self._columns[-1].update(enumerate(query.names))
        for number in reversed(range(len(query.operators))):
            operator, own = query.operators[number], self._columns[number]
            for column in range(self._widths[number]):
                if column not in own:
                    own[column] = next(self._fresh)
            for left, right in _shared(operator):
                self._columns[inputs_of(operator)[1]].setdefault(right, own[left])
            for source, column, at in self._sources(operator):
                self._columns[source].setdefault(column, own[at])

    def _sources(self, operator: Operator) -> Iterator[tuple[int, int, int]]:
        """Yield the input columns that an operator passes on: input, input column, column of the operator."""
        match operator:
            case algebra.Project(source, columns):
                yield from ((source, column, at) for at, column in enumerate(columns) if column >= 0)
            case algebra.Group(source, keys):
                yield from ((source, column, at) for at, column in enumerate(keys))
            case algebra.Join(left, right, shared) | algebra.LeftJoin(left, right, shared):
                yield from ((left, column, column) for column in range(self._widths[left]))
                joined = {column for _, column in shared}
                others = [column for column in range(self._widths[right]) if column not in joined]
                yield from ((right, column, self._widths[left] + at) for at, column in enumerate(others))
            case algebra.Closure() | algebra.Construct() | algebra.Inferred():
                pass  # their columns are new
            case _:
                sources = inputs_of(operator)
                for source in sources if isinstance(operator, algebra.Union) else sources[:1]:
                    yield from ((source, column, column) for column in range(self._widths[source]))

    # --- operators -------------------------------------------------------------------------------

    def spell_operator(self, number: int) -> str:
        """Describe in a few words the effect of an operator of a standing query; "" if its name suffices."""
        operator = self._operators[number]
        match operator:
            case algebra.Leaf():
                before = sum(isinstance(each, algebra.Leaf) for each in self._operators[:number])
                text = f"part {before + 1}"
                if isinstance(operator, (algebra.Windowed, algebra.Counted)):
                    text += f" in {_spell_window(operator.window)}"
            case algebra.Report(_, reported, every):
                text = f"{reported.value} {f'every {_spell_milliseconds(every)}' if every else 'by count'}"
            case algebra.Table(_, rows):
                text = _counted(len(rows), "fixed row")
            case algebra.Filter(source, condition):
                text = spell_expression(condition.text, self._names_of(source))
            case algebra.Extend(source, expression):
                text = f"{spell_expression(expression.text, self._names_of(source))} AS {self._names_of(number)[-1]}"
            case algebra.Project():
                text = _listed(self._names_of(number))
            case algebra.Group(source, keys, aggregates):
                names = self._names_of(source)
                made = [each.function.value + (" DISTINCT" if each.distinct else "") for each in aggregates]
                text = f"by {_listed([names[at] for at in keys])}: {', '.join(made[:_LISTED_MAX])}".rstrip(": ")
            case algebra.Slice(source, order, offset, limit) | algebra.Slices(source, _, order, offset, limit):
                names = self._names_of(source)
                by = [f"{names[at]}{' descending' if down else ''}" for at, down in order]
                text = f"{'' if limit is None else f'at most {limit} '}after {offset}"
                text += f" by {_listed(by)}" if by else ""
                if isinstance(operator, algebra.Slices):
                    text += f" for each of {_listed([names[at] for at in operator.partition])}"
            case algebra.Closure(_, seeds, backward, reflexive):
                text = f"{'zero' if reflexive else 'one'} or more steps{' backward' if backward else ''}"
                text += "" if seeds is None else " from given nodes"
            case algebra.Construct(_, template):
                text = _counted(len(template), "triple")
            case _:
                text = self._spell_joined(operator, self._names_of(number))
        return _cut(text, TEXT_CHARACTERS_MAX)

    @staticmethod
    def _spell_joined(operator: Operator, names: Sequence[str]) -> str:
        kind = f"{operator.existence.value} " if isinstance(operator, algebra.Exists) else ""
        shared = [names[left] for left, _ in _shared(operator)]
        return (kind + (f"on {_listed(shared)}" if shared else "")).strip()

    def _names_of(self, number: int) -> list[str]:
        return [f"?{self._columns[number][at]}" for at in range(self._widths[number])]


def spell_pattern(pattern: Pattern, constants: Sequence[str], names: Sequence[str]) -> str:
    """Return a pattern as SPARQL, or a directory pattern in words; long terms are cut."""
    s, p, o = (f"?{names[slot]}" if slot >= 0 else _term(constants[~slot]) for slot in pattern)
    predicate = constants[~pattern[1]] if pattern[1] < 0 else ""
    if (parts := quads.parts_of(predicate)) is not None:
        return f"GRAPH {_term(parts[1])} {{ {s} {_term(parts[0])} {o} }}"
    if (parts := quads.stream_parts_of(predicate)) is not None:
        return f"STREAM {_term(parts[1])} {{ {s} {_term(parts[0])} {o} }}"
    if (worded := quads.word_parts_of(predicate)) is not None:
        return f"{s} {_term(worded[0])} {o} with {_term(' or '.join(worded[1]))}"
    if predicate == quads.OF:
        return f"{s} stands for predicate {o}"
    if (listed := quads.predicate_of(predicate)) is not None:
        return f"{s} stands for {_term(listed)} in GRAPH {o}"
    return f"{s} {p} {o}"


def _spell_window(window: algebra.Window | algebra.CountWindow) -> str:
    if isinstance(window, algebra.CountWindow):
        return f"a window of the last {_counted(window.elements, 'element')}, at every {window.step} more"
    if window.range is None:
        reach = f"a window from {_spell_milliseconds(window.start)} after 1970 on"
    else:
        reach = f"a window of {_spell_milliseconds(window.range)}"
    return f"{reach}, every {_spell_milliseconds(window.step)}"


def _spell_milliseconds(count: int) -> str:
    return f"{count} ms" if count % 1000 else f"{count // 1000} s"


def _term(text: str) -> str:
    return _cut(text, _TERM_CHARACTERS_MAX)


def spell_expression(text: str, names: Sequence[str]) -> str:
    """Return an expression with ``?v0``, ``?v1``, ... replaced by names (such as ``?name``)."""
    spelled = _VARIABLE.sub(lambda found: names[int(found[1])] if int(found[1]) < len(names) else found[0], text)
    return _cut(" ".join(spelled.split()), TEXT_CHARACTERS_MAX)


def _shared(operator: Operator) -> tuple[tuple[int, int], ...]:
    match operator:
        case algebra.Join(shared=shared) | algebra.LeftJoin(shared=shared) | algebra.Exists(shared=shared):
            return shared
        case algebra.Minus(keys=keys, shared=shared):
            return keys + shared
    return ()


def _listed(names: Sequence[str]) -> str:
    left_out = f" and {len(names) - _LISTED_MAX} more" if len(names) > _LISTED_MAX else ""
    return " ".join(names[:_LISTED_MAX]) + left_out if names else "nothing"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 2] + "…" + text[-1]
