"""Closures of random schemas and data against those of owlrl, an independent implementation of the same rules.

The comparison covers statements about the schema's and the data's own terms by supported rules.  It leaves out
literals (owlrl lets them be subjects), and statements that put a term below itself, or make it the same as
itself: owlrl declares everything, and these follow from declarations.  Lists are whole, for owlrl refuses
others.
"""

from __future__ import annotations

import random

import owlrl
import pytest
import rdflib
from random_schemas import random_data, random_schema

from p2prdf.reasoning import closure, owl_rl, rdfs, without_auxiliary
from p2prdf.reasoning.vocabulary import expanded

SEEDS = 12
SETS = {
    "RDFS": (rdfs(trivial=True), owlrl.RDFS_Semantics),
    "OWL 2 RL": (owl_rl(trivial=True), owlrl.OWLRL_Semantics),
}
COMPARED = {
    *expanded("rdf:type owl:sameAs rdfs:subClassOf rdfs:subPropertyOf rdfs:domain rdfs:range"),
    *expanded("owl:equivalentClass owl:equivalentProperty"),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_closure_of_a_random_graph_is_owlrls(seed, name):
    rng, (rule_set, semantics) = random.Random(seed), SETS[name]
    schema = random_schema(rng, rng.choice((4, 8, 12)), broken=False)
    given = {each for each in schema | random_data(rng, 6) if each[2][0] != '"'}
    ours = without_auxiliary(closure(rule_set.rules, {*given, *rule_set.axioms}))
    assert _compared(ours) == _compared(_by_owlrl(given, semantics))


def _by_owlrl(given, semantics):
    graph = rdflib.Graph()
    graph.parse(data="".join(f"{s} {p} {o} .\n" for s, p, o in given), format="nt")
    owlrl.DeductiveClosure(semantics).expand(graph)
    return {tuple(term.n3() for term in triple) for triple in graph}


def _compared(found):
    return {
        (s, p, o) for s, p, o in found if s != o and s[:5] == o[:5] == "<urn:" and (p[:5] == "<urn:" or p in COMPARED)
    }
