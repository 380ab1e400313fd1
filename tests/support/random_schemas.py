"""Random schemas of everything that rule sets support, and data for them."""

from __future__ import annotations

from p2prdf.reasoning.vocabulary import expanded

__all__ = ["CLASSES", "LITERALS", "NIL", "PROPERTIES", "THINGS", "TYPE", "random_data", "random_schema"]

TYPE, NIL, FIRST, REST, THING = expanded("rdf:type rdf:nil rdf:first rdf:rest owl:Thing")
SUB_CLASS, SUB_PROPERTY, DOMAIN, RANGE = expanded("rdfs:subClassOf rdfs:subPropertyOf rdfs:domain rdfs:range")
SAME, ON = expanded("owl:sameAs owl:onProperty")
OF_CLASSES = (SUB_CLASS, SUB_CLASS, *expanded("owl:equivalentClass"))
OF_PROPERTIES = (SUB_PROPERTY, *expanded("owl:equivalentProperty owl:inverseOf"))
KINDS = expanded(
    "owl:TransitiveProperty owl:SymmetricProperty owl:FunctionalProperty owl:InverseFunctionalProperty rdf:Property"
)
LISTS = expanded("owl:intersectionOf owl:unionOf owl:oneOf")
(CHAIN_AXIOM,) = expanded("owl:propertyChainAxiom")
FILLERS = expanded("owl:someValuesFrom owl:allValuesFrom owl:hasValue")

CLASSES = tuple(f"<urn:C{number}>" for number in range(5))
PROPERTIES = tuple(f"<urn:p{number}>" for number in range(4))
THINGS = tuple(f"<urn:i{number}>" for number in range(5))
LITERALS = ('"1"', '"a"@en')


def random_schema(rng, size, *, broken=True):
    """Return triples of a schema with some statements of any kind; ``broken``: malformed lists, too."""
    found = set()
    classes = [*CLASSES]
    for number in range(size):
        match rng.randrange(8):
            case 0 | 1:
                found.add((rng.choice(classes), rng.choice(OF_CLASSES), rng.choice(classes)))
            case 2:
                found.add((rng.choice(PROPERTIES), rng.choice(OF_PROPERTIES), rng.choice(PROPERTIES)))
            case 3:
                found.add((rng.choice(PROPERTIES), rng.choice((DOMAIN, RANGE)), rng.choice(classes)))
            case 4:
                found.add((rng.choice(PROPERTIES), TYPE, rng.choice(KINDS)))
            case 5:
                how = rng.choice(LISTS)
                of = THINGS if how == LISTS[2] else classes
                found |= _list(rng, f"{number}", rng.choice(classes), how, _some(rng, of), broken)
            case 6:
                found |= _list(rng, f"{number}", rng.choice(PROPERTIES), CHAIN_AXIOM, _some(rng, PROPERTIES), broken)
            case 7:
                name = f"<urn:bnode:r:{number}>"
                classes.append(name)
                how = rng.choice(FILLERS)
                filler = rng.choice((*THINGS, *LITERALS) if how == FILLERS[2] else (*classes, THING))
                found |= {(name, how, filler), (name, ON, rng.choice(PROPERTIES))}
    if rng.random() < 0.3:
        found |= random_data(rng, 2, same=False)
    return found


def random_data(rng, size, *, same=True):
    """Return triples of individuals; ``same``: some are declared the same."""
    found = set()
    for _ in range(size):
        found.add((rng.choice(THINGS), rng.choice(PROPERTIES), rng.choice((*THINGS, *THINGS, *LITERALS))))
        if rng.random() < 0.6:
            found.add((rng.choice(THINGS), TYPE, rng.choice(CLASSES)))
        if same and rng.random() < 0.1:
            found.add((rng.choice(THINGS), SAME, rng.choice(THINGS)))
    return found


def _some(rng, of):
    return [rng.choice(of) for _ in range(rng.choice((1, 2, 2, 3)))]


def _list(rng, name, subject, predicate, members, broken):
    cells = [f"<urn:bnode:l:{name}-{place}>" for place in range(len(members))]
    found = {(subject, predicate, cells[0])}
    for cell, member, rest in zip(cells, members, [*cells[1:], NIL], strict=True):
        found |= {(cell, FIRST, member), (cell, REST, rest)}
    if broken and rng.random() < 0.2:  # a cell with two things in it, or two ways on, perhaps back
        cell = rng.choice(cells)
        found.add((cell, FIRST, rng.choice(members)) if rng.random() < 0.5 else (cell, REST, rng.choice(cells)))
    return found
