"""Full-text conditions: their tree, their syntax, and their evaluation on the text of a literal.

==============  =============================================================================== ``words``       the
tokeniser: splits a text into words; words with ``*`` in them ``stems``       stems of words, by language
``stop_words``  function words with little meaning, by language ``expression``  the tree of a condition, its bounds,
and its canonical spelling ``parts``       the parts of a phrase, by position ``syntax``      parses the spelling;
refusals point at the position ``calls``       conditions as calls in queries ``similarity``  the similarity of a text
to given words, and its necessary conditions ``evaluation``  decides whether a text satisfies an expression
==============  ===============================================================================

The package is part of ``rdf`` because the parser and the evaluation of filters use it.  :mod:`p2prdf.text` finds the
queries that a publication satisfies.
"""

from p2prdf.rdf.fulltext.calls import FULL_TEXT, sole_condition, with_full_text
from p2prdf.rdf.fulltext.evaluation import Text, condition_holds, expression_holds, recent_text_of, text_of
from p2prdf.rdf.fulltext.expression import (
    And,
    Condition,
    Corpus,
    Expression,
    Gap,
    Near,
    Not,
    Or,
    Phrase,
    Similar,
    Using,
    spelled,
)
from p2prdf.rdf.fulltext.parts import phrase_keys
from p2prdf.rdf.fulltext.similarity import Needed, frequency_weight, needed, similarity_of, vector_of
from p2prdf.rdf.fulltext.stems import algorithm_of_key
from p2prdf.rdf.fulltext.syntax import FullTextCall, parse_call, parse_condition, parse_expression, parse_infix
from p2prdf.rdf.fulltext.words import globs_of, word_fits, words_of

__all__ = [
    "FULL_TEXT", "And", "Condition", "Corpus", "Expression", "FullTextCall", "Gap", "Near", "Needed", "Not", "Or",
    "Phrase", "Similar", "Text", "Using", "algorithm_of_key", "condition_holds", "expression_holds", "frequency_weight",
    "globs_of", "needed", "parse_call", "parse_condition", "parse_expression", "parse_infix", "phrase_keys",
    "recent_text_of", "similarity_of", "sole_condition", "spelled", "text_of", "vector_of", "with_full_text",
    "word_fits", "words_of",
]  # fmt: skip
