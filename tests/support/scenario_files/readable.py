"""Prints a message as a line that a reader follows: terms as text, keys as names, patterns with their bindings.

Ring positions of nodes are their names.  Other 64-bit numbers get a name at their first appearance: ``sub1`` is the
first subscription, ``group1`` the first group, ``#1`` the first partial result or solution.  Stamps, request numbers
and digests are left out.  Fields are recognised by name and shape, not by the type of the message.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from p2prdf import hlc, keys
from p2prdf.columns import as_list
from p2prdf.wire.messages import WITHDRAWN, Contact

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from p2prdf.rdf.dictionary import TermDictionary

__all__ = ["BASE", "Readable", "full", "short"]

BASE: Final = "http://example.org/"
"""The prefix ``:`` stands for this IRI."""
_INTEGER: Final = "^^<http://www.w3.org/2001/XMLSchema#integer>"
_VALUES_MAX: Final = 6
_ITEM_TYPES: Final = {16: "waiting rows", 17: "chain links", 18: "subscriptions", 19: "ends of streams"}


def short(term: str) -> str:
    """Return a term with the prefix ``:``."""
    if term.startswith(f"<{BASE}"):
        return ":" + term[len(BASE) + 1 : -1]
    if term.endswith(_INTEGER):
        return term[1 : -len(_INTEGER) - 1]
    return term


def full(token: str) -> str:
    """Return the canonical form of a term as a script writes it."""
    if token.startswith(":"):
        return f"<{BASE}{token[1:]}>"
    return f'"{token}"{_INTEGER}' if token.lstrip("-").isdigit() else token


class Readable:
    """Names of nodes, and names given to other numbers so far."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self._given: dict[tuple[str, int], str] = {}
        self._counts: dict[str, int] = {}

    def name(self, family: str, number: int) -> str:
        """Return the name of a number of a family, such as ``sub1``."""
        found = self._given.get((family, number))
        if found is None:
            self._counts[family] = self._counts.get(family, 0) + 1
            found = self._given[family, number] = f"{family}{self._counts[family]}"
        return found

    def message(self, message: Any, dictionary: TermDictionary) -> str:
        """Return a line about a message with terms of ``dictionary``."""
        fields = {each.name: getattr(message, each.name) for each in dataclasses.fields(message)}
        parts: list[str] = []
        if {"s", "p", "o"} <= fields.keys():
            parts += self._triples(fields, dictionary)
        if "plan" in fields:
            parts += self._waiting(fields, dictionary)
        elif "rows" in fields:
            parts += self._answers(fields, dictionary)
        elif "bindings" in fields:
            said = self._solutions(fields["identity"], fields["born"], fields["bindings"], dictionary)
            parts += [", ".join(said)] if said else []
        elif "identity" in fields and not isinstance(fields["identity"], int):
            parts.append(_some([self._identity(each) for each in as_list(fields["identity"])]) or "none")
        for field_name, show in _SHOWN.items():
            said = show(self, fields[field_name]) if field_name in fields else ""
            if said.startswith("-"):
                parts.append(said[1:])
            elif said:
                parts.append(f"{field_name}={said}")
        return f"{type(message).__name__}({'; '.join(part for part in parts if part)})"

    # --- content ---------------------------------------------------------------------------------

    def _triples(self, fields: dict[str, Any], dictionary: TermDictionary) -> list[str]:
        columns = [list(map(short, dictionary.texts(as_list(fields.pop(part))))) for part in ("s", "p", "o")]
        triples = [" ".join(each) for each in zip(*columns, strict=True)]
        times = as_list(fields.get("time", [0] * len(triples)))
        marked = [
            f"delete {triple}" if time >= hlc.GONE else triple for triple, time in zip(triples, times, strict=True)
        ]
        if "roles" not in fields:
            return [_some(marked)]
        roles = as_list(fields.pop("roles"))
        return [f"{triple} {_indexes(bits)}".rstrip() for triple, bits in zip(marked, roles, strict=True)]

    def _waiting(self, fields: dict[str, Any], dictionary: TermDictionary) -> list[str]:
        """Return, for each group or row, the pattern that it waits for."""
        plan, number, groups = fields.pop("plan"), fields.pop("step"), fields.pop("groups")
        step = plan.steps[number]
        params = [dictionary.texts(as_list(column)) for column in groups.params]
        names = [self.name("group", each) for each in as_list(groups.ids)]
        rows = fields.pop("rows", None)
        if rows is None:
            return [
                f"{name} waits for {_pattern(step.pattern, [column[at] for column in params], {})}"
                for at, name in enumerate(names)
            ]
        bound = [dictionary.texts(as_list(column)) for column in rows.bindings]
        said = []
        marks = zip(as_list(rows.group), as_list(rows.identity), as_list(rows.oldest), strict=True)
        for place, (group, identity, oldest) in enumerate(marks):
            values = {variable: column[place] for variable, column in zip(step.bound, bound, strict=True)}
            constants = [column[group] for column in params]
            carried = " ".join(
                f"?{variable}={short(value)}" for variable, value in values.items() if variable not in step.pattern
            )
            pattern = _pattern(step.pattern, constants, values)
            verb = "waits no more" if number and oldest >= hlc.GONE else "waits"
            waiting = f"{names[group]} {self._identity(identity)} {verb} for {pattern}"
            said.append(waiting + (f", has {carried}" if carried else ""))
        return [_some(said)]

    def _answers(self, fields: dict[str, Any], dictionary: TermDictionary) -> list[str]:
        groups, rows = as_list(fields.pop("groups")), fields.pop("rows")
        said = self._solutions(rows.identity, rows.oldest, rows.bindings, dictionary)
        names = [self.name("group", groups[place]) for place in as_list(rows.group)]
        return [", ".join(f"{name} {each}" for name, each in zip(names, said, strict=True))]

    def _solutions(
        self, identity: Any, times: Any, bindings: Sequence[Any], dictionary: TermDictionary
    ) -> list[str]:  # fmt: skip
        """Return each solution; one that is not true any more has a mark in its time."""
        columns = [list(map(short, dictionary.texts(as_list(column)))) for column in bindings]
        return [
            ("retract " if stamp >= hlc.GONE else "")
            + " ".join([self._identity(each), *(column[place] for column in columns)])
            for place, (each, stamp) in enumerate(zip(as_list(identity), as_list(times), strict=True))
        ]

    def _identity(self, value: int) -> str:
        return self.name("#", value & ~WITHDRAWN)

    # --- single fields ---------------------------------------------------------------------------

    def node(self, value: int | Contact) -> str:
        """Return the name of the node at a ring position, nothing for 0."""
        key = value.key if isinstance(value, Contact) else value
        return self.names.get(key, "") if key else ""


def _some(values: Sequence[str]) -> str:
    shown = ", ".join(values[:_VALUES_MAX])
    return shown + (f", and {len(values) - _VALUES_MAX} more" if len(values) > _VALUES_MAX else "")


def _indexes(bits: int) -> str:
    """Return the indexes of a set in capitals; a star: the receiver is the primary there."""
    named = [
        keys.ROLE_NAMES[role].upper() + ("*" if bits >> (role + keys.PRIMARY_SHIFT) & 1 else "")
        for role in keys.ROLES
        if bits >> role & 1
    ]
    return f"[{' '.join(named)}]" if named else ""


def _pattern(pattern: Sequence[int], constants: Sequence[str], values: dict[int, str]) -> str:
    """Return a pattern with its constants and the values of variables that are bound."""
    return " ".join(
        short(constants[~slot]) if slot < 0 else short(values[slot]) if slot in values else f"?{slot}"
        for slot in pattern
    )


def _named(family: str) -> Callable[[Readable, Any], str]:
    def show(self: Readable, value: Any) -> str:
        values = [value] if isinstance(value, int) else as_list(value)
        return "-" + _some([self.name(family, each) for each in values if each])

    return show


def _flag(name: str) -> Callable[[Readable, Any], str]:
    return lambda _, value: f"-{name}" if value else ""


def _text(self: Readable, value: Any) -> str:
    return repr(value) if value else ""


def _count(self: Readable, value: Any) -> str:
    return f"-{len(value)} identities" if len(value) != 1 else "-1 identity"


def _item_type(value: int) -> str:
    if value < len(keys.ROLE_NAMES):
        return f"triples by {keys.ROLE_NAMES[value].upper()}"
    return _ITEM_TYPES.get(value, f"events by {keys.ROLE_NAMES.get(value - keys.EVENT_SHIFT, '?').upper()}")


def _item_types(self: Readable, value: Any) -> str:
    if isinstance(value, int):
        return "-" + _item_type(value)
    values = as_list(value)
    return "-" + (_some([_item_type(each) for each in values]) if len(values) <= _VALUES_MAX else
                  f"{len(values)} item types")  # fmt: skip


_SHOWN: Final[dict[str, Callable[[Readable, Any], str]]] = {
    "subscription": _named("sub"),
    "subscriptions": _named("sub"),
    "group": _named("group"),
    "groups": _named("group"),
    "kind": _item_types,
    "kinds": _item_types,
    "identities": _count,
    "subscriber": Readable.node,
    "asker": Readable.node,
    "holder": Readable.node,
    "origin": Readable.node,
    "suspect": Readable.node,
    "kept": _flag("store only"),
    "copied": _flag("copied"),
    "asked": _flag("asked"),
    "more": _flag("more follow"),
    "elsewhere": _flag("elsewhere"),
    "told": _flag("delivered next"),
    "lost": lambda _, value: str(int(value)) if value else "",
    "hops": lambda _, value: "-passed on" if value else "",
    "code": _text,
    "why": _text,
}
"""Fields that are printed, in that order; a text that starts with a dash stands without the field's name."""
