"""Real triples and a thousand standing queries over them, drawn by walking the data.

The triples are WordNet's text (labels and glosses), its part-of places, DBpedia Live's additions and
the schema.org vocabulary, read where they lie beside the repository; nothing of them is kept here.
"""

from __future__ import annotations

import gzip
import lzma
import random
from collections import defaultdict
from pathlib import Path

import pyoxigraph as ox

DATA = Path(__file__).parents[3] / "shared" / "data"
TRIPLES = 100_000
QUERIES = 1000
ANSWERS_MAX = 400
"""A query with more answers than this is drawn again: the answers, not the joins, would be measured."""

Triple = tuple[str, str, str]


def available() -> bool:
    """Whether the data lies beside the repository."""
    return (DATA / "text" / "wordnet.nt.xz").exists()


def load(count: int = TRIPLES) -> list[Triple]:
    """Return ``count`` distinct real triples in canonical terms, in a fixed random order."""
    found: dict[Triple, None] = {}
    for name in ("text/wordnet.nt.xz", "changesets/dbpedia-live/start.nt.gz", "changesets/schemaorg/start.nt.gz"):
        opened = lzma.open if name.endswith("xz") else gzip.open
        with opened(DATA / name) as stream:
            for quad in ox.parse(stream.read(), format=ox.RdfFormat.N_TRIPLES):
                if not isinstance(quad.subject, ox.BlankNode) and not isinstance(quad.object, ox.BlankNode):
                    found[str(quad.subject), str(quad.predicate), str(quad.object)] = None
    for name in ("conjunctive/wordnet.tsv.xz", "conjunctive/dbpedia-live.tsv.xz"):
        with lzma.open(DATA / name, "rt") as lines:
            for line in lines:
                quad = next(iter(ox.parse(line.split("\t")[-1].encode(), format=ox.RdfFormat.N_TRIPLES)))
                found[str(quad.subject), str(quad.predicate), str(quad.object)] = None
    kept = {(str(q.subject), str(q.predicate), str(q.object)) for q in store_of(list(found))}
    triples = sorted(kept & found.keys())  # the store rewrites some numbers and dates: leave those out
    random.Random(7).shuffle(triples)
    assert len(triples) >= count, f"only {len(triples)} real triples were found"
    return triples[:count]


class Walker:
    """Draws conjunctive queries that have answers, by walking from triple to triple."""

    def __init__(self, triples: list[Triple], seed: int = 1):
        self._rng = random.Random(seed)
        self._triples = triples
        self._out: dict[str, list[Triple]] = defaultdict(list)
        self._in: dict[str, list[Triple]] = defaultdict(list)
        for triple in triples:
            self._out[triple[0]].append(triple)
            self._in[triple[2]].append(triple)

    def patterns(self) -> tuple[list[tuple[str, str, str]], list[str]]:
        """Return 1 to 4 connected patterns with at least one constant that is no predicate, and their variables.

        Each pattern shares a term with one before it.
        """
        rng = self._rng
        walk = [rng.choice(self._triples)]
        for _ in range(rng.choice((0, 1, 1, 2, 2, 3))):
            s, _, o = rng.choice(walk)
            near = [*self._out[s][:20], *self._in[s][:20], *self._out[o][:20]]
            walk.append(rng.choice(near))
        walk = list(dict.fromkeys(walk))
        nodes = list(dict.fromkeys(term for s, _, o in walk for term in (s, o)))
        kept = set(rng.sample(nodes, rng.randint(1, max(1, len(nodes) // 2))))
        names = {node: f"?v{at}" for at, node in enumerate(nodes) if node not in kept}
        if not names:
            names = {nodes[0]: "?v0"}
        return [(names.get(s, s), p, names.get(o, o)) for s, p, o in walk], sorted(names.values())

    def draw(self) -> str:
        """Return a SELECT query of such patterns, one in five DISTINCT."""
        patterns, names = self.patterns()
        answer = self._rng.sample(names, self._rng.randint(1, len(names)))
        distinct = "DISTINCT " if self._rng.random() < 0.2 else ""
        text = " . ".join(map(" ".join, patterns))
        return f"SELECT {distinct}{' '.join(answer)} WHERE {{ {text} }}"


def store_of(triples: list[Triple]) -> ox.Store:
    """Return an independent store of the triples."""
    store = ox.Store()
    text = "\n".join(f"{s} {p} {o} ." for s, p, o in triples)
    store.bulk_load(text.encode(), format=ox.RdfFormat.N_TRIPLES)
    return store


def draw_queries(triples: list[Triple], count: int = QUERIES, seed: int = 1) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Return queries with the answers that pyoxigraph gives them, as sorted rows of canonical terms."""
    store, walker = store_of(triples), Walker(triples, seed)
    drawn: dict[str, list[tuple[str, ...]]] = {}
    while len(drawn) < count:
        query = walker.draw()
        rows = []
        for solution in store.query(query):
            rows.append(tuple(str(value) for value in solution))
            if len(rows) > ANSWERS_MAX:
                break
        if rows and len(rows) <= ANSWERS_MAX:
            drawn.setdefault(query, sorted(rows))
    return list(drawn.items())
