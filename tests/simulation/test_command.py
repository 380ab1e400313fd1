"""``python -m schedules`` reports its runs and fails if any result differs."""

from __future__ import annotations

import pytest

from schedules import __main__ as command
from schedules.checkers import Problem
from schedules.scenario import run_seed


def test_good_seeds_end_in_a_summary_and_zero(capsys: pytest.CaptureFixture[str]):
    assert command.main(["--seeds", "6", "--jobs", "2"]) == 0
    said = capsys.readouterr().out
    assert "ok: 6 seeds" in said
    assert "N=16" in said
    assert "answers compared" in said


def test_a_single_seed_prints_a_trace_of_messages(capsys: pytest.CaptureFixture[str]):
    assert command.main(["--start", "2", "--seeds", "1"]) == 0
    said = capsys.readouterr().out
    assert "IndexTriples" in said
    assert "Published(" in said
    assert "seed 2: 3 peers" in said


def test_a_bad_seed_is_reported_with_how_to_repeat_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def broken(seed: int, **options):
        outcome = run_seed(seed, **options)
        if seed == 1:
            outcome.problems.append(Problem("missing", "subscriber 0", "1 answers: 1 x (<urn:a>)"))
        return outcome

    monkeypatch.setattr(command, "run_seed", broken)
    assert command.main(["--seeds", "3", "--jobs", "1"]) == 1
    said = capsys.readouterr().out
    assert "missing: subscriber 0: 1 answers: 1 x (<urn:a>)" in said
    assert "make simulate SEED=1" in said


def test_it_stops_after_so_many_bad_seeds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def broken(seed: int, **options):
        outcome = run_seed(seed, **options)
        outcome.problems.append(Problem("extra", "subscriber 0", "x"))
        return outcome

    monkeypatch.setattr(command, "run_seed", broken)
    assert command.main(["--seeds", "50", "--jobs", "1", "--failures-max", "2"]) == 1
    assert "FAILED: 2 of 2 seeds" in capsys.readouterr().out


def test_nonsense_is_refused():
    with pytest.raises(SystemExit) as stopped:
        command.main(["--seeds", "0"])
    assert stopped.value.code == 2
