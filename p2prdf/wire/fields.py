"""Declaration of messages: a frozen dataclass with the kind of each field in its annotation.

An annotation such as ``Annotated[int, number(role=Role.STAMP)]`` is the field's Python type together with its
:class:`Kind`.  Encoder, decoder, checks, the correction of stamps and the description of a message follow from it
(:mod:`p2prdf.wire.compiled`).  Rules about several fields are a method ``_check(dictionary)``.

A field of type ``int`` must name the role of its number, so that the check of stamps misses none.
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, replace
from dataclasses import fields as fields_of
from enum import Enum
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Final, TypeVar, cast, dataclass_transform, get_args, get_origin

import numpy as np

from p2prdf.rdf.query import Plan
from p2prdf.wire import limits
from p2prdf.wire import validation as check

__all__ = [
    "ADDED", "BY_NUMBER", "DECLARED", "NUMBERS", "Batch", "Declared", "Kind", "Role", "checked", "column", "columns",
    "columns_of", "fields_in", "message", "number", "part", "several", "with_columns",
]  # fmt: skip

T = TypeVar("T")


class Role(Enum):
    """The meaning of the numbers of a field, and whether stamps from the future are refused in it."""

    NUMBER = "a number"
    IDENTITY = "a key or an identity"
    INDEXES = "a set of indexes"
    INDEX = "an index"
    STAMP = "a stamp that reaches tables, records or the clock: none from the future is accepted"
    BOUNDED = "a stamp that is never later than another one of its row, which is checked instead"
    PASSING = "a stamp of one cut or request, which reaches no table and does not move the clock"
    CLIPPED = "a stamp that counts as now at the latest"
    OWN = "a stamp that a peer keeps for its own next process, which compares it with its clock"
    EVENT_TIME = "an event time in milliseconds, which publishers choose"
    LEASE_END = "the stamp of a lease's end, in the future by design; one that is too long is shortened"


@dataclass(frozen=True, eq=False, slots=True)
class Kind:
    """How a field is written, read and checked.

    ``write`` is an expression of the value ``{v}`` and the encoder ``e``.  ``read`` are statements, separated by ``;``,
    that check the received value ``{v}`` and replace it by the decoded one; ``d`` is the decoder.  ``uses`` defines
    their other names, alike in all kinds.  ``form``: name of the layout, equal for kinds that differ only in bounds and
    role.
    """

    form: str
    read: str
    write: str = "{v}"
    uses: Mapping[str, Any] = field(default_factory=dict)
    role: Role = Role.NUMBER
    quiet: bool = False
    """Left out of descriptions."""
    parts: tuple[type, ...] = ()
    """The class of a part."""
    top: int = check.U64_MAX
    """The largest number."""

    @property
    def is_column(self) -> bool:
        """Whether the field is a column."""
        return self.form in ("terms", "u32", "u64")

    @property
    def is_table(self) -> bool:
        """Whether the field is a tuple of columns."""
        return self.form in ("term_columns", "u64_columns")


def number(top: int = check.U64_MAX, role: Role = Role.NUMBER) -> Kind:
    """Return the kind of a number from 0 to ``top``."""
    read = f"integer({{v}}, {top}) if type({{v}}) is not int or not 0 <= {{v}} <= {top} else None"
    return Kind("int", read, uses={"integer": check.integer}, role=role, top=top)


def checked(form: str, check_value: Callable[[Any], Any], write: str = "{v}", role: Role = Role.NUMBER) -> Kind:
    """Return the kind of a value that a function checks and returns."""
    name = check_value.__name__
    return Kind(form, f"{{v}} = {name}({{v}})", write, {name: check_value}, role)


def column(
    top: int = check.U64_MAX, role: Role = Role.NUMBER, *, rows_max: int = limits.ROWS_MAX, quiet: bool = False
) -> Kind:
    """Return the kind of a column of numbers up to ``top``, of 32 or 64 bits, with up to ``rows_max`` rows."""
    form = "u32" if top <= check.U32_MAX else "u64"
    read = f"{{v}} = d.numbers({{v}}, {top}, {form})"
    if rows_max < limits.ROWS_MAX:
        read += f"; at_most({{v}}, {rows_max}, 'rows')"
    uses = {"u32": _U32, "u64": _U64, "at_most": check.at_most}
    return Kind(form, read, "e.numbers({v})", uses, role, quiet, top=top)


def columns(form: str, most: int = limits.COLUMNS_MAX) -> Kind:
    """Return the kind of up to ``most`` columns of terms (``term_columns``) or 64-bit numbers (``u64_columns``)."""
    return Kind(form, f"{{v}} = d.{form}({{v}}, {most})", f"e.{form}({{v}})", quiet=True)


def several(declared: type, most: int) -> Kind:
    """Return the kind of a sequence of up to ``most`` parts of a type."""
    name = declared.__name__
    read, write = f"{{v}} = read_several(d, {{v}}, {name}, {most})", f"write_several(e, {{v}}, {name}, {most})"
    return Kind(f"{name}s", read, write, {name: declared})


def _part(declared: type) -> Kind:
    name = declared.__name__
    read, write = f"{{v}} = PARTS[{name}](d, {{v}})", f"PART_WRITERS[{name}](e, {{v}})"
    return Kind(name, read, write, {name: declared}, parts=(declared,))


_U32: Final = np.dtype(np.uint32)
_U64: Final = np.dtype(np.uint64)
_PLAIN: Final[dict[Any, Kind]] = {
    Plan: Kind("plan", "{v} = d.plan({v})", "e.plan({v})"),
    bool: Kind("bool", "flag({v}) if type({v}) is not bool else None", uses={"flag": check.flag}),
    str: Kind("str", "text({v}) if type({v}) is not str else None", uses={"text": check.text}),
    float: checked("float", check.seconds),
}

NUMBERS: Final[dict[type, int]] = {}
"""The number of each message type on the wire; it never changes its meaning."""
BY_NUMBER: Final[dict[int, type]] = {}
ADDED: Final[dict[type, tuple[str, ...]]] = {}
"""The fields of a message that are left out if they have their defaults."""
DECLARED: Final[dict[type, dict[str, Kind]]] = {}
"""The kinds of the fields of each declared class."""


class Batch:
    """A message with rows: its length is that of its first column."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(getattr(self, columns_of(type(self))[0]))  # :func:`part` makes a faster one for each class


class Declared:
    """Base of declared classes: they are dataclasses, for type checkers too."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


V = TypeVar("V", bound=Declared)


def fields_in(declared: type, *roles: Role) -> list[str]:
    """Return the names of the fields of some roles; those of its parts as ``part.field``."""
    found = []
    for name, kind in DECLARED[declared].items():
        if kind.role in roles:
            found.append(name)
        found += [f"{name}.{inner}" for part in kind.parts for inner in fields_in(part, *roles)]
    return found


def columns_of(declared: type) -> list[str]:
    """Return the names of the columns of a class."""
    return [name for name, kind in DECLARED[declared].items() if kind.is_column]


def with_columns(value: V, change: Callable[[Any], Any]) -> V:
    """Return a message or part with each of its columns changed."""
    changed: dict[str, Any] = {}
    for name, kind in DECLARED[type(value)].items():
        if kind.is_column:
            changed[name] = change(getattr(value, name))
        elif kind.is_table:
            changed[name] = tuple(map(change, getattr(value, name)))
    return replace(value, **changed)


def _kind_of(annotation: Any) -> Kind:
    if get_origin(annotation) is Annotated:
        return cast("Kind", get_args(annotation)[1])
    if annotation in DECLARED:
        return _part(annotation)
    return _PLAIN[annotation]


@dataclass_transform(frozen_default=True)
def part(declared: type[T]) -> type[T]:
    """Declare a part of messages, such as their rows."""
    made = dataclass(frozen=True, slots=True)(declared)
    found = {each.name: _kind_of(each.type) for each in fields_of(made)}  # type: ignore[arg-type]
    DECLARED[made] = found
    if issubclass(made, Batch):
        first = attrgetter(next(name for name, kind in found.items() if kind.is_column))
        made.__len__ = lambda self: len(first(self))  # type: ignore[method-assign]
    return made


@dataclass_transform(frozen_default=True)
def message(code: int, *, added: str = "") -> Callable[[type[T]], type[T]]:
    """Declare a message with its number on the wire.

    The fields from ``added`` on were added later: the last ones are not written if they have their defaults, so that
    records on disk from earlier versions stay readable.
    """

    def declare(declared: type[T]) -> type[T]:
        made = part(declared)
        assert code not in BY_NUMBER, f"number {code} is taken"
        NUMBERS[made] = code
        if added:
            names = list(DECLARED[made])
            ADDED[made] = tuple(names[names.index(added) :])
        BY_NUMBER[code] = made
        return made

    return declare
