"""Translated queries: few large leaves, few columns, equal lists for equal queries; and refusals by name."""

from __future__ import annotations

import pytest

from p2prdf.errors import QueryRefused
from p2prdf.rdf import algebra
from p2prdf.rdf.algebra import Form, StandingQuery
from p2prdf.rdf.standing.conjunctive import parse_select
from p2prdf.rdf.standing.form import canonical_bytes
from p2prdf.rdf.standing.query import parse_query

P = "PREFIX : <x:> "


def shape(query: StandingQuery) -> str:
    """Return the tree of operators, leaves as their patterns."""

    def shown(number: int) -> str:
        operator = query.operators[number]
        match operator:
            case algebra.Leaf(found):
                slots = [[found.constants[~at].strip("<>") if at < 0 else f"?{at}" for at in p] for p in found.patterns]
                condition = f" if {len(found.filters)}" if found.filters else ""
                answer = ",".join(map(str, found.answer))
                return f"[{' . '.join(' '.join(p) for p in slots)}{condition} -> {answer}]"
            case algebra.Table(_, rows):
                return f"table{len(rows)}"
            case algebra.Union(inputs):
                return f"({' | '.join(map(shown, inputs))})"
            case algebra.Closure(edges, seeds):
                return f"closure({shown(edges)}{'' if seeds is None else ' from ' + shown(seeds)})"
            case algebra.Exists(left, right, _, existence):
                return f"{existence.value}({shown(left)}, {shown(right)})"
            case algebra.Join(left, right) | algebra.LeftJoin(left, right) | algebra.Minus(left, right):
                return f"{type(operator).__name__.lower()}({shown(left)}, {shown(right)})"
        return f"{type(operator).__name__.lower()}({shown(operator.input)})"

    return shown(len(query.operators) - 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Triple patterns end up together, with the conditions that concern only them.
        ("SELECT ?s { ?s :p ?o { ?o :q ?z FILTER(?z > 1) } ?z :r ?w }",
         "[?0 x:p ?1 . ?1 x:q ?2 . ?2 x:r ?3 if 1 -> 0]"),
        ("SELECT ?s { ?s :p ?o OPTIONAL { ?s :q ?z } ?o :r ?w }",
         "leftjoin([?0 x:p ?1 . ?1 x:r ?2 -> 0], [?0 x:q ?1 -> 0])"),
        ("SELECT * { ?s :p ?o OPTIONAL { ?s :q ?z } ?z :r ?w }",
         "join(leftjoin([?0 x:p ?1 -> 0,1], [?0 x:q ?1 -> 0,1]), [?0 x:r ?1 -> 0,1])"),
        ("SELECT ?s { ?s :p ?o MINUS { ?o :q ?z } ?o :r ?w FILTER(?w > ?s) }",
         "project(minus([?0 x:p ?1 . ?1 x:r ?2 if 1 -> 0,1], [?0 x:q ?1 -> 0]))"),
        ("SELECT ?s { ?s :p ?o BIND(?o + 1 AS ?n) ?o :r ?w }", "[?0 x:p ?1 . ?1 x:r ?2 -> 0]"),
        ("SELECT * { ?s :p ?o BIND(?o + 1 AS ?n) ?n :r ?w }",
         "join(extend([?0 x:p ?1 -> 0,1]), [?0 x:r ?1 -> 0,1])"),
        # A condition is decided as early as its variables are certain.
        ("SELECT ?s { ?s :p ?o OPTIONAL { ?s :q ?z FILTER(?z > 1) } FILTER(?o > 1) }",
         "leftjoin([?0 x:p ?1 if 1 -> 0], [?0 x:q ?1 if 1 -> 0])"),
        ("SELECT ?s { ?s :p ?o OPTIONAL { ?s :q ?z } FILTER(!BOUND(?z)) }",
         "project(filter(leftjoin([?0 x:p ?1 -> 0], [?0 x:q ?1 -> 0,1])))"),
        ("SELECT ?s { { ?s :p ?o } UNION { ?s :q ?o } FILTER(?o > 1) }",
         "([?0 x:p ?1 if 1 -> 0] | [?0 x:q ?1 if 1 -> 0])"),
        ("SELECT * { ?s :p ?o FILTER(?o > 1 && EXISTS { ?o :q ?z }) }",
         "exists([?0 x:p ?1 if 1 -> 0,1], [?0 x:q ?1 -> 0])"),
        # EXISTS is asked once for all where that is the same, else of the outer solutions.
        ("SELECT ?s { ?s :p ?o FILTER NOT EXISTS { ?s :q ?z FILTER(?z > ?o) } }",
         ("project(not exists([?0 x:p ?1 -> 0,1], project(filter("
          "join([?0 x:q ?1 -> 0,1], distinct([?0 x:p ?1 -> 0,1]))))))")),
        ("SELECT ?s { ?s :p ?o FILTER(?o = 1 || EXISTS { ?o :q ?s }) }",
         "project(filter(mark([?0 x:p ?1 -> 0,1], [?0 x:q ?1 -> 0,1])))"),
        # Paths of single steps are triple patterns; repeated ones start where something is known.
        ("SELECT ?o { :a ^:p/:q ?o }", "[?0 x:p x:a . ?0 x:q ?1 -> 1]"),
        ("SELECT ?o { :a :p|:q ?o }", "([x:a x:p ?0 -> 0] | [x:a x:q ?0 -> 0])"),
        ("SELECT * { ?s :p+ ?o }", "closure([?0 x:p ?1 -> 0,1])"),
        ("SELECT ?s { ?s :t :c ; (:p/:q)* ?o }",
         "join([?0 x:t x:c -> 0], project(closure([?0 x:p ?1 . ?1 x:q ?2 -> 0,2] from distinct([?0 x:t x:c -> 0]))))"),
        ("SELECT * { { SELECT ?s { ?s :p ?o } } ?s :q ?o }", "join([?0 x:p ?1 -> 0], [?0 x:q ?1 -> 0,1])"),
        ("SELECT (SUM(?o) AS ?n) { ?s :p ?o } GROUP BY ?s", "project(group([?0 x:p ?1 -> 0,1]))"),
        ("ASK { ?s :p ?o }", "distinct([?0 x:p ?1 -> ])"),
        ("SELECT ?s { ?s :p ?o } VALUES ?s { :a :b }", "join([?0 x:p ?1 -> 0], table2)"),
    ],
)  # fmt: skip
def test_queries_become_few_leaves_with_few_columns(text: str, expected: str) -> None:
    assert shape(parse_query(P + text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { ?s ?p ?o }", "SELECT DISTINCT ?o { ?s :p ?o ; :q [ :r (1 2) ] }", "SELECT ?o ?s { ?s :p/^:q ?o }",
        "SELECT REDUCED ?s { ?s :p ?o FILTER(?o > 1 && STRLEN(?s) = 2) { ?s :q ?z FILTER(?o = ?z) } }",
        "SELECT ?s { ?s :p ?o . { FILTER(?o = 1) } FILTER(2 > 1) }",
    ],
)  # fmt: skip
def test_a_conjunctive_query_is_the_one_that_is_known_already(text: str) -> None:
    assert parse_query(P + text).conjunctive == parse_select(P + text)


@pytest.mark.parametrize("text", ["ASK { ?s ?p ?o }", "SELECT * { ?s ?p ?o } LIMIT 1", "SELECT (1 AS ?x) { ?s ?p ?o }"])
def test_any_other_is_more_than_that(text: str) -> None:
    assert parse_query(text).conjunctive is None


def test_queries_that_differ_in_names_and_layout_of_the_text_are_equal() -> None:
    a = parse_query(
        P + "SELECT ?s (COUNT(*) AS ?n) { ?s :p ?o OPTIONAL { ?o :q ?z FILTER EXISTS { ?z :r ?s } } ?s :p+ ?w } "
        "GROUP BY ?s"
    )
    b = parse_query(
        "PREFIX z: <x:> select $a(count(*) as $b)where{$a z:p $c.optional{$c z:q $d.filter exists{$d z:r $a}}"
        "$a z:p + $e}group by $a"
    )
    assert (a.names, b.names) == (("s", "n"), ("a", "b"))
    assert a.operators == b.operators
    assert canonical_bytes(a) == canonical_bytes(b)
    assert canonical_bytes(a) != canonical_bytes(parse_query(P + "SELECT ?s (COUNT(*) AS ?n) { ?s :p ?o } GROUP BY ?s"))


def test_leaves_are_numbered_as_they_stand_and_equal_ones_are_one() -> None:
    query = parse_query(P + "SELECT * { { ?a :p ?b } UNION { ?c :p ?d } UNION { ?a :q ?b } }")
    assert [leaf.constants for leaf in query.leaves] == [("<x:p>",), ("<x:q>",)]


def test_names_of_sub_queries_are_their_own() -> None:
    query = parse_query(P + "SELECT * { ?s :p ?o { SELECT ?s { ?s :q ?o } } }")
    assert query.names == ("s", "o")
    assert shape(query) == "join([?0 x:p ?1 -> 0,1], [?0 x:q ?1 -> 0])"


def test_forms_and_their_names() -> None:
    assert (parse_query("ASK {}").form, parse_query("ASK {}").names) == (Form.ASK, ())
    construct = parse_query("CONSTRUCT WHERE { ?s ?p ?o }")
    assert (construct.form, construct.names) == (Form.CONSTRUCT, ("subject", "predicate", "object"))
    assert parse_query(P + "SELECT * { ?s :p ?o OPTIONAL { ?o :q ?z } } VALUES ?v { 1 }").names == ("s", "o", "z", "v")


REFUSED = [
    ("DESCRIBE <x:a>", "DESCRIBE", 1, 1),
    ("INSERT DATA { <x:a> <x:b> <x:c> }", "INSERT", 1, 1),
    ("SELECT * { FROM <x:g> ?s ?p ?o }", "FROM", 1, 12),
    ("SELECT * {\n GRAPH ?g { } }", "GRAPH with a variable", 2, 2),
    ("SELECT * { SERVICE <x:e> { ?s ?p ?o } }", "SERVICE", 1, 12),
    ("SELECT (NOW() AS ?n) { ?s ?p ?o }", "NOW", 1, 9),
    ("SELECT * { ?s ?p ?o FILTER(RAND() < 1) }", "RAND", 1, 28),
    ("SELECT * { ?s ?p ?o BIND(UUID() AS ?n) }", "UUID", 1, 26),
    ("SELECT * { ?s ?p ?o BIND(STRUUID() AS ?n) }", "STRUUID", 1, 26),
    ("SELECT * { ?s ?p ?o BIND(BNODE() AS ?n) }", "BNODE", 1, 26),
    ("SELECT * { ?s ?p ?o BIND(<x:f>(?o) AS ?n) }", "function <x:f>", 1, 26),
    ("SELECT * { ?s ?p ?o FILTER(COUNT(?o) > 1) }", "COUNT", 1, 28),
    ("SELECT (SUM(COUNT(?o)) AS ?n) { ?s ?p ?o }", "COUNT", 1, 13),
    ("SELECT ?n { ?s ?p ?o } GROUP BY (SUM(?o) AS ?n)", "SUM", 1, 34),
    ("SELECT * { ?s ?p ?o BIND(1 AS ?o) }", "BIND", 1, 21),
    ("SELECT (1 AS ?s) { ?s ?p ?o }", "expression in SELECT", 1, 8),
    ("SELECT (1 AS ?n) (2 AS ?n) { ?s ?p ?o }", "expression in SELECT", 1, 18),
    ("SELECT (1 AS ?n) { ?s ?p ?o } GROUP BY (?s AS ?o)", "GROUP BY", 1, 40),
    ("SELECT ?s (COUNT(*) AS ?n) { ?s ?p ?o }", "ungrouped variable", 1, 8),
    ("SELECT (?o + 1 AS ?n) { ?s ?p ?o } GROUP BY ?s", "ungrouped variable", 1, 9),
    ("SELECT ?s { ?s ?p ?o } GROUP BY ?s HAVING(?o > 1)", "ungrouped variable", 1, 43),
    ("SELECT * { ?s ?p ?o } GROUP BY ?s", "SELECT *", 1, 1),
    ("SELECT * { <x:a> (<x:p>?/<x:p>?/<x:p>?/<x:p>?/<x:p>?)* ?o }", "property path *", 1, 18),
    ("SELECT * { ?s ?p ?o FILTER EXISTS { ?s ?q ?r BIND(?r AS ?o) } }", "BIND in EXISTS", 1, 51),
    ("SELECT * { ?s ?p ?o FILTER EXISTS { SELECT ?s { ?s ?q ?r } LIMIT 1 } }", "LIMIT in EXISTS", 1, 37),
    ("SELECT * { ?s ?p ?o FILTER EXISTS { SELECT (MAX(?r) AS ?o) ?s { ?s ?q ?r } GROUP BY ?s } }",
     "BIND in EXISTS", 1, 45),
    ("SELECT * { ?s ?p ?o FILTER EXISTS { SELECT ?o (SUM(?s) AS ?n) { ?s ?q ?r OPTIONAL { ?r ?t ?o } } GROUP BY ?o } }",
     "GROUP BY in EXISTS", 1, 37),
    ("SELECT * { _:a ?p ?o . OPTIONAL { _:a ?q ?r } }", "blank node label", 1, 35),
    ("SELECT * { _:a ?p ?o BIND(1 AS ?x) _:a ?q ?r }", "blank node label", 1, 36),
    ("SELECT * { ?s ?p ?o FILTER(REGEX(?o, '(')) }", "REGEX", 1, 28),
    ("SELECT * { ?s ?p ?o } LIMIT 1 LIMIT 2", "syntax error", 1, 31),
    ("SELECT * { ?s ?p ?o } LIMIT -1", "syntax error", 1, 29),
    ("SELECT * { ?s ?p ?o } OFFSET 99999999999", "OFFSET", 1, 30),
    ("SELECT * { ?s ?p ?o VALUES (?a ?a) { } }", "syntax error", 1, 32),
    ("SELECT * { VALUES (?a ?b) { (1) } }", "syntax error", 1, 29),
    ("SELECT * { VALUES ?a { ?b } }", "syntax error", 1, 24),
    ("SELECT (GROUP_CONCAT(?o; SEPARATOR=1) AS ?n) { ?s ?p ?o }", "syntax error", 1, 36),
    ("CONSTRUCT { ?s <x:p>+ ?o } { ?s ?p ?o }", "syntax error", 1, 21),
    ("CONSTRUCT WHERE { ?s ?p ?o FILTER(?o > 1) }", "syntax error", 1, 1),
    ("SELECT * { ?s ?p ?o ?s ?p ?o }", "syntax error", 1, 21),
    ("SELECT * { ?s ?p ?o OPTIONAL ?s ?p ?o }", "syntax error", 1, 30),
    ("SELECT * { ?s ?p ?o FILTER() }", "syntax error", 1, 27),
    ("SELECT * { ?s ?p ?o BIND(?o +) }", "syntax error", 1, 30),
    ("SELECT * { ?s ?p ?o BIND(?o + AS ?x) }", "syntax error", 1, 26),
    ("SELECT { ?s ?p ?o }", "syntax error", 1, 8),
    ("SELECT * { ?s ?p ?o } GROUP BY", "syntax error", 1, 31),
    ("SELECT * { ?s ?p ?o", "syntax error", 1, 10),
    ("SELECT * { ?s ?p ?o } }", "syntax error", 1, 23),
    ("", "syntax error", 1, 1),
    ("SELECT * { " + "?s ?p ?o . " * 65 + "}", "triple patterns", 1, 15),
    ("SELECT * { " + "{ ?s <x:p> 1 } UNION " * 200 + "{} }", "groups", 1, 2679),
    ("SELECT * { " + " UNION ".join(f"{{ ?s <x:p> {n} }}" for n in range(40)) + " }", "query size", None, None),
    ("SELECT * { ?s ?p ?o " + "FILTER EXISTS { ?s <x:p> 1 } " * 17 + "}", "EXISTS", 1, 492),
    ("SELECT * { ?s ?p ?o " + "FILTER(?o > 1) " * 65 + "}", "FILTER", 1, 981),
    ("SELECT * { ?s ?p ?o BIND(" + "+".join(["?o"] * 1100) + " AS ?n) }", "filter length", 1, 26),
    ("SELECT " + "(1 AS ?x) " * 129 + "{ ?s ?p ?o }", "expression in SELECT", 1, 18),
    ("SELECT * { " + "BIND(1 AS ?x) " * 129 + "}", "query size", 1, 1804),
    ("SELECT * " + "{" * 65 + "}" * 65, "nesting", 1, 74),
    ("CONSTRUCT { " + "?s ?p ?o . " * 65 + "} { ?s ?p ?o }", "CONSTRUCT", 1, 11),
]  # fmt: skip


@pytest.mark.parametrize(("text", "construct", "line", "column"), REFUSED, ids=lambda value: str(value)[:60])
def test_an_unsupported_query_is_refused_by_name_and_place(
    text: str, construct: str, line: int | None, column: int | None
) -> None:
    with pytest.raises(QueryRefused) as refusal:
        parse_query(text)
    found = refusal.value
    assert (found.construct, found.line, found.column) == (construct, line, column), str(found)
    assert found.reason


@pytest.mark.parametrize(
    "inner",
    [
        "{ SELECT (COUNT(?s) AS ?n) ?r { ?s ?q ?r } GROUP BY ?r } FILTER(?n = ?o)", "SELECT ?r { ?s ?q ?r } LIMIT 1",
        "?r ?q ?s BIND(?o AS ?z) FILTER(?z > ?r)", "?s ?q ?r MINUS { ?s ?r ?o }", "?s <x:p>* ?r FILTER(?r = ?o)",
    ],
)  # fmt: skip
def test_exists_may_see_variables_from_outside(inner: str) -> None:
    assert parse_query(f"SELECT * {{ ?s ?p ?o FILTER EXISTS {{ {inner} }} }}")


def _nested(times: int, around: str, core: str) -> str:
    """Return a text nested in another ``count`` times; ``@`` is its place there, ``#`` the number of the level."""
    for number in range(times):
        core = around.replace("#", str(number)).replace("@", core)
    return core


HOSTILE = {
    "optional": _nested(62, "{ ?s# ?p ?o# OPTIONAL @ }", "{ ?s ?p ?o }"),
    "minus": _nested(62, "{ ?s ?p ?o# MINUS @ }", "{ ?s ?p ?o }"),
    "sub-selects": _nested(31, "{ { SELECT ?s { ?s ?p ?o# @ } } }", "{ ?s ?p ?o }"),
    "exists": _nested(
        16, "{ OPTIONAL { ?s <x:p#> ?o# } FILTER(?z || EXISTS @) }", "{ ?s ?p ?o FILTER(?o > ?o15 && ?o > ?o0) }"
    ),
    "conditions into unions":
        "{ " + " UNION ".join(f"{{ ?s <x:{n}> ?o }}" for n in range(30)) + "FILTER(?o > 1)" * 64 + "}",
    "a long path": "{ <x:a> " + "/".join(["<x:p>"] * 2000) + " ?o }",
    "a deep path": "{ <x:a> " + _nested(30, "((@)?/<x:p>?)", "<x:p>") + "* ?o }",
    "a path of repetitions": "{ <x:a> " + _nested(30, "(@|<x:p>)*", "<x:p>") + " ?o }",
    "alternatives": "{ ?s " + "|".join(f"<x:{n}>" for n in range(1500)) + " ?o }",
    "joins of unions": "{ " + "".join(f"{{ ?s <x:{n}> ?o }} UNION {{ ?o <x:{n}> ?s }}" for n in range(16)) + "}",
}  # fmt: skip


@pytest.mark.parametrize("group", HOSTILE.values(), ids=HOSTILE)
def test_a_query_made_to_be_hard_comes_to_an_end(group: str) -> None:
    """Without bounds this would run for years: each query nests parts that could be doubled."""
    try:
        query = parse_query("SELECT * " + group)
    except QueryRefused:
        return
    assert len(query.operators) <= algebra.OPERATORS_MAX
    assert len(query.leaves) <= algebra.LEAVES_MAX


def test_a_query_that_spells_out_to_more_than_its_form_may_have_is_refused() -> None:
    long = "x:" + "y" * 4000
    text = f"PREFIX p: <{long}> SELECT * {{ VALUES ?v {{ {'p:a ' * 800} }} ?v ?p ?o }}"
    with pytest.raises(QueryRefused) as refusal:
        parse_query(text)
    assert refusal.value.construct == "query length"
