"""``p2prdf publish``: acknowledged and resumable publication of files and streams."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import EXIT_CODES_HELP, run
from p2prdf_cli.loading import contexts_of
from p2prdf_cli.options import PEER_DEFAULT, RECONNECT_DEFAULT, Json, Peer, Reconnect, with_options
from p2prdf_cli.publish_stream import StreamOptions, publish_elements

if TYPE_CHECKING:
    from p2prdf.client import Client, Progress, Stream
    from p2prdf.rdf.ntriples import BadLine
    from p2prdf.rdf.remote_contexts import Contexts
    from p2prdf_cli.progress import PublishBar
    from p2prdf_cli.publish_state import Entry, FileIdentity, StateFile
    from p2prdf_cli.sources import Feeder, Input

__all__ = ["register"]

BAD_LINES_TOLD: Final = 10
"""Malformed lines of one file that are reported; further ones are only counted."""


class SyntaxName(enum.StrEnum):
    """Formats, by file name suffix."""

    nt = "nt"
    nq = "nq"
    ttl = "ttl"
    trig = "trig"
    rdf = "rdf"
    jsonld = "jsonld"
    jelly = "jelly"


class Level(enum.StrEnum):
    """When a publication is acknowledged."""

    indexed = "indexed"
    accepted = "accepted"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXIT_CODES_HELP)(publish)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="RDF: .nt .nq .ttl .trig .rdf .owl .jsonld .jelly, also .gz .bz2 .xz .zst; -: standard input.",
        ),
    ]
    peer: Peer = field(default_factory=PEER_DEFAULT.copy)
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first malformed line.")
    ] = False
    syntax: Annotated[SyntaxName | None, typer.Option(help="Format. (default: by the file name)")] = None
    base: Annotated[
        str | None,
        typer.Option(metavar="IRI", help="Base IRI for relative IRIs."),
    ] = None
    context_from: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST[:PORT]", help="Permitted host of JSON-LD contexts."),
    ] = None
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Permit private and loopback addresses of these hosts.")
    ] = False
    state: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the progress. (default: ~/.local/state/p2prdf/publish.json)"),
    ] = None
    restart: Annotated[bool, typer.Option("--restart", help="Forget the progress; publish from the start.")] = False
    reconnect: Reconnect = RECONNECT_DEFAULT
    ack: Annotated[
        Level, typer.Option(help="Acknowledge when indexed at all owners, or durably staged.")
    ] = Level.indexed
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the triples; solutions made of them are retracted.")
    ] = False
    graph: Annotated[
        str | None, typer.Option(metavar="IRI", help="Graph of triples that name none.")
    ] = None
    trace: Annotated[
        str | None,
        typer.Option(metavar="TRACEPARENT|new", help="Trace the publications under this W3C traceparent."),
    ] = None
    stream: Annotated[
        str | None, typer.Option(metavar="IRI", help="Publish the statements as elements of this stream.")
    ] = None
    timed: Annotated[
        bool, typer.Option("--timed", help="Lines are TIME<TAB>statement; TIME: epoch seconds or xsd:dateTime.")
    ] = False
    event_time: Annotated[
        str | None, typer.Option("--time", metavar="TIME|now", help="Event time of all elements. (default: now)")
    ] = None
    lateness: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Largest disorder of event times.")] = 0.0
    pace: Annotated[
        float, typer.Option(min=0, metavar="FACTOR", help="Speed-up over event times; 0: as fast as possible.")
    ] = 0.0
    upto: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Final watermark. (default: the last event time)"),
    ] = None
    as_json: Json = False
    elements: StreamOptions | None = None
    """The checked options of a stream."""

    @property
    def is_timed(self) -> bool:
        """Whether lines have event times."""
        return self.elements is not None and self.elements.time is None


@with_options(_Settings)
def publish(settings: _Settings) -> None:
    """Publish RDF; acknowledged when indexed at all owners.

    After an interruption, run the same command again: it continues after the last
    acknowledged statement, and no statement counts twice.

    \b
    Examples:
      p2prdf publish airports.nt.gz
      zcat dump.nt.gz | p2prdf publish -
      p2prdf publish --delete outdated.nt
      p2prdf publish --stream urn:example:readings --timed readings.tsv --lateness 2
    """
    plain = not settings.delete and settings.graph is None and settings.trace is None
    elements = StreamOptions.of(
        settings.stream, event_time=settings.event_time, timed=settings.timed, lateness=settings.lateness,
        pace=settings.pace, upto=settings.upto, files=len(settings.files),
        without=not plain or settings.ack is not Level.indexed,
    )  # fmt: skip
    run(_publish_all(replace(settings, elements=elements)))


async def _publish_all(settings: _Settings) -> None:
    from p2prdf.rdf import terms
    from p2prdf_cli.progress import PublishBar
    from p2prdf_cli.publish_state import StateFile, default_state_file
    from p2prdf_cli.render import reconnections_reported
    from p2prdf_cli.sources import choose_input

    syntax = None if settings.syntax is None else settings.syntax.value
    inputs = [choose_input(name, syntax, timed=settings.is_timed) for name in settings.files]
    graph = None if settings.graph is None else terms.iri(settings.graph)
    contexts = contexts_of(settings.context_from or (), private=settings.allow_private)
    settings = replace(settings, trace=_traceparent(settings.trace))
    store = StateFile(settings.state or default_state_file())
    async with connect(settings.peer, reconnect_seconds=settings.reconnect) as client:
        with PublishBar() as bar, reconnections_reported(bar.say):
            for source in inputs:
                await _Publication(client, source, store, settings, graph, bar, contexts).run()


def _traceparent(given: str | None) -> str | None:
    """Return the trace context of the option; a new one is printed."""
    from p2prdf_cli.render import remark
    from p2prdf_cli.trace_tree import new_traceparent

    if given != "new":
        return given
    made = new_traceparent()
    remark(f"trace {made.split('-')[1]}")
    return made


class _Publication:
    """Publication of one input."""

    def __init__(
        self, client: Client, source: Input, store: StateFile, settings: _Settings, graph: str | None, bar: PublishBar,
        contexts: Contexts | None,
    ):  # fmt: skip
        self._client = client
        self._source = source
        self._store = store
        self._settings = settings
        self._graph = graph
        self._bar = bar
        self._contexts = contexts
        self._triples = 0
        self._identity: FileIdentity | None = None
        self._feeder: Feeder | None = None
        self._stream: Stream | None = None

    async def run(self) -> None:
        """Publish and report.  Raises the error that ended the publication early, after saving the progress."""
        from p2prdf_cli.sources import Feeder

        entry = self._entry()
        self._feeder = Feeder(
            self._source, publication_id=f"{entry.publisher:016x}", strict=self._settings.strict,
            skip=entry.statements, base=self._settings.base, on_bad_line=self._bad_line,
            contexts=self._contexts,
        )  # fmt: skip
        self._bar.begin(self._source.name, self._identity.size if self._identity else None, entry.statements)
        self._note(entry, now=True)
        started = time.monotonic()
        latest = entry

        def progress(done: Progress, stream: Stream | None = None) -> None:
            nonlocal latest
            assert self._feeder is not None
            self._triples = done.triples
            if done.statements:
                latest = replace(entry, statements=done.statements)
                if stream is not None:
                    latest = replace(latest, began=stream.began, latest=stream.latest)
                self._note(latest)
            self._bar.advance(done.triples, self._feeder.position, self._feeder.bad_lines)

        try:
            await self._send(self._feeder, entry, progress)
        finally:
            self._note(latest, now=True)
        if self._feeder.error is None and self._identity is not None:
            self._store.forget(self._identity)
        self._report(entry.statements, time.monotonic() - started)
        if self._feeder.error is not None:
            raise self._feeder.error

    async def _send(self, feeder: Feeder, entry: Entry, progress: Callable[..., None]) -> None:
        settings = self._settings
        if settings.elements is not None:
            self._stream = await publish_elements(self._client, settings.elements, feeder, entry, progress)
            return
        await (self._client.retract if settings.delete else self._client.publish)(
            feeder, publisher=entry.publisher, first_event=entry.statements, on_progress=progress,
            acknowledge=settings.ack.value, graph=self._graph, trace=settings.trace,
        )  # fmt: skip

    def _entry(self) -> Entry:
        """Return the saved progress, or a new entry."""
        from p2prdf_cli.publish_state import Entry, FileIdentity, new_publisher
        from p2prdf_cli.render import remark

        stream = self._settings.elements
        began = None if stream is None else stream.began()
        if self._source.path is None or self._source.live:  # the next run reads other data
            return Entry(FileIdentity(self._source.name, 0, 0), new_publisher(), 0, began)
        self._identity = FileIdentity.of(
            self._source.path, removed=self._settings.delete, graph=self._graph or "",
            stream="" if stream is None else stream.iri, times="" if stream is None else stream.times,
        )  # fmt: skip
        found = None if self._settings.restart else self._store.find(self._identity)
        if found is not None and found.statements:
            remark(f"{self._source.name}: continuing after statement {found.statements:,}")
        return found or Entry(self._identity, new_publisher(), 0, began)

    def _note(self, entry: Entry, *, now: bool = False) -> None:
        if self._identity is not None:
            self._store.note(entry, now=now)

    def _bad_line(self, bad: BadLine) -> None:
        """Report a malformed line; called by the reading thread."""
        assert self._feeder is not None
        if self._feeder.bad_lines <= BAD_LINES_TOLD:
            self._bar.say(f"{self._source.name}:{bad.line}: skipped: {bad.reason}")
        if self._feeder.bad_lines == BAD_LINES_TOLD:
            self._bar.say(f"{self._source.name}: further skipped lines are only counted")

    def _report(self, resumed_after: int, seconds: float) -> None:
        from p2prdf_cli.render import write_json

        assert self._feeder is not None
        bad = self._feeder.bad_lines
        if self._settings.as_json:
            write_json(
                {
                    "file": self._source.name,
                    "triples": self._triples,
                    "resumed_after": resumed_after,
                    "bad_lines": bad,
                    "seconds": round(seconds, 3),
                    **({"removed": True} if self._settings.delete else {}),
                    **self._promised(),
                },
                line=True,
            )
            return
        rate = self._triples / seconds if seconds > 0 else 0.0
        before = f" (after {resumed_after:,} earlier)" if resumed_after else ""
        skipped = f", {bad:,} malformed line{'s' if bad != 1 else ''} skipped" if bad else ""
        timing = f"in {seconds:.1f} s, {rate:,.0f}/s"
        done = "deleted" if self._settings.delete else "published"
        done = f"published into {self._stream.iri}" if self._stream is not None else done
        print(f"{self._source.name}: {self._triples:,} triples {done}{before} {timing}{skipped}")

    def _promised(self) -> dict[str, object]:
        """Return the JSON keys of a stream: its IRI, and its final watermark in seconds."""
        stream = self._stream
        if stream is None:
            return {}
        return {"stream": stream.iri[1:-1], "upto": None if stream.promised is None else stream.promised / 1000}
