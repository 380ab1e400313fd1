"""External reasoners without incremental maintenance: owlrl (Python) and reasonable (Rust), if installed.

Both implement the whole of OWL 2 RL, of which a transitive property is a small part, so they do more than the other
programs.  Their results for the property must be equal.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from p2prdf.reasoning import Fact

__all__ = ["ENGINES", "Engine"]

_TYPE: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_TRANSITIVE: Final = "http://www.w3.org/2002/07/owl#TransitiveProperty"
_IS_IN: Final = "urn:p2prdf:isIn"
_NODE: Final = "urn:p2prdf:node:"

Pairs = set[tuple[int, int]]
"""Subjects and objects of a property."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One reasoner: ``run`` loads the base facts and returns a function that computes all derived pairs.

    Only that function is timed: reasoning and the transfer of its result.
    """

    module: str
    run: Callable[[Collection[Fact]], Callable[[], Pairs]]

    @property
    def installed(self) -> bool:
        """Whether the reasoner is installed."""
        try:
            importlib.import_module(self.module)
        except ImportError:
            return False
        return True


def _owlrl(facts: Collection[Fact]) -> Callable[[], Pairs]:
    import owlrl
    from rdflib import Graph, URIRef

    graph = Graph()
    graph.add((URIRef(_IS_IN), URIRef(_TYPE), URIRef(_TRANSITIVE)))
    for s, _, o in facts:
        graph.add((URIRef(f"{_NODE}{s}"), URIRef(_IS_IN), URIRef(f"{_NODE}{o}")))

    def run() -> Pairs:
        owlrl.DeductiveClosure(owlrl.OWLRL_Semantics).expand(graph)
        return {(_number(s), _number(o)) for s, o in graph.subject_objects(URIRef(_IS_IN))}

    return run


def _reasonable(facts: Collection[Fact]) -> Callable[[], Pairs]:
    import reasonable  # its wheel has no stubs

    reasoner = reasonable.PyReasoner()
    triples = [(f"{_NODE}{s}", _IS_IN, f"{_NODE}{o}") for s, _, o in facts]
    reasoner.from_graph([(_IS_IN, _TYPE, _TRANSITIVE), *triples])

    def run() -> Pairs:
        return {(_number(s), _number(o)) for s, p, o in reasoner.reason() if str(p) == _IS_IN}

    return run


def _number(node: object) -> int:
    return int(str(node).removeprefix(_NODE))


ENGINES: Final = (Engine("reasonable", _reasonable), Engine("owlrl", _owlrl))
