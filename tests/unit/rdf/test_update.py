"""Updates: operations of texts, the effects that pyoxigraph computes, and errors by construct and place."""

from __future__ import annotations

import asyncio
import io
import random
import re
from collections.abc import Callable, Iterable, Iterator

import pyoxigraph as ox
import pytest
from held_graphs import HeldGraphs
from hypothesis import given
from hypothesis import strategies as st
from pyparsing import ParseException
from rdflib.plugins.sparql.parser import parseUpdate

from p2prdf.errors import DataRefused, QueryRefused
from p2prdf.rdf import terms, tokens, update
from p2prdf.rdf.ntriples import Syntax, read_triples
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.update import Using, parse_update
from p2prdf.rdf.update_operations import (
    Changes,
    Clear,
    Create,
    DeleteData,
    InsertData,
    Load,
    Manner,
    Modify,
    Operation,
    Statement,
    Target,
    Transfer,
)
from p2prdf.rdf.update_values import substitute

XSD = terms.XSD
RDF = terms.RDF


def parse(text: str) -> tuple[Operation, ...]:
    return parse_update(text, scope="s")


def modification(text: str) -> Modify:
    (operation,) = parse("PREFIX : <x:> " + text)
    assert isinstance(operation, Modify)
    return operation


def changes(operation: Modify, *rows: tuple[str | None, ...]) -> tuple[list[Statement], list[Statement]]:
    """Return the statements that solutions delete and insert; a blank node is named by its number."""
    found: Changes = ({}, {})
    made: list[str] = []

    def fresh(name: str) -> str:
        made.append(name)
        return f"<urn:bnode:s:{len(made)}>"

    add = operation.changes(fresh)
    for row in rows:
        add(row, found)
    deleted, inserted = found
    return list(deleted), list(inserted)


def refusal_of(text: str) -> QueryRefused | None:
    try:
        parse(text)
    except QueryRefused as refused:
        return refused
    return None


def inserted(body: str) -> tuple[Statement, ...]:
    (operation,) = parse("PREFIX : <x:> INSERT DATA { " + body + " }")
    assert isinstance(operation, InsertData)
    return operation.triples


# --- meaning of texts ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " # nothing\n", "PREFIX : <x:> BASE <y:>", "base <a:> prefix p: <b>"])
def test_a_text_may_have_no_operation(text: str) -> None:
    assert parse(text) == ()


def test_operations_come_in_order_and_declarations_hold_from_where_they_stand() -> None:
    text = """
        PREFIX : <http://a/>
        INSERT DATA { :s :p :o } ;
        PREFIX : <http://b/> BASE <http://c/d>
        delete data { :s :p <o>, <#o> . } ;
        Delete Where { $x :p ?y . ?y a ?x } ; # the end
    """
    assert parse(text) == (
        InsertData((("<http://a/s>", "<http://a/p>", "<http://a/o>"),)),
        DeleteData((
            ("<http://b/s>", "<http://b/p>", "<http://c/o>"), ("<http://b/s>", "<http://b/p>", "<http://c/d#o>"),
        )),
        Modify(
            "DELETE WHERE", (("?x", "<http://b/p>", "?y"), ("?y", f"<{RDF}type>", "?x")), (),
            "BASE <http://c/d> PREFIX : <http://b/> SELECT ?x ?y  WHERE\n{ $x :p ?y . ?y a ?x }", ("x", "y"),
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("written", "term"),
    [
        ("1", f'"1"^^<{XSD}integer>'), ("-01", f'"-01"^^<{XSD}integer>'), ("+1.50", f'"+1.50"^^<{XSD}decimal>'),
        (".5e-1", f'".5e-1"^^<{XSD}double>'), ("TRUE", f'"true"^^<{XSD}boolean>'), ("'a'@EN-gb", '"a"@en-gb'),
        ("'1'^^:t", '"1"^^<x:t>'), (f"'a'^^<{XSD}string>", '"a"'), ("'''a\n'b'''", '"a\\n\'b"'),
        ("'\\u00e9\\t'", '"é\\t"'), ("<x:\\u00e9>", "<x:é>"), ("()", f"<{RDF}nil>"), ("''", '""'),
    ],
)  # fmt: skip
def test_terms_are_canonical(written: str, term: str) -> None:
    assert inserted(f":s :p {written}") == (("<x:s>", "<x:p>", term),)


def test_a_triple_that_is_written_twice_is_there_once() -> None:
    triple = ("<x:s>", "<x:p>", "<x:o>")
    assert inserted(":s :p :o, :o ; :p :o . :s :p :o") == (triple,)
    assert parse("DELETE DATA { <x:s> <x:p> <x:o>, <x:o> }") == (DeleteData((triple,)),)
    assert modification("DELETE WHERE { ?s ?p :o, :o . ?t ?q :o }").delete == (
        ("?s", "?p", "<x:o>"), ("?t", "?q", "<x:o>"),
    )  # fmt: skip


def test_blank_nodes_are_named_as_those_of_a_published_file() -> None:
    body = "_:a :p _:é, [ :q _:a ], ( 1 [] ) . [ :r 2 ] . ( 3 ) :s _:a"
    operations = parse_update(f"PREFIX : <x:> INSERT DATA {{ {body} }}", scope="run-7")
    turtle = f"@prefix : <x:> . {body} ."
    published = set()
    for batch in read_triples(io.BytesIO(turtle.encode()), publication_id="run-7", syntax=Syntax.TURTLE):
        published |= set(zip(batch.s, batch.p, batch.o, strict=True))
    (found,) = operations
    assert isinstance(found, InsertData)
    assert _canonical(found.triples) == _canonical(published)
    labels = {term for triple in found.triples for term in triple if terms.is_skolem(term)}
    assert labels == {
        "<urn:bnode:run-7:a>", "<urn:bnode:run-7:%C3%A9>", *(f"<urn:bnode:run-7:~{number}>" for number in range(6)),
    }  # fmt: skip


def test_unnamed_nodes_of_two_operations_are_two_nodes() -> None:
    first, second = parse("INSERT DATA { [] <x:p> 1 } ; INSERT DATA { [] <x:p> 1 }")
    assert isinstance(first, InsertData)
    assert isinstance(second, InsertData)
    assert first.triples[0][0] != second.triples[0][0]


def test_an_unfit_scope_is_refused() -> None:
    with pytest.raises(DataRefused, match="not a publication identifier"):
        parse_update("", scope="a b")


# --- operations with WHERE -----------------------------------------------------------------------


def test_templates_are_filled_with_each_solution_of_the_query():
    where = "WHERE { ?a :p ?b, ?c OPTIONAL { ?b ?c 1 } }"
    found = modification("DELETE { ?a :p ?b ; ?c 'x\\ny' } INSERT { :s :q ?a } " + where)
    assert found.construct == "DELETE INSERT WHERE"
    assert found.variables == ("a", "b", "c")
    assert parse_query(found.query).names == found.variables
    assert changes(found, ("<x:1>", '"2"@en', "<x:3>"), ("<x:1>", "<x:2>", None)) == (
        [("<x:1>", "<x:p>", '"2"@en'), ("<x:1>", "<x:3>", '"x\\ny"'), ("<x:1>", "<x:p>", "<x:2>")],
        [("<x:s>", "<x:q>", "<x:1>")],
    )  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [
        ('"1"', "<x:p>", "<x:o>", "<x:g>"), ("<x:s>", '"1"', "<x:o>", "<x:g>"), ("<x:s>", "<x:p>", "<x:o>", '"1"'),
        ("<x:s>", "<urn:bnode:a:b>", "<x:o>", "<x:g>"), (None, "<x:p>", "<x:o>", "<x:g>"),
        ("<x:s>", "<x:p>", "<x:o>", None),
    ],
)  # fmt: skip
def test_statements_that_rdf_does_not_allow_are_left_out(row: tuple[str | None, ...]) -> None:
    found = modification("INSERT { GRAPH ?g { ?s ?p ?o } } WHERE { GRAPH ?g { ?s ?p ?o } }")
    order = [("s", "p", "o", "g").index(name) for name in found.variables]
    assert changes(found, tuple(row[at] for at in order)) == ([], [])


def test_blank_nodes_of_a_template_are_new_for_each_solution():
    found = modification("INSERT { _:a :p ?x . [] :q _:a GRAPH :g { _:a :r 1 } } WHERE { ?x :p ?y }")
    one, (_, inserted) = f'"1"^^<{XSD}integer>', changes(found, ("<x:1>",), ("<x:1>",))
    a, b, c, d = (f"<urn:bnode:s:{number}>" for number in range(1, 5))
    assert inserted == [
        (a, "<x:p>", "<x:1>"), (b, "<x:q>", a), (a, "<x:r>", one, "<x:g>"),
        (c, "<x:p>", "<x:1>"), (d, "<x:q>", c), (c, "<x:r>", one, "<x:g>"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("INSERT { :s :p 1 } WHERE { }", ""),
        ("INSERT { :s :p 1 } WHERE { :a :p 1 }", "PREFIX : <x:> ASK \n{ :a :p 1 }"),
        ("INSERT { [] :p 1 } WHERE { ?x :p 1 }", "PREFIX : <x:> SELECT *  WHERE\n{ ?x :p 1 }"),
        ("INSERT { ?x :p 1 } USING :g USING NAMED :h WHERE { ?x <x:p> 1 } ; PREFIX y: <y:>",
         "SELECT ?x FROM <x:g> FROM NAMED <x:h> WHERE\n{ ?x <x:p> 1 }"),
        ("WITH :g DELETE { ?x :p 1 } WHERE { ?x :p 1 # }\n } ;",
         "PREFIX : <x:> WITH <x:g> SELECT ?x  WHERE\n{ ?x :p 1 # }\n }"),
        ("WITH :g DELETE { ?x :p 1 } USING :h WHERE { ?x :p 1 }",
         "PREFIX : <x:> SELECT ?x FROM <x:h> WHERE\n{ ?x :p 1 }"),
    ],
)  # fmt: skip
def test_where_becomes_a_query_with_the_graphs_of_the_operation(text: str, query: str) -> None:
    assert modification(text).query == query
    if query:
        parse_query(query, ordered=True)


def test_with_is_the_graph_of_templates_without_graph():
    templates = "DELETE { ?s :p 1 GRAPH :h { ?s :p 2 } } INSERT { ?s :p 3 }"
    found = modification(f"WITH :g {templates} USING :h WHERE {{ ?s :p 1 }}")
    assert [each[3] for each in (*found.delete, *found.insert) if len(each) == 4] == ["<x:g>", "<x:h>", "<x:g>"]


def test_the_protocol_may_choose_the_graphs_of_where():
    using = Using(("<x:g>",), ("<x:h>",))
    (found,) = parse_update("DELETE { ?s ?p 1 } WHERE { ?s ?p 1 }", scope="s", using=using)
    assert isinstance(found, Modify)
    assert found.query == "SELECT ?s ?p FROM <x:g> FROM NAMED <x:h> WHERE\n{ ?s ?p 1 }"
    for text, construct in (
        ("WITH <x:g> DELETE { ?s ?p 1 } WHERE { ?s ?p 1 }", "WITH"),
        ("DELETE { ?s ?p 1 } USING <x:g> WHERE { ?s ?p 1 }", "USING"),
    ):
        with pytest.raises(QueryRefused, match="exclude WITH and USING") as refused:
            parse_update(text, scope="s", using=using)
        assert refused.value.construct == construct


@pytest.mark.parametrize("text", ["DELETE WHERE { <x:s> <x:p> 1 }", "DELETE WHERE { GRAPH <x:h> { <x:s> <x:p> 1 } }"])
def test_delete_where_reads_the_graphs_of_the_protocol_even_for_a_known_triple(text: str):
    (found,) = parse_update(text, scope="s", using=Using(("<x:g>",)))
    assert isinstance(found, Modify)
    assert found.query.startswith("ASK FROM <x:g>\n")


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("CLEAR GRAPH :g", Clear("<x:g>")), ("clear silent default", Clear("")), ("CLEAR NAMED", Clear(Target.NAMED)),
        ("DROP SILENT ALL", Clear(Target.ALL)), ("DROP GRAPH :g ;", Clear("<x:g>")),
        ("CREATE GRAPH :g", Create("<x:g>", silent=False)), ("CREATE SILENT GRAPH :g", Create("<x:g>", silent=True)),
        ("COPY :g TO DEFAULT", Transfer(Manner.COPY, "<x:g>", "", silent=False)),
        ("MOVE SILENT DEFAULT TO GRAPH :g", Transfer(Manner.MOVE, "", "<x:g>", silent=True)),
        ("ADD GRAPH :g TO :h", Transfer(Manner.ADD, "<x:g>", "<x:h>", silent=False)),
        ("LOAD :d", Load("x:d", "", silent=False)),
        ("LOAD SILENT :d INTO GRAPH :g", Load("x:d", "<x:g>", silent=True)),
        ("DELETE WHERE { :s :p 1 }", DeleteData((("<x:s>", "<x:p>", f'"1"^^<{XSD}integer>'),))),
        ("DELETE WHERE { }", DeleteData(())), ("DELETE WHERE { 'a' :p ?o }", DeleteData(())),
    ],
)  # fmt: skip
def test_operations_on_graphs_and_shorthands(text: str, operation: Operation) -> None:
    assert parse("PREFIX : <x:> " + text) == (operation,)


def test_data_may_be_in_graphs_and_labels_are_those_of_the_whole_operation() -> None:
    operations = parse_update(
        "PREFIX : <x:> INSERT DATA { _:a :p 1 GRAPH :g { _:a :p 1, [] } GRAPH :h { } . :s :p :o "
        "GRAPH :g { :s :p :o } } ;"
        "DELETE DATA { GRAPH :g { :s :p :o . :s :p :o } }",
        scope="s",
    )
    one, a = f'"1"^^<{XSD}integer>', "<urn:bnode:s:a>"
    assert operations == (
        InsertData((
            (a, "<x:p>", one), (a, "<x:p>", one, "<x:g>"), (a, "<x:p>", "<urn:bnode:s:~0>", "<x:g>"),
            ("<x:s>", "<x:p>", "<x:o>"), ("<x:s>", "<x:p>", "<x:o>", "<x:g>"),
        )),
        DeleteData((("<x:s>", "<x:p>", "<x:o>", "<x:g>"),)),
    )  # fmt: skip


def test_a_where_longer_than_a_query_is_refused_with_its_operation():
    text = f"INSERT DATA {{}} ; DELETE WHERE {{ ?a <x:p> '{'é' * (tokens.QUERY_BYTES_MAX // 2)}' }}"
    refused = refusal_of(text)
    assert refused is not None
    assert (refused.construct, refused.line, refused.column) == ("DELETE WHERE", 1, 18)
    assert "too long as a query" in refused.reason


def test_a_where_that_the_values_of_its_calls_make_too_long_is_refused_with_its_operation():
    head, tail = "DELETE { ?a ?b ?c } WHERE { ?a ?b ?c FILTER(?c != '", "' && ?c < NOW()) }"
    refused = refusal_of(f"INSERT DATA {{}} ; {head}{'a' * (tokens.QUERY_BYTES_MAX - 75)}{tail}")
    assert refused is not None
    assert (refused.construct, refused.column) == ("DELETE WHERE", 18)
    assert "too long as a query" in refused.reason
    assert refusal_of(f"INSERT DATA {{}} ; {head}{'a' * (tokens.QUERY_BYTES_MAX - 150)}{tail}") is None


def test_calls_are_checked_with_work_in_proportion_to_the_text():
    class Counted(list[tokens.Token]):
        reads = 0

        def __iter__(self) -> Iterator[tokens.Token]:
            for token in super().__iter__():
                self.reads += 1
                yield token

        def __getitem__(self, at):
            self.reads += 1
            return super().__getitem__(at)

    for text in (
        "{ " + "".join(f"BIND(UUID()AS?a{n})" for n in range(500)) + "}",
        "{ BIND(CONCAT(" + ",".join(["STRUUID()"] * 1000) + ") AS ?x) }",
    ):
        found = Counted(tokens.scan(text))
        assert len(substitute(text, found, "s", "now").marks) in (500, 1000)
        assert found.reads < 10 * len(found)


@pytest.mark.parametrize(("one", "most"), [("INSERT DATA {}", update.OPERATIONS_MAX), ("DROP ALL", update.QUERIES_MAX)])
def test_the_number_of_operations_is_bounded(one: str, most: int) -> None:
    assert len(parse(" ; ".join([one] * most))) == most
    refused = refusal_of(" ; ".join([one] * (most + 1)))
    assert refused is not None
    assert refused.construct == "number of operations"
    assert "in several requests" in refused.reason


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "construct", "line", "column"),
    [
        ("INSERT { ?s ?p 1 }", "syntax error", 1, 19),
        ("INSERT WHERE { ?s ?p 2 }", "INSERT", 1, 1),
        ("INSERT { ?s ?p 2 } DELETE { ?s ?p 1 } WHERE { ?s ?p 1 }", "DELETE", 1, 20),
        ("DELETE { ?s ?p 1 } INSERT { ?s ?p 2 } USING ?g WHERE { ?s ?p 1 }", "syntax error", 1, 45),
        ("WITH <x:g> DELETE WHERE { ?s ?p 1 }", "WITH", 1, 1),
        ("WITH <x:g> INSERT DATA { <x:s> <x:p> 1 }", "WITH", 1, 1),
        ("WITH ?g DELETE { ?s ?p 1 } WHERE { ?s ?p 1 }", "syntax error", 1, 6),
        ("INSERT DATA {} ;\n INSERT { ?s ?p 1 } WHERE {\n ?s ?p 1 . SERVICE <x:g> { } }", "SERVICE", 3, 12),
        ("INSERT { ?s ?p 1 } WHERE { ?s ?p 1 FILTER(RAND(1) < 1) }", "RAND", 1, 43),
        ("INSERT { ?s ?p 1 } WHERE { ?s ?p '\\u0041' . ?s ?p }", "syntax error", 1, 51),
        ("DELETE { ?s ?p [] } WHERE { ?s ?p [] }", "blank node", 1, 16),
        ("DELETE { ?s ?p 1 OPTIONAL { ?s ?p 2 } } WHERE { ?s ?p 1 }", "OPTIONAL", 1, 18),
        ("DELETE { ?s ?p 1 } { ?s ?p 1 }", "DELETE", 1, 1),
        ("DELETE WHERE { ?s ?p 1 } USING <x:g>", "USING", 1, 26),
        ("DELETE WHERE { ?s ?p 1 } WHERE { ?s ?p 1 }", "syntax error", 1, 26),
        ("LOAD ?d", "syntax error", 1, 6), ("LOAD <x:d> INTO <x:g>", "syntax error", 1, 17),
        ("CLEAR <x:g>", "syntax error", 1, 7), ("CLEAR", "syntax error", 1, 6),
        ("DROP GRAPH ALL", "syntax error", 1, 12),
        ("CREATE <x:g>", "syntax error", 1, 8), ("CREATE DEFAULT", "syntax error", 1, 8),
        ("COPY <x:g> <x:h>", "syntax error", 1, 12), ("MOVE ALL TO <x:h>", "syntax error", 1, 6),
        ("ADD <x:g> TO SILENT <x:h>", "syntax error", 1, 14),
        ("TRUNCATE <x:g>", "syntax error", 1, 1),
        ("INSERT DATA { GRAPH ?g { <x:s> <x:p> 1 } }", "variable", 1, 21),
        ("INSERT DATA { GRAPH _:g { <x:s> <x:p> 1 } }", "syntax error", 1, 21),
        ("INSERT DATA { GRAPH 'g' { <x:s> <x:p> 1 } }", "syntax error", 1, 21),
        ("INSERT DATA { GRAPH <x:g> { GRAPH <x:h> { <x:s> <x:p> 1 } } }", "GRAPH", 1, 29),
        ("INSERT DATA { GRAPH <x:g> <x:s> <x:p> 1 }", "syntax error", 1, 27),
        ("INSERT DATA { GRAPH <x:g> { <x:s> <x:p> '<x:p> <x:g>'^^<urn:p2prdf:in> } }", "literal", 1, 41),
        ("DELETE DATA { GRAPH <x:g> { ?s <x:p> 1 } }", "variable", 1, 29),
        ("DELETE DATA { GRAPH <x:g> { <x:s> <x:p> [] } }", "blank node", 1, 41),
        ("DELETE WHERE { GRAPH ?g { } ?s ?p ?o }", "GRAPH with a variable", 1, 16),
        ("DELETE WHERE { GRAPH ?g { ?s ?p ?o OPTIONAL { ?o ?p ?x } } }", "OPTIONAL", 1, 36),
        ("DELETE WHERE { ?s ?p ?o FILTER(?o > 1) }", "FILTER", 1, 25),
        ("DELETE WHERE { OPTIONAL { ?s ?p ?o } }", "OPTIONAL", 1, 16),
        ("SELECT * WHERE { ?s ?p ?o }", "SELECT", 1, 1),
        ("INSERT DATA { <x:s> <x:p> ?o }", "variable", 1, 27),
        ("DELETE DATA { ?s <x:p> 1 }", "variable", 1, 15),
        ("DELETE DATA { <x:s> <x:p> _:b }", "blank node", 1, 27),
        ("DELETE DATA { <x:s> <x:p> [] }", "blank node", 1, 27),
        ("DELETE DATA {\n<x:s> <x:p> (), (1) }", "blank node", 2, 17),
        ("DELETE WHERE { ?s ?p [ ?q 1 ] }", "blank node", 1, 22),
        ("DELETE WHERE { _:b ?p 1 }", "blank node", 1, 16),
        ("INSERT DATA { _:b <x:p> 1 } ;\nINSERT DATA { <x:s> <x:p> _:b }", "blank node label", 2, 27),
        ("INSERT DATA { 'a'@en <x:p> 1 }", "literal", 1, 15),
        ("INSERT DATA { <x:s> <x:p> [ <x:q> 1 ]\n. true <x:p> 1 ; <x:q> 2 }", "literal", 2, 3),
        ("DELETE DATA { <x:s> <x:p> 1 . -1 <x:p> 2 }", "literal", 1, 31),
        ("INSERT DATA { <x:s> _:b 1 }", "syntax error", 1, 21),
        ("INSERT DATA { <x:s> 'p' 1 }", "syntax error", 1, 21),
        ("INSERT DATA { <x:s> <x:p>/<x:q> 1 }", "syntax error", 1, 26),
        ("INSERT DATA { <x:s> ^<x:p> 1 }", "syntax error", 1, 21),
        ("INSERT DATA { <x:s> <x:p> 1 . . }", "syntax error", 1, 31),
        ("INSERT DATA { <x:s> <x:p> 1 <x:t> <x:p> 1 }", "syntax error", 1, 29),
        ("INSERT DATA { <x:s> <x:p> }", "syntax error", 1, 27),
        ("INSERT DATA { [] }", "syntax error", 1, 18),
        ("INSERT DATA { << <x:s> <x:p> 1 ~ ?r >> <x:p> 1 }", "variable", 1, 34),
        ("DELETE DATA { << <x:s> <x:p> 1 >> <x:p> 1 }", "blank node", 1, 15),
        ("DELETE DATA { <x:s> <x:p> 1 {| <x:p> 1 |} }", "blank node", 1, 21),
        ("INSERT DATA", "syntax error", 1, 12),
        ("INSERT DATA ; DELETE DATA {}", "syntax error", 1, 13),
        ("INSERT DATA {} WHERE {}", "syntax error", 1, 16),
        ("INSERT DATA {} ; ; INSERT DATA {}", "syntax error", 1, 18),
        ("PREFIX : <x:> ; INSERT DATA {}", "syntax error", 1, 15),
        ("INSERT DATA {} INSERT DATA {}", "INSERT", 1, 16),
        ("INSERT DATA {} PREFIX : <x:>", "syntax error", 1, 16),
        ("INSERT DATA {} ; PREFIX : ", "syntax error", 1, 25),
        ("INSERT DATA { PREFIX : <x:> :s :p :o }", "syntax error", 1, 15),
        ("INSERT DATA { :s :p :o }", "prefix", 1, 15),
        ("DELETE DATA { <x:s> <x:p> 1 . GRAPH <x:g> {} . _:b <x:p> 1 }", "blank node", 1, 48),
        ("INSERT DATA { <s> <x:p> 1 }", "IRI", 1, 15),
        ("INSERT DATA { <x:s> <x:p> 1", "syntax error", 1, 13),
        ("INSERT DATA { <x:s> <x:p> 'a\n' }", "syntax error", 1, 27),
        ("INSERT DATA { <x:s> <x:p> '\\uD800' }", "literal", 1, 27),
        ("INSERT DATA { <x:s> <x:p> " + "[ <x:p> " * 63 + "[]" + "]" * 63 + " }", "nesting", 1, 531),
    ],
)
def test_a_bad_update_is_refused_with_its_place(text: str, construct: str, line: int, column: int) -> None:
    with pytest.raises(QueryRefused) as refused:
        parse(text)
    assert (refused.value.construct, refused.value.line, refused.value.column) == (construct, line, column)


def test_a_text_is_bounded_in_bytes_and_in_the_length_of_its_expanded_iris() -> None:
    head, tail = "INSERT DATA { <x:s> <x:p> '", "' }"
    room = update.UPDATE_BYTES_MAX - len(head + tail)
    assert len(inserted(f"<x:s> <x:p> '{'a' * (room - 20)}'")) == 1
    assert len(parse(head + "é" * (room // 2) + tail)) == 1
    with pytest.raises(QueryRefused, match="more than 1048576") as refused:
        parse(head + "é" * (room // 2 + 1) + tail)
    assert refused.value.construct == "update length"
    for declared, used in ((f"PREFIX : <x:{'a' * 400_000}>", ":a"), (f"BASE <x:/{'a/' * 200_000}>", "<b>")):
        text = f"{declared} INSERT DATA {{ <x:s> <x:p> {', '.join([used] * 100_000)} }}"
        with pytest.raises(QueryRefused, match="expanded, the IRIs have more than 33554432") as refused:
            parse(text)
        assert refused.value.construct == "IRI"


def test_a_refusal_does_not_repeat_a_text_at_length() -> None:
    for body in (f"'{'a' * 9999}' '{'b' * 9999}'", f"<x:s> <x:{'a' * 9999}> }} <x:{'b' * 9999}>", f"<{'a' * 9999}>"):
        with pytest.raises(QueryRefused) as refused:
            parse("INSERT DATA { " + body + " }")
        assert len(str(refused.value)) < 300


# --- against pyoxigraph --------------------------------------------------------------------------

PROLOGUE = "PREFIX : <http://e/> PREFIX p.q: <http://e/q#> BASE <http://e/x/y> "
PLACES = [":a", "<http://e/b>", "p.q:c", "<z>", "<../d#e>", ":a\\,b", ":%41"]
VERBS = ["a", ":p", "p.q:c", "<v>"]
VALUES = [
    "1", "-2", "0.5", "true", "false", "'x'", '"""a"b\n"""', "'x'@EN", "'é\\t'^^:t", "''", "( )", "'1'^^p.q:c",
    f"'7'^^<{XSD}integer>", "'\\u2028,\\\\'",
]  # fmt: skip


class Writer:
    """Writes random updates with every abbreviation there is."""

    def __init__(self, seed: int, *, whole: bool = False):
        """``whole``: also operations with templates, and those on graphs."""
        self.rng = random.Random(seed)
        self._labels = 0
        self._whole = whole

    def update(self) -> str:
        operations = [self._operation() for _ in range(self.rng.randint(1, 6))]
        return PROLOGUE + self.rng.choice([" ; ", ";", ";\n"]).join(operations) + self.rng.choice(["", " ;", ";\n"])

    def _operation(self) -> str:
        self._first, self._labels = self._labels, self._labels + 2
        if self._whole and self._flip(0.5):
            return self._graphs() if self._flip(0.3) else self._modification()
        kind = self.rng.choice(["INSERT DATA", "INSERT DATA", "DELETE DATA", "DELETE WHERE"])
        count = self.rng.randint(0, 2 if kind == "DELETE WHERE" else 6)
        body = " . ".join(self._part(kind) for _ in range(count)) + (" ." if count and self._flip() else "")
        return f"{self.rng.choice([kind, kind.lower()])} {{ {body} }}"

    def _graphs(self) -> str:
        """Return an operation on graphs; the engine keeps graphs without triples, so none has to exist."""
        a, b, silent = self.rng.choice(PLACES[:2]), self.rng.choice(PLACES[:2]), self.rng.choice(["", "SILENT "])
        return self.rng.choice([
            f"CLEAR SILENT GRAPH {a}", f"DROP SILENT GRAPH {a}", f"CLEAR {silent}DEFAULT", f"drop {silent}NAMED",
            f"CLEAR {silent}ALL", f"CREATE SILENT GRAPH {a}", f"COPY {silent}DEFAULT TO {a}",
            f"MOVE {silent}DEFAULT TO GRAPH {a}", f"ADD {silent}DEFAULT TO {a}", f"ADD SILENT GRAPH {a} TO {b}",
            f"ADD SILENT {a} TO DEFAULT",
        ])  # fmt: skip

    def _modification(self) -> str:
        """Return an operation with templates; two graphs of USING give the engine solutions twice."""
        graph = self.rng.choice(["", "", "WITH :a ", "with <z> "])
        using = self.rng.choice(["", "", "USING :a ", "USING <http://e/b> USING NAMED :a ", "USING NAMED :a "])
        where = self.rng.choice([
            "?s ?p ?o", "?s :p ?o", "?s ?p ?o . FILTER(ISIRI(?o))", "GRAPH :a { ?s ?p ?o }",
            "OPTIONAL { ?s ?p ?o }", "?s ?p ?o OPTIONAL { ?o :p ?v }", "?s ?p ?o BIND(STR(?p) AS ?v)",
            "{ ?s ?p ?o } UNION { GRAPH <z> { ?s ?p ?o } } # }\n", "VALUES (?s ?v) { (:a 1) (UNDEF 'x') } ?s ?p ?o",
            "?s ?p ?o FILTER NOT EXISTS { ?o ?q ?s }", "{ SELECT DISTINCT ?s { ?s ?p ?o } }", "",
        ])  # fmt: skip
        terms = ["?s", "?s", "?o", "?v", ":a", "<z>"]

        def template(more: list[str]) -> str:
            triples = [
                f"{self.rng.choice([*terms, *more])} {self.rng.choice(['?p', ':p', 'a', ':q'])} "
                f"{self.rng.choice([*terms, *more, '1'])} ."
                for _ in range(self.rng.randint(0, 3))
            ]
            body = " ".join(triples)
            graph = self.rng.choice([":a", "?s", "<z>"])
            return f"{{ {body} }}" if self._flip(0.7) else f"{{ GRAPH {graph} {{ {body} }} }}"

        blanks = ["_:b", "[]", "[ :r ?o ]"] if self._flip(0.3) else []
        parts = [f"DELETE {template([])}", f"INSERT {template(blanks)}"]
        chosen = self.rng.choice([parts, parts[:1], parts[1:]])
        return f"{graph}{' '.join(chosen)} {using}WHERE {{ {where} }}"

    def _flip(self, chance: float = 0.5) -> bool:
        return self.rng.random() < chance

    def _part(self, kind: str) -> str:
        if self._flip(0.7):
            return self._subject(kind)
        graph = self.rng.choice(["?g", "?s", *PLACES[:3]] if kind == "DELETE WHERE" else PLACES[:3])
        inside = " . ".join(self._subject(kind) for _ in range(self.rng.randint(1, 2)))
        return f"{self.rng.choice(['GRAPH', 'graph'])} {graph} {{ {inside}{' .' if self._flip() else ''} }}"

    def _subject(self, kind: str) -> str:
        subject = self._node(kind, 0, subject=True)
        if subject.startswith(("[ :", "[ a", "( 1")) and self._flip():
            return subject
        return f"{subject} {self._properties(kind, 1)}"

    def _properties(self, kind: str, depth: int) -> str:
        verbs = VERBS + (["?p", "$q"] if kind == "DELETE WHERE" else [])
        lists = [
            f"{self.rng.choice(verbs)} " + ", ".join(self._node(kind, depth) for _ in range(self.rng.randint(1, 2)))
            for _ in range(self.rng.randint(1, 1 if kind == "DELETE WHERE" else 3))
        ]
        return " ; ".join(lists) + self.rng.choice(["", "", " ;", " ; ;"])

    def _node(self, kind: str, depth: int, *, subject: bool = False) -> str:
        if kind == "DELETE WHERE" and self._flip(0.6):
            return self.rng.choice(["?s", "?o", "$é", "?s"])
        if kind == "INSERT DATA" and self._flip(0.4):
            return self._blank(kind, depth)
        return self.rng.choice(PLACES if subject or self._flip() else VALUES)

    def _blank(self, kind: str, depth: int) -> str:
        match self.rng.randrange(4) if depth < 4 else 0:
            case 0:
                return f"_:b{self.rng.randrange(self._first, self._labels)}"
            case 1:
                return self.rng.choice(["[]", "[ \n]"])
            case 2:
                return f"[ {self._properties(kind, depth + 1)} ]"
        return f"( 1 {' '.join(self._node(kind, depth + 1) for _ in range(self.rng.randint(0, 3)))} )"


BLANK = re.compile(r"<urn:bnode:[^:>]*:([^>]*)>")


def _canonical(triples: Iterable[Statement]) -> set[str]:
    """Return triples with blank nodes named by where they stand."""
    text = "".join(
        " ".join(BLANK.sub(lambda m: "_:b" + m[1].encode().hex(), term) for term in triple) + " .\n"
        for triple in triples
    )
    dataset = ox.Dataset(quad for quad in ox.parse(text.encode(), format=ox.RdfFormat.N_QUADS))
    dataset.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return {str(quad) for quad in dataset}


def _expected(text: str) -> set[str]:
    store = ox.Store()
    store.update(text)
    dataset = ox.Dataset(store)
    dataset.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return {str(quad) for quad in dataset}


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], set[str]]:
    """Return a function that executes an update over no statements, and returns the statements after it."""

    def execute(text: str) -> set[str]:
        held = HeldGraphs()
        monkeypatch.setattr("p2prdf.client.update.answer_once", held.answer_once)
        asyncio.run(held.update(text))
        return _canonical(held.statements)

    return execute


@pytest.mark.parametrize("seed", range(400))
def test_random_updates_have_the_result_of_pyoxigraph(seed: int, executed: Callable[[str], set[str]]) -> None:
    text = Writer(seed, whole=True).update()
    assert executed(text) == _expected(text)


@pytest.mark.parametrize("seed", range(100))
def test_declarations_may_be_repeated_between_operations(seed: int, executed: Callable[[str], set[str]]) -> None:
    """pyoxigraph takes no declarations there."""
    text = Writer(seed, whole=True).update()
    declared = r"\1 # ; {\nprefix : <http://e/> BASE <y>\n"
    again = re.sub(r"(\} ?;)(?=\s*(?:INSERT|DELETE|CLEAR|WITH|COPY) )", declared, text)
    assert executed(again) == executed(text)


PIECES = ["{", "}", "[", "]", "(", ")", ".", ";", ",", "a", ":p", "?x", "_:z", "'x'", "1", "DATA", "WHERE", "<z>"]


@pytest.mark.parametrize("seed", range(300))
def test_texts_that_are_nearly_updates_are_taken_where_others_take_them(
    seed: int, executed: Callable[[str], set[str]]
) -> None:
    """One token is left out, put in or exchanged.  (pyoxigraph can do without a ``.``, which rdflib then misses.)"""
    text = Writer(seed).update()
    rng = random.Random(f"nearly {seed}")
    found = tokens.scan(text)
    token = rng.choice(found[9:])
    put = rng.choice(PIECES) if rng.random() < 0.7 else ""
    after = token.at + (len(token.text) if rng.random() < 0.7 or not put else 0)
    text = f"{text[: token.at]} {put} {text[after:]}"
    refused = refusal_of(text)
    if refused is None:
        assert executed(text) == _expected(text)
        return
    assert refused.line is not None
    with pytest.raises((SyntaxError, ParseException)):
        _taken_by_both(text)


def _taken_by_both(text: str) -> None:
    ox.Store().update(text)
    parseUpdate(text)


FRAGMENTS = [
    *PLACES, *VERBS, *VALUES, *PIECES, "INSERT", "DELETE", "INSERT DATA {", "DELETE WHERE {", "DELETE DATA {", "GRAPH",
    "PREFIX", "BASE", "PREFIX : <x:>", "^^", "@en", "<<", ">>", "é", "\\", "'", '"""', "\0", "\ud800", "+", "^", "!",
]  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40), st.sampled_from([" ", "", "\n"]))
def test_any_text_is_parsed_or_refused(fragments: list[str], between: str) -> None:
    refused = refusal_of(between.join(fragments))
    assert refused is None or len(str(refused)) < 500
