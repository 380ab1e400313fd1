"""XPath regular expressions: their matches, and a bound on the time of every one."""

from __future__ import annotations

import re

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2prdf.rdf import regex
from p2prdf.rdf.moments import ExpressionError
from p2prdf.rdf.regex import Regex


@pytest.mark.parametrize(
    ("pattern", "flags", "text", "expected"),
    [
        ("b", "", "abc", True),
        ("^b", "", "abc", False),
        ("c$", "", "abc\n", False),
        ("^b$", "", "a\nb\nc", False),
        ("^b$", "m", "a\nb\nc", True),
        ("a.c", "", "a\nc", False),
        ("a.c", "s", "a\nc", True),
        ("A B", "ix", "ab", True),
        ("a[ ]b", "x", "a b", True),
        ("a?+*.{}()[]C", "iq", "xa?+*.{}()[]cx", True),
        ("[a-z-[aeiou]]{3}", "", "bcd", True),
        ("[a-z-[aeiou]]{3}", "", "bad", False),
        ("^[^A]$", "i", "a", False),
        ("^\\p{Lu}+$", "", "ÄB", True),
        ("^\\P{L}$", "", "a", False),
        ("^[\\p{Nd}x]+$", "", "1x٣", True),
        ("^\\d\\D\\s\\S\\w\\W$", "", "1a x_-", True),
        ("^\\i\\c*$", "", "a-b.1", True),
        ("^\\I$", "", "1", True),
        ("[\\^\\-\\]]", "", "]", True),
        ("a{2}", "", "aba", False),
        ("a{2,}b", "", "caaab", True),
        ("^(a|bc)+?d$", "", "abcad", True),
        ("", "", "", True),
        ("a|", "", "x", True),
        ("(?:ab)*c", "", "ababc", True),
    ],
)
def test_an_expression_matches_as_xpath_says(pattern: str, flags: str, text: str, expected: bool) -> None:
    compiled = Regex(pattern, flags)
    assert compiled.search(text) is expected
    assert compiled._slow().search(text) is expected


@pytest.mark.parametrize(
    ("pattern", "flags"),
    [
        ("(", ""), (")", ""), ("a)", ""), ("[", ""), ("[]", ""), ("[a", ""), ("a**", ""), ("*", ""), ("a{2,1}", ""),
        ("a{1001}", ""), ("\\1", ""), ("(a)\\1", ""), ("\\q", ""), ("\\p{IsGreek}", ""), ("\\p", ""), ("(?=a)", ""),
        ("(?i)a", ""), ("[z-a]", ""), ("[a-z-[b]c]", ""), ("a", "k"), ("x" * 1025, ""), ("(" * 40 + ")" * 40, ""),
        ("(a{1000}b*){1000}", ""), ("\\", ""), ("[a[b]]", ""), ("{", ""),
    ],
)  # fmt: skip
def test_bad_expressions_are_refused(pattern: str, flags: str) -> None:
    with pytest.raises(ExpressionError):
        Regex(pattern, flags)


patterns = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\d", "^", "$", "c", "\\s"]),
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("({}|{})".format, inner, inner),
        st.builds("({}){}".format, inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{2,}", "*?"])),
    ),
    max_leaves=8,
)


@given(patterns, st.sampled_from(["", "i", "m", "s", "im"]), st.text("abAc1 \n", max_size=10))
def test_the_automaton_agrees_with_backtracking(pattern: str, flags: str, text: str) -> None:
    compiled = Regex(pattern, flags)
    assert compiled._re is not None
    assert compiled._slow().search(text) is (compiled._re.search(text) is not None)


@given(patterns, st.sampled_from(["", "i", "m", "s"]), st.text("abAc1 ", max_size=10))
def test_matches_agree_with_another_engine(pattern: str, flags: str, text: str) -> None:
    """pyoxigraph's is the regex crate; without carriage returns and line ends the dialects agree."""
    query = f'SELECT (REGEX({ox.Literal(text)}, {ox.Literal(pattern)}, "{flags}") AS ?x) {{}}'
    (row,) = ox.Store().query(query)  # type: ignore[misc]
    if row["x"] is not None:
        assert Regex(pattern, flags).search(text) is (row["x"].value == "true")


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", "(a|a)*b", "(a*)*b", "(a|aa)+b", "((a?){20}){20}b", "a*a*a*a*a*a*a*b", "(.*)(.*)(.*)(.*)b",
     "(a{0,30}){0,20}b", "(((a+)+)+)+b", "a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?aaaaaaaaaaaaaaaaaaaaaaaab"],
)  # fmt: skip
def test_catastrophic_patterns_never_reach_the_backtracking_engine(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The estimate of steps protects, so the engine is taken away: on long texts nobody asks it."""
    compiled = Regex(pattern, "")
    monkeypatch.setattr(compiled, "_re", None)
    assert compiled.search("a" * 2000) is False
    assert compiled.search("a" * 1000 + "b") is True


def test_steps_of_backtracking_stay_below_the_bound() -> None:
    """Counted on the estimate: the size times the length to the degree."""
    compiled = Regex("x.*y.*z", "")
    assert compiled._degree == 3
    cheap = max(n for n in range(1000) if compiled._is_cheap("x" * n))
    assert 5 * (cheap + 1) ** 3 <= regex.STEPS_MAX < 5 * (cheap + 3) ** 3 * 2


def test_a_text_too_long_has_no_value_rather_than_no_end() -> None:
    compiled = Regex("(a+)+b", "")
    with pytest.raises(ExpressionError, match="too long"):
        compiled.search("a" * 4_000_000)
    with pytest.raises(ExpressionError, match="too long"):
        compiled.replace("a" * 1000, "x")


def test_the_automaton_forgets_rather_than_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "_MEMORY_MAX", 50)
    automaton = Regex("(a|b|c)*d{3}", "")._slow()
    assert automaton.search("".join(chr(200 + n % 300) for n in range(3000)) + "ddd")
    assert len(automaton._memory) <= 50
    assert automaton._remembered <= 50 + len(automaton.states)


@pytest.mark.parametrize(
    ("pattern", "flags", "replacement", "expected"),
    [
        ("b", "", "[$0]", "a[b]ca[b]"),
        ("(b)(c)?", "", "<$1$2>", "a<bc>a<b>"),
        ("(a)(b)", "", "$12", "a2ca2"),
        ("b", "", "\\$\\\\", "a$\\ca$\\"),
        ("B", "i", "x", "axcax"),
        ("b", "q", "$1\\", "a$1\\ca$1\\"),
        ("^a", "", "$9", "bcab"),
    ],
)
def test_replace(pattern: str, flags: str, replacement: str, expected: str) -> None:
    assert Regex(pattern, flags).replace("abcab", replacement) == expected


def test_replacements_that_are_errors() -> None:
    for pattern, replacement in (("x*", "y"), ("a", "$"), ("a", "\\"), ("a", "$x")):
        with pytest.raises(ExpressionError):
            Regex(pattern, "").replace("abc", replacement)


def test_classes_are_spelled_for_python_without_loss() -> None:
    for c in map(chr, range(0x20, 0x7F)):
        spelled = "\\" + c if c in "\\|.-^?*+{}()[]$" else c
        assert Regex(f"[{spelled}]", "")._re == re.compile(f"[{re.escape(c)}]")
