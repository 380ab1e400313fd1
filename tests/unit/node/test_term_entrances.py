"""Each entrance takes the same texts for terms: client, node, Spark, N-Triples, JSON, RDF Patch, computed terms."""

from __future__ import annotations

import io

import msgpack
import numpy as np
import pytest
from session_world import World
from term_table import BAD_IRIS, BAD_LITERALS, GOOD, RESPELLED

from p2prdf.columns import ARRAYS
from p2prdf.errors import DataRefused
from p2prdf.rdf import terms
from p2prdf.rdf.dictionary import TermNames
from p2prdf.rdf.expressions import ExpressionError
from p2prdf.rdf.functions import FUNCTIONS
from p2prdf.rdf.ntriples import read_triples
from p2prdf.rdf.values import Family, Value, encode, string
from p2prdf.replica.rdf_patch import read_patch
from p2prdf.wire import contract, messages
from p2prdf.wire.codec import VERSION, FrameCodec
from p2prdf.wire.messages import ClientDone, ClientError

CLIENT_PUBLISH = 66
BAD = [*BAD_IRIS, *BAD_LITERALS]


def shown(text):
    return ascii(text[:40])


def by_client(text):
    terms.check_all(["<urn:a>", text])
    return text


def by_node(text):
    """A frame of a client that does not use the library, as bytes."""
    world = World()
    wire, (first, last) = world.client(), ((1, 0), (1, int(text != "<urn:a>")))
    published = (CLIENT_PUBLISH, 3, 1, 1, first, first, last, "indexed", False, 0, (), False, ())
    body = msgpack.packb((VERSION, list(dict.fromkeys(["<urn:a>", text])), (published,)))
    (message,) = FrameCodec(world.terms, ARRAYS).decode(body, unchecked=True)
    answers = wire.take(message)
    given = world.taken(contract.Publish)
    assert wire.take(messages.ClientPing(4)) == [ClientDone(4)], "the connection goes on"
    if answers:
        (answer,) = answers
        assert (type(answer), answer.request, answer.code) == (ClientError, 3, DataRefused.code)
        raise DataRefused(answer.text)
    return world.terms.text(int(given[0].o[0]))


def by_spark(text):
    arrow_terms, pa = pytest.importorskip("p2prdf.publish.arrow_terms"), pytest.importorskip("pyarrow")
    checked = arrow_terms.check_terms(pa.array([text], pa.string()))
    if checked.kinds[0] == arrow_terms.BAD:
        raise DataRefused(checked.reasons[0])
    return checked.texts[checked.place[0]]


def by_ntriples(text):
    stream = io.BytesIO(f"<urn:s> <urn:p> {text} .\n".encode())
    (batch,) = read_triples(stream, publication_id="x", strict=True)
    return batch.o[0]


def by_patch(text):
    (changes,) = read_patch([f"A <urn:s> <urn:p> {text} .\n"])
    ((_, _, found),) = changes.added
    return found


def by_constant(text):
    return terms.parse_term(text)


READERS = [by_spark, by_ntriples, by_patch, by_constant]
ENTRANCES = [by_client, by_node, *READERS]


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("text", GOOD, ids=shown)
def test_a_canonical_term_is_taken_as_it_is(entrance, text):
    assert entrance(text) == text


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("text", BAD, ids=shown)
def test_a_text_that_is_no_term_is_refused(entrance, text):
    with pytest.raises(DataRefused):
        entrance(text)


@pytest.mark.parametrize("entrance", [each for each in ENTRANCES if each is not by_patch])
def test_a_triple_term_is_taken_as_it_is(entrance):
    text = "<<( <urn:a> <urn:b> <urn:c> )>>"
    assert entrance(text) == text


def test_an_rdf_patch_has_no_triple_terms():
    with pytest.raises(DataRefused):
        by_patch("<<( <urn:a> <urn:b> <urn:c> )>>")


@pytest.mark.parametrize(("text", "canonical"), RESPELLED.items(), ids=RESPELLED)
def test_another_spelling_is_read_as_the_canonical_term_and_refused_where_terms_have_to_be_canonical(text, canonical):
    for entrance in READERS:
        assert entrance(text) == canonical
    for entrance in (by_client, by_node):
        with pytest.raises(DataRefused, match=r"not canonical: .*; write"):
            entrance(text)


@pytest.mark.parametrize("text", [text for text in BAD_IRIS if text[0] + text[-1] == "<>"], ids=shown)
def test_neither_json_nor_a_computed_iri_makes_a_term_of_bad_text(text):
    with pytest.raises(DataRefused):
        terms.from_json({"type": "uri", "value": text[1:-1]})
    with pytest.raises(ExpressionError):
        FUNCTIONS["IRI"](string(text[1:-1]))


@pytest.mark.parametrize("tag", ["", "-", "123456789", "en_us", "e n"])
def test_neither_json_nor_a_computed_literal_has_a_tag_that_is_none(tag):
    with pytest.raises(DataRefused):
        terms.from_json({"type": "literal", "value": "x", "xml:lang": tag})
    with pytest.raises(ExpressionError):
        FUNCTIONS["STRLANG"](string("x"), string(tag))


def test_computed_terms_are_canonical():
    for made in (
        FUNCTIONS["STRLANG"](string("x"), string("EN")),
        FUNCTIONS["STRDT"](string("x"), Value(Family.IRI, terms.XSD + "string")),
        FUNCTIONS["IRI"](string("urn:é")),
    ):
        terms.check_all([encode(made)])


@pytest.mark.parametrize("text", ["<rel>", "<urn:a#b#c>", '"x"', "urn:a"])
def test_the_name_of_a_stream_is_checked_too_and_never_costs_the_connection(text):
    world = World()
    wire = world.client()
    (answer,) = wire.take(messages.ClientEndStream(3, text, 1, 2, 3, 4))
    assert (answer.request, answer.code) == (3, DataRefused.code)
    assert wire.take(messages.ClientHeartbeat(text, 1, 2, 3, 4)) == []
    assert world.clients.counts["errors_data-refused"] == 2
    assert wire.take(messages.ClientPing(4)) == [ClientDone(4)]


def test_a_node_names_term_reason_and_remedy():
    with pytest.raises(DataRefused, match=r"object '<rel>' .*No scheme found.*; write an absolute IRI in <>"):
        by_node("<rel>")


def test_a_node_looks_at_each_new_term_once_and_at_no_row(monkeypatch):
    looked = []
    refusals = terms.refusals
    monkeypatch.setattr(terms, "refusals", lambda texts: refusals(looked.extend(texts) or texts))
    world = World()
    wire, sender = world.client(), TermNames()
    names = sender.intern_all([f"<urn:{number}>" for number in range(10)])
    for request in range(5):
        column = np.array(names * 100, np.uint32)
        body = FrameCodec(sender, ARRAYS).encode([messages.ClientPublish(request, 1, 1, column, column, column)])[4:]
        (message,) = FrameCodec(world.terms, ARRAYS).decode(body, unchecked=True)
        assert wire.take(message) == []
    assert sorted(looked) == sorted(["<urn:a>", *sender.texts(range(10))])
