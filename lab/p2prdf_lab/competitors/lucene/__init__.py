"""Apache Lucene's Monitor, Lucene's index of standing queries, over the same queries and publications.

Maven fetches the library on first use, and Java compiles ``StandingQueries.java`` in memory, so the checkout gets no
build output.  Queries and publications become terms of fields.  A predicate is a field with the words of its text as
terms; two further fields have predicates, and predicates with objects.

A document satisfies a query for all of its terms exactly if the publication satisfies the query, provided that

* a publication has one subject and no repeated predicate, so that the triple of a word is irrelevant and joins of
  subjects always hold;
* a query has words, without phrases, proximity, negation, disjunction, languages, stems or words with ``*``; its
  predicates are constants; its variables are subjects or occur once.

Other queries and publications are refused: the Monitor would only find candidates for them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from p2prdf.errors import LocalProtocolError
from p2prdf.text import Publication, TextPattern, TextQuery, Triple
from p2prdf.text.alternatives import alternatives, count
from p2prdf.text.query import is_constant, is_variable

__all__ = ["WEIGHTS", "LuceneFiles", "LuceneRun", "class_path", "document_row", "query_row"]

WEIGHTS: Final = ("length", "rarity")
"""The Monitor's selection of the terms that index a query: by its default, or by rarity in a sample."""

_HERE: Final = Path(__file__).parent
_FETCHING_SECONDS: Final = 600
_RUNNING_SECONDS: Final = 3600
_HEAP: Final = "-Xmx4g"
_SHOWN_MAX: Final = 300
_PREDICATE, _OBJECT = "predicate", "object"
_NANO: Final = 1e-9


def class_path() -> str:
    """Return Lucene's class path, after fetching the classes if necessary.

    Raises LocalProtocolError, with the reason, if Java or Maven is missing or Maven cannot fetch Lucene.
    """
    for program, package in (("java", "a JDK of version 11 or newer"), ("mvn", "Apache Maven")):
        if shutil.which(program) is None:
            raise LocalProtocolError(f"there is no {program} on the PATH, which {package} has")
    with tempfile.TemporaryDirectory(prefix="p2prdf-lucene-") as folder:
        told = Path(folder) / "classpath"
        goal = ("dependency:build-classpath", f"-Dmdep.outputFile={told}")
        _run(["mvn", "-B", "-q", "-f", str(_HERE / "pom.xml"), *goal], _FETCHING_SECONDS)
        return told.read_text().strip()


def query_row(key: int, query: TextQuery) -> str:
    """Return a query's line: its number, then alternating fields and required terms.

    Raises LocalProtocolError for a query that terms cannot express.
    """
    asked: dict[tuple[str, str], None] = {}
    subjects = {pattern.s for pattern in query.patterns}
    names = [name for pattern in query.patterns for name in (pattern.p, pattern.o) if is_variable(name)]
    if len(subjects) > 1 or any(map(is_constant, subjects)) or len({*names, *subjects}) < len(names) + 1:
        raise LocalProtocolError(f"query {key}: its patterns are not about one subject, or have equal objects")
    for pattern in query.patterns:
        asked.update(dict.fromkeys(_asked(key, pattern)))
    return "\t".join((str(key), *(part for each in asked for part in each)))


def _asked(key: int, pattern: TextPattern) -> Iterator[tuple[str, str]]:
    if not is_constant(pattern.p) or pattern.o.startswith('"'):
        raise LocalProtocolError(f"query {key}: a predicate is not given, or an object is a literal")
    if pattern.condition is None:
        yield (_OBJECT, pattern.p + pattern.o) if is_constant(pattern.o) else (_PREDICATE, pattern.p)
        return
    choices = alternatives(pattern.condition) if count(pattern.condition) == 1 else ()
    if not choices or choices[0].globs or choices[0].rest is not None:
        raise LocalProtocolError(f"query {key}: a condition asks for more than words: {pattern.condition}")
    for word in choices[0].words:
        yield pattern.p, word


def document_row(triples: Iterable[Triple]) -> str:
    """Return a publication's line: alternating fields and their terms, separated by blanks.

    Raises LocalProtocolError for a publication with several subjects or a repeated predicate.
    """
    publication = Publication(triples)
    subjects, predicates, _ = zip(*publication.triples, strict=True)
    if len(set(subjects)) > 1 or len(set(predicates)) < len(predicates):
        raise LocalProtocolError(f"a publication with several subjects, or a predicate twice: {subjects[0]}")
    row = [_PREDICATE, " ".join(predicates)]
    objects = [p + o for _, p, o in publication.triples if not o.startswith('"')]
    row += [_OBJECT, " ".join(objects)]
    for place, p in enumerate(predicates):
        text = publication.text(place)
        if text is not None:
            row += [p, " ".join(text.words)]
    return "\t".join(row)


@dataclass(frozen=True, slots=True)
class LuceneRun:
    """Measurements of one run of the Monitor: processor time of its thread, in seconds."""

    passes: int
    weights: str
    queries: int
    insertion: float
    rounds: tuple[float, ...]
    """Seconds of each round over all documents."""
    heap_bytes: int
    candidates: int
    """Evaluated queries, over all documents of a round."""
    found: tuple[tuple[int, ...], ...]
    """The numbers of the queries that each document satisfies."""


class LuceneFiles:
    """Input files of the program: queries, publications, and a ``sample`` of publications for the rarity of words."""

    def __init__(self, folder: Path, libraries: str):
        self._folder = folder
        self._libraries = libraries

    def write(
        self,
        queries: Iterable[tuple[int, TextQuery]],
        publications: Iterable[Sequence[Triple]],
        sample: Iterable[Sequence[Triple]],
    ) -> None:
        """Write all files.  Raises LocalProtocolError for queries and publications that terms cannot express."""
        rows = (query_row(key, query) for key, query in queries)
        for name, lines in (
            ("queries", rows), ("documents", map(document_row, publications)), ("sample", map(document_row, sample))
        ):  # fmt: skip
            with (self._folder / name).open("w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)

    def run(self, passes: int, weights: str, rounds: int) -> LuceneRun:
        """Run the Monitor over the files.  Raises LocalProtocolError if Java fails."""
        queries, documents, sample, matches = (
            str(self._folder / name) for name in ("queries", "documents", "sample", "matches")
        )
        program = ["java", _HEAP, "-XX:+UseSerialGC", "-cp", self._libraries, str(_HERE / "StandingQueries.java")]
        program += [queries, documents, sample, matches, str(passes), weights, str(rounds)]
        lines = [line.split("\t") for line in _run(program, _RUNNING_SECONDS).splitlines()]
        values = {name: int(value) for name, value in lines}
        found = tuple(tuple(map(int, line.split())) for line in Path(matches).read_text(encoding="utf-8").splitlines())
        spent = tuple(_NANO * int(value) for name, value in lines if name == "round")
        insertion = _NANO * values["insertion"]
        return LuceneRun(
            passes, weights, values["queries"], insertion, spent, values["heap"], values["run"], found
        )  # fmt: skip


def _run(command: list[str], seconds: int) -> str:
    """Return the output of a program.  Raises LocalProtocolError, with the reason in its output, if it fails."""
    try:
        outcome = subprocess.run(command, check=False, capture_output=True, text=True, timeout=seconds)  # noqa: S603 - what the user's PATH has
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LocalProtocolError(f"{command[0]} did not end well: {error}") from None
    if outcome.returncode:
        said = (outcome.stderr + outcome.stdout).splitlines()
        reasons = (line for line in said if re.search("error|exception", line, re.IGNORECASE))
        raise LocalProtocolError(f"{command[0]} failed: {next(reasons, 'it does not say why')[:_SHOWN_MAX]}")
    return outcome.stdout
