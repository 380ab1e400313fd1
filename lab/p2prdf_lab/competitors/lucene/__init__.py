"""Apache Lucene's Monitor, the library's own index of standing queries, run over the same queries and publications.

``StandingQueries.java`` is its program; Maven fetches the library on first use, and the machine's Java compiles the
program in memory, so nothing is built into the checkout.  Both read a neutral form: what a query asks for, and what a
publication has, as terms of fields.  A predicate is a field, and the words of its text, cut here, are its terms; two
fields more have predicates, and predicates with objects.

A document with these terms satisfies a query that asks for all of them exactly if the publication does, as long as

* a publication is about one subject and has no predicate twice, so that it does not matter which triple has a word, and
  joins of subjects always hold;
* a query asks for words and not for phrases, nearness, negation, disjunction, languages, stems or words with ``*``; its
  predicates are given; its variables are subjects, or occur once.

What is not so is refused: there the Monitor would find candidates to be verified, which is another comparison.
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
"""How the Monitor chooses the terms that a query is filed by: its own way, or by how rare they are in a sample."""

_HERE: Final = Path(__file__).parent
_FETCHING_SECONDS: Final = 600
_RUNNING_SECONDS: Final = 3600
_HEAP: Final = "-Xmx4g"
_SHOWN_MAX: Final = 300
_PREDICATE, _OBJECT = "predicate", "object"
_NANO: Final = 1e-9


def class_path() -> str:
    """Return where Lucene's classes are, fetched if need be.

    Raises LocalProtocolError if there is no Java or Maven, or Maven cannot fetch it; it says which.
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
    """Return a query's line: its number, and by turns a field and a term that it asks for.

    Raises LocalProtocolError for a query of which terms do not say everything.
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
    """Return a publication's line: by turns a field and the terms that it has there, separated by blanks.

    Raises LocalProtocolError for a publication with several subjects, or a predicate that occurs twice.
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
    """What one run of the Monitor took: processor time of its one thread, in seconds."""

    passes: int
    weights: str
    queries: int
    insertion: float
    rounds: tuple[float, ...]
    """Each time that all documents were matched."""
    heap_bytes: int
    candidates: int
    """Queries that were run, over all documents of a round."""
    found: tuple[tuple[int, ...], ...]
    """The numbers of the queries that each document satisfies."""


class LuceneFiles:
    """Queries and publications in the form that the program reads; ``sample``: publications to learn rarity from."""

    def __init__(self, folder: Path, libraries: str):
        self._folder = folder
        self._libraries = libraries

    def write(
        self,
        queries: Iterable[tuple[int, TextQuery]],
        publications: Iterable[Sequence[Triple]],
        sample: Iterable[Sequence[Triple]],
    ) -> None:
        """Write all files.  Raises LocalProtocolError for what terms of fields do not say."""
        rows = (query_row(key, query) for key, query in queries)
        for name, lines in (
            ("queries", rows), ("documents", map(document_row, publications)), ("sample", map(document_row, sample))
        ):  # fmt: skip
            with (self._folder / name).open("w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)

    def run(self, passes: int, weights: str, rounds: int) -> LuceneRun:
        """Run the Monitor over what was written.  Raises LocalProtocolError if Java does not go through with it."""
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
    """Return what a program prints.  Raises LocalProtocolError with the reason that it gives if it fails."""
    try:
        outcome = subprocess.run(command, check=False, capture_output=True, text=True, timeout=seconds)  # noqa: S603 - what the user's PATH has
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LocalProtocolError(f"{command[0]} did not end well: {error}") from None
    if outcome.returncode:
        said = (outcome.stderr + outcome.stdout).splitlines()
        reasons = (line for line in said if re.search("error|exception", line, re.IGNORECASE))
        raise LocalProtocolError(f"{command[0]} failed: {next(reasons, 'it does not say why')[:_SHOWN_MAX]}")
    return outcome.stdout
