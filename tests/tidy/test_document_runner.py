"""The program that runs the examples of documents finds the errors in them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pty")

from documents import DocumentFails, Session, matches, parse, run


def _run(text: str, folder: Path, seconds: float = 30) -> Session:
    with Session(folder, seconds=seconds) as session:
        run(text, session)
    return session


def _console(*lines: str, options: str = "") -> str:
    return "\n".join([f"```console{options}", *lines, "```", ""])


def test_blocks_have_their_language_options_and_line() -> None:
    first, second = parse("text\n\n```console terminal=2\n$ a\n```\n```nt file='a b.nt'\n<s> <p> <o> .\n```\n")
    assert (first.language, first.options, first.text, first.line) == ("console", {"terminal": "2"}, "$ a\n", 3)
    assert (second.language, second.options, second.line) == ("nt", {"file": "a b.nt"}, 6)


@pytest.mark.parametrize(
    ("expected", "printed", "whole"),
    [
        (["a"], "a\n", True),
        (["a", "..."], "a\nb\nc\n", True),
        (["...", "c"], "a\nb\nc\n", True),
        (["from ... to b"], "from a to b\n", True),
        (["a"], "a\nb\n", False),
        (["0.1 s and 2026-11-27T10:00:00Z"], "12.5 s and 2027-01-01T00:00:01.123Z\n", True),
        (["ready 504ee4496e545508"], "ready 9df9864aa3b32fa2\n", True),
        (["a    b"], "a b\n", True),
    ],
)
def test_output_that_is_as_shown_matches(expected: list[str], printed: str, whole: bool) -> None:
    assert matches(expected, printed, whole=whole)


@pytest.mark.parametrize(
    ("expected", "printed", "whole"),
    [
        (["a"], "b\n", True),
        (["a"], "a\nb\n", True),
        (["a"], "ab\n", False),
        ([], "error\n", True),
        (["3 triples"], "4 triples\n", True),
    ],
)
def test_output_that_differs_does_not_match(expected: list[str], printed: str, whole: bool) -> None:
    assert not matches(expected, printed, whole=whole)


def test_commands_share_a_shell_with_files_and_continuation_lines(tmp_path: Path) -> None:
    shown = "```text file=data/in.txt\none\ntwo\n```\n"
    typed = _console("$ name=data", "$ cat \\", "> $name/in.txt", "one", "two")
    assert _run(shown + typed, tmp_path).typed == 2


def test_wrong_output_and_a_failing_command_are_found(tmp_path: Path) -> None:
    with pytest.raises(DocumentFails, match="line 2: echo a"):
        _run(_console("$ echo a", "b"), tmp_path)
    with pytest.raises(DocumentFails, match="exit code 3"):
        _run(_console("$ (exit 3)"), tmp_path)


def test_output_that_does_not_come_is_found_at_the_deadline(tmp_path: Path) -> None:
    with pytest.raises(DocumentFails, match="not within"):
        _run(_console("$ cat", "never", options=" terminal=2"), tmp_path, seconds=0.2)


def test_another_terminal_shows_more_output_later_and_is_interrupted(tmp_path: Path) -> None:
    text = (
        _console("$ mkfifo pipe; echo start; cat pipe; cat", "start", options=" terminal=2")
        + _console("$ echo more > pipe")
        + _console("more", "^C", "$ echo again", "again", options=" terminal=2")
    )
    assert _run(text, tmp_path).typed == 3


def test_a_job_that_is_killed_leaves_no_notice_in_the_output(tmp_path: Path) -> None:
    _run(_console("$ cat < /dev/zero > /dev/null &", "$ kill -9 %1", "$ wait; echo gone", "gone"), tmp_path)


def test_ports_are_replaced_by_the_same_free_ports_everywhere(tmp_path: Path) -> None:
    typed = _console("$ cat a; echo host:7401 host:7402", "host:7401", "host:7401 host:7402")
    session = _run("```text file=a\nhost:7401\n```\n" + typed, tmp_path)
    lines = session.transcript[0].printed.split()
    assert "host:7401" not in lines
    assert lines[0] == lines[1] != lines[2]
