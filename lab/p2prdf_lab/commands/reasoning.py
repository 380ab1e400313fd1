"""``p2prdf experiment incremental-reasoning``: a comparison of programs that maintain derived facts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from p2prdf.errors import LocalProtocolError
from p2prdf_cli.exits import ExitCode, run_plain
from p2prdf_lab.commands.output import (
    JsonFile,
    PlotFile,
    document_foot,
    peak_bytes,
    refuse_early,
    write_document,
    write_figure,
)

if TYPE_CHECKING:
    from p2prdf_lab.experiments.reasoning import ReasoningSetting

__all__ = ["NAME", "incremental_reasoning"]

NAME: Final = "incremental-reasoning"
_WINDOW: Final = 10_000
_SCALE: Final = 0.2


def incremental_reasoning(
    scale: Annotated[
        float, typer.Option(min=0.01, max=10, metavar="F", help=f"Size of the window, in {_WINDOW:,} triples.")
    ] = _SCALE,
    depth: Annotated[int, typer.Option(metavar="N", help="Depth of the trees.")] = 8,
    fan_out: Annotated[int, typer.Option(metavar="N", help="Children of each node.")] = 2,
    parents: Annotated[int, typer.Option(metavar="N", help="Parents of each node; 1: trees.")] = 1,
    pool: Annotated[float, typer.Option(metavar="F", help="Size of the pool of triples, in windows.")] = 1.6,
    background: Annotated[float, typer.Option(metavar="F", help="Share of the pool that is never removed.")] = 0.0,
    taken_back: Annotated[
        float, typer.Option(metavar="F", help="Share of expiring triples that are deleted before they expire.")
    ] = 0.1,
    steps: Annotated[int, typer.Option(metavar="N", help="Steps timed at each rate of change.")] = 15,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal streams.")] = 1,
    plot: PlotFile = None,
    document: JsonFile = None,
) -> None:
    """Stream reasoning: maintain derived facts, by seven programs.

    Trees of isIn triples stream through a window, of which 0.1 % to 50 % changes per
    step; isIn is transitive. All programs must hold the same closure. Prints time
    and facts visited per step. Also runs owlrl and reasonable if installed.

    \b
    Examples:
      p2prdf experiment incremental-reasoning
      p2prdf experiment incremental-reasoning --scale 1 --plot reasoning.png
      p2prdf experiment incremental-reasoning --depth 5 --fan-out 3 --json - | jq .claims
      p2prdf experiment incremental-reasoning --fan-out 4 --depth 5 --parents 3
    """
    from p2prdf_lab.experiments.reasoning import ReasoningSetting
    from p2prdf_lab.workloads.isin_stream import StreamShape

    shape = StreamShape(round(_WINDOW * scale), depth, fan_out, pool, background, taken_back, parents)
    setting = ReasoningSetting(shape, steps, seed)
    try:
        setting.validate()
    except LocalProtocolError as error:
        raise typer.BadParameter(str(error)) from None

    def action() -> ExitCode:
        refuse_early(plot, document)
        return _run(setting, plot, document)

    run_plain(action)


def _run(setting: ReasoningSetting, plot: Path | None, document: str | None) -> ExitCode:
    from p2prdf_cli.progress import RunBar
    from p2prdf_lab.commands.report import setting_text, write_result
    from p2prdf_lab.experiments import reasoning

    started = time.monotonic()
    with RunBar(f"{NAME}: a window of {setting.shape.window:,} triples") as bar:
        result = reasoning.incremental_reasoning(setting, bar.show)
    seconds = time.monotonic() - started
    if plot is not None:
        write_figure(plot, result.title, result.panels, setting_text(result.setting))
    if document is not None:
        write_document({**result.as_dict(), **document_foot(seconds)}, document)
    if document != "-":
        write_result(result, seconds, peak_bytes(), plot)
    return ExitCode.OK if all(claim.holds for claim in result.claims) else ExitCode.CLAIM
