"""Standing SPARQL queries as algebra, by position: what travels, is hashed and is evaluated.

A :class:`StandingQuery` is a list of operators, each of which names its inputs by their numbers in
the list; the last one is the root.  Equal operators stand there once, so the list is a graph: what two parts of
a query have in common is evaluated once.  The order is that in which a walk from the root first
leaves an operator, so equal queries are equal lists.

Columns have places instead of names.  A row of an operator is a tuple whose layout its docstring tells;
an expression (:class:`~p2prdf.rdf.query.Filter`, whether or not it filters) reads ``?v3`` from column
3.  So names of variables are no part of a query, but for those of the projection, which lie beside.

Leaves are conjunctive queries: the overlay joins them.  All else is evaluated over their signed
answers (:mod:`p2prdf.continuous.dataflow`).
"""

from __future__ import annotations

import dataclasses
import enum
from functools import cached_property
from typing import Final, TypeAlias

from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.rdf.query import Filter as Expression

__all__ = [
    "LANDMARK_MS_MAX", "LEAVES_MAX", "NUMBER_NAME", "OPERATORS_MAX", "REPORT_NAME", "TRIPLE_NAMES",
    "WINDOW_ELEMENTS_MAX", "WINDOW_MS_MAX", "Aggregate", "Closure", "Construct", "CountWindow", "Counted", "Distinct",
    "Existence", "Exists", "Expression", "Extend", "Filter", "Fix", "Form", "Function", "Group", "InferenceRule",
    "Inferred", "Join", "Leaf", "LeftJoin", "Minus", "Operator", "Project", "Report", "Reported", "Shared", "Slice",
    "StandingQuery", "Table", "Union", "Window", "Windowed",
]  # fmt: skip

LEAVES_MAX: Final = 32
"""Most conjunctive queries one standing query is made of."""
OPERATORS_MAX: Final = 256
"""Most operators of one standing query, leaves included."""

TRIPLE_NAMES: Final = ("subject", "predicate", "object")
"""What the columns of CONSTRUCT are called."""

InferenceRule: TypeAlias = tuple[tuple[str, str, str], tuple[tuple[str, str, str], ...]]
"""What follows, and what it follows from: patterns of canonical terms and variables, ``?`` and a name."""

Shared: TypeAlias = tuple[tuple[int, int], ...]
"""Columns of the left and the right input that hold the same variable, in pairs."""

WINDOW_MS_MAX: Final = 366 * 86_400_000
"""Longest range and step of a window, and longest time from one report to the next: a year, in milliseconds."""
LANDMARK_MS_MAX: Final = 253_402_300_799_999
"""Latest start of a landmark window: the last millisecond of the year 9999, since 1970."""

WINDOW_ELEMENTS_MAX: Final = 100_000
"""Most elements of a window by count, and most from one of its reports to the next: the home holds both."""

REPORT_NAME: Final = "report_time"
"""What the last column of a stream of reports is called: the time of the report, an xsd:dateTime."""
NUMBER_NAME: Final = "report_number"
"""What the column behind that is called where windows are by count: of one time there may be several reports."""


class Form(enum.Enum):
    """What is asked for."""

    SELECT = "select"
    ASK = "ask"
    CONSTRUCT = "construct"


class Existence(enum.Enum):
    """What becomes of a left row by whether a right one matches."""

    SOME = "exists"
    NONE = "not exists"
    MARK = "mark"


class Function(enum.Enum):
    """A set function (SPARQL 1.1, 18.5.1)."""

    COUNT = "COUNT"
    SUM = "SUM"
    AVG = "AVG"
    MIN = "MIN"
    MAX = "MAX"
    SAMPLE = "SAMPLE"
    GROUP_CONCAT = "GROUP_CONCAT"


class Reported(enum.Enum):
    """What is told of the solutions at a report (C-SPARQL and RSP-QL: the relation-to-stream operator)."""

    CHANGES = "changes"
    """What holds is told, and taken back when it holds no more: the subscriber has the solutions of the last report."""
    RSTREAM = "rstream"
    """All solutions, at each report anew."""
    ISTREAM = "istream"
    """The solutions that the report before did not have."""
    DSTREAM = "dstream"
    """The solutions of the report before that are none any more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """Which elements of a stream count at a time T: those of times in (E - ``range``, E], times in milliseconds.

    E, where the window ends, is the last multiple of ``step`` that is not after T (all since 1970).  ``range`` None: a
    landmark window, whose elements are those of times in [``start``, E].
    """

    range: int | None
    step: int
    start: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class CountWindow:
    """Which elements of a stream count at its report number k: the last ``elements`` at element number k * ``step``.

    Elements are numbered from 1, by time and, of one time, by the text of their triples; a triple counts once at a
    time.  The report has the time of its last element.  ``stream``: a canonical IRI.
    """

    elements: int
    step: int
    stream: str


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """The answers of a conjunctive query, a bag: one row per choice of triples, laid out as its ``answer``."""

    query: ConjunctiveQuery


@dataclasses.dataclass(frozen=True, slots=True)
class Windowed(Leaf):
    """The answers of a conjunctive query over the elements of a stream, while these are in a window.

    One row per choice of *elements*: a triple that is in the stream several times gives several.  All variables are
    answered, so distinct rows are one per choice of triples.  Predicates are qualified by the stream
    (:func:`p2prdf.rdf.quads.streamed`).
    """

    window: Window


@dataclasses.dataclass(frozen=True, slots=True)
class Counted(Leaf):
    """All elements of a stream, while they are in a window by count: subject, predicate and object of each.

    The predicate is qualified by the stream.  The query is that of :func:`p2prdf.rdf.standing.leaves.whole_stream`.
    """

    window: CountWindow


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Fixed rows: VALUES, or the one empty row of an empty group.  None is unbound."""

    width: int
    rows: tuple[tuple[str | None, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Project:
    """The columns named, in their order; -1 is a column that is never bound."""

    input: int
    columns: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which a condition holds."""

    input: int
    condition: Expression


@dataclasses.dataclass(frozen=True, slots=True)
class Extend:
    """Each row with the value of an expression behind it, unbound where that is an error."""

    input: int
    expression: Expression


@dataclasses.dataclass(frozen=True, slots=True)
class Fix:
    """Each row with copies of some columns behind it, in which an unbound cell holds a mark and so is bound.

    By a copy rows are told apart which a join would take for compatible.
    """

    input: int
    columns: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Union:
    """The rows of all inputs, which have one layout."""

    inputs: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Join:
    """Compatible rows merged: the columns of the left row, then those of the right that are not shared."""

    left: int
    right: int
    shared: Shared


@dataclasses.dataclass(frozen=True, slots=True)
class LeftJoin:
    """Compatible rows for which all conditions hold, merged as by Join; left rows without any, alone."""

    left: int
    right: int
    shared: Shared
    conditions: tuple[Expression, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Minus:
    """The left rows without a right row that is compatible and has a bound variable in common (``shared``).

    ``keys`` are columns that must be equal, too, but do not count as variables.
    """

    left: int
    right: int
    keys: Shared
    shared: Shared


@dataclasses.dataclass(frozen=True, slots=True)
class Exists:
    """The left rows with a compatible right row, or without; or all, with an xsd:boolean behind that tells."""

    left: int
    right: int
    shared: Shared
    existence: Existence


@dataclasses.dataclass(frozen=True, slots=True)
class Distinct:
    """Each row once."""

    input: int


@dataclasses.dataclass(frozen=True, slots=True)
class Aggregate:
    """A set function over columns of a group.

    ``columns``: none for COUNT(*), all that are visible for COUNT(DISTINCT *), else one, in which an error is
    unbound.
    """

    function: Function
    columns: tuple[int, ...]
    distinct: bool = False
    separator: str = " "


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """One row per group: its keys, then its aggregates.  Without keys there is always one group."""

    input: int
    keys: tuple[int, ...]
    aggregates: tuple[Aggregate, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """Rows ``offset`` to ``offset + limit`` in an order by columns; what is left equal is ordered by its terms.

    ``order``: columns, each with whether it descends.  ``limit`` None: all from ``offset`` on.
    """

    input: int
    order: tuple[tuple[int, bool], ...]
    offset: int
    limit: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Closure:
    """The pairs of nodes between which a way of one or more edges leads, each pair once.

    ``edges`` has two columns: from, to.  ``seeds``, if not None, has one: the nodes to start from; without, all
    that have an edge.  ``backward``: start from where ways end.  ``reflexive``: a way may have no edge; then there
    are seeds.  Rows are (first node, last node) whichever it started from.
    """

    edges: int
    seeds: int | None
    backward: bool
    reflexive: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Construct:
    """The triples of a template for each row, as rows of three terms.

    A slot is a column of the input, or a blank node of the template (numbers from the width of the input on), or
    ``~`` the number of a constant.  What is no triple is left out.
    """

    input: int
    template: tuple[tuple[int, int, int], ...]
    constants: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Inferred:
    """The triples of the input and all that follows from them by rules, each once: subject, predicate, object.

    Rules may lead to what they need themselves.  No predicate of theirs is a variable.
    """

    input: int
    rules: tuple[InferenceRule, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """The root of a query with windows: when it is evaluated, and what is told then.

    It is evaluated at the multiples of ``every`` milliseconds since 1970; 0: where its window by count says.  Rows are
    those of the input; in a stream (all but CHANGES) with the time of the report behind them, and with its number where
    the window is by count.
    """

    input: int
    reported: Reported
    every: int


Operator: TypeAlias = (
    Leaf | Table | Project | Filter | Extend | Fix | Union | Join | LeftJoin | Minus | Exists | Distinct | Group | Slice
    | Closure | Construct | Inferred | Report
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class StandingQuery:
    """A standing query: its form, the names of what it answers, its operators, the root last.

    ASK answers one empty row while it is true.  CONSTRUCT answers each triple of its graph once, under
    ``TRIPLE_NAMES``.
    """

    form: Form
    names: tuple[str, ...]
    operators: tuple[Operator, ...]

    @cached_property
    def leaves(self) -> tuple[ConjunctiveQuery, ...]:
        """The conjunctive queries, by leaf number: the order in which they stand among the operators."""
        return tuple(operator.query for operator in self.operators if isinstance(operator, Leaf))

    @cached_property
    def windows(self) -> tuple[Window | CountWindow | None, ...]:
        """The window of each leaf, by leaf number; None for what is no element of a stream."""
        leaves = (operator for operator in self.operators if isinstance(operator, Leaf))
        return tuple(leaf.window if isinstance(leaf, (Windowed, Counted)) else None for leaf in leaves)

    @property
    def report(self) -> Report | None:
        """When a query with windows is evaluated, and what is told; None if it has none."""
        root = self.operators[-1]
        return root if isinstance(root, Report) else None

    @property
    def is_stream(self) -> bool:
        """Whether it answers a stream of reports, not what holds."""
        return self.report is not None and self.report.reported is not Reported.CHANGES

    @property
    def conjunctive(self) -> ConjunctiveQuery | None:
        """The whole query as one conjunctive query, as ``parse_select`` gives it; None if it is more than that."""
        distinct = len(self.operators) == 2 and isinstance(self.operators[1], Distinct)
        leaf = self.operators[0]
        if self.form is not Form.SELECT or not isinstance(leaf, Leaf) or len(self.operators) != 1 + distinct:
            return None
        return dataclasses.replace(leaf.query, names=self.names, distinct=distinct)
