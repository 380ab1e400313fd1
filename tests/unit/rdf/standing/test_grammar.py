"""SPARQL is parsed or refused by name, any other text is refused: pyoxigraph's parser is the reference.

Random queries lose, gain or swap a few of their symbols.  The two parsers may differ in the supported features,
but must agree on the question whether a text is SPARQL.  Left out: pyoxigraph takes no variable twice in
SELECT, and none bound by ``(?v AS ?w)`` in GROUP BY.
"""

from __future__ import annotations

import random
import re
from collections import Counter

import pyoxigraph as ox
from algebra.queries import QueryWriter, for_us

from p2prdf.errors import QueryRefused
from p2prdf.rdf.standing.query import parse_query

SYMBOL = re.compile(r'\s+|"[^"]*"(?:@\w+|\^\^<[^>]*>)?|<[^> ]*>|\?\w+|\w+|\S')
WORDS = re.split(r"\s+", """\
{ } ( ) OPTIONAL UNION MINUS FILTER EXISTS NOT BIND AS VALUES SELECT DISTINCT GROUP BY HAVING ORDER
LIMIT OFFSET COUNT * 1 . ; , ?x <urn:p> a [ ] / | ^ ! + UNDEF SUM ASC _:b true GRAPH SERVICE FROM
NOW () [] WHERE ASK CONSTRUCT DESCRIBE && || = IN IF BOUND -1 'x' SEPARATOR REDUCED""")
CLAUSE = re.compile(r"SELECT (.*?) WHERE", re.IGNORECASE)


def _spoiled(text: str, rng: random.Random) -> str:
    symbols = SYMBOL.findall(text)
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        places = [at for at, symbol in enumerate(symbols) if symbol.strip()]
        at, other = rng.choice(places), rng.choice(places)
        match rng.randrange(4):
            case 0:
                del symbols[at]
            case 1:
                symbols.insert(at, f" {rng.choice(WORDS)} ")
            case 2:
                symbols[at] = f" {rng.choice(WORDS)} "
            case 3:
                symbols[at], symbols[other] = symbols[other], symbols[at]
    return "".join(symbols)


def _is_sparql(text: str) -> bool | None:
    """Ask the other parser; None where it is not to be asked."""
    clauses = [re.findall(r"\?\w+", clause) for clause in CLAUSE.findall(text)]
    if any(len(set(names)) < len(names) for names in clauses) or re.search(r"\(\?\w+ AS", text):
        return None
    try:
        ox.Store().query(text)
    except SyntaxError:
        return False
    except (ValueError, OSError, RuntimeError):
        return None  # it is SPARQL that needs another server, say
    return True


def test_sparql_is_parsed_or_refused_by_name_and_other_text_is_refused() -> None:
    tally = Counter[tuple[bool | None, str]]()
    for seed in range(700):
        rng = random.Random(seed)
        text = _spoiled(for_us(QueryWriter(rng).query()), rng)
        try:
            parse_query(text)
            outcome = "parsed"
        except QueryRefused as refused:
            outcome = "syntax error" if refused.construct == "syntax error" else "named"
        right = _is_sparql(text)
        tally[right, outcome] += 1
        assert not (right is True and outcome == "syntax error"), text
        assert not (right is False and outcome == "parsed"), text
    assert tally[True, "parsed"] > 80
    assert tally[False, "syntax error"] > 250
