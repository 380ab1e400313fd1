"""Converts record batches to statements: from columns of terms, or by a mapping of ordinary columns.

A batch becomes columns of numbers and the list of their distinct terms (:class:`p2prdf.client.TermColumns`).
Only bad rows need an object each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from p2prdf import keys
from p2prdf.client import TermColumns
from p2prdf.errors import LocalProtocolError
from p2prdf.publish import arrow_terms
from p2prdf.publish.options import MappingOptions
from p2prdf.publish.template import Template
from p2prdf.rdf import terms
from p2prdf.rdf.quads import DEFAULT

__all__ = ["BadRow", "Statements"]

_TYPE: Final = f"<{terms.RDF}type>"
_BATCH_BYTES_MAX: Final = 1 << 30
"""A larger batch is split: the offsets of Arrow's strings have 31 bits."""
_SHOWN_CHARACTERS: Final = 400
_PARTS: Final = ("subject", "predicate", "object", "graph")

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BadRow:
    """An invalid row: its index in the partition, from 0; the reason; its content."""

    row: int
    reason: str
    content: dict[str, Any]

    def __str__(self) -> str:
        content = repr(self.content)
        shown = content if len(content) <= _SHOWN_CHARACTERS else content[:_SHOWN_CHARACTERS] + "..."
        return f"{self.reason}: {shown}"


@dataclass(frozen=True, slots=True)
class _Rows:
    """Statements as texts, some of them null, and the row of each, ascending."""

    s: Any
    p: Any
    o: Any
    row: I64


@dataclass(slots=True)
class Statements:
    """Converts the batches of one partition to statements, one after the other.

    Raises LocalProtocolError, naming the column, for a schema that does not fit the options.
    """

    schema: Any
    mapping: MappingOptions | None = None
    rows: int = 0
    """Number of rows so far."""
    bad: list[BadRow] = field(default_factory=list)
    """Bad rows of the last batch."""
    _places: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for at, name in enumerate(self.schema.names):
            if self._places.setdefault(name.lower(), at) != at:
                raise LocalProtocolError(f"column {name}: there are two columns of this name")
        for name, fits, what in (
            ("graph", _is_text, "a string: an IRI in N-Triples form"),
            ("sign", pa.types.is_integer, "an integer: 1 to add, -1 to remove"),
        ):
            if name in self._places and not fits(self._type(name)):
                raise LocalProtocolError(f"column {name} is {self._type(name)}, but must be {what}")
        if self.mapping is None:
            self._check_terms()
        else:
            self._check_mapping(self.mapping)

    def _type(self, name: str) -> Any:
        return self.schema.field(self._places[name]).type

    def _check_terms(self) -> None:
        missing = [name for name in "spo" if name not in self._places]
        if missing:
            raise LocalProtocolError(
                f"column {', '.join(missing)} is missing among {', '.join(self.schema.names)}: "
                "columns s, p, o hold terms; for others give options subject and predicate.COLUMN"
            )
        for name in self._places.keys() - {"s", "p", "o", "graph", "sign"}:
            raise LocalProtocolError(f"column {name} is none of s, p, o, graph, sign")
        for name in "spo":
            if not _is_text(self._type(name)):
                raise LocalProtocolError(f"column {name} is {self._type(name)}, but must be a string: a term")

    def _check_mapping(self, mapping: MappingOptions) -> None:
        named = [*mapping.subject.columns]
        for each in mapping.columns:
            named += [each.column, *(each.template.columns if each.template else ())]
        for name in named:
            if name.lower() not in self._places:
                raise LocalProtocolError(f"there is no column {name}; there are {', '.join(self.schema.names)}")
        for each in mapping.columns:
            if each.template is None:
                self._datatype_of(each.column)
            self._check_template(each.template)
        self._check_template(mapping.subject)

    def _check_template(self, template: Template | None) -> None:
        for name in template.columns if template else ():
            kind = self._datatype_of(name)
            if pa.types.is_list(kind) or pa.types.is_large_list(kind):
                raise LocalProtocolError(f"column {name} is {kind}: a template takes one value, not a list")

    def _datatype_of(self, name: str) -> Any:
        kind = self._type(name.lower())
        try:
            arrow_terms.type_of(kind)
        except LocalProtocolError as error:
            raise LocalProtocolError(f"column {name}: {error}") from None
        return kind

    def of(self, batch: Any) -> Iterator[TermColumns]:
        """Yield the statements of a batch in the order of its rows; ``bad`` lists the skipped rows.

        Additions and deletions are separate. If a batch adds and deletes the same triple, they keep the order
        of the rows; otherwise deletions come first.
        """
        self.bad = []
        first, self.rows = self.rows, self.rows + batch.num_rows
        for part in _halves(batch):
            yield from self._of(part, first)
            first += part.num_rows

    def _of(self, batch: Any, first: int) -> Iterator[TermColumns]:
        columns = {name: batch.column(at) for name, at in self._places.items()}
        found = _direct(columns) if self.mapping is None else _mapped(self.mapping, columns, batch.num_rows)
        count = len(found.row)
        if not count:
            return
        graph = columns.get("graph")
        texts = [found.s, found.p, found.o]
        if graph is not None:
            texts.append(_text(graph).fill_null(DEFAULT).take(pa.array(found.row)))
        coded = pa.concat_arrays(texts).dictionary_encode()
        code = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).reshape(len(texts), count).astype(np.int64)
        checked = arrow_terms.check_terms(coded.dictionary)
        kinds = checked.kinds[code]
        fine = arrow_terms.are_triples(kinds)
        if graph is not None:
            default = checked.texts.index(DEFAULT) if DEFAULT in checked.texts else -2
            fine &= (kinds[3] == arrow_terms.IRI) | (checked.place[code[3]] == default)
        removed = np.zeros(count, np.bool_)
        if "sign" in columns:
            sign = columns["sign"].fill_null(0).to_numpy(zero_copy_only=False)[found.row]
            removed = sign == -1
            fine &= removed | (sign == 1)
        if not fine.all():
            bad_rows = np.unique(found.row[~fine])
            self._tell(batch, first, found.row, code, checked, fine)
            fine = ~np.isin(found.row, bad_rows)  # a row is valid as a whole or not at all
            code, removed = code[:, fine], removed[fine]
        yield from _parted(checked, checked.place[code], removed, whole=bool(fine.all()))

    def _tell(
        self, batch: Any, first: int, row: I64, code: I64, checked: arrow_terms.Checked,
        fine: npt.NDArray[np.bool_],
    ) -> None:  # fmt: skip
        """Record the bad rows, each with its first error."""
        seen = set()
        for at in np.flatnonzero(~fine).tolist():
            number = int(row[at])
            if number not in seen:
                seen.add(number)
                content = _content(batch.slice(number, 1))
                self.bad.append(BadRow(first + number, _reason(code[:, at].tolist(), checked, content), content))


def _reason(code: list[int], checked: arrow_terms.Checked, content: dict[str, Any]) -> str:
    for part, at in zip(_PARTS, code, strict=False):
        kind = checked.kinds[at]
        if part == "graph" and kind == arrow_terms.BAD and checked.texts[checked.place[at]] == DEFAULT:
            continue
        if kind == arrow_terms.BAD:
            return f"{part} is {checked.reasons[at if at >= 0 else len(checked.kinds) - 1]}"
        if kind == arrow_terms.LITERAL and part != "object":
            return f"{part} is a literal"
    sign = {name.lower(): value for name, value in content.items()}.get("sign")
    return f"sign is {sign}, but must be 1 or -1"


def _content(row: Any) -> dict[str, Any]:
    """Return the only row of a batch; invalid text appears as question marks."""
    try:
        (content,) = row.to_pylist()
    except UnicodeDecodeError:
        columns = zip(row.schema.names, row.columns, strict=True)
        return {
            name: arrow_terms.texts_of(column)[0].encode(errors="replace").decode() if _is_text(column.type) else "..."
            for name, column in columns
        }
    found: dict[str, Any] = content
    return found


def _parted(
    checked: arrow_terms.Checked, code: npt.NDArray[np.uint32], removed: npt.NDArray[np.bool_], *, whole: bool
) -> Iterator[TermColumns]:
    """Yield statements in parts of one sign each; ``whole``: they use all texts."""
    s, p, o, *rest = code
    g = rest[0] if rest else None
    count = len(s)
    if not count:
        return
    every = TermColumns(checked.texts, s, p, o, g)
    if not removed.any() or removed.all():
        every = TermColumns(checked.texts, s, p, o, g, bool(removed[0]))
        yield every if whole else every.part(0, count)
        return
    if _disjoint(code, removed):
        order = np.argsort(~removed, kind="stable")
        code, removed = code[:, order], removed[order]
    s, p, o, *rest = code
    cuts = np.flatnonzero(removed[1:] != removed[:-1]) + 1
    for start, stop in zip([0, *cuts.tolist()], [*cuts.tolist(), count], strict=True):
        run = TermColumns(checked.texts, s, p, o, rest[0] if rest else None, bool(removed[start]))
        yield run.part(start, stop)


def _disjoint(code: npt.NDArray[np.uint32], removed: npt.NDArray[np.bool_]) -> bool:
    """Return whether no triple is both added and deleted; a hash collision only keeps a needless order."""
    mixed = np.zeros(code.shape[1], np.uint64)
    for column in code:
        mixed = keys.fmix_array(mixed + column.astype(np.uint64) + np.uint64(1))
    return len(np.intersect1d(mixed[removed], mixed[~removed])) == 0


def _direct(columns: dict[str, Any]) -> _Rows:
    s, p, o = (_text(columns[name]) for name in "spo")
    return _Rows(s, p, o, np.arange(len(s)))


def _mapped(mapping: MappingOptions, columns: dict[str, Any], count: int) -> _Rows:
    """Return the statements of ordinary columns, row by row; a null value gives none."""
    subjects = arrow_terms.from_template(mapping.subject, columns, count)
    rows = np.arange(count)
    blocks: list[tuple[str, Any, I64]] = []
    if mapping.kind is not None:
        blocks.append((_TYPE, pa.array([mapping.kind]).take(pa.array(np.zeros(count, np.int64))), rows))
    for each in mapping.columns:
        values, at = columns[each.column.lower()], rows
        if each.template is not None:
            made = arrow_terms.from_template(each.template, columns, count)
            blocks.append((each.predicate, made, rows))
            continue
        if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
            at = pc.list_parent_indices(values).to_numpy(zero_copy_only=False).astype(np.int64)
            values = pc.list_flatten(values)
        blocks.append((each.predicate, arrow_terms.literals(values, each.datatype, each.language), at))
    row = np.concatenate([at for _, _, at in blocks])
    objects = pa.concat_arrays([made for _, made, _ in blocks])
    predicate = np.repeat(np.arange(len(blocks)), [len(at) for _, _, at in blocks])
    valid = objects.is_valid().to_numpy(zero_copy_only=False)
    valid &= subjects.is_valid().to_numpy(zero_copy_only=False)[row]
    order = np.flatnonzero(valid)
    order = order[np.argsort(row[order], kind="stable")]
    row = row[order]
    named = pa.array([name for name, _, _ in blocks]).take(pa.array(predicate[order]))
    return _Rows(subjects.take(pa.array(row)), named, objects.take(pa.array(order)), row)


def _text(values: Any) -> Any:
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _halves(batch: Any) -> Iterator[Any]:
    if batch.nbytes > _BATCH_BYTES_MAX and batch.num_rows > 1:
        middle = batch.num_rows // 2
        yield from _halves(batch.slice(0, middle))
        yield from _halves(batch.slice(middle))
    else:
        yield batch
