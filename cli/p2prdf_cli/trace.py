"""``p2prdf trace``: the spans of traced publications, from the logs of all nodes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from p2prdf_cli.exits import EXIT_CODES_HELP, run_plain
from p2prdf_cli.options import Json

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXIT_CODES_HELP)(trace)


def trace(
    files: Annotated[
        list[Path], typer.Argument(metavar="LOG...", help="Logs of nodes (JSON lines); - is standard input.")
    ],
    number: Annotated[
        str | None,
        typer.Option("--trace", metavar="ID", help="Identifier of a trace, 32 hexadecimal digits. (default: all)"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the trees of traced publications from the logs of nodes.

    A line has the start after the first span, the duration, the node and the kind:
    publish (until all owners have it), index, join, answer, deliver, acknowledge;
    send is an instant. Times are those of each node's clock.

    \b
    Examples:
      p2prdf trace node-*.log --trace 4bf92f3577b34da6a3ce929d0e0e4736
      kubectl logs -l app=p2prdf --prefix=false --tail=-1 | p2prdf trace -
    """
    if number is not None and not re.fullmatch(r"[0-9a-f]{32}", number):
        raise typer.BadParameter(f"{number!r} is not 32 hexadecimal digits", param_hint="--trace")
    run_plain(lambda: _report(files, number, as_json=as_json))


def _report(files: list[Path], number: str | None, *, as_json: bool) -> None:
    from p2prdf.errors import DataRefused
    from p2prdf_cli.render import remark, write_json
    from p2prdf_cli.trace_tree import LINES_MAX, describe, spans_of, trees

    spans = list(islice(spans_of(_lines(files), number), LINES_MAX + 1))
    if len(spans) > LINES_MAX:
        remark(f"more than {LINES_MAX:,} spans: only the first are shown; --trace selects one trace")
        del spans[LINES_MAX:]
    found = trees(spans)
    if not found:
        which = "no trace" if number is None else f"no line of trace {number}"
        raise DataRefused(f"{which} in {', '.join(map(str, files))}")
    for tree in found:
        if as_json:
            for span in tree:
                write_json(span.json(), line=True)
        else:
            print("\n".join(describe(tree)))


def _lines(files: list[Path]) -> Iterator[str]:
    for path in files:
        if str(path) == "-":
            yield from sys.stdin
        else:
            with path.open(encoding="utf-8", errors="replace") as lines:
                yield from lines
