r"""Codepoint escapes anywhere in a query (SPARQL 1.1, 19.2), and a byte order mark before it.

``\u00e9`` and ``\U000000e9`` stand for a character in names, variables, keywords and punctuation as well as in IRIs
and strings.  Escapes in IRIs and strings are left in place: the tokenizer reads them together with the other escapes
of a string.  All others are replaced before parsing.  Errors name the line and the column in the original text.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec, TypeVar

from p2prdf.errors import QueryRefused

__all__ = ["BYTE_ORDER_MARK", "as_written", "without_mark"]

BYTE_ORDER_MARK: Final = "\ufeff"

_CODE: Final = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"
_PIECE: Final = re.compile(
    rf'<(?:[^<>"{{}}|^`\\\x00-\x20]|{_CODE})*+>'
    r"|'''(?:'{0,2}+(?:[^'\\]|\\.))*+'''|\"\"\"(?:\"{0,2}+(?:[^\"\\]|\\.))*+\"\"\""
    r"|'(?:[^'\\\n\r]|\\.)*+'|\"(?:[^\"\\\n\r]|\\.)*+\"|\#[^\n\r]*+"
    rf"|(?P<code>{_CODE})|\\.|[^<'\"\#\\]++|.",
    re.DOTALL,
)

_P = ParamSpec("_P")
_T = TypeVar("_T")


def without_mark(text: str) -> str:
    """Return a text without the byte order mark that some editors put at its beginning."""
    return text.removeprefix(BYTE_ORDER_MARK)


def as_written(parse: Callable[Concatenate[str, _P], _T]) -> Callable[Concatenate[str, _P], _T]:
    """Let a parser read texts with a byte order mark and with codepoint escapes anywhere.

    The parser gets the text without them; positions in its refusals are mapped back to the original text.
    """

    @functools.wraps(parse)
    def parsed(text: str, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        written = without_mark(text)
        if "\\u" not in written and "\\U" not in written:
            return parse(written, *args, **kwargs)
        plain = _Plain(written)
        try:
            return parse(plain.text, *args, **kwargs)
        except QueryRefused as error:
            if error.line is None or error.column is None or plain.text == written:
                raise
            line, column = plain.place(error.line, error.column)
            raise QueryRefused(error.reason, construct=error.construct, line=line, column=column) from None

    return parsed


class _Plain:
    """A text without escapes outside of IRIs and strings, and the original positions of its pieces."""

    def __init__(self, written: str):
        self._written = written
        self._starts = [0]
        self._stood_at = [0]
        pieces = []
        size = 0
        for match in _PIECE.finditer(written):
            code = match["code"]
            piece = match[0] if code is None else _character(code, written[match.end() : match.end() + 1])
            pieces.append(piece)
            size += len(piece)
            if len(piece) != len(match[0]):
                self._starts.append(size)
                self._stood_at.append(match.end())
        self.text = "".join(pieces)

    def place(self, line: int, column: int) -> tuple[int, int]:
        """Return the line and column in the original text for a line and a column in this text."""
        at = column - 1
        for each in self.text.split("\n")[: line - 1]:
            at += len(each) + 1
        number = bisect.bisect_right(self._starts, at) - 1
        stood = self._stood_at[number] + at - self._starts[number]
        return self._written.count("\n", 0, stood) + 1, stood - self._written.rfind("\n", 0, stood)


def _character(code: str, following: str) -> str:
    """Return the character of an escape.

    Return the escape itself if it is no character or would begin another escape.
    """
    point = int(code[2:], 16)  # noqa: FURB166 - no prefix of Python's
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF or (point == 0x5C and following in ("u", "U")):
        return code
    return chr(point)
