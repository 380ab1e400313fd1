"""``p2prdf experiment full-text``: a comparison of matchers for standing full-text queries."""

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
    from p2prdf_lab.experiments.full_text import FullTextSetting

__all__ = ["NAME", "full_text"]

NAME: Final = "full-text"
_QUERIES: Final = 100_000
_SCALE: Final = 0.2


def full_text(
    scale: Annotated[
        float, typer.Option(min=0.001, max=10, metavar="F", help=f"Number of queries, in {_QUERIES:,}.")
    ] = _SCALE,
    texts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="N-Triples with literals of 60 words or more: .nt, .nt.gz or .nt.xz."),
    ] = None,
    steps: Annotated[int, typer.Option(metavar="N", help="Steps in which queries are added.")] = 5,
    publications: Annotated[int, typer.Option(metavar="N", help="Publications at each number of queries.")] = 300,
    seconds: Annotated[float, typer.Option(min=0.0, metavar="F", help="Time limit of one program at one size.")] = 5.0,
    growth: Annotated[int, typer.Option(metavar="N", help="Factor of further queries for the index alone.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal queries and publications.")] = 1,
    lucene: Annotated[bool, typer.Option("--lucene", help="Also run Lucene's Monitor; needs a JDK and mvn.")] = False,
    plot: PlotFile = None,
    document: JsonFile = None,
) -> None:
    """Full-text queries: find the queries that a publication satisfies.

    Compares the index of p2prdf, both variants of RTF, iBroker and brute force on
    items with real texts of about 53 words and up to 100,000 queries. Prints time,
    memory and insertion by number of queries, with 0, 50 and 100 % text.

    \b
    Examples:
      p2prdf experiment full-text
      p2prdf experiment full-text --scale 1 --plot full-text.svg
      p2prdf experiment full-text --lucene
      p2prdf experiment full-text --texts abstracts.nt.gz --json - | jq .claims
    """
    from p2prdf_lab.experiments.full_text import FullTextSetting
    from p2prdf_lab.workloads.passages import find_texts
    from p2prdf_lab.workloads.texts import TextShape

    setting = FullTextSetting(TextShape(seed=seed), round(_QUERIES * scale), steps, publications, seconds=seconds,
                              growth=growth)  # fmt: skip
    try:
        setting.validate()
        found = find_texts(texts)
    except (LocalProtocolError, DataRefused) as error:
        raise typer.BadParameter(str(error)) from None

    def action() -> ExitCode:
        refuse_early(plot, document)
        return _run(setting, found, lucene, plot, document)

    run_plain(action)


def _run(setting: FullTextSetting, texts: Path, lucene: bool, plot: Path | None, document: str | None) -> ExitCode:
    from p2prdf_cli.progress import RunBar
    from p2prdf_lab.commands.report import setting_text, write_result
    from p2prdf_lab.competitors.lucene import class_path
    from p2prdf_lab.experiments import full_text as experiment
    from p2prdf_lab.workloads.passages import read_passages

    passages = read_passages(texts)
    libraries, missing = None, ""
    if lucene:
        try:
            libraries = class_path()
        except LocalProtocolError as error:
            missing = f"Lucene was not run: {error}."
    started = time.monotonic()
    with RunBar(f"{NAME}: up to {setting.queries:,} queries") as bar:
        result = experiment.full_text(setting, passages, bar.show, libraries)
    seconds = time.monotonic() - started
    result.notes.append(f"Texts: {texts}, {len(passages):,} of 60 words or more.")
    if missing:
        result.notes.append(missing)
    if plot is not None:
        write_figure(plot, result.title, result.panels, setting_text(result.setting))
    if document is not None:
        write_document({**result.as_dict(), **document_foot(seconds)}, document)
    if document != "-":
        write_result(result, seconds, peak_bytes(), plot)
    return ExitCode.OK if all(claim.holds for claim in result.claims) else ExitCode.CLAIM
