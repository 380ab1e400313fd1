"""RDF Patch, and what differs between two dumps."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from p2prdf.errors import DataRefused
from p2prdf.interest import Changeset
from p2prdf.replica import dump_diff
from p2prdf.replica.dump_diff import diff_dumps
from p2prdf.replica.rdf_patch import read_patch, write_patch

S, P, X = "<urn:s>", "<urn:p>", "<urn:o>"


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


def test_the_last_line_about_a_triple_decides() -> None:
    (changeset,) = _read(f"TX .\nA {S} {P} {X} .\nD {S} {P} {X} .\nTC .\n")
    assert changeset == Changeset(((S, P, X),), (), 3)


def test_what_is_written_is_read_again() -> None:
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
        (f'A "s" {P} {X} .', 1, "object only"),
        ("TX .\nTX .", 2, "within another"),
        ("TC .", 1, "no transaction"),
        (f"TX .\nA {S} {P} {X} .", 2, "not whole"),
        ("X <a> <b> <c> .", 1, "begins with 'X'"),
        (f"A {S} {P} <not an iri> .", 1, "three terms"),
    ],
)
def test_what_is_no_patch_is_refused_by_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(DataRefused, match=reason) as refused:
        _read(text)
    assert (refused.value.source, refused.value.line) == ("a.rdfp", line)


@pytest.mark.parametrize("run_triples", [3, 50, 10_000])
def test_dumps_differ_by_what_one_has_and_not_the_other(
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
