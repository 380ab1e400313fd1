"""The seed paper's workload: triples along a tree of classes, and path queries from its root.

Classes form a balanced tree.  Each has one property per child class, from its instances to
those of the child; the properties of the deepest classes end in literals.  A triple is a random
level, class, instance, property and value of its range.  A query is a path of patterns, the
last one ending in a random literal.

The paper says "depth 4" and uses paths of 5 patterns: that counts edges, so there are levels
0..4, 121 classes and 363 properties.  Its count of active peers (2685 of 20,000 in CQC) fits
three literal domains of 1000 values, one per property of a deepest class, and no other reading
that was tried: 120 inner properties + 3000 literals = 3120 keys hit 3120/(1 + 3120/20000) = 2699
random peers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from p2prdf.rdf.query import ConjunctiveQuery, Pattern

if TYPE_CHECKING:
    from p2prdf.rdf.dictionary import TermDictionary

__all__ = ["PathSchema", "path_queries", "path_triples"]

Ids = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.int64]

_NAMESPACE = "http://example.org/"


@dataclass(frozen=True)
class PathSchema:
    """Size of the tree: ``levels`` of classes, ``branch`` properties and children of each class.

    ``instances`` of each class, ``values`` of each literal domain; ``domains``: how many literal
    domains there are, shared in turn by the properties of a deepest class.
    """

    levels: int = 5
    branch: int = 3
    instances: int = 1000
    values: int = 1000
    domains: int = 3

    @cached_property
    def offsets(self) -> Numbers:
        """The number of the first class of each level, then the number of all classes."""
        return np.cumsum([0, *(self.branch**level for level in range(self.levels))])

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.offsets[-1])

    @property
    def properties(self) -> int:
        """Number of properties."""
        return self.classes * self.branch

    def instance_text(self, code: int) -> str:
        """Spell instance ``code % instances`` of class ``code // instances``."""
        return f"<{_NAMESPACE}c{code // self.instances}/i{code % self.instances}>"

    def property_text(self, code: int) -> str:
        """Spell property ``code % branch`` of class ``code // branch``."""
        return f"<{_NAMESPACE}p{code // self.branch}-{code % self.branch}>"

    def value_text(self, code: int) -> str:
        """Spell value ``code % values`` of domain ``code // values``."""
        return f'"v{code // self.values}-{code % self.values}"'


def path_triples(
    dictionary: TermDictionary, count: int, *, schema: PathSchema | None = None, seed: int = 0
) -> tuple[Ids, Ids, Ids]:
    """Return ``count`` random triples of the schema as columns of term identifiers."""
    schema = schema or PathSchema()
    rng = np.random.default_rng(seed)
    level = rng.integers(schema.levels, size=count)
    number = (rng.random(count) * schema.branch ** level.astype(np.float64)).astype(np.int64)
    child = rng.integers(schema.branch, size=count)
    kind = schema.offsets[level] + number
    subject = kind * schema.instances + rng.integers(schema.instances, size=count)
    below = schema.offsets[level + 1] + number * schema.branch + child
    inner = below * schema.instances + rng.integers(schema.instances, size=count)
    first_value = schema.classes * schema.instances
    value = first_value + child % schema.domains * schema.values + rng.integers(schema.values, size=count)
    entity = np.where(level == schema.levels - 1, value, inner)

    codes, places = np.unique(np.concatenate((subject, entity)), return_inverse=True)
    ids = _intern(
        dictionary,
        [
            schema.instance_text(code) if code < first_value else schema.value_text(code - first_value)
            for code in codes.tolist()
        ],
    )[places]
    used, property_places = np.unique(kind * schema.branch + child, return_inverse=True)
    properties = _intern(dictionary, [schema.property_text(code) for code in used.tolist()])
    return ids[:count], properties[property_places], ids[count:]


def _intern(dictionary: TermDictionary, texts: list[str]) -> Ids:
    return np.array(dictionary.intern_all(texts), np.uint32)


def path_queries(
    count: int, *, schema: PathSchema | None = None, length: int = 5, seed: int = 0
) -> list[ConjunctiveQuery]:
    """Return ``count`` random path queries of ``length`` patterns that end in a literal of a deepest class.

    A path of all levels starts at the root class, a shorter one at a random class further down.
    """
    schema = schema or PathSchema()
    assert 1 <= length <= schema.levels
    rng = np.random.default_rng(seed)
    start = schema.levels - length
    number = rng.integers(schema.branch**start, size=count)
    columns: list[list[str]] = []
    child = number  # of the last step; the loop runs at least once
    for level in range(start, schema.levels):
        child = rng.integers(schema.branch, size=count)
        codes = (schema.offsets[level] + number) * schema.branch + child
        columns.append([schema.property_text(code) for code in codes.tolist()])
        number = number * schema.branch + child
    ends = child % schema.domains * schema.values + rng.integers(schema.values, size=count)
    columns.append([schema.value_text(code) for code in ends.tolist()])
    patterns: list[Pattern] = [(step, ~step, step + 1) for step in range(length - 1)]
    patterns.append((length - 1, ~(length - 1), ~length))
    shape = tuple(patterns)
    return [ConjunctiveQuery(shape, constants, (0,), ("x",)) for constants in zip(*columns, strict=True)]
