"""``p2prdf changesets``: difference of two dumps as changeset files, and publication of changesets."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from p2prdf_cli.commands import Commands
from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import EXIT_CODES_HELP, ExitCode, run, run_plain
from p2prdf_cli.options import PEER_DEFAULT, Json, Peer

if TYPE_CHECKING:
    from p2prdf.interest import Changeset

__all__ = ["BlankScope", "Changes", "StartAt", "register", "warn_of_clear"]

_HELP: Final = """Write and publish changesets: the deleted and added triples of a dataset.

\b
Examples:
  p2prdf changesets diff monday.nt.gz tuesday.nt.gz changes
  p2prdf changesets publish changes --dataset http://dbpedia.org --start monday.nt.gz
"""

BlankScope = Annotated[
    str | None,
    typer.Option(
        "--blank-scope", metavar="NAME",
        help="Make IRIs of blank nodes; without, refuse them.",
    ),
]  # fmt: skip

Changes = Annotated[
    list[str],
    typer.Argument(
        metavar="FOLDER|PATCH|URL...",
        help="Changesets: folders, URLs or RDF Patches.",
    ),
]
StartAt = Annotated[
    str | None,
    typer.Option(
        "--start-at", metavar="POSITION",
        help="Last changeset in --start, or a later day or hour.",
    ),
]  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commands = Commands(help=_HELP)
    commands.command("diff", epilog=EXIT_CODES_HELP)(diff)
    commands.command("publish", epilog=EXIT_CODES_HELP)(publish)
    app.add_typer(commands, name="changesets", help=_HELP)


def warn_of_clear(changeset: Changeset) -> dict[str, int]:
    """Warn if a changeset has a file to clear, which is not applied; return its number of triples as a JSON key."""
    if (left := changeset.not_applied) is None:
        return {}
    why = "deleting all triples of a subject takes look-ups that changesets do not need; apply a diff of dumps instead"
    print(f"p2prdf: warning: {left.source}: {left.triples:,} triples to clear are not applied: {why}", file=sys.stderr)
    return {"clear_not_applied": left.triples}


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A dump: .nt, .ttl, .rdf, also with .gz.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="A later dump.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of changesets; the next number is used.")],
    run_triples: Annotated[
        int, typer.Option(min=1000, metavar="N", help="Triples sorted in memory at once, 400 bytes each.")
    ] = 500_000,
    blank_scope: BlankScope = None,
) -> None:
    """Write the difference of two dumps as the next changeset of a folder.

    The files are NNNNNN.removed.nt.gz and NNNNNN.added.nt.gz. Dumps may be larger
    than memory; the folder needs about their size meanwhile.

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
        for word, path in paths.items():  # complete before it gets its final name
            Path(f"{scratch}/{word}").rename(path)
    print(f"{folder}/{number:06}: {counts['removed']:,} removed, {counts['added']:,} added")
    return ExitCode.OK


def publish(
    changes: Changes,
    dataset: Annotated[str, typer.Option("--dataset", metavar="IRI", help="Graph of the dataset.")],
    peer: Peer = PEER_DEFAULT,
    start: Annotated[
        Path | None,
        typer.Option("--start", metavar="FILE", help="Dump of the dataset before the first changeset."),
    ] = None,
    start_at: StartAt = None,
    follow: Annotated[bool, typer.Option("--follow", help="Continue with new changesets until stopped.")] = False,
    interval: Annotated[
        float, typer.Option(min=0.05, metavar="SECONDS", help="Polling interval for new changesets.")
    ] = 5.0,
    blank_scope: BlankScope = None,
    as_json: Json = False,
) -> None:
    """Publish changesets into the graph of a dataset, after the last published one.

    Each changeset is a deletion and a publication, in order. The cluster stores the
    position of the dataset.

    \b
    Examples:
      p2prdf changesets publish changes --dataset http://dbpedia.org --start monday.nt.gz
      p2prdf changesets publish changes --dataset http://dbpedia.org --follow
      p2prdf changesets publish log.rdfp --dataset urn:example:places --start places.ttl
      p2prdf changesets publish http://live.example.org/changesets/ --follow \\
          --dataset http://dbpedia.org --start dump.nt.gz --start-at 2014/10/02
    """
    wanted = (changes, dataset, start, start_at, interval if follow else None, blank_scope)
    run(_publish(peer, *wanted, as_json=as_json))


async def _publish(
    peer: list[str], changes: list[str], dataset: str, start: Path | None, start_at: str | None, interval: float | None,
    blank_scope: str | None, *, as_json: bool,
) -> ExitCode:  # fmt: skip
    from p2prdf.errors import LocalProtocolError
    from p2prdf.rdf import terms
    from p2prdf.replica.changeset_files import checked_position, read_file
    from p2prdf.replica.publishing import DatasetPublisher
    from p2prdf.replica.replica import START
    from p2prdf.replica.sources import open_sources

    first = START if start_at is None else checked_position(start_at)
    async with (
        contextlib.aclosing(open_sources(changes, blank_scope=blank_scope)) as sources,
        connect(peer) as client,
    ):
        publisher = DatasetPublisher(client, terms.iri(dataset))
        await publisher.begin()
        if publisher.position is None:
            if start is None:
                raise LocalProtocolError(f"{dataset} is not published yet: begin with --start")
            dump = list(read_file(start, blank_scope=blank_scope, triples_max=None))
            count = await publisher.start(dump, first)
            print(f"p2prdf: the dataset begins with {count:,} triples", file=sys.stderr)
        while True:
            at = first if publisher.position == START else publisher.position
            after = None if at == START else at
            gap = None
            async with contextlib.aclosing(sources.changesets(after, growing=interval is not None)) as given:
                async for position, changeset in given:
                    if changeset is None:
                        gap = position
                        break
                    await publisher.publish(position, changeset)
                    told: dict[str, object] = {
                        "position": position, "removed": len(changeset.removed), "added": len(changeset.added),
                        **warn_of_clear(changeset),
                    }  # fmt: skip
                    text = f"{position}: {len(changeset.removed):,} removed, {len(changeset.added):,} added"
                    print(json.dumps(told) if as_json else text, flush=True)
            if interval is None:
                if gap is not None:
                    print(f"p2prdf: {gap} is missing: later changesets were not published", file=sys.stderr)
                return ExitCode.OK if gap is None else ExitCode.FAILURE
            await asyncio.sleep(interval)
