"""Lower relations to operators by position, each with only the columns needed above it.

The needed names are passed down; the number of an operator and the names of its columns are returned.  A leaf thus
projects few columns, but keeps all its solutions: equal rows count as often as there are choices of triples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from p2prdf.rdf import algebra, filters, quads, terms
from p2prdf.rdf.algebra import Existence, Expression, Shared
from p2prdf.rdf.compiled import ALWAYS
from p2prdf.rdf.standing import laws, leaves, paths, relations
from p2prdf.rdf.standing.assembly import Assembly
from p2prdf.rdf.standing.correlation import Correlation, is_stable
from p2prdf.rdf.standing.inference import Inference, inferred_patterns, is_inferred, plain_pattern
from p2prdf.rdf.standing.path_seeds import Start, constants_of, evaluable_order
from p2prdf.rdf.standing.presence import every_graph
from p2prdf.rdf.standing.relations import (
    Basic,
    Condition,
    Names,
    Pattern,
    Relation,
    certain,
    mentioned,
    names_in,
    variables,
)
from p2prdf.rdf.standing.syntax import Alternative, Path, Repeat, StreamWindow, is_variable
from p2prdf.rdf.tokens import refusal

__all__ = ["Lowered", "Lowering"]


_CONSTANTS_MAX: Final = 8
"""Most constants at the start of a path that are looked up one by one; beyond it, all triples of the graph are read."""


class Lowered(NamedTuple):
    """An operator's number and the names of its columns."""

    number: int
    names: Names

    def places(self, names: Iterable[str]) -> tuple[int, ...]:
        """Return the columns of names."""
        return tuple(map(self.names.index, names))


class Lowering:
    """Lowers relations of one query."""

    def __init__(self, text: str, base: str | None, hidden: Callable[[str], str], inference: Inference):
        self._text = text
        self._inference = inference
        self._needed: dict[StreamWindow | None, dict[Pattern, None]] = {}
        """The patterns that derived triples can match, in the default graph and in each window."""
        self._inferred: dict[StreamWindow | None, int] = {}
        self._base = base
        self._hidden = hidden
        self._assembly = Assembly()
        self._add = self._assembly.add
        self._given: dict[relations.Given, Lowered] = {}
        """The lowered form of each relation that is passed down."""

    @property
    def operators(self) -> list[algebra.Operator]:
        """All operators added so far, by number."""
        return self._assembly.operators

    def add(self, operator: algebra.Operator) -> int:
        """Add an operator over operators that were added before; return its number."""
        return self._add(operator)

    def whole(self, relation: Relation, names: Names) -> int:
        """Lower the relation of a whole query, as :meth:`exactly` does."""
        for window, pattern in inferred_patterns(relation, self._inference):
            self._needed.setdefault(window, {})[pattern] = None
        return self.exactly(relation, names)

    def exactly(self, relation: Relation, names: Names) -> int:
        """Lower a relation to rows of exactly these columns; a name that it does not have is never bound."""
        if isinstance(relation, relations.Project):
            relation = relation.input
        if isinstance(relation, Basic) and relation.patterns and set(names) <= set(variables(relation)):
            return self._leaf(relation, names)
        return self._laid_out(self.lower(relation, frozenset(names)), names)

    def lower(self, relation: Relation, needed: frozenset[str]) -> Lowered:
        """Lower a relation to the columns needed of it, in the order of its variables."""
        return self._kept(self._lower(relation, needed), needed)

    def _kept(self, lowered: Lowered, needed: frozenset[str]) -> Lowered:
        names = tuple(name for name in lowered.names if name in needed)
        return Lowered(self._laid_out(lowered, names), names)

    def _laid_out(self, lowered: Lowered, names: Names) -> int:
        if lowered.names == names:
            return lowered.number
        columns = tuple(lowered.names.index(name) if name in lowered.names else -1 for name in names)
        below = self.operators[lowered.number]
        if isinstance(below, algebra.Project):
            columns = tuple(below.columns[at] if at >= 0 else -1 for at in columns)
            return self._add(algebra.Project(below.input, columns))
        return self._add(algebra.Project(lowered.number, columns))

    def _lower(self, relation: Relation, needed: frozenset[str]) -> Lowered:
        match relation:
            case Basic():
                return self._basic(relation, needed)
            case relations.Table(names, rows):
                places = [at for at, name in enumerate(names) if name in needed]
                kept = tuple(tuple(row[at] for at in places) for row in rows)
                return Lowered(self._add(algebra.Table(len(places), kept)), tuple(names[at] for at in places))
            case relations.Given():
                return self._given[relation]
            case relations.Union(branches):
                names = tuple(name for name in variables(relation) if name in needed)
                numbers = tuple(self.exactly(branch, names) for branch in branches)
                return Lowered(self._add(algebra.Union(numbers)) if len(numbers) > 1 else numbers[0], names)
            case relations.Filter(input, condition):
                lowered = self.lower(input, needed | condition.seen)
                return Lowered(self._filtered(lowered, condition), lowered.names)
            case relations.Extend(input, name, expression):
                if name not in needed:
                    return self.lower(input, needed)
                lowered = self.lower(input, needed | expression.seen)
                return Lowered(self._extended(lowered, expression), (*lowered.names, name))
            case relations.Project(input, names):
                lowered = self.lower(input, needed.intersection(names))
                unbound = tuple(name for name in names if name in needed and name not in lowered.names)
                return Lowered(self._laid_out(lowered, lowered.names + unbound), lowered.names + unbound)
            case relations.Distinct(input):
                names = variables(relation)
                return Lowered(self._distinct(self.exactly(input, names)), names)
            case relations.Group():
                return self._group(relation)
            case relations.Slice(input, order, offset, limit):
                names = variables(relation)
                by = tuple((names.index(name), descending) for name, descending in order)
                number = self.exactly(input, names)
                if not relation.partition:
                    return Lowered(self._add(algebra.Slice(number, by, offset, limit)), names)
                parts = tuple(map(names.index, relation.partition))
                return Lowered(self._add(algebra.Slices(number, parts, by, offset, limit)), names)
        return self._of_two(relation, needed)

    def _distinct(self, number: int) -> int:
        below = self.operators[number]
        windowed = (algebra.Windowed, algebra.Counted)
        if isinstance(below, algebra.Distinct) and isinstance(self.operators[below.input], windowed):
            return number  # rows of a window's leaf are distinct already
        return self._add(algebra.Distinct(number))

    # --- leaves and conditions ---------------------------------------------------------------

    def _basic(self, basic: Basic, needed: frozenset[str]) -> Lowered:
        names = tuple(name for name in variables(basic) if name in needed)
        if basic.patterns:
            return Lowered(self._leaf(basic, names), names)
        number = self._add(algebra.Table(0, ((),)))
        for condition in basic.conditions:
            number = self._filtered(Lowered(number, ()), condition)
        return Lowered(number, ())

    def _leaf(self, basic: Basic, names: Names) -> int:
        """Return the solutions of a pattern as rows of these columns.

        In a window, a triple counts once, even if several elements contain it: rows are distinct over all variables,
        including blank nodes and steps of paths.
        """
        inferred = [each for each in basic.patterns if is_inferred(each, basic, self._inference)]
        return self._with_inferred(basic, inferred, names) if inferred else self._plain_leaf(basic, names)

    def _plain_leaf(self, basic: Basic, names: Names) -> int:
        beyond = leaves.too_long(basic, self._base)
        if not beyond:
            return self._short_leaf(basic, names)
        read = frozenset(names).union(*(condition.seen for condition in beyond))
        full = tuple(name for name in variables(basic) if name in read)
        kept = tuple(condition for condition in basic.conditions if condition not in beyond)
        found = Lowered(self._short_leaf(dataclasses.replace(basic, conditions=kept), full), full)
        return self._laid_out(self._all_joined(found, (), beyond), names)

    def _short_leaf(self, basic: Basic, names: Names) -> int:
        if basic.window is None:
            return self._add(algebra.Leaf(leaves.conjunctive_query(basic, names, self._base)))
        window, full = basic.window.window, variables(basic)
        if isinstance(window, algebra.CountWindow):
            return self._counted_leaf(basic, window, names)
        leaf = algebra.Windowed(leaves.conjunctive_query(basic, full, self._base), window)
        return self._laid_out(Lowered(self._add(algebra.Distinct(self._add(leaf))), full), names)

    def _counted_leaf(self, basic: Basic, window: algebra.CountWindow, names: Names) -> int:
        """Return the solutions of a pattern over a window by count, joined at the coordinator."""
        leaf = algebra.Counted(leaves.whole_stream(window.stream), window)
        number = self._add(algebra.Distinct(self._add(leaf)))
        # A predicate in a stream is a literal that no text may spell, so its parts are compared.
        found = [self._matched(number, pattern, "STR ( ?v1 )") for pattern in basic.patterns]
        return self._laid_out(self._all_joined(None, found, basic.conditions), names)

    # --- derived triples ---------------------------------------------------------------------

    def _with_inferred(self, basic: Basic, inferred: Sequence[Pattern], names: Names) -> int:
        """Return the solutions of a pattern of which derived triples can match a part."""
        rest = tuple(pattern for pattern in basic.patterns if pattern not in inferred)
        seen = frozenset(name for pattern in rest for name in names_in(pattern))
        own = tuple(each for each in basic.conditions if each.names and seen.issuperset(each.names))
        found: Lowered | None = None
        if rest:
            leaf = dataclasses.replace(basic, patterns=rest, conditions=own)
            found = Lowered(self._leaf(leaf, variables(leaf)), variables(leaf))
        left = [self._matching(pattern, basic.window) for pattern in inferred]
        conditions = [condition for condition in basic.conditions if condition not in own]
        return self._laid_out(self._all_joined(found, left, conditions), names)

    def _all_joined(
        self, found: Lowered | None, left: Sequence[Lowered], conditions: Iterable[Condition]
    ) -> Lowered:
        """Return the join of all operands, those with shared variables first, filtered by the conditions."""
        left = list(left)
        while left:
            joined = frozenset() if found is None else frozenset(found.names)
            following = next((each for each in left if joined.intersection(each.names)), left[0])
            left.remove(following)
            found = following if found is None else self._joined(found, following)
        assert found is not None, "there is a pattern"
        for condition in conditions:
            found = Lowered(self._filtered(found, condition), found.names)
        return found

    def _matching(self, pattern: Pattern, window: StreamWindow | None) -> Lowered:
        """Return the derived and base triples that match a pattern, with a column for each of its variables."""
        return self._matched(self._closed(window), plain_pattern(pattern, window))

    def _matched(self, number: int, plain: Pattern, predicate: str = "?v1") -> Lowered:
        """Return the rows of an operator with triples that match a pattern, with a column for each variable.

        ``predicate``: the expression to compare with the predicate's text, if not with its term (in a stream).
        """
        tests = [f"SAMETERM ( ?v{at} , {part} )" for at, part in enumerate(plain) if not is_variable(part)]
        if predicate != "?v1":
            lexical = terms.literal(terms.lexical(plain[1]))
            tests = [f"SAMETERM ( {predicate} , {lexical} )", *(each for each in tests if "( ?v1 ," not in each)]
        for at, part in enumerate(plain):
            if is_variable(part) and plain.index(part) < at:
                tests.append(f"SAMETERM ( ?v{plain.index(part)} , ?v{at} )")
        for test in tests:
            read = tuple(at for at in range(3) if f"?v{at} " in test)
            number = self._add(algebra.Filter(number, Expression(test, read)))
        shown = tuple(dict.fromkeys(part for part in plain if is_variable(part)))
        columns = tuple(map(plain.index, shown))
        names = tuple(part[1:] for part in shown)
        return Lowered(number if columns == (0, 1, 2) else self._add(algebra.Project(number, columns)), names)

    def _closed(self, window: StreamWindow | None) -> int:
        """Return the closure under the rules of the default graph, with the elements of a window if given."""
        number = self._inferred.get(window)
        if number is None:
            needed = self._needed[window]
            patterns = self._inference.needed(needed)
            sources = [self._triples(pattern, None) for pattern in patterns]
            if window is not None:
                sources += [self._triples(pattern, window) for pattern in patterns]
            number = self._add(algebra.Union(tuple(sources))) if len(sources) > 1 else sources[0]
            number = self._add(algebra.Inferred(number, self._inference.rules_for(p for _, p, _ in needed)))
            self._inferred[window] = number
        return number

    def _triples(self, pattern: Pattern, window: StreamWindow | None) -> int:
        """Return the published triples that match a pattern without repeated variables, in three columns."""
        s, p, o = pattern
        graph_p = p if window is None else quads.streamed(p, window.stream)
        basic = Basic(((s, graph_p, o),), (), 0, window)
        names = variables(basic)
        number, row = self._plain_leaf(basic, names), list(names)
        for part in (s, p, o):
            if not is_variable(part):
                number = self._add(algebra.Extend(number, Expression(part, ())))
                row.append(part)
        columns = tuple(row.index(part[1:] if is_variable(part) else part) for part in pattern)
        return self._add(algebra.Project(number, columns))

    def _filtered(self, lowered: Lowered, condition: Condition) -> int:
        decided = leaves.decided(self._spelled(condition, lowered.names))
        return lowered.number if decided == ALWAYS else self._add(algebra.Filter(lowered.number, decided))

    def _extended(self, lowered: Lowered, expression: Condition) -> int:
        if len(expression.symbols) == 1 and expression.seen:
            return self._laid_out(lowered, (*lowered.names, *expression.seen))  # a variable under a second name
        return self._add(algebra.Extend(lowered.number, self._spelled(expression, lowered.names)))

    def _spelled(self, condition: Condition, names: Names) -> Expression:
        numbers = {name: at for at, name in enumerate(names) if name in condition.scope}
        return Expression(*filters.spell(list(condition.symbols), numbers, self._base))

    def _group(self, group: relations.Group) -> Lowered:
        arguments = [name for each in group.aggregates for name in each.arguments]
        read = tuple(dict.fromkeys((*group.keys, *arguments)))
        number = self.exactly(group.input, read)
        aggregates = tuple(
            algebra.Aggregate(each.function, tuple(map(read.index, each.arguments)), each.distinct, each.separator)
            for each in group.aggregates
        )
        keys = tuple(map(read.index, group.keys))
        return Lowered(self._add(algebra.Group(number, keys, aggregates)), variables(group))

    # --- paths -------------------------------------------------------------------------------

    def _path(self, path: relations.PathPattern, seeds: Lowered | None) -> Lowered:
        """Lower a path between two terms; ``seeds``: the possible values of the variable at one end."""
        names = variables(path)
        constants = [term for term in (path.subject, path.object) if not is_variable(term)]
        if seeds is None and not constants and paths.may_be_empty(path.path):
            name = names[0]
            seeded = (*path.graph_variable, name)
            seeds = Lowered(self.exactly(relations.Distinct(self._nodes(path, name, None)), seeded), seeded)
        starts: Relation = Basic() if seeds is None else self._seeded(seeds)
        if isinstance(path.path, Alternative):
            ways = [self._between(path.subject, branch, path.object, path) for branch in path.path.paths]
            return Lowered(self.exactly(relations.Union(tuple(laws.join(starts, way) for way in ways)), names), names)
        assert isinstance(path.path, Repeat), "all other paths are triple patterns"
        if path.path.sign == "?":
            step = laws.join(starts, self._between(path.subject, path.path.path, path.object, path))
            if seeds is None:
                stays: Relation = paths.no_step(path.subject, path.object)
                for name in path.graph_variable:
                    stays = laws.join(every_graph(name, path.at), stays)
                none = self.exactly(stays, names)
            else:
                columns = tuple(0 if name == seeds.names[0] else len(seeds.names) - 1 for name in names)
                none = self._add(algebra.Project(seeds.number, columns))
            both = self._add(algebra.Union((none, self.exactly(step, names))))
            return Lowered(self._add(algebra.Distinct(both)), names)
        return self._closure(path, path.path, seeds)

    def _closure(self, path: relations.PathPattern, repeat: Repeat, seeds: Lowered | None) -> Lowered:
        first, last = "?" + self._hidden("n"), "?" + self._hidden("n")
        if paths.may_be_empty(repeat.path):
            reason = "a sequence of that many optional steps is not supported under * and +"
            raise refusal(self._text, path.at, f"property path {repeat.sign}", reason)
        graph = path.graph_variable
        edges = self.exactly(self._between(first, repeat.path, last, path), (*graph, first[1:], last[1:]))
        ends = (path.subject, path.object)
        start: int | None = None
        backward = False
        if seeds is not None:
            start, backward = seeds.number, "?" + seeds.names[-1] != path.subject
        elif not all(map(is_variable, ends)):
            backward = is_variable(path.subject)
            start = self._constant(path.object if backward else path.subject)
            if graph and repeat.sign == "*":
                start = self._add(algebra.Join(self.exactly(every_graph(graph[0], path.at), graph), start, ()))
            elif graph:
                graphs = self._add(algebra.Distinct(self._add(algebra.Project(edges, (0,)))))
                start = self._add(algebra.Join(graphs, start, ()))
        number = self._add(algebra.Closure(edges, start, backward, repeat.sign == "*"))
        for at, term in enumerate(ends, len(graph)):
            if not is_variable(term):
                number = self._add(algebra.Join(number, self._constant(term), ((at, 0),)))
        if path.subject == path.object and is_variable(path.subject):
            one, other = len(graph), len(graph) + 1
            same = Expression(f"SAMETERM ( ?v{one} , ?v{other} )", (one, other))
            number = self._add(algebra.Filter(number, same))
        names = variables(path)
        columns = tuple(0 if name in graph else ends.index("?" + name) + len(graph) for name in names)
        return Lowered(number if columns == (0, 1) else self._add(algebra.Project(number, columns)), names)

    def _nodes(self, path: relations.PathPattern, name: str, constants: Iterable[str] | None) -> Relation:
        """Return the nodes of a path's graph as values of a variable; ``constants``: only these."""
        if path.window is not None:
            sign = path.path.sign if isinstance(path.path, Repeat) else "|"
            reason = (
                "a path without steps relates every node of the window to itself, and elements are selected by "
                "predicate; bind its start by a constant or by a triple pattern of the same group"
            )
            raise refusal(self._text, path.at, f"property path {sign}", reason)
        return paths.nodes("?" + name, constants, path.at, self._hidden("w"), path.graph)

    def _seeds(
        self, path: relations.PathPattern, start: Start, found: Lowered, before: Iterable[Relation]
    ) -> Lowered | None:
        """Return the values at the start of a path; only nodes, if the path may have no step."""
        name = start.name
        if path.graph_variable:
            return self._keyed_seeds(path, start, found, tuple(before))
        number = self._add(algebra.Distinct(self._laid_out(found, (name,))))
        if not start.is_node and paths.may_be_empty(path.path):
            constants = constants_of(name, before)
            if constants is not None and len(constants) > _CONSTANTS_MAX:
                constants = None
            nodes = self.exactly(self._nodes(path, name, constants), (name,))
            number = self._add(algebra.Exists(number, nodes, ((0, 0),), Existence.SOME))
        return Lowered(number, (name,))

    def _keyed_seeds(
        self, path: relations.PathPattern, start: Start, found: Lowered, before: Sequence[Relation]
    ) -> Lowered | None:
        """Return the graphs and values at the start of a path in any graph; None: all edges are starts."""
        seeded = (*path.graph_variable, start.name)
        known = frozenset[str]().union(*map(certain, before))
        if seeded[0] in known:
            number = self._add(algebra.Distinct(self._laid_out(found, seeded)))
            if not start.is_node and paths.may_be_empty(path.path):
                nodes = self.exactly(self._nodes(path, start.name, None), seeded)
                number = self._add(algebra.Exists(number, nodes, ((0, 0), (1, 1)), Existence.SOME))
            return Lowered(number, seeded)
        if not paths.may_be_empty(path.path):
            return None
        values = self._add(algebra.Distinct(self._laid_out(found, (start.name,))))
        if start.is_node:  # EXISTS gives it, so it counts as a constant
            every = self.exactly(every_graph(seeded[0], path.at), path.graph_variable)
            return Lowered(self._add(algebra.Join(every, values, ())), seeded)
        nodes = self.exactly(relations.Distinct(self._nodes(path, start.name, None)), seeded)
        return Lowered(self._add(algebra.Join(nodes, values, ((1, 0),))), seeded)

    def _constant(self, term: str) -> int:
        return self._add(algebra.Table(1, ((term,),)))

    def _between(self, s: str, path: Path, o: str, whole: relations.PathPattern) -> Relation:
        return paths.between(s, path, o, whole.at, self._hidden("w"), whole.graph, whole.window)

    def _seeded(self, seeds: Lowered) -> relations.Given:
        given = relations.Given(seeds.names, frozenset(seeds.names), ())
        self._given[given] = seeds
        return given

    # --- two inputs --------------------------------------------------------------------------

    def _of_two(
        self,
        relation: relations.Join | relations.PathPattern | relations.LeftJoin | relations.Minus | relations.Exists,
        needed: frozenset[str],
    ) -> Lowered:
        match relation:
            case relations.Join() | relations.PathPattern():
                return self._join(relation, needed)
            case relations.LeftJoin(exists=exists) if exists:
                return self._left_join_with_exists(relation, needed)
            case relations.LeftJoin():
                return self._left_join(relation, needed)
            case relations.Minus(input, right, counted):
                common = frozenset(variables(input)).intersection(variables(right))
                first, second = self.lower(input, needed | common), self.lower(right, common)
                keys, shared = (
                    tuple(pair for pair in _shared(first, second) if (first.names[pair[0]] in counted) is counts)
                    for counts in (False, True)
                )
                return Lowered(self._add(algebra.Minus(first.number, second.number, keys, shared)), first.names)
        return self._exists(relation, needed)

    def _join(self, relation: relations.Join | relations.PathPattern, needed: frozenset[str]) -> Lowered:
        """Join operands one after the other; a path follows the operands that bind its start."""
        found: Lowered | None = None
        operands = evaluable_order(_operands(relation))
        for at, (operand, seed) in enumerate(operands):
            rest = frozenset[str]().union(*(variables(other) for other, _ in operands[at + 1 :]))
            seen = frozenset[str]().union(*(variables(other) for other, _ in operands[:at]))
            wanted = (needed | rest | seen).intersection(variables(operand))
            if isinstance(operand, relations.PathPattern):
                seeds = None
                if seed is not None:
                    assert found is not None, "a seed is bound by what was joined before"
                    seeds = self._seeds(operand, seed, found, [other for other, _ in operands[:at]])
                following = self._kept(self._path(operand, seeds), wanted)
            else:
                following = self.lower(operand, wanted)
            found = following if found is None else self._kept(self._joined(found, following), needed | rest)
        assert found is not None, "a join has operands"
        return found

    def _joined(self, left: Lowered, right: Lowered) -> Lowered:
        number = self._add(algebra.Join(left.number, right.number, _shared(left, right)))
        return Lowered(number, _merged(left, right))

    def _left_join(self, relation: relations.LeftJoin, needed: frozenset[str]) -> Lowered:
        common = frozenset(variables(relation.input)).intersection(variables(relation.right))
        wanted = (needed | common).union(*(condition.seen for condition in relation.conditions))
        left, right = self.lower(relation.input, wanted), self.lower(relation.right, wanted)
        names = _merged(left, right)
        conditions = tuple(leaves.decided(self._spelled(each, names)) for each in relation.conditions)
        kept = tuple(each for each in conditions if each != ALWAYS)
        return Lowered(
            self._add(algebra.LeftJoin(left.number, right.number, _shared(left, right), kept)), names
        )

    def _left_join_with_exists(self, relation: relations.LeftJoin, needed: frozenset[str]) -> Lowered:
        """Lower an OPTIONAL with a condition that applies EXISTS to solutions of both sides.

        As in SPARQL 1.1, 18.5, the result is the joined solutions for which the condition holds, and the left
        solutions without any of those.  All columns of a left solution, fixed, identify it.
        """
        asked = frozenset[str]().union(*(mentioned(group) for _, group in relation.exists))
        asked = asked.union(*(condition.seen for condition in relation.conditions), variables(relation.right))
        left = self.lower(relation.input, needed | asked)
        bound = certain(relation.input)
        fixed = {name: self._hidden("f") for name in left.names if name not in bound}
        number = self._add(algebra.Fix(left.number, left.places(fixed))) if fixed else left.number
        own, left = left.names, Lowered(number, left.names + tuple(fixed.values()))
        keys = tuple(fixed.get(name, name) for name in own)
        given = relations.Given(own, bound, tuple(fixed.values()))
        self._given[given] = left
        joined: Relation = relations.Join(given, relation.right)
        for name, group in relation.exists:
            joined = relations.Exists(joined, group, Existence.MARK, name)
        for condition in relation.conditions:
            joined = laws.restrict(joined, condition)
        matched = self.lower(joined, needed.union(keys))
        pairs = tuple(zip(left.places(keys), matched.places(keys), strict=True))
        alone = self._add(algebra.Exists(left.number, matched.number, pairs, Existence.NONE))
        names = tuple(name for name in variables(relation) if name in needed)
        both = (self._laid_out(matched, names), self._laid_out(Lowered(alone, left.names), names))
        return Lowered(self._add(algebra.Union(both)), names)

    def _exists(self, relation: relations.Exists, needed: frozenset[str]) -> Lowered:
        outer, group = relation.input, relation.right
        if is_stable(group, frozenset(variables(outer))):
            common = frozenset(variables(outer)).intersection(variables(group))
            left, right = self.lower(outer, needed | common), self.lower(group, common)
            shared = _shared(left, right)
        else:
            fixed = {name: self._hidden("f") for name in variables(outer)}
            correlation = Correlation(self._text, outer, group, fixed)
            left = self.lower(outer, needed.union(correlation.names))
            copies = tuple(correlation.fixed)
            if copies:
                number = self._add(algebra.Fix(left.number, left.places(copies)))
                left = Lowered(number, left.names + tuple(correlation.fixed.values()))
            names = variables(correlation.given)
            given = self._add(algebra.Distinct(self._laid_out(left, names)))
            self._given[correlation.given] = Lowered(given, names)
            right = self.lower(correlation.group, frozenset(correlation.keys))
            shared = tuple(zip(left.places(correlation.keys), right.places(correlation.keys), strict=True))
        number = self._add(algebra.Exists(left.number, right.number, shared, relation.existence))
        return Lowered(number, (*left.names, relation.name) if relation.name else left.names)


def _operands(relation: Relation) -> list[Relation]:
    if isinstance(relation, relations.Join):
        return _operands(relation.left) + _operands(relation.right)
    return [relation]


def _shared(left: Lowered, right: Lowered) -> Shared:
    return tuple((at, right.names.index(name)) for at, name in enumerate(left.names) if name in right.names)


def _merged(left: Lowered, right: Lowered) -> Names:
    return left.names + tuple(name for name in right.names if name not in left.names)
