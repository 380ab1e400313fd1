"""Encoding: from messages to the parts of a frame.  :mod:`p2prdf.wire.codec` defines the format."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from p2prdf.columns import Column
from p2prdf.errors import LocalProtocolError
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.dictionary import TermDictionary, TermNames
from p2prdf.rdf.query import Plan
from p2prdf.rdf.standing import form
from p2prdf.wire import limits
from p2prdf.wire.compiled import WRITERS
from p2prdf.wire.messages import Envelope, Query
from p2prdf.wire.packing import packer

__all__ = ["Encoder"]

Ints = npt.NDArray[Any]


class Encoder:
    """The state of encoding one frame: its terms so far, and counters for its bounds."""

    def __init__(self, dictionary: TermDictionary | TermNames):
        """Encode with the terms of ``dictionary``."""
        self._dictionary = dictionary
        self._pack = packer()
        self._plans = limits.Memo[Plan, bytes](WeakKeyDictionary())
        self._queries = limits.Memo[StandingQuery, bytes](WeakKeyDictionary())
        self._numbers: npt.NDArray[np.int32] = np.empty(0, np.int32)  # by term, -1: not in this frame
        self._numbers_view = self._numbers.data
        self._terms: list[int] = []
        self._marked: list[Ints] = []
        self._marked_singly: list[int] = []
        self.elements = 0
        self._cells = 0
        self._shorten = True
        self._as_named = isinstance(dictionary, TermNames)

    def encode(self, messages: Sequence[Any]) -> bytes:
        """Return the frame of some messages, length prefix included.

        Raises LocalProtocolError if they do not fit one frame: send fewer at once.
        """
        if len(messages) > limits.MESSAGES_MAX:
            raise LocalProtocolError(f"{len(messages)} messages for one frame; {limits.MESSAGES_MAX} fit")
        body = self._body(messages)
        if self._cells > limits.CELLS_FREE + len(body):
            # Columns of equal values exceed the decoder's allowance: written in full they need none.
            self._shorten = False
            try:
                body = self._body(messages)
            finally:
                self._shorten = True
        if len(body) > limits.FRAME_BYTES_MAX:
            raise LocalProtocolError(f"a frame of {len(body)} bytes; {limits.FRAME_BYTES_MAX} are allowed")
        return limits.LENGTH.pack(len(body)) + body

    def _body(self, messages: Sequence[Any]) -> bytes:
        self.elements = self._cells = 0
        if len(self._numbers) < (size := len(self._dictionary)):
            self._numbers = np.full(size + size // 2, -1, np.int32)
            self._numbers_view = self._numbers.data
        if self._as_named:  # the names are the frame's dictionary already
            self._terms = list(range(len(self._dictionary)))
        try:
            parts = [WRITERS[type(message)](self, message) for message in messages]
            elements = self.elements + len(self._terms) + len(parts) + 3
            if len(self._terms) > limits.TERMS_MAX or elements > limits.ELEMENTS_MAX:
                raise LocalProtocolError(f"{len(messages)} messages hold too many terms or parts for one frame")
            frame: tuple[Any, ...] = (limits.VERSION, self._texts() if self._terms else (), parts)
            if Envelope in set(map(type, messages)) and isinstance(self._dictionary, TermDictionary):
                frame = (*frame, self._dictionary.digests(self._terms) if self._terms else b"")
            body = self._pack(frame)
        except (struct.error, OverflowError, UnicodeEncodeError) as error:
            raise LocalProtocolError(f"a message that cannot be encoded: {error}") from error
        finally:
            if self._terms:
                self._forget()
        return body

    def _forget(self) -> None:
        for terms in self._marked:
            self._numbers[terms] = -1
        for term in self._marked_singly:
            self._numbers_view[term] = -1
        self._terms, self._marked, self._marked_singly = [], [], []

    def _texts(self) -> list[str]:
        assert min(self._terms) >= 0, "terms are identifiers of the dictionary"
        texts = self._dictionary.texts(self._terms)
        longest = max(map(len, texts), default=0)
        if longest * 4 > limits.TERM_BYTES_MAX and max(len(text.encode()) for text in texts) > limits.TERM_BYTES_MAX:
            raise LocalProtocolError(f"a term of more than {limits.TERM_BYTES_MAX} bytes")
        return texts

    def numbers(self, column: Column) -> Any:
        """Pack a column of numbers."""
        count = len(column)
        if count > limits.ROWS_MAX:
            raise LocalProtocolError(f"{count} rows for one message; {limits.ROWS_MAX} fit")
        if count == 0:
            return b"\x01"
        if not isinstance(column, list) and count <= limits.FEW:  # a loop is faster than calls of numpy
            column = column.tolist()
            assert min(column) >= 0, "columns hold no negative numbers"
        if isinstance(column, list):
            first, top = column[0], max(column)
            equal = count == 1 or column.count(first) == count
        else:
            first, top = int(column[0]), int(column.max())
            low = first if count == 1 else int(column.min())
            assert low >= 0, "columns hold no negative numbers"
            equal = low == top
        if equal and (self._shorten or count == 1):
            self.elements += 2
            self._cells += count
            return count, first
        width = 1 if top < 1 << 8 else 2 if top < 1 << 16 else 4 if top < 1 << 32 else 8
        letter, dtype = limits.WIDTHS[width]
        if isinstance(column, list):
            return struct.pack(f"<{count}{letter}B", *column, width)
        return column.astype(dtype).tobytes() + bytes((width,))

    def terms(self, column: Column) -> Any:
        """Pack a column of terms as indices into the frame's dictionary."""
        if self._as_named:
            return self.numbers(np.array(column, np.uint32))
        if len(column) <= limits.FEW:
            known, terms, numbers = self._numbers_view, self._terms, []
            for term in column if isinstance(column, list) else column.tolist():
                number = known[term]
                if number < 0:
                    number = known[term] = len(terms)
                    terms.append(term)
                    self._marked_singly.append(term)
                numbers.append(number)
            if len(numbers) != 1:
                return self.numbers(numbers)
            self.elements += 2
            self._cells += 1
            return 1, numbers[0]
        return self.numbers(self._renumber(np.asarray(column, np.intp)))

    def term_columns(self, columns: Sequence[Column]) -> list[Any]:
        """Pack columns of terms."""
        self._count_columns(columns)
        return [self.terms(column) for column in columns]

    def u64_columns(self, columns: Sequence[Column]) -> list[Any]:
        """Pack columns of numbers."""
        self._count_columns(columns)
        return [self.numbers(column) for column in columns]

    def _count_columns(self, columns: Sequence[Column]) -> None:
        if len(columns) > limits.COLUMNS_MAX:
            raise LocalProtocolError(f"{len(columns)} columns for one message; {limits.COLUMNS_MAX} fit")
        self.elements += len(columns)

    def _renumber(self, column: Ints) -> Ints:
        known = self._numbers
        numbers = known.take(column)
        new = column[numbers < 0]
        if len(new):
            # Each new term writes its place; of equal terms the last write stays, and that place is numbered.
            places = np.arange(len(new), dtype=np.int32)
            known[new] = places
            new = new[known.take(new) == places]
            known[new] = np.arange(len(self._terms), len(self._terms) + len(new), dtype=np.int32)
            self._terms += new.tolist()
            self._marked.append(new)
            numbers = known.take(column)
        return numbers

    def plan(self, plan: Plan) -> bytes:
        """Encode a plan, or return the remembered encoding."""
        encoded = self._plans.get(plan)
        if encoded is None:
            encoded = self._pack(_plan_parts(plan))
            if len(encoded) > limits.PLAN_BYTES_MAX:
                raise LocalProtocolError(f"a plan of {len(encoded)} bytes; {limits.PLAN_BYTES_MAX} are allowed")
            self._plans.put(plan, encoded, len(encoded))
        return encoded

    def query(self, query: Query) -> tuple[Any, ...] | bytes:
        """Encode a query with its constants as text; the encoding of a standing query is remembered."""
        if isinstance(query, StandingQuery):
            encoded = self._queries.get(query)
            if encoded is None:
                encoded = form.encode(query)
                self._queries.put(query, encoded, len(encoded))
            return encoded
        filters = [(each.text, each.variables) for each in query.filters]
        concludes = int(query.concludes)
        parts = (query.patterns, query.constants, query.answer, query.names, query.distinct, filters, concludes)
        self.elements += 16 + sum(map(len, parts[:4])) + 3 * len(query.patterns)
        self.elements += sum(3 + len(variables) for _, variables in filters)
        return parts

    def counted(self, values: Sequence[Any]) -> Sequence[Any]:
        """Encode an order or names."""
        self.elements += len(values)
        return values


def _plan_parts(plan: Plan) -> tuple[Any, ...]:
    filters = [(each.text, each.variables) for each in plan.filters]
    return (
        plan.algorithm.value, plan.per_event, plan.distinct, plan.patterns, plan.order, plan.answer, filters,
        plan.constant_count, int(plan.concludes), plan.span_ms, *((True,) if plan.exact else ()),
    )  # fmt: skip
