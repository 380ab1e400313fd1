"""Split SPARQL text into tokens in bounded, linear time, before a parser runs.

Queries are untrusted input.  A general parser given some KiB of brackets can run for minutes or exhaust the stack, so
the text is first split into tokens in one pass, with work proportional to its length.  Text that is too long, nested
too deeply or not tokenizable is refused with its position.  (The possessive quantifiers and the bounded prefix keep
each regular expression linear.)

Then :func:`symbols` resolves the prologue: BASE and PREFIX are consumed, prefixed names and relative IRIs become
absolute, a literal with its datatype or language becomes one symbol.  The result has a canonical spelling, on which
the rest of the package relies.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from p2prdf.errors import DataRefused, QueryRefused
from p2prdf.rdf import quads, terms

__all__ = [
    "DEFAULT_BASE", "EXCLAMATIONS_MAX", "NESTING_MAX", "QUERY_BYTES_MAX", "SPELLED_MAX", "Symbol", "Token",
    "UpdateSymbols", "misplaced", "refusal", "refuse_reserved", "resolve", "scan", "symbols", "update_symbols",
]  # fmt: skip

QUERY_BYTES_MAX: Final = 256 << 10
"""Longest text of a query in UTF-8 bytes."""
NESTING_MAX: Final = 64
"""Deepest nesting of all kinds of brackets together."""
EXCLAMATIONS_MAX: Final = 8
"""Longest run of ``!``; SPARQL itself allows one, and a longer run than this is an attack."""
SPELLED_MAX: Final = 32 << 20
"""Most characters in all IRIs of a text with prefixes and bases expanded.

Without this bound, a prefix of half a megabyte could be used a hundred thousand times.
"""

DEFAULT_BASE: Final = "http://p2prdf.invalid/"
"""The base of relative IRIs in a query with streams that declares none."""

_REGISTRATION_TOKENS_MAX: Final = 16
"""Bound on the tokens of ``REGISTER QUERY name COMPUTED EVERY PT0.5S AS``, which has fewer."""


class Token(NamedTuple):
    """A piece of the text: its kind, its spelling, and its position."""

    kind: str
    text: str
    at: int


class Symbol(NamedTuple):
    """A token with its meaning resolved.

    ``kind``: ``var`` (value: name), ``iri`` and ``literal`` (canonical term), ``blank`` (label),
    ``word`` (as written) or ``mark`` (punctuation).  ``signed``: a number written with its sign.
    """

    kind: str
    value: str
    at: int
    signed: bool = False

    def is_mark(self, *values: str) -> bool:
        """Tell whether this is one of these punctuation marks."""
        return self.kind == "mark" and self.value in values

    def is_word(self, *values: str) -> bool:
        """Tell whether this is one of these words, given in capitals."""
        return self.kind == "word" and self.value.upper() in values


_BASE_CHARS: Final = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_VAR_CHARS: Final = _BASE_CHARS + "_0-9\u00b7\u0300-\u036f\u203f-\u2040"
_NAME_CHARS: Final = _VAR_CHARS + "\\-"
_ESCAPED: Final = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_CODE: Final = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"
_IN_STRING: Final = rf"\\[tbnrf\\\"']|{_CODE}"
_DOTTED: Final = f"[{_NAME_CHARS}]*+(?:\\.++[{_NAME_CHARS}]++)*"
_LOCAL: Final = (
    rf"(?:[{_BASE_CHARS}_:0-9]|{_ESCAPED})"
    rf"(?:[{_NAME_CHARS}:]|{_ESCAPED}|\.++(?=[{_NAME_CHARS}:%\\]))*"
)

_TOKEN: Final = re.compile(
    "|".join(
        f"(?P<{kind}>{pattern})"
        for kind, pattern in [
            ("space", r"[ \t\r\n]++|\#[^\n\r]*+"),
            ("iri", rf'<(?:[^<>"{{}}|^`\\\x00-\x20]|{_CODE})*>'),
            ("long1", rf"'''(?:'{{0,2}}+(?:[^'\\]|{_IN_STRING}))*'''"),
            ("long2", rf'"""(?:"{{0,2}}+(?:[^"\\]|{_IN_STRING}))*"""'),
            ("string1", rf"'(?:[^'\\\n\r]|{_IN_STRING})*'(?!')"),
            ("string2", rf'"(?:[^"\\\n\r]|{_IN_STRING})*"(?!")'),
            ("var", rf"[?$][{_BASE_CHARS}_0-9][{_VAR_CHARS}]*+"),
            ("language", r"@[A-Za-z]++(?:-[A-Za-z0-9]++)*(?:--[A-Za-z]++)?"),
            ("double", r"(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)[eE][+-]?[0-9]++"),
            ("decimal", r"[0-9]*+\.[0-9]++"),
            ("integer", r"[0-9]++"),
            ("blank", rf"_:[{_BASE_CHARS}_0-9]{_DOTTED}"),
            ("name", rf"(?:[{_BASE_CHARS}][{_NAME_CHARS}.]{{0,255}}+(?<!\.))?:(?:{_LOCAL})?"),
            ("subquery", rf"%[{_BASE_CHARS}_0-9][{_VAR_CHARS}]*+"),
            ("word", r"[A-Za-z_][A-Za-z0-9_]*+"),
            ("mark", r"<<\(|\)>>|<<|>>|\{\||\|\}|~|\^\^|&&|\|\||!=|<=|>=|[{}()\[\].;,=<>!*/+\-|^?]"),
        ]
    )
)
_CODE_POINT: Final = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
_STRING_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_CONTROL: Final = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_LOCAL_ESCAPE: Final = re.compile(r"\\(.)")
_CLOSING: Final = {"(": ")", "[": "]", "{": "}", "<<(": ")>>", "<<": ">>", "{|": "|}"}
_STRINGS: Final = {"string1": 1, "string2": 1, "long1": 3, "long2": 3}
_NUMBERS: Final = ("integer", "decimal", "double")


def refusal(text: str, at: int, construct: str, reason: str) -> QueryRefused:
    """Return the error that names a construct and its position in the text."""
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return QueryRefused(reason, construct=construct, line=line, column=column)


_SHOWN_MAX: Final = 60
"""Most characters of a symbol that a refusal repeats."""

_REASONS: Final = {
    "INCLUDE": "it stands in a group, and names a sub-query that WITH { } AS %name defines before it",
    "GRAPH": "it belongs in a group; a template has no graphs",
    "FROM": "it stands between the form of the query and WHERE, and not in a sub-query",
    "SERVICE": "nodes ask no other endpoint; clients and gateways with --service-from do, for one-time queries and "
    "updates",
    "DESCRIBE": "a description follows blank nodes to any depth, so no fixed pattern finds its changes; ask it once "
                "(client.query, p2prdf query, /sparql), or subscribe to CONSTRUCT { ?x ?p ?o } WHERE { ... ?x ?p ?o }",
    "NOW": "in a standing query it would change all solutions all the time; compare with a constant, declare a window "
           "of a stream, or ask the query once",
    **dict.fromkeys(
        ("RAND", "UUID", "STRUUID", "BNODE"),
        "a standing query has no single evaluation that could fix its value; ask the query once, or derive a value "
        "from the solution, such as IRI(CONCAT('urn:', SHA256(STR(?x))))",
    ),
    **dict.fromkeys(
        ("COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"),
        "aggregates belong in SELECT, HAVING or ORDER BY, and not in each other",
    ),
    **dict.fromkeys(
        ("INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH", "USING"),
        "updates are not queries",
    ),
}


def misplaced(text: str, symbol: Symbol) -> QueryRefused:
    """Return the refusal of a symbol that is not supported, or not at this position."""
    word = symbol.value.upper()
    if symbol.kind == "word" and word in _REASONS:
        return refusal(text, symbol.at, word, f"not supported: {_REASONS[word]}")
    shown = symbol.value if len(symbol.value) <= _SHOWN_MAX else symbol.value[:_SHOWN_MAX] + "..."
    return refusal(text, symbol.at, "syntax error", f"{shown!r} is out of place")


def scan(text: str, bytes_max: int = QUERY_BYTES_MAX) -> list[Token]:
    """Split a query into tokens without white space and comments.

    Raises QueryRefused for text that is too long, nested too deeply, unbalanced or not tokenizable.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise refusal(text, error.start, "syntax error", "a lone surrogate is not a character") from None
    if size > bytes_max:
        reason = f"the text has {size} bytes, more than {bytes_max}"
        raise QueryRefused(reason, construct="query length")
    found = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise refusal(text, at, "syntax error", f"no token of SPARQL begins with {text[at : at + 10]!r}")
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(Token(kind, match[0], at))
        at = match.end()
    _check_brackets(text, found)
    return found


def _check_brackets(text: str, found: list[Token]) -> None:
    open_marks: list[Token] = []
    exclamations = 0
    for token in found:
        exclamations = exclamations + 1 if token.text == "!" else 0
        if exclamations > EXCLAMATIONS_MAX:
            raise refusal(text, token.at, "!", f"a run of more than {EXCLAMATIONS_MAX} exclamation marks")
        if token.kind != "mark":
            continue
        if token.text in _CLOSING:
            open_marks.append(token)
            if len(open_marks) > NESTING_MAX:
                raise refusal(text, token.at, "nesting", f"brackets nest deeper than {NESTING_MAX}")
        elif token.text in _CLOSING.values():
            if not open_marks or _CLOSING[open_marks[-1].text] != token.text:
                raise refusal(text, token.at, "syntax error", f"{token.text!r} closes nothing")
            open_marks.pop()
    if open_marks:
        last = open_marks[-1]
        raise refusal(text, last.at, "syntax error", f"{last.text!r} is never closed")


# --- the prologue, and the symbols that depend on it ---------------------------------------------


class _Prologue:
    """BASE and PREFIX declarations in force."""

    def __init__(self, text: str):
        self.text = text
        self.base: str | None = None
        self._prefixes: dict[str, str] = {}
        self._spelled = 0
        self._history: dict[str, list[tuple[int, str]]] = {}
        """Declarations of each prefix, with their positions in the text; of the base under ``<``."""

    def declare(self, found: list[Token], at: int = 0) -> int:
        """Consume the declarations that begin at a token; return the index of the token after them."""
        while at < len(found) and found[at].kind == "word":
            word = found[at].text.upper()
            if word == "BASE":
                self.base = terms.lexical(self.iri(self._expect(found, at, 1, "iri")))
                self._history.setdefault("<", []).append((found[at].at, self.base))
                at += 2
            elif word == "PREFIX":
                prefix = self._expect(found, at, 1, "name")
                if prefix.text.index(":") != len(prefix.text) - 1:
                    raise refusal(self.text, prefix.at, "syntax error", "a declared prefix ends with ':'")
                namespace = self._expect(found, at, 2, "iri")
                iri = self._prefixes[prefix.text[:-1]] = terms.lexical(self.iri(namespace))
                self._history.setdefault(prefix.text[:-1], []).append((prefix.at, iri))
                at += 3
            elif word == "VERSION" and at + 1 < len(found) and found[at + 1].kind in ("string1", "string2"):
                at += 2  # it only announces SPARQL 1.2
            else:
                break
        return at

    def spelled(self, found: list[Token]) -> str:
        """Return the declarations that a part of the text uses, as they are in force at its first token."""
        at = found[0].at
        names = dict.fromkeys(token.text.partition(":")[0] for token in found if token.kind == "name")
        iris = {name: self._last(name, at) for name in ("<", *names)}
        return "".join(
            f"BASE <{iri}> " if name == "<" else f"PREFIX {name}: <{iri}> "
            for name, iri in iris.items() if iri is not None
        )  # fmt: skip

    def _last(self, name: str, at: int) -> str | None:
        declared = self._history.get(name, [])
        before = bisect.bisect_left(declared, at, key=lambda each: each[0])
        return declared[before - 1][1] if before else None

    def _expect(self, found: list[Token], at: int, offset: int, kind: str) -> Token:
        if at + offset >= len(found) or found[at + offset].kind != kind:
            what = "an IRI in <>" if kind == "iri" else "a prefix"
            place = min(at + offset, len(found) - 1)
            raise refusal(self.text, found[place].at, "syntax error", f"{found[at].text} needs {what}")
        return found[at + offset]

    def iri(self, token: Token) -> str:
        """Return the canonical term of an IRI, a prefixed name, or ``<_:LABEL>``, a blank node of a result."""
        if token.text.startswith("<_:"):
            node = terms.unlabelled(token.text[3:-1])
            if node is None:
                reason = f"{token.text[:60]} is no blank node of any result: copy the label from a result"
                raise refusal(self.text, token.at, "IRI", reason)
            return node
        if token.kind == "name":
            prefix, _, local = token.text.partition(":")
            if prefix not in self._prefixes:
                raise refusal(self.text, token.at, "prefix", f"prefix {prefix + ':'!r} is not declared")
            self._spell(token, self._prefixes[prefix])
            value = self._prefixes[prefix] + _LOCAL_ESCAPE.sub(r"\1", local)
        else:
            value = _CODE_POINT.sub(_from_code, token.text[1:-1])
            if self.base is not None:
                self._spell(token, self.base)
                value = resolve(self.base, value)
        try:
            return terms.iri(value)
        except DataRefused as error:
            raise refusal(self.text, token.at, "IRI", error.reason) from None

    def _spell(self, token: Token, put_before: str) -> None:
        self._spelled += len(put_before) + len(token.text)
        if self._spelled > SPELLED_MAX:
            reason = f"with prefixes and bases expanded, the IRIs have more than {SPELLED_MAX} characters"
            raise refusal(self.text, token.at, "IRI", reason)


def symbols(text: str, found: list[Token]) -> tuple[list[Symbol], str | None]:
    """Resolve tokens against their prologue; return the symbols after it, and the base IRI if any.

    ``REGISTER ... AS`` may precede the prologue (C-SPARQL) or follow it (RSP-QL).  Its symbols are returned, and
    declarations on either side of it apply to the whole text.  Texts with streams have ``DEFAULT_BASE`` as base: their
    authors name windows, streams and results by relative IRIs without a BASE.
    """
    prologue = _Prologue(text)
    if _reads_streams(found):
        prologue.base = DEFAULT_BASE
    result: list[Symbol] = []
    begins = prologue.declare(found)
    ends = _registration_end(found, begins)
    follows = prologue.declare(found, ends)
    _resolve(prologue, found, begins, ends, result)
    _resolve(prologue, found, follows, len(found), result)
    return result, prologue.base


def _reads_streams(found: list[Token]) -> bool:
    """Tell whether a text declares a window on a stream."""
    words = [token.text.upper() if token.kind == "word" else "" for token in found]
    pairs = itertools.pairwise(words)
    return any(first in ("FROM", "NAMED") and second in ("STREAM", "WINDOW") for first, second in pairs)


def _registration_end(found: list[Token], at: int) -> int:
    """Return the index of the token after ``REGISTER ... AS``; ``at`` if none begins there."""
    if at < len(found) and found[at].kind == "word" and found[at].text.upper() == "REGISTER":
        for end in range(at + 1, min(at + _REGISTRATION_TOKENS_MAX, len(found))):
            if found[end].kind == "word" and found[end].text.upper() == "AS":
                return end + 1
    return at


class UpdateSymbols(NamedTuple):
    """The symbols of an update, and the declarations that a part of its tokens uses, as a prologue."""

    symbols: list[Symbol]
    prologue_of: Callable[[list[Token]], str]


def update_symbols(text: str, found: list[Token]) -> UpdateSymbols:
    """Resolve the tokens of an update: a prologue begins it, and may follow each ``;`` between operations."""
    prologue = _Prologue(text)
    result: list[Symbol] = []
    at = depth = 0
    while at < len(found):
        at = end = prologue.declare(found, at)
        while end < len(found):
            token = found[end]
            end += 1
            if token.kind == "word" and token.text.upper() in ("PREFIX", "BASE"):
                reason = f"{token.text} must stand before an operation or after the ';' that ends one"
                raise refusal(text, token.at, "syntax error", reason)
            if token.kind == "mark":
                depth += (token.text in _CLOSING) - (token.text in _CLOSING.values())
                if depth == 0 and token.text == ";":
                    break
        _resolve(prologue, found, at, end, result)
        at = end
    return UpdateSymbols(result, prologue.spelled)


def _resolve(prologue: _Prologue, found: list[Token], at: int, end: int, result: list[Symbol]) -> None:
    """Append the symbols of the tokens up to ``end`` to the result."""
    text = prologue.text
    while at < end:
        token = found[at]
        at += 1
        if token.kind in ("iri", "name"):
            result.append(Symbol("iri", prologue.iri(token), token.at))
        elif token.kind in _STRINGS:
            suffix, used = _literal_suffix(prologue, found, at)
            at += used
            result.append(Symbol("literal", _string(text, token, *suffix), token.at))
        elif token.kind in _NUMBERS:
            result.append(_number(token, result))
        elif token.kind == "language":
            raise refusal(text, token.at, "syntax error", "a language tag must follow a string")
        else:
            value = token.text[{"var": 1, "blank": 2}.get(token.kind, 0) :]
            result.append(Symbol(token.kind, value, token.at))


def refuse_reserved(text: str, symbols: Iterable[Symbol]) -> None:
    """Raise QueryRefused for the reserved datatypes of predicates in streams, in graphs and of the directory.

    Conditions with them read other graphs than the text names, so only internal queries may use them.
    """
    for symbol in symbols:
        if symbol.kind == "iri" and symbol.value in quads.CONDITION_DATATYPES:
            raise refusal(text, symbol.at, "IRI", f"{symbol.value} is reserved")


def _literal_suffix(
    prologue: _Prologue, found: list[Token], at: int
) -> tuple[tuple[str | None, str | None], int]:
    """Return datatype and language of a string, and the number of tokens after it that they take."""
    if at < len(found) and found[at].kind == "language":
        return (None, found[at].text[1:]), 1
    if at < len(found) and found[at].text == "^^":
        if at + 1 == len(found) or found[at + 1].kind not in ("iri", "name"):
            raise refusal(prologue.text, found[at].at, "syntax error", "'^^' needs a datatype IRI")
        return (terms.lexical(prologue.iri(found[at + 1])), None), 2
    return (None, None), 0


def _string(text: str, token: Token, datatype: str | None, language: str | None) -> str:
    if datatype is not None and datatype.startswith(quads.RESERVED):
        raise refusal(text, token.at, "literal", f"datatypes <{quads.RESERVED}...> are reserved")
    quotes = _STRINGS[token.kind]
    lexical = _STRING_ESCAPE.sub(_from_code, token.text[quotes:-quotes])
    try:
        return terms.literal(lexical, datatype, language)
    except DataRefused as error:
        raise refusal(text, token.at, "literal", error.reason) from None


def _number(token: Token, before: list[Symbol]) -> Symbol:
    """Return a number; an adjacent sign belongs to it (longest match, as SPARQL requires)."""
    sign = before[-1] if before and before[-1].is_mark("+", "-") and before[-1].at == token.at - 1 else None
    if sign is not None:
        before.pop()
    spelling = (sign.value if sign else "") + token.text
    at = sign.at if sign else token.at
    return Symbol("literal", f'"{spelling}"^^<{terms.XSD}{token.kind}>', at, signed=sign is not None)


def _from_code(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if not code:
        return _CONTROL.get(match[3], match[3])
    point = int(code, 16)
    return chr(point) if point <= 0x10FFFF else "\ud800"  # refused as a term, with its position


# --- RFC 3986, section 5: resolution of relative references --------------------------------------

_REFERENCE: Final = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL
)


def resolve(base: str, reference: str) -> str:
    """Return ``reference`` made absolute against ``base``."""
    scheme, authority, path, query, fragment = _split(reference)
    if scheme is not None:
        return reference  # SPARQL does not normalise absolute IRIs
    base_scheme, base_authority, base_path, base_query, _ = _split(base)
    if authority is None:
        authority = base_authority
        if not path:
            path, query = base_path, base_query if query is None else query
        elif path.startswith("/"):
            path = _without_dots(path)
        else:
            rootless = base_authority is not None and not base_path
            path = _without_dots(("/" if rootless else base_path[: base_path.rfind("/") + 1]) + path)
    else:
        path = _without_dots(path)
    host = "" if authority is None else "//" + authority
    return f"{base_scheme}:{host}{path}{query or ''}{fragment or ''}"


def _split(reference: str) -> tuple[str | None, str | None, str, str | None, str | None]:
    match = _REFERENCE.fullmatch(reference)
    assert match is not None  # the expression matches any text
    return match[1], match[2], match[3], match[4], match[5]


def _without_dots(path: str) -> str:
    kept: list[str] = []
    parts = path.split("/")
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "..":
            if len(kept) > 1 or (kept and kept[0]):
                kept.pop()
            kept += [""] if last else []
        elif part == ".":
            kept += [""] if last else []
        else:
            kept.append(part)
    return "/".join(kept)
