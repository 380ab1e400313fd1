"""``p2prdf export``: all statements as of one stamp in a file, resumable.

The command appends each page to ``FILE.partial`` and then stores its progress in ``FILE.progress``.  A continued run
truncates the first to the length in the second, and asks the nodes for the next page of the same export.  In a
compressed file each page is a part of its own, so the file can be cut between pages.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from p2prdf.errors import LocalProtocolError, Unavailable
from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import EXIT_CODES_HELP, run
from p2prdf_cli.options import PEER_DEFAULT, RECONNECT_DEFAULT, Json, Peer, Reconnect, with_options

if TYPE_CHECKING:
    from p2prdf.client import Client, Export
    from p2prdf_cli.progress import RunBar

__all__ = ["Progress", "register"]

SUFFIXES: Final = {"": (".nq", ".nq.gz"), "stream": (".tsv", ".tsv.gz")}
"""Names of files, by their content."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXIT_CODES_HELP)(export)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New file: .nq or .nq.gz; elements: .tsv or .tsv.gz.")]
    peer: Peer = field(default_factory=PEER_DEFAULT.copy)
    stream: Annotated[
        str | None, typer.Option(metavar="IRI", help="Export the elements of this stream, with event times.")
    ] = None
    restart: Annotated[bool, typer.Option("--restart", help="Forget an interrupted export; begin a new one.")] = False
    reconnect: Reconnect = RECONNECT_DEFAULT
    as_json: Json = False


@with_options(_Options)
def export(options: _Options) -> None:
    """Write all statements as of one moment to a file, while publications go on.

    After an interruption, run the same command again within an hour: it continues
    the same export. p2prdf publish FILE restores the statements.

    \b
    Examples:
      p2prdf export everything.nq.gz
      p2prdf export --stream urn:example:readings readings.tsv.gz
    """
    suffixes = SUFFIXES["stream" if options.stream else ""]
    if not options.file.name.endswith(suffixes):
        raise typer.BadParameter(f"{options.file}: the name must end in {' or '.join(suffixes)}")
    run(_export(options))


@dataclass(frozen=True, slots=True)
class Progress:
    """The stored progress of an export: its stream, number and stamp, the last place, and lines and bytes written."""

    stream: str
    number: int
    stamp: int
    place: int = 0
    lines: int = 0
    size: int = 0

    @classmethod
    def read(cls, path: Path) -> Progress | None:
        """Return the progress in a file, None if there is none.  Raises LocalProtocolError for other content."""
        try:
            found = json.loads(path.read_bytes())
            return cls(str(found.pop("stream")), **{name: int(value) for name, value in found.items()})
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError):
            reason = f"{path} is not the progress of an export; remove it, or begin a new export with --restart"
            raise LocalProtocolError(reason) from None

    def write(self, path: Path) -> None:
        """Store the progress; after a crash the file has its old or its new content."""
        fresh = path.with_name(path.name + ".new")
        with fresh.open("w") as stream:
            json.dump(asdict(self), stream)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(path)


class _Output:
    """The file being written: ``FILE.partial`` and ``FILE.progress`` until the export is complete."""

    def __init__(self, path: Path, stream: str, *, restart: bool):
        """Raise LocalProtocolError if the file exists or the stored progress does not fit, and OSError."""
        self.path = path
        self._partial = path.with_name(path.name + ".partial")
        self._stored = path.with_name(path.name + ".progress")
        if path.exists():
            raise LocalProtocolError(f"{path} exists; remove it, or choose another name")
        self.progress = None if restart else Progress.read(self._stored)
        if self.progress is not None:
            self._check(self.progress, stream)
        self._file = self._partial.open("r+b" if self.progress is not None else "wb")
        self._file.truncate(0 if self.progress is None else self.progress.size)
        self._file.seek(0, os.SEEK_END)
        self._pack: Callable[[bytes], bytes] = _gzipped if path.name.endswith(".gz") else bytes

    def _check(self, found: Progress, stream: str) -> None:
        if found.stream != stream:
            content = f"the stream {found.stream}" if found.stream else "all statements"
            raise LocalProtocolError(f"{self._stored} belongs to an export of {content}; --restart begins a new one")
        size = self._partial.stat().st_size if self._partial.exists() else 0
        if size < found.size:
            reason = f"{self._partial} has {size} bytes, {found.size} are expected; --restart begins a new export"
            raise LocalProtocolError(reason)

    def begin(self, progress: Progress) -> None:
        """Store the beginning of a new export."""
        self._stored.unlink(missing_ok=True)
        self.progress = progress
        progress.write(self._stored)

    def append(self, lines: tuple[str, ...], upto: int) -> None:
        """Write a page, and store the progress when it is on the disk."""
        assert self.progress is not None
        if lines:
            self._file.write(self._pack(("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")))
            self._file.flush()
            os.fsync(self._file.fileno())
        written = self.progress.lines + len(lines)
        self.progress = replace(self.progress, place=upto, lines=written, size=self._file.tell())
        self.progress.write(self._stored)

    def finish(self) -> None:
        """Give the complete file its name.  Raises LocalProtocolError if that name was taken meanwhile."""
        assert self.progress is not None
        if not self.progress.size:
            self._file.write(self._pack(b""))
        self.close()
        try:
            os.link(self._partial, self.path)
        except FileExistsError:
            reason = f"{self.path} was made meanwhile; the export is complete in {self._partial}"
            raise LocalProtocolError(reason) from None
        self._partial.unlink()
        self._stored.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _gzipped(content: bytes) -> bytes:
    import gzip

    return gzip.compress(content, 6, mtime=0)


async def _export(options: _Options) -> None:
    from p2prdf.rdf import terms
    from p2prdf_cli.progress import RunBar
    from p2prdf_cli.render import reconnections_reported

    stream = "" if options.stream is None else terms.iri(options.stream)
    output = _Output(options.file, stream, restart=options.restart)
    began = time.monotonic()
    try:
        with RunBar(options.file.name) as bar, reconnections_reported():
            async with connect(options.peer, reconnect_seconds=options.reconnect) as client:
                resumed = output.progress is not None and output.progress.lines
                export = await _opened(client, output, stream)
                await _write(export, output, bar)
                await export.end()
    finally:
        output.close()
    _report(output, options, resumed or 0, time.monotonic() - began)


async def _opened(client: Client, output: _Output, stream: str) -> Export:
    if output.progress is not None:
        return client.continue_export(output.progress.number, output.progress.stamp)
    export = await client.export(stream=stream)
    output.begin(Progress(stream, export.number, export.stamp))
    return export


async def _write(export: Export, output: _Output, bar: RunBar) -> None:
    from p2prdf.client.export import LAST_PLACE

    assert output.progress is not None
    try:
        async for page in export.pages(output.progress.place):
            output.append(page.lines, page.upto)
            bar.show(page.upto / LAST_PLACE)
    except Unavailable as error:
        raise Unavailable(f"{error}; the same command continues, --restart begins a new export") from None
    output.finish()


def _report(output: _Output, options: _Options, resumed: int, seconds: float) -> None:
    from p2prdf import hlc
    from p2prdf_cli.render import write_json

    progress = output.progress
    assert progress is not None
    what = "elements" if options.stream else "statements"
    if options.as_json:
        write_json(
            {
                "file": str(options.file), what: progress.lines, "resumed_after": resumed,
                "stamp": progress.stamp, "as_of": hlc.seconds(progress.stamp), "seconds": round(seconds, 3),
            },
            line=True,
        )  # fmt: skip
        return
    before = f" (after {resumed:,} earlier)" if resumed else ""
    print(f"{options.file}: {progress.lines:,} {what} as of {hlc.shown(progress.stamp)}{before} in {seconds:.1f} s")
