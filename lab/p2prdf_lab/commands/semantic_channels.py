"""``p2prdf experiment semantic-channels``: early notifications on channels over a knowledge base."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from p2prdf.errors import DataRefused, LocalProtocolError
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
    from p2prdf_lab.experiments.semantic_channels import ChannelsSetting

__all__ = ["NAME", "semantic_channels"]

NAME: Final = "semantic-channels"


def semantic_channels(
    universities: Annotated[int, typer.Option(metavar="1|10", help="Number of universities.")] = 1,
    graphs: Annotated[int, typer.Option(metavar="N", help="Graphs that are published and measured.")] = 1000,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder with lubm1-seed0.nt.xz, univ-bench.owl and queries/."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give graphs in an equal order.")] = 1,
    plot: PlotFile = None,
    document: JsonFile = None,
) -> None:
    """Semantic channels (SENS): predict new bindings before the query runs.

    Descriptions of universities (LUBM) are published in random order; the
    benchmark's 14 queries are channels. Prints lead times, predicted shares and
    graphs per second, by four heuristics, their competition and both evaluators.

    \b
    Examples:
      p2prdf experiment semantic-channels --plot channels.svg
      p2prdf experiment semantic-channels --universities 10 --graphs 200
      p2prdf experiment semantic-channels --data lubm --json - | jq .claims
    """
    from p2prdf_lab.experiments.semantic_channels import ChannelsSetting
    from p2prdf_lab.workloads.universities import find_universities

    try:
        ChannelsSetting(Path(), universities, graphs, seed).validate()
        setting = ChannelsSetting(find_universities(universities, data), universities, graphs, seed)
    except (LocalProtocolError, DataRefused) as error:
        raise typer.BadParameter(str(error)) from None

    def action() -> ExitCode:
        refuse_early(plot, document)
        return _run(setting, plot, document)

    run_plain(action)


def _run(setting: ChannelsSetting, plot: Path | None, document: str | None) -> ExitCode:
    from p2prdf_cli.progress import RunBar
    from p2prdf_lab.commands.report import setting_text, write_result
    from p2prdf_lab.experiments import semantic_channels as experiment

    started = time.monotonic()
    with RunBar(f"{NAME}: {setting.last:,} graphs, 14 channels") as bar:
        result = experiment.semantic_channels(setting, bar.show)
    seconds = time.monotonic() - started
    result.notes.append(f"Data: {setting.folder}.")
    if plot is not None:
        write_figure(plot, result.title, result.panels, setting_text(result.setting))
    if document is not None:
        write_document({**result.as_dict(), **document_foot(seconds)}, document)
    if document != "-":
        write_result(result, seconds, peak_bytes(), plot)
    return ExitCode.OK if all(claim.holds for claim in result.claims) else ExitCode.CLAIM
