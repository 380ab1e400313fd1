"""Real texts for workloads: the long literals of an N-Triples file, plain or compressed."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import IO, Final, cast

from p2prdf.errors import DataRefused
from p2prdf.rdf.fulltext import words_of
from p2prdf.rdf.ntriples import read_triples
from p2prdf.rdf.terms import lexical

__all__ = ["FOUND_AT", "find_texts", "read_passages"]

FOUND_AT: Final = "shared/data/text/wikipedia.nt.xz"
"""Default path of texts, in or beside the checkout or the working directory."""
_WORDS_MIN: Final = 60
"""Least number of words of a text that is used for passages."""


def find_texts(given: Path | None = None) -> Path:
    """Return the file with texts.  Raises DataRefused, with the remedy, if there is none."""
    if given is not None:
        if not given.is_file():
            raise DataRefused("there is no such file", source=str(given))
        return given
    for folder in (Path.cwd(), Path(__file__).resolve().parents[3]):
        for place in (folder / FOUND_AT, folder.parent / FOUND_AT):
            if place.is_file():
                return place
    raise DataRefused(
        "real texts are needed, and there are none beside the checkout; name an N-Triples file with literals of "
        f"{_WORDS_MIN} words or more (.nt, .nt.gz, .nt.xz)", source=FOUND_AT,
    )  # fmt: skip


def read_passages(path: Path) -> list[list[str]]:
    """Return the long texts of a file as lists of written words, with punctuation.

    Raises DataRefused for a file that is not N-Triples, or without a text of at least 60 words.
    """
    texts: dict[str, None] = {}
    compressed = path.suffix == ".gz"
    with cast("IO[bytes]", lzma.open(path)) if path.suffix == ".xz" else path.open("rb") as stream:
        try:
            for batch in read_triples(
                stream, publication_id="texts", compressed=compressed, source=str(path), strict=True
            ):
                texts.update(dict.fromkeys(o for o in batch.o if o.startswith('"')))
        except lzma.LZMAError as error:
            raise DataRefused(f"not an xz file: {error}", source=str(path)) from None
    passages = [text.split() for text in map(lexical, texts) if len(words_of(text)) >= _WORDS_MIN]
    if not passages:
        raise DataRefused(f"it has no literal of {_WORDS_MIN} words or more", source=str(path))
    return passages
