"""Names of subscriptions: their stored state, whole or not at all, and queries that they refuse to stand for."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from p2prdf.errors import LocalProtocolError
from p2prdf_cli.subscribe_state import NamedState, OutputFile, Record, Wish, check_name, default_folder

WISH = Wish("SELECT ?s { ?s <urn:p> ?o }", "csbv", per_event=False, output=Path("/out.tsv"), as_json=False)
RECORD = Record(WISH, 2**64 - 1, bytes(range(61)), 12_345)


def test_a_record_is_found_again_as_it_was(tmp_path: Path) -> None:
    with NamedState(tmp_path / "deep", "name") as state:
        assert state.read() is None
        other = replace(WISH, output=None, as_json=True, since="beginning")
        for record in (RECORD, replace(RECORD, wish=other, length=0), replace(RECORD, wish=replace(WISH, since=1.5))):
            state.save(record)
            assert state.read() == record
        state.forget()
        state.forget()
        assert state.read() is None
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["name.lock"]


def test_a_name_is_one_processs_at_a_time(tmp_path: Path) -> None:
    with NamedState(tmp_path, "name"):
        with pytest.raises(LocalProtocolError, match="subscription name is in use by another process"):
            NamedState(tmp_path, "name").__enter__()
        with NamedState(tmp_path, "other"):
            pass
    with NamedState(tmp_path, "name"):
        pass


def test_a_state_from_before_there_was_a_choice_counts_from_when_it_was_subscribed() -> None:
    value = RECORD.as_json()
    del value["since"]
    assert Record.from_json(value) == RECORD


@pytest.mark.parametrize("text", ["", "nonsense", "{}", '{"version": 2}', "[1]"])
def test_a_file_that_is_no_state_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "name.json").write_text(text)
    with (
        NamedState(tmp_path, "name") as state,
        pytest.raises(LocalProtocolError, match=r"name\.json: .*--renew starts again"),
    ):
        state.read()


def test_a_state_that_cannot_be_replaced_stays(tmp_path: Path) -> None:
    with NamedState(tmp_path, "name") as state:
        state.save(RECORD)
        (tmp_path / f".name.json.{os.getpid()}").mkdir()
        with pytest.raises(OSError, match="Is a directory"):
            state.save(replace(RECORD, length=0))
        assert state.read() == RECORD


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (replace(WISH, query="ASK {}"), "the query SELECT ?s { ?s <urn:p> ?o }, not the query ASK {}"),
        (replace(WISH, algorithm="cqc"), "csbv per triple, not cqc per triple"),
        (replace(WISH, per_event=True), "csbv per triple, not csbv per event"),
        (
            replace(WISH, since="beginning"),
            "publications since it was subscribed, not publications since the beginning",
        ),
        (
            replace(WISH, since=1.5),
            "publications since it was subscribed, not publications since 1970-01-01T00:00:01.500Z",
        ),
        (replace(WISH, output=None), "output to /out.tsv, not output to standard output"),
        (replace(WISH, as_json=True), "solutions as tab-separated values, not solutions as JSON (--json)"),
        (WISH, None),
    ],
)
def test_a_difference_is_reported_with_both_sides(other: Wish, told: str | None) -> None:
    assert WISH.difference("name", other) == (None if told is None else f"name stands for {told}")


def test_to_standard_output_the_format_may_change() -> None:
    wish = replace(WISH, output=None)
    assert wish.difference("name", replace(wish, as_json=True)) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-x", "é", "a b", "x" * 101])
def test_a_text_that_cannot_name_a_file_is_no_name(name: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        check_name(name)
    assert check_name("Athletes-2.x_" + "x" * 87)


def test_states_lie_where_the_desktop_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "p2prdf" / "subscriptions"


class TestOutput:
    def test_unsaved_output_is_cut(self, tmp_path: Path) -> None:
        path = tmp_path / "out"
        path.write_text("saved\n")
        output = OutputFile(path)
        print("not saved", file=output.stream)
        output.cut(6)
        print("é", file=output.stream)
        assert output.sync() == output.length == 9
        output.close()
        assert path.read_text() == "saved\né\n"

    @pytest.mark.parametrize(("text", "left"), [("a\nb\ntorn", "a\nb\n"), ("a\nb\n", "a\nb\n"), ("a\n", "a\n")])
    def test_a_torn_line_is_cut(self, tmp_path: Path, text: str, left: str) -> None:
        path = tmp_path / "out"
        path.write_text(text)
        output = OutputFile(path)
        output.cut_torn(2)
        output.close()
        assert path.read_text() == left

    def test_a_file_cut_by_others_is_reported(self, tmp_path: Path) -> None:
        output = OutputFile(tmp_path / "out")
        output.check(0)
        with pytest.raises(LocalProtocolError, match=r"has 0 bytes, and had 5: it was replaced or cut; .*--renew"):
            output.check(5)
        output.close()

    def test_a_file_is_one_processs_at_a_time(self, tmp_path: Path) -> None:
        output = OutputFile(tmp_path / "out")
        with pytest.raises(LocalProtocolError, match="is written by another process"):
            OutputFile(tmp_path / "out")
        output.close()

    def test_an_output_that_is_no_file_is_refused(self) -> None:
        with pytest.raises(LocalProtocolError, match="/dev/null is not a regular file"):
            OutputFile(Path("/dev/null"))


def test_the_state_is_plain_json_for_people_to_read() -> None:
    value = RECORD.as_json()
    assert json.loads(json.dumps(value)) == value
    assert (value["query"], value["output"], value["length"]) == (WISH.query, "/out.tsv", 12_345)
