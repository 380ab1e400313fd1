"""Read, translate and lower the text of a query to a standing query."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Final

from p2prdf.errors import QueryRefused
from p2prdf.rdf import algebra
from p2prdf.rdf.algebra import (
    NUMBER_NAME,
    REPORT_NAME,
    Existence,
    Form,
    Function,
    InferenceRule,
    Reported,
    StandingQuery,
)
from p2prdf.rdf.code_points import as_written
from p2prdf.rdf.execution import CALLS, NO_EXECUTION, Execution
from p2prdf.rdf.layouts import FIXED_ROWS_MAX, fixed_rows
from p2prdf.rdf.ordering import order_name
from p2prdf.rdf.standing import laws, relations, syntax
from p2prdf.rdf.standing.assembly import canonical
from p2prdf.rdf.standing.cursor import Cursor
from p2prdf.rdf.standing.form import FORM_BYTES_MAX, encode
from p2prdf.rdf.standing.graphs import Scope, merged
from p2prdf.rdf.standing.inference import Inference
from p2prdf.rdf.standing.lowering import Lowering
from p2prdf.rdf.standing.presence import every_graph
from p2prdf.rdf.standing.relations import Condition, Names, Relation, names_in, variables
from p2prdf.rdf.standing.selects import read_query
from p2prdf.rdf.standing.translation import GroupTranslator
from p2prdf.rdf.standing.triples import is_triple_term
from p2prdf.rdf.tokens import Symbol

__all__ = ["parse_query", "standing_query"]


@as_written
def parse_query(
    text: str, *, ordered: bool = False, rules: Sequence[InferenceRule] = (), execution: Execution = NO_EXECUTION
) -> StandingQuery:
    """Return the standing query of a SELECT, ASK or CONSTRUCT query, with or without windows.

    ``ordered``: the query is evaluated once; it cannot have windows.  Its solutions carry the keys of ORDER BY in
    further columns at the end (:func:`p2prdf.rdf.ordering.in_order`).  ``execution``: then determines the values of
    NOW, RAND, UUID, STRUUID and BNODE.

    ``rules``: triples that these derive from the default graph count as part of it; in a window, so do triples
    derived from its elements and the default graph.

    Raises QueryRefused, with the construct and its position, for a malformed or unsupported query.
    """
    read = read_query(text, execution if ordered else None)
    return standing_query(*read, Inference(rules), ordered=ordered)


def standing_query(
    cursor: Cursor, query: syntax.Query, inference: Inference | None = None, *, ordered: bool = False
) -> StandingQuery:
    """Return the standing query of a syntax tree, as :func:`parse_query` does for its text."""
    try:
        standing = _Translator(cursor, inference or Inference(()), ordered=ordered).query(query)
    except RecursionError:  # the caller may have used most of the stack
        raise QueryRefused("the query nests too deeply to be parsed", construct="nesting") from None
    if fixed_rows(standing.operators) > FIXED_ROWS_MAX:
        reason = f"the rows of VALUES make more than {FIXED_ROWS_MAX:,} rows, operators above them included"
        raise QueryRefused(reason, construct="VALUES")
    size = len(encode(standing))
    if size > FORM_BYTES_MAX:
        reason = f"expanded, it has {size} bytes, more than {FORM_BYTES_MAX}"
        raise QueryRefused(reason, construct="query length")
    return standing


_WHOLE: Final = Scope(lambda name: name)


class _Translator:
    def __init__(self, cursor: Cursor, inference: Inference, *, ordered: bool):
        self._inference = inference
        self._cursor = cursor
        self._shows_order = ordered
        self._groups = GroupTranslator(cursor, self._sub_select)

    def query(self, query: syntax.Query) -> StandingQuery:
        select, continuous = query.select, query.continuous
        whole = _WHOLE if continuous is None else dataclasses.replace(_WHOLE, window=continuous.window)
        if isinstance(whole.window, syntax.WindowMerge):
            whole = dataclasses.replace(whole, graph=merged(()))
        if query.dataset is not None:
            whole = dataclasses.replace(whole, graph=merged(query.dataset.default), named=query.dataset.named)
        lowering = Lowering(self._cursor.text, self._cursor.base, self._cursor.hidden, self._inference)
        names: Names = ()
        if query.form is Form.SELECT:
            names = self._projected(select)
            keys = tuple(
                order_name(number, descending=descending)
                for number, (_, descending) in enumerate(select.order if self._shows_order else ())
            )
            relation = self._select(select, names, whole, keys)
            names += keys
            root = lowering.whole(relation, names)
        elif query.form is Form.ASK:
            root = lowering.whole(self._select(select, (), whole), ())
            root = lowering.add(algebra.Distinct(root))
        else:
            terms = [term for triple in query.template for term in triple]
            solution = tuple(name for name in names_in(terms) if not name.startswith(".") or is_triple_term(name))
            root = lowering.whole(self._select(select, solution, whole), solution)
            root = lowering.add(algebra.Distinct(lowering.add(_construct(root, query.template, solution))))
            names = algebra.TRIPLE_NAMES
        if continuous is not None:
            root = lowering.add(algebra.Report(root, continuous.reported, continuous.every))
            names = self._with_time(names, continuous)
        found = StandingQuery(query.form, names, canonical(lowering.operators, root))
        if continuous is not None:
            self._check_windows(found, select.at)
        return found

    def _with_time(self, names: Names, continuous: syntax.Continuous) -> Names:
        """Return the names of a report's columns: a stream appends the time of the report, or time and number."""
        if continuous.reported is Reported.CHANGES:
            return names
        behind = {REPORT_NAME: "time"} if continuous.every else {REPORT_NAME: "time", NUMBER_NAME: "number"}
        for name, what in behind.items():
            if name in names:
                reason = f"?{name} is the {what} of the report, which is appended to the projection; rename yours"
                raise self._cursor.refusal(continuous.at, continuous.reported.name, reason)
        return (*names, *behind)

    def _check_windows(self, found: StandingQuery, at: int) -> None:
        """Refuse windows in a query that is evaluated once, and a query with windows that uses none of them."""
        if self._shows_order:
            reason = "a query with windows has no single result: subscribe to it (subscribe instead of query)"
            raise self._cursor.refusal(at, "WINDOW in a one-time query", reason)
        if not any(isinstance(operator, (algebra.Windowed, algebra.Counted)) for operator in found.operators):
            raise self._cursor.refusal(at, "WINDOW", "no solution of the query depends on an element of a window")

    def _projected(self, select: syntax.Select) -> Names:
        if select.projection is not None:
            return tuple(projected.name for projected in select.projection)
        if select.keys is not None:
            raise self._cursor.refusal(select.at, "SELECT *", "grouped solutions must be projected by name")
        data = () if select.data is None else select.data.names
        return tuple(dict.fromkeys((*syntax.visible(select.group), *data)))

    def _sub_select(self, select: syntax.Select, outer: Scope) -> Relation:
        projected = self._projected(select)
        prefix = self._cursor.hidden("s")

        def renamed(name: str) -> str:
            if name.startswith("."):
                return name
            return outer(name) if name in projected else f"{prefix}:{name}"

        return self._select(select, tuple(map(outer, projected)), dataclasses.replace(outer, rename=renamed))

    def _select(self, select: syntax.Select, projected: Names, names: Scope, keys: Names = ()) -> Relation:
        """Return the solutions of a SELECT, projected (SPARQL 1.1, 18.2.4 and 18.2.5).

        ``keys``: columns for the keys of ORDER BY, after the others.
        """
        relation = self._groups.group(select.group, names)
        aggregates = self._aggregates(select)
        graph_variable = tuple(names.graph_variable_in(relation))
        projected += graph_variable
        if aggregates or select.having or select.keys is not None:
            relation = self._grouped(relation, select, aggregates, names, graph_variable)
        for condition in select.having:
            for part in self._groups.parts(condition):
                relation = self._groups.restricted(relation, part, names)
        if select.data is not None:
            relation = laws.join(relation, relations.Table(tuple(map(names, select.data.names)), select.data.rows))
        for each in select.projection or ():
            if each.expression is not None:
                relation = self._groups.extended(
                    relation, names(each.name), each.expression, names, each.at, "expression in SELECT"
                )
        sliced = select.limit is not None or select.offset > 0
        if not sliced and not keys:
            for expression, _ in select.order:
                self._groups.extended(relation, self._cursor.hidden("o"), expression, names, expression.at)
            relation = relations.Project(relation, projected)
            return relations.Distinct(relation) if select.distinct else relation
        chooses = select.distinct and not self._is_ordered_by(projected, select, names)
        if select.distinct and not chooses:
            relation = relations.Distinct(relations.Project(relation, projected))
        relation, order = self._ordered(relation, select, names)
        by = tuple(name for name, _ in order if name not in projected)
        relation = relations.Project(relation, tuple(dict.fromkeys(projected + by)))
        if chooses:  # DISTINCT keeps the first of the ordered solutions that project alike
            relation = relations.Slice(relation, order, 0, 1, select.at, projected)
        for column, (name, _) in zip(keys, order, strict=False):
            key = Condition((Symbol("var", name, select.at),), frozenset((name,)))
            relation = relations.Extend(relation, column, key)
        projected += keys
        if sliced:
            relation = relations.Slice(relation, order, select.offset, select.limit, select.at, graph_variable)
        return relations.Project(relation, projected)

    # --- order -------------------------------------------------------------------------------

    def _ordered(
        self, relation: Relation, select: syntax.Select, names: Scope
    ) -> tuple[Relation, tuple[tuple[str, bool], ...]]:
        """Return a relation extended by its sort keys, and the names of the keys with their direction."""
        order: list[tuple[str, bool]] = []
        for expression, descending in select.order:
            name = expression.variable
            if name is not None:
                name = self._groups.aliases.get(name, name if name.startswith(".") else names(name))
            if name is None or name not in variables(relation):
                name = self._cursor.hidden("o")
                relation = self._groups.extended(relation, name, expression, names, expression.at)
            order.append((name, descending))
        return relation, tuple(order)

    def _is_ordered_by(self, projected: Names, select: syntax.Select, names: Scope) -> bool:
        """Tell whether all sort keys are functions of projected variables."""
        symbols = [symbol for expression, _ in select.order for symbol in expression.symbols]
        return all(
            names(symbol.value) in projected if symbol.kind == "var" else not symbol.is_word(*CALLS)
            for symbol in symbols
        )

    # --- groups of solutions -----------------------------------------------------------------

    def _aggregates(self, select: syntax.Select) -> dict[str, syntax.AggregateCall]:
        expressions = [
            *(each.expression for each in select.projection or () if each.expression is not None),
            *select.having, *(expression for expression, _ in select.order),
        ]  # fmt: skip
        return {name: call for expression in expressions for name, call in expression.aggregates.items()}

    def _grouped(
        self, relation: Relation, select: syntax.Select, calls: dict[str, syntax.AggregateCall], names: Scope,
        graph_variable: Names,
    ) -> Relation:  # fmt: skip
        keys = list(graph_variable)
        for key in select.keys or ():
            name = names(key.name)
            if key.expression is not None:
                relation = self._groups.extended(relation, name, key.expression, names, key.at, "GROUP BY")
            keys.append(name)
        self._check_grouped(select, keys, names)
        visible = tuple(dict.fromkeys(map(names, syntax.visible(select.group))))
        found: dict[tuple[Function, Names, bool, str], relations.Aggregated] = {}
        for name, call in calls.items():
            arguments: Names = visible if call.distinct else ()
            if call.argument is not None:
                relation, argument = self._argument(relation, call.argument, names)
                arguments = (argument,)
            what = (call.function, arguments, call.distinct, call.separator)
            known = found.setdefault(what, relations.Aggregated(name, *what))
            self._groups.aliases[name] = known.name
        made = tuple(found.values())
        group = relations.Group(relation, tuple(dict.fromkeys(keys)), made, select.at)
        if select.keys is not None or not graph_variable:
            return group
        # Without keys there is one group in each graph, also in those without solutions.
        others = relations.Exists(every_graph(graph_variable[0], select.at), relation, Existence.NONE)
        empty = relations.Group(relations.Table(variables(relation), ()), (), made, select.at)
        return relations.Union((group, relations.Join(others, empty)))

    def _argument(
        self, relation: Relation, expression: syntax.Expression, names: Scope
    ) -> tuple[Relation, str]:
        """Return a relation that contains the argument of an aggregate, and the name of the argument in it."""
        name = expression.variable
        if name is not None and names(name) in variables(relation):
            return relation, names(name)
        hidden = self._cursor.hidden("x")
        return self._groups.extended(relation, hidden, expression, names, expression.at), hidden

    def _check_grouped(self, select: syntax.Select, keys: Iterable[str], names: Scope) -> None:
        """Refuse variables outside of keys and aggregates: they have several values in a group (18.2.4.1)."""
        known = set(keys)
        for each in select.projection or ():
            if each.expression is None and names(each.name) not in known:
                reason = f"?{each.name} is neither a key of GROUP BY nor in an aggregate"
                raise self._cursor.refusal(each.at, "ungrouped variable", reason)
            if each.expression is not None:
                self._check_expression(each.expression, known, names)
                known.add(names(each.name))
        for expression in (*select.having, *(expression for expression, _ in select.order)):
            self._check_expression(expression, known, names)

    def _check_expression(self, expression: syntax.Expression, known: set[str], names: Scope) -> None:
        for symbol in expression.symbols:
            if symbol.kind == "var" and not symbol.value.startswith(".") and names(symbol.value) not in known:
                reason = f"?{symbol.value} is neither a key of GROUP BY nor in an aggregate"
                raise self._cursor.refusal(symbol.at, "ungrouped variable", reason)


def _construct(root: int, template: list[tuple[str, str, str]], solution: Names) -> algebra.Construct:
    blanks: dict[str, int] = {}
    constants: dict[str, int] = {}

    def slot(term: str) -> int:
        if not syntax.is_variable(term):
            return ~constants.setdefault(term, len(constants))
        name = term[1:]
        return solution.index(name) if name in solution else len(solution) + blanks.setdefault(name, len(blanks))

    triples = tuple((slot(s), slot(p), slot(o)) for s, p, o in template)
    return algebra.Construct(root, triples, tuple(constants))
