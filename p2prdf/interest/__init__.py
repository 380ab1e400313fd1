"""Interest replicas (iRap): the part of an evolving dataset that a consumer wants, maintained from its changesets.

``interests`` is the interface: all interests in one dataset, changesets in, changes of targets out.  ``expression``
parses an interest, ``changeset`` is the input.  Below, ``pattern_index``, ``relation`` and ``holdings`` hold triples,
each once for all interests; ``join_tree`` orders an interest's patterns, ``evaluation`` makes ``node`` objects and
perhaps a ``core`` from them and counts.  ``paper`` is the evaluation as printed, for comparison; ``saved`` serialises
everything.
"""

from p2prdf.interest.changeset import Changeset, NotApplied, Triple
from p2prdf.interest.expression import Interest, Pattern, PatternGroup, parse_interest
from p2prdf.interest.interests import Change, Interests, Round

__all__ = [
    "Change", "Changeset", "Interest", "Interests", "NotApplied", "Pattern", "PatternGroup", "Round", "Triple",
    "parse_interest",
]  # fmt: skip
