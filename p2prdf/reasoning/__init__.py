"""Rules over facts that expire: what follows, kept up to date as facts come and go."""

from p2prdf.reasoning.facts import Fact
from p2prdf.reasoning.instances import Instances, closure, instantiate
from p2prdf.reasoning.materialiser import FOREVER, Change, Materialiser
from p2prdf.reasoning.rule import Atom, Rule, predicates_of
from p2prdf.reasoning.rule_text import parse_rules, write_rules
from p2prdf.reasoning.rulesets import RuleSet, owl_rl, rdfs, without_auxiliary
from p2prdf.reasoning.vocabulary import Triple, is_schema

__all__ = [
    "FOREVER", "Atom", "Change", "Fact", "Instances", "Materialiser", "Rule", "RuleSet", "Triple", "closure",
    "instantiate", "is_schema", "owl_rl", "parse_rules", "predicates_of", "rdfs", "without_auxiliary", "write_rules",
]  # fmt: skip
