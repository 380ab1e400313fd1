"""Conditions and texts made to take much time or space: refused, or processed in linear steps."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest

from p2prdf.errors import P2PRDFError
from p2prdf.rdf.fulltext import condition_holds, parse_condition, text_of, words
from p2prdf.rdf.fulltext.expression import WORDS_MAX
from p2prdf.rdf.fulltext.words import words_of
from p2prdf.rdf.standing.query import parse_query

_MANY = " ".join(f"w{number}" for number in range(300))
REFUSED = {
    "thousands of words in a phrase": '"' + "tea " * 5000 + '"',
    "thousands of words, each a phrase": " ftAND ".join(f'"w{number}"' for number in range(5000)),
    "thousands of alternatives": " ftOR ".join(f'"w{number}"' for number in range(5000)),
    "a prefix that is a thousand times there": " ftOR ".join(["a*"] * 1000),
    "a thousand prefixes": " ftOR ".join(f'"w{number}*"' for number in range(1000)),
    "brackets": "(" * 5000 + '"tea"' + ")" * 5000,
    "negations": "ftNOT " * 5000 + '"tea"',
    "a chain of nearness": " ftNEAR[0,1] ".join(f'"w{number}"' for number in range(1000)),
    "a gap beyond all texts": '"a" ftNEAR[0,1000000000000] "b"',
    "similar to a book": f'ftSIMILAR[0.5] "{_MANY}"',
    "a corpus of too much": 'ftSIMILAR[0.5] "tea" using corpus[99999999999999, "tea" 1]',
    "a megabyte of one word": '"' + "a" * 1_000_000 + '"',
    "a megabyte of stars": '"' + "*" * 1_000_000 + '"',
    "nothing but a star": '"*"', "nothing": '""', "what is no condition": "\0" * 10_000,
}  # fmt: skip
TAKEN = {
    "stars among letters": ('"*a*a*a*a*a*a*a*a*b"', lambda n: "a" * n),
    "stars among letters, many words": ('"*a*a*a*a*b*"', lambda n: " ".join(["a" * 30] * (n // 31))),
    "a phrase that nearly fits everywhere": (f'"{"a " * 200}b"', lambda n: "a " * (n // 2)),
    "near, everywhere": (" ftNEAR[0,100000] ".join(['"a"'] * 200), lambda n: "a " * (n // 2)),
    "all words": (" ftAND ".join(f'"w{k}"' for k in range(256)), lambda n: " ".join(map(str, range(n // 7)))),
    "prefixes of everything": (" ftAND ".join(['"1*"'] * 100), lambda n: " ".join(map(str, range(n // 7)))),
    "stems": ('"running" using stemming, "en"', lambda n: "running " * (n // 8)),
    "similarity": (f'ftSIMILAR[0.9] "{_MANY[:1000]}"', lambda n: " ".join(f"w{k}" for k in range(n // 7))),
    "marks": ('"a"', lambda n: "\u0301" * n), "one long word": ('"a"', lambda n: "a" * n),
    "no word": ('"a"', lambda n: " " * n),
}  # fmt: skip


def steps(work: Callable[[], object]) -> int:
    """Return how many calls some work makes, in Python and below."""
    made = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return made


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_a_condition_that_is_too_much_is_refused_in_few_steps(text: str) -> None:
    def read() -> None:
        with pytest.raises(P2PRDFError) as raised:
            parse_condition(text)
        assert 0 < len(str(raised.value)) < 1000

    assert steps(read) < 5_000 + 10 * len(text), "what is refused is read once at most"


@pytest.mark.parametrize("text", [each for each in REFUSED.values() if len(each) < 200_000])
def test_a_query_with_such_a_condition_is_refused(text: str) -> None:
    with pytest.raises(P2PRDFError):
        parse_query(f"SELECT * {{ ?s <urn:p> ?v FILTER ftcontains(?v, {text}) }}")


@pytest.mark.parametrize(("condition", "make"), TAKEN.values(), ids=TAKEN)
def test_a_text_takes_as_many_steps_as_it_is_long(condition: str, make: Callable[[int], str]) -> None:
    """Twice the text, twice the steps, with some room: nothing tries combinations."""
    read = parse_condition(condition)

    def asked(size: int) -> int:
        term = f'"{make(size)}"'
        return steps(lambda: condition_holds(read, text_of(term)))

    asked(100)  # fill the caches
    short, long = asked(2_000), asked(4_000)
    assert long <= 2.2 * short + 200
    assert long < WORDS_MAX * 3 * 4_000


class _Compared(str):
    """A character that counts how often it is compared."""

    __slots__ = ()
    count = 0

    def __eq__(self, other: object) -> bool:
        _Compared.count += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_each_character_is_looked_up_once_however_many_marks_a_text_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, with 2,000 marks in a text, each of its characters was compared with all marks."""
    marks = [chr(0x0300 + number) for number in range(111) if number not in (0x40, 0x41, 0x43, 0x44, 0x4F)]
    find = re.compile(r"[^\w\x00-\x7f]")

    class Finding:
        @staticmethod
        def findall(text: str) -> list[str]:
            return [_Compared(each) for each in find.findall(text)]

    monkeypatch.setattr(words, "_NEITHER", Finding)
    _Compared.count = 0
    assert words_of("".join(marks) + " " + f"b{marks[-1]}" * 2_000)[-1] == f"b{marks[-1]}" * 2_000
    assert _Compared.count < 3 * 4_000
