"""Documents, docstrings and comments are written for readers: short lines, sentences that name their nouns.

The lists of exceptions below shrink: a file that keeps the rule must be taken from its list.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from house import structure

ROOT = Path(__file__).parents[2]
WIDTH = 100
HEADS = 3.0
"""Most free relatives (:data:`HEAD`) for 1,000 words."""

DOCUMENTS = sorted(
    str(path.relative_to(ROOT)) for pattern in ("*.md", "docs/**/*.md", "clients/*/*.md") for path in ROOT.glob(pattern)
)
LONG_LINES: set[str] = {
    "docs/how-to/publish-files.md",
    "docs/how-to/publish-from-kafka.md",
    "docs/how-to/subscribe-from-the-browser.md",
}
"""Pages with lines that are still to be wrapped."""

MANY_HEADS: set[str] = {
    "docs/history/code-words.md",
    "docs/history/reliability-journal.md",
}
"""Pages with sentences that are still to be rewritten."""

MANY_HEADS_IN_CODE: set[str] = set()
"""Python files with docstrings or comments that are still to be rewritten."""

CODE = re.compile(r"^ *```.*?^ *```|`[^`]*`", re.MULTILINE | re.DOTALL)
HEAD = re.compile(r"\b(?:who(?:ever|m|mever|se)?|what(?:ever)?)\b", re.IGNORECASE)
WORD = re.compile(r"[A-Za-z']+")
LINK = re.compile(r"\[[^\]]*\]\([^)]*\)|<?https?://\S+|^ *\[[^\]]+\]: \S+")


def long_lines(text: str) -> list[int]:
    """Return the numbers of lines that could be shorter.

    A row of a table cannot be wrapped, and neither can a link or a single word; lines of code can.
    """
    found = []
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        if len(line) <= WIDTH or (line.startswith("|") and not in_code):
            continue
        longest = max(map(len, [*LINK.findall(line), *line.split()]))
        if in_code or longest <= WIDTH - 10:
            found.append(number)
    return found


def heads(text: str) -> float:
    """Return the free relatives in 1,000 words, code left out."""
    prose = CODE.sub("", text)
    return 1000 * len(HEAD.findall(prose)) / max(1, len(WORD.findall(prose)))


def test_the_rule_for_lines_knows_what_cannot_be_wrapped() -> None:
    words = "word " * 25
    link = f"[a link](https://example.org/{'a' * 100})"
    text = f"{words}\n| {words} |\n{link}\n```\n{words}\n| {words} |\n```\nshort\n"
    assert long_lines(text) == [1, 5, 6]


def test_the_counter_of_heads_leaves_code_out() -> None:
    assert heads("Who calls? `who`\n```\nwhat\n```\n" + "word " * 98) == 10.0


@pytest.mark.parametrize("name", DOCUMENTS)
def test_lines_are_at_most_100_characters_long(name: str) -> None:
    found = long_lines((ROOT / name).read_text("utf-8"))
    if name in LONG_LINES:
        assert found, f"{name} has no long lines any more: take it from LONG_LINES"
    else:
        assert not found, f"{name}: lines longer than {WIDTH} characters: {found}"


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name != "CHANGELOG.md"])
def test_sentences_name_their_nouns(name: str) -> None:
    count = heads((ROOT / name).read_text("utf-8"))
    if name in MANY_HEADS:
        assert count >= HEADS, f"{name} has {count:.1f} heads per 1,000 words: take it from MANY_HEADS"
    else:
        assert count < HEADS, f"{name}: {count:.1f} heads (who, what, whoever) per 1,000 words; name the nouns"


@pytest.mark.parametrize("names", [LONG_LINES, MANY_HEADS], ids=["LONG_LINES", "MANY_HEADS"])
def test_pages_that_are_listed_exist(names: set[str]) -> None:
    assert sorted(names - set(DOCUMENTS)) == []


def test_docstrings_and_comments_name_the_noun() -> None:
    """Heads are counted in files with 100 words or more, fragments (docstrings without a sentence) in all."""
    found = set()
    for path in structure.sources("p2prdf", "node", "cli", "lab", "tests"):
        text, fragments = structure.prose(path)
        rate, words = structure.heads(text)
        if fragments or (words >= structure.WORDS_MIN and rate >= structure.HEADS_MAX):
            found.add(str(path.relative_to(ROOT)))
    assert found == MANY_HEADS_IN_CODE
