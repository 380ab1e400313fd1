"""Rules compiled to Python functions: the conclusions of facts, and the derivations of a fact.

A rule is tried for each fact that matches one of its patterns, and almost all time goes into the innermost loop.  An
interpreter of rules costs several times that loop; even a function call per fact takes longer than the join.

For each pattern of each rule a function is therefore generated once.  It takes facts in place of the pattern and has
a loop for each further pattern, over exactly the dictionary of the matches (:mod:`p2prdf.reasoning.facts`), patterns
with the most known parts first.  The source consists of generated names, numbers and fixed texts
(:mod:`p2prdf.reasoning.loops`); user input never enters it.

Functions of class :class:`Tell` report heads and change nothing.  The others put heads with their labels into all
orders that are kept, and list them.  These walk a copy of a row that they write to, and miss nothing: a fact that
they put is processed later, with everything present by then.  Transitivity, for facts in place of the first pattern
of ``?x p ?z :- ?x p ?y, ?y p ?z``, with rising labels (the order ``pos`` is written like ``pso``)::

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

A schema makes thousands of rules, most of them for facts that never come, and generating a function takes as long as
a thousand calls.  Each is therefore generated for the first fact that it takes (:class:`Filed`).
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
"""A fact and the label with which it was derived."""
Telling: TypeAlias = Callable[[Collection[Fact], int, Callable[[Derivation], object]], None]
"""Reports the conclusions of facts of one label, one call per rule instance of interest."""
Add: TypeAlias = Callable[[Collection[Fact], int, Callable[[Fact], object]], None]
"""Puts the missing conclusions of facts with the given label, and reports each once."""
Raise: TypeAlias = Callable[
    [Iterable[tuple[Fact, int]], dict[Fact, int], dict[Fact, int], Mapping[int, list[Fact]]], None
]
"""Puts the conclusions of labelled facts that improve a label.

Records the new labels of new facts, those of known facts, and all of these facts by label.
"""
Best: TypeAlias = Callable[[int, int, int, int], int]
"""Returns the best label of a fact by a rule, or the given label if that is not smaller."""
_Kind = TypeVar("_Kind")
_CODES_MAX: Final = 4096
"""Bound on the cached compiled texts: a caller that closes many small graphs compiles equal rules once."""


class Tell(enum.Enum):
    """The heads that are reported, and with which labels."""

    RAISED = "labels count: heads that have a worse label, or none"
    SUPPORTED = "labels count: heads that have just this label"
    PRESENT = "labels do not count: heads that are there"
    EACH = "labels do not count: the head of every rule instance, once even if the fact stands in it twice"


class _Once(Generic[_Kind]):
    """A factory that is called once; with thousands of rules lighter than :func:`functools.cache`."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], _Kind]):
        self._make: Callable[[], _Kind] = make
        self._made: _Kind | None = None

    def __call__(self) -> _Kind:
        if self._made is None:
            self._made = self._make()
        return self._made


class Filed(Generic[_Kind]):
    """Functions by the facts that they take; each is generated for the first such fact.

    Facts are distinguished by predicate and object: a schema has a rule for each class, and all of these take facts
    of one predicate, but of different classes.
    """

    def __init__(self, filed: Iterable[tuple[Coded, Callable[[], _Kind]]]):
        """``filed``: the facts that each function takes, and the factory of the function, which is called once."""
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
        """For predicates with distinguished objects; -1 stands for all other objects."""
        only = [p for p, o in self._makers if len(self._makers) == 1 and o is None]
        self._only = only[0] if only else None
        """The predicate of all facts that any function takes, if there is only one."""

    def of(self, predicate: int, obj: int) -> tuple[_Kind, ...]:
        """Return the functions for facts of a predicate and object; not while others of them run."""
        found = self._of_predicate.get(predicate)  # first, because most facts need no more
        return self._found(predicate, obj) if found is None else found

    def parts(self, facts: Collection[Fact]) -> Iterator[tuple[tuple[_Kind, ...], Collection[Fact]]]:
        """Yield facts with their functions, grouped by equal functions."""
        if self._only is not None:  # the functions themselves skip facts of other predicates
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

        ``orders``: orders to keep besides those that the rules need, for other readers of the facts.  ``closes``:
        transitive relations are set apart where possible (``transitive``), and have no function for their rule of
        transitivity.
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
        """Return the known parts of the patterns for which facts are looked up."""
        found: set[str] = set()
        for head, body in self._coded:
            for place in range(len(body)):
                found |= {known for _, known in plan(body, place, names_of(body[place])).values()}
            found |= {known for _, known in plan(body, None, names_of(head)).values()}
        return found

    def telling(self, tell: Tell) -> Filed[Telling]:
        """Return the functions that report the conclusions of facts."""
        return self._firing(functools.partial(_tell, tell))

    def adding(self) -> Filed[Add]:
        """Return the functions that put the missing conclusions of facts, regardless of labels."""
        return self._firing(functools.partial(_add, self.facts.orders), self._coded)

    def raising(self, *, by_rules: bool = False) -> Filed[Raise]:
        """Return the functions that put the conclusions of facts that improve a label.

        ``by_rules``: by all rules, including those of transitive relations that are set apart.
        """
        return self._firing(functools.partial(_raise, self.facts.orders), self._coded if by_rules else None)

    def best(self) -> Callable[[Fact], int]:
        """Return a function for the best label that a fact has by any rule; ABSENT without a derivation."""
        functions: Filed[Best] = self._seeking(_best)

        def best(fact: Fact) -> int:
            s, p, o = fact
            found = ABSENT
            for function in functions.of(p, o):
                found = function(s, p, o, found)
            return found

        return best

    def holds(self) -> Callable[[Fact], bool]:
        """Return a function that decides whether any rule derives a fact from the present facts."""
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


# --- conclusions of facts ------------------------------------------------------------------------


def _tell(tell: Tell, head: Coded, body: list[Coded], place: int, guarded: list[str], constant: Constant) -> str:
    """Generate the function that reports the conclusions of facts in one place of a rule."""
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
    """Generate the function that puts the missing conclusions of facts in one place of a rule."""
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
    """Generate the function that puts the conclusions of facts in one place of a rule if their labels are better."""
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
    """Return the variables in a head's subject and predicate that the body has as objects alone.

    These may be literals; variables elsewhere match subjects or predicates of facts, which never are.
    """
    elsewhere = {part for atom in body for part in (atom.s, atom.p)}
    return [part for part in (head.s, head.p) if isinstance(part, str) and part not in elsewhere]


def _write_guard(writer: Writer, guarded: list[str]) -> None:
    """Write the test that none of these variables is a literal."""
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
            writer.block(f"if {differs(each, atom)}:")  # else the earlier place has reported it
        names |= names_of(each)
        row_known = row_known or write_head_row(writer, head, names, constant)
    return label


# --- derivations of a fact -----------------------------------------------------------------------


def _best(head: Coded, body: list[Coded], constant: Constant) -> str:
    """Generate the function that returns the best label of a fact by a rule."""
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
    """Generate the function that decides whether a rule derives a fact."""
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
