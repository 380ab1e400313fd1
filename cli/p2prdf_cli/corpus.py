"""``p2prdf corpus``: word frequencies in the texts of files, and similarity conditions that use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from p2prdf_cli.commands import Commands
from p2prdf_cli.exits import EXIT_CODES_HELP, run_plain

if TYPE_CHECKING:
    from p2prdf.text import CorpusWindow

__all__ = ["register"]

_TEXTS: Final = 10_000
_HELP: Final = """Count word frequencies in texts, for similarity conditions.

\b
Examples:
  p2prdf corpus count articles.nt --onto articles.corpus --language en --stemming
  p2prdf corpus similar articles.corpus 'summer games in Rio' 0.4
"""

Corpus = Annotated[Path, typer.Argument(metavar="CORPUS", help="File written by corpus count.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commands = Commands(help=_HELP)
    commands.command("count", epilog=EXIT_CODES_HELP)(count)
    commands.command("similar", epilog=EXIT_CODES_HELP)(similar)
    app.add_typer(commands, name="corpus")


def count(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="RDF files; the suffix names the syntax.")],
    onto: Annotated[Path, typer.Option(metavar="CORPUS", help="File of the corpus; an existing one is continued.")],
    texts: Annotated[
        int | None, typer.Option(metavar="N", help="Size of the window, in texts. (default: 10000)")
    ] = None,
    predicate: Annotated[
        list[str] | None, typer.Option(metavar="IRI", help="Count only objects of this predicate; repeatable.")
    ] = None,
    language: Annotated[
        str | None, typer.Option(metavar="RANGE", help="Count only literals in this language, such as en.")
    ] = None,
    stemming: Annotated[bool, typer.Option("--stemming", help="Count words by their stems.")] = False,
    stop_words: Annotated[bool, typer.Option("--stop-words", help="Ignore stop words.")] = False,
) -> None:
    """Count the document frequency of words in the last texts.

    An existing corpus keeps its --texts, --language, --stemming and --stop-words.

    \b
    Examples:
      p2prdf corpus count articles.nt.gz --onto articles.corpus --texts 100000
      p2prdf corpus count today.ttl --onto articles.corpus
    """
    wanted = _Wanted(texts, None if language is None else language.lower(), stemming, stop_words)
    run_plain(lambda: _count(files, onto, wanted, predicate))


class _Wanted(NamedTuple):
    """Options of a window; None: not given."""

    texts: int | None
    language: str | None
    stemming: bool
    stop_words: bool


def _count(files: list[str], onto: Path, wanted: _Wanted, predicates: list[str] | None) -> None:
    from p2prdf.rdf import terms

    window = _window(onto, wanted)
    taken = frozenset(map(terms.iri, predicates or ()))
    read = sum(1 for name in files for p, o in _objects(name) if (not taken or p in taken) and window.add(o))
    beside = onto.with_name(f"{onto.name}.new")
    with beside.open("w", encoding="utf-8") as stream:
        stream.writelines(f"{line}\n" for line in window.lines())
    beside.replace(onto)
    print(f"{read:,} texts read, {len(window):,} counted", flush=True)


def _window(onto: Path, wanted: _Wanted) -> CorpusWindow:
    from p2prdf.errors import DataRefused
    from p2prdf.rdf.fulltext import Using
    from p2prdf.text import CorpusWindow

    using = Using(wanted.stemming, wanted.stop_words)
    if not onto.exists():
        return CorpusWindow(_TEXTS if wanted.texts is None else wanted.texts, language=wanted.language, using=using)
    window = _read(onto)
    texts = window.texts_max if wanted.texts is None else wanted.texts
    is_said = wanted != _Wanted(None, None, stemming=False, stop_words=False)
    if is_said and (texts, wanted.language, using) != (window.texts_max, window.language, window.using):
        raise DataRefused(
            f"{onto} was begun with other options: {window.texts_max} texts, language {window.language or 'any'}"
            f"{window.using}"
        )
    return window


def _read(path: Path) -> CorpusWindow:
    from p2prdf.errors import DataRefused
    from p2prdf.text import CorpusWindow

    try:
        with path.open(encoding="utf-8") as stream:
            return CorpusWindow.read(line.rstrip("\n") for line in stream)
    except UnicodeDecodeError as error:
        raise DataRefused(f"{path}: {error}") from None
    except DataRefused as error:
        raise DataRefused(f"{path}: {error}") from None


def _objects(name: str) -> Iterator[tuple[str, str]]:
    """Yield the predicate and object of each triple in a file.  Raises DataRefused."""
    from p2prdf.rdf.ntriples import read_triples
    from p2prdf_cli.sources import choose_input

    source = choose_input(name, None)
    with Path(name).open("rb") as stream:
        for batch in read_triples(
            stream, publication_id="corpus", syntax=source.syntax, compressed=source.compressed, source=name,
            strict=True, base=Path(name).absolute().as_uri(),
        ):  # fmt: skip
            yield from zip(batch.p, batch.o, strict=True)


def similar(
    corpus: Corpus,
    words: Annotated[str, typer.Argument(metavar="WORDS", help="Words to compare texts with.")],
    threshold: Annotated[str, typer.Argument(metavar="SIMILARITY", help="Least similarity, 0.0001 to 1.")],
    variable: Annotated[str, typer.Option(metavar="NAME", help="Variable of the text.")] = "text",
) -> None:
    """Write a similarity condition for a FILTER, with the frequencies of its words.

    The condition keeps its meaning when the corpus changes.

    \b
    Examples:
      p2prdf corpus similar articles.corpus 'summer games in Rio' 0.4
      p2prdf corpus similar articles.corpus 'summer games in Rio' 0.4 --variable body
    """
    run_plain(lambda: print(_read(corpus).call(variable, words, threshold)))
