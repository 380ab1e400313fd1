"""Incremental reasoning: the closure of facts under rules, maintained as facts come, expire and are retracted.

``materialiser`` maintains the closure; the laboratory compares it with other programs.
``given``, ``facts`` and ``levels`` hold facts, ``joins`` compiles rules to ``loops``, and ``raising``, ``retraction``
and ``closing`` are the parts of a step.  ``transitive`` does these parts for relations that only a rule of
transitivity concludes, and ``effort`` chooses between maintenance and recomputation.
"""

from p2prdf.reasoning.facts import Fact
from p2prdf.reasoning.instances import Instances, closure, instantiate
from p2prdf.reasoning.maintenance import FOREVER, Change
from p2prdf.reasoning.materialiser import Materialiser
from p2prdf.reasoning.rule import Atom, Rule, predicates_of
from p2prdf.reasoning.rule_text import parse_rules, write_rules
from p2prdf.reasoning.rulesets import RuleSet, owl_rl, rdfs, without_auxiliary
from p2prdf.reasoning.vocabulary import Triple, is_schema

__all__ = [
    "FOREVER", "Atom", "Change", "Fact", "Instances", "Materialiser", "Rule", "RuleSet", "Triple",
    "closure", "instantiate", "is_schema", "owl_rl", "parse_rules", "predicates_of", "rdfs", "without_auxiliary",
    "write_rules",
]  # fmt: skip
