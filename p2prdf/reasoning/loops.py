"""Source texts of compiled rules: loops over matching facts, and the body of the innermost loop.

All names in them are generated here, and all numbers are those of terms; user input never enters them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

__all__ = ["Coded", "Constant", "Writer", "differs", "names_of", "order_of", "plan", "write_fact_match",
           "write_head_row", "write_loop", "write_put"]  # fmt: skip

_ORDER_OF: Final = {
    "": "pso", "p": "pso", "s": "spo", "o": "ops", "ps": "pso", "po": "pos", "so": "sop", "pso": "pso",
}  # fmt: skip
_UNIT: Final = "    "

Constant: TypeAlias = Callable[[str, int], str]
"""Returns the name of the dictionary of one predicate in an order that begins with it."""


@dataclass(slots=True)
class Writer:
    """The lines of one function."""

    lines: list[str] = field(default_factory=list)
    depth: int = 1

    def line(self, text: str) -> None:
        """Add a line."""
        self.lines.append(_UNIT * self.depth + text)

    def block(self, text: str) -> None:
        """Add a line that opens a block for the following lines."""
        self.line(text)
        self.depth += 1


@dataclass(frozen=True, slots=True)
class Coded:
    """A pattern of numbers and variables: an int, or the name of a local variable."""

    s: int | str
    p: int | str
    o: int | str

    def parts(self) -> tuple[tuple[str, int | str], ...]:
        """Return each part with its letter."""
        return (("s", self.s), ("p", self.p), ("o", self.o))


def order_of(known: str) -> str:
    """Return, by the known parts of a pattern, the order in which matching facts lie side by side."""
    return _ORDER_OF[known]


def names_of(atom: Coded) -> set[str]:
    """Return the variables of a pattern."""
    return {part for _, part in atom.parts() if isinstance(part, str)}


def plan(body: Sequence[Coded], but: int | None, names: set[str]) -> dict[int, tuple[Coded, str]]:
    """Return the other patterns of a body by place, in the order of look-up, with the parts of each known by then."""
    rest = [place for place in range(len(body)) if place != but]
    names, found = set(names), {}
    while rest:
        known = {place: _known(body[place], names) for place in rest}
        place = max(rest, key=lambda each: (len(known[each]), "p" in known[each]))
        found[place] = (body[place], known[place])
        names |= names_of(body[place])
        rest.remove(place)
    return found


def _known(atom: Coded, names: set[str]) -> str:
    """Return the known parts of a pattern, ``p`` first."""
    return "".join(at for at in "pso" if isinstance(part := getattr(atom, at), int) or part in names)


def differs(each: Coded, atom: Coded) -> str:
    """Return the test that the fact found for a pattern is not the one in the place of ``atom``."""
    pairs = zip(each.parts(), atom.parts(), strict=True)
    tests = [f"{part} != {at}" for (at, part), (_, same) in pairs if not (isinstance(part, int) and part == same)]
    return " or ".join(tests) or "False"


def write_fact_match(writer: Writer, atom: Coded, otherwise: str) -> None:
    """Write the match of the fact ``s``, ``p``, ``o`` with a pattern, or ``otherwise`` on a mismatch."""
    seen: dict[str, str] = {}
    for at, part in atom.parts():
        if isinstance(part, int):
            test = f"{at} != {part}"
        elif part in seen:
            test = f"{at} != {seen[part]}"
        else:
            seen[part] = at
            writer.line(f"{part} = {at}")
            continue
        writer.line(f"if {test}: {otherwise}")


def write_loop(
    writer: Writer, atom: Coded, known: str, names: set[str], constant: Constant, label: str, put: Coded | None = None
) -> str:
    """Write the loops over the facts that match a pattern; return the name of their label.

    ``put``: the fact that is put meanwhile; if its row is the row walked, a copy of the row is walked.
    """
    order = _ORDER_OF[known]
    depth = len(known)
    place, start = order, 0
    if known and isinstance(first := getattr(atom, order[0]), int) and order[0] == "p":
        place, start = constant(order, first), 1
    for at in order[start : min(depth, 2)]:
        place = f"{place}.get({getattr(atom, at)}, EMPTY)"
    seen, checks = set(names), []
    for level in range(depth, 3):
        part = getattr(atom, order[level])
        name = part
        if part in seen:  # the variable occurs twice in the pattern
            name = f"again{level}"
            checks.append(f"{name} == {part}")
        seen.add(part)
        inner = label if level == 2 else f"rows{level}_{len(writer.lines)}"
        pairs = f"{place}.items()"
        if put is not None:
            other = _other_row(atom, put, order, names) if level == 2 else "False"
            pairs = f"{pairs} if {other} else list({pairs})"
        writer.block(f"for {name}, {inner} in {pairs}:")
        place = inner
    if depth == 3:
        found = label if label != "_" else "there"
        writer.line(f"{found} = {place}.get({getattr(atom, order[2])}, ABSENT)")
        writer.block(f"if {found} != ABSENT:")
    if checks:
        writer.block(f"if {' and '.join(checks)}:")
    return label


def _other_row(walked: Coded, put: Coded, order: str, names: set[str]) -> str:
    """Return the test that a fact that is put goes into another row of an order than the row walked."""
    tests = []
    for at in order[:2]:
        one, other = getattr(walked, at), getattr(put, at)
        if isinstance(one, int) and isinstance(other, int):
            if one != other:
                return "True"
        elif isinstance(other, str) and other not in names:
            return "False"
        else:
            tests.append(f"{one} != {other}")
    return " or ".join(tests) or "False"


def write_head_row(writer: Writer, head: Coded, names: set[str], constant: Constant) -> bool:
    """Write the look-up of the row with the head's subject and predicate, as ``head``, if both are known."""
    if not {"p", "s"} <= set(_known(head, names)):
        return False
    place = constant("pso", head.p) if isinstance(head.p, int) else f"pso.get({head.p}, EMPTY)"
    writer.line(f"head = {place}.get({head.s}, EMPTY)")
    return True


def write_put(writer: Writer, head: Coded, orders: Iterable[str], constant: Constant, label: str) -> None:
    """Write the assignment of a label to the head in every order; its row is ``head``."""
    for order in orders:
        first, second, third = (getattr(head, at) for at in order)
        if order == "pso":
            writer.line(f"if head is not EMPTY: head[{third}] = {label}")
            writer.block("else:")
        rows = "rows"
        if order[0] == "p" and isinstance(first, int):
            rows = constant(order, first)
        else:
            writer.line(f"rows = {order}.get({first})")
            writer.line(f"if rows is None: rows = {order}[{first}] = {{}}")
        if order == "pso":
            writer.line(f"head = {rows}[{second}] = {{{third}: {label}}}")
            writer.depth -= 1
        else:
            writer.line(f"row = {rows}.get({second})")
            writer.line(f"if row is None: {rows}[{second}] = {{{third}: {label}}}")
            writer.line(f"else: row[{third}] = {label}")
