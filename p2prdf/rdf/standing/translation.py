"""Translate the tree of a query to relations (SPARQL 1.1, 18.2).

A group is folded from its first element to its last.  Its filters are applied last, independent of their positions;
the filters in an OPTIONAL become the condition of the left join (18.2.2.6).  Variables that a sub-query does not
project differ from outer variables of the same name, so they are renamed here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

from p2prdf.rdf import filters, tokens
from p2prdf.rdf.algebra import Existence
from p2prdf.rdf.compiled import ExpressionChecker
from p2prdf.rdf.execution import with_values
from p2prdf.rdf.query import PATTERNS_MAX, Filter
from p2prdf.rdf.standing import graphs, labels, laws, paths, relations, syntax
from p2prdf.rdf.standing.cursor import Cursor
from p2prdf.rdf.standing.graphs import Scope
from p2prdf.rdf.standing.presence import if_graph_exists
from p2prdf.rdf.standing.relations import Basic, Condition, Relation, certain, mentioned, variables
from p2prdf.rdf.tokens import Symbol

__all__ = ["GroupTranslator"]

_Part: TypeAlias = tuple[list[Symbol], syntax.Expression]
"""A conjunct of a filter, and the expression that defines its hidden variables."""


class GroupTranslator:
    """Translates groups; ``cursor`` has read the query, ``select`` translates a sub-query."""

    def __init__(self, cursor: Cursor, select: Callable[[syntax.Select, Scope], Relation]):
        self.text = cursor.text
        self._base = cursor.base
        self._hidden = cursor.hidden
        self._execution = cursor.execution
        self._select = select
        self._checker = ExpressionChecker(cursor.text)
        self.aliases: dict[str, str] = {}
        """Hidden names of aggregates that equal an earlier one."""

    def group(self, group: syntax.Group, names: Scope) -> Relation:
        """Return the solutions of a group."""
        relation, conditions = self._elements(group, names)
        for part in conditions:
            relation = self.restricted(relation, part, names)
        return relation

    def _elements(self, group: syntax.Group, names: Scope) -> tuple[Relation, list[_Part]]:
        """Return a group without its filters, and the filters."""
        relation: Relation = Basic()
        conditions: list[_Part] = []
        for element in group.elements:
            match element:
                case syntax.Expression():
                    conditions += self.parts(element)
                case syntax.OptionalGroup(inner):
                    relation = self._optional(relation, inner, names)
                case syntax.MinusGroup(inner):
                    right = self.group(inner, names)
                    shared = frozenset(variables(relation)).intersection(variables(right)) - names.graph_variable
                    # MINUS keeps solutions without a common variable (18.5), so without shared variables it has no
                    # effect.
                    if shared:
                        self._require_graph(relation, names, names.graph_variable_in(right))
                        relation = relations.Minus(relation, right, shared)
                case syntax.Bind(expression, name, at):
                    relation = self.extended(relation, names(name), expression, names, at)
                case syntax.Triples(triples):
                    relation = self._triples(relation, triples, names)
                case syntax.LabelService():
                    relation = labels.labelled(self.text, relation, element, names, self._hidden, self.extended)
                case _:
                    relation = laws.join(relation, self._operand(element, names))
        return relation, conditions

    def _operand(
        self,
        element: syntax.Group | syntax.UnionGroups | syntax.GraphGroup | syntax.WindowGroup | syntax.InlineData
        | syntax.Select,
        names: Scope,
    ) -> Relation:  # fmt: skip
        match element:
            case syntax.Group():
                return self.group(element, names)
            case syntax.GraphGroup():
                return self._graph(element, names)
            case syntax.WindowGroup(window, group):
                return self.group(group, dataclasses.replace(names, window=window))
            case syntax.UnionGroups(groups):
                union = relations.Union(tuple(self.group(inner, names) for inner in groups))
                self._require_graph(union, names, names.graph_variable_in(union))
                return union
            case syntax.InlineData(variables_named, rows):
                return relations.Table(tuple(map(names, variables_named)), rows)
        return self._select(element, names)

    def _graph(self, element: syntax.GraphGroup, names: Scope) -> Relation:
        """Return the solutions of a group in one graph, or in each graph."""
        within = dataclasses.replace(names, graph=renamed(element.name, names), at=element.at, window=None)
        if within.graph_variable and graphs.named_inside(element.group, element.name):
            reason = (
                f"{element.name} has no value inside its own braces, except in a triple pattern outside of OPTIONAL, "
                "MINUS and EXISTS; write conditions on the graph after the braces"
            )
            raise tokens.refusal(self.text, element.at, f"GRAPH {element.name}", reason)
        relation = self.group(element.group, within)
        self._require_graph(relation, within, within.graph_variable)
        if within.graph_variable:
            if names.named is None:
                return relation
            return laws.join(relation, relations.Table(tuple(within.graph_variable), tuple((g,) for g in names.named)))
        if names.named is not None and within.graph not in names.named:
            return relations.Table(variables(relation), ())
        return if_graph_exists(relation, within.graph, element.at)

    def _require_graph(self, relation: Relation, names: Scope, graph_variable: frozenset[str]) -> None:
        """Refuse a part with the same solutions in all graphs, combined with a part that differs by graph."""
        if graph_variable and names.is_same_in_all_graphs(relation):
            reason = (
                "a part without a triple pattern, before OPTIONAL, MINUS or EXISTS, as a branch of UNION, or alone, "
                "would hold in every possible graph"
            )
            raise tokens.refusal(self.text, names.at, "GRAPH with a variable", reason)

    def _triples(self, relation: Relation, triples: list[syntax.Triple], names: Scope) -> Relation:
        found: list[Relation] = []
        for number, each in enumerate(triples):
            s, o = renamed(each.subject, names), renamed(each.object, names)
            path = paths.normal(paths.renamed(each.path, names))
            if names.graph in (s, o) and paths.repeats(path):
                reason = "it begins or ends with the variable of its graph; compare the variables after the braces"
                raise tokens.refusal(self.text, each.at, "repeated property path in GRAPH", reason)
            if names.window is not None and paths.takes_any(path):
                reason = "elements of a window are selected by predicate: name one"
                raise tokens.refusal(self.text, each.at, "variable or negated predicate in WINDOW", reason)
            found.append(paths.between(s, path, o, each.at, f"{each.at}.{number}", names.graph, names.window))
        # Triple patterns first: they form one leaf, and bind the starts of paths.
        basic = [part for part in found if isinstance(part, Basic)]
        count = len(graphs.condensed(pattern for part in basic for pattern in part.patterns))
        if count > PATTERNS_MAX:
            reason = f"{count} triple patterns in one group, more than {PATTERNS_MAX}"
            if names.graph_variable:
                reason += "; with a variable graph, each predicate counts as one"
            raise tokens.refusal(self.text, triples[0].at, "triple patterns", reason)
        for part in (*basic, *(part for part in found if not isinstance(part, Basic))):
            relation = laws.join(relation, part)
        return relation

    def _optional(self, left: Relation, group: syntax.Group, names: Scope) -> Relation:
        right, conditions = self._elements(group, names)
        kept: list[Condition] = []
        exists: list[tuple[str, Relation]] = []
        for part in conditions:
            symbols, expression = part
            groups = self._groups(left, symbols, expression, names)
            solution = tuple(dict.fromkeys(variables(left) + variables(right)))
            condition = self.condition(symbols, solution, names, frozenset(groups))
            # If the right side binds all outer variables that the group uses, EXISTS is evaluated there.
            outer = frozenset[str]().union(*map(mentioned, groups.values())).intersection(variables(left))
            own = Condition(condition.symbols, frozenset(solution))
            if outer <= certain(right) and laws.decided_by(own, right, left):
                right = self._restricted(right, condition, groups)
            else:
                kept.append(condition)
                exists += groups.items()
        self._require_graph(left, names, names.graph_variable_in(right))
        return relations.LeftJoin(left, right, tuple(kept), tuple(exists))

    # --- expressions -------------------------------------------------------------------------

    def parts(self, expression: syntax.Expression) -> list[_Part]:
        """Return the conjuncts of a filter."""
        found = []
        for symbols in filters.conjuncts(expression.symbols):
            if not symbols:
                raise tokens.refusal(self.text, expression.at, "syntax error", "an empty condition")
            found.append((symbols, expression))
        return found

    def restricted(self, relation: Relation, part: _Part, names: Scope) -> Relation:
        """Return the solutions for which a conjunct holds."""
        symbols, expression = part
        groups = self._groups(relation, symbols, expression, names)
        condition = self.condition(symbols, _solution(relation), names, frozenset(variables(relation)).union(groups))
        return self._restricted(relation, condition, groups)

    def _restricted(self, relation: Relation, condition: Condition, groups: dict[str, Relation]) -> Relation:
        if not groups:
            return laws.restrict(relation, condition)
        symbols = [symbol for symbol in condition.symbols if not symbol.is_mark("(", ")")]
        if len(symbols) == 1:
            return relations.Exists(relation, groups[symbols[0].value], Existence.SOME)
        if len(symbols) == 2 and symbols[0].is_mark("!"):
            return relations.Exists(relation, groups[symbols[1].value], Existence.NONE)
        return laws.restrict(_marked(relation, groups), condition)

    def extended(
        self, relation: Relation, name: str, expression: syntax.Expression, names: Scope, at: int,
        construct: str = "BIND",
    ) -> Relation:  # fmt: skip
        """Return solutions with the value of an expression under a name; ``construct`` is the clause."""
        if name in variables(relation):
            shown = name.rpartition(":")[2]
            raise tokens.refusal(self.text, at, construct, f"?{shown} is bound already, and cannot be bound again")
        groups = self._groups(relation, expression.symbols, expression, names)
        relation = _marked(relation, groups)
        condition = self.condition(expression.symbols, _solution(relation), names, frozenset(variables(relation)))
        return relations.Extend(relation, name, condition)

    def condition(
        self, symbols: list[Symbol], solution: relations.Names, names: Scope, more: frozenset[str]
    ) -> Condition:
        """Return an expression with the names of the whole query.  Raises QueryRefused if it is invalid.

        ``solution``: the names that make up a solution; ``more``: further names in scope.
        """
        renamed_symbols = tuple(
            symbol._replace(value=self.aliases.get(symbol.value) or names(symbol.value))
            if symbol.kind == "var" else symbol
            for symbol in symbols
        )  # fmt: skip
        if self._execution is not None:
            renamed_symbols = with_values(self.text, renamed_symbols, solution, self._execution)
        found = Condition(renamed_symbols, more.union(solution))
        numbers = {name: number for number, name in enumerate(found.names)}
        self._checker.check(Filter(*filters.spell(list(found.symbols), numbers, self._base)), found.at)
        return found

    def _groups(
        self, asking: Relation, symbols: list[Symbol], expression: syntax.Expression, names: Scope
    ) -> dict[str, Relation]:
        """Return the groups of the EXISTS among symbols, by hidden variable.

        ``asking``: the relation with the solutions that EXISTS tests.
        """
        found = [symbol.value for symbol in symbols if symbol.kind == "var" and symbol.value in expression.groups]
        groups = {name: self.group(expression.groups[name], names) for name in found}
        for group in groups.values():
            self._require_graph(asking, names, names.graph_variable_in(group))
        return groups


def renamed(term: str, names: Scope) -> str:
    """Return a term of a pattern with its name in the whole query."""
    return "?" + names(term[1:]) if syntax.is_variable(term) else term


def _solution(relation: Relation) -> relations.Names:
    """Return the variables of which all others are functions."""
    match relation:
        case relations.Extend(input) | relations.Exists(input) | relations.Filter(input):
            return _solution(input)
    return variables(relation)


def _marked(relation: Relation, groups: dict[str, Relation]) -> Relation:
    for name, group in groups.items():
        relation = relations.Exists(relation, group, Existence.MARK, name)
    return relation
