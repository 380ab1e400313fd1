"""The running example of the iRap paper (examples 1 to 9), with ``dbp:goals`` and 10 goals throughout."""

from __future__ import annotations

from p2prdf.interest import Changeset, Triple
from p2prdf.interest.expression import Interest, parse_interest

__all__ = [
    "ADDED", "INTEREST", "POTENTIAL", "REMOVED", "START", "TARGET", "athlete", "changes", "goals", "home", "triple",
]  # fmt: skip

_IRIS = {
    "type": "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "Athlete": "http://dbpedia.org/ontology/Athlete",
    "Person": "http://xmlns.com/foaf/0.1/Person", "goals": "http://dbpedia.org/property/goals",
    "homepage": "http://xmlns.com/foaf/0.1/homepage", "name": "http://xmlns.com/foaf/0.1/name",
    "team": "http://dbpedia.org/ontology/team",
}  # fmt: skip


def _term(text: str) -> str:
    if text.isdecimal():
        return f'"{text}"^^<http://www.w3.org/2001/XMLSchema#integer>'
    if text.startswith("'"):
        return f'"{text[1:]}"'
    return f"<{_IRIS.get(text, 'http://dbpedia.org/resource/' + text)}>"


def triple(text: str) -> Triple:
    """Return a triple written as three words."""
    s, p, o = text.split(" ")
    return _term(s), _term(p), _term(o)


def athlete(who: str) -> Triple:
    """Return the triple that makes a subject an athlete."""
    return triple(f"{who} type Athlete")


def goals(who: str, count: int) -> Triple:
    """Return the triple with a subject's number of goals."""
    return triple(f"{who} goals {count}")


def home(who: str) -> Triple:
    """Return the triple with a subject's homepage."""
    return triple(f"{who} homepage 'http://{who}.example/")


def changes(removed: tuple[Triple, ...] = (), added: tuple[Triple, ...] = ()) -> Changeset:
    """Return a changeset."""
    return Changeset.of(removed, added)


INTEREST: Interest = parse_interest(f"""
    SELECT * WHERE {{ ?a <{_IRIS['type']}> <{_IRIS['Athlete']}> ; <{_IRIS['goals']}> ?goals .
                      OPTIONAL {{ ?a <{_IRIS['homepage']}> ?page }} }}""")

START = (
    athlete("Marcel"), goals("Marcel", 1),
    athlete("Cristiano_Ronaldo"), goals("Cristiano_Ronaldo", 96), home("Cristiano_Ronaldo"),
)  # fmt: skip
REMOVED = (
    goals("Marcel", 1), triple("Marcel team FNFT"), triple("Tim name 'Tim"), goals("Cristiano_Ronaldo", 96),
)  # fmt: skip
ADDED = (
    goals("Cristiano_Ronaldo", 216), triple("Barack_Obama name 'Barack"), home("Barack_Obama"),
    triple("Rio_Ferdinand type Person"), athlete("Rio_Ferdinand"), goals("Rio_Ferdinand", 10), athlete("Arvid_Smit"),
)  # fmt: skip
TARGET = {
    athlete("Cristiano_Ronaldo"), goals("Cristiano_Ronaldo", 216), home("Cristiano_Ronaldo"),
    athlete("Rio_Ferdinand"), goals("Rio_Ferdinand", 10),
}  # fmt: skip
POTENTIAL = {athlete("Arvid_Smit"), home("Barack_Obama"), athlete("Marcel")}
