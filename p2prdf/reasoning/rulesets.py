"""The rules of RDFS and of OWL 2 RL, with the names of their recommendations.

The rules are texts over triples: schema patterns stand beside data patterns, so they hold for any schema.  For one
known schema, :mod:`p2prdf.reasoning.instances` makes rules over data alone.

*Lists.*  OWL 2 RL has lists of any length, but rules have bodies of fixed length.  Lists are therefore walked by
auxiliary facts: ``?l aux:member ?c`` for the members from a cell on, ``?x aux:ofAll ?l`` for an individual of all the
classes there.  A cell of a property chain is itself the predicate for the rest of the chain.

*Omitted.*  Conclusions about every triple (everything is a resource and equal to itself, each class is below itself)
are optional: three facts for each given one, without information.  So are the axioms of the vocabularies.  There are
no rules that only find contradictions or that compare values of literals; :meth:`RuleSet.unsupported` lists such
constructs of a schema.

*Literals.*  A range or an inverse may conclude a triple with a literal as subject; the Materialiser drops it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from p2prdf.reasoning.rule import Rule
from p2prdf.reasoning.rule_text import parse_rules
from p2prdf.reasoning.vocabulary import CHAIN, OWL, PREFIXES, RDFS, TYPE, Triple, expanded, is_auxiliary, short

__all__ = ["RuleSet", "owl_rl", "rdfs", "without_auxiliary"]


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules that hold for any schema, and their axioms."""

    name: str
    rules: tuple[Rule, ...]
    axioms: tuple[Triple, ...] = ()
    """Facts that hold without being stated."""

    def unsupported(self, schema: Iterable[Triple]) -> tuple[str, ...]:
        """Return the constructs of RDFS and OWL in a schema that no rule here reads, by name, sorted.

        All conclusions are correct without them, but some conclusions of the schema are missing.
        """
        read = {part for rule in self.rules for atom in (rule.head, *rule.body) for part in atom}
        found = {term for triple in schema for term in triple if term.startswith((f"<{OWL}", f"<{RDFS}"))}
        return tuple(sorted(map(short, found - read - _WITHOUT_MEANING)))


def rdfs(*, trivial: bool = False) -> RuleSet:
    """Return the rules of RDFS (RDF 1.1 Semantics, 9.2.1).

    ``trivial``: also rdf1 (predicates are properties), rdfs4 and rdfs8 (everything is a resource) and the axiomatic
    triples, except those of container membership properties, which are infinitely many.
    """
    if trivial:
        return RuleSet("RDFS with axioms", _parsed(_RDFS + _RDFS_TRIVIAL), _triples(_RDFS_AXIOMS))
    return RuleSet("RDFS", _parsed(_RDFS))


def owl_rl(*, equality: bool = True, trivial: bool = False) -> RuleSet:
    """Return rules of OWL 2 RL (OWL 2 Profiles, 4.3).

    ``equality``: also that equal individuals have equal properties (eq-rep-s, eq-rep-o), which needs patterns of
    three variables.  ``trivial``: also that everything equals itself and each class and property is below itself
    (eq-ref, scm-cls, scm-op, scm-dp), and the axioms for datatypes and annotation properties.
    """
    text = _OWL + (_EQUALITY if equality else "") + (_OWL_TRIVIAL if trivial else "")
    return RuleSet("OWL 2 RL", _parsed(text), _triples(_OWL_AXIOMS) if trivial else ())


def without_auxiliary(triples: Iterable[Triple]) -> list[Triple]:
    """Return triples without the auxiliary ones that rules for lists derive."""
    triples = list(triples)
    cells = {s for s, p, o in triples if p == TYPE and o == CHAIN}
    return [each for each in triples if each[1] not in cells and not is_auxiliary(each)]


_WITHOUT_MEANING: Final = frozenset(
    expanded(
        "owl:Ontology owl:Restriction owl:AnnotationProperty owl:OntologyProperty owl:DataRange owl:NamedIndividual "
        "owl:ObjectProperty owl:DatatypeProperty owl:Class owl:Thing owl:DeprecatedClass owl:DeprecatedProperty "
        "owl:versionInfo owl:versionIRI owl:priorVersion owl:backwardCompatibleWith owl:incompatibleWith "
        "owl:deprecated owl:Axiom owl:Annotation owl:annotatedSource owl:annotatedProperty owl:annotatedTarget "
        "rdfs:Class rdfs:Datatype rdfs:Literal rdfs:Resource rdfs:label rdfs:comment rdfs:seeAlso rdfs:isDefinedBy "
        "rdfs:Container rdfs:ContainerMembershipProperty rdfs:member"
    )
)
"""Declarations and annotations: no conclusion is missing because of them."""


_DATATYPES: Final = """
decimal integer nonNegativeInteger nonPositiveInteger positiveInteger negativeInteger long int short byte unsignedLong
unsignedInt unsignedShort unsignedByte float double string normalizedString token language Name NCName NMTOKEN boolean
hexBinary base64Binary anyURI dateTime dateTimeStamp
"""
"""The datatypes of XML Schema in OWL 2 RL."""


@functools.cache
def _parsed(text: str) -> tuple[Rule, ...]:
    declared = "".join(f"PREFIX {prefix}: <{namespace}>\n" for prefix, namespace in PREFIXES.items())
    return parse_rules(declared + text)


def _triples(text: str) -> tuple[Triple, ...]:
    """Return the triples of lines with subjects, a predicate and an object."""
    found: list[Triple] = []
    for line in text.strip().splitlines():
        subjects, rest = line.split(" | ")
        p, o = expanded(rest)
        found += [(s, p, o) for s in expanded(subjects)]
    return tuple(found)


_RDFS: Final = """
rdfs2:  ?x a ?c :- ?p rdfs:domain ?c , ?x ?p ?y .
rdfs3:  ?y a ?c :- ?p rdfs:range ?c , ?x ?p ?y .
rdfs5:  ?p rdfs:subPropertyOf ?r :- ?p rdfs:subPropertyOf ?q , ?q rdfs:subPropertyOf ?r .
rdfs6:  ?p rdfs:subPropertyOf ?p :- ?p a rdf:Property .
rdfs7:  ?x ?q ?y :- ?p rdfs:subPropertyOf ?q , ?x ?p ?y .
rdfs9:  ?x a ?d :- ?c rdfs:subClassOf ?d , ?x a ?c .
rdfs10: ?c rdfs:subClassOf ?c :- ?c a rdfs:Class .
rdfs11: ?c rdfs:subClassOf ?e :- ?c rdfs:subClassOf ?d , ?d rdfs:subClassOf ?e .
rdfs12: ?p rdfs:subPropertyOf rdfs:member :- ?p a rdfs:ContainerMembershipProperty .
rdfs13: ?c rdfs:subClassOf rdfs:Literal :- ?c a rdfs:Datatype .
"""

_RDFS_TRIVIAL: Final = """
rdf1:   ?p a rdf:Property :- ?x ?p ?y .
rdfs4a: ?x a rdfs:Resource :- ?x ?p ?y .
rdfs4b: ?y a rdfs:Resource :- ?x ?p ?y .
rdfs8:  ?c rdfs:subClassOf rdfs:Resource :- ?c a rdfs:Class .
"""

_RDFS_AXIOMS: Final = """
rdf:type rdf:subject rdf:predicate rdf:object rdf:first rdf:rest rdf:value | rdf:type rdf:Property
rdf:nil | rdf:type rdf:List
rdf:type rdf:first rdf:value rdfs:member | rdfs:domain rdfs:Resource
rdfs:seeAlso rdfs:isDefinedBy rdfs:label rdfs:comment | rdfs:domain rdfs:Resource
rdfs:domain rdfs:range rdfs:subPropertyOf | rdfs:domain rdf:Property
rdfs:subClassOf | rdfs:domain rdfs:Class
rdf:subject rdf:predicate rdf:object | rdfs:domain rdf:Statement
rdf:first rdf:rest | rdfs:domain rdf:List
rdf:type rdfs:domain rdfs:range rdfs:subClassOf | rdfs:range rdfs:Class
rdfs:subPropertyOf | rdfs:range rdf:Property
rdf:subject rdf:predicate rdf:object rdf:first rdf:value rdfs:member | rdfs:range rdfs:Resource
rdfs:seeAlso rdfs:isDefinedBy | rdfs:range rdfs:Resource
rdf:rest | rdfs:range rdf:List
rdfs:comment rdfs:label | rdfs:range rdfs:Literal
rdf:Alt rdf:Bag rdf:Seq | rdfs:subClassOf rdfs:Container
rdfs:ContainerMembershipProperty | rdfs:subClassOf rdf:Property
rdfs:isDefinedBy | rdfs:subPropertyOf rdfs:seeAlso
rdfs:Datatype | rdfs:subClassOf rdfs:Class
rdf:XMLLiteral rdf:HTML rdf:langString xsd:string | rdf:type rdfs:Datatype
"""

_OWL: Final = """
eq-sym:   ?y owl:sameAs ?x :- ?x owl:sameAs ?y .
eq-trans: ?x owl:sameAs ?z :- ?x owl:sameAs ?y , ?y owl:sameAs ?z .
eq-rep-p: ?p aux:sameProperty ?q :- ?p owl:sameAs ?q .
eq-rep-p: ?x ?q ?y :- ?p aux:sameProperty ?q , ?x ?p ?y .

prp-dom:  ?x a ?c :- ?p rdfs:domain ?c , ?x ?p ?y .
prp-rng:  ?y a ?c :- ?p rdfs:range ?c , ?x ?p ?y .
prp-fp:   ?y owl:sameAs ?z :- ?p a owl:FunctionalProperty , ?x ?p ?y , ?x ?p ?z .
prp-ifp:  ?x owl:sameAs ?y :- ?p a owl:InverseFunctionalProperty , ?x ?p ?z , ?y ?p ?z .
prp-symp: ?y ?p ?x :- ?p a owl:SymmetricProperty , ?x ?p ?y .
prp-trp:  ?x ?p ?z :- ?p a owl:TransitiveProperty , ?x ?p ?y , ?y ?p ?z .
prp-spo1: ?x ?q ?y :- ?p rdfs:subPropertyOf ?q , ?x ?p ?y .
prp-spo2: ?l a aux:Chain :- ?p owl:propertyChainAxiom ?l .
prp-spo2: ?m a aux:Chain :- ?l a aux:Chain , ?l rdf:rest ?m .
prp-spo2: ?x ?l ?y :- ?l a aux:Chain , ?l rdf:rest rdf:nil , ?l rdf:first ?p , ?x ?p ?y .
prp-spo2: ?x ?l ?z :- ?l a aux:Chain , ?l rdf:first ?p , ?l rdf:rest ?m , ?m a aux:Chain , ?x ?p ?y , ?y ?m ?z .
prp-spo2: ?x ?p ?y :- ?p owl:propertyChainAxiom ?l , ?l a aux:Chain , ?x ?l ?y .
prp-eqp1: ?x ?q ?y :- ?p owl:equivalentProperty ?q , ?x ?p ?y .
prp-eqp2: ?x ?p ?y :- ?p owl:equivalentProperty ?q , ?x ?q ?y .
prp-inv1: ?y ?q ?x :- ?p owl:inverseOf ?q , ?x ?p ?y .
prp-inv2: ?y ?p ?x :- ?p owl:inverseOf ?q , ?x ?q ?y .

cls-list: ?l aux:member ?c :- ?l rdf:first ?c .
cls-list: ?l aux:member ?c :- ?l rdf:rest ?m , ?m aux:member ?c .
cls-int1: ?l a aux:Parts :- ?c owl:intersectionOf ?l .
cls-int1: ?m a aux:Parts :- ?l a aux:Parts , ?l rdf:rest ?m .
cls-int1: ?x aux:ofAll ?l :- ?l a aux:Parts , ?l rdf:rest rdf:nil , ?l rdf:first ?c , ?x a ?c .
cls-int1: ?x aux:ofAll ?l :- ?l a aux:Parts , ?l rdf:first ?c , ?l rdf:rest ?m , ?x a ?c , ?x aux:ofAll ?m .
cls-int1: ?x a ?c :- ?c owl:intersectionOf ?l , ?x aux:ofAll ?l .
cls-int2: ?x a ?d :- ?c owl:intersectionOf ?l , ?l aux:member ?d , ?x a ?c .
cls-uni:  ?x a ?c :- ?c owl:unionOf ?l , ?l aux:member ?d , ?x a ?d .
cls-svf1: ?x a ?r :- ?r owl:someValuesFrom ?c , ?r owl:onProperty ?p , ?x ?p ?y , ?y a ?c .
cls-svf2: ?x a ?r :- ?r owl:someValuesFrom owl:Thing , ?r owl:onProperty ?p , ?x ?p ?y .
cls-avf:  ?y a ?c :- ?r owl:allValuesFrom ?c , ?r owl:onProperty ?p , ?x a ?r , ?x ?p ?y .
cls-hv1:  ?x ?p ?y :- ?r owl:hasValue ?y , ?r owl:onProperty ?p , ?x a ?r .
cls-hv2:  ?x a ?r :- ?r owl:hasValue ?y , ?r owl:onProperty ?p , ?x ?p ?y .
cls-oo:   ?x a ?c :- ?c owl:oneOf ?l , ?l aux:member ?x .

cax-sco:  ?x a ?d :- ?c rdfs:subClassOf ?d , ?x a ?c .
cax-eqc1: ?x a ?d :- ?c owl:equivalentClass ?d , ?x a ?c .
cax-eqc2: ?x a ?c :- ?c owl:equivalentClass ?d , ?x a ?d .

scm-sco:  ?c rdfs:subClassOf ?e :- ?c rdfs:subClassOf ?d , ?d rdfs:subClassOf ?e .
scm-eqc1: ?c rdfs:subClassOf ?d , ?d rdfs:subClassOf ?c :- ?c owl:equivalentClass ?d .
scm-eqc2: ?c owl:equivalentClass ?d :- ?c rdfs:subClassOf ?d , ?d rdfs:subClassOf ?c .
scm-spo:  ?p rdfs:subPropertyOf ?r :- ?p rdfs:subPropertyOf ?q , ?q rdfs:subPropertyOf ?r .
scm-eqp1: ?p rdfs:subPropertyOf ?q , ?q rdfs:subPropertyOf ?p :- ?p owl:equivalentProperty ?q .
scm-eqp2: ?p owl:equivalentProperty ?q :- ?p rdfs:subPropertyOf ?q , ?q rdfs:subPropertyOf ?p .
scm-dom1: ?p rdfs:domain ?d :- ?p rdfs:domain ?c , ?c rdfs:subClassOf ?d .
scm-dom2: ?p rdfs:domain ?c :- ?q rdfs:domain ?c , ?p rdfs:subPropertyOf ?q .
scm-rng1: ?p rdfs:range ?d :- ?p rdfs:range ?c , ?c rdfs:subClassOf ?d .
scm-rng2: ?p rdfs:range ?c :- ?q rdfs:range ?c , ?p rdfs:subPropertyOf ?q .
scm-hv:   ?r rdfs:subClassOf ?s :- ?r owl:hasValue ?v , ?r owl:onProperty ?p ,
          ?s owl:hasValue ?v , ?s owl:onProperty ?q , ?p rdfs:subPropertyOf ?q .
scm-svf1: ?r rdfs:subClassOf ?s :- ?r owl:someValuesFrom ?c , ?r owl:onProperty ?p ,
          ?s owl:someValuesFrom ?d , ?s owl:onProperty ?p , ?c rdfs:subClassOf ?d .
scm-svf2: ?r rdfs:subClassOf ?s :- ?r owl:someValuesFrom ?c , ?r owl:onProperty ?p ,
          ?s owl:someValuesFrom ?c , ?s owl:onProperty ?q , ?p rdfs:subPropertyOf ?q .
scm-avf1: ?r rdfs:subClassOf ?s :- ?r owl:allValuesFrom ?c , ?r owl:onProperty ?p ,
          ?s owl:allValuesFrom ?d , ?s owl:onProperty ?p , ?c rdfs:subClassOf ?d .
scm-avf2: ?s rdfs:subClassOf ?r :- ?r owl:allValuesFrom ?c , ?r owl:onProperty ?p ,
          ?s owl:allValuesFrom ?c , ?s owl:onProperty ?q , ?p rdfs:subPropertyOf ?q .
scm-int:  ?c rdfs:subClassOf ?d :- ?c owl:intersectionOf ?l , ?l aux:member ?d .
scm-uni:  ?d rdfs:subClassOf ?c :- ?c owl:unionOf ?l , ?l aux:member ?d .
"""

_EQUALITY: Final = """
eq-rep-s: ?y ?p ?z :- ?x owl:sameAs ?y , ?x ?p ?z .
eq-rep-o: ?z ?p ?y :- ?x owl:sameAs ?y , ?z ?p ?x .
"""

_OWL_TRIVIAL: Final = """
eq-ref:   ?x owl:sameAs ?x , ?p owl:sameAs ?p , ?y owl:sameAs ?y :- ?x ?p ?y .
scm-cls:  ?c rdfs:subClassOf ?c , ?c owl:equivalentClass ?c , ?c rdfs:subClassOf owl:Thing ,
          owl:Nothing rdfs:subClassOf ?c :- ?c a owl:Class .
scm-op:   ?p rdfs:subPropertyOf ?p , ?p owl:equivalentProperty ?p :- ?p a owl:ObjectProperty .
scm-dp:   ?p rdfs:subPropertyOf ?p , ?p owl:equivalentProperty ?p :- ?p a owl:DatatypeProperty .
"""

_OWL_AXIOMS: Final = f"""
owl:Thing owl:Nothing | rdf:type owl:Class
rdfs:label rdfs:comment rdfs:seeAlso rdfs:isDefinedBy | rdf:type owl:AnnotationProperty
owl:deprecated owl:versionInfo owl:priorVersion | rdf:type owl:AnnotationProperty
owl:backwardCompatibleWith owl:incompatibleWith | rdf:type owl:AnnotationProperty
rdf:PlainLiteral rdf:XMLLiteral rdfs:Literal | rdf:type rdfs:Datatype
{" ".join("xsd:" + name for name in _DATATYPES.split())} | rdf:type rdfs:Datatype
"""
