"""Rules over facts that expire: what follows, kept up to date as facts come and go."""

from p2prdf.reasoning.facts import Fact
from p2prdf.reasoning.materialiser import FOREVER, Change, Materialiser
from p2prdf.reasoning.rule import Atom, Rule, predicates_of
from p2prdf.reasoning.rule_text import parse_rules, write_rules

__all__ = [
    "FOREVER", "Atom", "Change", "Fact", "Materialiser", "Rule", "parse_rules", "predicates_of", "write_rules",
]  # fmt: skip
