"""``p2prdf experiment``: results as tables, claims, documents and figures, for every experiment of the registry."""

from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from matplotlib import image
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from rich.console import Console
from typer.testing import CliRunner
from typer.testing import Result as Outcome

from p2prdf_cli.app import app
from p2prdf_lab.commands.command import default_scale
from p2prdf_lab.commands.figure import amount, draw, rendered
from p2prdf_lab.commands.report import setting_text, write_tables
from p2prdf_lab.experiments import EXPERIMENTS, Experiment
from p2prdf_lab.experiments.results import Claim, Curve, Panel, Result, Table
from p2prdf_lab.experiments.setting import Setting

SMALL = ("--peers", 100, "--queries", 200, "--triples", 1000, "--instances", 5, "--values", 5)


def _experiment(*arguments: object) -> Outcome:
    return CliRunner().invoke(app, ["experiment", *map(str, arguments)], terminal_width=100)


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    """The results of every experiment at a very small size (at which not every claim need hold)."""
    sizes = {"peers": 60, "queries": 60, "triples": 600, "instances": 4, "values": 4}
    return {name: each.run(replace(each.setting, **sizes), lambda _: None) for name, each in EXPERIMENTS.items()}


# --- the command ---------------------------------------------------------------------------------


def test_help_lists_every_experiment_with_its_summary() -> None:
    listed = " ".join(_experiment("--help").output.replace("│", " ").split())
    for name, each in EXPERIMENTS.items():
        assert f"{name} {each.summary}" in listed


def test_people_get_tables_claims_and_the_time_and_memory_used() -> None:
    outcome = _experiment("load-distribution", *SMALL)
    assert outcome.exit_code in (0, 5), outcome.output
    for word in ("100 peers, 200 queries, 1,000 triples", "CSBV", "QPL total", "✓ ", "of memory"):
        assert word in outcome.stdout
    assert max(map(len, outcome.stdout.splitlines())) <= 100


def test_the_document_is_the_result_with_the_time_and_memory_used(tmp_path: Path) -> None:
    to_file = _experiment("load-distribution", *SMALL, "--json", tmp_path / "r.json")
    to_stdout = _experiment("load-distribution", *SMALL, "--json", "-")
    first, second = json.loads((tmp_path / "r.json").read_text()), json.loads(to_stdout.stdout)
    assert "QPL total" in to_file.stdout
    for document in (first, second):
        assert document.pop("seconds") > 0
        assert document.pop("peak_bytes") > 1 << 20
        assert set(document.pop("versions")) == {"p2prdf", "python", "numpy"}
    assert first == second
    assert first["setting"]["peers"] == 100
    assert first["tables"][0]["rows"]


def _made_up(*, holds: bool) -> Experiment:
    def run(setting, progress) -> Result:
        progress(1.0)
        curve = Curve("one", (0.0, 1.0), (0.0, float(setting.peers)))
        return Result(
            "made-up", "Made up", setting.as_dict(), [Table("T", ("a", "b"), (("x", 1),))],
            [Panel("P", "x", "y", (curve,))], [Claim("the sky is green", "it is blue", holds)],
        )  # fmt: skip

    return Experiment("Z1: made up", Setting(triples=150_000), run)


@pytest.mark.parametrize(("holds", "code", "mark"), [(True, 0, "✓"), (False, 5, "✗")])
def test_a_new_entry_of_the_registry_is_a_command_and_its_claims_decide_the_exit_code(
    holds: bool, code: int, mark: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(EXPERIMENTS, "made-up", _made_up(holds=holds))
    outcome = _experiment("made-up", "--plot", tmp_path / "f.svg", "--json", tmp_path / "r.json")
    assert outcome.exit_code == code, outcome.output
    assert f"{mark} the sky is green: it is blue" in outcome.stdout
    assert (tmp_path / "f.svg").read_text().count("<svg") == 1
    assert json.loads((tmp_path / "r.json").read_text())["setting"]["peers"] == 2000  # at the default scale, 0.1


def test_the_default_scale_is_small_and_shown() -> None:
    for name, each in EXPERIMENTS.items():
        scale = default_scale(each)
        assert each.at(scale).triples <= 15_000 or "triples" in each.keep
        assert f"[default: {scale}]" in " ".join(_experiment(name, "--help").output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("--scale", 0), 2, "scale: 0.0"),
        (("--scale", "nan"), 2, "scale: nan"),
        (("--peers", 0), 2, "--peers"),
        (("--key-encoding", "rot13"), 2, "rot13"),
        (("--triples", 3), 2, "triples: this experiment needs at least 4, not 3"),
        (("--plot", "load.gif"), 2, "load.gif"),
        (("--plot", "nowhere/load.png"), 1, "nowhere/load.png: there is no such folder"),
        (("--json", "nowhere/load.json"), 1, "nowhere/load.json: there is no such folder"),
        (("--plot", "folder.png"), 1, "folder.png: Is a directory"),
    ],
)
def test_bad_input_is_refused_by_name_before_the_run(
    arguments: tuple, code: int, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(setting, progress) -> Result:
        raise AssertionError("it ran")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.png").mkdir()
    monkeypatch.setitem(EXPERIMENTS, "load-distribution", Experiment("E1", Setting(), never, (), (("triples", 4),)))
    outcome = _experiment("load-distribution", *arguments)
    assert outcome.exit_code == code, outcome.output
    assert named in " ".join(outcome.stderr.replace("│", " ").split())
    assert outcome.stdout == ""


def test_without_matplotlib_a_figure_is_refused_with_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # an import now fails as if it were not installed
    outcome = _experiment("load-distribution", *SMALL, "--plot", tmp_path / "f.png")
    assert outcome.exit_code == 2
    assert "pip install './lab[plot]'" in " ".join(outcome.stderr.replace("│", " ").split())


# --- tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_tables_fit_and_nothing_of_them_is_cut_off(name: str, width: int, results: dict[str, Result]) -> None:
    for numbers in results[name].tables:
        stream = io.StringIO()
        write_tables(Console(file=stream, width=width, highlight=False), numbers)
        text = stream.getvalue()
        assert max(map(len, text.splitlines())) <= min(width, 100)
        words = set(text.split())
        for row in numbers.rows:
            for cell in row[1:]:
                spelled = cell if isinstance(cell, str) else f"{cell:,}".removesuffix(".0")
                assert set(spelled.split()) <= words or any(word.startswith(spelled) for word in words), cell


@pytest.mark.parametrize("width", range(40, 100, 5))
def test_numbers_as_wide_as_the_room_are_never_cut(width: int) -> None:
    names = ("run", *(f"a quantity {at}" for at in range(8)))
    numbers = Table("T", names, tuple((f"run {at}", *(123_456_789 + at,) * 8) for at in range(6)))
    stream = io.StringIO()
    write_tables(Console(file=stream, width=width, highlight=False), numbers)
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    found = [word for line in lines for word in line.split()]
    assert all(found.count(f"{123_456_789 + at:,}") == 8 for at in range(6))


def test_a_setting_is_one_line() -> None:
    text = setting_text(Setting().as_dict())
    assert text.startswith("20,000 peers, 100,000 queries, 600,000 triples, ")
    assert text.endswith("key encoding paper, seed 1")


# --- figures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_figure_has_an_axes_for_each_panel_with_all_its_curves_and_labels(
    name: str, results: dict[str, Result]
) -> None:
    result = results[name]
    figure = draw(result.title, result.panels, setting_text(result.setting))
    assert len(figure.axes) == len(result.panels) > 0
    for axes, panel in zip(figure.axes, result.panels, strict=True):
        drawn = axes.containers if panel.kind == "bars" else axes.lines
        assert len(drawn) == len(panel.curves)
        assert axes.get_title(loc="left") == panel.title
        assert axes.get_ylabel().replace("\n", " ") == panel.y_label
        assert axes.get_xlabel() == panel.x_label
        legend = axes.get_legend()
        assert (legend is None) == (len(panel.curves) == 1)
        assert legend is None or all(text.get_text() for text in legend.get_texts())
        if panel.kind == "lines":
            styles = {(line.get_linestyle(), line.get_color(), line.get_marker()) for line in axes.lines}
            assert len(styles) == len(panel.curves)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_figure_as_png_is_of_the_documented_width_and_not_blank(name: str, results: dict[str, Result]) -> None:
    result = results[name]
    png = image.imread(io.BytesIO(rendered(draw(result.title, result.panels, "foot"), "png")))
    assert png.shape[1] == 1605
    assert 0.01 < float(np.mean(png[..., :3] < 0.9)) < 0.5


@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_equal_results_give_equal_bytes_without_a_date(kind: str, results: dict[str, Result]) -> None:
    """Lines, bars, logarithmic axes: the first and the last panel of the experiment that has all of them."""
    result = results["address-cache"]
    panels = (result.panels[0], result.panels[-1])
    first, second = (rendered(draw(result.title, panels, "foot"), kind) for _ in range(2))
    assert first == second
    assert not re.search(rb"<dc:date>|CreationDate|20\d\d-\d\d-\d\d", first)
    assert first.startswith({"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}[kind])


def test_legends_lie_over_no_data(results: dict[str, Result]) -> None:
    result = results["load-distribution"]
    figure = draw(result.title, result.panels)
    figure.canvas.draw()
    for axes in figure.axes:
        legend = axes.get_legend().get_window_extent()
        assert legend.y0 >= axes.get_window_extent().y1 - 1
        assert legend.x1 <= figure.bbox.x1


@pytest.mark.parametrize("count", [5, 6])
def test_legends_of_any_number_of_curves_end_before_the_next_panel(count: int) -> None:
    """Six labels in two lines are three columns: with five the first alone would be full, and the line too long."""
    curves = tuple(Curve(f"a curve {at}", (0.1, 50.0), (1.0, 2.0)) for at in range(count))
    figure = draw("Legends", [Panel("P", "x", "y", curves, x_log=True, y_log=True)] * 2)
    figure.canvas.draw()
    left, right = (axes.get_legend().get_window_extent() for axes in figure.axes)
    assert left.x1 <= right.x0
    assert right.x1 <= figure.bbox.x1


def _overlapping(axes: Any, figure: Any) -> list[str]:
    """Return the labels of ticks that overlap the one before, along each axis, as rendered."""
    found = []
    renderer = FigureCanvasAgg(figure).get_renderer()
    for axis, low, high in ((axes.xaxis, "x0", "x1"), (axes.yaxis, "y0", "y1")):
        texts = [tick.label1 for tick in axis.get_major_ticks() if tick.label1.get_text() and tick.label1.get_visible()]
        begin, end = sorted(axis.get_view_interval())
        places = [tick.get_loc() for tick in axis.get_major_ticks() if tick.label1.get_text()]
        boxes = [
            (text.get_window_extent(renderer), text.get_text())
            for text, place in zip(texts, places, strict=True) if begin <= place <= end
        ]  # fmt: skip
        boxes.sort(key=lambda pair: getattr(pair[0], low))
        found += [name for (first, _), (second, name) in pairwise(boxes) if getattr(second, low) < getattr(first, high)]
    return found


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_labels_of_ticks_do_not_overlap(name: str, results: dict[str, Result]) -> None:
    figure = draw(results[name].title, results[name].panels)
    figure.canvas.draw()
    assert [_overlapping(axes, figure) for axes in figure.axes] == [[] for _ in figure.axes]


@pytest.mark.parametrize("decades", [1, 2, 3, 4, 6, 9])
def test_labels_of_logarithmic_axes_do_not_overlap(decades: int) -> None:
    curve = Curve("c", (1.0, 10.0**decades), (0.1, 10.0 ** (decades - 1)))
    figure = draw("decades", [Panel("P", "x", "y", (curve,), x_log=True, y_log=True)] * 4)
    figure.canvas.draw()
    assert [_overlapping(axes, figure) for axes in figure.axes] == [[]] * 4


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_program_has_one_colour_in_all_panels_and_no_other_has_it(name: str, results: dict[str, Result]) -> None:
    result = results[name]
    figure = draw(result.title, result.panels)
    colours: dict[str, set[Any]] = {}
    for axes, panel in zip(figure.axes, result.panels, strict=True):
        drawn = [each.patches[0].get_facecolor() for each in axes.containers] if panel.kind == "bars" else [
            to_rgba(line.get_color()) for line in axes.lines
        ]  # fmt: skip
        for curve, colour in zip(panel.curves, drawn, strict=True):
            colours.setdefault(curve.program or curve.label, set()).add(colour)
    assert all(len(each) == 1 for each in colours.values()), colours
    assert len(set.union(*colours.values())) == len(colours)


def test_variants_of_a_program_share_its_colour_and_differ_in_line_and_marker() -> None:
    first = Curve("A, fast", (1.0, 2.0), (1.0, 2.0), program="A")
    second = Curve("A, small", (1.0, 2.0), (2.0, 3.0), program="A")
    other = Curve("B", (1.0, 2.0), (3.0, 4.0))
    figure = draw("variants", [Panel("P", "x", "y", (first, second, other)), Panel("Q", "x", "y", (other, second))])
    (fast, small, b), (b_again, small_again) = (axes.lines for axes in figure.axes)
    assert fast.get_color() == small.get_color() != b.get_color()
    assert (fast.get_linestyle(), fast.get_marker()) != (small.get_linestyle(), small.get_marker())
    for one, again in ((b, b_again), (small, small_again)):
        assert (one.get_color(), one.get_marker()) == (again.get_color(), again.get_marker())


@pytest.mark.parametrize("kind", ["lines", "bars"])
def test_the_spread_over_seeds_is_drawn(kind: Literal["lines", "bars"]) -> None:
    curve = Curve("c", (0.0, 1.0), (2.0, 3.0), low=(1.0, 2.5), high=(2.5, 9.0))
    (axes,) = draw("spread", [Panel("P", "x", "y", (curve,), kind, ("a", "b") if kind == "bars" else ())]).axes
    assert len(axes.collections) == 1, "a band, or bars of error"
    assert axes.get_ylim()[1] > 9
    assert curve.as_dict()["high"] == [2.5, 9.0]


def test_values_below_zero_are_inside_the_axes() -> None:
    (axes,) = draw("loss", [Panel("P", "x", "y", (Curve("c", (0.0, 1.0), (-5.0, 10.0)),))]).axes
    assert axes.get_ylim()[0] < -5


def test_more_curves_than_styles_are_all_drawn() -> None:
    curves = tuple(Curve(f"c{at}", (0.0, 1.0), (0.0, float(at))) for at in range(9))
    figure = draw("many", [Panel("P", "x", "y", curves)])
    assert len(figure.axes[0].lines) == 9


@pytest.mark.parametrize(
    ("value", "spelled"),
    [(0, "0"), (5000, "5,000"), (2e6, "2 M"), (1.5e6, "1.5 M"), (2.25e9, "2.25 G"), (0.25, "0.25"), (2.5, "2.5"),
     (100000, "100,000")],
)  # fmt: skip
def test_axes_spell_numbers_for_people(value: float, spelled: str) -> None:
    assert amount(value) == spelled
