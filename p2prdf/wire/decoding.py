"""Decoding: from the parts of a frame to checked messages.  :mod:`p2prdf.wire.codec` defines the format."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from p2prdf.columns import Column
from p2prdf.errors import DataRefused, RemoteProtocolError
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.dictionary import DIGEST_BYTES, TermDictionary, TermNames
from p2prdf.rdf.query import Plan
from p2prdf.rdf.standing import form
from p2prdf.wire import shapes
from p2prdf.wire import validation as check
from p2prdf.wire.messages import Query

__all__ = ["Decoder", "Unpack"]

Ints = npt.NDArray[Any]
Method = Callable[["Decoder", Any], Any]
Count = Callable[[tuple[Any, ...]], tuple[Any, ...]]


class Unpack(Protocol):
    """Build a msgpack value within bounds; ``count`` is called with each array."""

    def __call__(self, data: bytes | memoryview, count: Count, *, arrays_max: int, strings_max: int) -> Any:
        """Raise RemoteProtocolError for anything but one well-formed value."""
        ...


class Decoder:
    """The state of decoding one frame: its terms as local identifiers, and the remaining allowances."""

    def __init__(self, dictionary: TermDictionary | TermNames, unpack: Unpack, *, lists: bool):
        """Decode to terms of ``dictionary``, and to columns that are lists or arrays."""
        self._dictionary = dictionary
        self._unpack = unpack
        self._lists = lists
        self._plans = shapes.Memo[bytes, Plan]()
        self._queries = shapes.Memo[bytes, StandingQuery]()
        self._ids: list[int] | npt.NDArray[np.uint32] = []
        self._check: Callable[[Iterable[Any]], None] = check.check_terms
        self._elements = 0
        self._cells = 0

    def messages(
        self, body: bytes | memoryview, *, trusted: bool, named: bool = True, unchecked: bool = False,
        verified: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Return the messages of a frame's body.  Digests count in frames of peers only, and are verified.

        ``unchecked``: terms may be any text.  ``verified``: this node has verified the digests before.
        """
        if len(body) > shapes.FRAME_BYTES_MAX:
            raise RemoteProtocolError(f"a frame of {len(body)} bytes; {shapes.FRAME_BYTES_MAX} are allowed")
        self._elements, self._cells = shapes.ELEMENTS_MAX, shapes.CELLS_FREE + len(body)
        longest = shapes.FRAME_BYTES_MAX if unchecked else shapes.TERM_BYTES_MAX
        parts = self._unpack(body, self._count, arrays_max=shapes.TERMS_MAX, strings_max=longest)
        digests = b""
        if type(parts) is tuple and len(parts) == 4:
            *parts, digests = parts
            parts = tuple(parts)
        version, terms, messages = check.exactly(parts, 3, "a frame")
        if type(version) is not int or version != shapes.VERSION:
            spoken = f"this peer speaks version {shapes.VERSION}"
            raise RemoteProtocolError(f"frame version {check.shown(version)}; {spoken}")
        if len(check.tuple_of(messages, "messages")) > shapes.MESSAGES_MAX:
            raise RemoteProtocolError(f"{len(messages)} messages in one frame; {shapes.MESSAGES_MAX} are allowed")
        if terms and not named:
            raise RemoteProtocolError("terms, of somebody who has not said who it is")
        self._check = check.check_texts if unchecked else check.check_terms
        self._ids = self._intern(check.tuple_of(terms, "terms"), digests if trusted else b"", verified=verified)
        return [self._message(message) for message in messages]

    def _count(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        """Count an array that msgpack has just built."""
        self._elements -= len(items)
        if self._elements < 0:
            raise RemoteProtocolError(f"a frame of more than {shapes.ELEMENTS_MAX} parts")
        return items

    def _intern(
        self, terms: tuple[Any, ...], digests: Any, *, verified: bool
    ) -> list[int] | npt.NDArray[np.uint32]:
        if digests and (type(digests) is not bytes or len(digests) != DIGEST_BYTES * len(terms)):
            raise RemoteProtocolError(f"not the digests of {len(terms)} terms")
        if not terms:
            return [] if self._lists else np.empty(0, np.uint32)
        try:
            found = self._dictionary.take(terms, digests, self._check, verified=verified)
        except TypeError:
            raise RemoteProtocolError("a term is not a string") from None
        except DataRefused as error:
            raise RemoteProtocolError(str(error)) from None
        return found.tolist() if self._lists else found.astype(np.uint32)

    def _message(self, value: Any, known: Mapping[int, shapes.Shape] = shapes.BY_NUMBER) -> Any:
        parts = check.tuple_of(value, "a message")
        number = parts[0] if parts else None
        shape = known.get(number) if type(number) is int else None
        if shape is None:
            raise RemoteProtocolError(f"unknown message type {check.shown(number)}")
        return self._fields(shape, parts[1:])

    def inner(self, value: Any) -> Any:
        """Decode the message of an envelope."""
        return self._message(value, shapes.IN_PARCELS)

    def groups(self, value: Any) -> Any:
        """Decode the groups of a message."""
        return self._fields(shapes.GROUPS, check.tuple_of(value, "groups"))

    def rows(self, value: Any) -> Any:
        """Decode the rows of a message."""
        return self._fields(shapes.ROWS, check.tuple_of(value, "rows"))

    def _fields(self, shape: shapes.Shape, parts: tuple[Any, ...]) -> Any:
        decoders = _FIELDS[shape.kind]
        left_out = len(decoders) - len(parts)
        if left_out and not 0 < left_out <= len(shape.added):
            raise RemoteProtocolError(f"{shape.name} has {len(decoders)} fields, not {len(parts)}")
        values = []
        try:
            for decode, part in zip(decoders, parts, strict=not left_out):
                values.append(decode(self, part))
            if left_out:
                values += shape.added[-left_out:]
            if shape.columns:
                columns = [values[at] for at in shape.columns]
                if shape.tables:
                    columns += [column for at in shape.tables for column in values[at]]
                check.check_lengths(columns, shape.name)
            message = shape.kind(*values)
            check.check_message(message, self._dictionary)
        except RemoteProtocolError as error:
            field = "." + shape.names[len(values)] if len(values) < len(parts) else ""
            raise RemoteProtocolError(f"{shape.name}{field}: {error}") from None
        return message

    def _equal_values(self, value: Any, top: int) -> tuple[int, int]:
        """Return count and value of a column of equal values."""
        count, number = check.exactly(value, 2, "a column of equal values")
        if type(count) is not int or not 0 < count <= shapes.ROWS_MAX:
            raise RemoteProtocolError(f"{check.shown(count)} rows; 1 to {shapes.ROWS_MAX} are allowed")
        if count > 1:
            self._cells -= count
            if self._cells < 0:
                raise RemoteProtocolError("more columns of equal values than the frame has bytes to show for")
        return count, check.integer(number, top)

    def u64(self, value: Any) -> Column:
        """Unpack a column of 64-bit numbers."""
        return self._numbers(value, check.U64_MAX, np.uint64)

    def u32(self, value: Any) -> Column:
        """Unpack a column of 32-bit numbers."""
        return self._numbers(value, check.U32_MAX, np.uint32)

    def _numbers(self, value: Any, top: int, dtype: Any) -> Column:
        if type(value) is not bytes:
            count, number = self._equal_values(value, top)
            return [number] * count if self._lists else np.full(count, number, dtype)
        if self._lists:
            numbers = _listed(value)
            if numbers and top < check.U64_MAX:
                check.integer(max(numbers), top)
            return numbers
        array = _arrayed(value)
        if len(array) and array.itemsize > np.dtype(dtype).itemsize:
            check.integer(int(array.max()), top)
        return array.astype(dtype)

    def terms(self, value: Any) -> Column:
        """Unpack a column of terms."""
        ids = self._ids
        try:
            if type(value) is not bytes:
                count, number = self._equal_values(value, shapes.TERMS_MAX)
                return np.full(count, ids[number], np.uint32) if isinstance(ids, np.ndarray) else [ids[number]] * count
            if not isinstance(ids, np.ndarray):
                return [ids[number] for number in _listed(value)]
            array = _arrayed(value)
            if array.itemsize == 8:  # take() needs signed numbers; TERMS_MAX is out of range, too
                array = np.minimum(array, np.uint64(shapes.TERMS_MAX)).astype(np.intp)
            return ids.take(array)
        except IndexError:
            raise RemoteProtocolError(f"a term beyond the {len(ids)} of the frame") from None

    def term_columns(self, value: Any) -> tuple[Column, ...]:
        """Unpack the bindings or constants of a message."""
        return tuple(map(self.terms, _columns(value)))

    def u64_columns(self, value: Any) -> tuple[Column, ...]:
        """Unpack columns of 64-bit numbers."""
        return tuple(map(self.u64, _columns(value)))

    def plan(self, value: Any) -> Plan:
        """Decode a plan, or return the decoded one."""
        if type(value) is not bytes or len(value) > shapes.PLAN_BYTES_MAX:
            raise RemoteProtocolError(f"{check.shown(value)} is not a plan")
        plan = self._plans.get(value)
        if plan is None:
            plan = check.plan_of(
                self._unpack(value, self._count, arrays_max=shapes.PLAN_PARTS_MAX, strings_max=shapes.PLAN_BYTES_MAX)
            )
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


def _columns(value: Any) -> tuple[Any, ...]:
    columns = check.tuple_of(value, "columns")
    if len(columns) > shapes.COLUMNS_MAX:
        raise RemoteProtocolError(f"{len(columns)} columns; {shapes.COLUMNS_MAX} are allowed")
    return columns


def _width(value: bytes) -> int:
    """Return the width of a packed column's values."""
    width = value[-1] if value else 0
    if width not in shapes.WIDTHS or (len(value) - 1) % width or len(value) - 1 > width * shapes.ROWS_MAX:
        raise RemoteProtocolError(f"{len(value)} bytes are not a column of numbers of {width} bytes each")
    return width


def _listed(value: bytes) -> list[int]:
    width = _width(value)
    return list(struct.unpack_from(f"<{(len(value) - 1) // width}{shapes.WIDTHS[width][0]}", value))


def _arrayed(value: bytes) -> Ints:
    width = _width(value)
    return np.frombuffer(value, shapes.WIDTHS[width][1], count=(len(value) - 1) // width)


_METHODS: Final[dict[str, Method]] = {
    "terms": Decoder.terms, "term_columns": Decoder.term_columns, "u64": Decoder.u64, "u32": Decoder.u32,
    "u64_columns": Decoder.u64_columns,
    "Groups": Decoder.groups, "Rows": Decoder.rows, "Message": Decoder.inner, "Plan": Decoder.plan,
    "Query": Decoder.query,
    "Contact": lambda _, value: check.contact_of(value),
    "tuple[Contact, ...]": lambda _, value: check.contacts_of(value),
    "tuple[int, ...]": lambda _, value: check.permutation(value),
    "tuple[str, ...]": lambda _, value: check.strings(value),
    "int": lambda _, value: check.integer(value),
    "bool": lambda _, value: check.flag(value),
    "float": lambda _, value: check.seconds(value),
    "str": lambda _, value: check.text(value),
}  # fmt: skip
"""The method for each kind of field."""

_FIELDS: Final = {
    shape.kind: tuple(_METHODS[kind] for kind in shape.kinds)
    for shape in (*shapes.SHAPES.values(), shapes.GROUPS, shapes.ROWS)
}
