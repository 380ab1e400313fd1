"""Interest replicas (iRap): which part of an evolving dataset somebody wants, kept true from its changesets.

``interests`` is what is used: all interests in one dataset, changesets in, changes of targets out.  ``expression``
reads an interest, ``changeset`` is what comes in.  Below: ``pattern_index`` and ``relation`` (``holdings`` has them
all) hold triples, each once for all interests; ``join_tree`` orders an interest's patterns, ``evaluation`` makes
``node``s and perhaps a ``core`` of them and counts.  Beside it stands ``paper``, the evaluation as printed, to
compare; ``saved`` writes all of it down.
"""

from p2prdf.interest.changeset import Changeset, NotApplied, Triple
from p2prdf.interest.expression import Interest, Pattern, PatternGroup, parse_interest
from p2prdf.interest.interests import Change, Interests, Round

__all__ = [
    "Change", "Changeset", "Interest", "Interests", "NotApplied", "Pattern", "PatternGroup", "Round", "Triple",
    "parse_interest",
]  # fmt: skip
