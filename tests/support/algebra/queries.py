"""Random queries over the whole algebra, and random triples that give them answers.

The vocabulary is tiny, so that patterns join, groups have several members and paths run in circles.  The
queries avoid questions that SPARQL leaves open, and forms in which the engine compared with (pyoxigraph 0.5)
departs from the recommendation:

* MINUS always shares a certain variable with the pattern before it: within EXISTS, and where it joins by going through
  one side, the engine takes any variable from outside for a common one.
* GROUP_CONCAT is asked for one member at most (COUNT tells), or of strings alone, compared as a bag of parts; SAMPLE is
  asked of groups with one value.
* ORDER BY with LIMIT orders by all projected variables, all of them numbers or IRIs: only equal rows tie.
* MIN and MAX are asked of numbers with a single spelling each, or of IRIs.
* The engine says that a path with alternatives, or with any predicate but some, has at most one solution between two
  nodes known by then.  So it is given the expanded form of such paths (:func:`for_us`, :func:`for_engine`).
* A variable of MINUS, or of an OPTIONAL within another group, that the pattern before it does not certainly bind,
  stands there alone: the engine may hand a value for it down from around the group, so that solutions depend on
  the order of joins it chooses.
* COUNT(DISTINCT *) is not asked of a sequence path: the engine counts the nodes on the way, too.
* REDUCED is not asked for: it may remove duplicates, the engine removes some, p2prdf removes none.  Neither is COUNT of
  an expression with an error, which the engine takes for an error of COUNT, nor a variable under another name as a key
  of GROUP BY, which it refuses.
* Every node is in each graph from the start: the engine knows no path of no steps from a constant outside of the graph.
* Where the graph is a variable, a sub-query projects it for the engine (:func:`for_engine`), which does not look
  behind the braces; inside, only triples use a variable that names the graph: the engine gives it a value there.
* Beside GRAPH with an absent name stands a triple that is absent, too: the engine has solutions there of VALUES and of
  GRAPH with another name, where SPARQL (18.6) has none.
* Data has integers and decimals that binary fractions can hold, so that the order of a sum does not matter.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

Triple = tuple[str, str, str]
Statement = tuple[str, str, str, str]
"""A triple and its graph, the empty text for the default graph."""

_XSD = "http://www.w3.org/2001/XMLSchema#"
NODES = tuple(f"<urn:{name}>" for name in "abc")
PREDICATES = tuple(f"<urn:{name}>" for name in "pqr")
NUMBERS = (*(f'"{n}"^^<{_XSD}integer>' for n in (1, 2, 3)), f'"2.5"^^<{_XSD}decimal>')
STRINGS = ('"a"', '"b"', '"a"@en', '"b"@de')
NUMBER = "<urn:n>"
"""A predicate with numbers as objects."""
TEXT = "<urn:t>"
"""A predicate with strings as objects."""


GRAPHS = ("", "<urn:a>", "<urn:g>")
"""Graphs; one has the name of a node."""
NO_GRAPH = "<urn:none>"
"""A graph that is always absent.

The others exist from the start: the engine keeps a graph after the deletion of its last triple.
"""


def draw_statements(rng: random.Random, count: int) -> list[Statement]:
    """Return some distinct triples of the default graph, and half as many of each other one."""
    found: dict[Statement, None] = {}
    while len(found) < 2 * count:
        p = rng.choice((*PREDICATES, *PREDICATES, NUMBER, TEXT))
        objects = {NUMBER: NUMBERS, TEXT: STRINGS}.get(p, (*NODES, *NODES, *NODES, *NUMBERS[:2]))
        found[rng.choice(NODES), p, rng.choice(objects), rng.choice((*GRAPHS, ""))] = None
    return list(found)


DEPTH = 3
"""Bound on the depth of nested groups."""
_VARIABLE = re.compile(r"\?[a-z]+[0-9]*")
_EITHER = re.compile(r"<<(.*?)\|\|(.*?)>>")


def _note(names: dict[str, bool], found: Iterable[str], *, certain: bool = False) -> None:
    """Add names to a scope, with whether every solution binds them."""
    for name in found:
        names[name] = names.get(name, False) or certain


def for_us(text: str) -> str:
    """Return a query as it is given to p2prdf."""
    return _EITHER.sub(r"\1", text)


def for_engine(text: str) -> str:
    """Return a query as it is given to the engine."""
    return _EITHER.sub(r"\2", text)


def _truth(variable: str) -> str:
    """Return a variable as a condition.

    The engine has no effective boolean value for strings with a language tag, which SPARQL 1.1 (17.2.2)
    defines, so the condition computes it.
    """
    theirs = f'IF(ISLITERAL({variable}) && LANG({variable}) != "", STRLEN(STR({variable})) > 0, {variable})'
    return f"<<{variable}||{theirs}>>"


class QueryWriter:
    """Writes one query after the other."""

    def __init__(self, rng: random.Random):
        self._rng = rng
        self._fresh = 0
        self._graphs = False
        """Whether the query being written asks for graphs."""
        self._graph = ""
        """The variable that names the current graph, if there is one."""

    def query(self) -> str:
        """Return a query: mostly SELECT, some ASK and CONSTRUCT."""
        self._fresh = 0
        self._graphs = self._one_in(2)
        kind = self._rng.random()
        if kind < 0.25:
            return self._grouped()
        if kind < 0.4:
            return self._sliced()
        names, group = self._group(DEPTH)
        if kind < 0.45:
            return f"ASK {group}"
        if kind < 0.5:
            terms = (*names, *NODES[:1])
            triples = [f"{self._rng.choice(terms)} {self._rng.choice((*PREDICATES, *names))} {self._rng.choice(terms)}"]
            triples.append(f"{self._rng.choice(terms)} {NUMBER} {self._rng.choice((*names, '1'))}")
            return f"CONSTRUCT {{ {' . '.join(triples)} }} WHERE {group}"
        return self._select(names, group)

    def _one_in(self, count: int) -> bool:
        return self._rng.randrange(count) == 0

    def _variable(self) -> str:
        return "?" + self._rng.choice("xxyyzu")

    def _new(self) -> str:
        self._fresh += 1
        return f"?n{self._fresh}"

    # --- SELECT ------------------------------------------------------------------------------

    def _select(self, names: list[str], group: str) -> str:
        rng = self._rng
        if not names or self._one_in(6):
            return f"SELECT * WHERE {group}"
        chosen = rng.sample(names, rng.randint(1, len(names)))
        distinct = rng.choice(("", "", "DISTINCT "))
        if self._one_in(4):
            chosen.append(f"({self._value(names)} AS {self._new()})")
        data = f" {self._values(rng.choice(names))[1]}" if self._one_in(10) else ""
        return f"SELECT {distinct}{' '.join(chosen)} WHERE {group}{data}"

    def _grouped(self) -> str:
        rng = self._rng
        names, group = self._group(2)
        number, text = self._new(), self._new()
        subject = rng.choice(names) if names else self._variable()
        optional = rng.choice(("", "OPTIONAL "))
        group = f"{{ {group} {optional}{{ {subject} {NUMBER} {number} }} OPTIONAL {{ {subject} {TEXT} {text} }} }}"
        keys = rng.sample(names, rng.randint(0, min(2, len(names))))
        by = [f"(STR({rng.choice(names)}) AS {self._new()})"] if names and self._one_in(5) else []
        shown = [*keys, *(key.split(" AS ")[1].rstrip(")") for key in by)]
        calls = [
            "COUNT(*)", f"COUNT({number})", f"COUNT(DISTINCT {subject})", f"SUM({number})", f"AVG({number})",
            f"MIN({number})", f"MAX({number})", f"SUM(DISTINCT {number})", f"AVG(DISTINCT {number})",
            f"COUNT({number})" if "/" in group else "COUNT(DISTINCT *)",
            f"SUM({number} * 2)", f"MAX(STRLEN({text}))", f"COUNT({text})", f"SUM(IF(BOUND({text}), 1, 0))",
            f"MIN(STR({subject}))",
            f"IF(COUNT(DISTINCT {number}) = 1, SAMPLE({number}), 0)",
            f"IF(COUNT(DISTINCT {text}) < 2, GROUP_CONCAT(DISTINCT STR({text}); SEPARATOR=\"-\"), \"several\")",
            f"STRLEN(GROUP_CONCAT(STR(COALESCE({text}, \"\")); SEPARATOR=\"--\"))",
        ]  # fmt: skip
        chosen = [f"({call} AS {self._new()})" for call in rng.sample(calls, rng.randint(1, 3))]
        having = rng.choice(("", "", f" HAVING(COUNT(*) > {rng.randint(0, 2)})", f" HAVING(SUM({number}) >= 3)"))
        clause = f" GROUP BY {' '.join([*keys, *by])}" if shown else ""
        return f"SELECT {' '.join([*shown, *chosen])} WHERE {group}{clause}{having}"

    def _sliced(self) -> str:
        rng = self._rng
        names, group = self._group(2)
        number = self._new()
        subject = rng.choice(names) if names else self._variable()
        group = f"{{ {group} {{ {subject} {NUMBER} {number} }} FILTER(ISIRI({subject})) }}"
        order = [rng.choice(("{}", "DESC({})", "ASC({})")).format(name) for name in rng.sample((number, subject), 2)]
        offset = f" OFFSET {rng.randint(0, 3)}" if self._one_in(2) else ""
        limit = f" LIMIT {rng.randint(0, 4)}" if not offset or self._one_in(2) else ""
        distinct = rng.choice(("", "DISTINCT "))
        sub = f"SELECT {distinct}{subject} {number} WHERE {group} ORDER BY {' '.join(order)}{limit}{offset}"
        if self._one_in(3):
            return f"SELECT * WHERE {{ {{ {sub} }} OPTIONAL {{ {subject} {rng.choice(PREDICATES)} {self._new()} }} }}"
        return sub

    # --- groups ------------------------------------------------------------------------------

    def _group(self, depth: int) -> tuple[list[str], str]:
        """Return the variables in scope, and the text of a group."""
        names: dict[str, bool] = {}
        parts = [self._triples(names)] if not self._one_in(8) else []
        count = self._rng.choice((0, 1, 1, 1, 2, 3)) if depth else 0
        parts += [self._part(names, depth) for _ in range(count)]
        if not parts:
            parts.append(self._triples(names))
        if self._one_in(5) and names:
            parts.insert(self._rng.randint(0, len(parts)), f"FILTER({self._condition(list(names), depth)})")
        return list(names), "{ " + " ".join(parts) + " }"

    def _part(self, names: dict[str, bool], depth: int) -> str:
        rng = self._rng
        if self._graphs and self._one_in(3):
            return self._in_graph(names, depth)
        kind = rng.randrange(12)
        if kind < 3:
            if depth == DEPTH:
                return self._nested("OPTIONAL ", names, depth)
            return self._apart("OPTIONAL " + self._group(depth - 1)[1], names)
        if kind < 5:
            branches = [self._group(depth - 1) for _ in range(rng.choice((2, 2, 3)))]
            for inner, _ in branches:
                _note(names, inner)
            return " UNION ".join(text for _, text in branches)
        if kind == 5 and any(names.values()):
            shared = rng.choice([name for name, certain in names.items() if certain])
            group = f"{{ {shared} {rng.choice(PREDICATES)} {self._new()} . {self._group(depth - 1)[1]} }}"
            return self._apart("MINUS " + group, names)
        if kind == 6 and names:
            return f"FILTER {rng.choice(('', 'NOT '))}EXISTS {self._inside(list(names), depth)}"
        if kind == 7:
            value, name = self._value(list(names)), self._new()
            _note(names, [name])
            return f"BIND({value} AS {name})"
        if kind == 8:
            bound, text = self._values(rng.choice(list(names) or ["?x"]))
            _note(names, bound)
            return text
        if kind == 9:
            inner, group = self._group(depth - 1)
            if not inner:
                return group
            chosen = rng.sample(inner, rng.randint(1, len(inner)))
            _note(names, chosen)
            shown = " ".join(chosen)
            if self._graph and self._graph not in chosen:
                shown = f"<<{shown}||{shown} {self._graph}>>"
            return f"{{ SELECT {rng.choice(('', 'DISTINCT '))}{shown} WHERE {group} }}"
        if kind == 10:
            return self._path(names)
        return self._nested("", names, depth)

    def _in_graph(self, names: dict[str, bool], depth: int) -> str:
        """Return the text of a group in one graph, or in each of them."""
        rng, outer = self._rng, self._graph
        graph = rng.choice((*GRAPHS[1:] * 3, NO_GRAPH, *["?g"] * 6, "?x"))
        self._graph = graph if graph[0] == "?" else ""
        inner, text = self._group(depth - 1)
        self._graph = outer
        _note(names, inner)
        if graph[0] == "?":
            _note(names, [graph], certain=True)
        absent = f"<<|| {' '.join([NO_GRAPH] * 3)} . >>" if graph == NO_GRAPH else ""
        return f"GRAPH {graph} {text}{absent}"

    def _apart(self, text: str, names: dict[str, bool]) -> str:
        """Return the text of a group with new names for the variables that are not certainly bound before it."""
        found = dict.fromkeys(_VARIABLE.findall(text))
        apart = {name: self._new() for name in found if not names.get(name) and name != self._graph}
        return _VARIABLE.sub(lambda found: apart.get(found[0], found[0]), text)

    def _nested(self, word: str, names: dict[str, bool], depth: int) -> str:
        inner, text = self._group(depth - 1)
        _note(names, inner)
        return word + text

    def _triples(self, names: dict[str, bool]) -> str:
        parts = []
        for _ in range(self._rng.choice((1, 1, 1, 2))):
            s, o = self._variable(), self._variable()
            p = self._rng.choice((*PREDICATES, *PREDICATES, NUMBER, TEXT))
            if p in (NUMBER, TEXT) and not self._one_in(6):
                o = {NUMBER: "?i", TEXT: "?t"}[p]  # or it would seldom join with anything
            if self._one_in(8):
                s = self._rng.choice(NODES)
            if self._one_in(10):
                o = self._rng.choice((*NODES, *NUMBERS[:2]))
            if self._one_in(16):
                p = self._variable()
            _note(names, [term for term in (s, p, o) if term[0] == "?"], certain=True)
            parts.append(f"{s} {p} {o} .")
        return " ".join(parts)

    def _path(self, names: dict[str, bool]) -> str:
        rng = self._rng
        p, q, r = (rng.choice(PREDICATES) for _ in range(3))
        s, o = self._variable(), self._variable()
        if self._one_in(3):
            o = rng.choice(NODES)
        path = rng.choice((
            f"{p}+", f"{p}/{q}", f"^{p}", f"{p}|{q}", f"({p}/{q})+", f"({p}|^{q})+", f"!{p}", f"!({p}|^{q})",
            f"{p}/{q}+", f"^({p}/^{q})", f"({p}|{q})/{r}", f"({p}?/{q}?)+", f"(^{p})+/{q}",
        ))  # fmt: skip
        anchor = ""
        if self._one_in(2):  # a path that may have no step needs a place to start
            path = rng.choice((f"{p}*", f"{p}?", f"({p}/{q})*", f"({p}|{q})*", f"^{p}*", f"({p}*|{q})", f"{p}?/{q}*"))
            anchor = f"{s} {r} {self._new()} . " if o[0] == "?" else ""
            _note(names, [anchor.split()[2]] if anchor else [])
        _note(names, [term for term in (s, o) if term[0] == "?"], certain=True)
        shown = " ".join(dict.fromkeys(term for term in (s, o, self._graph or s) if term[0] == "?"))

        def other(s: str, p: str, o: str) -> str:
            return f"{{ SELECT {shown} WHERE {{ {s} ?other {o} FILTER(?other != {p}) }} }}"

        theirs = {
            f"{p}|{q}": f"{{ {s} {p} {o} }} UNION {{ {s} {q} {o} }}",
            f"!{p}": other(s, p, o),
            f"!({p}|^{q})": f"{other(s, p, o)} UNION {other(o, q, s)}",
            f"({p}|{q})/{r}": f"{{ SELECT {shown} WHERE {{ {{ {s} {p}/{r} {o} }} UNION {{ {s} {q}/{r} {o} }} }} }}",
            f"({p}*|{q})": f"{{ {anchor}{s} {p}* {o} }} UNION {{ {anchor}{s} {q} {o} }}",
        }.get(path)
        text = f"{anchor}{s} {path} {o} ."
        return text if theirs is None else f"<<{text}||{theirs}>>"

    def _values(self, name: str) -> tuple[list[str], str]:
        rng = self._rng
        terms = [*NODES, *NUMBERS[:2]]
        if self._one_in(3):
            other = self._new()
            rows = " ".join(f"({rng.choice((*terms, 'UNDEF'))} {rng.choice(terms)})" for _ in range(rng.randint(1, 3)))
            return [name, other], f"VALUES ({name} {other}) {{ {rows} }}"
        return [name], f"VALUES {name} {{ {' '.join(rng.choices(terms, k=rng.randint(0, 3)))} }}"

    # --- expressions -------------------------------------------------------------------------

    def _inside(self, names: list[str], depth: int) -> str:
        """Return a group for EXISTS, about an outer variable."""
        rng = self._rng
        outer, other = rng.choice(names), rng.choice(names)
        new, more = self._new(), self._new()
        p, q = rng.choice(PREDICATES), rng.choice(PREDICATES)
        plain = f"{outer} {p} {new}"
        return "{ " + rng.choice((
            plain,
            f"{plain} . {new} {q} {other}",
            f"{new} {p} {more} FILTER({more} = {other})",
            f"{plain} FILTER({new} != {other})",
            f"{plain} OPTIONAL {{ {new} {q} {more} }} FILTER(BOUND({more}) || {new} = {other})",
            f"{plain} MINUS {{ {outer} {q} {new} }}",
            f"{{ {plain} }} UNION {{ {other} {q} {new} }}",
            f"{plain} FILTER NOT EXISTS {{ {new} {q} {other} }}",
            f"{plain} {{ SELECT {new} WHERE {{ {new} {q} {outer} }} }}",
            f"{plain} OPTIONAL {{ {new} {q} {more} FILTER({more} = {other}) }} FILTER(!BOUND({more}))",
            f"{plain} OPTIONAL {{ {other} {q} {more} }} FILTER(!BOUND({more}))",
            f"BIND({other} AS {new}) {more} {p} {new}",
        )) + " }"  # fmt: skip

    def _condition(self, names: list[str], depth: int) -> str:
        rng = self._rng
        a, b = rng.choice(names), rng.choice(names)
        if self._one_in(4):
            return f"{self._condition(names, 0)} {rng.choice(('&&', '||'))} {self._condition(names, 0)}"
        if self._one_in(6) and depth:
            exists = f"{rng.choice(('', 'NOT '))}EXISTS {self._inside(names, 0)}"
            return f"{exists} {rng.choice(('&&', '||'))} {self._condition(names, 0)}"
        return rng.choice((
            f"{a} = {b}", f"{a} != {b}", f"{a} > 1", f"{a} < {b}", f"BOUND({a})", f"!BOUND({b})", f"ISIRI({a})",
            f"ISNUMERIC({a})", f"{a} IN ({NODES[0]}, 1, {b})", f"STR({a}) = STR({b})", f"COALESCE({a}, 1) = 1",
            f"SAMETERM({a}, {b})", f"IF(BOUND({a}), {a} = {NODES[1]}, true)", f"LANG({a}) = \"en\"", _truth(a),
            "true", "1 = 2",
        ))  # fmt: skip

    def _value(self, names: list[str]) -> str:
        rng = self._rng
        a, b = (rng.choice(names or ["?x"]) for _ in range(2))
        return rng.choice((
            a, f"{a} + 1", f"{a} + {b}", f"STR({a})", f"COALESCE({a}, {b})", f"IF({a} = {b}, 1, 2)", "1",
            f"BOUND({a})", f"STRLEN(STR({a}))", f"{a} = {b}", f"DATATYPE({a})", f"CONCAT(\"x\", STR({a}))",
            f"IRI(CONCAT(\"urn:\", {a}))",
        ))  # fmt: skip
