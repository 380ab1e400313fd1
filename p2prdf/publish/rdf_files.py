"""RDF files as Spark frames: lines of large files in many partitions, other formats file by file.

Spark reads N-Triples and N-Quads as text. Plain and bzip2 files are split; others (gzip, Zstandard) form one
partition each. The executors parse the lines (:mod:`p2prdf.publish.rdf_lines`). Other formats cannot
be split: one task reads each file.

A file's blank nodes become IRIs of its own (:mod:`p2prdf.rdf.terms`), the same in all its partitions and at
each reading, so a repeated job publishes the same triples.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.functions import inline
from pyspark.sql.pandas.functions import arrow_udf

from p2prdf.errors import DataRefused, LocalProtocolError
from p2prdf.publish.rdf_lines import lists_of, parse_file, parse_lines, publication_of
from p2prdf.rdf.ntriples import Syntax, detect, read_triples

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_rdf", "stream_rdf"]

_STATEMENTS: Final = "array<struct<s: string, p: string, o: string, graph: string>>"
_OF_LINES: Final = (
    "value", "_metadata.file_path path", "_metadata.file_size size", "_metadata.file_modification_time at",
)  # fmt: skip
_OF_FILES: Final = "content", "path", "length size", "modificationTime at"
_COMPRESSED: Final = ("", ".gz", ".bz2", ".zst")
_WHOLE: Final = {
    Syntax.TURTLE: ("ttl", "ttl.gz"), Syntax.TRIG: ("trig", "trig.gz"),
    Syntax.RDF_XML: ("rdf", "rdf.gz", "owl", "owl.gz"), Syntax.JSON_LD: ("jsonld", "jsonld.gz"),
    Syntax.JELLY: ("jelly", "jelly.gz"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _How:
    """Parameters for the executors."""

    syntax: Syntax
    salt: str
    strict: bool
    bad_lines_path: str
    count: Any
    base: str | None = None


def read_rdf(
    spark: SparkSession,
    paths: str | Sequence[str],
    *,
    publication: str = "",
    strict: bool = False,
    bad_lines: Accumulator[int] | None = None,
    bad_lines_path: str = "",
    base: str | None = None,
) -> DataFrame:
    """Return the statements of RDF files as a frame of ``s``, ``p``, ``o`` and ``graph``.

    A null graph is the default graph. ``paths``: files, folders (recursively) and globs, on any file system of
    Spark. Endings determine formats: .nt and .nq, also .gz, .bz2 and .zst; .ttl, .trig, .rdf, .owl,
    .jsonld and .jelly, also .gz. Named files with other endings are refused; in folders they are skipped.
    ``publication``: part of the IRIs of blank nodes, besides path, size and time of their file. ``base``:
    resolves relative IRIs in whole files.

    A bad line is skipped, counted by ``bad_lines`` (an accumulator; repeated tasks count again) and, with
    ``bad_lines_path``, written by the executors to files in that folder. An error in another format is treated
    alike and ends its file. ``strict``: it ends the job instead (DataRefused). Raises LocalProtocolError if
    there is no file.
    """
    wanted = [paths] if isinstance(paths, str) else list(paths)
    by_syntax = _listed(spark, wanted)
    if not by_syntax:
        raise LocalProtocolError(f"there is no RDF file in {', '.join(wanted)}")
    frames = []
    for syntax, files in by_syntax.items():
        how = _How(syntax, publication, strict, bad_lines_path, bad_lines, base)
        frames.append(_parsed(spark.read.format(_format(syntax)).load(files), how))
    return reduce(_union, frames)


def stream_rdf(
    spark: SparkSession,
    folder: str,
    *,
    publication: str = "",
    strict: bool = False,
    bad_lines: Accumulator[int] | None = None,
    bad_lines_path: str = "",
    base: str | None = None,
    files_per_batch: int = 100,
) -> DataFrame:
    """Return a streaming frame of the statements in RDF files that appear in a folder.

    A file must be complete when it appears: write it elsewhere and move it. Files with other endings are
    skipped. ``files_per_batch``: bound on the files of each format per batch. Otherwise as :func:`read_rdf`.
    """
    frames = []
    for syntax in Syntax:
        endings = [syntax.value + each for each in _COMPRESSED] if syntax.by_lines else _WHOLE[syntax]
        how = _How(syntax, publication, strict, bad_lines_path, bad_lines, base)
        stream = spark.readStream.format(_format(syntax)).schema(_RAW[syntax.by_lines])
        stream = stream.option("maxFilesPerTrigger", files_per_batch)
        stream = stream.option("pathGlobFilter", f"*.{{{','.join(endings)}}}")
        frames.append(_parsed(stream.load(folder), how))
    return reduce(_union, frames)


_RAW: Final = {True: "value string", False: "path string, modificationTime timestamp, length long, content binary"}


def _format(syntax: Syntax) -> str:
    return "text" if syntax.by_lines else "binaryFile"


def _parsed(frame: DataFrame, how: _How) -> DataFrame:
    """Parse in the executors.  (``mapInArrow`` would do as well, but needs pandas.)"""
    by_lines = how.syntax.by_lines
    work = _by_lines if by_lines else _by_files

    def parse(value: pa.Array, path: pa.Array, size: pa.Array, at: pa.Array) -> pa.Array:
        return work(how, value, path, size, at)

    raw = frame.selectExpr(*(_OF_LINES if by_lines else _OF_FILES))
    make: Any = arrow_udf  # its overloads have integer constants of Spark for types
    return raw.select(inline(make(parse, _STATEMENTS)(*raw.columns)))


def _union(one: DataFrame, two: DataFrame) -> DataFrame:
    return one.union(two)


def _listed(spark: SparkSession, paths: Iterable[str]) -> dict[Syntax, list[str]]:
    """Return the files that paths name, by format."""
    jvm: Any = spark._jvm
    settings = spark._jsc.hadoopConfiguration()
    found: dict[Syntax, list[str]] = {}
    for path in paths:
        place = jvm.org.apache.hadoop.fs.Path(path)
        files = place.getFileSystem(settings)
        matches = files.globStatus(place)
        if not matches:
            raise LocalProtocolError(f"{path}: no such file or folder")
        for match in matches:
            if match.isFile():
                name = match.getPath().toString()
                found.setdefault(_syntax(name), []).append(name)
                continue
            below = files.listFiles(match.getPath(), True)
            while below.hasNext():
                name = below.next().getPath().toString()
                try:
                    found.setdefault(_syntax(name), []).append(name)
                except DataRefused:
                    continue  # other files in a folder are skipped
    return {syntax: sorted(found[syntax]) for syntax in sorted(found, key=lambda syntax: syntax.value)}


def _syntax(name: str) -> Syntax:
    plain = name
    for ending in (".bz2", ".zst"):
        plain = plain.removesuffix(ending)
    syntax, compressed = detect(plain)
    unread = compressed and not plain.lower().endswith(".gz")
    if unread or (plain != name and (compressed or not syntax.by_lines)):
        raise DataRefused("compressed in a way that is not read for this format", source=name)
    return syntax


# --- in the executors ----------------------------------------------------------------------------


class _Faults:
    """Bad lines of one batch: counted, written, or raised."""

    def __init__(self, how: _How):
        self._how = how
        self._file: Any = None

    def tell(self, source: str, reason: str, line: int | None, text: str | None) -> None:
        """Report a bad line."""
        how = self._how
        if how.strict:
            raise DataRefused(f"{reason}{'' if text is None else f': {text[:200]!r}'}", source=source, line=line)
        if how.count is not None:
            how.count.add(1)
        if how.bad_lines_path:
            if self._file is None:
                self._file = self._open(Path(how.bad_lines_path))
            entry = {"file": source, "line": line, "reason": reason, "text": text}
            self._file.write(json.dumps(entry, ensure_ascii=False) + "\n")

    @staticmethod
    def _open(folder: Path) -> Any:
        context = TaskContext.get()
        assert context is not None, "files are read by tasks"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"stage-{context.stageId()}-part-{context.partitionId():05d}-attempt-{context.attemptNumber()}.jsonl"
        return (folder / name).open("a", encoding="utf-8")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _by_lines(how: _How, lines: pa.Array, path: pa.Array, size: pa.Array, at: pa.Array) -> pa.Array:
    runs = _files_of(path, size, at, how.salt)
    faults = _Faults(how)

    def fault(row: int, reason: str) -> None:
        source = next(name for start, _, name in reversed(runs) if start <= row)
        faults.tell(source, reason, None, lines[row].cast(pa.binary()).as_py().decode(errors="replace"))

    found = parse_lines(lines, how.syntax, [(start, publication) for start, publication, _ in runs], fault)
    faults.close()
    return found


def _files_of(path: Any, size: Any, at: Any, salt: str) -> list[tuple[int, str, str]]:
    """Return the first row of each file, with the file's publication and path."""
    if not len(path):
        return []
    runs = pc.run_end_encode(path)
    modified = at.cast(pa.int64())
    return [
        (start, publication_of(salt, name, size[start].as_py(), modified[start].as_py()), name)
        for start, name in zip([0, *runs.run_ends.to_pylist()[:-1]], runs.values.to_pylist(), strict=True)
    ]


def _by_files(how: _How, content: pa.Array, path: pa.Array, size: pa.Array, at: pa.Array) -> pa.Array:
    faults = _Faults(how)
    modified = at.cast(pa.int64())
    parts, ends = [], [0]
    for row, name in enumerate(path.to_pylist()):
        batches = read_triples(
            io.BytesIO(content[row].as_buffer()), syntax=how.syntax, compressed=name.endswith(".gz"), source=name,
            publication_id=publication_of(how.salt, name, size[row].as_py(), modified[row].as_py()), base=how.base,
        )  # fmt: skip

        def fault(error: DataRefused, name: str = name) -> None:
            faults.tell(name, error.reason, error.line, None)

        parts.append(parse_file(batches, fault))
        ends.append(ends[-1] + len(parts[-1][0]))
    faults.close()
    parts.append((pa.array([], pa.string()),) * 4)
    s, p, o, graph = map(pa.concat_arrays, zip(*parts, strict=True))
    return lists_of((s, p, o, graph), np.array(ends))
