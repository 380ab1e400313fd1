"""``p2prdf experiment incremental-reasoning`` at its smallest: its counts are checked, its times are only printed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner
from typer.testing import Result as Outcome

from p2prdf.reasoning.maintenance import Change
from p2prdf_cli.app import app
from p2prdf_lab.experiments import reasoning
from p2prdf_lab.experiments.engines import ENGINES, Engine
from p2prdf_lab.experiments.reasoning import RATES, ReasoningSetting, incremental_reasoning
from p2prdf_lab.workloads.isin_stream import StreamShape

PROGRAMS = ("naive", "volz", "counting", "paper", "stream, by rules", "stream, only mended", "stream")
TINY = ReasoningSetting(StreamShape(window=100), steps=2, rates=(0.1,))
SMALL = ("--scale", 0.01, "--steps", 1, "--depth", 4)


def _experiment(*arguments: object) -> Outcome:
    return CliRunner().invoke(app, ["experiment", "incremental-reasoning", *map(str, arguments)], terminal_width=100)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out foreign reasoners, which take seconds: a test of them adds them itself."""
    monkeypatch.setattr(reasoning, "ENGINES", ())


def test_people_get_times_counts_claims_and_a_figure(tmp_path: Path) -> None:
    outcome = _experiment(*SMALL, "--plot", tmp_path / "f.svg")
    assert outcome.exit_code in (0, 5), outcome.output
    claim = "✓ all programs have the same facts"
    for word in ("window 100, depth 4", "Time per step, ms", "Looked at per step", claim):
        assert word in outcome.stdout
    assert "volz becomes slower than naive" in outcome.stdout
    assert max(map(len, outcome.stdout.splitlines())) <= 100
    assert (tmp_path / "f.svg").read_text().count("<svg") == 1


@pytest.mark.long
def test_the_document_has_every_rate_and_program_and_equal_seeds_count_alike() -> None:
    once, again = (json.loads(_experiment(*SMALL, "--json", "-").stdout) for _ in range(2))
    times, counts = once["tables"][:2]
    assert [row[0] for row in counts["rows"]] == [round(100 * rate, 1) for rate in RATES]
    assert tuple(counts["columns"][3:]) == tuple(times["columns"][3:]) == PROGRAMS
    assert counts == again["tables"][1]
    assert once["claims"][0]["holds"]
    assert all(panel["x_log"] and panel["y_log"] for panel in once["panels"])


def test_few_changes_touch_few_facts_and_many_never_much_more_than_all() -> None:
    """Counts, so on any machine: at 1 % a tenth of all, and recomputation where repair would touch more."""
    result = incremental_reasoning(ReasoningSetting(StreamShape(window=500, parents=2), steps=3, rates=(0.01, 0.5)))
    low, high = (dict(zip(result.tables[1].columns, row, strict=True)) for row in result.tables[1].rows)
    assert low["stream"] == low["stream, only mended"] < low["naive"] / 10
    assert high["stream"] < high["stream, only mended"]
    assert high["stream"] < 1.2 * high["naive"]


@pytest.mark.parametrize("window", [100, 200, 500])
def test_a_window_has_the_same_size_for_any_rate_of_change(window: int) -> None:
    setting = ReasoningSetting(StreamShape(window=window, taken_back=0.0, depth=1), steps=1, rates=(0.05, 1 / 3, 0.5))
    result = incremental_reasoning(setting)
    assert all(abs(facts - window) <= 2 for facts in (row[2] for row in result.tables[1].rows))


def test_a_program_that_errs_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(reasoning.Volz):
        def step(self, now, given=None, taken_back=()) -> Change:
            return super().step(now, dict(list((given or {}).items())[1:]), taken_back)

    monkeypatch.setitem(reasoning._PROGRAMS, "volz", lambda: Forgetful([reasoning.TRANSITIVE], lambda _: 0))
    result = incremental_reasoning(TINY)
    assert not result.claims[0].holds


def test_reasoners_that_are_not_installed_are_named_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasoning, "ENGINES", ENGINES)
    monkeypatch.setitem(sys.modules, "owlrl", None)
    monkeypatch.setitem(sys.modules, "reasonable", None)
    result = incremental_reasoning(TINY)
    assert result.notes == ["Not installed, so not compared: reasonable, owlrl (pip install reasonable owlrl)."]
    assert len(result.tables) == 2


@pytest.mark.parametrize("engine", ENGINES, ids=lambda each: each.module)
def test_reasoners_by_others_find_the_same(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(engine.module)
    monkeypatch.setattr(reasoning, "ENGINES", (engine,))
    result = incremental_reasoning(TINY)
    assert [row[0] for row in result.tables[2].rows] == [f"{engine.module}, 1 %", f"{engine.module}, 10 %"]
    assert result.claims[0].holds
    monkeypatch.setattr(reasoning, "ENGINES", (Engine(engine.module, lambda _: lambda: {(0, 0)}),))
    assert not incremental_reasoning(TINY).claims[0].holds


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("--scale", 0), 2, "--scale"),
        (("--depth", 0), 2, "depth: 0"),
        (("--steps", 0), 2, "steps: 0"),
        (("--taken-back", 2), 2, "taken_back: 2.0"),
        (("--pool", 1), 2, "pool: 1.0"),
        (("--plot", "nowhere/f.png"), 1, "nowhere/f.png: there is no such folder"),
    ],
)
def test_bad_input_is_refused_by_name_before_the_run(
    arguments: tuple, code: int, named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def never(*_) -> None:
        raise AssertionError("it ran")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reasoning, "incremental_reasoning", never)
    outcome = _experiment(*arguments)
    assert outcome.exit_code == code, outcome.output
    assert named in " ".join(outcome.stderr.replace("│", " ").split())
