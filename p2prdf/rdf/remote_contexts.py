"""Contexts of JSON-LD at other addresses, written into the document that names them.

The parser fetches nothing.  So each context of a document that names other ones by their addresses is replaced by one
that contains them, before the bounds of :mod:`p2prdf.rdf.json_ld` are checked.  The caller decides which addresses
are permitted, and fetches (:class:`Contexts`).  A context at another address may itself name further ones, also those
that name it.

The text has bounds before and after the replacement.  So have the contexts of one document: their number, how often
one leads to the next, and the bytes that take the place of one.

JSON-LD 1.1 (API, 4.1) treats a context differently at another address in one respect: its ``@base`` has no effect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import IO, Final, NamedTuple, Protocol, cast
from urllib.parse import urljoin

from p2prdf.errors import DataRefused, TargetRefused, Unavailable
from p2prdf.rdf.json_ld import FETCHED_CONTEXT_BYTES_MAX, JSON_LD_BYTES_MAX, JSON_LD_DEPTH_MAX, is_context

__all__ = ["CONTEXTS_MAX", "NESTED_MAX", "Contexts", "Fetched", "with_contexts"]

CONTEXTS_MAX: Final = 16
"""Most addresses of contexts in one document, those in fetched contexts included."""
NESTED_MAX: Final = 8
"""Longest chain of contexts that name each other."""

_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""A string; one without an end extends to the end of the text, so that no part of it is searched again."""
_COLON: Final = re.compile(rb"\s*:\s*")
_STRUCTURE: Final = re.compile(_STRING.pattern + rb"|[\[\]{}]", re.DOTALL)
_REMEDY: Final = "write the context itself into the document"

_Refuse = Callable[[str, int | None], DataRefused]
_Object = dict[str, object]


class Fetched(NamedTuple):
    """A parsed JSON document, and its length in bytes."""

    document: object
    size: int


class Contexts(Protocol):
    """Fetches contexts, as :class:`p2prdf.replica.contexts.WebContexts` does."""

    def fetch(self, url: str) -> Fetched:
        """Return the document at an address; called in a thread.

        Raises TargetRefused for an address that is not permitted, DataRefused and Unavailable.
        """
        ...


def with_contexts(data: IO[bytes], refuse: _Refuse, base: str, contexts: Contexts) -> bytes:
    """Return a document of JSON-LD with the contexts that it names.

    ``base``: the base of relative addresses.  Raises the error that ``refuse`` makes, and Unavailable.  Other text than
    JSON is left as it is, except a context without an end.
    """
    text = bytearray()
    while chunk := data.read(1 << 16):
        text += chunk
        if len(text) > JSON_LD_BYTES_MAX:
            raise refuse(f"more than {JSON_LD_BYTES_MAX:,} bytes of JSON-LD: send N-Quads", None)
    return _Document(bytes(text), refuse, base, contexts).replaced()


class _Document:
    def __init__(self, text: bytes, refuse: _Refuse, base: str, contexts: Contexts):
        self._text = text
        self._refuse = refuse
        self._base = base
        self._contexts = contexts
        self._fetched: dict[str, Fetched] = {}
        self._known: dict[bytes, bytes | None] = {}
        """The replacement of each context by its text; None: it stays as it is."""
        self._line = 1
        self._counted = 0
        """The place up to which the lines are counted."""
        self._size = 0
        """Bytes of fetched documents in the context that is being replaced; 0 if its replacement was known."""

    def replaced(self) -> bytes:
        """Return the text with all contexts."""
        text, at, copied, size = self._text, 0, 0, 0
        parts: list[bytes] = []
        while (found := _STRING.search(text, at)) is not None:
            at = found.end()
            if not is_context(found[0][1:-1]) or (colon := _COLON.match(text, at)) is None:
                continue
            start, end = colon.end(), _end_of_value(text, colon.end())
            self._line += text.count(b"\n", self._counted, start)
            self._counted = start
            if end is None:
                reason = f"{FETCHED_CONTEXT_BYTES_MAX:,} bytes or {JSON_LD_DEPTH_MAX} levels"
                raise self._refuse(f"a context without an end, or of more than {reason}", self._line)
            at = end
            replacement = self._replacement(text[start:end])
            if replacement is not None:
                parts += [text[copied:start], replacement]
                size += start - copied + max(len(replacement), self._size)  # what was read may have no effect
                copied = end
                if size > JSON_LD_BYTES_MAX:
                    reason = f"more than {JSON_LD_BYTES_MAX:,} bytes with the contexts at other addresses"
                    raise self._refuse(f"{reason}: name one context for a @graph with all nodes", None)
        whole = b"".join([*parts, text[copied:]])
        if parts and b'"@json"' in whole:
            reason = "a context at another address beside JSON literals (@json), which may contain @context"
            raise self._refuse(f"{reason}: {_REMEDY}", None)
        return whole

    def _replacement(self, written: bytes) -> bytes | None:
        """Return the text that replaces a context, None if there is nothing to replace."""
        self._size = 0
        if written not in self._known:
            self._known[written] = None
            try:
                local = json.loads(written)
            except (ValueError, RecursionError):
                return None  # the parser refuses it
            if _names_another(local):
                try:
                    found = json.dumps(self._resolved(local, self._base, 0), separators=(",", ":")).encode()
                except RecursionError:
                    raise self._refuse(f"a context that it names nests too deeply; {_REMEDY}", self._line) from None
                self._known[written] = found + b"\n" * written.count(b"\n")
        return self._known[written]

    def _resolved(self, local: object, base: str, nested: int) -> object:
        """Return a context with all that it names; ``nested``: how many contexts lead to it."""
        if isinstance(local, str):
            url, fetched = self._fetch(local, base, nested)
            return self._resolved(fetched, url, nested + 1)
        if isinstance(local, list):
            found: list[object] = []
            for each in cast("list[object]", local):
                one = self._resolved(each, base, nested)
                found += cast("list[object]", one) if isinstance(one, list) else [one]
                if isinstance(each, str) and isinstance(one, dict) and "@propagate" in one:
                    raise self._refuse(f"the context {each}: @propagate in a list of contexts; {_REMEDY}", self._line)
            return found
        if not isinstance(local, dict):
            return local
        own = dict(cast("_Object", local))
        if nested:
            own.pop("@base", None)
        if isinstance(imported := own.pop("@import", None), str):
            url, fetched = self._fetch(imported, base, nested)
            if not isinstance(fetched, dict) or "@import" in fetched:
                raise self._refuse(f"the context {url}: one that is imported is an object without @import", self._line)
            return {**cast("_Object", self._resolved(fetched, url, nested + 1)), **self._scoped(own, base, nested)}
        return self._scoped(own, base, nested)

    def _scoped(self, context: _Object, base: str, nested: int) -> _Object:
        """Return a context with those that its terms name."""
        found: _Object = {}
        for term, value in context.items():
            if isinstance(value, dict) and "@context" in value:
                definition = cast("_Object", value)
                found[term] = {**definition, "@context": self._resolved(definition["@context"], base, nested)}
            else:
                found[term] = value
        return found

    def _fetch(self, address: str, base: str, nested: int) -> tuple[str, object]:
        """Return the address of a context and its value."""
        try:
            url = urljoin(base, address).partition("#")[0]
        except ValueError as error:
            raise self._refuse(f"the context {address}: {error}", self._line) from None
        if nested >= NESTED_MAX:
            raise self._refuse(f"the context {url}: more than {NESTED_MAX} contexts name each other", self._line)
        if url not in self._fetched:
            if len(self._fetched) == CONTEXTS_MAX:
                reason = f"more than {CONTEXTS_MAX} contexts at other addresses: {_REMEDY}"
                raise self._refuse(reason, self._line)
            try:
                self._fetched[url] = self._contexts.fetch(url)
            except TargetRefused as error:
                reason = f"the context {url}: {error}; permit its host (--context-from), or {_REMEDY}"
                raise self._refuse(reason, self._line) from None
            except DataRefused as error:
                raise self._refuse(f"the context {url}: {error.reason}; {_REMEDY}", self._line) from None
            except Unavailable as error:
                raise Unavailable(f"the context {error}") from None
        document, size = self._fetched[url]
        self._size += size
        if self._size > FETCHED_CONTEXT_BYTES_MAX:
            most = f"{FETCHED_CONTEXT_BYTES_MAX:,} bytes of contexts that name each other"
            raise self._refuse(f"the context {url}: more than {most}; {_REMEDY}", self._line)
        if not isinstance(document, dict) or "@context" not in document:
            raise self._refuse(f"the context {url}: the document has no @context", self._line)
        return url, cast("_Object", document)["@context"]


def _end_of_value(text: bytes, start: int) -> int | None:
    """Return the end of a string, an array or an object, and the start of another value.

    None: an array or object without an end within the bounds of the parser.  To search on within it would read the same
    text again for each context there.
    """
    if text[start : start + 1] not in (b'"', b"{", b"["):
        return start
    depth = 0
    for found in _STRUCTURE.finditer(text, start):
        depth += (found[0] in b"[{") - (found[0] in b"]}")
        if depth == 0:
            return found.end()
        if depth > JSON_LD_DEPTH_MAX or found.end() - start > FETCHED_CONTEXT_BYTES_MAX:
            return None
    return None


def _names_another(context: object) -> bool:
    """Tell whether a context names one at another address."""
    waiting = [context]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            return True
        if isinstance(part, list):
            waiting += cast("list[object]", part)
        elif isinstance(part, dict):
            own = cast("_Object", part)
            if "@import" in own:
                return True
            waiting += [cast("_Object", each)["@context"] for each in own.values() if _has_context(each)]
    return False


def _has_context(definition: object) -> bool:
    return isinstance(definition, dict) and "@context" in definition
