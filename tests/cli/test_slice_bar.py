"""The progress of a replica's first slice is shown on a terminal only."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from p2prdf_cli import progress
from p2prdf_cli.progress import SliceBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    found = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=found))
    console = Console(
        file=found, force_terminal=True, force_interactive=True, width=100, _environ={"TERM": "xterm"}
    )
    monkeypatch.setattr(progress, "console", lambda: console)
    return found


async def _given(count: int):
    for number in range(count):
        yield number


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_triples_are_passed_on_and_counted(terminal: Terminal, asynchronous: bool) -> None:
    with SliceBar("first slice from dump.nt") as bar:
        found = [each async for each in bar.counted(_given(2345) if asynchronous else range(2345))]
        bar._progress.refresh()
        assert found == list(range(2345))
    assert "first slice from dump.nt" in terminal.getvalue()
    assert "2,345 triples" in terminal.getvalue()


def test_the_rate_is_shown_and_nothing_stays(terminal: Terminal) -> None:
    with SliceBar("first slice") as bar:
        for _ in range(3):
            bar.advance(500)
        bar._progress.refresh()
        assert "/s" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K"), "the line is taken away"


async def test_nothing_is_shown_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with SliceBar("first slice") as bar:
        assert [each async for each in bar.counted(range(5000))] == list(range(5000))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
