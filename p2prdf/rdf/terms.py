"""RDF terms as canonical N-Triples strings.

Between peers, in files and in the dictionary, a term *is* its canonical N-Triples spelling: equal terms are equal
strings, and no class is needed.  The canonical spelling is pyoxigraph's: ``xsd:string`` is omitted, language tags are
in lower case, and only characters that require it are escaped.

A blank node has a meaning only inside its file, while the triples of one file go to many peers.  Each blank node
therefore becomes an IRI of its own, ``<urn:bnode:PUBLICATION:LABEL>`` (skolemisation, RDF 1.1 Concepts 3.5).  Results
and filters turn such IRIs back into blank nodes, with one label in every format (:func:`blank_label`): characters
that Turtle's labels cannot contain (``:``, ``~``) become ``_`` and two hexadecimal digits.

Terms of RDF 1.2 are terms like others: a triple term is ``<<( s p o )>>``, and a literal with a base direction ends in
``@en--ltr``.  A triple term stands as an object only, as literals do (:func:`is_object_only`).
"""

from __future__ import annotations

import enum
import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pyoxigraph as ox

from p2prdf.errors import DataRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = [
    "BNODE_PREFIX", "DIRECTED_STRING", "DIRECTION", "LANG_STRING", "RDF", "RESPELLED", "SURE_IRI", "SURE_LITERAL",
    "TERM_BYTES_MAX", "TRIPLE_TERM_DEPTH_MAX", "XSD", "Kind", "PyoxigraphTerm", "blank_label", "check_all", "from_json",
    "iri", "is_object_only", "is_skolem", "is_triple", "kind", "language", "lexical", "literal", "literal_parts",
    "parse_term", "refusals", "renamed", "skolem", "skolem_prefix", "spelled", "to_json", "to_pyoxigraph",
    "triple_parts", "triple_term", "unlabelled", "unusable",
]  # fmt: skip

TERM_BYTES_MAX: Final = 4 << 20
"""Largest canonical term in UTF-8 bytes; the size of frames depends on it."""

XSD: Final = "http://www.w3.org/2001/XMLSchema#"
RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
LANG_STRING: Final = RDF + "langString"
DIRECTED_STRING: Final = RDF + "dirLangString"
DIRECTION: Final = "--"
"""Separates a language tag from the base direction, ``ltr`` or ``rtl``."""
TRIPLE_TERM_DEPTH_MAX: Final = 16
"""Deepest nesting of triple terms."""
BNODE_PREFIX: Final = "urn:bnode:"

_SKOLEM: Final = "<" + BNODE_PREFIX

# The outer shape of one term.  It excludes text that pyoxigraph would read as a term followed by something else;
# pyoxigraph checks the inside.
_IRI: Final = r"<[^<>\x00-\x20]*+>"
_LITERAL: Final = (
    r'"[^"\\\n\r]*+(?:\\[^\n\r][^"\\\n\r]*+)*"'
    rf"(?:@[A-Za-z]++(?:-[A-Za-z0-9]++)*(?:--(?:ltr|rtl))?|\^\^{_IRI})?"
)
_ONE_TERM: Final = re.compile(rf"{_IRI}|{_LITERAL}|<<\((?:[ \t]|<<\(|\)>>|{_IRI}|{_LITERAL})++(?<=\)>>)")
_TRIPLE: Final = "<<( "
# Terms that are certainly valid and canonical; all others are parsed.  Arrow's RE2 reads these expressions, too.
_UCSCHAR: Final = "\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\U00010000-\U0001fffd\U00020000-\U0002fffd"
_IN_PATH: Final = rf"A-Za-z0-9._~:@!$&'()*+,;=\-{_UCSCHAR}"
_PERCENT: Final = "%[0-9A-Fa-f][0-9A-Fa-f]"
_REST: Final = rf"(?:[/?{_IN_PATH}]|{_PERCENT})*"
SURE_IRI: Final = (
    r"<[A-Za-z][A-Za-z0-9+.\-]*:"
    rf"(?://[A-Za-z0-9.\-]+(?::[0-9]+)?(?:[/?]{_REST})?|/?(?:(?:[?{_IN_PATH}]|{_PERCENT}){_REST})?)(?:#{_REST})?>"
)
"""A regular expression of IRIs that certainly are valid terms, without look-around."""
SURE_LITERAL: Final = (
    rf'"(?:[^"\\\x00-\x1f\x7f]|\\[tbnrf"\\])*"(?:@[a-z]{{1,8}}(?:-[a-z0-9]{{1,8}})*|\^\^{SURE_IRI})?'
)
"""A regular expression of literals that certainly are valid terms, without look-around.

It also accepts the endings in :data:`RESPELLED` and lone surrogates; exclude these separately.
"""
RESPELLED: Final = (f"^^<{XSD}string>", f"^^<{LANG_STRING}>", f"^^<{DIRECTED_STRING}>")
"""Endings of literals that look canonical but are not."""
_PLAIN_TERMS: Final = re.compile(
    rf'(?:(?!"[^\n]*(?:{"|".join(map(re.escape, RESPELLED))})\n)(?:{SURE_IRI}|{SURE_LITERAL})?\n)*+'
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_CHECKED_AT_ONCE: Final = 4096
_REMEDY: Final = "write an absolute IRI in <>, or a literal in quotation marks, as N-Triples has them"
_DIRECTIONS: Final = {"ltr": ox.BaseDirection.LTR, "rtl": ox.BaseDirection.RTL}
_PUBLICATION: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PLAIN_LABEL: Final = re.compile(r"[A-Za-z0-9._:~-]+")
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9._:~-]")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_NO_LETTER: Final = re.compile(r"[^A-Za-z0-9-]|^-")
"""Characters that a label spells out; ``_`` is included, so different nodes have different labels."""
_SPELLED_OUT: Final = re.compile(r"(?:_[0-9A-F]{2})+")
_PARTS: Final = ("subject", "predicate", "object")
_TAGGED: Final = (LANG_STRING, DIRECTED_STRING)
_OPENINGS_MAX: Final = 1000
"""Most occurrences of ``<<(`` in a text that is parsed; deeper nesting exhausts the parser's stack."""
_CONTROL: Final = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}


PyoxigraphTerm = ox.NamedNode | ox.Literal | ox.Triple


class Kind(enum.Enum):
    """The kind of a term."""

    IRI = "uri"
    BLANK = "bnode"
    LITERAL = "literal"
    TRIPLE = "triple"


def iri(value: str) -> str:
    """Return the canonical string of an IRI.  Raises DataRefused unless it is absolute and valid."""
    try:
        return _bounded(str(ox.NamedNode(value)))
    except ValueError as error:  # UnicodeEncodeError (a lone surrogate) is one
        raise DataRefused(f"not an IRI: {_excerpt(value)}: {error}") from None


def literal(lexical: str, datatype: str | None = None, language: str | None = None) -> str:
    """Return the canonical string of a literal; ``datatype`` is an IRI without brackets.

    The lexical form is kept unchanged, even if it is invalid for the datatype.  ``language`` may end in a base
    direction: ``ar--rtl``.
    """
    if language is not None:
        if datatype not in (None, DIRECTED_STRING if DIRECTION in language else LANG_STRING):
            raise DataRefused(f"a literal cannot have both language {language!r} and datatype <{datatype}>")
    elif datatype in (LANG_STRING, DIRECTED_STRING):
        raise DataRefused(_unlabelled_string(datatype))
    try:
        if language is not None:
            tag, separator, direction = language.partition(DIRECTION)
            if separator and direction not in _DIRECTIONS:
                raise DataRefused(f"not a base direction, ltr or rtl: {_excerpt(direction)}")
            return _bounded(str(ox.Literal(lexical, language=tag, direction=_DIRECTIONS.get(direction))))
        if datatype is None:
            return _bounded(str(ox.Literal(lexical)))
        return _bounded(str(ox.Literal(lexical, datatype=ox.NamedNode(datatype))))
    except ValueError as error:
        raise DataRefused(f"not a literal: {_excerpt(lexical)}: {error}") from None


def parse_term(text: str) -> str:
    """Return the canonical string of an IRI, a literal or a triple term in any N-Triples spelling.

    Raises DataRefused for anything else, including blank nodes, which need a publication first (:func:`skolem`).
    """
    if len(text) > 2 * TERM_BYTES_MAX:  # escapes make a term longer, within reason
        raise DataRefused(f"a term of {len(text)} characters exceeds {TERM_BYTES_MAX} bytes")
    if text.startswith("_:"):
        raise DataRefused(f"a blank node has no meaning outside its file: {_excerpt(text)}")
    if _ONE_TERM.fullmatch(text) is None or text.count("<<(") > _OPENINGS_MAX:
        raise DataRefused(f"not an IRI or literal in N-Triples syntax: {_excerpt(text)}")
    try:
        statement = f"<urn:s> <urn:p> {text} .".encode()
        (quad,) = ox.parse(statement, format=ox.RdfFormat.N_TRIPLES)
    except ValueError as error:  # a lone surrogate
        raise DataRefused(f"not an IRI or literal: {_excerpt(text)}: {error}") from None
    except SyntaxError as error:
        reason = error.msg.split(": ", 1)[-1]
        raise DataRefused(f"not an IRI or literal: {_excerpt(text)}: {reason}") from None
    if reason := unusable(quad.object):
        raise DataRefused(reason)
    found = quad.object
    return _bounded(f"<<( {found} )>>" if isinstance(found, ox.Triple) else str(found))


def unusable(term: object) -> str:
    """Return the reason to refuse a term that pyoxigraph has read; empty for nearly all terms."""
    for _ in range(TRIPLE_TERM_DEPTH_MAX + 1):
        if isinstance(term, ox.Literal):
            datatype = term.datatype.value
            return _unlabelled_string(datatype) if datatype in _TAGGED and not term.language else ""
        if not isinstance(term, ox.Triple):
            return ""
        term = term.object
    return f"triple terms nest deeper than {TRIPLE_TERM_DEPTH_MAX}"


def _unlabelled_string(datatype: str) -> str:
    parts = "language tag" if datatype == LANG_STRING else "language tag and a base direction"
    return f"a literal of datatype rdf:{datatype.removeprefix(RDF)} needs a {parts}"


def refusals(texts: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the index of each text that is not a canonical term, with the reason and the remedy.

    One regular expression accepts nearly all texts, some thousand at once; only the others are parsed.  The empty
    text, which stands for unbound, is skipped.
    """
    remaining, first = iter(texts), 0
    while some := list(islice(remaining, _CHECKED_AT_ONCE)):
        if not _plain(some):
            for at, text in enumerate(some, first):
                if text and not _plain([text]) and (reason := _refusal(text)):
                    yield at, reason
        first += len(some)


def _plain(texts: list[str]) -> bool:
    joined = "\n".join(texts)
    if joined.count("\n") != len(texts) - 1 or _PLAIN_TERMS.fullmatch(joined + "\n") is None:
        return False
    if len(joined) * 4 > TERM_BYTES_MAX and any(len(text.encode(errors="replace")) > TERM_BYTES_MAX for text in texts):
        return False
    return joined.isascii() or _SURROGATE.search(joined) is None


def _refusal(text: str) -> str:
    try:
        canonical = parse_term(text)
    except DataRefused as error:
        return f"{error.reason}; {_REMEDY}"
    return "" if canonical == text else f"not canonical: {_excerpt(text)}; write {_excerpt(canonical)}"


def check_all(texts: Iterable[str]) -> None:
    """Check that texts are canonical terms (:func:`refusals`).

    Raises DataRefused for the first that is not, with the text, the reason and the remedy.
    """
    for _, reason in refusals(texts):
        raise DataRefused(reason)


def kind(canonical: str) -> Kind:
    """Return the kind of a canonical term; skolem IRIs are blank nodes."""
    if canonical.startswith('"'):
        return Kind.LITERAL
    if canonical.startswith(_TRIPLE):
        return Kind.TRIPLE
    return Kind.BLANK if canonical.startswith(_SKOLEM) else Kind.IRI


def is_skolem(canonical: str) -> bool:
    """Tell whether a canonical term stands for a blank node."""
    return canonical.startswith(_SKOLEM)


def is_triple(canonical: str) -> bool:
    """Tell whether a canonical term is a triple term."""
    return canonical.startswith(_TRIPLE)


def is_object_only(canonical: str) -> bool:
    """Tell whether a canonical term, a literal or a triple term, can be neither subject nor predicate."""
    return canonical[:1] == '"' or canonical.startswith(_TRIPLE)


def triple_term(s: str, p: str, o: str) -> str:
    """Return the triple term of canonical terms.  Raises DataRefused for terms that make no triple, and for depth."""
    if is_object_only(s) or kind(p) is not Kind.IRI:
        raise DataRefused(f"a triple term has an IRI or a blank node, an IRI and a term: {_excerpt(f'{s} {p}')}")
    depth, inner = 1, o
    while is_triple(inner):
        depth, inner = depth + 1, triple_parts(inner)[2]
    if depth > TRIPLE_TERM_DEPTH_MAX:
        raise DataRefused(f"triple terms nest deeper than {TRIPLE_TERM_DEPTH_MAX}")
    return _bounded(f"<<( {s} {p} {o} )>>")


def triple_parts(canonical: str) -> tuple[str, str, str]:
    """Return subject, predicate and object of a triple term."""
    s, p, o = canonical[len(_TRIPLE) : -4].split(" ", 2)
    return s, p, o


def renamed(text: str, name: Callable[[str], str]) -> str:
    """Return a term with all IRIs and blank nodes in it passed through a function, but not its predicates."""
    if text.startswith('"'):
        return text
    if not text.startswith(_TRIPLE):
        return name(text)
    s, p, o = triple_parts(text)
    return f"<<( {name(s)} {p} {renamed(o, name)} )>>"


def literal_parts(canonical: str) -> tuple[str, str | None, str | None]:
    """Return lexical form, datatype IRI (None: plain) and language tag (None: none) of a literal.

    A base direction is part of the tag: ``ar--rtl``.
    """
    end = canonical.rindex('"')
    lexical_form = _unescape(canonical[1:end])
    suffix = canonical[end + 1 :]
    if suffix.startswith("^^<"):
        return lexical_form, suffix[3:-1], None
    return lexical_form, None, suffix[1:] or None


def lexical(canonical: str) -> str:
    """Return a literal's lexical form, an IRI without its brackets, or a triple term as it is."""
    if canonical.startswith('"'):
        return _unescape(canonical[1 : canonical.rindex('"')])
    return canonical if canonical.startswith(_TRIPLE) else canonical[1:-1]


def language(canonical: str) -> str | None:
    """Return the language tag of a literal, without a base direction, or None."""
    tag = literal_parts(canonical)[2] if canonical.startswith('"') else None
    return None if tag is None else tag.partition(DIRECTION)[0]


def to_json(canonical: str) -> dict[str, Any]:
    """Return a term as in SPARQL 1.2 Query Results JSON; skolem IRIs become blank nodes."""
    if not canonical.startswith('"'):
        if canonical.startswith(_SKOLEM):
            return {"type": "bnode", "value": blank_label(canonical)}
        if canonical.startswith(_TRIPLE):
            parts = zip(_PARTS, map(to_json, triple_parts(canonical)), strict=True)
            return {"type": "triple", "value": dict(parts)}
        return {"type": "uri", "value": canonical[1:-1]}
    lexical_form, datatype, tag = literal_parts(canonical)
    term = {"type": "literal", "value": lexical_form}
    if tag is not None:
        term["xml:lang"], separator, direction = tag.partition(DIRECTION)
        if separator:
            term["its:dir"] = direction
    elif datatype is not None:
        term["datatype"] = datatype
    return term


def to_pyoxigraph(canonical: str) -> PyoxigraphTerm:
    """Return a canonical term as a term of pyoxigraph; a skolem IRI stays an IRI."""
    if canonical.startswith(_TRIPLE):
        s, p, o = triple_parts(canonical)
        return ox.Triple(ox.NamedNode(s[1:-1]), ox.NamedNode(p[1:-1]), to_pyoxigraph(o))
    if not canonical.startswith('"'):
        return ox.NamedNode(canonical[1:-1])
    lexical_form, datatype, tag = literal_parts(canonical)
    if tag is not None:
        tag, _, direction = tag.partition(DIRECTION)
        return ox.Literal(lexical_form, language=tag, direction=_DIRECTIONS.get(direction))
    return ox.Literal(lexical_form) if datatype is None else ox.Literal(lexical_form, datatype=ox.NamedNode(datatype))


def from_json(term: Mapping[str, Any]) -> str:
    """Return the canonical string of a term of SPARQL 1.2 Query Results JSON.

    A blank node of our own results maps to the same node (:func:`unlabelled`); one of another store maps to a node
    that no publication has.
    """
    value = term.get("value")
    if term.get("type") == "triple" and isinstance(value, dict) and set(value) == set(_PARTS):
        return _triple_from_json(value)
    if not isinstance(value, str):
        raise DataRefused(f"a JSON term needs a string `value`: {_excerpt(repr(term))}")
    match term.get("type"):
        case "uri":
            return iri(value)
        case "bnode":
            return unlabelled(value) or iri(BNODE_PREFIX + quote(value, safe=""))
        case "literal" | "typed-literal":
            tag, direction = term.get("xml:lang"), term.get("its:dir")
            return literal(value, term.get("datatype"), tag if direction is None else f"{tag}{DIRECTION}{direction}")
        case other:
            raise DataRefused(f"a JSON term of unknown type {other!r}")


def _triple_from_json(value: Mapping[str, Any]) -> str:
    inner: Any = value
    for _ in range(TRIPLE_TERM_DEPTH_MAX):
        inner = inner["object"].get("value") if isinstance(inner["object"], dict) else None
        if not (isinstance(inner, dict) and "object" in inner):
            if not all(isinstance(part, dict) for part in value.values()):
                raise DataRefused("the parts of a triple term in JSON are terms")
            s, p, o = (from_json(value[part]) for part in _PARTS)
            return triple_term(s, p, o)
    raise DataRefused(f"triple terms nest deeper than {TRIPLE_TERM_DEPTH_MAX}")


def skolem(publication_id: str, label: str) -> str:
    """Return the IRI that stands for blank node ``label`` of a publication (usually a file).

    ``publication_id``: 1 to 64 of ``A-Z a-z 0-9 . _ -``.  Raises DataRefused for a label that is too long.
    """
    if _PLAIN_LABEL.fullmatch(label) is None:
        # Labels can contain characters that IRIs cannot; "%" does not occur in labels, so the result is unambiguous.
        label = _NOT_PLAIN.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), label)
    return _bounded(f"{skolem_prefix(publication_id)}{label}>")


def skolem_prefix(publication_id: str) -> str:
    """Return the common prefix of a publication's skolem IRIs.

    Raises DataRefused for an invalid identifier.
    """
    if _PUBLICATION.fullmatch(publication_id) is None:
        reason = f"not a publication identifier (1 to 64 of A-Za-z0-9._-): {_excerpt(publication_id)}"
        raise DataRefused(reason)
    return f"{_SKOLEM}{publication_id}:"


def blank_label(canonical: str) -> str:
    """Return the label of the blank node that a skolem IRI stands for, without ``_:``.

    All writers use this label, so the same node is recognisable in different results.  The label is valid in Turtle,
    N-Triples and all formats of results.
    """
    name = canonical[len(_SKOLEM) : -1]
    return _NO_LETTER.sub(lambda found: "".join(f"_{byte:02X}" for byte in found[0].encode()), name) or "_"


def unlabelled(label: str) -> str | None:
    """Return the skolem IRI of a label made by :func:`blank_label`, or None for any other label."""
    try:
        name = _SPELLED_OUT.sub(lambda found: bytes.fromhex(found[0].replace("_", "")).decode(), label)
    except UnicodeDecodeError:
        return None
    if ":" not in name:  # the publication precedes a colon
        return None
    try:
        canonical = iri(BNODE_PREFIX + name)
    except DataRefused:
        return None
    return canonical if blank_label(canonical) == label else None


def spelled(canonical: str) -> str:
    """Return a canonical term as in results: unchanged, but a blank node as ``_:`` and its label."""
    if canonical.startswith(_TRIPLE):
        return renamed(canonical, spelled)
    return "_:" + blank_label(canonical) if canonical.startswith(_SKOLEM) else canonical


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_unescape_one, text)


def _unescape_one(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _CONTROL.get(match[3], match[3])


def _bounded(canonical: str) -> str:
    size = len(canonical)
    if size * 4 > TERM_BYTES_MAX and (size > TERM_BYTES_MAX or len(canonical.encode()) > TERM_BYTES_MAX):
        raise DataRefused(f"a term exceeds {TERM_BYTES_MAX} bytes: {_excerpt(canonical)}")
    return canonical


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
