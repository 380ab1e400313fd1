"""RDF Patch: changesets as one text each, with transactions.

The lines that are understood, of the format of Apache Jena and RDF Delta::

    H id <urn:uuid:...> .          headers: read over, but for ``prev``, which is told
    TX .                           a transaction begins
    A <s> <p> <o> .                add
    D <s> <p> <o> .                delete
    TC .                           it ends, and is one changeset; TA gives it up
    PA "rdf" "http://..." .        prefixes: read over, for terms are written out

Within a transaction the order counts: what is added and then deleted is not there.  A changeset deletes first, so for
each triple the last line decides.  Lines outside of transactions are one changeset at the end.  Quads and blank nodes
are refused by line, as is anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from p2prdf.errors import DataRefused
from p2prdf.interest import Changeset, Triple
from p2prdf.rdf import terms
from p2prdf.replica.changeset_files import CHANGESET_TRIPLES_MAX

__all__ = ["PATCH_LINE_MAX", "read_patch", "write_patch"]

PATCH_LINE_MAX: Final = 3 * terms.TERM_BYTES_MAX
"""Longest line in characters."""

_IRI: Final = r"<[^<>\"{}|^`\\\x00-\x20]*+(?:\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}|[^<>\"{}|^`\\\x00-\x20])*+>"
_LITERAL: Final = rf'"[^"\\\n\r]*+(?:\\.[^"\\\n\r]*+)*+"(?:@[A-Za-z]++(?:-[A-Za-z0-9]++)*+|\^\^{_IRI})?'
_TERM: Final = re.compile(rf"\s*({_IRI}|{_LITERAL}|_:[^\s]++|<_:[^>]*+>)")
_END: Final = re.compile(r"\s*\.\s*(?:#.*)?")
_OTHER: Final = ("H", "PA", "PD")


def read_patch(
    lines: Iterable[str], *, source: str = "", sequence: int = 0, growing: bool = False
) -> Iterator[Changeset]:
    """Yield the changesets of a patch, numbered from ``sequence`` on.

    Raises DataRefused, which names the line, for what is no RDF Patch of triples.  A transaction without an end is
    refused as well: the file is not whole.  With ``growing`` it is left for later, and so is a line without an end;
    then lines outside of transactions are refused at the end, since more of them may come.
    """
    changes: dict[Triple, bool] = {}
    inside = False
    number = 0
    for number, line in enumerate(lines, 1):
        if len(line) > PATCH_LINE_MAX:
            reason = f"a line of {len(line)} characters, more than {PATCH_LINE_MAX}"
            raise DataRefused(reason, source=source, line=number)
        if growing and _is_begun(line):
            break
        code, _, rest = line.strip().partition(" ")
        match code:
            case "" | "#":
                continue
            case "A" | "D":
                changes[_triple(rest, source, number)] = code == "A"
                _bounded(changes, source, number)
            case "TX" | "TC" | "TA":
                begins = code == "TX"
                if begins == inside:
                    reason = "a transaction begins within another" if begins else "no transaction has begun"
                    raise DataRefused(f"{code}: {reason}", source=source, line=number)
                if code == "TC" or (begins and changes):
                    yield _changeset(changes, sequence)
                    sequence += 1
                changes, inside = {}, begins
            case _:
                if code not in _OTHER and not code.startswith("#"):
                    raise DataRefused(f"no line of RDF Patch begins with {code[:20]!r}", source=source, line=number)
    if growing:
        if changes and not inside:
            reason = "lines outside of transactions: while the file grows it cannot be known where they end"
            raise DataRefused(reason, source=source, line=number)
        return
    if inside:
        raise DataRefused("the transaction has no end: the file is not whole", source=source, line=number)
    if changes:
        yield _changeset(changes, sequence)


def write_patch(changesets: Iterable[Changeset]) -> Iterator[str]:
    """Yield the lines of a patch: a transaction for each changeset."""
    for changeset in changesets:
        yield f"H sequence {changeset.sequence} .\n"
        yield "TX .\n"
        yield from (f"D {s} {p} {o} .\n" for s, p, o in changeset.removed)
        yield from (f"A {s} {p} {o} .\n" for s, p, o in changeset.added)
        yield "TC .\n"


def _changeset(changes: dict[Triple, bool], sequence: int) -> Changeset:
    return Changeset(
        tuple(triple for triple, added in changes.items() if not added),
        tuple(triple for triple, added in changes.items() if added),
        sequence,
    )


def _is_begun(line: str) -> bool:
    return not line.endswith("\n") and line.strip() != "TC ." and len(line) <= PATCH_LINE_MAX


def _bounded(changes: dict[Triple, bool], source: str, line: int) -> None:
    if len(changes) > CHANGESET_TRIPLES_MAX:
        reason = f"more than {CHANGESET_TRIPLES_MAX:,} triples in one transaction"
        raise DataRefused(reason, source=source, line=line)


def _triple(text: str, source: str, line: int) -> Triple:
    found, at = [], 0
    while (match := _TERM.match(text, at)) is not None:
        found.append(match[1])
        at = match.end()
    if _END.fullmatch(text, at) is None or len(found) not in (3, 4):
        raise DataRefused(f"not three terms and a full stop: {text[:60]!r}", source=source, line=line)
    if len(found) == 4:
        raise DataRefused("a changeset has triples, without graphs", source=source, line=line)
    try:
        s, p, o = map(_term, found)
    except DataRefused as error:
        raise DataRefused(error.reason, source=source, line=line) from None
    if s.startswith('"') or p.startswith('"'):
        raise DataRefused("a literal is an object only", source=source, line=line)
    return s, p, o


def _term(text: str) -> str:
    if text.startswith("<_:"):
        text = text[1:-1]
    return terms.parse_term(text)
