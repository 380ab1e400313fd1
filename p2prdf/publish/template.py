r"""Templates of IRIs, as in R2RML: ``http://example.org/sensor/{id}``.

A column's name in braces stands for its value. All characters except letters, digits and ``-._~`` are
percent-encoded, so a value stays within its place. A backslash makes a brace or a backslash an ordinary
character: ``\{``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from p2prdf.errors import DataRefused
from p2prdf.rdf import terms

__all__ = ["SAFE", "Template", "encoded"]

SAFE: Final = r"^[A-Za-z0-9._~-]*$"
"""Values that are their own encoding, as a regular expression; characters beyond ASCII may be, too."""

_PART: Final = re.compile(r"\\([{}\\])|\{([^{}\\]+)\}|([^{}\\]+)")
_SAFE_CHARACTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_UCSCHAR: Final = (
    (0xA0, 0xD7FF), (0xF900, 0xFDCF), (0xFDF0, 0xFFEF),
    *((plane << 16, plane << 16 | 0xFFFD) for plane in range(1, 14)), (0xE1000, 0xEFFFD),
)  # fmt: skip
"""Characters beyond ASCII that RFC 3987 permits in an IRI."""


@dataclass(frozen=True, slots=True)
class Template:
    """Texts and the names of columns between them: ``texts`` has one more."""

    texts: tuple[str, ...]
    columns: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Parse a template.  Raises ValueError if it is malformed, has no column, or can never give an IRI."""
        texts, columns, at = [""], list[str](), 0
        while at < len(text):
            match = _PART.match(text, at)
            if match is None:
                raise ValueError(f"{text!r} has an unmatched brace or backslash at character {at + 1}")
            at = match.end()
            if match[2] is not None:
                columns.append(match[2])
                texts.append("")
            else:
                texts[-1] += match[1] or match[3]
        if not columns:
            raise ValueError(f"{text!r} names no column, so all its IRIs would be equal")
        try:
            terms.iri("x".join(texts))
        except DataRefused as error:
            raise ValueError(f"{text!r} does not give an IRI: {error}") from None
        return cls(tuple(texts), tuple(columns))


def encoded(value: str) -> str:
    """Percent-encode a value for a template."""
    return "".join(c if c in _SAFE_CHARACTERS or _allowed(ord(c)) else _percent(c) for c in value)


def _allowed(code: int) -> bool:
    return code >= 0xA0 and any(first <= code <= last for first, last in _UCSCHAR)


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogateescape"))
