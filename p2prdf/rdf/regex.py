"""XPath regular expressions (REGEX and REPLACE) in time bounded by the length of the text.

A pattern in a standing query runs at every peer that its filter reaches, on untrusted data.  Python's ``re``
backtracks: ``(a+)+b`` takes years on forty letters.  Patterns are therefore parsed here (XPath's syntax differs from
Python's anyway), and their *size* and *degree* are estimated: on a text of n characters, backtracking takes about
size times n to the power of degree steps.  Up to ``STEPS_MAX`` estimated steps, ``re`` does the work.  Beyond that,
an automaton follows all alternatives at once, one step per character (Thompson; sets of states are remembered, as in
a lazily built DFA), up to ``STEPS_MAX`` for characters times states.  Beyond that, and for a REPLACE that ``re``
could not do within the bound, the result is a SPARQL error, the same at every peer.

Supported: XML Schema's regular expressions with category escapes, class subtraction, anchors, reluctant quantifiers,
groups, and the flags ``s m i x q`` of XPath 3.1.  Refused: back-references and Unicode blocks.  ``\\w`` is letters,
digits and underscore, as in most engines.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from p2prdf.rdf.moments import ExpressionError
from p2prdf.rdf.regex_syntax import (
    Anchor,
    Chars,
    Concat,
    Either,
    Group,
    Item,
    Node,
    Repeat,
    parse_regex,
)

__all__ = ["PATTERN_MAX", "STATES_MAX", "STEPS_MAX", "Regex", "compile_regex"]

PATTERN_MAX: Final = 1024
"""Longest pattern in characters."""
STATES_MAX: Final = 2000
"""Most states of an automaton, with counted quantifiers unrolled."""
STEPS_MAX: Final = 5_000_000
"""Most steps of one evaluation: at worst a tenth of a second in ``re``, a second in the automaton."""
_MEMORY_MAX: Final = 20_000
"""Most states in the remembered transitions of one automaton; a full memory is cleared."""

# --- translation to Python's re, and its cost ----------------------------------------------------

_NAME_START: Final = (
    "A-Za-z_:\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NAME: Final = _NAME_START + "\\-.0-9\u00b7\u0300-\u036f\u203f-\u2040"
_IN_CLASS: Final = {"d": r"\d", "w": r"\w", "s": r" \t\n\r", "i": _NAME_START, "c": _NAME}
_TOO_MANY: Final = 99


def _class_source(chars: Chars) -> str | None:
    """Return a set of characters in the syntax of ``re``; None if ``re`` cannot express it."""
    inside = ""
    outside = []  # complements, which cannot stand inside brackets
    for item in chars.items:
        if not isinstance(item, str):
            inside += re.escape(chr(item[0])) + ("-" + re.escape(chr(item[1])) if item[1] > item[0] else "")
        elif item[0] in "pP":
            return None
        elif item in _IN_CLASS:
            inside += _IN_CLASS[item]
        else:
            outside.append(f"[^{_IN_CLASS[item.lower()]}]")
    options = ([f"[{inside}]"] if inside else []) + outside
    source = "|".join(options)
    if chars.negated:
        source = f"(?!{source})[\\s\\S]" if outside else f"[^{inside}]" if inside else r"[\s\S]"
    if chars.minus is not None:
        minus = _class_source(chars.minus)
        if minus is None:
            return None
        return f"(?:(?!{minus})(?:{source}))"
    return f"(?:{source})" if outside else source


def _source(node: Node, *, multiline: bool) -> str | None:
    """Return a pattern in the syntax of ``re``; None if ``re`` cannot express it."""
    match node:
        case Chars():
            return _class_source(node)
        case Anchor(end):
            return ("(?m:$)" if end else "(?m:^)") if multiline else (r"\Z" if end else r"\A")
        case Repeat(part, low, high, greedy):
            inner = _source(part, multiline=multiline)
            times = f"{{{low},{'' if high is None else high}}}"
            return None if inner is None else f"(?:{inner}){times}{'' if greedy else '?'}"
        case Group(part, captured):
            inner = _source(part, multiline=multiline)
            return None if inner is None else f"({'' if captured else '?:'}{inner})"
    sources = [_source(part, multiline=multiline) for part in node.parts]
    if None in sources:
        return None
    joined = ("|" if isinstance(node, Either) else "").join(s for s in sources if s is not None)
    return f"(?:{joined})" if isinstance(node, Either) else joined


def _degree(node: Node) -> int:
    """Return an upper estimate of the exponent of backtracking's cost."""
    match node:
        case Chars() | Anchor():
            return 0
        case Group(part):
            return _degree(part)
        case Either(parts):
            return 1 + sum(map(_degree, parts))
        case Concat(parts):
            return sum(map(_degree, parts))
        case Repeat(part, low, high):
            inner = _degree(part)
            if high == low and _least(part) > 0:
                return inner * low
            # Nested choices multiply the cost, and so does a repeated part that can match the empty text.
            return 1 if inner == 0 and _least(part) > 0 else _TOO_MANY


def _size(node: Node) -> int:
    """Return the number of single characters in a pattern, with counted repetitions unrolled."""
    match node:
        case Chars() | Anchor():
            return 1
        case Group(part):
            return _size(part)
        case Either(parts) | Concat(parts):
            return 1 + sum(map(_size, parts))
        case Repeat(part, low, high):
            return _size(part) * max(1, low, high or 1)


def _least(node: Node) -> int:
    """Return the length of the shortest match."""
    match node:
        case Chars():
            return 1
        case Anchor():
            return 0
        case Group(part):
            return _least(part)
        case Either(parts):
            return min(map(_least, parts))
        case Concat(parts):
            return sum(map(_least, parts))
        case Repeat(part, low):
            return low * _least(part)


# --- the automaton -------------------------------------------------------------------------------

def _contains(chars: Chars, c: str) -> bool:
    found = any(_in_item(item, c) for item in chars.items) != chars.negated
    return found and not (chars.minus is not None and _contains(chars.minus, c))


def _in_item(item: Item, c: str) -> bool:
    if not isinstance(item, str):
        return item[0] <= ord(c) <= item[1]
    if item[0] in "pP":
        return unicodedata.category(c).startswith(item[2:]) == (item[0] == "p")
    return (_SINGLE[item.lower()].fullmatch(c) is not None) == item.islower()


_SINGLE: Final = {name: re.compile(f"[{inside}]") for name, inside in _IN_CLASS.items()}


@dataclass(slots=True)
class _State:
    """A state of the automaton: it consumes a character of ``chars`` (None: none).

    ``anchor`` is a condition.
    """

    chars: Chars | None
    anchor: Anchor | None
    next: list[int]


class _Automaton:
    """Follows all alternatives at once.  A *place* is a set of states and whether a line begins there."""

    def __init__(self, node: Node, *, multiline: bool, ignore_case: bool):
        self._multiline = multiline
        self._ignore_case = ignore_case
        self.states: list[_State] = []
        start = self._build(node, self._add(None, None, []))
        self._start = (frozenset((start,)), True)
        self._final = 0
        self._remembered = 0
        self._memory: dict[tuple[tuple[frozenset[int], bool], str], tuple[frozenset[int], bool] | None] = {}

    def _add(self, chars: Chars | None, anchor: Anchor | None, following: list[int]) -> int:
        if len(self.states) >= STATES_MAX:
            raise ExpressionError(f"a regular expression of more than {STATES_MAX} states")
        self.states.append(_State(chars, anchor, following))
        return len(self.states) - 1

    def _build(self, node: Node, after: int) -> int:
        """Add the states of a node, which continue at ``after``; return its first state."""
        match node:
            case Chars():
                return self._add(node, None, [after])
            case Anchor():
                return self._add(None, node, [after])
            case Group(part):
                return self._build(part, after)
            case Either(parts):
                return self._add(None, None, [self._build(part, after) for part in parts])
            case Concat(parts):
                for part in reversed(parts):
                    after = self._build(part, after)
                return after
            case Repeat(part, low, high):
                if high is None:
                    loop = self._add(None, None, [after])
                    self.states[loop].next.append(self._build(part, loop))
                    after = loop
                else:
                    end = after
                    for _ in range(high - low):
                        after = self._add(None, None, [self._build(part, after), end])
                for _ in range(low):
                    after = self._build(part, after)
                return after

    def search(self, text: str) -> bool:
        """Tell whether a match begins anywhere in the text."""
        place = self._start
        memory = self._memory
        for c in text:
            key = (place, c)
            if key in memory:
                following = memory[key]
            else:
                if self._remembered > _MEMORY_MAX:
                    memory.clear()
                    self._remembered = 0
                following = memory[key] = self._step(place, c)
                self._remembered += 1 + len(place[0])
            if following is None:
                return True
            place = following
        return self._step(place, "") is None

    def _step(self, place: tuple[frozenset[int], bool], c: str) -> tuple[frozenset[int], bool] | None:
        """Return the place after ``c`` (empty: the end); None if a match is complete before it."""
        states = self._closure(place, at_end=not c or (self._multiline and c == "\n"))
        if self._final in states:
            return None
        folded = {c, c.lower(), c.upper()} if self._ignore_case else {c}
        going = {
            following
            for number in states
            if (chars := self.states[number].chars) is not None and c and self._accepts(chars, folded)
            for following in self.states[number].next
        }
        return frozenset(going) | self._start[0], self._multiline and c == "\n"

    def _accepts(self, chars: Chars, spellings: set[str]) -> bool:
        """Tell whether a class accepts a character, given its spellings in both cases.

        A negated class excludes a letter in either case, so every spelling must be outside of it.
        """
        if not chars.negated:
            return any(len(c) == 1 and _contains(chars, c) for c in spellings)
        return all(len(c) != 1 or _contains(chars, c) for c in spellings)

    def _closure(self, place: tuple[frozenset[int], bool], *, at_end: bool) -> set[int]:
        """Return all states reachable without consuming a character."""
        kernel, at_start = place
        seen = set(kernel)
        todo = list(kernel)
        while todo:
            state = self.states[todo.pop()]
            if state.chars is not None:
                continue
            if state.anchor is not None and not (at_end if state.anchor.end else at_start):
                continue
            for following in state.next:
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
        return seen


# --- both engines --------------------------------------------------------------------------------


class Regex:
    """A compiled regular expression.  Raises ExpressionError for one that is wrong or too large."""

    def __init__(self, pattern: str, flags: str):
        if len(pattern) > PATTERN_MAX:
            raise ExpressionError(f"a regular expression of more than {PATTERN_MAX} characters")
        if not set(flags) <= set("smixq"):
            raise ExpressionError(f"the flags {flags!r} are not among 'smixq'")
        self._literal = "q" in flags
        if self._literal:
            node: Node = Concat(tuple(Chars(((ord(c), ord(c)),)) for c in pattern))
            self._groups = 0
        else:
            node, self._groups = parse_regex(pattern, dot_all="s" in flags, extended="x" in flags)
        self._multiline = "m" in flags and not self._literal
        self._ignore_case = "i" in flags
        self._node = node
        source = _source(node, multiline=self._multiline)
        self._re = None if source is None else re.compile(source, re.IGNORECASE if self._ignore_case else 0)
        self._degree = 1 + _degree(node)
        self._size = _size(node)
        self._automaton: _Automaton | None = None
        if self._re is None or self._degree > 2:
            self._slow()  # an automaton that is too large is refused now, not on the first long text

    def _slow(self) -> _Automaton:
        if self._automaton is None:
            self._automaton = _Automaton(
                self._node, multiline=self._multiline, ignore_case=self._ignore_case
            )
        return self._automaton

    def _is_cheap(self, text: str) -> bool:
        return self._degree < _TOO_MANY and self._size * (len(text) + 1) ** self._degree <= STEPS_MAX

    def search(self, text: str) -> bool:
        """Tell whether the text holds a match."""
        if self._re is not None and (self._is_cheap(text) or self._literal):
            return self._re.search(text) is not None
        automaton = self._slow()
        if len(text) * len(automaton.states) > STEPS_MAX:
            raise ExpressionError("a text too long for this regular expression")
        return automaton.search(text)

    def replace(self, text: str, replacement: str) -> str:
        """Return the text with every match replaced; ``$1`` stands for the match of the first group."""
        if self._re is None or not (self._is_cheap(text) or self._literal):
            raise ExpressionError("a text too long for REPLACE with this regular expression")
        if self._re.search("") is not None:
            raise ExpressionError("REPLACE with a regular expression that matches the empty text")
        pieces: list[str | int] = [replacement] if self._literal else _pieces(replacement, self._groups)
        return self._re.sub(
            lambda found: "".join(p if isinstance(p, str) else found[p] or "" for p in pieces), text
        )


_REPLACEMENT: Final = re.compile(r"\\([\\$])|\$([0-9]+)|([^\\$]+)|(.)", re.DOTALL)


def _pieces(replacement: str, groups: int) -> list[str | int]:
    pieces: list[str | int] = []
    for match in _REPLACEMENT.finditer(replacement):
        if match[4]:
            raise ExpressionError("in a replacement, '\\' and '$' need '\\' before them")
        if match[2]:
            digits = match[2][:4]
            taken = next((n for n in range(len(digits), 0, -1) if int(digits[:n]) <= groups), 1)
            number = int(digits[:taken])
            pieces += [number if number <= groups else "", match[2][taken:]]
        else:
            pieces.append(match[1] or match[3])
    return pieces


@functools.lru_cache(maxsize=256)
def compile_regex(pattern: str, flags: str = "") -> Regex:
    """Return a compiled regular expression; the last 256 are remembered."""
    return Regex(pattern, flags)
