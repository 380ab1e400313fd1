"""Rules over facts that expire: what follows, kept up to date as facts come and go.

``materialiser`` is what is used.  Beside it stand the programs it is compared with, all of them a ``maintenance``:
``naive``, ``volz`` (Delete and Rederive), ``counting``, and ``paper``, the stream-reasoning paper's as printed.  Below
them: ``given``, ``facts`` and ``levels`` hold facts, ``joins`` compiles rules to ``loops``, ``raising``, ``withdrawal``
and ``closing`` are the parts of a step, ``transitive`` does them for relations of which no more is known than that, and
``effort`` decides between them.
"""

from p2prdf.reasoning.facts import Fact
from p2prdf.reasoning.instances import Instances, closure, instantiate
from p2prdf.reasoning.maintenance import FOREVER, Change, Maintenance
from p2prdf.reasoning.materialiser import Materialiser
from p2prdf.reasoning.rule import Atom, Rule, predicates_of
from p2prdf.reasoning.rule_text import parse_rules, write_rules
from p2prdf.reasoning.rulesets import RuleSet, owl_rl, rdfs, without_auxiliary
from p2prdf.reasoning.vocabulary import Triple, is_schema

__all__ = [
    "FOREVER", "Atom", "Change", "Fact", "Instances", "Maintenance", "Materialiser", "Rule", "RuleSet", "Triple",
    "closure", "instantiate", "is_schema", "owl_rl", "parse_rules", "predicates_of", "rdfs", "without_auxiliary",
    "write_rules",
]  # fmt: skip
