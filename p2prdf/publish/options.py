"""Options of a write to the overlay: names, values and combinations.

Names of columns are case-insensitive, as in Spark by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from p2prdf.errors import LocalProtocolError
from p2prdf.publish.given import OptionReader
from p2prdf.publish.template import Template
from p2prdf.rdf import terms
from p2prdf.rdf.quads import DEFAULT
from p2prdf.tls import Tls
from p2prdf.wire.codec import ROWS_MAX
from p2prdf.wire.messages import INDEXED, LEVELS

__all__ = ["CONTENT", "POSITION", "ColumnOption", "MappingOptions", "WriteOptions", "writing_options"]

POSITION: Final = "position"
CONTENT: Final = "content"
"""How repeated rows are identified."""

_OF_COLUMNS: Final = ("predicate", "object", "datatype", "language")


@dataclass(frozen=True, slots=True)
class ColumnOption:
    """The mapping of one column: a predicate, and either literals or IRIs from a template."""

    column: str
    predicate: str
    template: Template | None = None
    datatype: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class MappingOptions:
    """Maps ordinary columns to triples.  ``kind``: the class (an IRI) of every subject, or None."""

    subject: Template
    columns: tuple[ColumnOption, ...]
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """All options of a write; names in brackets are those of the options.

    ``peers``: nodes to publish at (``peers``, ``host:port`` separated by commas). ``discover``: also publish at
    the nodes that those report. ``mapping``: None if columns s, p, o contain terms. ``graph``: a canonical IRI,
    for rows without a graph. ``identity``: ``position``, ``content``, or "" for the default. ``job``: the name
    of a batch job; its repetition publishes equal rows as the same events. ``skip``: skip bad rows
    (``badRows``), and write them to ``bad_rows_path``. ``report``: a file to which each commit appends a line.
    ``partition_rate``: bound on the triples a second of one partition; 0: no bound. ``tls``: files for
    connecting.
    """

    peers: tuple[str, ...]
    discover: bool = True
    mapping: MappingOptions | None = None
    graph: str = DEFAULT
    identity: str = ""
    job: str = ""
    skip: bool = False
    bad_rows_path: str = ""
    report: str = ""
    batch_triples: int = 10_000
    acknowledge: str = INDEXED
    busy_seconds: float = 300.0
    connect_seconds: float = 5.0
    timeout_seconds: float = 30.0
    reconnect_seconds: float = 60.0
    partition_rate: float = 0.0
    tls: Tls | None = None


def writing_options(given: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a write.  Raises LocalProtocolError, naming the option."""
    return _Reader(given).write_options()


class _Reader(OptionReader):
    def write_options(self) -> WriteOptions:
        """Read all options; refuse others."""
        if self.given.get("path"):
            raise LocalProtocolError(f"path {self.given['path']!r}: the option peers names the target, not path")
        seconds = {
            name: self.number(option, default, 0.0)
            for name, option, default in (
                ("busy_seconds", "busySeconds", 300.0), ("connect_seconds", "connectSeconds", 5.0),
                ("timeout_seconds", "timeoutSeconds", 30.0), ("reconnect_seconds", "reconnectSeconds", 60.0),
            )
        }  # fmt: skip
        options = WriteOptions(
            peers=self.peers(),
            discover=self.flag("discover", default=True),
            mapping=self._mapping(),
            graph=self._iri("graph") or DEFAULT,
            identity=self.one_of("identity", "", (POSITION, CONTENT)),
            job=self.text("job"),
            skip=self.one_of("badRows", "fail", ("fail", "skip")) == "skip",
            bad_rows_path=self.text("badRowsPath"),
            report=self.text("report"),
            batch_triples=int(self.number("batchTriples", 10_000, 1, ROWS_MAX)),
            acknowledge=self.one_of("acknowledge", INDEXED, LEVELS),
            partition_rate=self.number("partitionRate", 0.0, 0.0),
            tls=self.tls(),
            **seconds,
        )
        self.refuse_others()
        if options.bad_rows_path and not options.skip:
            raise LocalProtocolError("option badRowsPath needs badRows = skip")
        return options

    def _iri(self, name: str) -> str:
        text = self.text(name)
        return _iri(name, text) if text else ""

    def _mapping(self) -> MappingOptions | None:
        subject = self.text("subject")
        kind = self._iri("class") or None
        by_column: dict[str, dict[str, str]] = {}
        for name, value in self.given.items():
            of, dot, column = name.partition(".")
            if dot and of in _OF_COLUMNS:
                self.take(name)
                by_column.setdefault(column, {})[of] = value.strip()
        if not subject:
            if by_column or kind:
                raise LocalProtocolError("option subject is missing: the template of the subjects of these columns")
            return None
        if not by_column and not kind:
            raise LocalProtocolError("options predicate.COLUMN are missing: no column would become a triple")
        columns = tuple(_column(column, said) for column, said in by_column.items())
        return MappingOptions(_template("subject", subject), columns, kind)


def _column(column: str, said: dict[str, str]) -> ColumnOption:
    if "predicate" not in said:
        raise LocalProtocolError(f"option predicate.{column} is missing, option {next(iter(said))}.{column} is there")
    if sum(name in said for name in ("object", "datatype", "language")) > 1:
        raise LocalProtocolError(f"column {column} has several of object, datatype and language: give one")
    datatype, language = said.get("datatype"), said.get("language")
    if language is not None:
        terms.literal("", language=language)
    return ColumnOption(
        column,
        _iri(f"predicate.{column}", said["predicate"]),
        _template(f"object.{column}", said["object"]) if "object" in said else None,
        _iri(f"datatype.{column}", datatype)[1:-1] if datatype is not None else None,
        language,
    )


def _iri(name: str, text: str) -> str:
    try:
        return terms.iri(text.removeprefix("<").removesuffix(">"))
    except LocalProtocolError as error:
        raise LocalProtocolError(f"option {name}: {error}") from None


def _template(name: str, text: str) -> Template:
    try:
        return Template.parse(text)
    except ValueError as error:
        raise LocalProtocolError(f"option {name}: {error}") from None
