"""Bound JSON-LD before the parser reads it.

pyoxigraph 0.5 processes nested objects by recursion: a document of 5,000 levels exhausts the stack and ends the
process.  Nested contexts take time with the third power of their depth.  So the text passes through a stream that
counts brackets outside of strings, and ends at the first one that nests too deeply.  The parser may keep the whole
document, so its length is bounded, too.

A term of a context may be defined by another term.  The parser follows such definitions by recursion, too (some 5,000
exhaust the stack), and writes each IRI out, so memory grows with the square of a context's length.  Contexts in force
are therefore bounded in their strings, of which a definition has two, and in their bytes.

The parser also keeps an object with all its IRIs written out, before there is a statement to count
(:mod:`p2prdf.rdf.expansion`).  Each string may become an IRI.  The number of strings times the length of the longest
IRI that a context defines is therefore bounded.

RDF has base directions of texts in a language only.  The parser drops the direction of another text without a word.
So the stream refuses an object with ``@direction`` and without ``@language``.  If a context has a direction, the stream
also refuses keywords that take the language from texts (:class:`_Directions`).
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Iterator
from typing import IO, Final, NamedTuple, cast

from p2prdf.errors import DataRefused
from p2prdf.rdf.expansion import EXPANSION_MAX

__all__ = [
    "CONTEXT_BYTES_MAX", "CONTEXT_STRINGS_MAX", "EXPANDED_BYTES_MAX", "FETCHED_CONTEXT_BYTES_MAX",
    "FETCHED_CONTEXT_STRINGS_MAX", "JSON_LD_BYTES_MAX", "JSON_LD_DEPTH_MAX", "is_context", "prepared", "reason_of",
]  # fmt: skip

JSON_LD_DEPTH_MAX: Final = 64
"""Deepest nesting of objects and arrays."""
JSON_LD_BYTES_MAX: Final = 64 << 20
"""Longest document."""
CONTEXT_BYTES_MAX: Final = 64 << 10
"""Most bytes of the contexts in force at one place."""
CONTEXT_STRINGS_MAX: Final = 3000
"""Most strings of the contexts in force at one place."""
FETCHED_CONTEXT_BYTES_MAX: Final = 1 << 20
"""Most bytes of the contexts in force, if some are from other addresses."""
FETCHED_CONTEXT_STRINGS_MAX: Final = 30_000
"""Most strings of the contexts in force, if some are from other addresses; few of their terms define each other."""
STRINGS_IN_FORCE_MAX: Final = 200_000_000
"""Most strings that all contexts of a document have in force, added up: the parser copies them for each context."""
EXPANDED_BYTES_MAX: Final = 512 << 20
"""Most bytes of the strings of a document, each as long as the longest IRI that a context defines."""

_EXPANDED_FREELY: Final = 32 << 20
_PASSES_MAX: Final = 8
"""Longest chain of definitions by other terms of which the length is computed."""
_Object = tuple[tuple[str, object], ...]
_CHUNK_BYTES: Final = 1 << 16
_OUTSIDE: Final = re.compile(rb'["\[\]{}]')
_INSIDE: Final = re.compile(rb'\\|"')
_CONTEXT: Final = "@context"
_KEYWORD_ESCAPED: Final = len(r"\u0000" * len("@direction"))
"""Longest spelling of a keyword."""
_WATCHED: Final = frozenset((b"@direction", b"@language", b"@none"))
"""Keywords that decide about base directions."""
_DIRECTED: Final = (
    '"@direction" for a text without a language: RDF has directions of texts in a language only; write "@language" '
    'into the same object, or leave "@direction" out'
)
_REMOTE: Final = "No LoadDocumentCallback"


def prepared(
    data: IO[bytes], refuse: Callable[[str, int | None], DataRefused], base: str = "", *, fetched: bool = False
) -> _Stream:
    """Return a stream of JSON-LD within the bounds; ``refuse`` makes the error for text beyond them.

    ``base``: the base of relative IRIs.  ``fetched``: the text contains contexts from other addresses, which may be
    longer.
    """
    return _Stream(data, refuse, len(base.encode()), fetched=fetched)


def reason_of(message: str) -> str:
    """Return the reason for the parser's message; contexts at other addresses are never fetched."""
    if _REMOTE in message:
        remedy = "write the context itself into the document, or permit its host (--context-from)"
        return f"a context at another address is not fetched: {remedy}"
    return message


class _Context(NamedTuple):
    """A context: the depth of its object, and the bytes and strings up to its end in the contexts in force."""

    depth: int
    size: int
    strings: int


class _Has(enum.IntFlag):
    """The keywords of an object."""

    NOTHING = 0
    DIRECTION = 1
    LANGUAGE = 2
    NO_DIRECTION = 4
    NO_LANGUAGE = 8


class _Directions:
    """Finds base directions of texts without a language, from the keywords of each object.

    A default or a term that has a direction must name the language beside it.  ``@language: null`` and ``@none`` take
    the language from other texts, so a document with such a default or term has neither.  An alias of ``@direction``
    counts as a direction without a language.
    """

    def __init__(self) -> None:
        self.keyword: object = None
        """The keyword that was just read."""
        self._gap = b""
        """The text after it."""
        self.objects: dict[int, _Has] = {}
        """By depth, the keywords of the open objects that have any."""
        self._inherited = self._without_language = self._lost = False

    def string(self, text: bytes) -> None:
        """Take a string that may be a keyword."""
        self.keyword, self._gap = _plain(text), b""
        if self.keyword == "@none":
            self._without_language = True

    def gap(self, text: bytes) -> None:
        """Take text between strings and brackets, after a keyword."""
        self._gap = (self._gap + b"".join(text.split()))[: len(b":null")]

    def mark(self, mark: bytes, depth: int) -> None:
        """Take the beginning of a string, or a bracket, after a keyword."""
        keyword, self.keyword = self.keyword, None
        if keyword not in ("@direction", "@language"):
            return
        found = _Has.NOTHING
        if self._gap[:1] != b":":
            self._lost |= keyword == "@direction"
        elif mark == b'"' and self._gap == b":":
            found = _Has.DIRECTION if keyword == "@direction" else _Has.LANGUAGE
        elif self._gap == b":null":
            found = _Has.NO_DIRECTION if keyword == "@direction" else _Has.NO_LANGUAGE
        self.objects[depth] = self.objects.get(depth, _Has.NOTHING) | found

    @property
    def reason(self) -> str:
        """The reason to refuse a direction, empty if there is none."""
        return _DIRECTED if self._lost or (self._inherited and self._without_language) else ""

    def close(self, depth: int, *, within_context: bool) -> None:
        """End the object at a depth, which has keywords."""
        found = self.objects.pop(depth)
        self._lost |= bool(found & _Has.DIRECTION and not found & _Has.LANGUAGE)
        self._inherited |= bool(found & _Has.DIRECTION and within_context)
        self._without_language |= bool(found & _Has.NO_LANGUAGE and not found & _Has.NO_DIRECTION)


class _Stream:
    """A readable stream of the text."""

    def __init__(
        self, data: IO[bytes], refuse: Callable[[str, int | None], DataRefused], base_length: int, *, fetched: bool
    ):
        self._data = data
        self._refuse = refuse
        self._context_bytes_max = FETCHED_CONTEXT_BYTES_MAX if fetched else CONTEXT_BYTES_MAX
        self._context_strings_max = FETCHED_CONTEXT_STRINGS_MAX if fetched else CONTEXT_STRINGS_MAX
        self._in_force = 0
        """Strings in force at each context so far, added up."""
        self._lengths = {"@base": base_length}
        """By term, the length of its longest IRI."""
        self._longest = base_length
        self._text = bytearray()
        """The text so far of the context that is being read."""
        self._copied: int | None = None
        """The place in the chunk up to which that context was copied; None outside of contexts."""
        self._context_strings = 0
        """Strings in the contexts read so far."""
        self._depth = self._size = self._strings = 0
        self._line = 1
        self._within = False
        """Whether the text read so far ends within a string."""
        self._escaped = False
        """Whether it ends with the backslash of an escape."""
        self._string = b""
        """The beginning of the last string, long enough to recognise the keyword."""
        self._begun: _Context | None = None
        """The context that is being read, with the bytes and strings of the document before it."""
        self._contexts: list[_Context] = []
        """The contexts in force, of objects that are still open, the innermost last."""
        self._directions = _Directions()
        self.error: DataRefused | None = None
        """The error that ended the text; the parser sees an early end of its input."""

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes, none at the end."""
        if self.error is not None:
            return b""
        chunk = self._data.read(min(size, _CHUNK_BYTES) if size >= 0 else _CHUNK_BYTES)
        if self._size + len(chunk) > JSON_LD_BYTES_MAX:
            self.error = self._refuse(f"more than {JSON_LD_BYTES_MAX:,} bytes of JSON-LD: send N-Quads", None)
        else:
            self._count(chunk)
        self._size += len(chunk)
        self._line += chunk.count(b"\n")
        return b"" if self.error is not None else chunk

    def _count(self, chunk: bytes) -> None:
        """Count brackets outside of strings; set ``error`` at one that nests too deeply or ends too long a context."""
        at = begin = 0
        directions = self._directions
        self._copied = 0 if self._begun else None
        if self._escaped:
            at, self._escaped = 1, not chunk
        while (found := (_INSIDE if self._within else _OUTSIDE).search(chunk, at)) is not None:
            if directions.keyword is not None and not self._within:
                directions.gap(chunk[at : found.start()])
                directions.mark(found[0], self._depth)
            at, mark = found.end(), found[0]
            reason = ""
            if mark == b'"':
                if self._within:
                    self._end_string(chunk[begin : at - 1])
                else:
                    begin, self._string = at, b""
                self._within = not self._within
            elif mark == b"\\":
                self._escaped = at == len(chunk)
                at += 1
            elif mark in b"[{":
                reason = self._open(self._size + at)
                if self._begun and self._copied is None:
                    self._copied = at - 1
            else:
                self._copy(chunk, at)
                reason = self._close(self._size + at)
                self._copied = at if self._begun else None
            if reason:
                self.error = self._refuse(reason, self._line + chunk.count(b"\n", 0, at))
                return
        if self._within:
            self._note(chunk[begin:])
        elif directions.keyword is not None:
            directions.gap(chunk[at:])
        self._copy(chunk, len(chunk))
        if len(self._text) > self._context_bytes_max:
            self.error = self._refuse(self._too_long, self._line)
        elif reason := self._expands(self._size + len(chunk)) or directions.reason:
            self.error = self._refuse(reason, None)

    def _copy(self, chunk: bytes, end: int) -> None:
        """Copy the part of a context in a chunk up to some place."""
        if self._copied is not None:
            self._text += chunk[self._copied : end]

    def _note(self, text: bytes) -> None:
        """Add text to the last string."""
        room = _KEYWORD_ESCAPED + 1 - len(self._string)
        self._string += text[:room]

    def _end_string(self, text: bytes) -> None:
        """Add the last text of a string."""
        self._note(text)
        self._strings += 1
        if self._string in _WATCHED or b"\\" in self._string:
            self._directions.string(self._string)

    def _open(self, place: int) -> str:
        """Count an opening bracket, and return the reason to refuse it, if any."""
        if self._begun is None and is_context(self._string):
            self._begun = _Context(self._depth, place, self._strings)
        self._depth += 1
        return f"objects and arrays nest deeper than {JSON_LD_DEPTH_MAX}" if self._depth > JSON_LD_DEPTH_MAX else ""

    def _close(self, place: int) -> str:
        """Count a closing bracket, and return the reason to refuse the context that it ends, if any."""
        self._string = b""
        if self._depth in self._directions.objects:
            self._directions.close(self._depth, within_context=self._begun is not None)
        self._depth -= 1
        if self._begun is None:
            while self._contexts and self._contexts[-1].depth > self._depth:
                self._contexts.pop()
        elif self._begun.depth == self._depth:
            outer = self._contexts[-1] if self._contexts else _Context(0, 0, 0)
            size = outer.size + place - self._begun.size
            strings = outer.strings + self._strings - self._begun.strings
            self._context_strings += self._strings - self._begun.strings
            self._begun = None
            self._contexts.append(_Context(self._depth, size, strings))
            if size > self._context_bytes_max or strings > self._context_strings_max:
                return self._too_long
            self._in_force += strings
            if self._in_force > STRINGS_IN_FORCE_MAX:
                return "too many contexts beside contexts with many terms: write one context for the document"
            return self._define() or self._expands(place)
        return ""

    @property
    def _too_long(self) -> str:
        most = f"{self._context_bytes_max:,} bytes or {self._context_strings_max:,} strings"
        return f"contexts of more than {most}: leave terms out that the document does not use, or send N-Quads"

    def _expands(self, size: int) -> str:
        """Return the reason to refuse a document, of which so many bytes were read, if it expands too much."""
        allowed = min(EXPANDED_BYTES_MAX, max(_EXPANDED_FREELY, EXPANSION_MAX * size))
        strings = (self._begun.strings if self._begun else self._strings) - self._context_strings
        if strings * (self._longest + self._lengths.get("@vocab", 0)) <= allowed:
            return ""
        return f"{strings:,} strings beside a term or a base of {self._longest:,} bytes: write shorter ones"

    def _define(self) -> str:
        """Compute the lengths of the terms that a context defines; return the reason to refuse them, if any."""
        text = bytes(self._text)
        self._text.clear()
        try:
            context = json.loads(
                text, object_pairs_hook=tuple, parse_int=str, parse_float=str, parse_constant=str
            )
            found = [(term, iri.partition(":")[0], len(iri.encode())) for term, iri in _definitions(context)]
        except ValueError:  # the parser refuses it
            self._longest = max(self._longest, len(text))
            return ""
        if len(found) > CONTEXT_STRINGS_MAX and _is_chained(context):
            return f"a context of more than {CONTEXT_STRINGS_MAX:,} terms, more than {_PASSES_MAX} of them a chain"
        for _ in range(_PASSES_MAX):
            changed = False
            for term, prefix, length in found:
                length += self._lengths.get(prefix, 0) if prefix != term else 0
                if length > self._lengths.get(term, 0):
                    self._lengths[term], changed = length, True
                    self._longest = max(self._longest, length)
            if not changed:
                return ""
        self._longest = max(self._longest, self._context_bytes_max)
        return ""


def _definitions(context: object) -> Iterator[tuple[str, str]]:
    """Yield the terms and IRIs that a context and the contexts within it define."""
    waiting: list[object] = [context]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, tuple):
            for term, value in cast("_Object", part):
                inner = cast("_Object", value) if isinstance(value, tuple) else (("@id", value),)
                yield from ((term, iri) for _, iri in inner if isinstance(iri, str))
                if isinstance(value, tuple | list):
                    waiting.append(value)


def _is_chained(context: object) -> bool:
    """Tell whether terms of a context are defined by others over more than ``_PASSES_MAX`` steps."""
    behind: dict[str, set[str]] = {}
    for term, iri in _definitions(context):
        behind.setdefault(term, {term.partition(":")[0]}).update((iri, iri.partition(":")[0]))
    needed = {term: {each for each in some if each in behind and each != term} for term, some in behind.items()}
    for _ in range(_PASSES_MAX):
        known = {term for term, some in needed.items() if not some}
        needed = {term: some - known for term, some in needed.items() if some}
    return bool(needed)


def is_context(string: bytes) -> bool:
    """Tell whether the text of a string is the keyword, perhaps with escapes."""
    return _plain(string) == _CONTEXT


def _plain(string: bytes) -> object:
    """Return the text of a string, None if it is invalid or was cut."""
    try:
        return json.loads(b'"%b"' % string) if b"\\" in string else string.decode()
    except ValueError:
        return None
