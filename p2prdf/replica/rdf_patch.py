"""RDF Patch: changesets as one text each, with transactions.

The format of Apache Jena and RDF Delta, tokenized as Jena does::

    H id <urn:uuid:...> .          headers: skipped
    TX .                           begins a transaction (also TB)
    A <s> <p> <o> .                add
    D <s> <p> <o> .                delete
    TC .                           ends it, as one changeset; TA aborts it
    PA "rdf" "http://..." .        prefixes (PA, PD): skipped, since terms are written out

A full stop ends a row, not the line: several rows may share a line, a row may span lines, and comments (``#``)
may stand anywhere between tokens. Terms are those of N-Triples, numbers those of Turtle.

Order matters within a transaction: a triple added and then deleted is absent. A changeset deletes first, so the
last row of each triple decides. Rows outside of transactions form one changeset at the end. Quads, blank nodes
and all other input are refused by line and column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from p2prdf.errors import DataRefused
from p2prdf.interest import Changeset, Triple
from p2prdf.rdf import terms
from p2prdf.replica.changeset_files import CHANGESET_TRIPLES_MAX

__all__ = ["PATCH_LINE_MAX", "read_patch"]

PATCH_LINE_MAX: Final = 3 * terms.TERM_BYTES_MAX
"""Bound on a line, in characters."""

_IRI: Final = r"<[^<>\"{}|^`\\\x00-\x20]*+(?:\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}|[^<>\"{}|^`\\\x00-\x20])*+>"
_SUFFIX: Final = rf"(?:@[A-Za-z]++(?:-[A-Za-z0-9]++)*+|\^\^{_IRI})?"
_LITERAL: Final = rf'"[^"\\\n\r]*+(?:\\.[^"\\\n\r]*+)*+"(?!"){_SUFFIX}'
_SINGLE: Final = rf"'[^'\\\n\r]*+(?:\\.[^'\\\n\r]*+)*+'(?!'){_SUFFIX}"
_TOKEN: Final = re.compile(
    "|".join(
        f"(?P<{kind}>{pattern})"
        for kind, pattern in [
            ("space", r"[ \t\r\n]++|\#.*"),
            ("iri", _IRI),
            ("literal", f"{_LITERAL}|{_SINGLE}"),
            ("blank", r"_:\w(?:[\w.\-]*[\w\-])?"),
            ("name", r"[^\W\d_](?:[\w.\-]{0,255}+(?<!\.))?:\S*(?<!\.)|:(?:\S*(?<!\.))?"),
            ("word", r"[A-Za-z][A-Za-z0-9_\-]*+"),
            ("double", r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)[eE][+-]?[0-9]++"),
            ("decimal", r"[+-]?[0-9]*+\.[0-9]++"),
            ("integer", r"[+-]?[0-9]++"),
            ("stop", r"\."),
        ]
    ),
    re.DOTALL,
)
_CHANGE: Final = re.compile(rf"([AD])[ \t]+({_IRI})[ \t]+({_IRI})[ \t]+({_IRI}|{_LITERAL})[ \t]*\.[ \t]*\r?\n")
"""A row of the usual form, alone in its line, read without a tokenizer."""

_NUMBERS: Final = ("integer", "decimal", "double")
_TERMS: Final = ("iri", "literal", "blank", *_NUMBERS)
_BEGINS: Final = ("TX", "TB")
_OTHER: Final = {"H": (2, 2), "PA": (2, 3), "PD": (1, 2), "Z": (0, 0)}
"""Rows without effect here, with their numbers of items; Z ends a segment."""
_CODES: Final = ("A", "D", *_BEGINS, "TC", "TA", *_OTHER)
_ITEMS_MAX: Final = 5


class _Token(NamedTuple):
    kind: str
    text: str
    line: int
    column: int


class _Row(NamedTuple):
    """A row: its code, its items, and its first line."""

    code: str
    items: list[_Token]
    line: int


def read_patch(
    lines: Iterable[str], *, source: str = "", sequence: int = 0, growing: bool = False
) -> Iterator[Changeset]:
    """Yield the changesets of a patch, numbered from ``sequence``.

    ``lines`` end with line feeds, except the last.

    Raises DataRefused with the place for text that is not an RDF Patch of triples, and for a transaction
    without an end: the file is incomplete. With ``growing``, a transaction or row without an end is left for
    later; rows outside of transactions are then refused at the end, since more of them may follow.
    """
    changes: dict[Triple, bool] = {}
    inside = False
    rows = _Rows(lines, source, growing=growing)
    for row in rows:
        match row.code:
            case "A" | "D":
                changes[_triple(row, source)] = row.code == "A"
                _bounded(changes, source, row.line)
            case "TX" | "TB" | "TC" | "TA":
                begins = row.code in _BEGINS
                if begins == inside:
                    reason = "a transaction begins within another" if begins else "no transaction has begun"
                    raise DataRefused(f"{row.code}: {reason}", source=source, line=row.line)
                if row.code == "TC" or (begins and changes):
                    yield _changeset(changes, sequence)
                    sequence += 1
                changes, inside = {}, begins
    if growing:
        if changes and not inside and not rows.begun:
            reason = "rows outside of transactions: while the file grows their end is unknown"
            raise DataRefused(reason, source=source, line=rows.line)
        return
    if inside:
        raise DataRefused("the transaction has no end: the file is incomplete", source=source, line=rows.line)
    if changes:
        yield _changeset(changes, sequence)


def _changeset(changes: dict[Triple, bool], sequence: int) -> Changeset:
    return Changeset(
        tuple(triple for triple, added in changes.items() if not added),
        tuple(triple for triple, added in changes.items() if added),
        sequence,
    )


class _Rows:
    """Splits lines into tokens, and tokens into rows, with one row and one line in memory."""

    def __init__(self, lines: Iterable[str], source: str, *, growing: bool):
        self.line = 0
        """The last line that was read."""
        self.begun = False
        """Whether a row, or the last line, is still being written and left for later."""
        self._lines = lines
        self._source = source
        self._growing = growing
        self._row: list[_Token] = []

    def __iter__(self) -> Iterator[_Row]:
        """Yield rows.  Raises DataRefused for malformed rows, and for a row without an end."""
        for number, line in enumerate(self._lines, 1):
            self.line = number
            if len(line) > PATCH_LINE_MAX:
                reason = f"a line of {len(line)} characters, more than {PATCH_LINE_MAX}"
                raise DataRefused(reason, source=self._source, line=self.line)
            if not self._row and (change := _CHANGE.fullmatch(line)) is not None:
                code, *items = change.groups()
                tokens = [_Token("iri", text, self.line, change.start(at)) for at, text in enumerate(items, 2)]
                yield _Row(code, tokens, self.line)
            elif self._growing and not line.endswith("\n"):
                self.begun = True
                yield from self._complete(line)
                return
            else:
                yield from self._rows(line)
        if self._row and self._growing:
            self.begun = True
        elif self._row:
            last = self._row[-1]
            reason = f"the row has no full stop after {_shown(last.text)}: the file is incomplete"
            raise self._refused(last, reason)

    def _complete(self, line: str) -> Iterator[_Row]:
        """Yield the rows of a line still being written, if it ends with the end of a transaction."""
        try:
            rows = list(self._rows(line))
        except DataRefused:
            return
        if rows and rows[-1].code == "TC" and not self._row:
            yield from rows

    def _rows(self, line: str) -> Iterator[_Row]:
        for token in self._tokens(line):
            if token.kind != "stop":
                if not self._row and (token.kind != "word" or token.text not in _CODES):
                    raise self._refused(token, f"no row of RDF Patch begins with {_shown(token.text)}")
                self._row.append(token)
                if len(self._row) > _ITEMS_MAX + 1:
                    raise self._refused(token, "a full stop is expected here: the row is too long")
                continue
            if not self._row:
                raise self._refused(token, "a full stop ends no row here")
            code, *items = self._row
            self._row = []
            self._check(code, items, token)
            yield _Row(code.text, items, code.line)

    def _tokens(self, line: str) -> Iterator[_Token]:
        at = 0
        while at < len(line):
            match = _TOKEN.match(line, at)
            if match is None:
                here = _Token("", "", self.line, at + 1)
                if line.startswith(('"""', "'''"), at):
                    raise self._refused(here, "a long string: literals are written as in N-Triples")
                raise self._refused(here, f"no token of RDF Patch begins with {_shown(line[at:].rstrip())}")
            kind = match.lastgroup or ""
            if kind != "space":
                yield _Token(kind, match[0], self.line, at + 1)
            at = match.end()

    def _check(self, code: _Token, items: list[_Token], stop: _Token) -> None:
        """Refuse a row with other items than its code requires."""
        if code.text in _OTHER:
            least, most = _OTHER[code.text]
            if not least <= len(items) <= most:
                raise self._refused(stop, f"{code.text}: {len(items)} items instead of {least} to {most}")
        elif code.text in ("A", "D"):
            for item in items:
                if item.kind not in _TERMS:
                    reason = f"{_shown(item.text)} is not a term: write terms out, as in N-Triples"
                    raise self._refused(item, f"{code.text}: {reason}")
            if len(items) == 4:
                raise self._refused(items[3], "a changeset has triples, without graphs")
            if len(items) != 3:
                raise self._refused(stop, f"{code.text}: not three terms and a full stop, but {len(items)} terms")
        elif items:
            raise self._refused(items[0], f"{code.text}: a full stop is expected after it")

    def _refused(self, token: _Token, reason: str) -> DataRefused:
        return DataRefused(f"column {token.column}: {reason}", source=self._source, line=token.line)


def _shown(text: str) -> str:
    return repr(text[:20])


def _bounded(changes: dict[Triple, bool], source: str, line: int) -> None:
    if len(changes) > CHANGESET_TRIPLES_MAX:
        reason = f"more than {CHANGESET_TRIPLES_MAX:,} triples in one transaction"
        raise DataRefused(reason, source=source, line=line)


def _triple(row: _Row, source: str) -> Triple:
    found = []
    for item in row.items:
        try:
            found.append(_term(item))
        except DataRefused as error:
            reason = f"column {item.column}: {error.reason}"
            raise DataRefused(reason, source=source, line=item.line) from None
    s, p, o = found
    if terms.is_object_only(s) or terms.is_object_only(p):
        wrong = row.items[0 if terms.is_object_only(s) else 1]
        raise DataRefused(f"column {wrong.column}: a literal must be an object", source=source, line=wrong.line)
    return s, p, o


def _term(token: _Token) -> str:
    text = token.text
    if token.kind in _NUMBERS:
        return f'"{text}"^^<{terms.XSD}{token.kind}>'
    if text.startswith("<_:"):
        text = text[1:-1]
    elif text.startswith("'"):
        end = text.rindex("'")
        text = '"' + re.sub(r'\\.|"', lambda m: '\\"' if m[0] == '"' else m[0], text[1:end]) + '"' + text[end + 1 :]
    return terms.parse_term(text)
