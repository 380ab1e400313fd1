"""Options of a write: missing, misspelt and senseless options are refused by name."""

from __future__ import annotations

import pytest

from p2prdf.errors import LocalProtocolError
from p2prdf.publish.options import writing_options
from p2prdf.publish.read_options import reading_options
from p2prdf.publish.template import Template, encoded
from p2prdf.tls import Tls

PEERS = {"peers": "10.0.0.1:7400, [::1]:7401"}
MAPPED = {"subject": "http://example.org/{id}", "predicate.Value": "urn:value"}


def test_peers_alone_are_enough():
    options = writing_options({**PEERS, "checkpointLocation": "/somewhere"})
    assert options.peers == ("10.0.0.1:7400", "[::1]:7401")
    assert (options.mapping, options.skip, options.identity) == (None, False, "")


def test_tls_takes_three_files_in_writes_and_in_reads():
    given = {**PEERS, "tlsCa": "/c/ca.crt", "tlscert": "/c/tls.crt", "TLSKEY": "/c/tls.key"}
    assert writing_options(given).tls == Tls("/c/ca.crt", "/c/tls.crt", "/c/tls.key")
    assert reading_options({**given, "query": "SELECT ?s { ?s ?p ?o }"}).tls == writing_options(given).tls
    assert writing_options(PEERS).tls is None
    with pytest.raises(LocalProtocolError, match="option tlsCert is missing"):
        writing_options({**given, "tlscert": ""})


def test_names_are_taken_without_regard_to_case():
    options = writing_options({"PEERS": "a:1", "badrows": "SKIP", "BatchTriples": "5", "badRowsPath": "x"})
    assert (options.skip, options.batch_triples, options.bad_rows_path) == (True, 5, "x")


def test_a_mapping_has_a_subject_and_columns():
    mapping = writing_options(
        {**PEERS, **MAPPED, "class": "urn:Sensor", "predicate.room": "<urn:room>", "object.room": "urn:room:{room}"}
    ).mapping
    assert mapping is not None
    assert mapping.kind == "<urn:Sensor>"
    assert [(each.column, each.predicate) for each in mapping.columns] == [
        ("value", "<urn:value>"), ("room", "<urn:room>"),
    ]  # fmt: skip
    assert mapping.columns[1].template == Template(("urn:room:", ""), ("room",))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "option peers is missing"),
        ({"peers": "a:1,b"}, "'b' is not host:port"),
        ({"peers": "a:0"}, "'a:0' is not host:port"),
        ({**PEERS, "pears": "a:1"}, "unknown option pears"),
        ({**PEERS, "path": "/out"}, "path '/out': the option peers names the target"),
        ({**PEERS, "badRows": "ignore"}, "option badRows: 'ignore' is neither fail nor skip"),
        ({**PEERS, "badRowsPath": "x"}, "needs badRows = skip"),
        ({**PEERS, "identity": "row"}, "option identity"),
        ({**PEERS, "batchTriples": "0"}, "option batchTriples: '0' is not a number from 1 to 65536"),
        ({**PEERS, "busySeconds": "inf"}, "option busySeconds"),
        ({**PEERS, "partitionRate": "many"}, "option partitionRate"),
        ({**PEERS, "graph": "here"}, "option graph: not an IRI"),
        ({**PEERS, "predicate.a": "urn:a"}, "option subject is missing"),
        ({**PEERS, "subject": "urn:{a}"}, "options predicate.COLUMN are missing"),
        ({**PEERS, **MAPPED, "datatype.b": "urn:b"}, "option predicate.b is missing, option datatype.b is there"),
        ({**PEERS, **MAPPED, "language.value": "en", "datatype.value": "urn:b"}, "several of object, datatype"),
        ({**PEERS, **MAPPED, "language.value": "e n"}, "not a literal"),
        ({**PEERS, **MAPPED, "predicate.b": "b"}, "option predicate.b: not an IRI"),
        ({**PEERS, **MAPPED, "subject": "{id}"}, "option subject: '{id}' does not give an IRI"),
        ({**PEERS, **MAPPED, "subject": "urn:x"}, "names no column"),
        ({**PEERS, **MAPPED, "subject": "urn:{x"}, "brace or backslash at character 5"),
    ],
)
def test_a_senseless_option_is_refused_by_name(given, told):
    with pytest.raises(LocalProtocolError) as refusal:
        writing_options(given)
    assert told in str(refusal.value)


def test_templates_are_those_of_r2rml():
    assert Template.parse("http://e.org/{a b}/{c}#x") == Template(("http://e.org/", "/", "#x"), ("a b", "c"))
    assert encoded("a b/c~d.e_f-g%é{日}\t\ud800"[:-1]) == "a%20b%2Fc~d.e_f-g%25é%7B日%7D%09"
    assert encoded("\x80\ue000") == "%C2%80%EE%80%80", "what no IRI may hold"
