"""Rules as text: a SPARQL update that is evaluated continuously.

::

    INSERT { GRAPH <urn:x:where> { ?x :isIn ?z } } WHERE { GRAPH <urn:x:where> { ?x :isIn ?y . ?y :isIn ?z } }

An update is executed once; a rule stays in force.  For each solution of the body, the triple is in the graph; when
its last derivation is gone, the triple is deleted (:mod:`p2prdf.peer.joins.derived_facts`).  The body is a basic graph
pattern with filters, the template one triple in one named graph.  The body may read the graph that the rule inserts
into (recursion).
"""

from __future__ import annotations

from typing import Final

from p2prdf.rdf import algebra, quads, tokens
from p2prdf.rdf.code_points import as_written
from p2prdf.rdf.query import RULE_PATTERNS_MAX, Concludes, ConjunctiveQuery, Pattern
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.tokens import Token

__all__ = ["parse_insertion"]

_DECLARATIONS: Final = {"PREFIX": 3, "BASE": 2}
"""Number of tokens in each kind of declaration."""
_CONSTRUCT: Final = "CONSTRUCT"


@as_written
def parse_insertion(text: str) -> ConjunctiveQuery | None:
    """Return the rule of a text; None if the text does not begin with INSERT.

    Raises QueryRefused, with the construct and its position, for a text that begins with INSERT but is no valid rule.
    """
    if "insert" not in text.lower():
        return None
    found = tokens.scan(text)
    at = 0
    while at < len(found) and (length := _DECLARATIONS.get(found[at].text.upper())):
        at += length
    if at >= len(found) or found[at].text.upper() != "INSERT":
        return None
    graph, query = _as_construct(text, found, at)
    standing = parse_query(query)
    head, leaf = _parts(standing, text, found[at])
    return _rule(leaf, head, graph, text, found[at])


def _as_construct(text: str, found: list[Token], at: int) -> tuple[str, str]:
    """Return the target graph, and the text as a CONSTRUCT with all other tokens at their positions."""
    insert, following = found[at], [token.text for token in found[at + 1 : at + 5]]
    if following and following[0].upper() == "DATA":
        raise tokens.refusal(text, insert.at, "INSERT DATA", "it is no query; publish the triples instead")
    if len(following) < 4 or following[0] != "{" or following[1].upper() != "GRAPH" or following[3] != "{":
        reason = "a rule inserts into a named graph: INSERT { GRAPH <graph> { triple } } WHERE { body }"
        raise tokens.refusal(text, insert.at, "INSERT", reason)
    word, named, opened = found[at + 2], found[at + 3], found[at + 4]
    symbol = next((each for each in tokens.symbols(text, found)[0] if each.at == named.at), None)
    if symbol is None or symbol.kind != "iri":
        raise tokens.refusal(text, named.at, "GRAPH", "a rule inserts into a graph that is named by an IRI")
    closed = next((each for each in found[at + 5 :] if each.text in "{}"), opened)
    if closed.text != "}":
        raise tokens.refusal(text, closed.at, "INSERT", "the graph must contain one triple")
    blank = "".join(char if char == "\n" else " " for char in text[word.at : opened.at + 1])
    longer = len(_CONSTRUCT) - len(insert.text)
    query = (
        text[: insert.at] + _CONSTRUCT + text[insert.at + len(insert.text) : word.at]
        + blank.replace(" ", "", longer) + text[opened.at + 1 : closed.at] + " " + text[closed.at + 1 :]
    )  # fmt: skip
    return symbol.value, query


def _parts(
    standing: algebra.StandingQuery, text: str, insert: Token
) -> tuple[tuple[int | str, int | str, int | str], ConjunctiveQuery]:
    """Return the conclusion, each part a variable of the body or a term, and the body."""
    leaf, *above = standing.operators
    shown: tuple[int, ...] | None = None
    template: algebra.Construct | None = None
    for operator in above:
        match operator:
            case algebra.Project() if shown is None and template is None:
                shown = operator.columns
            case algebra.Construct() if template is None:
                template = operator
            case algebra.Distinct() if template is not None:
                pass
            case _:
                template = None
                break
    if type(leaf) is not algebra.Leaf or template is None:
        reason = "the body of a rule is a basic graph pattern with filters; move the rest to separate rules"
        raise tokens.refusal(text, insert.at, "INSERT", reason)
    if len(template.template) != 1:
        raise tokens.refusal(text, insert.at, "INSERT", "a rule inserts one triple; write a rule for each")
    columns = range(len(leaf.query.answer)) if shown is None else shown

    def part(slot: int) -> int | str:
        if slot < 0:
            return template.constants[~slot]
        if slot >= len(columns) or columns[slot] < 0:
            reason = "a rule creates no nodes: it inserts constants and variables that its body binds"
            raise tokens.refusal(text, insert.at, "INSERT", reason)
        return leaf.query.answer[columns[slot]]

    s, p, o = map(part, template.template[0])
    return (s, p, o), leaf.query


def _rule(
    body: ConjunctiveQuery, head: tuple[int | str, int | str, int | str], graph: str, text: str, insert: Token
) -> ConjunctiveQuery:
    s, p, o = head
    if not isinstance(p, str):
        raise tokens.refusal(text, insert.at, "INSERT", "the predicate of the inserted triple must be an IRI")
    if len(body.patterns) >= RULE_PATTERNS_MAX:
        reason = f"the body of a rule has at most {RULE_PATTERNS_MAX - 1} patterns"
        raise tokens.refusal(text, insert.at, "INSERT", reason)
    constants = dict.fromkeys(body.constants)

    def slot(part: int | str) -> int:
        if isinstance(part, int):
            return part
        constants[part] = None
        return ~list(constants).index(part)

    conclusion: Pattern = (slot(s), slot(quads.qualified(p, graph)), slot(o))
    concludes = Concludes.FROM_GIVEN if _reads_given(body) else Concludes.FROM_ANYTHING
    return ConjunctiveQuery(
        (*body.patterns, conclusion), tuple(constants), (), (), False, body.filters, concludes
    )  # fmt: skip


def _reads_given(body: ConjunctiveQuery) -> bool:
    """Tell whether a body reads base facts only: the default graph, into which no rule inserts."""
    return not any(quads.is_reserved(body.constants[~p]) for _, p, _ in body.patterns if p < 0)
