"""``p2prdf experiment interest-replica``: the share of a dataset's changes that a replica needs, and its cost."""

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
    from p2prdf_lab.experiments.interest_replica import ReplicaSetting

__all__ = ["NAME", "interest_replica"]

NAME: Final = "interest-replica"
_SLICE: Final = 265_622
_SCALE: Final = 0.1


def interest_replica(
    scale: Annotated[
        float, typer.Option(min=0.01, max=10, metavar="F", help=f"Size of the Football slice, in {_SLICE:,} triples.")
    ] = _SCALE,
    changesets: Annotated[int, typer.Option(metavar="N", help="Changesets of each of five days.")] = 10,
    interests: Annotated[int, typer.Option(metavar="N", help="Interests in one pass.")] = 10_000,
    changes: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of changesets of DBpedia Live. (default: a generated feed)"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal feeds.")] = 1,
    plot: PlotFile = None,
    document: JsonFile = None,
) -> None:
    """Interest replicas: the relevant part of a dataset's changes, and its cost.

    Changesets as large as DBpedia Live's in the paper pass a Football and a Location
    interest. Prints sizes and times by day, the effect of a bound on potentially
    interesting triples, and the cost of 10,000 interests in one pass.

    \b
    Examples:
      p2prdf experiment interest-replica
      p2prdf experiment interest-replica --scale 1 --changesets 40 --plot replica.png
      p2prdf experiment interest-replica --changes dbpedia-live --json - | jq .claims
    """
    from p2prdf_lab.experiments.interest_replica import ReplicaSetting
    from p2prdf_lab.workloads.changeset_feed import FeedShape

    setting = ReplicaSetting(FeedShape(round(_SLICE * scale), changesets, seed), interests, changes)
    try:
        setting.validate()
    except (LocalProtocolError, DataRefused) as error:
        raise typer.BadParameter(str(error)) from None

    def action() -> ExitCode:
        refuse_early(plot, document)
        return _run(setting, plot, document)

    run_plain(action)


def _run(setting: ReplicaSetting, plot: Path | None, document: str | None) -> ExitCode:
    from p2prdf_cli.progress import RunBar
    from p2prdf_lab.commands.report import setting_text, write_result
    from p2prdf_lab.experiments import interest_replica as experiment

    started = time.monotonic()
    with RunBar(f"{NAME}: changesets through two interests, and through {setting.interests:,}") as bar:
        result = experiment.interest_replica(setting, bar.show)
    seconds = time.monotonic() - started
    if plot is not None:
        write_figure(plot, result.title, result.panels, setting_text(result.setting))
    if document is not None:
        write_document({**result.as_dict(), **document_foot(seconds)}, document)
    if document != "-":
        write_result(result, seconds, peak_bytes(), plot)
    return ExitCode.OK if all(claim.holds for claim in result.claims) else ExitCode.CLAIM
