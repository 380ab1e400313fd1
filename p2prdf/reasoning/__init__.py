"""Rules over facts that expire: what follows, kept up to date as facts come and go."""

from p2prdf.reasoning.facts import Fact
from p2prdf.reasoning.materialiser import FOREVER, Change, Materialiser
from p2prdf.reasoning.rule import Atom, Rule, predicates_of

__all__ = ["FOREVER", "Atom", "Change", "Fact", "Materialiser", "Rule", "predicates_of"]
