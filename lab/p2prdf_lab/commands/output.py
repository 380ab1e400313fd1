"""Output files of an experiment (JSON document, figure), and time and memory of its run.

The files are checked before the run, so that a long run does not end without a place for its result.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import platform
import resource
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from p2prdf_lab.experiments.results import Panel

__all__ = ["FORMATS", "JsonFile", "PlotFile", "document_foot", "peak_bytes", "refuse_early", "write_document",
           "write_figure"]  # fmt: skip

FORMATS: Final = (".png", ".svg", ".pdf")
"""Suffixes of figure files."""

STDOUT: Final = "-"


def _figure_file(path: Path | None) -> Path | None:
    if path is None:
        return None
    if path.suffix.lower() not in FORMATS:
        raise typer.BadParameter(f"{path}: a figure's name ends in {', '.join(FORMATS)}")
    try:
        importlib.import_module("matplotlib")
    except ImportError as error:
        raise typer.BadParameter(f"figures need matplotlib: pip install './lab[plot]' ({error})") from None
    return path


PlotFile = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", callback=_figure_file, help="File for the figure: .png, .svg or .pdf."),
]

JsonFile = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE|-", help="File for all results as one JSON document; - is standard output."),
]


def refuse_early(plot: Path | None, document: str | None) -> None:
    """Raise OSError, with the name, if a file cannot be written."""
    for path in (plot, None if document in (None, STDOUT) else Path(document or "")):
        if path is None:
            continue
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "there is no such folder to write it to", str(path))
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def write_document(document: dict[str, Any], to: str) -> None:
    """Write a JSON document to a file, or to standard output (``-``)."""
    text = json.dumps(document, ensure_ascii=False, indent=2)
    if to == STDOUT:
        print(text)
    else:
        Path(to).write_text(text + "\n", "utf-8")


def write_figure(path: Path, title: str, panels: Sequence[Panel], foot: str) -> None:
    """Draw panels into a file; its suffix is the format."""
    from p2prdf_lab.commands.figure import draw, rendered

    path.write_bytes(rendered(draw(title, panels, foot), path.suffix.lower().removeprefix(".")))


def peak_bytes() -> int:
    """Return the peak memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def document_foot(seconds: float) -> dict[str, Any]:
    """Return time, memory and versions of a run, for the end of a document."""
    return {
        "seconds": round(seconds, 3),
        "peak_bytes": peak_bytes(),
        "versions": {
            "p2prdf": version("p2prdf"), "python": platform.python_version(), "numpy": version("numpy"),
        },
    }  # fmt: skip
