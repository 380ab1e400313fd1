"""One line of text per message, for logs, golden files and the command line.

A line has the message's name, its number of rows, then its fields without those that have their defaults.  Keys and
identities are 16 hexadecimal digits, stamps are seconds, plans are patterns in order of evaluation with numbered
constants.  Equal messages have equal lines in every process: term identifiers, which are local, and addresses of
objects are left out.  A line has at most ``LINE_CHARACTERS_MAX`` characters.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from p2prdf import hlc, keys
from p2prdf.columns import Column, as_list
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.query import ConjunctiveQuery, Pattern, Plan
from p2prdf.wire import messages as m
from p2prdf.wire.fields import DECLARED, Kind, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["LINE_CHARACTERS_MAX", "describe", "describe_plan"]

LINE_CHARACTERS_MAX: Final = 1000
_VALUES_MAX: Final = 4
_TEXT_CHARACTERS_MAX: Final = 60


def describe(message: Any) -> str:
    """Return a line about any message or envelope."""
    if isinstance(message, m.Envelope):
        transfer = f"#{message.transfer} " if message.transfer else ""
        return f"{transfer}{_stamp(message.clock)} {describe(message.message)}"
    said = [type(message).__name__]
    if hasattr(message, "__len__"):
        said.append(_count(len(message), "row"))
    said += [
        _field(field.name, kind, getattr(message, field.name))
        for field, kind in zip(dataclasses.fields(message), DECLARED[type(message)].values(), strict=True)
        if not kind.quiet and not _is_default(field.default, getattr(message, field.name))
    ]
    line = " ".join(part for part in said if part)
    return line if len(line) <= LINE_CHARACTERS_MAX else line[: LINE_CHARACTERS_MAX - 3] + "..."


def describe_plan(plan: Plan) -> str:
    """Return a plan in short form, such as ``csbv ?0 c0 ?1 . ?1 c1 ?2 -> ?0 ?2``."""
    patterns = " . ".join(_pattern(plan.patterns[position], _constant_number) for position in plan.order)
    marks = [
        " distinct" if plan.distinct else "", " per-event" if plan.per_event else "",
        " concludes" if plan.concludes else "",
    ]  # fmt: skip
    filters = " " + _count(len(plan.filters), "filter") if plan.filters else ""
    return f"{plan.algorithm.value} {patterns} -> {_variables(plan.answer)}{''.join(marks)}{filters}"


def _is_default(default: Any, value: Any) -> bool:
    return type(default) is type(value) and default is not True and bool(default == value)


def _field(name: str, kind: Kind, value: Any) -> str:
    """Describe a field."""
    spell = _SPELLINGS.get(kind.role, str)
    if kind.form in ("u32", "u64"):
        return f"{name}={_values(sorted(set(as_list(value))) if kind.role is Role.INDEXES else value, spell)}"
    match value:
        case Plan():
            return f"[{describe_plan(value)}]"
        case ConjunctiveQuery():
            return f"[{_query(value)}]"
        case StandingQuery():
            return f"[{value.form.value}: {'; '.join(map(_query, value.leaves))}]"
        case m.Groups():
            return f"{_count(len(value), 'group')}={_values(value.ids, _hexadecimal)}"
        case m.Rows():
            return f"{_count(len(value), 'row')}={_values(value.identity, _hexadecimal)}"
        case bool():
            return name if value else ""
        case str():
            return f"{name}={_text(value)}"
        case tuple():
            return f"{name}={_values(value, str)}"
    return f"{name}={spell(value)}"


def _values(values: Column | tuple[Any, ...], spell: Callable[[Any], str]) -> str:
    """Describe the first few of many values."""
    few = values[:_VALUES_MAX]
    first = ",".join(map(spell, few if isinstance(few, tuple) else as_list(few)))
    more = f",+{len(values) - _VALUES_MAX}" if len(values) > _VALUES_MAX else ""
    return first + more or "none"


def _hexadecimal(value: int) -> str:
    return f"{value:016x}"


def _stamp(stamp: int) -> str:
    if stamp >= hlc.GONE:
        return "-" + _stamp(stamp - hlc.GONE)
    if hlc.is_element(stamp):
        return f"@{hlc.element_ms(stamp) / 1000:.3f}"
    counter = stamp & ((1 << hlc.COUNTER_BITS) - 1)
    return f"{hlc.seconds(stamp):.3f}" + (f"+{counter}" if counter else "")


def _roles(bits: int) -> str:
    return keys.role_name(bits) or "none"


def _role(role: int) -> str:
    return keys.ROLE_NAMES.get(role, str(role))


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _text(text: str) -> str:
    return repr(text if len(text) <= _TEXT_CHARACTERS_MAX else text[: _TEXT_CHARACTERS_MAX - 3] + "...")


def _variables(numbers: Sequence[int]) -> str:
    return " ".join(f"?{number}" for number in numbers) or "()"


def _constant_number(number: int) -> str:
    return f"c{number}"


def _pattern(pattern: Pattern, constant: Callable[[int], str]) -> str:
    return " ".join(f"?{slot}" if slot >= 0 else constant(~slot) for slot in pattern)


def _query(query: ConjunctiveQuery) -> str:
    def constant(number: int) -> str:
        text = query.constants[number]
        return text if len(text) <= _TEXT_CHARACTERS_MAX else text[: _TEXT_CHARACTERS_MAX - 4] + "..." + text[-1]

    patterns = " . ".join(_pattern(pattern, constant) for pattern in query.patterns)
    distinct = (" distinct" if query.distinct else "") + (" concludes" if query.concludes else "")
    filters = " " + _count(len(query.filters), "filter") if query.filters else ""
    return f"{patterns} -> {_variables(query.answer)}{distinct}{filters}"


_SPELLINGS: Final[dict[Role, Callable[[Any], str]]] = {
    Role.IDENTITY: _hexadecimal, Role.INDEX: _role, Role.INDEXES: _roles,
    **dict.fromkeys((Role.STAMP, Role.BOUNDED, Role.PASSING, Role.CLIPPED, Role.OWN, Role.LEASE_END), _stamp),
}  # fmt: skip
