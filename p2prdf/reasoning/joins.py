"""Rules compiled to loops: what follows from one fact, and what a fact follows from.

The problem.  A rule is tried for each fact that any of its patterns takes, and almost all time goes into the innermost
loop.  An interpreter of rules spends several times the loop's own work on finding out what to do next.

The idea.  For each rule and each of its patterns a function is written, in Python, once: it takes a fact in this
pattern's place and has one loop for each further pattern, over just the dictionary that holds what matches
(:mod:`p2prdf.reasoning.facts`).  Patterns come in the order in which most of their parts are known.  What is written
is made of variable names, numbers and the texts in this module; nothing that a user wrote gets into it.

Transitivity, for a fact in the place of the first pattern of ``?x p ?z :- ?x p ?y, ?y p ?z``::

    def fire(s, p, o, label, out):
        head = pso_7.get(s, EMPTY)
        for v2, t in pso_7.get(o, EMPTY).items():
            t1 = t if t < label else label
            if head.get(v2, ABSENT) < t1:
                out((s, 7, v2, t1))

The functions differ in which heads they tell (:class:`Tell`) and whether labels count.  Nothing is changed while they
run, for they walk the dictionaries.

A schema makes thousands of rules, most for facts that never come, and writing a function takes as long as running it a
thousand times.  So each is written when the first fact comes that it takes (:class:`Filed`).
"""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from p2prdf.reasoning.facts import ABSENT, Fact, Facts
from p2prdf.reasoning.rule import Atom, Rule

__all__ = ["Derivation", "Filed", "Fire", "Program", "Tell"]

Derivation: TypeAlias = tuple[int, int, int, int]
"""A fact and the label it was derived with."""
Fire: TypeAlias = Callable[[int, int, int, int, Callable[[Derivation], object]], None]
"""Tells what follows from a fact (its parts and its label), one call for each rule instance that is to be told."""
Best: TypeAlias = Callable[[int, int, int, int], int]
"""Returns the best label a fact has of a rule, or the given one if that is no worse."""

_ORDER_OF: Final = {
    "": "pso", "p": "pso", "s": "spo", "o": "ops", "ps": "pso", "po": "pos", "so": "sop", "pso": "pso",
}  # fmt: skip
"""By what of a pattern is known: the order in which facts that match lie side by side."""
_UNIT: Final = "    "
_CODES_MAX: Final = 4096
"""Compiled texts that are remembered: equal rules with equal numbers, as whoever closes one small graph after another
has, are compiled once."""


class Tell(enum.Enum):
    """Which heads are told of, and with what labels."""

    RAISED = "labels count: heads that have a worse label, or none"
    SUPPORTED = "labels count: heads that have just this label"
    MISSING = "labels do not count: heads that are not there"
    PRESENT = "labels do not count: heads that are there"


@dataclass(slots=True)
class _Writer:
    """The lines of one function."""

    lines: list[str] = field(default_factory=list)
    depth: int = 1

    def line(self, text: str) -> None:
        self.lines.append(_UNIT * self.depth + text)

    def block(self, text: str) -> None:
        self.line(text)
        self.depth += 1


@dataclass(frozen=True, slots=True)
class _Coded:
    """A pattern of numbers and variables: an int, or the name of a local variable."""

    s: int | str
    p: int | str
    o: int | str

    def parts(self) -> tuple[tuple[str, int | str], ...]:
        return (("s", self.s), ("p", self.p), ("o", self.o))


_Function = TypeVar("_Function", Fire, Best)


class _Once(Generic[_Function]):
    """What makes a function, and makes it once: with thousands of rules lighter than :func:`functools.cache`."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], _Function]):
        self._make: Callable[[], _Function] = make
        self._made: _Function | None = None

    def __call__(self) -> _Function:
        if self._made is None:
            self._made = self._make()
        return self._made


class Filed(Generic[_Function]):
    """Functions by the facts that they take, each written when the first of these is there.

    Facts are told apart by predicate and object: a schema has a rule for each class, and all of these take facts of
    one predicate, but those of a class.
    """

    def __init__(self, filed: Iterable[tuple[_Coded, Callable[[], _Function]]]):
        """``filed``: what facts each function takes, and what makes it, which is called once."""
        self._makers: dict[tuple[int | None, int | None], list[_Once[_Function]]] = {}
        self._objects: dict[int, set[int]] = {}
        for atom, make in filed:
            p, o = (part if isinstance(part, int) else None for part in (atom.p, atom.o))
            if p is None:
                o = None
            elif o is not None:
                self._objects.setdefault(p, set()).add(o)
            self._makers.setdefault((p, o), []).append(_Once(make))
        self._of_predicate: dict[int, tuple[_Function, ...]] = {}
        self._of_object: dict[tuple[int, int], tuple[_Function, ...]] = {}
        """Of predicates by which objects are told apart, with -1 for all other objects."""

    def of(self, predicate: int, obj: int) -> tuple[_Function, ...]:
        """Return the functions for facts of a predicate and object; not while others of them run."""
        found = self._of_predicate.get(predicate)  # before all else: most facts need no more
        return self._found(predicate, obj) if found is None else found

    def _found(self, predicate: int, obj: int) -> tuple[_Function, ...]:
        objects = self._objects.get(predicate)
        if objects is None:
            found = self._of_predicate[predicate] = self._written((predicate, None), (None, None))
            return found
        key = (predicate, obj if obj in objects else -1)
        if key not in self._of_object:
            self._of_object[key] = self._written(key, (predicate, None), (None, None))
        return self._of_object[key]

    def _written(self, *keys: tuple[int | None, int | None]) -> tuple[_Function, ...]:
        return tuple(make() for key in keys for make in self._makers.get(key, ()))


class Program:
    """Rules over facts of numbers, compiled.  ``facts`` keeps the orders that they need."""

    def __init__(
        self, rules: Iterable[Rule], intern: Callable[[str], int], is_literal: Callable[[int], bool] | None = None
    ):
        """``intern``: the number of a term; ``is_literal``: whether a number is that of a literal; None: none is."""
        self.rules = tuple(dict.fromkeys(rules))
        coded = [_coded(rule, intern) for rule in self.rules]
        self._bodies = [body for _, body in coded]
        self._heads = [head for head, _ in coded]
        orders = {_ORDER_OF[known] for known in self._lookups()}
        self.facts = Facts(orders)
        self._guarded = is_literal is not None
        self._space: dict[str, Any] = {"EMPTY": {}, "ABSENT": ABSENT, "is_literal": is_literal}
        for order in ("pso", *sorted(orders - {"pso"})):
            self._space[order] = self.facts.orders[order]

    def _lookups(self) -> set[str]:
        """Return what is known of patterns when facts are looked up for them."""
        found: set[str] = set()
        for head, body in zip(self._heads, self._bodies, strict=True):
            for place in range(len(body)):
                found |= {known for _, known in _plan(body, place, _names(body[place]))}
            found |= {known for _, known in _plan(body, None, _names(head))}
        return found

    def firing(self, tell: Tell) -> Filed[Fire]:
        """Return what follows from facts; told are the heads that ``tell`` names."""

        def write(head: _Coded, body: Sequence[_Coded], place: int) -> Fire:
            guarded = _only_objects(head, body) if self._guarded else []
            return cast("Fire", self._made(_fire(head, body, place, tell, self._constant, guarded)))

        return Filed(
            (atom, functools.partial(write, head, body, place))
            for head, body in zip(self._heads, self._bodies, strict=True)
            for place, atom in enumerate(body)
        )

    def best(self) -> Callable[[Fact], int]:
        """Return a function for the best label that a fact has by any rule, ABSENT if by none."""

        def write(head: _Coded, body: Sequence[_Coded]) -> Best:
            return cast("Best", self._made(_best(head, body, self._constant)))

        functions = Filed(
            (head, functools.partial(write, head, body))
            for head, body in zip(self._heads, self._bodies, strict=True)
        )

        def best(fact: Fact) -> int:
            s, p, o = fact
            found = ABSENT
            for function in functions.of(p, o):
                found = function(s, p, o, found)
            return found

        return best

    def _constant(self, order: str, first: int) -> str:
        """Return the name of the dictionary of one predicate in an order that begins with it."""
        name = f"{order}_{first}"
        if name not in self._space:
            self._space[name] = self.facts.orders[order].setdefault(first, {})
        return name

    def _made(self, source: str) -> Any:
        exec(_compiled(source), self._space)  # noqa: S102 - made of the texts in this module
        return self._space.pop("function")


@functools.lru_cache(maxsize=_CODES_MAX)
def _compiled(source: str) -> types.CodeType:
    return compile(source, "<rule>", "exec")


def _coded(rule: Rule, intern: Callable[[str], int]) -> tuple[_Coded, list[_Coded]]:
    names: dict[str, str] = {}

    def part(text: str) -> int | str:
        return names.setdefault(text, f"v{len(names)}") if text.startswith("?") else intern(text)

    def atom(of: Atom) -> _Coded:
        return _Coded(*map(part, of))

    body = [atom(each) for each in rule.body]
    return atom(rule.head), body


def _names(atom: _Coded) -> set[str]:
    return {part for _, part in atom.parts() if isinstance(part, str)}


def _known(atom: _Coded, names: set[str]) -> str:
    """Return which parts of a pattern are known: ``p`` first."""
    return "".join(at for at in "pso" if isinstance(part := getattr(atom, at), int) or part in names)


def _plan(body: Sequence[_Coded], but: int | None, names: set[str]) -> list[tuple[_Coded, str]]:
    """Return the other patterns of a body in the order to look them up, with what is known of each then."""
    rest = [atom for place, atom in enumerate(body) if place != but]
    names, plan = set(names), []
    while rest:
        atom = max(rest, key=lambda each: (len(_known(each, names)), "p" in _known(each, names)))
        plan.append((atom, _known(atom, names)))
        names |= _names(atom)
        rest.remove(atom)
    return plan


def _fire(
    head: _Coded,
    body: Sequence[_Coded],
    place: int,
    tell: Tell,
    constant: Callable[[str, int], str],
    guarded: Sequence[str],
) -> str:
    """Write the function that tells what follows from a fact in one place of a rule.

    ``guarded``: variables for which a literal tells nothing.
    """
    writer, atom = _Writer(), body[place]
    _match(writer, atom)
    labelled = tell in (Tell.RAISED, Tell.SUPPORTED)
    label = "label"
    heads = _HeadRow(head, constant)
    names = _names(atom)
    heads.write(writer, names)
    for number, (each, known) in enumerate(_plan(body, place, names)):
        found = _loop(writer, each, known, names, constant, f"t{number}" if labelled else "_")
        if labelled:
            writer.line(f"l{number} = {found} if {found} < {label} else {label}")
            label = f"l{number}"
        names |= _names(each)
        heads.write(writer, names)
    row, o = heads.name, head.o
    writer.block({
        Tell.RAISED: f"if {row}.get({o}, ABSENT) < {label}:",
        Tell.SUPPORTED: f"if {row}.get({o}, ABSENT) == {label}:",
        Tell.MISSING: f"if {o} not in {row}:",
        Tell.PRESENT: f"if {o} in {row}:",
    }[tell])  # fmt: skip
    for name in guarded:
        writer.block(f"if not is_literal({name}):")
    writer.line(f"out(({head.s}, {head.p}, {o}, {label}))")
    return "\n".join(["def function(s, p, o, label, out):", *writer.lines])


def _only_objects(head: _Coded, body: Sequence[_Coded]) -> list[str]:
    """Return the variables in a head's subject and predicate that may be literals: the body has them as objects alone.

    Elsewhere they take what is a subject or predicate of a fact, which no literal is.
    """
    elsewhere = {part for atom in body for part in (atom.s, atom.p)}
    return [part for part in (head.s, head.p) if isinstance(part, str) and part not in elsewhere]


def _best(head: _Coded, body: Sequence[_Coded], constant: Callable[[str, int], str]) -> str:
    """Write the function that returns the best label a fact has of a rule."""
    writer = _Writer()
    _match(writer, head, "best")
    names, label = _names(head), ""
    for number, (each, known) in enumerate(_plan(body, None, names)):
        found = _loop(writer, each, known, names, constant, f"t{number}")
        if label:
            writer.line(f"l{number} = {found} if {found} < {label} else {label}")
            label = f"l{number}"
        else:
            label = found
        names |= _names(each)
    writer.block(f"if {label} > best:")
    writer.line(f"best = {label}")
    writer.depth = 1
    writer.line("return best")
    return "\n".join(["def function(s, p, o, best):", *writer.lines])


def _match(writer: _Writer, atom: _Coded, result: str = "") -> None:
    """Write what takes a fact for a pattern, or returns."""
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
        writer.line(f"if {test}: return {result}".rstrip())


def _loop(
    writer: _Writer, atom: _Coded, known: str, names: set[str], constant: Callable[[str, int], str], label: str
) -> str:
    """Write the loops over the facts that match a pattern; return the name of their label."""
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
        if part in seen:  # the variable stands twice in the pattern
            name = f"again{level}"
            checks.append(f"{name} == {part}")
        seen.add(part)
        if level == 2:
            writer.block(f"for {name}, {label} in {place}.items():")
        else:
            inner = f"rows{level}_{len(writer.lines)}"
            writer.block(f"for {name}, {inner} in {place}.items():")
            place = inner
    if depth == 3:
        found = label if label != "_" else "there"
        writer.line(f"{found} = {place}.get({getattr(atom, order[2])}, ABSENT)")
        writer.block(f"if {found} != ABSENT:")
    if checks:
        writer.block(f"if {' and '.join(checks)}:")
    return label


@dataclass(slots=True)
class _HeadRow:
    """Where the facts with the head's subject and predicate are, as soon as these are known."""

    head: _Coded
    constant: Callable[[str, int], str]
    name: str = ""

    def write(self, writer: _Writer, names: set[str]) -> None:
        if self.name or not {"p", "s"} <= set(_known(self.head, names)):
            return
        self.name = "head"
        s, p = self.head.s, self.head.p
        place = self.constant("pso", p) if isinstance(p, int) else f"pso.get({p}, EMPTY)"
        writer.line(f"head = {place}.get({s}, EMPTY)")
