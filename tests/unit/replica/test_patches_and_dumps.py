"""RDF Patch, and the difference between two dumps."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from field_cases import field_case

from p2prdf.errors import DataRefused
from p2prdf.interest import Changeset
from p2prdf.replica import dump_diff
from p2prdf.replica.dump_diff import diff_dumps
from p2prdf.replica.rdf_patch import read_patch

S, P, X = "<urn:s>", "<urn:p>", "<urn:o>"


def write_patch(changesets):
    """Yield the lines of a patch: one transaction for each changeset."""
    for changeset in changesets:
        yield f"H sequence {changeset.sequence} .\nTX .\n"
        yield from (f"D {s} {p} {o} .\n" for s, p, o in changeset.removed)
        yield from (f"A {s} {p} {o} .\n" for s, p, o in changeset.added)
        yield "TC .\n"


def _read(text: str) -> list[Changeset]:
    return list(read_patch(io.StringIO(text, newline="\n"), source="a.rdfp", sequence=3))


def test_each_transaction_is_a_changeset() -> None:
    text = f"""H id <urn:uuid:1> .
TX .
PA "ex" "http://example.org/" .
D {S} {P} {X} .
A {S} {P} "a .\\" \\u00e9"@EN .   # a comment
TC .
TX .
A {S} {P} {X} .
TA .
# behind
A {S} {P} "1"^^<http://www.w3.org/2001/XMLSchema#integer> .
"""
    integer = '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'
    assert _read(text) == [
        Changeset(((S, P, X),), ((S, P, '"a .\\" é"@en'),), 3), Changeset((), ((S, P, integer),), 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        f'TX . A {S} {P} "1" . TC .',
        f'TX.\nA {S} {P} "1".\nTC.\n',
        f'TX\t.\r\nA\t{S}\t{P}\t"1"\t.\r\nTC\t.',
        f'TX .\nA\n {S} # a comment . TC .\n\t{P}\n"1"\n.TC.',
        f"TB . A{S}{P}'1'. TC . # TX .",
        f'H id <uuid:1> . H "prev" "x" . TX . PA "x" "urn:y" . PA x: <urn:y> . PD "x" . Z . A {S} {P} "1" . TC .',
        f'TX . A {S} {P} "1" . D {S} {P} "1" . A {S} {P} "1" . TC . TX . A {S} {P} {X} . TA .',
        f'TX . A {S} {P} "1" .\nTC .\nTX . D {S} {P} "1" . TA . TX. A {S} {P} "3".\nTA .',
    ],
)
def test_rows_end_with_full_stops_wherever_lines_end(text: str) -> None:
    assert _read(text) == [Changeset((), ((S, P, '"1"'),), 3)]


def test_numbers_and_quotes_of_both_kinds_are_literals() -> None:
    text = f"TX . A {S} {P} 1 . A {S} {P} -1.5. A {S} {P} 1e0 . A {S} {P} 'a\"b\\'c'@en . TC ."
    (found,) = _read(text)
    xsd = "http://www.w3.org/2001/XMLSchema#"
    assert [o for _, _, o in found.added] == [
        f'"1"^^<{xsd}integer>', f'"-1.5"^^<{xsd}decimal>', f'"1e0"^^<{xsd}double>', '"a\\"b\'c"@en',
    ]  # fmt: skip


def test_nothing_of_an_open_transaction_is_given() -> None:
    given: list[Changeset] = []
    with pytest.raises(DataRefused, match="incomplete"):
        given.extend(read_patch(io.StringIO(f'TX . A {S} {P} "1" . TC . TX . A {S} {P} "2" .\n')))
    found = read_patch(io.StringIO(f'TX . A {S} {P} "1" . TC . TX . A {S} {P} "2" .\n'))
    assert next(found).added == ((S, P, '"1"'),)
    with pytest.raises(DataRefused, match="the transaction has no end"):
        next(found)


def test_every_beginning_of_a_growing_file_gives_the_transactions_that_are_whole() -> None:
    text = f'H id <a:b> .\nTX . A {S} {P} "TC ." . TC .\nTX .\nA {S}\n{P} 1.5 . # TC .\nTC . TX . A {S} {P} {X} . TC .'
    whole = list(read_patch(io.StringIO(text), sequence=3))
    assert len(whole) == 3
    ends = [text.index(". TC .\n") + 6, text.index("TC . TX") + 4, len(text)]
    for size in range(len(text) + 1):
        found = list(read_patch(io.StringIO(text[:size], newline="\n"), sequence=3, growing=True))
        assert found == whole[: len(found)]
        assert len(found) <= sum(size >= end for end in ends)
        if not text[size:] or text[size] == "\n":
            assert len(found) == sum(size >= end for end in ends)


@pytest.mark.parametrize(
    ("name", "added"),
    [
        ("aa", "12"), ("atc", "1"), ("bom", "1"), ("ha", "12"), ("oneline", "1"), ("pa", "12"), ("tabs", "1"),
        ("tabs2", "1"), ("tctx", "12"), ("tight", "1"), ("txa", "12"),
    ],
)  # fmt: skip
def test_field_case_of_rows_that_share_lines_is_read(name: str, added: str) -> None:
    file = field_case("04-rdfpatch-lines") / f"{name}.rdfp"
    with file.open(encoding="utf-8-sig", newline="\n") as lines:
        found = [triple for changeset in read_patch(lines) for triple in changeset.added]
    rows = {"1": ("<urn:a>", "<urn:p>", '"1"'), "2": ("<urn:b>", "<urn:p>", '"2"')}
    assert found == [rows[each] for each in added]


def test_the_last_line_about_a_triple_decides() -> None:
    (changeset,) = _read(f"TX .\nA {S} {P} {X} .\nD {S} {P} {X} .\nTC .\n")
    assert changeset == Changeset(((S, P, X),), (), 3)


def test_a_written_patch_reads_back_equal() -> None:
    values = ['"a\\"b\\\\c\\nd\\r\\t"', '"é\u2028"@en-gb', '"x"^^<urn:t>']
    added = tuple((S, P, value) for value in values)
    changesets = [Changeset(((S, P, X),), added, 3), Changeset(added[:1], (), 4)]
    assert _read("".join(write_patch(changesets))) == changesets


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (f"A {S} {P} .\n", 1, "three terms"),
        (f"A {S} {P} {X}\n", 1, "full stop"),
        (f"A {S} {P} {X} <urn:g> .\n", 1, "without graphs"),
        (f"TX .\n\nA {S} {P} _:b .\nTC .", 3, "blank node"),
        (f"TX .\nA {S} {P} <_:b> .\nTC .", 2, "blank node"),
        (f'A "s" {P} {X} .', 1, "must be an object"),
        ("TX .\nTX .", 2, "within another"),
        ("TC .", 1, "no transaction"),
        (f"TX .\nA {S} {P} {X} .", 2, "incomplete"),
        ("X <a> <b> <c> .", 1, "column 1: no row of RDF Patch begins with 'X'"),
        (f"A {S} {P} <not an iri> .", 1, "column 19: no token of RDF Patch begins with '<not an iri"),
        (f"TX .\nA {S} {P} {X} . A {S}\n{P}\n", 3, "column 1: the row has no full stop"),
        (f"TX . A {S} {P} {X} . TC", 1, "the row has no full stop"),
        (f"TX . A {S} {P} {X} . ", 1, "incomplete"),
        (f"TX . A {S} {P} {X}\n TC .", 2, "column 2: A: 'TC' is not a term"),
        (f"TX . A {S} {P} x:o . TC .", 1, "column 24: A: 'x:o' is not a term"),
        (f"TX . . A {S} {P} {X} . TC .", 1, "column 6: a full stop ends no row"),
        (f"TX . A {S} {P} {X} {X} {X} {X} {X} . TC .", 1, "column 48: a full stop is expected"),
        ("TX TC .", 1, "column 4: TX: a full stop is expected after it"),
        ("H id .", 1, "H: 1 items"),
        (f'TX . A {S} {P} """a\nb""" . TC .', 1, "column 24: a long string"),
        (f'TX . A {S} {P} "a . TC .\n', 1, "column 24: no token"),
        (f'TX . A {S} {P} "a\\q" . TC .\n', 1, "column 24: not an IRI or literal"),
        (f"<urn:s> {S} {P} {X} .", 1, "column 1: no row of RDF Patch begins with '<urn:s>'"),
        ("TX . \x00", 1, "column 6: no token"),
    ],
)
def test_a_bad_patch_is_refused_by_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(DataRefused, match=reason) as refused:
        _read(text)
    assert (refused.value.source, refused.value.line) == ("a.rdfp", line)


@pytest.mark.parametrize("run_triples", [3, 50, 10_000])
def test_the_difference_of_dumps_holds_the_lines_of_one_alone(
    tmp_path: Path, run_triples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump_diff, "RUNS_MAX", 4)
    rng = random.Random(run_triples)
    lines = [f"<urn:s{n}> <urn:p> \"{n % 7}é\" ." for n in range(120)]
    old, new = rng.choices(lines, k=150), rng.choices(lines, k=150)
    for name, content in (("old.nt", old), ("new.nt", new)):
        (tmp_path / name).write_text("\n".join(content) + "\n", "utf-8")
    scratch = tmp_path / "scratch"
    found = list(diff_dumps(tmp_path / "old.nt", tmp_path / "new.nt", scratch, run_triples=run_triples))
    assert found == [(line in new, line) for line in sorted(set(old) ^ set(new))]
    assert list(scratch.glob("*/*")) == [], "runs are taken away"
