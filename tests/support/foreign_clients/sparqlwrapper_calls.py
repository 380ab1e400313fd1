"""Uses a gateway by SPARQLWrapper: ``python sparqlwrapper_calls.py URL NAMESPACE``; prints ``done``."""

from __future__ import annotations

import sys

import pytest
import SPARQLWrapper as wrapper  # noqa: N813
from rdflib import Graph
from SPARQLWrapper.SPARQLExceptions import QueryBadFormed

SECONDS = 60


def main(url, ns):
    """Ask in each format and by each method, and update by both forms."""
    select = f"SELECT ?o {{ <{ns}a> <{ns}p> ?o }} ORDER BY ?o"

    def asked(query, wanted=None, *, by=wrapper.GET, how=wrapper.URLENCODED):
        client = wrapper.SPARQLWrapper(url)
        client.setQuery(query)
        client.setMethod(by)
        client.setRequestMethod(how)
        client.setTimeout(SECONDS)
        if wanted is not None:
            client.setReturnFormat(wanted)
        return client.queryAndConvert()

    def updated(text, how):
        return asked(text, wrapper.JSON, by=wrapper.POST, how=how)

    updated(f"INSERT DATA {{ <{ns}a> <{ns}p> 1, 2 }}", wrapper.URLENCODED)
    updated(f"DELETE {{ ?s ?p 2 }} INSERT {{ ?s ?p 3 }} WHERE {{ ?s ?p 2 ; <{ns}p> 1 }}", wrapper.POSTDIRECTLY)
    for by, how in (
        (wrapper.GET, wrapper.URLENCODED), (wrapper.POST, wrapper.URLENCODED), (wrapper.POST, wrapper.POSTDIRECTLY),
    ):  # fmt: skip
        found = asked(select, wrapper.JSON, by=by, how=how)
        assert [row["o"]["value"] for row in found["results"]["bindings"]] == ["1", "3"]
    assert len(asked(select, wrapper.XML).getElementsByTagName("result")) == 2
    assert asked(select, wrapper.CSV).split() == [b"o", b"1", b"3"]
    assert [line[:3] for line in asked(select, wrapper.TSV).split()] == [b"?o", b'"1"', b'"3"']
    assert asked(f"ASK {{ <{ns}a> <{ns}p> 3 }}", wrapper.JSON)["boolean"] is True
    construct = f"CONSTRUCT {{ ?s <{ns}q> ?o }} WHERE {{ ?s <{ns}p> ?o . <{ns}a> <{ns}p> ?o }}"
    for wanted in (None, wrapper.XML, wrapper.RDFXML, wrapper.JSONLD):
        assert len(asked(construct, wanted)) == 2
    for wanted in (wrapper.TURTLE, wrapper.N3):
        assert len(Graph().parse(data=asked(construct, wanted), format="turtle")) == 2
    assert len(asked(f"DESCRIBE <{ns}a>")) == 2
    smart = wrapper.SPARQLWrapper2(url)
    smart.setQuery(select)
    assert [each.value for each in smart.query().getValues("o")] == ["1", "3"]
    with pytest.raises(QueryBadFormed, match="query-refused"):
        asked("SELECT nothing", wrapper.JSON)
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
