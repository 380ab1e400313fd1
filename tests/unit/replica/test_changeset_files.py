"""Folders of changesets: in order, up to the first missing one, and faults by file and line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from p2prdf.errors import DataRefused
from p2prdf.interest import Changeset
from p2prdf.replica.changeset_files import ChangesetFolder, read_changeset, read_file

LINE = "<urn:s> <urn:p> <urn:o> .\n"


def _put(path: Path, text: str = LINE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.name.endswith(".gz") else text.encode())


def _positions(folder: Path, after: str | None = None) -> tuple[list[str], str | None]:
    scanned = ChangesetFolder(folder).scan(after)
    return [each.position for each in scanned.ready], scanned.gap


def test_hours_of_dbpedia_live_come_in_order(tmp_path: Path) -> None:
    for name in ("2014/10/02/21/000000", "2014/10/02/21/000001", "2014/10/02/9/000000", "2014/9/30/23/000000"):
        _put(tmp_path / f"{name}.added.nt.gz")
    _put(tmp_path / "2014/10/02/21/000001.removed.nt.gz")
    _put(tmp_path / "lastPublishedFile.txt", "2014-10-02-21-000001")
    expected = ["2014/9/30/23/000000", "2014/10/02/9/000000", "2014/10/02/21/000000", "2014/10/02/21/000001"]
    assert _positions(tmp_path) == (expected, None)
    assert _positions(tmp_path, "2014/10/02/9/000000") == (expected[2:], None)
    assert _positions(tmp_path, expected[-1]) == ([], None)


def test_a_missing_changeset_is_waited_for_and_then_read_once(tmp_path: Path) -> None:
    for number in (7, 8, 10):
        _put(tmp_path / f"{number:06}.removed.nt")
    assert _positions(tmp_path) == (["000007", "000008"], "000009")
    assert _positions(tmp_path, "000008") == ([], "000009")
    _put(tmp_path / "000009.added.nt")
    assert _positions(tmp_path, "000008") == (["000009", "000010"], None)


def test_half_a_changeset_at_the_end_is_left_for_later_where_more_come(tmp_path: Path) -> None:
    for name in ("000001.added.nt", "000002.removed.nt"):
        _put(tmp_path / name)
    folder = ChangesetFolder(tmp_path)
    assert [each.position for each in folder.scan().ready] == ["000001", "000002"]
    assert [each.position for each in folder.scan(growing=True).ready] == ["000001"]
    _put(tmp_path / "000002.added.nt")
    assert [each.position for each in folder.scan(growing=True).ready] == ["000001", "000002"]


def test_a_file_that_is_still_written_is_not_looked_at(tmp_path: Path) -> None:
    _put(tmp_path / "000001.added.nt.gz.part")
    _put(tmp_path / "000001.other.nt")
    assert _positions(tmp_path) == ([], None)


def test_one_part_twice_is_refused(tmp_path: Path) -> None:
    _put(tmp_path / "000001.added.nt.gz")
    _put(tmp_path / "000001.added.nt")
    with pytest.raises(DataRefused, match="remove one of them"):
        ChangesetFolder(tmp_path).scan()
    with pytest.raises(DataRefused, match="no such folder"):
        ChangesetFolder(tmp_path / "absent")


def test_a_changeset_is_read_from_both_files_or_one(tmp_path: Path) -> None:
    _put(tmp_path / "000001.added.nt.gz", LINE * 2 + '<urn:s> <urn:p> "a\\u0062"@EN .\n')
    (files,) = ChangesetFolder(tmp_path).scan().ready
    added = (("<urn:s>", "<urn:p>", "<urn:o>"), ("<urn:s>", "<urn:p>", '"ab"@en'))
    assert read_changeset(files, sequence=4) == Changeset((), added, 4)


def test_faults_name_file_and_line(tmp_path: Path) -> None:
    broken = tmp_path / "000001.added.nt"
    _put(broken, LINE * 3 + "<urn:s> <urn:p> no .\n" + LINE)
    with pytest.raises(DataRefused) as refused:
        list(read_file(broken))
    assert (refused.value.source, refused.value.line) == (str(broken), 4)
    damaged = tmp_path / "000002.added.nt.gz"
    _put(damaged, LINE * 1000)
    damaged.write_bytes(damaged.read_bytes()[:-20])
    with pytest.raises(DataRefused, match="damaged") as refused:
        list(read_file(damaged))
    assert refused.value.source == str(damaged)
    with pytest.raises(DataRefused, match="cannot be read"):
        list(read_file(tmp_path / "000003.added.nt"))
    quads = tmp_path / "q.nq"
    _put(quads, "<urn:s> <urn:p> <urn:o> <urn:g> .\n")
    with pytest.raises(DataRefused, match="without graphs"):
        list(read_file(quads))


def test_blank_nodes_are_refused_by_line_or_get_the_scope_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "000001.added.nt.gz"
    _put(path, LINE * 2 + "<urn:s> <urn:p> _:b7 .\n")
    with pytest.raises(DataRefused, match="blank node _:b7") as refused:
        list(read_file(path))
    assert refused.value.line == 3
    assert list(read_file(path, blank_scope="data"))[-1] == ("<urn:s>", "<urn:p>", "<urn:bnode:data:b7>")


def test_too_many_triples_are_refused(tmp_path: Path) -> None:
    _put(tmp_path / "many.nt", LINE * 12)
    with pytest.raises(DataRefused, match="more than 10 triples"):
        list(read_file(tmp_path / "many.nt", triples_max=10))


def test_a_folder_that_begins_behind_the_next_changeset_has_a_gap(tmp_path: Path) -> None:
    for number in (1, 3, 7, 8):
        _put(tmp_path / f"{number:06}.added.nt")
    assert _positions(tmp_path, "000005") == ([], "000006")
    assert _positions(tmp_path, "000006") == (["000007", "000008"], None), "what is missing before it counts no more"
    _put(tmp_path / "2014/10/02/21/000004.added.nt")
    assert _positions(tmp_path / "2014", "10/02/21/000002") == ([], "10/02/21/000003")
    assert _positions(tmp_path / "2014", "10/02/20/000002") == (["10/02/21/000004"], None)
    assert _positions(tmp_path / "2014", "10/02") == (["10/02/21/000004"], None), "a day"


def test_reinserted_triples_are_added_and_triples_to_clear_are_counted(tmp_path: Path) -> None:
    for word, value in (("added", "1"), ("reinserted", "2"), ("clear", "3")):
        (tmp_path / f"000001.{word}.nt").write_text(f'<urn:a> <urn:p> "{value}" .\n')
    (files,) = ChangesetFolder(tmp_path).scan().ready
    changeset = read_changeset(files)
    assert (changeset.removed, [o for _, _, o in changeset.added]) == ((), ['"1"', '"2"'])
    assert changeset.not_applied == (str(tmp_path / "000001.clear.nt"), 1)


def test_a_changeset_with_triples_to_clear_only_is_no_gap(tmp_path: Path) -> None:
    for name in ("000001.added", "000002.clear", "000003.added"):
        (tmp_path / f"{name}.nt").write_text("_:b <urn:p> <urn:o> .\n" * name.endswith("clear"))
    scanned = ChangesetFolder(tmp_path).scan()
    assert ([files.position for files in scanned.ready], scanned.gap) == (["000001", "000002", "000003"], None)
    counts = [found and found.triples for found in (read_changeset(files).not_applied for files in scanned.ready)]
    assert counts == [None, 1, None]


def test_an_empty_file_of_triples_to_clear_is_not_reported(tmp_path: Path) -> None:
    for word in ("added", "clear"):
        (tmp_path / f"000001.{word}.nt").write_text("")
    (files,) = ChangesetFolder(tmp_path).scan().ready
    assert read_changeset(files).not_applied is None
