"""The syntax of XPath's regular expressions, as a tree.

It is that of XML Schema with anchors, reluctant quantifiers and groups (XPath 3.1, 5.6.1).  Python's syntax differs
in its escapes, in ``$`` (which also matches before a final newline), in class subtraction, and in many constructs
that XPath lacks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from p2prdf.rdf.moments import ExpressionError

__all__ = ["Anchor", "Chars", "Concat", "Either", "Group", "Item", "Node", "Repeat", "parse_regex"]

NESTING_MAX: Final = 32
REPEAT_MAX: Final = 1000

Item = tuple[int, int] | str
"""Part of a character class: a range of code points, or an escape such as ``d`` or ``p:Lu``."""


@dataclass(frozen=True, slots=True)
class Chars:
    """A set of characters: the items, or their complement if ``negated``, except those of ``minus``."""

    items: tuple[Item, ...]
    negated: bool = False
    minus: Chars | None = None


@dataclass(frozen=True, slots=True)
class Anchor:
    """``^`` (``end`` false) or ``$``."""

    end: bool


@dataclass(frozen=True, slots=True)
class Concat:
    """A sequence of parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """A choice between parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part repeated ``low`` to ``high`` times (None: unbounded)."""

    part: Node
    low: int
    high: int | None
    greedy: bool


@dataclass(frozen=True, slots=True)
class Group:
    """A part in parentheses."""

    part: Node
    captured: bool


Node = Chars | Anchor | Concat | Either | Repeat | Group


# --- parsing -------------------------------------------------------------------------------------

def parse_regex(pattern: str, *, dot_all: bool, extended: bool) -> tuple[Node, int]:
    """Return the tree of a pattern (flags ``s`` and ``x`` given) and the number of its groups.

    Raises ExpressionError for a malformed or unsupported pattern.
    """
    parser = _Parser(_without_space(pattern) if extended else pattern, dot_all=dot_all)
    return parser.parse(), parser.groups


_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}
_QUANTIFIER: Final = re.compile(r"\?|\*|\+|\{([0-9]{1,4})(?:(,)([0-9]{1,4})?)?\}")
_CATEGORY: Final = re.compile(r"\{([LMNPZSC][a-z]?)\}")


class _Parser:
    def __init__(self, pattern: str, *, dot_all: bool):
        self._text = pattern
        self._at = 0
        self._dot = Chars((), negated=True) if dot_all else Chars(((10, 10), (13, 13)), negated=True)
        self.groups = 0
        """Number of capturing groups so far."""

    def parse(self) -> Node:
        node = self._either(0)
        if self._at < len(self._text):
            raise ExpressionError(f"unbalanced {self._text[self._at]!r} in a regular expression")
        return node

    def _peek(self, offset: int = 0) -> str:
        at = self._at + offset
        return self._text[at] if at < len(self._text) else ""

    def _take(self) -> str:
        found = self._peek()
        if not found:
            raise ExpressionError("a regular expression ends too early")
        self._at += 1
        return found

    def _either(self, depth: int) -> Node:
        if depth > NESTING_MAX:
            raise ExpressionError(f"a regular expression nests deeper than {NESTING_MAX}")
        branches = [self._branch(depth)]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._branch(depth))
        return branches[0] if len(branches) == 1 else Either(tuple(branches))

    def _branch(self, depth: int) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._quantified(self._atom(depth)))
        return parts[0] if len(parts) == 1 else Concat(tuple(parts))

    def _quantified(self, atom: Node) -> Node:
        match = _QUANTIFIER.match(self._text, self._at)
        if match is None:
            return atom
        self._at = match.end()
        low, high = {"?": (0, 1), "*": (0, None), "+": (1, None)}.get(match[0], (int(match[1] or 0), None))
        if match[1] is not None:
            high = low if match[2] is None else int(match[3]) if match[3] else None
        if (high is not None and high < low) or max(low, high or 0) > REPEAT_MAX:
            raise ExpressionError(f"the quantifier {match[0]!r} is not between 0 and {REPEAT_MAX}")
        greedy = self._peek() != "?"
        self._at += not greedy
        return Repeat(atom, low, high, greedy)

    def _atom(self, depth: int) -> Node:
        found = self._take()
        match found:
            case "(":
                return self._group(depth)
            case "[":
                return self._char_class(depth)
            case ".":
                return self._dot
            case "^" | "$":
                return Anchor(end=found == "$")
            case "\\":
                return Chars((self._escape(),))
            case "?" | "*" | "+" | "{" | "}" | "]":
                raise ExpressionError(f"{found!r} is out of place in a regular expression")
        return Chars(((ord(found), ord(found)),))

    def _group(self, depth: int) -> Node:
        captured = True
        if self._peek() == "?":
            if self._peek(1) != ":":
                raise ExpressionError("'(?' is not part of XPath's regular expressions")
            self._at += 2
            captured = False
        self.groups += captured
        part = self._either(depth + 1)
        if self._take() != ")":
            raise ExpressionError("a group is never closed")
        return Group(part, captured)

    def _escape(self) -> Item:
        found = self._take()
        if found in _ESCAPES:
            return ord(_ESCAPES[found]), ord(_ESCAPES[found])
        if found in "sSdDwWiIcC":
            return found
        if found in "pP":
            match = _CATEGORY.match(self._text, self._at)
            if match is None:
                raise ExpressionError(f"'\\{found}' takes a Unicode category here, such as {{Lu}}")
            self._at = match.end()
            return f"{found}:{match[1]}"
        if found in "\\|.-^?*+{}()[]$":
            return ord(found), ord(found)
        if found in "123456789":
            reason = "a back-reference, which can make matching take exponential time; compare the parts by REPLACE"
            raise ExpressionError(f"'\\{found}' is {reason}")
        raise ExpressionError(f"'\\{found}' is not supported in a regular expression")

    def _char_class(self, depth: int) -> Chars:
        if depth > NESTING_MAX:
            raise ExpressionError(f"a regular expression nests deeper than {NESTING_MAX}")
        negated = self._peek() == "^"
        self._at += negated
        items: list[Item] = []
        while True:
            if self._peek() == "-" and self._peek(1) == "[" and items:
                self._at += 2
                minus = self._char_class(depth + 1)
                if self._take() != "]":
                    raise ExpressionError("a subtraction must be the last part of its character class")
                return Chars(tuple(items), negated, minus)
            if self._peek() == "]" and items:
                self._at += 1
                return Chars(tuple(items), negated)
            items.append(self._range())

    def _range(self) -> Item:
        low = self._class_char()
        if isinstance(low, str) or self._peek() != "-" or self._peek(1) in ("]", "["):
            return low
        self._at += 1
        high = self._class_char()
        if isinstance(high, str) or high[0] < low[0]:
            raise ExpressionError("a range of characters runs backwards")
        return low[0], high[0]

    def _class_char(self) -> Item:
        found = self._take()
        if found == "\\":
            return self._escape()
        if found in "[]":
            raise ExpressionError(f"{found!r} must be escaped in a character class")
        return ord(found), ord(found)


def _without_space(pattern: str) -> str:
    """Remove white space outside character classes (flag ``x``)."""
    kept, depth, escaped = [], 0, False
    for c in pattern:
        if depth == 0 and not escaped and c in " \t\n\r":
            continue
        kept.append(c)
        if not escaped:
            depth += (c == "[") - (c == "]")
        escaped = c == "\\" and not escaped
    return "".join(kept)
