"""Interest expressions: the part of a dataset that a replica holds (iRap, section 2, definitions 5 to 7).

An interest is written as a query, and parsed by the parser of standing queries::

    SELECT * WHERE {
      ?footballer a dbo:SoccerPlayer ; foaf:name ?name ; dbo:team ?team .
      ?team rdfs:label ?label .
      FILTER (lang(?label) = "en")
      OPTIONAL { ?footballer foaf:homepage ?page }
    }

The patterns outside of OPTIONAL are the *required* group; each OPTIONAL is a group of its own, which matches as a
whole or not at all, as in SPARQL (the paper's "at least one of the optional patterns" would keep half of a group).
The replica holds the result of ``CONSTRUCT { all patterns } WHERE { ... }``; CONSTRUCT may be written, too.

Patterns are connected if they share variables, in any of the three places.  Common constants do not connect: two
people in one city are unrelated.  Each optional group is connected to the required one.

A variable that two optional groups share must be in the required group.  Otherwise the meaning of the second group
would depend on whether the first has matched (such queries are not *well-designed*, Pérez et al. 2009), and a triple
for an unrelated group could change the interesting triples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Final, TypeAlias

from p2prdf.errors import QueryRefused
from p2prdf.rdf import filters, terms, tokens
from p2prdf.rdf.algebra import Form
from p2prdf.rdf.code_points import as_written
from p2prdf.rdf.compiled import ALWAYS, NEVER, ExpressionChecker
from p2prdf.rdf.query import Filter
from p2prdf.rdf.standing import syntax
from p2prdf.rdf.standing.cursor import Cursor
from p2prdf.rdf.standing.leaves import decided
from p2prdf.rdf.standing.selects import read_query
from p2prdf.rdf.standing.syntax import is_variable

__all__ = ["OPTIONALS_MAX", "PATTERNS_MAX", "Interest", "Pattern", "PatternGroup", "connected", "parse_interest",
           "variables_of"]  # fmt: skip

PATTERNS_MAX: Final = 32
"""Bound on the triple patterns of one interest, optional ones included."""
OPTIONALS_MAX: Final = 8
"""Bound on the optional groups of one interest."""

_MADE_OF: Final = "an interest is made of triple patterns, FILTER and OPTIONAL"
_ALL: Final = ("ORDER BY, LIMIT or OFFSET", "a replica holds all triples of an interest")
_GROUPED: Final = ("GROUP BY", "an interest selects triples, not groups of solutions")
_REFUSED: Final = {
    "GROUP": _GROUPED, "HAVING": _GROUPED, **dict.fromkeys(("ORDER", "LIMIT", "OFFSET"), _ALL),
    "VALUES": ("VALUES", "write an interest for each value, or FILTER (?x IN (...))"),
    "SELECT": ("sub-SELECT", _MADE_OF),
    **{word: (word, _MADE_OF) for word in ("UNION", "MINUS", "GRAPH", "BIND", "EXISTS", "SERVICE")},
}  # fmt: skip
"""Constructs and reasons, by words of SPARQL that an interest does not have."""

Pattern: TypeAlias = tuple[str, str, str]
"""Subject, predicate and object: canonical terms, or ``?`` and the name of a variable."""


@dataclasses.dataclass(frozen=True, slots=True)
class PatternGroup:
    """Patterns that match together, and the conditions on their variables.

    The variables of a condition are numbered as in :attr:`Interest.variables`.
    """

    patterns: tuple[Pattern, ...]
    conditions: tuple[Filter, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Interest:
    """An interest expression: the required group and the optional ones."""

    text: str
    required: PatternGroup
    optionals: tuple[PatternGroup, ...] = ()

    @property
    def groups(self) -> tuple[PatternGroup, ...]:
        """The required group, then the optional ones."""
        return (self.required, *self.optionals)

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """All patterns, each once, in the order of the text."""
        return tuple(dict.fromkeys(pattern for group in self.groups for pattern in group.patterns))

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables with their question marks, in the order of the text."""
        return variables_of(self.patterns)


def variables_of(patterns: Iterable[Pattern]) -> tuple[str, ...]:
    """Return the variables of patterns, each once, in order."""
    return tuple(dict.fromkeys(part for pattern in patterns for part in pattern if is_variable(part)))


def connected(patterns: Iterable[Pattern]) -> bool:
    """Return whether shared variables lead from each pattern to each other one."""
    left = list(patterns)
    reached = set(variables_of([left.pop(0)])) if left else set[str]()
    while left:
        found = next((each for each in left if reached.intersection(each)), None)
        if found is None:
            return False
        left.remove(found)
        reached.update(variables_of([found]))
    return True


@as_written
def parse_interest(text: str) -> Interest:
    """Return the interest that a SELECT or CONSTRUCT query expresses.

    Raises QueryRefused, with construct and place, for text that is malformed, longer than ``tokens.QUERY_BYTES_MAX``,
    or not an interest: an interest contains only triple patterns, FILTER and OPTIONAL.
    """
    return _Reading(*read_query(text)).interest()


class _Reading:
    """Reads an interest from a query's tree, or refuses it."""

    def __init__(self, cursor: Cursor, query: syntax.Query):
        self._cursor = cursor
        self._query = query
        self._checker = ExpressionChecker(cursor.text)

    def interest(self) -> Interest:
        query, select = self._query, self._query.select
        self._check_form()
        triples, conditions, optionals = self._parts(select.group)
        if not triples:
            reason = "an interest has a triple pattern outside of OPTIONAL"
            raise self._refusal(select.group.at, "empty pattern", reason)
        required = tuple(triples)
        if not connected(required):
            raise self._apart(list(triples.values()), required)
        groups = [(required, conditions)]
        groups += [self._optional(optional, required) for optional in optionals]
        found = tuple(pattern for patterns, _ in groups for pattern in patterns)
        if len(found) > PATTERNS_MAX:
            reason = f"{len(found)} triple patterns, more than {PATTERNS_MAX}"
            raise self._refusal(select.group.at, "triple patterns", reason)
        if len(optionals) > OPTIONALS_MAX:
            raise self._refusal(optionals[OPTIONALS_MAX].at, "OPTIONAL", f"an interest has at most {OPTIONALS_MAX}")
        self._check_shared([patterns for patterns, _ in groups], optionals)
        names = variables_of(found)
        made = Interest(
            self._cursor.text,
            self._group(required, conditions, names, frozenset(variables_of(required))),
            tuple(
                self._group(patterns, own, names, frozenset(variables_of((*required, *patterns))))
                for patterns, own in groups[1:]
            ),
        )
        if query.form is Form.CONSTRUCT and set(query.template) != set(made.patterns):
            reason = "the template must equal the patterns of the WHERE: a replica holds triples as they are"
            raise self._refusal(select.at, "CONSTRUCT", reason)
        return made

    # --- refused constructs ---------------------------------------------------------------------

    def _check_form(self) -> None:
        query, cursor = self._query, self._cursor
        if query.form is Form.ASK:
            raise self._refusal(query.select.at, "ASK", "an interest is a SELECT or CONSTRUCT query")
        if query.continuous is not None:
            reason = "an interest is about what a dataset holds, not about a stream"
            raise self._refusal(query.select.at, "WINDOW", reason)
        if query.dataset is not None:
            reason = "an interest is about the default graph of its dataset; leave the clause out"
            raise self._refusal(query.select.at, "FROM" if query.dataset.named is not None else "WITH", reason)
        cursor.refuse_words(_REFUSED)
        for projected in query.select.projection or ():
            reason = "a replica holds triples, whatever is projected: write SELECT *"
            raise self._refusal(projected.at, "SELECT", reason)

    def _parts(
        self, group: syntax.Group
    ) -> tuple[dict[tuple[str, str, str], syntax.Triple], list[syntax.Expression], list[syntax.OptionalGroup]]:
        """Return a group's patterns, conditions and optional groups."""
        triples: dict[Pattern, syntax.Triple] = {}
        conditions: list[syntax.Expression] = []
        optionals: list[syntax.OptionalGroup] = []
        for element in group.elements:
            match element:
                case syntax.Triples(found):
                    for triple in found:
                        triples.setdefault(self._pattern(triple), triple)
                case syntax.Expression():
                    conditions.append(element)
                case syntax.OptionalGroup():
                    optionals.append(element)
                case syntax.Group(at=at):
                    raise self._refusal(at, "{ } in a group", f"not supported: {_MADE_OF}")
        return triples, conditions, optionals

    def _pattern(self, triple: syntax.Triple) -> Pattern:
        if not isinstance(triple.path, syntax.Link):
            raise self._refusal(triple.at, "property path", "a pattern has one predicate; write the steps")
        if terms.is_object_only(triple.subject):
            raise self._refusal(triple.at, "literal", "a literal is the subject of no triple")
        return triple.subject, triple.path.predicate, triple.object

    def _optional(
        self, optional: syntax.OptionalGroup, required: tuple[Pattern, ...]
    ) -> tuple[tuple[Pattern, ...], list[syntax.Expression]]:
        triples, conditions, inner = self._parts(optional.group)
        if inner:
            reason = "not supported: write it beside the other one, with the patterns that it needs of that"
            raise self._refusal(inner[0].at, "OPTIONAL in OPTIONAL", reason)
        if not triples:
            raise self._refusal(optional.at, "OPTIONAL", "it has no triple pattern")
        if not connected((*required, *triples)):
            raise self._apart(list(triples.values()), (*required, *triples))
        return tuple(triples), conditions

    def _apart(self, triples: list[syntax.Triple], patterns: tuple[Pattern, ...]) -> QueryRefused:
        """Return the refusal of patterns that are not connected, at the first that is not reached."""
        known = len(patterns) - len(triples)
        reached = list(patterns[: known or 1])
        left = [(pattern, triple) for pattern, triple in zip(patterns[known:], triples, strict=True)]
        if not known:
            left.pop(0)
        while found := [each for each in left if connected((*reached, each[0]))]:
            reached += [pattern for pattern, _ in found]
            left = [each for each in left if each not in found]
        reason = "it shares no variable with the other patterns; write it as an interest of its own"
        return self._refusal(left[0][1].at, "unconnected pattern", reason)

    def _check_shared(self, groups: list[tuple[Pattern, ...]], optionals: list[syntax.OptionalGroup]) -> None:
        """Refuse variables that optional groups share only with each other."""
        known = set(variables_of(groups[0]))
        for patterns, optional in zip(groups[1:], optionals, strict=True):
            own = dict.fromkeys(variables_of(patterns))
            for name in own:
                if name in known and name not in variables_of(groups[0]):
                    reason = "another OPTIONAL has it, too, and the required patterns do not: what would match depends"
                    raise self._refusal(optional.at, f"shared variable {name}", f"{reason} on the order of the two")
            known.update(own)

    # --- conditions ------------------------------------------------------------------------------

    def _group(
        self, patterns: tuple[Pattern, ...], conditions: list[syntax.Expression], names: tuple[str, ...],
        scope: frozenset[str],
    ) -> PatternGroup:  # fmt: skip
        numbers = {name[1:]: number for number, name in enumerate(names) if name in scope}
        found: dict[Filter, None] = {}
        for condition in conditions:
            for part in filters.conjuncts(condition.symbols):
                if not part:
                    raise self._refusal(condition.at, "syntax error", "an empty condition")
                found[self._condition(part, numbers)] = None
        found.pop(ALWAYS, None)
        return PatternGroup(patterns, tuple(found))

    def _condition(self, part: list[tokens.Symbol], numbers: dict[str, int]) -> Filter:
        for symbol in part:
            if symbol.kind == "var" and symbol.value not in numbers:
                reason = "neither its group nor the required patterns bind it"
                raise self._refusal(symbol.at, f"FILTER on ?{symbol.value}", reason)
        made = Filter(*filters.spell(part, numbers, self._cursor.base))
        self._checker.check(made, part[0].at)
        found = decided(made)
        if found == NEVER:
            raise self._refusal(part[0].at, "FILTER", "this condition never holds: the replica would stay empty")
        return found

    def _refusal(self, at: int, construct: str, reason: str) -> QueryRefused:
        return self._cursor.refusal(at, construct, reason)
