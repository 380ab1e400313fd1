"""Updates: their publications, their order, refusals before the first of them, and updates of SEPA applications."""

from __future__ import annotations

import asyncio
import re

import pytest
from held_graphs import HeldGraphs

from p2prdf.client.update import UpdateBounds, Updated, _unmarked
from p2prdf.errors import LocalProtocolError, NotAllowed, QueryRefused, TargetRefused, Unavailable
from p2prdf.rdf.terms import XSD

A = ("<x:a>", "<x:p>", "<x:b>")
B = ("<x:b>", "<x:p>", "<x:c>")
IN_G = (*A, "<x:g>")
RULE = ("<x:rules>", "<urn:p2prdf:rule>", '"..."', "<urn:p2prdf:rules>")


def number(value):
    return f'"{value}"^^<{XSD}integer>'


@pytest.fixture
def held(monkeypatch):
    """Return a function that makes a client with statements; its update returns the result."""

    def hold(*statements):
        client = HeldGraphs(statements)
        monkeypatch.setattr("p2prdf.client.update.answer_once", client.answer_once)
        return client

    return hold


def execute(client, text, **options):
    return asyncio.run(client.update("PREFIX : <x:> " + text, **options))


def refusal(client, text, **options):
    with pytest.raises(QueryRefused) as refused:
        execute(client, text, **options)
    return refused.value


# --- publications --------------------------------------------------------------------------------


def test_an_operation_is_one_publication_with_its_deletions_first(held):
    client = held(A, B)
    assert execute(client, "DELETE { ?s :p ?o } INSERT { ?o :q ?s } WHERE { ?s :p ?o }") == Updated(2, 2)
    (publication,) = client.publications
    assert [removed for removed, _ in publication] == [True, True, False, False]
    assert client.statements == {("<x:b>", "<x:q>", "<x:a>"), ("<x:c>", "<x:q>", "<x:b>")}


def test_operations_without_where_are_one_publication(held):
    client = held(A)
    text = "DELETE DATA { :a :p :b } ; INSERT DATA { :a :p :c } ; INSERT DATA { GRAPH :g { :a :p :b } }"
    assert execute(client, text) == Updated(2, 1)
    assert client.publications == [[(True, A), (False, ("<x:a>", "<x:p>", "<x:c>")), (False, IN_G)]]
    assert client.queries == []


def test_the_last_change_of_a_statement_counts(held):
    client = held()
    execute(client, "INSERT DATA { :a :p :b, :c } ; DELETE DATA { :a :p :b } ; DELETE DATA { :a :p :c } ;"
                    "INSERT DATA { :a :p :c }")  # fmt: skip
    assert client.publications == [[(True, A), (False, ("<x:a>", "<x:p>", "<x:c>"))]]


def test_a_statement_deleted_and_inserted_by_one_operation_is_there_after_it(held):
    client = held(A)
    execute(client, "DELETE { ?s :p ?o } INSERT { ?s :p ?o } WHERE { ?s :p ?o }")
    assert client.publications == [[(False, A)]]


def test_a_where_sees_the_effect_of_earlier_operations(held):
    client = held(A)
    execute(client, "INSERT DATA { :b :p :c } ; INSERT { ?x :q ?z } WHERE { ?x :p ?y . ?y :p ?z }")
    assert client.publications == [[(False, B)], [(False, ("<x:a>", "<x:q>", "<x:c>"))]]


def test_operations_on_graphs_see_earlier_operations_without_a_publication_between(held):
    client = held(IN_G, B)
    execute(client, "INSERT DATA { GRAPH :h { :b :p :c } } ; MOVE :g TO :h ; COPY DEFAULT TO :g ; CLEAR DEFAULT")
    assert len(client.publications) == 1
    assert client.statements == {(*A, "<x:h>"), (*B, "<x:g>")}


def test_an_update_without_effect_publishes_nothing(held):
    client = held(A)
    assert execute(client, "DELETE { ?s :p ?o } WHERE { ?s :q ?o } ; CLEAR GRAPH :g ; CREATE GRAPH :g") == Updated(0, 0)
    assert client.publications == []


def test_several_graphs_are_cleared_except_those_of_registrations(held):
    client = held(A, IN_G, RULE)
    assert execute(client, "DROP ALL") == Updated(0, 2)
    assert client.statements == {RULE}
    assert execute(client, "DROP GRAPH <urn:p2prdf:rules>") == Updated(0, 1)


@pytest.mark.parametrize(
    ("text", "deleted"),
    [
        ("", 0), ("INSERT DATA { }", 0), ("DELETE DATA { }", 0), ("DELETE WHERE { }", 0),
        ("INSERT { ?s :p :o } WHERE { }", 0), ("DELETE WHERE { 'no subject' ?p ?o }", 0),
        ("DELETE WHERE { 'no subject' :p :b }", 0), ("DELETE WHERE { :a :p :b }", 1),
    ],
)  # fmt: skip
def test_an_update_with_known_triples_asks_no_query(held, text, deleted):
    client = held(A)
    assert execute(client, text) == Updated(0, deleted)
    assert client.queries == []
    assert client.statements == (set() if deleted else {A})


@pytest.mark.parametrize("more", [(), (B,)])
def test_several_triples_are_deleted_only_if_all_exist(held, more):
    client = held(A, *more)
    assert execute(client, "DELETE WHERE { :a :p :b . :b :p :c }") == Updated(0, 2 if more else 0)
    assert client.statements == (set() if more else {A})


def test_solutions_that_share_a_triple_delete_it_once(held):
    client = held(*(("<x:a>", p, number(n)) for p in ("<x:p>", "<x:q>") for n in range(3)))
    assert execute(client, "DELETE WHERE { ?s :p ?x ; :q ?y }") == Updated(0, 6)
    assert [len(each) for each in client.publications] == [6]


def test_blank_nodes_are_new_ones_each_time(held):
    client = held()
    for _ in range(2):
        execute(client, "INSERT DATA { _:x :p _:y . _:y :p [] } ; INSERT { [] :p :o } WHERE { }")
    nodes = {term for s, _, o in client.statements for term in (s, o)} - {"<x:o>"}
    assert len(nodes) == 8
    assert all(node.startswith("<urn:bnode:") for node in nodes)


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "construct"),
    [
        ("COPY :none TO :g", "COPY"), ("MOVE :none TO :g", "MOVE"), ("ADD :none TO :g", "ADD"),
        ("CREATE GRAPH :g", "CREATE"),
    ],
)  # fmt: skip
def test_an_operation_that_fails_publishes_nothing_and_names_the_remedy(held, text, construct):
    client = held(IN_G)
    error = refusal(client, f"INSERT DATA {{ :b :p :c }} ; {text}")
    assert error.construct == construct
    assert f"{construct} SILENT" in error.reason
    assert client.publications == []
    execute(client, f"INSERT DATA {{ :b :p :c }} ; {text.replace(' ', ' SILENT ', 1)}")
    assert client.statements == {IN_G, B}


def test_a_later_operation_that_is_malformed_is_found_before_the_first_one_runs(held):
    client = held(A)
    assert refusal(client, "INSERT DATA { :b :p :c } ; DELETE WHERE { ?s ?p SERVICE }").construct == "SERVICE"
    assert client.publications == []


def test_after_a_failed_publication_nothing_more_is_done(held):
    client = held()

    async def publish(_):
        raise Unavailable("gone")

    client.publish = publish
    with pytest.raises(Unavailable):
        execute(client, "INSERT DATA { :a :p :b } ; INSERT { ?s :q ?o } WHERE { ?s :p ?o }")
    assert client.queries == []


def test_solutions_and_changed_statements_are_bounded_before_the_publication(held):
    client = held(*((f"<x:{n}>", "<x:p>", number(n)) for n in range(20)))
    for text, bounds, construct in (
        ("DELETE WHERE { ?s :p ?o }", UpdateBounds(solutions_max=19), "DELETE WHERE"),
        ("INSERT { ?s :q ?o } WHERE { ?s :p ?o }", UpdateBounds(solutions_max=19), "INSERT WHERE"),
        ("CLEAR DEFAULT", UpdateBounds(solutions_max=19), "CLEAR"),
        ("INSERT { ?s :q ?o, ?s } WHERE { ?s :p ?o }", UpdateBounds(statements_max=39), "size of the update"),
        ("INSERT DATA { :a :p 1, 2 } ; INSERT DATA { :b :p 3 }", UpdateBounds(statements_max=2), "size of the update"),
    ):
        error = refusal(client, text, bounds=bounds)
        assert error.construct == construct
        assert "in parts" in error.reason
    assert client.publications == []
    assert execute(client, "DELETE WHERE { ?s :p ?o }", bounds=UpdateBounds(20, 20)) == Updated(0, 20)
    with pytest.raises(LocalProtocolError, match="must be positive"):
        execute(client, "CLEAR ALL", bounds=UpdateBounds(statements_max=0))


def test_a_long_template_is_refused_before_many_solutions_have_filled_it(held, monkeypatch):
    client = held(*((f"<x:{n}>", "<x:p>", number(n)) for n in range(500)))
    filled = []

    def unmarked(row, marks):
        filled.append(row)
        return _unmarked(row, marks)

    monkeypatch.setattr("p2prdf.client.update._unmarked", unmarked)
    text = f"INSERT {{ ?s :q ?new, {', '.join(map(str, range(999)))} }} WHERE {{ ?s :p ?o BIND(UUID() AS ?new) }}"
    assert refusal(client, text, bounds=UpdateBounds(statements_max=5000)).construct == "size of the update"
    assert len(filled) < 15


# --- documents -----------------------------------------------------------------------------------


class Documents:
    """Loads from a table; hosts other than ``ok`` are not permitted."""

    def __init__(self, **documents):
        self.documents = documents
        self.loaded = []

    def check(self, url):
        if not url.startswith("http://ok/"):
            raise TargetRefused(f"{url} is not on the list")

    async def load(self, url, *, publication_id, statements_max):
        self.loaded.append(url)
        found = self.documents.get(url.rpartition("/")[2])
        if found is None:
            raise Unavailable(f"{url}: 404")
        if found == "slow":
            await asyncio.sleep(3600)
        return found


def test_documents_are_loaded_into_a_graph(held):
    client, loader = held(), Documents(d=[A, B])
    text = "LOAD <http://ok/d> INTO GRAPH :g ; LOAD <http://ok/d> ; LOAD SILENT <http://ok/none>"
    assert execute(client, text, loader=loader) == Updated(4, 0)
    assert client.statements == {A, B, IN_G, (*B, "<x:g>")}


def test_load_is_refused_without_a_loader_and_for_other_hosts_before_anything_runs(held):
    client, loader = held(), Documents(d=[A])
    error = refusal(client, "INSERT DATA { :a :p :b } ; LOAD <http://ok/d>")
    assert (error.construct, "permit" in error.reason) == ("LOAD", True)
    error = refusal(client, "LOAD <http://ok/d> ; LOAD <http://169.254.169.254/d>", loader=loader)
    assert (error.construct, "not on the list" in error.reason) == ("LOAD", True)
    silent = "LOAD SILENT <http://other/d> ; LOAD SILENT <file:///etc/passwd>"
    assert execute(client, silent, loader=loader) == Updated(0, 0)
    assert execute(client, "LOAD SILENT <http://ok/d>") == Updated(0, 0)
    assert (client.publications, loader.loaded) == ([], [])


class Endpoint:
    """An endpoint with the same solutions for every query."""

    def __init__(self, rows, failure=None):
        self.asked = []
        self._rows = rows
        self._failure = failure

    def check(self, url):
        if url != "http://ok/":
            raise TargetRefused("not on the list")

    async def ask(self, url, query, *, scope, rows_max):
        self.asked.append(query)
        if self._failure is not None:
            raise self._failure
        return ("o", "x"), self._rows


@pytest.fixture
def held_once(held, monkeypatch):
    """Return a function that makes a client with statements, also for the values of SERVICE."""

    def hold(*statements):
        client = held(*statements)
        monkeypatch.setattr("p2prdf.client.services.answer_once", client.answer_once)
        return client

    return hold


CALL = "INSERT { ?s :q ?x } WHERE { ?s :p ?o SERVICE <http://ok/> { ?o :r ?x } }"


def test_a_where_calls_another_endpoint_with_its_values(held_once):
    client, endpoint = held_once(A, B), Endpoint([("<x:b>", '"1"')])
    assert execute(client, CALL, endpoints=endpoint) == Updated(1, 0)
    assert client.statements == {A, B, ("<x:a>", "<x:q>", '"1"')}
    assert "VALUES (?o) { (<x:b>) (<x:c>) }" in endpoint.asked[0] or "(<x:c>) (<x:b>)" in endpoint.asked[0]
    silent = CALL.replace("SERVICE", "SERVICE SILENT")
    assert execute(client, silent, endpoints=Endpoint([], Unavailable("slow"))) == Updated(0, 0)
    only = "INSERT { <x:n> :q ?x } WHERE { SERVICE <http://ok/> { ?o :r ?x } } ; DELETE WHERE { ?s :p ?o }"
    assert execute(client, only, endpoints=Endpoint([("<x:b>", '"2"')])) == Updated(1, 2)


def test_calls_are_refused_before_anything_runs_without_permission_or_reading(held_once):
    client, endpoint = held_once(A), Endpoint([])
    before = "INSERT DATA { :n :p :m } ; "
    error = refusal(client, before + CALL)
    assert (error.construct, "--service-from" in error.reason) == ("SERVICE", True)
    error = refusal(client, before + CALL.replace("//ok/", "//other/"), endpoints=endpoint)
    assert (error.construct, error.line, "not on the list" in error.reason) == ("SERVICE", None, True)
    error = refusal(client, before + CALL.replace("?o SERVICE", "?o ?e SERVICE"), endpoints=endpoint)
    assert error.line == 1
    with pytest.raises(NotAllowed, match="permission to read"):
        execute(client, before + CALL, endpoints=endpoint, reads=False)
    assert (client.publications, endpoint.asked) == ([], [])


def test_only_an_update_with_a_call_is_searched_for_calls(held_once, monkeypatch):
    client, searched = held_once(A), []
    for module in ("update", "services"):
        monkeypatch.setattr(f"p2prdf.client.{module}.check_services", lambda text, _: searched.append(text))
    execute(client, "INSERT { ?s :q ?o } WHERE { ?s :p ?o }", endpoints=Endpoint([]))
    assert searched == []
    execute(client, CALL, endpoints=Endpoint([("<x:b>", '"1"')]))
    assert searched != []


def test_a_silent_call_without_permitted_hosts_has_no_effect(held_once):
    client = held_once(A)
    optional = CALL.replace("SERVICE", "SERVICE SILENT").replace(":q ?x", ":q ?o")
    assert execute(client, optional) == Updated(1, 0)
    assert client.statements == {A, ("<x:a>", "<x:q>", "<x:b>")}


def test_an_endpoint_that_is_slow_is_reported_with_the_timeout_of_the_update(held_once):
    class Slow(Endpoint):
        async def ask(self, url, query, *, scope, rows_max):
            await asyncio.sleep(60)

    with pytest.raises(Unavailable, match=r"the endpoints of SERVICE did not answer within 0\.2 s"):
        execute(held_once(A), CALL, endpoints=Slow([]), timeout_seconds=0.2)


def test_an_endpoint_that_fails_fails_the_update(held_once):
    client = held_once(A)
    with pytest.raises(Unavailable, match="SERVICE SILENT"):
        execute(client, CALL, endpoints=Endpoint([], Unavailable("http://ok/: down")))
    assert client.publications == []


def test_a_document_that_fails_or_is_slow_fails_the_update_unless_silent(held):
    client, loader = held(), Documents(slow="slow")
    for name in ("none", "slow"):
        text = f"INSERT DATA {{ :a :p :b }} ; LOAD <http://ok/{name}>"
        with pytest.raises(Unavailable, match=name):
            execute(client, text, loader=loader, timeout_seconds=0.05)
        assert client.publications == []
        execute(client, f"LOAD SILENT <http://ok/{name}>", loader=loader, timeout_seconds=0.05)


# --- updates of SEPA and IoT applications --------------------------------------------------------

SOSA = "PREFIX sosa: <http://www.w3.org/ns/sosa/> PREFIX qudt: <http://qudt.org/schema/qudt/> "
S = "http://www.w3.org/ns/sosa/"
OLD = (("<x:t1>", f"<{S}hasResult>", "<x:r1>"), ("<x:r1>", "<http://qudt.org/schema/qudt/numericValue>", '"20"'))
IDIOMS = {
    "upsert of a value that is missing": (
        (),
        "DELETE { :t1 :value ?old } INSERT { :t1 :value '21' } WHERE { OPTIONAL { :t1 :value ?old } }",
        (("<x:t1>", "<x:value>", '"21"'),),
    ),
    "upsert of a value that exists": (
        (("<x:t1>", "<x:value>", '"20"'), ("<x:t2>", "<x:value>", '"20"')),
        "DELETE { :t1 :value ?old } INSERT { :t1 :value '21' } WHERE { OPTIONAL { :t1 :value ?old } }",
        (("<x:t1>", "<x:value>", '"21"'), ("<x:t2>", "<x:value>", '"20"')),
    ),
    "upsert in a graph": (
        (("<x:t1>", "<x:value>", '"20"', "<x:g>"),),
        "WITH :g DELETE { :t1 :value ?old } INSERT { :t1 :value '21' } WHERE { OPTIONAL { :t1 :value ?old } }",
        (("<x:t1>", "<x:value>", '"21"', "<x:g>"),),
    ),
    "upsert in an absent graph": (
        (),
        "WITH :g DELETE { :t1 :value ?old } INSERT { :t1 :value '21' } WHERE { OPTIONAL { :t1 :value ?old } }",
        (("<x:t1>", "<x:value>", '"21"', "<x:g>"),),
    ),
    "new value of the result of an observation": (
        OLD,
        SOSA + "DELETE { ?r qudt:numericValue ?old } INSERT { ?r qudt:numericValue '21' } "
        "WHERE { :t1 sosa:hasResult ?r OPTIONAL { ?r qudt:numericValue ?old } }",
        (OLD[0], ("<x:r1>", "<http://qudt.org/schema/qudt/numericValue>", '"21"')),
    ),
    "insert unless it exists": (
        (),
        "INSERT { :room :has :lamp } WHERE { FILTER NOT EXISTS { :room :has :lamp } }",
        (("<x:room>", "<x:has>", "<x:lamp>"),),
    ),
    "delete a resource with all its properties": (
        (("<x:msg>", "<x:text>", '"hello"'), ("<x:msg>", "<x:from>", "<x:u>"), ("<x:u>", "<x:name>", '"U"')),
        "DELETE { ?m ?p ?o } WHERE { ?m :from :u ; ?p ?o }",
        (("<x:u>", "<x:name>", '"U"'),),
    ),
    "move a message to another state": (
        (("<x:m>", "<x:state>", '"sent"'), ("<x:n>", "<x:state>", '"read"')),
        "DELETE { ?m :state 'sent' } INSERT { ?m :state 'received' } WHERE { ?m :state 'sent' }",
        (("<x:m>", "<x:state>", '"received"'), ("<x:n>", "<x:state>", '"read"')),
    ),
    "increment of a counter": (
        (("<x:c>", "<x:count>", number(4)),),
        "DELETE { :c :count ?n } INSERT { :c :count ?m } WHERE { :c :count ?n BIND(?n + 1 AS ?m) }",
        (("<x:c>", "<x:count>", number(5)),),
    ),
    "replace of a graph": (
        (("<x:a>", "<x:p>", '"old"', "<x:g>"), A),
        "DROP SILENT GRAPH :g ; INSERT DATA { GRAPH :g { :a :p 'new' } }",
        (("<x:a>", "<x:p>", '"new"', "<x:g>"), A),
    ),
    "actuation of all lamps of a room": (
        (("<x:room>", "<x:has>", "<x:l1>"), ("<x:room>", "<x:has>", "<x:l2>"), ("<x:l1>", "<x:on>", number(0))),
        "DELETE { ?l :on ?was } INSERT { ?l :on 1 } WHERE { :room :has ?l OPTIONAL { ?l :on ?was } }",
        (("<x:room>", "<x:has>", "<x:l1>"), ("<x:room>", "<x:has>", "<x:l2>"), ("<x:l1>", "<x:on>", number(1)),
         ("<x:l2>", "<x:on>", number(1))),
    ),
    "thresholds by VALUES": (
        (("<x:t1>", "<x:high>", number(1)),),
        ("DELETE { ?t :high ?was } INSERT { ?t :high ?h } "
         "WHERE { VALUES (?t ?h) { (:t1 30) (:t2 40) } OPTIONAL { ?t :high ?was } }"),
        (("<x:t1>", "<x:high>", number(30)), ("<x:t2>", "<x:high>", number(40))),
    ),
}  # fmt: skip


def test_a_message_of_sepa_s_chat_has_a_new_name_and_the_time(held):
    people = [(f"<x:{name}>", "<x:a>", "<x:Person>") for name in ("u", "v", "w")]
    client = held(*people)
    text = """INSERT { ?message :text 'hello' ; :to ?to ; :sent ?time ; :key ?key ; :node ?node } WHERE {
        ?to :a :Person BIND(STR(now()) AS ?time)
        BIND(IRI(CONCAT('http://schema.org/Message-', STRUUID())) AS ?message) BIND(UUID() AS ?key)
        BIND(BNODE() AS ?node) }"""
    assert execute(client, text) == Updated(15, 0)
    made = client.statements.difference(people)
    assert len({s for s, _, _ in made}) == 3
    assert all(re.fullmatch(r"<http://schema.org/Message-[0-9a-f-]{36}>", s) for s, _, _ in made)
    (time,) = {o for _, p, o in made if p == "<x:sent>"}
    assert re.fullmatch(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"', time)
    for predicate, begins in (("<x:key>", "<urn:uuid:"), ("<x:node>", "<urn:bnode:")):
        values = {o for _, p, o in made if p == predicate}
        assert len(values) == 3
        assert all(value.startswith(begins) for value in values)


def test_equal_solutions_have_different_new_values(held):
    client = held(A, ("<x:a>", "<x:p>", "<x:c>"))
    execute(client, "INSERT { ?new :of ?s } WHERE { { SELECT ?s { ?s :p ?o } } BIND(UUID() AS ?new) }")
    assert len([each for each in client.statements if each[1] == "<x:of>"]) == 2


@pytest.mark.parametrize(
    ("where", "construct", "column"),
    [
        ("?s :p ?o FILTER(STRLEN(STRUUID()) > 3)", "STRUUID", 66), ("BIND(UCASE(STRUUID()) AS ?x)", "STRUUID", 54),
        ("BIND(UUID() AS ?x) ?x :p ?o", "UUID", 48), ("BIND(BNODE() AS ?x) BIND(STR(?x) AS ?y)", "BNODE", 48),
        ("BIND(NOW () AS ?x) ?s :p SERVICE", "SERVICE", 68),
    ],
)  # fmt: skip
def test_new_values_are_refused_where_they_would_be_computed_with(held, where, construct, column):
    error = refusal(held(), f"INSERT {{ ?x :p ?y }} WHERE {{ {where} }}")
    assert (error.construct, error.column) == (construct, column)


@pytest.mark.parametrize("name", IDIOMS)
def test_updates_of_applications(held, name):
    before, text, after = IDIOMS[name]
    client = held(*before)
    execute(client, text)
    assert client.statements == set(after)
    execute(client, "INSERT DATA { :still :p :works }")


def test_a_template_makes_new_blank_nodes_for_each_solution(held):
    """The clients of SEPA write observations like this."""
    client = held(A, B)
    execute(client, "INSERT { _:o :of ?s ; :result [ :value 1 ] } WHERE { ?s :p ?o }")
    observed = {s: o for s, p, o in client.statements if p == "<x:of>"}
    results = {s: o for s, p, o in client.statements if p == "<x:result>"}
    assert sorted(observed.values()) == ["<x:a>", "<x:b>"]
    assert observed.keys() == results.keys()
    assert len(set(results.values()) | results.keys()) == 4
