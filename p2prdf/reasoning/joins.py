"""Rules compiled to loops: what follows from facts, and what a fact follows from.

The problem.  A rule is tried for each fact that any of its patterns takes, and almost all time goes into the innermost
loop.  An interpreter of rules spends several times the loop's own work on finding out what to do next; even calling a
function for each fact, and another for each that follows, takes longer than the join.

The idea.  For each rule and each of its patterns a function is written, in Python, once: it takes facts in this
pattern's place and has one loop for each further pattern, over just the dictionary that holds what matches
(:mod:`p2prdf.reasoning.facts`).  Patterns come in the order in which most of their parts are known.  What is written
is made of variable names, numbers and texts (:mod:`p2prdf.reasoning.loops`); nothing that a user wrote gets into it.

There are two kinds.  Those that *tell* call for each head that is of interest (:class:`Tell`), and nothing is changed
while they run.  Those that *put* give heads their labels themselves, in all orders that are kept, and list them.  They
walk a copy of a row that they write to, and miss nothing by it: what they have put is looked at itself later, with all
that is there by then.  Transitivity, for facts in the place of the first pattern of
``?x p ?z :- ?x p ?y, ?y p ?z``, when labels rise (the order ``pos`` is written like ``pso``)::

    def function(facts, added, raised, levels):
        for (s, p, o), label in facts:
            if p != 7: continue
            head = pso_7.get(s, EMPTY)
            for v2, t1 in pso_7.get(o, EMPTY).items() if o != s else list(pso_7.get(o, EMPTY).items()):
                l1 = t1 if t1 < label else label
                was = head.get(v2, ABSENT)
                if was < l1:
                    ... head[v2] = l1 ...
                    fact = (s, 7, v2)
                    levels[l1].append(fact)
                    (added if was == ABSENT else raised)[fact] = l1

A schema makes thousands of rules, most for facts that never come, and writing a function takes as long as running it a
thousand times.  So each is written when the first fact comes that it takes (:class:`Filed`).
"""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

from p2prdf.reasoning.facts import ABSENT, Fact, Facts
from p2prdf.reasoning.loops import (
    Coded,
    Constant,
    Writer,
    differs,
    names_of,
    order_of,
    plan,
    write_fact_match,
    write_head_row,
    write_loop,
    write_put,
)
from p2prdf.reasoning.rule import Atom, Rule, is_transitivity
from p2prdf.reasoning.transitive import Transitive, set_apart

__all__ = ["Add", "Derivation", "Filed", "Program", "Raise", "Tell", "Telling"]

Derivation: TypeAlias = tuple[int, int, int, int]
"""A fact and the label it was derived with."""
Telling: TypeAlias = Callable[[Collection[Fact], int, Callable[[Derivation], object]], None]
"""Tells what follows from facts of one label, one call for each rule instance that is to be told."""
Add: TypeAlias = Callable[[Collection[Fact], int, Callable[[Fact], object]], None]
"""Puts what follows from facts and is not there, with the given label, and tells each once."""
Raise: TypeAlias = Callable[
    [Iterable[tuple[Fact, int]], dict[Fact, int], dict[Fact, int], Mapping[int, list[Fact]]], None
]
"""Puts what follows from facts and their labels if its label is better; notes the new labels of what was not there, of
what was, and all of it by label."""
Best: TypeAlias = Callable[[int, int, int, int], int]
"""Returns the best label a fact has of a rule, or the given one if that is no worse."""
_Kind = TypeVar("_Kind")
_CODES_MAX: Final = 4096
"""Compiled texts that are remembered: equal rules with equal numbers, as whoever closes one small graph after another
has, are compiled once."""


class Tell(enum.Enum):
    """Which heads are told of, and with what labels."""

    RAISED = "labels count: heads that have a worse label, or none"
    SUPPORTED = "labels count: heads that have just this label"
    PRESENT = "labels do not count: heads that are there"
    EACH = "labels do not count: the head of every rule instance, once even if the fact stands in it twice"


class _Once(Generic[_Kind]):
    """What makes a function, and makes it once: with thousands of rules lighter than :func:`functools.cache`."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], _Kind]):
        self._make: Callable[[], _Kind] = make
        self._made: _Kind | None = None

    def __call__(self) -> _Kind:
        if self._made is None:
            self._made = self._make()
        return self._made


class Filed(Generic[_Kind]):
    """Functions by the facts that they take, each written when the first of these is there.

    Facts are told apart by predicate and object: a schema has a rule for each class, and all of these take facts of
    one predicate, but those of a class.
    """

    def __init__(self, filed: Iterable[tuple[Coded, Callable[[], _Kind]]]):
        """``filed``: what facts each function takes, and what makes it, which is called once."""
        self._makers: dict[tuple[int | None, int | None], list[_Once[_Kind]]] = {}
        self._objects: dict[int, set[int]] = {}
        for atom, make in filed:
            p, o = (part if isinstance(part, int) else None for part in (atom.p, atom.o))
            if p is None:
                o = None
            elif o is not None:
                self._objects.setdefault(p, set()).add(o)
            self._makers.setdefault((p, o), []).append(_Once(make))
        self._of_predicate: dict[int, tuple[_Kind, ...]] = {}
        self._of_object: dict[tuple[int, int], tuple[_Kind, ...]] = {}
        """Of predicates by which objects are told apart, with -1 for all other objects."""
        only = [p for p, o in self._makers if len(self._makers) == 1 and o is None]
        self._only = only[0] if only else None
        """The predicate of all facts that any function takes, if that is one."""

    def of(self, predicate: int, obj: int) -> tuple[_Kind, ...]:
        """Return the functions for facts of a predicate and object; not while others of them run."""
        found = self._of_predicate.get(predicate)  # before all else: most facts need no more
        return self._found(predicate, obj) if found is None else found

    def parts(self, facts: Collection[Fact]) -> Iterator[tuple[tuple[_Kind, ...], Collection[Fact]]]:
        """Yield facts with the functions for them, those that the same functions take together."""
        if self._only is not None:  # the functions leave out facts of other predicates themselves
            yield self.of(self._only, -1), facts
            return
        found: dict[tuple[int, int], list[Fact]] = {}
        objects = self._objects
        for fact in facts:
            _, p, o = fact
            key = (p, o if p in objects and o in objects[p] else -1)
            if key in found:
                found[key].append(fact)
            else:
                found[key] = [fact]
        for (p, o), part in found.items():
            yield self.of(p, o), part

    def _found(self, predicate: int, obj: int) -> tuple[_Kind, ...]:
        objects = self._objects.get(predicate)
        if objects is None:
            found = self._of_predicate[predicate] = self._written((predicate, None), (None, None))
            return found
        key = (predicate, obj if obj in objects else -1)
        if key not in self._of_object:
            self._of_object[key] = self._written(key, (predicate, None), (None, None))
        return self._of_object[key]

    def _written(self, *keys: tuple[int | None, int | None]) -> tuple[_Kind, ...]:
        return tuple(make() for key in keys for make in self._makers.get(key, ()))


class Program:
    """Rules over facts of numbers, compiled.  ``facts`` keeps the orders that they need."""

    def __init__(
        self, rules: Iterable[Rule], intern: Callable[[str], int], is_literal: Callable[[int], bool] | None = None,
        orders: Iterable[str] = (), *, closes: bool = False,
    ):  # fmt: skip
        """``intern``: the number of a term; ``is_literal``: whether a number is that of a literal; None: none is.

        ``orders``: those to keep beside what the rules need, for others who look facts up.  ``closes``: transitive
        relations are set apart where that can be (``transitive``), and no function is for the rules that say so.
        """
        self.rules = tuple(dict.fromkeys(rules))
        self._coded = [_coded(rule, intern) for rule in self.rules]
        self.facts = Facts({*orders, *(order_of(known) for known in self._lookups())})
        self._space: dict[str, Any] = {
            "EMPTY": {}, "ABSENT": ABSENT, "is_literal": is_literal, **self.facts.orders,
        }  # fmt: skip
        self._guarded = is_literal is not None
        apart = set_apart(self.rules) if closes else {}
        self.transitive = {
            intern(p): Transitive(self.facts, intern(p), consumed=consumed) for p, consumed in apart.items()
        }
        """Predicates that are transitive, and otherwise concluded by no rule."""
        self._fired = [
            coded
            for rule, coded in zip(self.rules, self._coded, strict=True)
            if not (rule.head.p in apart and is_transitivity(rule))
        ]

    def _lookups(self) -> set[str]:
        """Return what is known of patterns when facts are looked up for them."""
        found: set[str] = set()
        for head, body in self._coded:
            for place in range(len(body)):
                found |= {known for _, known in plan(body, place, names_of(body[place])).values()}
            found |= {known for _, known in plan(body, None, names_of(head)).values()}
        return found

    def telling(self, tell: Tell) -> Filed[Telling]:
        """Return what tells which heads follow from facts."""
        return self._firing(functools.partial(_tell, tell))

    def adding(self) -> Filed[Add]:
        """Return what puts what follows from facts and is not there, labels aside."""
        return self._firing(functools.partial(_add, self.facts.orders), self._coded)

    def raising(self, *, by_rules: bool = False) -> Filed[Raise]:
        """Return what puts what follows from facts with better labels than it has.

        ``by_rules``: by all rules, also those of transitive relations that are set apart.
        """
        return self._firing(functools.partial(_raise, self.facts.orders), self._coded if by_rules else None)

    def best(self) -> Callable[[Fact], int]:
        """Return a function for the best label that a fact has by any rule, ABSENT if by none."""
        functions: Filed[Best] = self._seeking(_best)

        def best(fact: Fact) -> int:
            s, p, o = fact
            found = ABSENT
            for function in functions.of(p, o):
                found = function(s, p, o, found)
            return found

        return best

    def holds(self) -> Callable[[Fact], bool]:
        """Return a function that tells whether any rule derives a fact from what is there."""
        functions: Filed[Callable[[int, int, int], bool]] = self._seeking(_holds)

        def holds(fact: Fact) -> bool:
            s, p, o = fact
            for function in functions.of(p, o):  # noqa: SIM110 - any() makes a generator for each fact
                if function(s, p, o):
                    return True
            return False

        return holds

    def _firing(
        self, source: Callable[[Coded, list[Coded], int, list[str], Constant], str],
        rules: list[tuple[Coded, list[Coded]]] | None = None,
    ) -> Filed[Any]:  # fmt: skip
        def write(head: Coded, body: list[Coded], place: int) -> Any:
            guarded = _only_objects(head, body) if self._guarded else []
            return self._made(source(head, body, place, guarded, self._constant))

        return Filed(
            (atom, functools.partial(write, head, body, place))
            for head, body in (self._fired if rules is None else rules)
            for place, atom in enumerate(body)
        )

    def _seeking(self, source: Callable[[Coded, list[Coded], Constant], str]) -> Filed[Any]:
        def write(head: Coded, body: list[Coded]) -> Any:
            return self._made(source(head, body, self._constant))

        return Filed((head, functools.partial(write, head, body)) for head, body in self._fired)

    def _constant(self, order: str, first: int) -> str:
        """Return the name of the dictionary of one predicate in an order that begins with it."""
        name = f"{order}_{first}"
        if name not in self._space:
            self._space[name] = self.facts.orders[order].setdefault(first, {})
        return name

    def _made(self, source: str) -> Any:
        exec(_compiled(source), self._space)  # noqa: S102 - made of the texts of this package
        return self._space.pop("function")


@functools.lru_cache(maxsize=_CODES_MAX)
def _compiled(source: str) -> types.CodeType:
    return compile(source, "<rule>", "exec")


def _coded(rule: Rule, intern: Callable[[str], int]) -> tuple[Coded, list[Coded]]:
    names: dict[str, str] = {}

    def part(text: str) -> int | str:
        return names.setdefault(text, f"v{len(names)}") if text.startswith("?") else intern(text)

    def atom(of: Atom) -> Coded:
        return Coded(*map(part, of))

    body = [atom(each) for each in rule.body]
    return atom(rule.head), body


# --- what follows from facts ---------------------------------------------------------------------


def _tell(tell: Tell, head: Coded, body: list[Coded], place: int, guarded: list[str], constant: Constant) -> str:
    """Write the function that tells what follows from facts in one place of a rule."""
    writer = Writer()
    labelled = tell in (Tell.RAISED, Tell.SUPPORTED)
    once = tell is Tell.EACH
    label = _write_joins(writer, head, body, place, constant, labelled=labelled, once=once)
    test = {
        Tell.RAISED: f"if head.get({head.o}, ABSENT) < {label}:",
        Tell.SUPPORTED: f"if head.get({head.o}, ABSENT) == {label}:",
        Tell.PRESENT: f"if {head.o} in head:",
    }.get(tell)
    if test:
        writer.block(test)
    _write_guard(writer, guarded)
    writer.line(f"out(({head.s}, {head.p}, {head.o}, {label}))")
    return "\n".join(["def function(facts, label, out):", *writer.lines])


def _add(
    orders: Iterable[str], head: Coded, body: list[Coded], place: int, guarded: list[str], constant: Constant
) -> str:
    """Write the function that puts what follows from facts in one place of a rule, if it is not there."""
    writer = Writer()
    _write_joins(writer, head, body, place, constant, labelled=False, put=True)
    writer.block(f"if {head.o} not in head:")
    _write_guard(writer, guarded)
    write_put(writer, head, orders, constant, "label")
    writer.line(f"out(({head.s}, {head.p}, {head.o}))")
    return "\n".join(["def function(facts, label, out):", *writer.lines])


def _raise(
    orders: Iterable[str], head: Coded, body: list[Coded], place: int, guarded: list[str], constant: Constant
) -> str:
    """Write the function that puts what follows from facts in one place of a rule, if its label is better."""
    writer = Writer()
    label = _write_joins(writer, head, body, place, constant, labelled=True, put=True)
    writer.line(f"was = head.get({head.o}, ABSENT)")
    writer.block(f"if was < {label}:")
    _write_guard(writer, guarded)
    write_put(writer, head, orders, constant, label)
    writer.line(f"fact = ({head.s}, {head.p}, {head.o})")
    writer.line(f"levels[{label}].append(fact)")
    writer.line(f"if was == ABSENT: added[fact] = {label}")
    writer.line(f"else: raised[fact] = {label}")
    return "\n".join(["def function(facts, added, raised, levels):", *writer.lines])


def _only_objects(head: Coded, body: list[Coded]) -> list[str]:
    """Return the variables in a head's subject and predicate that may be literals: the body has them as objects alone.

    Elsewhere they take what is a subject or predicate of a fact, which no literal is.
    """
    elsewhere = {part for atom in body for part in (atom.s, atom.p)}
    return [part for part in (head.s, head.p) if isinstance(part, str) and part not in elsewhere]


def _write_guard(writer: Writer, guarded: list[str]) -> None:
    """Write that a literal for any of these variables tells nothing."""
    for name in guarded:
        writer.block(f"if not is_literal({name}):")


def _write_joins(
    writer: Writer, head: Coded, body: list[Coded], place: int, constant: Constant, *,
    labelled: bool, put: bool = False, once: bool = False,
) -> str:  # fmt: skip
    """Write the loops from facts in one place of a rule to its head; return the name of the head's label."""
    atom, label = body[place], "label"
    writer.block("for (s, p, o), label in facts:" if labelled and put else "for s, p, o in facts:")
    write_fact_match(writer, atom, "continue")
    names = names_of(atom)
    row_known = once or write_head_row(writer, head, names, constant)
    for other, (each, known) in plan(body, place, names).items():
        row_label = f"t{other}" if labelled else "_"
        found = write_loop(writer, each, known, names, constant, row_label, head if put else None)
        if labelled:
            writer.line(f"l{other} = {found} if {found} < {label} else {label}")
            label = f"l{other}"
        elif once and other < place:
            writer.block(f"if {differs(each, atom)}:")  # else the earlier place has told it
        names |= names_of(each)
        row_known = row_known or write_head_row(writer, head, names, constant)
    return label


# --- what a fact follows from --------------------------------------------------------------------


def _best(head: Coded, body: list[Coded], constant: Constant) -> str:
    """Write the function that returns the best label a fact has of a rule."""
    writer = Writer()
    write_fact_match(writer, head, "return best")
    names, label = names_of(head), ""
    for place, (each, known) in plan(body, None, names).items():
        found = write_loop(writer, each, known, names, constant, f"t{place}")
        if label:
            writer.line(f"l{place} = {found} if {found} < {label} else {label}")
            label = f"l{place}"
        else:
            label = found
        names |= names_of(each)
    writer.block(f"if {label} > best:")
    writer.line(f"best = {label}")
    writer.depth = 1
    writer.line("return best")
    return "\n".join(["def function(s, p, o, best):", *writer.lines])


def _holds(head: Coded, body: list[Coded], constant: Constant) -> str:
    """Write the function that tells whether a rule derives a fact."""
    writer = Writer()
    write_fact_match(writer, head, "return False")
    names = names_of(head)
    for each, known in plan(body, None, names).values():
        write_loop(writer, each, known, names, constant, "_")
        names |= names_of(each)
    writer.line("return True")
    writer.depth = 1
    writer.line("return False")
    return "\n".join(["def function(s, p, o):", *writer.lines])
