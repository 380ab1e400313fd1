"""Options of a read: missing, misspelt and senseless options are refused by name."""

from __future__ import annotations

import pytest

from p2prdf.errors import LocalProtocolError, QueryRefused
from p2prdf.publish.read_options import reading_options

GIVEN = {"peers": "10.0.0.1:7400", "query": "SELECT ?s (STR(?o) AS ?text) WHERE { ?s <urn:p> ?o }"}


def test_peers_and_a_query_are_enough():
    options = reading_options({**GIVEN, "checkpointLocation": "/somewhere"})
    assert options.names == ("s", "text")
    assert (options.since, options.rows_max, options.partitions, options.sign) == (None, 10_000, 1, False)
    assert options.fail_on_loss
    assert options.streaming == ()


def test_a_construct_has_the_columns_of_a_triple():
    names = reading_options({**GIVEN, "query": "CONSTRUCT { ?s <urn:q> ?o } WHERE { ?s <urn:p> ?o }"}).names
    assert len(names) == 3


def test_options_of_streams_alone_are_noted_by_name():
    options = reading_options(
        {**GIVEN, "SINCE": "Beginning", "maxrowsperbatch": "7", "sign": "TRUE", "failOnDataLoss": "false"}
    )
    assert (options.since, options.rows_max, options.sign, options.fail_on_loss) == ("beginning", 7, True, False)
    assert options.streaming == ("since", "maxRowsPerBatch", "sign", "failOnDataLoss")


def test_settled_stream_has_marks_and_no_time_to_begin():
    options = reading_options({**GIVEN, "settled": "true", "mark": "true"})
    assert (options.since, options.settled, options.mark) == (None, True, True)


@pytest.mark.parametrize(
    ("text", "since"),
    [("1700000000.5", 1700000000.5), ("2023-11-14T22:13:20Z", 1700000000.0), ("2023-11-14T23:13:20+01:00", 1.7e9)],
)
def test_a_time_is_a_number_or_a_date(text, since):
    assert reading_options({**GIVEN, "since": text}).since == since


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"query": " "}, "option query is missing"),
        ({"peers": ""}, "option peers is missing"),
        ({"peers": "nowhere"}, "'nowhere' is not host:port"),
        ({"query": "ASK { <urn:s> <urn:p> ?o }"}, "an ASK query has no columns"),
        ({"since": "soon"}, "option since: 'soon'"),
        ({"since": "9999999999"}, "is not in the past"),
        ({"since": "-1"}, "is not in the past"),
        ({"maxRowsPerBatch": "0"}, "option maxRowsPerBatch: '0'"),
        ({"partitions": "many"}, "option partitions: 'many'"),
        ({"algorithm": "sql"}, "option algorithm: 'sql'"),
        ({"sign": "true", "query": "SELECT ?sign WHERE { ?sign <urn:p> ?o }"}, "a column ?sign of its own"),
        ({"settled": "true", "since": "now"}, "option since: with settled = true all triples count"),
        ({"mark": "true"}, "option mark: only a stream with option settled = true"),
        ({"settled": "true", "mark": "true", "query": "SELECT ?mark { ?mark <urn:p> ?o }"}, "a column ?mark of its"),
        ({"maxRows": "3"}, "unknown option maxrows"),
    ],
)
def test_a_senseless_option_is_refused(given, told):
    with pytest.raises(LocalProtocolError) as refused:
        reading_options({**GIVEN, **given})
    assert told in str(refused.value)


def test_a_query_that_is_none_is_refused_as_anywhere():
    with pytest.raises(QueryRefused, match="line 1"):
        reading_options({**GIVEN, "query": "SELECT ?s WHERE { ?s"})
