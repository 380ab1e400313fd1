"""Two peers with a publisher of stream elements, and readers with windows."""

from __future__ import annotations

from peer_pair import HIGH, LOW, Pair

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.query import parse_query
from p2prdf.wire.contract import EndStream, Heartbeat, Publish, StreamEnded, Subscribe, Subscribed

__all__ = ["IDLE", "STREAM", "WINDOW", "Streaming"]

STREAM = "<urn:s>"
WINDOW = """PREFIX : <urn:> REGISTER RSTREAM :out AS
    SELECT ?x ?y FROM NAMED WINDOW :w ON :s [RANGE 2s STEP 1s] WHERE { WINDOW :w { ?x :p ?y } }"""
IDLE = {"stream_idle_seconds": 2.0}


class Streaming(Pair):
    """A pair with a publisher of elements."""

    opening_seconds = 1.0

    def elements(self, *triples, times, graph=STREAM, **changes):
        self.requests += 1
        intern, make = self.dictionary.intern_all, self.columns.column
        columns = [make(intern(column), "uint32") for column in zip(*triples, strict=True)]
        streams = (make(intern([graph] * len(triples)), "uint32"),) if graph is not None else ()
        made = {"graph": streams, "times": (make(times),), **changes}
        self.submit(LOW, Publish(self.requests, 9, self.events, *columns, **made))
        self.events += len(triples)
        self.pass_time(0.1)
        return self.completed[self.requests]

    def left(self, text, at=HIGH, **options):
        parsed = parse_query(text)
        query = parsed if parsed.conjunctive is None else parsed.conjunctive
        self.requests += 1
        self.submit(at, Subscribe(self.requests, query, Algorithm.CSBV, **options))
        self.pass_time(self.opening_seconds)
        outcome = self.completed[self.requests]
        assert isinstance(outcome, Subscribed), outcome
        return outcome.subscription

    def rows(self, subscription):
        return [
            tuple(map(self.dictionary.text, row))
            for each in self.notified
            if each.subscription == subscription
            for row in zip(*map(as_list, each.bindings), strict=True)
        ]

    def end(self, upto, publisher=9):
        """Have a publisher close, and let all peers hear of it."""
        self.requests += 1
        self.submit(LOW, EndStream(self.requests, keys.term_hash(STREAM), publisher, 1000, upto, publisher + 1))
        self.pass_time(2.0)
        assert isinstance(self.completed[self.requests], StreamEnded)

    def say(self, upto, seconds=5.0):
        """Have the publisher send a heartbeat, and let all peers hear of it."""
        for _ in range(int(seconds)):
            self.submit(LOW, Heartbeat(keys.term_hash(STREAM), 9, 1000, upto))
            self.pass_time(1.0)
