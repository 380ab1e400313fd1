"""The consequences of each rule, in both forms, and parts of a schema that no rule supports."""

from __future__ import annotations

import re

import pytest

from p2prdf.reasoning import closure, instantiate, is_schema, owl_rl, rdfs, without_auxiliary
from p2prdf.reasoning.vocabulary import expanded

PREFIXED = re.compile(r"(rdf|rdfs|owl|xsd):")


def _triples(text):
    """Return the triples of a text: ``a`` is rdf:type, a word of no prefix is an IRI, ``(x y)`` a list."""
    found, lists = set(), 0

    def term(word):
        if word[0] == '"':
            return word
        if word == "a":
            word = "rdf:type"
        return expanded(word)[0] if PREFIXED.match(word) else f"<urn:{word}>"

    for line in text.split(","):
        s, p, o = line.split(maxsplit=2)
        if o[0] == "(":
            lists += 1
            members = o[1:].rstrip(" )").split()
            cells = [*(f"l{lists}.{number}" for number in range(len(members))), "rdf:nil"]
            for cell, following, member in zip(cells, cells[1:], members, strict=False):
                found |= {
                    (term(cell), *expanded("rdf:first"), term(member)),
                    (term(cell), *expanded("rdf:rest"), term(following)),
                }
            o = cells[0]
        found.add((term(s), term(p), term(o.strip())))
    return found


RDFS = [
    ("p rdfs:domain C", "x p y", "x a C"),
    ("p rdfs:range C", "x p y", "y a C"),
    ("p rdfs:range C", 'x p "v"', ""),
    ("p rdfs:subPropertyOf q , q rdfs:subPropertyOf r", "x p y", "x q y , x r y"),
    ("C rdfs:subClassOf D , D rdfs:subClassOf E", "x a C", "x a D , x a E"),
    ("p rdfs:subPropertyOf q , q rdfs:domain C , C rdfs:subClassOf D", "x p y", "x q y , x a C , x a D"),
    ("p a rdfs:ContainerMembershipProperty", "x p y", "x rdfs:member y"),
    ("D a rdfs:Datatype", "x a D", "x a rdfs:Literal"),
]
_BOTH = "x owl:sameAs y , y owl:sameAs x , x owl:sameAs x , y owl:sameAs y"
OWL = [
    *RDFS[:6],
    ("p a owl:TransitiveProperty", "x p y , y p z , z p w", "x p z , y p w , x p w"),
    ("p a owl:SymmetricProperty", 'x p y , x p "v"', "y p x"),
    ("p owl:inverseOf q", 'x p y , z q w , x p "v"', "y q x , w p z"),
    ("p owl:equivalentProperty q", "x p y , z q w", "x q y , z p w"),
    ("C owl:equivalentClass D", "x a C , y a D", "x a D , y a C"),
    ("p a owl:InverseFunctionalProperty", "x p z , y p z , y q w", f"{_BOTH} , x q w"),
    ("p a owl:FunctionalProperty", "z p x , z p y , y q w", f"{_BOTH} , x q w"),
    ("", "x owl:sameAs y , x a C , z p x", "y owl:sameAs x , x owl:sameAs x , y owl:sameAs y , y a C , z p y"),
    ("p owl:sameAs q", "x p y", "x q y , q owl:sameAs p , p owl:sameAs p , q owl:sameAs q"),
    ("C owl:intersectionOf (A B D)", "x a A , x a B , x a D , y a A , y a B", "x a C"),
    ("C owl:intersectionOf (A B)", "x a C", "x a A , x a B"),
    ("C owl:unionOf (A B D)", "x a A , y a D , z a C", "x a C , y a C"),
    ("C owl:oneOf (x y)", "z a D", "x a C , y a C"),
    ("C owl:someValuesFrom D , C owl:onProperty p", "x p y , y a D , z p w , x a E", "x a C"),
    ("C owl:someValuesFrom owl:Thing , C owl:onProperty p", 'x p "v"', "x a C"),
    ("C owl:allValuesFrom D , C owl:onProperty p", "x a C , x p y , z p w", "y a D"),
    ('C owl:hasValue "v" , C owl:onProperty p', 'x a C , y p "v" , z p "w"', 'x p "v" , y a C'),
    ("p owl:propertyChainAxiom (q r q)", "x q y , y r z , z q w", "x p w"),
    ("p owl:propertyChainAxiom (p q)", "x p y , y q z , z q w", "x p z , x p w"),
    (("A rdfs:subClassOf R , R owl:someValuesFrom B , R owl:onProperty p , S owl:someValuesFrom C , "
     "S owl:onProperty p , B rdfs:subClassOf C"), "x a A", "x a R , x a S"),
    ("A owl:equivalentClass R , R owl:intersectionOf (B S) , S owl:someValuesFrom D , S owl:onProperty p",
     "x a B , x p y , y a D", "x a S , x a R , x a A"),
]  # fmt: skip


def _check(rule_set, schema, data, follows):
    schema, data, follows = (_triples(text) if text else set() for text in (schema, data, follows))
    general = without_auxiliary(closure(rule_set.rules, schema | data))
    expected = data | follows | {each for each in schema if not is_schema(each)}
    assert {each for each in general if not is_schema(each)} == expected
    instances = instantiate(rule_set, schema)
    assert closure(instances.rules, {*data, *instances.facts}) == expected


@pytest.mark.parametrize(("schema", "data", "follows"), RDFS)
def test_consequences_by_rdfs(schema, data, follows):
    _check(rdfs(), schema, data, follows)


@pytest.mark.parametrize(("schema", "data", "follows"), OWL)
def test_consequences_by_owl(schema, data, follows):
    _check(owl_rl(), schema, data, follows)


@pytest.mark.parametrize(
    ("schema", "follows"),
    [
        ("p rdfs:domain C , C rdfs:subClassOf D , q rdfs:subPropertyOf p", "p rdfs:domain D , q rdfs:domain C"),
        ("p rdfs:range C , C rdfs:subClassOf D , q rdfs:subPropertyOf p", "p rdfs:range D , q rdfs:range C"),
        ("C rdfs:subClassOf D , D rdfs:subClassOf C", "C owl:equivalentClass D , D owl:equivalentClass C"),
        ("p owl:equivalentProperty q , q owl:equivalentProperty r", "r rdfs:subPropertyOf p , p rdfs:subPropertyOf r"),
        ("R owl:hasValue v , R owl:onProperty p , S owl:hasValue v , S owl:onProperty q , p rdfs:subPropertyOf q",
         "R rdfs:subClassOf S"),
        (("R owl:someValuesFrom C , R owl:onProperty p , S owl:someValuesFrom D , S owl:onProperty p , "
         "C rdfs:subClassOf D"), "R rdfs:subClassOf S"),
        (("R owl:someValuesFrom C , R owl:onProperty p , S owl:someValuesFrom C , S owl:onProperty q , "
         "p rdfs:subPropertyOf q"), "R rdfs:subClassOf S"),
        (("R owl:allValuesFrom C , R owl:onProperty p , S owl:allValuesFrom D , S owl:onProperty p , "
         "C rdfs:subClassOf D"), "R rdfs:subClassOf S"),
        (("R owl:allValuesFrom C , R owl:onProperty p , S owl:allValuesFrom C , S owl:onProperty q , "
         "p rdfs:subPropertyOf q"), "S rdfs:subClassOf R"),
        ("C owl:intersectionOf (A B) , D owl:unionOf (A B)", "C rdfs:subClassOf B , A rdfs:subClassOf D"),
    ],
)  # fmt: skip
def test_consequences_of_a_schema_itself(schema, follows):
    assert instantiate(owl_rl(), _triples(schema)).schema >= _triples(follows)


def test_trivial_rules_conclude_statements_about_everything():
    closed = closure(rdfs(trivial=True).rules, {*rdfs(trivial=True).axioms, *_triples("x p y , C a rdfs:Class")})
    assert closed >= _triples("x a rdfs:Resource , y a rdfs:Resource , p a rdf:Property , p rdfs:subPropertyOf p")
    assert closed >= _triples("C rdfs:subClassOf rdfs:Resource , C rdfs:subClassOf C")
    declared = _triples("x p y , C a owl:Class , o a owl:ObjectProperty , d a owl:DatatypeProperty")
    closed = closure(owl_rl(trivial=True).rules, declared)
    assert closed >= _triples("x owl:sameAs x , p owl:sameAs p , C rdfs:subClassOf owl:Thing , C rdfs:subClassOf C")
    assert closed >= _triples("C owl:equivalentClass C , owl:Nothing rdfs:subClassOf C , o rdfs:subPropertyOf o")
    assert closed >= _triples("o owl:equivalentProperty o , d rdfs:subPropertyOf d , d owl:equivalentProperty d")
    assert closure(owl_rl().rules, declared) == declared


def test_without_equality_rules_same_as_is_closed_and_has_no_other_consequence():
    closed = closure(owl_rl(equality=False).rules, _triples("x owl:sameAs y , y owl:sameAs w , x p z"))
    assert ("<urn:y>", "<urn:p>", "<urn:z>") not in closed
    assert closed >= _triples("y owl:sameAs x , x owl:sameAs w")
    instances = instantiate(owl_rl(equality=False), _triples("p a owl:TransitiveProperty"))
    assert all(atom.p[0] != "?" for rule in instances.rules for atom in rule.body)


def test_unsupported_terms_are_named():
    schema = _triples(
        "C owl:complementOf D , R owl:maxCardinality n , R owl:onProperty p , p a owl:AsymmetricProperty , "
        "p a owl:ObjectProperty , C a owl:Class , C rdfs:label n , C rdfs:subClassOf owl:Nothing , "
        "C owl:unionOf (D E) , o owl:imports other , C owl:new D , p rdfs:range xsd:string"
    )
    assert owl_rl().unsupported(schema) == (
        "owl:AsymmetricProperty", "owl:Nothing", "owl:complementOf", "owl:imports", "owl:maxCardinality", "owl:new",
    )  # fmt: skip
    assert {"owl:unionOf", "owl:onProperty"} <= set(rdfs().unsupported(schema))
    assert "rdfs:subClassOf" not in rdfs().unsupported(schema)


def test_rules_have_the_names_of_the_recommendations():
    assert {rule.name for rule in rdfs(trivial=True).rules} == {
        *(f"rdfs{number}" for number in (2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13)), "rdfs4a", "rdfs4b", "rdf1",
    }  # fmt: skip
    families = {rule.name.split("-")[0] for rule in owl_rl(trivial=True).rules}
    assert families == {"eq", "prp", "cls", "cax", "scm"}
