"""Decoding: from the parts of a frame to checked messages.  :mod:`p2prdf.wire.codec` defines the format."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from p2prdf.columns import LISTS, Column, Columns
from p2prdf.errors import DataRefused, RemoteProtocolError
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.dictionary import DIGEST_BYTES, TermDictionary, TermNames
from p2prdf.rdf.query import Plan
from p2prdf.rdf.standing import form
from p2prdf.wire import limits
from p2prdf.wire import validation as check
from p2prdf.wire.compiled import Readers, read_message
from p2prdf.wire.messages import IN_FRAMES, Query
from p2prdf.wire.packing import unpack

__all__ = ["Decoder"]

Ints = npt.NDArray[Any]
READERS: Final = Readers(*IN_FRAMES)
_U64: Final = np.dtype(np.uint64)


class Decoder:
    """The state of decoding one frame: its terms as local identifiers, and the remaining allowances."""

    def __init__(self, dictionary: TermDictionary | TermNames, columns: Columns):
        """Decode to terms of ``dictionary``, and to ``columns`` (lists or arrays)."""
        self.dictionary = dictionary
        self._lists = columns is LISTS
        self._plans = limits.Memo[bytes, Plan](WeakValueDictionary())
        self._queries = limits.Memo[bytes, StandingQuery](WeakValueDictionary())
        self._ids: list[int] | npt.NDArray[np.uint32] = []
        self._check: Callable[[Iterable[Any]], None] = check.check_terms
        self._elements = 0
        self._counts: Callable[[tuple[Any, ...]], Any] | None = None
        self._cells = 0

    def decode(
        self, body: bytes | memoryview, *, trusted: bool = False, named: bool = True, unchecked: bool = False,
        verified: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Return the messages of a frame's body (without the length prefix).

        New terms are added to the dictionary.  Frames of a ``trusted`` peer contain the digests of their terms; the
        dictionary recognises known terms by them and verifies those of new terms, unless this node has ``verified``
        them before.  A connection that is not ``named`` yet may not send terms, because they stay for good.
        ``unchecked``: the receiver of the messages checks the terms, so that a bad one fails a publication instead of
        the connection.

        Raises RemoteProtocolError for protocol violations (FalseDigest for a term with the digest of another one), and
        Busy if the dictionary is full.
        """
        if len(body) > limits.FRAME_BYTES_MAX:
            raise RemoteProtocolError(f"a frame of {len(body)} bytes; {limits.FRAME_BYTES_MAX} are allowed")
        self._elements, self._cells = limits.ELEMENTS_MAX, limits.CELLS_FREE + len(body)
        longest = limits.FRAME_BYTES_MAX if unchecked else limits.TERM_BYTES_MAX
        # A shorter frame cannot contain more parts.
        self._counts = self._count if len(body) > limits.ELEMENTS_MAX else None
        parts = unpack(body, count=self._counts, arrays_max=limits.TERMS_MAX, strings_max=longest)
        digests = b""
        if type(parts) is tuple and len(parts) == 4:
            digests, parts = parts[3], parts[:3]
        if type(parts) is not tuple or len(parts) != 3:
            check.exactly(parts, 3, "a frame")
        version, terms, messages = parts
        if type(version) is not int or version != limits.VERSION:
            spoken = f"this peer speaks version {limits.VERSION}"
            raise RemoteProtocolError(f"frame version {check.shown(version)}; {spoken}")
        if type(messages) is not tuple or type(terms) is not tuple:
            check.tuple_of(messages, "messages")
            check.tuple_of(terms, "terms")
        if len(messages) > limits.MESSAGES_MAX:
            raise RemoteProtocolError(f"{len(messages)} messages in one frame; {limits.MESSAGES_MAX} are allowed")
        if terms and not named:
            raise RemoteProtocolError("terms, of somebody who has not said who it is")
        self._check = check.check_texts if unchecked else check.check_terms
        self._ids = self._intern(terms, digests if trusted else b"", verified=verified)
        return [read_message(self, message, READERS) for message in messages]

    def _count(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        """Count an array that msgpack has just built."""
        self._elements -= len(items)
        if self._elements < 0:
            raise RemoteProtocolError(f"a frame of more than {limits.ELEMENTS_MAX} parts")
        return items

    def _intern(
        self, terms: tuple[Any, ...], digests: Any, *, verified: bool
    ) -> list[int] | npt.NDArray[np.uint32]:
        if digests and (type(digests) is not bytes or len(digests) != DIGEST_BYTES * len(terms)):
            raise RemoteProtocolError(f"not the digests of {len(terms)} terms")
        if not terms:
            return [] if self._lists else np.empty(0, np.uint32)
        try:
            found = self.dictionary.take(terms, digests, self._check, verified=verified)
        except TypeError:
            raise RemoteProtocolError("a term is not a string") from None
        except DataRefused as error:
            raise RemoteProtocolError(str(error)) from None
        return found.tolist() if self._lists else found.astype(np.uint32)

    def numbers(self, value: Any, top: int, dtype: np.dtype[Any]) -> Column:
        """Unpack a column of numbers up to ``top``."""
        if type(value) is not bytes:
            if (
                type(value) is tuple and len(value) == 2 and value[0] == 1 and type(value[0]) is int
                and type(number := value[1]) is int and 0 <= number <= top
            ):  # one row, without a further call
                return [number] if self._lists else np.array((number,), dtype)
            count, number = self._equal_values(value, top)
            return [number] * count if self._lists else np.full(count, number, dtype)
        if self._lists:
            numbers = _listed(value)
            if numbers and top < check.U64_MAX:
                check.integer(max(numbers), top)
            return numbers
        array = _arrayed(value)
        if len(array) and top + 1 < 1 << 8 * array.itemsize:
            check.integer(int(array.max()), top)
        return array.astype(dtype)

    def _equal_values(self, value: Any, top: int) -> tuple[int, int]:
        """Return count and value of a column of equal values."""
        if type(value) is not tuple or len(value) != 2:
            check.exactly(value, 2, "a column of equal values")
        count, number = value
        if type(count) is not int or not 0 < count <= limits.ROWS_MAX:
            raise RemoteProtocolError(f"{check.shown(count)} rows; 1 to {limits.ROWS_MAX} are allowed")
        if count > 1:
            self._cells -= count
            if self._cells < 0:
                raise RemoteProtocolError("more columns of equal values than the frame has bytes to show for")
        if type(number) is not int or not 0 <= number <= top:
            check.integer(number, top)
        return count, number

    def terms(self, value: Any) -> Column:
        """Unpack a column of terms."""
        ids = self._ids
        try:
            if type(value) is not bytes:
                if (
                    type(value) is tuple and len(value) == 2 and value[0] == 1 and type(value[0]) is int
                    and type(number := value[1]) is int and number >= 0
                ):  # one row, without a further call
                    return [ids[number]] if self._lists else np.array((ids[number],), np.uint32)
                count, number = self._equal_values(value, limits.TERMS_MAX)
                return [ids[number]] * count if self._lists else np.full(count, ids[number], np.uint32)
            if not isinstance(ids, np.ndarray):
                return [ids[number] for number in _listed(value)]
            array = _arrayed(value)
            if array.itemsize == 8:  # take() needs signed numbers; TERMS_MAX is out of range, too
                array = np.minimum(array, np.uint64(limits.TERMS_MAX)).astype(np.intp)
            return ids.take(array)
        except IndexError:
            raise RemoteProtocolError(f"a term beyond the {len(ids)} of the frame") from None

    def term_columns(self, value: Any, most: int) -> tuple[Column, ...]:
        """Unpack up to ``most`` columns of terms."""
        return tuple([self.terms(column) for column in _columns(value, most)])

    def u64_columns(self, value: Any, most: int) -> tuple[Column, ...]:
        """Unpack up to ``most`` columns of 64-bit numbers."""
        return tuple([self.numbers(column, check.U64_MAX, _U64) for column in _columns(value, most)])

    def plan(self, value: Any) -> Plan:
        """Decode a plan, or return the decoded one."""
        if type(value) is not bytes or len(value) > limits.PLAN_BYTES_MAX:
            raise RemoteProtocolError(f"{check.shown(value)} is not a plan")
        plan = self._plans.get(value)
        if plan is None:
            bounds = {"arrays_max": limits.PLAN_PARTS_MAX, "strings_max": limits.PLAN_BYTES_MAX}
            plan = check.plan_of(unpack(value, count=self._counts, **bounds))
            self._plans.put(value, plan, len(value))
        return plan

    def query(self, value: Any) -> Query:
        """Decode a conjunctive or a standing query; a standing query is remembered."""
        if type(value) is not bytes:
            return check.query_of(value)
        query = self._queries.get(value)
        if query is None:
            query = form.decode(value)
            self._queries.put(value, query, len(value))
        return query


def _columns(value: Any, most: int) -> tuple[Any, ...]:
    columns: tuple[Any, ...] = check.at_most(check.tuple_of(value, "columns"), most, "columns")
    return columns


def _width(value: bytes) -> int:
    """Return the width of a packed column's values."""
    width = value[-1] if value else 0
    if width not in limits.WIDTHS or (len(value) - 1) % width or len(value) - 1 > width * limits.ROWS_MAX:
        raise RemoteProtocolError(f"{len(value)} bytes are not a column of numbers of {width} bytes each")
    return width


def _listed(value: bytes) -> list[int]:
    width = _width(value)
    return list(struct.unpack_from(f"<{(len(value) - 1) // width}{limits.WIDTHS[width][0]}", value))


def _arrayed(value: bytes) -> Ints:
    width = _width(value)
    return np.frombuffer(value, limits.WIDTHS[width][1], count=(len(value) - 1) // width)
