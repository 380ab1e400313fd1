"""Writers and readers of declared messages, compiled once per type when the first message of it comes.

A writer returns the parts of a message for msgpack, its number first.  A reader checks the received parts and returns
the message.  Both are Python functions made of the kinds of the fields (:mod:`p2prdf.wire.fields`), as
:mod:`dataclasses` makes constructors: one call per message, and one more per column.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import fields as fields_of
from functools import partial
from typing import Any, Final

from p2prdf.errors import LocalProtocolError, RemoteProtocolError
from p2prdf.wire import validation as check
from p2prdf.wire.fields import ADDED, BY_NUMBER, DECLARED, NUMBERS, Kind

__all__ = ["PARTS", "WRITERS", "Reader", "Readers", "Writer", "one_of", "read_message"]

Writer = Callable[[Any, Any], Any]
Reader = Callable[[Any, Any], Any]


class _Writers(dict[type, Writer]):
    """The writers of known types."""

    def __init__(self, known: Container[type]):
        self._known = known

    def __missing__(self, declared: type) -> Writer:
        if declared not in self._known:
            raise LocalProtocolError(f"{declared.__name__} is not a message")
        self[declared] = made = _writer(declared)
        return made


class _Readers(dict[type, Reader]):
    """The reader of each type."""

    def __missing__(self, declared: type) -> Reader:
        self[declared] = made = _reader(declared)
        return made


class Readers(dict[int, Reader]):
    """The readers of the messages of some base classes, by number."""

    def __init__(self, *bases: type):
        self._bases = bases

    def __missing__(self, number: int) -> Reader:
        declared = BY_NUMBER.get(number)
        if declared is None or not issubclass(declared, self._bases):
            raise RemoteProtocolError(f"unknown message type {check.shown(number)}")
        self[number] = made = PARTS[declared]
        return made


WRITERS: Final = _Writers(NUMBERS)
"""The writers of messages."""
PART_WRITERS: Final = _Writers(DECLARED)
PARTS: Final = _Readers()


def read_message(d: Any, value: Any, readers: Readers) -> Any:
    """Return the message with these parts, its number first."""
    if type(value) is not tuple:
        check.tuple_of(value, "a message")
    if not value or type(value[0]) is not int:
        raise RemoteProtocolError(f"unknown message type {check.shown(value[0] if value else None)}")
    return readers[value[0]](d, value)


def one_of(*bases: type) -> Kind:
    """Return the kind of a message of some base classes inside another one."""
    names = {"READERS": Readers(*bases)}
    fast = "READERS[{v}[0]](d, {v}) if type({v}) is tuple and {v} and type({v}[0]) is int else"
    return Kind("message", f"{{v}} = {fast} read_message(d, {{v}}, READERS)", "WRITERS[type({v})](e, {v})", names)


def read_several(d: Any, value: Any, declared: type, most: int) -> tuple[Any, ...]:
    """Return parts of one type."""
    read = PARTS[declared]
    return tuple([read(d, each) for each in check.at_most(check.tuple_of(value, "a sequence"), most, "parts")])


def write_several(e: Any, values: Any, declared: type, most: int) -> list[Any]:
    """Write parts of one type."""
    if len(values) > most:
        raise LocalProtocolError(f"{len(values)} {declared.__name__.lower()}s for one message; {most} fit")
    e.elements += len(values)
    write = PART_WRITERS[declared]
    return [write(e, each) for each in values]


_NAMES: Final = {
    "PARTS": PARTS, "PART_WRITERS": PART_WRITERS, "Refused": RemoteProtocolError, "WRITERS": WRITERS,
    "read_message": read_message, "read_several": read_several, "tuple_of": check.tuple_of,
    "write_several": write_several,
}  # fmt: skip


def _function(text: list[str], declared: type, **names: Any) -> Any:
    """Compile a function of names of the kinds of a type, and of others."""
    names |= _NAMES
    for kind in DECLARED[declared].values():
        for name, value in kind.uses.items():
            known = names.setdefault(name, value)
            assert known is value, f"two kinds of {declared.__name__} define {name} differently"
    exec("\n".join(text), names)  # noqa: S102 - templates of this package, and names of its fields
    return names["made"]


def _writer(declared: type) -> Writer:
    written = [kind.write.replace("{v}", f"m.{name}") for name, kind in DECLARED[declared].items()]
    parts = [str(NUMBERS[declared])] if declared in NUMBERS else []
    parts += written
    defaults = _added(declared)
    text = ["def made(e, m):", f" e.elements += {len(written) + 1}"]
    for name in reversed(defaults):
        text += [f" if m.{name} != default_{name}:", f"  return {_tuple(parts)}"]
        parts.pop()
    text.append(f" return {_tuple(parts)}")
    return _function(  # type: ignore[no-any-return]
        text, declared, **{f"default_{name}": default for name, default in defaults.items()}
    )


def _reader(declared: type) -> Reader:
    title, added = declared.__name__, _added(declared)
    values = {name: f"v{at}" for at, name in enumerate(DECLARED[declared])}
    parts = ["_"] * (declared in NUMBERS) + list(values.values())
    text = [
        "def made(d, p):",
        f" if type(p) is not tuple: tuple_of(p, {title.lower()!r})",
        f" if len(p) != {len(parts)}: p = (*p, *added) if len(p) == {len(parts) - len(added)} else whole(p)",
        f" {_tuple(parts)} = p" if parts else "",
        " at = 0",
        " try:",
    ]
    single, tables = [], []
    for at, (name, kind) in enumerate(DECLARED[declared].items()):
        text.append(f"  at = {at}; {kind.read.replace('{v}', values[name])}")
        if kind.is_column:
            single.append(values[name])
        elif kind.is_table:
            tables.append(values[name])
    text.append(f"  at = {len(values)}")
    if len(single) > 1:
        text.append(f"  if not {' == '.join(f'len({each})' for each in single)}: lengths({', '.join(single)})")
    text += [f"  if {each}: lengths({', '.join([*single[:1], f'*{each}'])})" for each in tables]
    text.append(f"  m = make({', '.join(values.values())})")
    if hasattr(declared, "_check"):
        text.append("  m._check(d.dictionary)")
    text += [" except Refused as error:", "  raise refused(at, error) from None", " return m"]
    return _function(  # type: ignore[no-any-return]
        text, declared, make=declared, added=tuple(added.values()),
        whole=partial(_whole, title, len(values), len(parts), added),
        lengths=partial(_same_lengths, title), refused=partial(_refused, title, list(values)),
    )  # fmt: skip


def _tuple(parts: list[str]) -> str:
    return f"({''.join(f'{each}, ' for each in parts)})"


def _added(declared: Any) -> dict[str, Any]:
    """Return the defaults of the fields that were added later, by name."""
    return {each.name: each.default for each in fields_of(declared) if each.name in ADDED.get(declared, ())}


def _whole(
    title: str, fields: int, count: int, added: dict[str, Any], parts: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Return all parts of a message of which the last ones may be left out."""
    left_out = count - len(parts)
    if not 0 < left_out <= len(added):
        raise RemoteProtocolError(f"{title} has {fields} fields, not {fields - left_out}")
    return (*parts, *list(added.values())[-left_out:])


def _same_lengths(title: str, *columns: Any) -> None:
    check.check_lengths(columns, title)


def _refused(title: str, names: list[str], at: int, error: RemoteProtocolError) -> RemoteProtocolError:
    return RemoteProtocolError(f"{title}{'.' + names[at] if at < len(names) else ''}: {error}")
