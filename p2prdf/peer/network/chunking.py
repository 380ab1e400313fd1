"""The division of rows into messages with a bounded number of rows and a bounded amount of text."""

from __future__ import annotations

from p2prdf.columns import Column, Columns, Index
from p2prdf.peer.network.messenger import Messenger
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.messages import Rows

__all__ = ["Chunker"]

_SAMPLED = 16


class Chunker:
    """Cuts rows into messages within the bounds of the configuration."""

    def __init__(self, messenger: Messenger, dictionary: TermDictionary, columns: Columns):
        self._messenger = messenger
        self._config = messenger.config
        self._dictionary = dictionary
        self._columns = columns

    def slices(self, count: int, term_columns: tuple[Column, ...], rows_max: int = 0) -> list[tuple[int, int]]:
        """Return the bounds of slices within the limits of rows and text per message.

        ``rows_max``: another limit of rows than that of the configuration.
        """
        limit = rows_max or self._config.batch_rows_max
        slices = [(start, min(start + limit, count)) for start in range(0, count, limit)]
        bytes_max = self._config.message_bytes_max
        if self._dictionary.longest * min(limit, count) * max(1, len(term_columns)) <= bytes_max:
            return slices
        fine: list[tuple[int, int]] = []
        for start, stop in slices:
            fine.extend(self._cut_by_text(start, stop, term_columns, bytes_max))
        return fine

    def _cut_by_text(
        self, start: int, stop: int, term_columns: tuple[Column, ...], bytes_max: int
    ) -> list[tuple[int, int]]:
        cuts = []
        held = 0
        first = start
        for at in range(start, stop):
            size = self._text_of(term_columns, at)
            if size > bytes_max:  # no frame can hold it
                self._messenger.trace("row-too-large", characters=size)
                if at > first:
                    cuts.append((first, at))
                first, held = at + 1, 0
                continue
            if held and held + size > bytes_max:
                cuts.append((first, at))
                first, held = at, 0
            held += size
        if first < stop:
            cuts.append((first, stop))
        return cuts

    def _text_of(self, term_columns: tuple[Column, ...], at: int) -> int:
        text, characters = self._dictionary.text, 0
        for column in term_columns:
            characters += len(text(int(column[at])))
        return characters

    def characters_of(self, term_columns: tuple[Column, ...]) -> int:
        """Estimate the text of rows from a sample of them."""
        count = len(term_columns[0]) if term_columns else 0
        if count == 1:
            return self._text_of(term_columns, 0)
        sample = range(0, count, max(1, count // _SAMPLED))
        return sum(self._text_of(term_columns, at) for at in sample) * count // max(1, len(sample))

    def without(self, rows: Rows, places: set[int]) -> Rows:
        """Return rows except those at some places."""
        index = self._columns.column([at for at in range(len(rows)) if at not in places], "int64")
        return self._taken(rows, index, self._columns.take(rows.group, index))

    def of_one_group(self, rows: Rows, index: Index) -> Rows:
        """Return the rows at some places, all of one group, as rows of the only group of a message."""
        if len(index) == len(rows) and not rows.group[0]:
            return rows
        return self._taken(rows, index, self._columns.full(len(index), 0, "uint32"))

    def _taken(self, rows: Rows, index: Index, group: Column) -> Rows:
        take = self._columns.take
        return Rows(
            group, take(rows.identity, index), take(rows.oldest, index), take(rows.born, index),
            tuple(take(column, index) for column in rows.bindings),
        )  # fmt: skip

    def too_large(self, term_columns: tuple[Column, ...]) -> list[int]:
        """Return the places of rows that fit no message; cheap if there are none, the usual case."""
        bytes_max = self._config.message_bytes_max
        if not term_columns or self._dictionary.longest * len(term_columns) <= bytes_max:
            return []
        return [at for at in range(len(term_columns[0])) if self._text_of(term_columns, at) > bytes_max]
