"""Parse full-text conditions from text.

::

    ftcontains(?body, "olympic games" ftAND ("summer" ftNEAR[0,2] "rio*") ftAND ftNOT "winters" using stemming, "en")

    call        := 'ftcontains' '(' variable ',' condition ')'
    condition   := disjunction [ ',' language ]
    disjunction := conjunction ( 'ftOR' conjunction )*
    conjunction := negation ( 'ftAND' negation )*
    negation    := 'ftNOT' negation | chain
    chain       := primary ( 'ftNEAR' '[' least ',' most [ ',' 'unordered' ] ']' primary )*
    primary     := ( string | similar | '(' disjunction ')' ) ( 'using' ( 'stemming' | 'stop' 'words' ) )*
    similar     := 'ftSIMILAR' '[' threshold ']' string [ 'using' corpus ]
    corpus      := 'corpus' '[' texts ( ',' string count )* ']'

    ftsimilar(?body, "summer games in rio" using stemming, 0.4, "en")

    call        := 'ftsimilar' '(' variable ',' string ( 'using' ... )* ',' threshold [ ',' language ] ')'

A ``using`` after a parenthesis applies to all strings within it.  Strings are those of SPARQL, without language or
datatype; a string of several words is a phrase.  Words are those of the tokeniser and may contain ``*``; they are
compared in the language of the whole condition.  Keywords are case-insensitive.  The tokens are those of queries, so
the text is bounded and tokenised in linear time before it is parsed.  A condition can be read inside a query:
refusals then have the line and column of the query.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from typing import Final, NamedTuple, TypeVar

from p2prdf.errors import LocalProtocolError, QueryRefused
from p2prdf.rdf import terms, tokens
from p2prdf.rdf.fulltext.expression import (
    CORPUS_TEXTS_MAX,
    GAP_MAX,
    NO_CORPUS,
    THRESHOLD_SCALE,
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
    using_also,
)
from p2prdf.rdf.fulltext.words import globs_of
from p2prdf.rdf.standing.cursor import Cursor
from p2prdf.rdf.tokens import Symbol, Token

__all__ = ["FullTextCall", "parse_call", "parse_condition", "parse_expression", "parse_infix"]

_T = TypeVar("_T")
_WORDS: Final = "a string of one or more words"
_OPEN: Final = "([{"
_CLOSE: Final = ")]}"
_ENDS: Final = frozenset((*_CLOSE, "&&", "||", ",", ";", ".", "="))
_INTEGER: Final = f'"^^<{terms.XSD}integer>'
_SIMILARITY: Final = re.compile(rf'"([0-9]{{0,9}}(?:\.[0-9]{{1,9}})?)"\^\^<{re.escape(terms.XSD)}(?:integer|decimal)>')


class FullTextCall(NamedTuple):
    """A condition on a variable (its name without the question mark), and the position after the call."""

    variable: str
    condition: Condition
    end: int


def parse_call(text: str, at: int = 0) -> FullTextCall:
    """Read a call of ``ftcontains`` or ``ftsimilar`` at a position of a text.

    Their arguments are a variable and a condition, or a variable, words and a threshold.  The text may continue after
    the call.  Raises QueryRefused with the construct and its line and column in the whole text.
    """
    found = [token for token in tokens.scan(text) if token.at >= at]
    call = _one_call(text, found)
    last = call[-1]
    cursor = _cursor(text, call)
    similar = cursor.next().is_word("FTSIMILAR")
    cursor.expect_mark("(")
    variable = cursor.next()
    if variable.kind != "var":
        name = "ftsimilar" if similar else "ftcontains"
        raise cursor.refusal(variable.at, name, "its first argument must be the variable with the text")
    cursor.expect_mark(",")
    condition = _behind(cursor, _similar_call) if similar else _behind(cursor, _disjunction)
    cursor.expect_mark(")")
    return FullTextCall(variable.value, condition, last.at + len(last.text))


def parse_infix(text: str, at: int) -> tuple[Condition, int]:
    """Read the condition after ``?variable ftcontains``; return it and the position after it.

    The condition has no language.  It ends before ``&&``, ``||`` and any other token that is no part of it.  Raises
    QueryRefused as :func:`parse_call` does.
    """
    found: list[Token] = []
    depth = 0
    for token in tokens.scan(text):
        if token.at < at:
            continue
        if token.kind == "mark":
            if depth == 0 and token.text in _ENDS:
                break
            depth += (token.text in _OPEN) - (token.text in _CLOSE)
        found.append(token)
    cursor = _cursor(text, found)
    if not found:
        raise tokens.refusal(text, min(at, len(text.rstrip())), "full-text condition", f"{_WORDS} is expected here")
    first = cursor.peek()
    expression = _disjunction(cursor)
    if (more := cursor.peek()) is not None:
        raise _misplaced(cursor, more)
    assert first is not None, "an expression was read from it"
    condition = _made(cursor, first, "full-text expression", lambda: Condition(expression))
    return condition, found[-1].at + len(found[-1].text)


def parse_condition(text: str) -> Condition:
    """Read a condition: an expression, and a language range if one follows.  Raises QueryRefused."""
    return _whole(text, lambda cursor: _behind(cursor, _disjunction))


def parse_expression(text: str) -> Expression:
    """Read an expression.  Raises QueryRefused."""
    return _whole(text, _disjunction)


def _whole(text: str, read: Callable[[Cursor], _T]) -> _T:
    cursor = _cursor(text, tokens.scan(text))
    result = read(cursor)
    if (more := cursor.peek()) is not None:
        raise _misplaced(cursor, more)
    return result


def _cursor(text: str, found: Iterable[Token]) -> Cursor:
    found = list(found)
    if found and found[0].kind == "word" and found[0].text.upper() in ("PREFIX", "BASE"):
        raise tokens.refusal(text, found[0].at, found[0].text.upper(), "a condition cannot have declarations")
    return Cursor(text, *tokens.symbols(text, found))


def _one_call(text: str, found: list[Token]) -> list[Token]:
    """Return the tokens up to the parenthesis that closes the first one; the scanner has checked it."""
    if not found or found[0].kind != "word" or found[0].text.upper() not in ("FTCONTAINS", "FTSIMILAR"):
        place = found[0].at if found else len(text.rstrip())
        raise tokens.refusal(text, place, "full-text condition", "ftcontains( is expected here")
    depth = 0
    for number, token in enumerate(found):
        if token.kind == "mark":
            depth += (token.text in _OPEN) - (token.text in _CLOSE)
            if depth == 0:
                return found[: number + 1]
            if depth < 0:
                break
        elif depth == 0 and number:
            break
    raise tokens.refusal(text, found[0].at, found[0].text.lower(), "its arguments must follow in parentheses")


def _behind(cursor: Cursor, read: Callable[[Cursor], Expression]) -> Condition:
    """Read an expression, and a range of languages after it if there is one."""
    first = cursor.peek()
    expression = read(cursor)
    if not cursor.take_mark(","):
        assert first is not None, "an expression was read from it"
        return _made(cursor, first, "full-text expression", lambda: Condition(expression))
    symbol = cursor.next()
    if symbol.kind != "literal" or not symbol.value.endswith('"'):
        raise cursor.refusal(symbol.at, "language", 'a plain string: a range of languages such as "en"')
    return _made(cursor, symbol, "language", lambda: Condition(expression, terms.lexical(symbol.value).lower()))


def _disjunction(cursor: Cursor) -> Expression:
    return _series(cursor, "FTOR", _conjunction, Or)


def _conjunction(cursor: Cursor) -> Expression:
    return _series(cursor, "FTAND", _negation, And)


def _series(
    cursor: Cursor,
    word: str,
    read: Callable[[Cursor], Expression],
    made: Callable[[tuple[Expression, ...]], Expression],
) -> Expression:
    first = cursor.peek()
    parts = [read(cursor)]
    while cursor.take_word(word):
        parts.append(read(cursor))
    assert first is not None, "a part was read from it"
    return parts[0] if len(parts) == 1 else _made(cursor, first, "full-text expression", lambda: made(tuple(parts)))


def _negation(cursor: Cursor) -> Expression:
    """Read any number of ``ftNOT``, and the expression that they negate."""
    negations: list[Symbol] = []
    while cursor.sees_word("FTNOT"):
        negations.append(cursor.next())
    found = _chain(cursor)
    for symbol in reversed(negations):
        found = _made(cursor, symbol, "ftNOT", partial(Not, found))
    return found


def _chain(cursor: Cursor) -> Expression:
    first = cursor.peek()
    found = _primary(cursor)
    if not cursor.sees_word("FTNEAR"):
        return found
    assert first is not None, "a part was read from it"
    phrases, gaps = [_phrase_only(cursor, first, found)], []
    while cursor.take_word("FTNEAR"):
        gaps.append(_gap(cursor))
        start = cursor.peek()
        read = _primary(cursor)
        assert start is not None, "a part was read from it"
        phrases.append(_phrase_only(cursor, start, read))
    return _made(cursor, first, "ftNEAR", lambda: Near(tuple(phrases), tuple(gaps)))


def _phrase_only(cursor: Cursor, symbol: Symbol, found: Expression) -> Phrase:
    if not isinstance(found, Phrase):
        raise cursor.refusal(symbol.at, "ftNEAR", "it connects words and phrases, not conditions")
    return found


def _primary(cursor: Cursor) -> Expression:
    symbol = cursor.next()
    if symbol.is_mark("("):
        inner = _disjunction(cursor)
        closing = cursor.next()
        if not closing.is_mark(")"):
            raise _misplaced(cursor, closing)
        return using_also(inner, _using(cursor, with_corpus=False)[0])
    if symbol.is_word("FTSIMILAR"):
        cursor.expect_mark("[")
        threshold = _threshold(cursor)
        cursor.expect_mark("]")
        return _similar(cursor, cursor.next(), lambda: threshold)
    words = _words(cursor, symbol)
    using, corpus = _using(cursor, with_corpus=False)
    assert corpus is None, "it was not to be read"
    return _made(cursor, symbol, "full-text string", lambda: Phrase(words, using))


def _words(cursor: Cursor, symbol: Symbol) -> tuple[str, ...]:
    """Return the words of a string, at least one."""
    if symbol.kind != "literal":
        raise _misplaced(cursor, symbol)
    if not symbol.value.endswith('"'):
        reason = f"{_WORDS} cannot have a language or datatype; a range of languages follows the whole condition"
        raise cursor.refusal(symbol.at, "full-text string", reason)
    words = tuple(globs_of(terms.lexical(symbol.value)))
    if not words:
        raise cursor.refusal(symbol.at, "full-text string", f"{symbol.value} contains no word")
    return words


def _similar_call(cursor: Cursor) -> Similar:
    """Read the words of ``ftsimilar`` and the threshold after them."""

    def threshold() -> int:
        cursor.expect_mark(",")
        return _threshold(cursor)

    return _similar(cursor, cursor.next(), threshold)


def _similar(cursor: Cursor, symbol: Symbol, threshold: Callable[[], int]) -> Similar:
    """Read a similarity from its words on; ``threshold`` returns the threshold after they are read."""
    words = _words(cursor, symbol)
    using, corpus = _using(cursor, with_corpus=True)
    reached = threshold()
    return _made(cursor, symbol, "ftsimilar", lambda: Similar(words, reached, using, corpus or NO_CORPUS))


def _threshold(cursor: Cursor) -> int:
    symbol = cursor.next()
    found = _SIMILARITY.fullmatch(symbol.value) if symbol.kind == "literal" and not symbol.signed else None
    if found is None or (reached := Fraction(found[1]) * THRESHOLD_SCALE).denominator != 1:
        reason = "a threshold is a number with at most four decimals, such as 0.4"
        raise cursor.refusal(symbol.at, "ftsimilar", reason)
    if not 0 < reached <= THRESHOLD_SCALE:
        reason = f"{found[1]} is no valid threshold: it must be more than 0 and at most 1"
        raise cursor.refusal(symbol.at, "ftsimilar", reason)
    return int(reached)


def _corpus(cursor: Cursor) -> Corpus:
    """Read the counts after ``corpus``."""
    cursor.expect_mark("[")
    texts = _number(cursor, "corpus", CORPUS_TEXTS_MAX, "texts")
    counts: list[tuple[str, int]] = []
    while cursor.take_mark(","):
        symbol = cursor.next()
        word, *more = _words(cursor, symbol)
        if more:
            raise cursor.refusal(symbol.at, "corpus", "each count belongs to a single word")
        counts.append((word, _number(cursor, "corpus", CORPUS_TEXTS_MAX, "texts")))
    cursor.expect_mark("]")
    return Corpus(texts, tuple(counts))


def _using(cursor: Cursor, *, with_corpus: bool) -> tuple[Using, Corpus | None]:
    """Read all ``using`` clauses: the comparison of words, and the corpus if one is allowed."""
    stemming = stop_words = False
    corpus = None
    while cursor.take_word("USING"):
        if cursor.take_word("STEMMING"):
            stemming = True
        elif cursor.take_word("STOP"):
            cursor.expect_word("WORDS")
            stop_words = True
        elif with_corpus and cursor.take_word("CORPUS"):
            corpus = _corpus(cursor)
        else:
            symbol = cursor.next()
            reason = f"'stemming' or 'stop words' is expected here, not {symbol.value[:40]!r}"
            raise cursor.refusal(symbol.at, "using", reason)
    return Using(stemming, stop_words), corpus


def _gap(cursor: Cursor) -> Gap:
    opening = cursor.expect_mark("[")
    least = _number(cursor, "ftNEAR", GAP_MAX, "words")
    cursor.expect_mark(",")
    most = _number(cursor, "ftNEAR", GAP_MAX, "words")
    ordered = True
    if cursor.take_mark(","):
        cursor.expect_word("UNORDERED")
        ordered = False
    cursor.expect_mark("]")
    if least > most:
        reason = f"[{least},{most}] is no valid range: the smaller number comes first"
        raise cursor.refusal(opening.at, "ftNEAR", reason)
    return Gap(least, most, ordered)


def _number(cursor: Cursor, construct: str, most: int, of: str) -> int:
    symbol = cursor.next()
    digits = symbol.value[1 : -len(_INTEGER)]
    if symbol.kind != "literal" or not symbol.value.endswith(_INTEGER) or symbol.signed:
        raise cursor.refusal(symbol.at, construct, f"a number of {of} is expected here")
    if len(digits) > len(str(most)) or int(digits) > most:
        raise cursor.refusal(symbol.at, construct, f"the number exceeds {most} {of}")
    return int(digits)


def _made(cursor: Cursor, symbol: Symbol, construct: str, make: Callable[[], _T]) -> _T:
    """Construct a part of the tree; a refusal by its bounds gets the position of the symbol."""
    try:
        return make()
    except QueryRefused:
        raise
    except LocalProtocolError as error:
        raise cursor.refusal(symbol.at, construct, str(error)) from None


def _misplaced(cursor: Cursor, symbol: Symbol) -> QueryRefused:
    if symbol.kind == "word" and symbol.value.upper() in ("AND", "OR", "NOT", "NEAR"):
        return cursor.refusal(
            symbol.at, "full-text expression", f"{symbol.value}: write ft{symbol.value.upper()}"
        )
    if symbol.kind in ("literal", "var", "iri"):
        return cursor.refusal(symbol.at, "full-text expression", f"ftAND, ftOR, ftNEAR or {_WORDS} is expected here")
    return cursor.misplaced(symbol)
