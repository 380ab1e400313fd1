"""Random interests, random histories of a dataset, and the right content of replicas by pyoxigraph.

pyoxigraph computes each content anew.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pyoxigraph as ox

from p2prdf.interest import Changeset, Triple

NAMES = [f"<urn:{name}>" for name in "abcdefg"]
PREDICATES = [f"<urn:p{number}>" for number in range(4)]
NUMBERS = [f'"{number}"^^<http://www.w3.org/2001/XMLSchema#integer>' for number in range(4)]
UNIVERSE = [(s, p, o) for s in NAMES for p in PREDICATES for o in (*NAMES, *NUMBERS)]


@dataclass(frozen=True)
class Written:
    """A random interest in parts: each group as its patterns and its filters."""

    groups: tuple[tuple[tuple[str, ...], str], ...]

    @property
    def text(self) -> str:
        """The query."""
        (patterns, filters), *optionals = self.groups
        body = f"{' . '.join(patterns)} . {filters}"
        body += "".join(f" OPTIONAL {{ {' . '.join(own)} . {condition} }}" for own, condition in optionals)
        return f"SELECT * WHERE {{ {body} }}"


def slice_of(dataset: set[Triple], written: Written) -> tuple[set[Triple], set[Triple]]:
    """Return target and potentially interesting triples, by one CONSTRUCT for each group.

    One for all of them would answer triples of optional groups that do not match but have their variables bound.
    """
    (required, condition), *_ = written.groups
    patterns = [tuple(each.split(" ")) for own, _ in written.groups for each in own]
    near = {triple for triple in dataset if any(_matches(pattern, triple) for pattern in patterns)}
    store = ox.Store()
    store.extend(ox.parse("".join(f"{s} {p} {o} .\n" for s, p, o in near).encode(), format=ox.RdfFormat.N_TRIPLES))
    target: set[Triple] = set()
    for own, also in written.groups:
        where = f"{' . '.join((*required, *own))} . {condition} {also}"
        found = store.query(f"CONSTRUCT {{ {' . '.join(own)} }} WHERE {{ {where} }}")
        assert isinstance(found, ox.QueryTriples)
        target |= {(str(each.subject), str(each.predicate), str(each.object)) for each in found}
    assert target <= near
    return target, near - target


def _matches(pattern: tuple[str, ...], triple: Triple) -> bool:
    values: dict[str, str] = {}
    return all(
        values.setdefault(part, found) == found if part.startswith("?") else part == found
        for part, found in zip(pattern, triple, strict=True)
    )


@dataclass
class Writer:
    """Writes random interests."""

    rng: random.Random
    variables: int = 0

    def write(self) -> Written:
        """Return a star, a chain, a circle or any other connected graph, with filters and optional groups."""
        shape = self.rng.choice(["star", "star", "chain", "chain", "circle", "any", "any", "any"])
        names = [self._new()]
        patterns = [self._grown(names, shape, number) for number in range(self.rng.choice([1, 2, 2, 3, 3, 4]))]
        if shape == "circle" and len(patterns) > 1:
            patterns.append(f"{names[-1]} {self.rng.choice(PREDICATES)} {names[0]}")
        groups = [(tuple(patterns), self._filters(names))]
        for _ in range(self.rng.choice([0, 0, 1, 1, 2])):
            own = list(names)
            inner = tuple(self._grown(own, "any", 1) for _ in range(self.rng.choice([1, 1, 2])))
            groups.append((inner, self._filters(own)))
        return Written(tuple(groups))

    def _new(self) -> str:
        self.variables += 1
        return f"?v{self.variables}"

    def _grown(self, names: list[str], shape: str, number: int) -> str:
        """Return a pattern that begins where others are, and note its new variables."""
        rng = self.rng
        known = names[0] if shape == "star" else names[-1] if shape in ("chain", "circle") else rng.choice(names)
        predicate = rng.choice(PREDICATES)
        if rng.random() < 0.06:
            predicate = self._new()
            names.append(predicate)
        kind = rng.random()
        if kind < 0.2 and shape != "circle":
            other = rng.choice([*NAMES[:3], *NUMBERS])
        elif kind < 0.27 and number:
            other = rng.choice(names)
        else:
            other = self._new()
            names.append(other)
        if rng.random() < 0.3 and not other.startswith('"') and shape != "star":
            return f"{other} {predicate} {known}"
        return f"{known} {predicate} {other}"

    def _filters(self, names: list[str]) -> str:
        rng = self.rng
        if rng.random() < 0.7:
            return ""
        one, other = rng.choice(names), rng.choice(names)
        return "FILTER (" + rng.choice([
            f"{one} > 1", f"{one} != {other}", f"isIRI({one})", f"{one} IN ({NAMES[0]}, {NAMES[1]}, 1, 2)",
            f"{one} < 3 || {other} = {NAMES[2]}", f"{one} < {other}",
        ]) + ")"  # fmt: skip


def random_interest(seed: int) -> Written:
    """Return a random interest."""
    return Writer(random.Random(seed)).write()


def changesets(seed: int, count: int) -> Iterator[tuple[Changeset, set[Triple]]]:
    """Yield changesets, each with the dataset after it.

    They are balanced or not, and contain absent triples and triples that are both removed and added.
    """
    rng = random.Random(seed)
    universe = rng.sample(UNIVERSE, rng.choice([40, 80, 160]))
    dataset: set[Triple] = set()
    heavy = rng.random() < 0.4
    for number in range(count):
        size = rng.choice([1, 2, 4, 12])
        added = rng.choices(universe, k=rng.randrange(size + 1) + heavy)
        removed = rng.choices(universe, k=rng.randrange(size + 1) if not heavy or rng.random() < 0.1 else 0)
        if dataset and rng.random() < 0.6:
            removed += rng.sample(sorted(dataset), min(len(dataset), 0 if heavy and rng.random() < 0.7 else size))
        changeset = Changeset.of(removed, added, number)
        dataset = (dataset - set(removed)) | set(added)
        yield changeset, set(dataset)
