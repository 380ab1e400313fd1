"""The algebra of standing SPARQL queries, the form in which they are sent, hashed and evaluated.

A :class:`StandingQuery` is a list of operators.  Each operator names its inputs by their numbers in the list; the
last operator is the root.  Equal operators occur once, so the list is a graph, and a part that two branches of a
query share is evaluated once.  The list is in post-order of a walk from the root, so equal queries are equal lists.

Columns have positions instead of names.  A row of an operator is a tuple; the docstring of the operator states its
layout.  An expression (:class:`~p2prdf.rdf.query.Filter`, which also stands for expressions that do not filter) reads
``?v3`` from column 3.  Names of variables are therefore no part of the operators; ``StandingQuery.names`` holds those
of the projection.

Leaves are conjunctive queries, which the overlay joins.  All other operators are evaluated over the leaves' signed
solutions (:mod:`p2prdf.continuous.dataflow`).
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
    "Inferred", "Join", "Leaf", "LeftJoin", "Minus", "Operator", "Project", "Report", "Reported", "Settled", "Shared",
    "Slice", "Slices", "StandingQuery", "Table", "Union", "Window", "Windowed",
]  # fmt: skip

LEAVES_MAX: Final = 32
"""Most conjunctive queries in one standing query."""
OPERATORS_MAX: Final = 256
"""Most operators of one standing query, leaves included."""

TRIPLE_NAMES: Final = ("subject", "predicate", "object")
"""Names of the columns of a CONSTRUCT query."""

InferenceRule: TypeAlias = tuple[tuple[str, str, str], tuple[tuple[str, str, str], ...]]
"""The conclusion and the conditions of a rule.

They are patterns of canonical terms and variables (``?`` and a name).
"""

Shared: TypeAlias = tuple[tuple[int, int], ...]
"""Columns of the left and the right input that hold the same variable, in pairs."""

WINDOW_MS_MAX: Final = 366 * 86_400_000
"""Longest range and step of a window, and longest interval of reports: a year, in milliseconds."""
LANDMARK_MS_MAX: Final = 253_402_300_799_999
"""Latest start of a landmark window: the last millisecond of the year 9999, since 1970."""

WINDOW_ELEMENTS_MAX: Final = 100_000
"""Most elements in a window by count, and between two of its reports: the coordinator holds both."""

REPORT_NAME: Final = "report_time"
"""Name of the last column in a stream of reports: the time of the report, an xsd:dateTime."""
NUMBER_NAME: Final = "report_number"
"""Name of the column after ``REPORT_NAME`` if windows are by count: the number of the report.

Several reports may have the same time.
"""


class Form(enum.Enum):
    """The form of a query (SPARQL 1.1, section 16)."""

    SELECT = "select"
    ASK = "ask"
    CONSTRUCT = "construct"


class Existence(enum.Enum):
    """The effect of a matching right row on a left row: keep it, drop it, or add the outcome as a column."""

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
    """The solutions that a report contains (the relation-to-stream operator of C-SPARQL and RSP-QL)."""

    CHANGES = "changes"
    """The changes since the last report: new solutions, and retractions of those that ended."""
    RSTREAM = "rstream"
    """All solutions, in every report."""
    ISTREAM = "istream"
    """The solutions that were absent from the previous report."""
    DSTREAM = "dstream"
    """The solutions of the previous report that do not hold any more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """A time-based window over a stream: at time T it holds the elements with times in (E - ``range``, E].

    E, the end of the window, is the last multiple of ``step`` that is not after T.  All times are in milliseconds
    since 1970.  ``range`` None: a landmark window, which holds the elements with times in [``start``, E].
    """

    range: int | None
    step: int
    start: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class CountWindow:
    """A window by count: report number k covers the ``elements`` elements up to number k * ``step``.

    Elements are numbered from 1, ordered by time and, at equal times, by the text of their triples.  A triple counts
    once at each time.  The time of a report is that of its last element.  ``stream``: a canonical IRI.
    """

    elements: int
    step: int
    stream: str


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """The solutions of a conjunctive query, as a bag: one row per choice of triples.

    Rows are laid out as ``query.answer``.
    """

    query: ConjunctiveQuery


@dataclasses.dataclass(frozen=True, slots=True)
class Windowed(Leaf):
    """The solutions of a conjunctive query over elements of a stream, while all of them are in a window.

    There is one row per choice of *elements*: a triple that occurs in the stream several times gives several rows.
    The query returns all its variables, so there is one distinct row per choice of triples.  Predicates are qualified
    by the stream (:func:`p2prdf.rdf.quads.streamed`).
    """

    window: Window


@dataclasses.dataclass(frozen=True, slots=True)
class Counted(Leaf):
    """All elements of a stream while they are in a window by count: subject, predicate and object of each.

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
    """The given columns, in the given order; -1 stands for a column that is never bound."""

    input: int
    columns: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which a condition holds."""

    input: int
    condition: Expression


@dataclasses.dataclass(frozen=True, slots=True)
class Extend:
    """Each row with one more column: the value of an expression, unbound if the evaluation fails."""

    input: int
    expression: Expression


@dataclasses.dataclass(frozen=True, slots=True)
class Fix:
    """Each row with copies of some columns appended, in which a mark replaces unbound cells.

    The copies distinguish rows that a join would treat as compatible.
    """

    input: int
    columns: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Union:
    """The rows of all inputs, which share one layout."""

    inputs: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Join:
    """Compatible rows merged: the columns of the left row, then those of the right that are not shared."""

    left: int
    right: int
    shared: Shared


@dataclasses.dataclass(frozen=True, slots=True)
class LeftJoin:
    """Compatible rows for which all conditions hold, merged as by Join, and left rows without any."""

    left: int
    right: int
    shared: Shared
    conditions: tuple[Expression, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Minus:
    """The left rows without a right row that is compatible and shares a bound variable (``shared``).

    ``keys`` are further columns that must be equal; they do not count as variables.
    """

    left: int
    right: int
    keys: Shared
    shared: Shared


@dataclasses.dataclass(frozen=True, slots=True)
class Exists:
    """The left rows with (or without) a compatible right row; or all of them with an xsd:boolean."""

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

    ``columns``: none for COUNT(*), all visible ones for COUNT(DISTINCT *), otherwise one, in which an error is
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
    """Rows ``offset`` to ``offset + limit`` in an order by columns.

    ``order``: columns, each with a flag for descending order; rows that compare equal are ordered by their terms.
    ``limit`` None: all rows from ``offset`` on.
    """

    input: int
    order: tuple[tuple[int, bool], ...]
    offset: int
    limit: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Slices:
    """A slice of each part of the rows; rows that differ in the columns of ``partition`` are in different parts.

    The other fields are those of Slice.
    """

    input: int
    partition: tuple[int, ...]
    order: tuple[tuple[int, bool], ...]
    offset: int
    limit: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Closure:
    """The pairs of nodes that are connected by a path of one or more edges, each pair once.

    ``edges`` has two columns: from, to.  ``seeds``, if given, has one column: the nodes to start from; otherwise
    every node with an edge is a start.  ``backward``: the starts are the last nodes of paths.  ``reflexive``: a path
    may have no edge; ``seeds`` is then required.  Rows are always (first node, last node).

    All rows may have a further column in front: the graph that holds the whole path.
    """

    edges: int
    seeds: int | None
    backward: bool
    reflexive: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Construct:
    """The triples of a template for each row, as rows of three terms.

    A slot is a column of the input, a blank node of the template (numbers from the width of the input on), or ``~``
    the number of a constant.  Results that are not valid triples are left out.
    """

    input: int
    template: tuple[tuple[int, int, int], ...]
    constants: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Inferred:
    """The triples of the input and all that rules derive from them, each once: subject, predicate, object.

    Rules may be recursive.  Predicates in rules are constants.
    """

    input: int
    rules: tuple[InferenceRule, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """The root of a query with windows: the times of its evaluation, and the contents of its reports.

    The query is evaluated at the multiples of ``every`` milliseconds since 1970, or, if ``every`` is 0, whenever its
    window by count is complete.  Rows are those of the input.  A stream (all modes except CHANGES) appends the time
    of the report, and its number if the window is by count.
    """

    input: int
    reported: Reported
    every: int


@dataclasses.dataclass(frozen=True, slots=True)
class Settled:
    """The root of a query with settled delivery: the rows of the input, as of one stamp after the other.

    All leaves have one pattern (:mod:`p2prdf.rdf.standing.settling`), and none reads a stream.
    """

    input: int


Operator: TypeAlias = (
    Leaf | Table | Project | Filter | Extend | Fix | Union | Join | LeftJoin | Minus | Exists | Distinct | Group | Slice
    | Slices | Closure | Construct | Inferred | Report | Settled
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class StandingQuery:
    """A standing query: its form, the names of its columns, and its operators with the root last.

    An ASK query has one empty solution while it is true.  A CONSTRUCT query returns each triple of its graph once,
    under ``TRIPLE_NAMES``.
    """

    form: Form
    names: tuple[str, ...]
    operators: tuple[Operator, ...]

    @cached_property
    def leaves(self) -> tuple[ConjunctiveQuery, ...]:
        """The conjunctive queries by leaf number, in the order of the operators."""
        return tuple(operator.query for operator in self.operators if isinstance(operator, Leaf))

    @cached_property
    def windows(self) -> tuple[Window | CountWindow | None, ...]:
        """The window of each leaf, by leaf number; None if the leaf does not read a stream."""
        leaves = (operator for operator in self.operators if isinstance(operator, Leaf))
        return tuple(leaf.window if isinstance(leaf, (Windowed, Counted)) else None for leaf in leaves)

    @property
    def report(self) -> Report | None:
        """The root operator of a query with windows; None if the query has none."""
        root = self.operators[-1]
        return root if isinstance(root, Report) else None

    @property
    def is_settled(self) -> bool:
        """Whether subscribers are told states of the graph only, at marks."""
        return isinstance(self.operators[-1], Settled)

    @property
    def is_stream(self) -> bool:
        """Whether the query returns a stream of reports rather than the solutions that hold."""
        return self.report is not None and self.report.reported is not Reported.CHANGES

    @property
    def conjunctive(self) -> ConjunctiveQuery | None:
        """The whole query as one conjunctive query, as ``parse_select`` returns it.

        None if it needs more operators.
        """
        distinct = len(self.operators) == 2 and isinstance(self.operators[1], Distinct)
        leaf = self.operators[0]
        if self.form is not Form.SELECT or not isinstance(leaf, Leaf) or len(self.operators) != 1 + distinct:
            return None
        return dataclasses.replace(leaf.query, names=self.names, distinct=distinct)
