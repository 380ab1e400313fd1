"""``p2prdf changesets``: what a dataset lost and gained, as files."""

from __future__ import annotations

import gzip
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Final

import typer

from p2prdf_cli.exits import EXIT_CODES_HELP, ExitCode, run_plain

__all__ = ["BlankScope", "register"]

_HELP: Final = """Changesets of an evolving dataset: what was removed and added, as files.

\b
Examples:
  p2prdf changesets diff monday.nt.gz tuesday.nt.gz changes
"""

BlankScope = Annotated[
    str | None,
    typer.Option(
        "--blank-scope", metavar="NAME",
        help="Blank nodes become IRIs of this scope, where labels mean the same in all files; else they are refused.",
    ),
]  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commands = typer.Typer(no_args_is_help=True, help=_HELP)
    commands.callback()(_group)
    commands.command("diff", epilog=EXIT_CODES_HELP)(diff)
    app.add_typer(commands, name="changesets", help=_HELP)


def _group() -> None:
    pass


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A dump: .nt, .ttl, .rdf, also with .gz.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="A later dump.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where changesets are; the next number is taken.")],
    run_triples: Annotated[
        int, typer.Option(min=1000, metavar="N", help="Triples that are sorted in memory at once (400 bytes each).")
    ] = 500_000,
    blank_scope: BlankScope = None,
) -> None:
    """Write what differs between two dumps as the next changeset of a folder.

    The files are NNNNNN.removed.nt.gz and NNNNNN.added.nt.gz. Dumps may be
    larger than memory; the folder needs about their size in between.

    \b
    Examples:
      p2prdf changesets diff monday.nt.gz tuesday.nt.gz changes
      p2prdf changesets diff old.ttl new.ttl changes --blank-scope places
    """
    run_plain(lambda: _diff(old, new, folder, run_triples, blank_scope))


def _diff(old: Path, new: Path, folder: Path, run_triples: int, blank_scope: str | None) -> ExitCode:
    from p2prdf.replica.changeset_files import ChangesetFolder
    from p2prdf.replica.dump_diff import diff_dumps

    folder.mkdir(parents=True, exist_ok=True)
    known = ChangesetFolder(folder).scan()
    number = 1 + max((files.number for files in known.ready), default=0)
    counts = {"removed": 0, "added": 0}
    paths = {word: folder / f"{number:06}.{word}.nt.gz" for word in counts}
    with tempfile.TemporaryDirectory(prefix=".diff-", dir=folder) as scratch, ExitStack() as stack:
        streams = {
            word: stack.enter_context(gzip.open(f"{scratch}/{word}", "wt", encoding="utf-8", newline="\n"))
            for word in counts
        }
        for is_new, line in diff_dumps(old, new, Path(scratch), run_triples=run_triples, blank_scope=blank_scope):
            word = "added" if is_new else "removed"
            counts[word] += 1
            streams[word].write(line + "\n")
        for stream in streams.values():
            stream.close()
        for word, path in paths.items():  # whole before it has its name
            Path(f"{scratch}/{word}").rename(path)
    print(f"{folder}/{number:06}: {counts['removed']:,} removed, {counts['added']:,} added")
    return ExitCode.OK
