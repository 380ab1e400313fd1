"""Standing full-text queries: triple patterns, some with a condition on the text of the object.

A publication is a set of triples published together.  It satisfies a query if one of its triples matches each pattern
and equal variables have equal terms.  The constructors of queries and publications check their bounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from p2prdf.errors import LocalProtocolError
from p2prdf.rdf.fulltext import Condition

__all__ = ["ANY", "PATTERNS_MAX", "TextPattern", "TextQuery", "is_constant", "is_variable"]

ANY: Final = "*"
"""A wildcard: matches any term at any position of a pattern, and binds nothing."""
PATTERNS_MAX: Final = 16
"""Most patterns of one query."""

_VARIABLE: Final = re.compile(r"\?\w+")
_SHOWN_MAX: Final = 60


def is_variable(part: str) -> bool:
    """Tell whether a part of a pattern is a variable."""
    return part.startswith("?")


def is_constant(part: str) -> bool:
    """Tell whether a part of a pattern is a term."""
    return part[0] in '<"'


@dataclass(frozen=True, slots=True)
class TextPattern:
    """One triple pattern of canonical terms, variables (``?name``) or :data:`ANY`.

    ``condition`` applies to the text of the object.
    """

    s: str
    p: str
    o: str
    condition: Condition | None = None

    def __post_init__(self) -> None:
        for place, part in zip("spo", self.parts, strict=True):
            known = part == ANY or _VARIABLE.fullmatch(part) or part[:1] in ("<", '"')
            if not known or (part[0] == '"' and place != "o"):
                raise LocalProtocolError(
                    f"{place}: {part[:_SHOWN_MAX]!r} is neither a term that fits nor a variable nor {ANY!r}"
                )
        if self.condition is not None and is_constant(self.o):
            raise LocalProtocolError(
                f"o: a condition on the constant {self.o[:_SHOWN_MAX]!r}"
            )

    @property
    def parts(self) -> tuple[str, str, str]:
        """Subject, predicate and object."""
        return self.s, self.p, self.o

    @property
    def variables(self) -> Iterator[str]:
        """Its variables, with repetitions."""
        return filter(is_variable, self.parts)


@dataclass(frozen=True, slots=True)
class TextQuery:
    """Patterns that one publication must match, all of them."""

    patterns: tuple[TextPattern, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.patterns) <= PATTERNS_MAX:
            raise LocalProtocolError(f"a full-text query has 1 to {PATTERNS_MAX} patterns, not {len(self.patterns)}")
