"""Progress of interrupted publications: found again for the same file, and for nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from p2prdf.errors import LocalProtocolError
from p2prdf_cli import publish_state
from p2prdf_cli.publish_state import Entry, FileIdentity, StateFile, default_state_file


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "data.nt"
    file.write_text("<urn:a> <urn:b> <urn:c> .\n")
    return file


@pytest.fixture
def state(tmp_path: Path) -> StateFile:
    return StateFile(tmp_path / "deep" / "state.json")


def test_progress_is_found_again_by_another_process(state: StateFile, data: Path) -> None:
    entry = Entry(FileIdentity.of(data), publisher=2**64 - 1, statements=123_456)
    state.note(entry, now=True)
    assert StateFile(state.path).find(FileIdentity.of(data)) == entry


def test_an_edited_file_starts_over(state: StateFile, data: Path) -> None:
    state.note(Entry(FileIdentity.of(data), 1, 5), now=True)
    data.write_text("<urn:a> <urn:b> <urn:d> .\n")
    os.utime(data, ns=(1, 1))
    assert state.find(FileIdentity.of(data)) is None


def test_a_file_published_to_another_graph_or_removed_starts_over(state: StateFile, data: Path) -> None:
    there, elsewhere = FileIdentity.of(data, graph="<urn:g>"), FileIdentity.of(data, graph="<urn:h>")
    state.note(Entry(there, 1, 5), now=True)
    again = StateFile(state.path)
    assert again.find(there) == Entry(there, 1, 5)
    for other in (elsewhere, FileIdentity.of(data), FileIdentity.of(data, removed=True, graph="<urn:g>")):
        assert again.find(other) is None


def test_a_file_goes_on_into_the_same_stream_with_the_same_times(state: StateFile, data: Path) -> None:
    there = FileIdentity.of(data, stream="<urn:s>", times="now")
    entry = Entry(there, 1, 5, began=1_700_000_000_123, latest=1_700_000_000_124)
    state.note(entry, now=True)
    again = StateFile(state.path)
    assert again.find(there) == entry
    for stream, times in (("<urn:s>", "timed"), ("<urn:t>", "now"), ("", "")):
        assert again.find(FileIdentity.of(data, stream=stream, times=times)) is None


def test_files_do_not_touch_each_others_progress(state: StateFile, data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.nt"
    other.write_text("")
    state.note(Entry(FileIdentity.of(data), 1, 5), now=True)
    state.note(Entry(FileIdentity.of(other), 2, 6), now=True)
    state.note(Entry(FileIdentity.of(data), 1, 7), now=True)
    state.forget(FileIdentity.of(other))
    assert state.find(FileIdentity.of(other)) is None
    found = state.find(FileIdentity.of(data))
    assert found is not None
    assert found.statements == 7


def test_progress_is_written_at_most_once_a_second_unless_asked(tmp_path: Path, data: Path) -> None:
    times = iter((100.0, 100.0, 100.5, 101.1, 101.1))  # looked at, and once more when written
    state = StateFile(tmp_path / "state.json", clock=lambda: next(times))
    identity = FileIdentity.of(data)
    seen = []
    for statements in (1, 2, 3):
        state.note(Entry(identity, 1, statements))
        found = state.find(identity)
        seen.append(found.statements if found else None)
    assert seen == [1, 1, 3]


def test_entries_are_bounded(state: StateFile, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish_state, "ENTRIES_MAX", 3)
    for number in range(5):
        state.note(Entry(FileIdentity(f"/file{number}", 1, 1), number, 0), now=True)
    assert [entry["path"] for entry in json.loads(state.path.read_text())["files"]] == ["/file2", "/file3", "/file4"]


@pytest.mark.parametrize("content", ["", "{}", '{"version": 99, "files": []}', '{"version": 1, "files": [{}]}', "\x00"])
def test_a_damaged_state_file_is_refused_by_name(state: StateFile, data: Path, content: str) -> None:
    state.path.parent.mkdir()
    state.path.write_text(content)
    with pytest.raises(LocalProtocolError, match=r"state\.json: .* remove it"):
        state.find(FileIdentity.of(data))


def test_where_state_cannot_be_kept_publishing_goes_on(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    state = StateFile(tmp_path / "file" / "below" / "state.json")
    for _ in range(2):
        state._write([Entry(FileIdentity.of(data), 1, 5)])
    assert capsys.readouterr().err.count("cannot keep progress") == 1


def test_state_lives_where_the_user_keeps_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_state_file() == tmp_path / "p2prdf" / "publish.json"
