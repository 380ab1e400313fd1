"""``SERVICE wikibase:label``: labels, descriptions and aliases of solutions, by language.

The label service of Wikidata's endpoint [1] is rewritten into patterns over the data itself, so it works in standing
queries, too::

    SELECT ?item ?itemLabel { ?item wdt:P31 wd:Q5
      SERVICE wikibase:label { bd:serviceParam wikibase:language "de,en" } }

*Automatic form*: each variable of the query that is named after another one that the group binds, with the ending
``Label``, ``Description`` or ``AltLabel``, is bound.  *Explicit form*: triples in the braces name the variables.

A value comes from the first of the languages in which there is one.  Of several labels in it, the least by code
points is taken; aliases are joined by commas.  Without a label, ``Label`` is the local name of an IRI, or the text of
a literal.

[1] https://www.mediawiki.org/wiki/Wikidata_Query_Service/User_Manual#Label_service
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from p2prdf.rdf import filters, quads, terms, tokens
from p2prdf.rdf.algebra import Function
from p2prdf.rdf.query import PATTERNS_MAX
from p2prdf.rdf.standing import laws, paths, relations, syntax
from p2prdf.rdf.standing.cursor import Cursor
from p2prdf.rdf.standing.graphs import Scope, merged
from p2prdf.rdf.standing.relations import Basic, Condition, Relation, certain, is_one_of, mentioned, variables
from p2prdf.rdf.standing.syntax import Label, LabelService, Link, is_variable
from p2prdf.rdf.standing.triples import TriplesReader
from p2prdf.rdf.tokens import Symbol

__all__ = ["LABEL_SERVICE", "LANGUAGES_MAX", "labelled", "read_labels", "resolve_labels"]

LABEL_SERVICE: Final = "<http://wikiba.se/ontology#label>"
LANGUAGES_MAX: Final = 128
"""Most languages of one label service."""

_CONSTRUCT: Final = "SERVICE wikibase:label"
_PARAMETER: Final = "<http://www.bigdata.com/rdf#serviceParam>"
_LANGUAGE: Final = "<http://wikiba.se/ontology#language>"
_DEFAULT_LANGUAGE: Final = "en"
_TAG: Final = re.compile(r"[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*")
_LABEL: Final = "<http://www.w3.org/2000/01/rdf-schema#label>"
_ALIAS: Final = "<http://www.w3.org/2004/02/skos/core#altLabel>"
_ENDINGS: Final = {
    "AltLabel": _ALIAS, "Label": _LABEL, "Description": "<http://schema.org/description>",
}  # fmt: skip
"""The property of each ending; a longer ending precedes the one that it contains."""
_BESIDE: Final = ", "
"""Between the aliases of one language."""
_VALUES_MAX: Final = 128
"""Most rows of VALUES that narrow the labels of their terms."""
_WAYS_MAX: Final = 4
"""Most patterns that narrow the labels of one variable, each of which is a further leaf."""

_Extended: TypeAlias = Callable[[Relation, str, syntax.Expression, Scope, int, str], Relation]


# --- reading -------------------------------------------------------------------------------------


def read_labels(cursor: Cursor, at: int) -> LabelService:
    """Read the braces after ``SERVICE wikibase:label``; ``at``: the position of SERVICE."""
    cursor.basic += 1
    cursor.expect_mark("{")
    reader = TriplesReader(cursor, paths=False)
    triples = reader.read() if reader.sees_term() else []
    cursor.expect_mark("}")
    cursor.basic += 1
    languages: dict[str, None] = {}
    labels: list[Label] = []
    for triple in triples:
        assert isinstance(triple.path, Link), "paths are off"
        if triple.subject == _PARAMETER:
            languages.update(dict.fromkeys(_languages(cursor, triple, triple.path.predicate)))
        else:
            labels.append(_label(cursor, triple, triple.path.predicate))
    if len(languages) > LANGUAGES_MAX:
        reason = f"{len(languages)} languages, more than {LANGUAGES_MAX}"
        raise cursor.refusal(at, _CONSTRUCT, reason)
    return LabelService(tuple(languages) or (_DEFAULT_LANGUAGE,), tuple(labels), at)


def _languages(cursor: Cursor, triple: syntax.Triple, parameter: str) -> list[str]:
    """Return the language tags of a parameter; a placeholder such as ``[AUTO_LANGUAGE]`` is none."""
    if parameter != _LANGUAGE:
        reason = f"the parameter {parameter} is not supported, only wikibase:language"
        raise cursor.refusal(triple.at, _CONSTRUCT, reason)
    if terms.kind(triple.object) is not terms.Kind.LITERAL:
        reason = 'wikibase:language takes a string of language tags, such as "de,en"'
        raise cursor.refusal(triple.at, _CONSTRUCT, reason)
    tags = (tag.strip() for tag in terms.lexical(triple.object).split(","))
    return [tag.lower() for tag in tags if _TAG.fullmatch(tag)]


def _label(cursor: Cursor, triple: syntax.Triple, predicate: str) -> Label:
    if predicate not in _ENDINGS.values():
        reason = f"it has no {predicate}, only rdfs:label, schema:description and skos:altLabel"
        raise cursor.refusal(triple.at, _CONSTRUCT, reason)
    if not is_variable(triple.object):
        raise cursor.refusal(triple.at, _CONSTRUCT, f"{triple.object:.60} is no variable for the label")
    return Label(triple.subject, predicate, triple.object[1:], triple.at)


def resolve_labels(group: syntax.Group, cursor: Cursor) -> None:
    """Put the label services of a group behind its other elements, and name the variables of the automatic form."""
    services = [each for each in group.elements if isinstance(each, LabelService)]
    if not services:
        return
    group.elements = [each for each in group.elements if not isinstance(each, LabelService)]
    mentioned = tuple(dict.fromkeys(symbol.value for symbol in cursor.symbols if symbol.kind == "var"))
    for service in services:
        visible = frozenset(syntax.visible(group))
        labels = service.labels or tuple(_automatic(mentioned, visible, service.at))
        group.elements.append(dataclasses.replace(service, labels=labels))


def _automatic(mentioned: Iterable[str], visible: frozenset[str], at: int) -> Iterable[Label]:
    for name in mentioned:
        for ending, predicate in _ENDINGS.items():
            subject = name.removesuffix(ending)
            if subject != name and subject in visible and name not in visible:
                yield Label("?" + subject, predicate, name, at)
                break


# --- translation ---------------------------------------------------------------------------------


def labelled(
    text: str, relation: Relation, service: LabelService, names: Scope, hidden: Callable[[str], str],
    extended: _Extended,
) -> Relation:  # fmt: skip
    """Return the solutions of a relation with the labels of a service.

    ``text``: that of the query.  ``extended``: as :meth:`GroupTranslator.extended`.
    """
    if names.window is not None:  # labels are no elements of a stream
        graph = quads.DEFAULT if names.graph == merged(()) else names.graph
        names = dataclasses.replace(names, window=None, graph=graph)
    own = dataclasses.replace(names, rename=lambda name: name)
    for label in service.labels:
        name = names(label.subject[1:]) if is_variable(label.subject) else ""
        if name and name not in variables(relation):
            reason = f"{label.subject} has no value in the group of the service; bind it there"
            raise tokens.refusal(text, label.at, _CONSTRUCT, reason)
        subject, prefix, found = name, hidden("l"), hidden("l")
        narrowed = _narrowing(relation, name) if name else (_among(prefix, (label.subject,)),)
        if name not in certain(relation):
            subject = hidden("l")
            # An unbound subject must not match each label.
            term = "COALESCE(?x, <urn:p2prdf:unbound>)" if name else label.subject
            relation = extended(
                relation, subject, _expression(text, term, label.at, x=name), own, label.at, _CONSTRUCT
            )
        ways = tuple(_renamed(each, name or prefix, subject, prefix) for each in narrowed or (Basic(),))
        best = _best(text, ways, service, label, subject, found, own, hidden, extended)
        relation = relations.LeftJoin(relation, best)
        relation = extended(
            relation, names(label.name), _value(text, service, label, subject, found), own, label.at, _CONSTRUCT
        )
    return relation


def _best(
    text: str, narrowed: Sequence[Basic], service: LabelService, label: Label, subject: str, found: str, own: Scope,
    hidden: Callable[[str], str], extended: _Extended,
) -> Relation:  # fmt: skip
    """Return, for each labelled term, its label in the first language that has one, behind the language's number.

    ``narrowed``: patterns without any term in common with labels but the subject; the subject matches one of them.
    """
    tags = ", ".join(f'"{tag}"' for tag in service.languages)
    value, marked = hidden("l"), hidden("l")
    where = paths.between("?" + subject, Link(label.predicate), "?" + value, label.at, hidden("l"), own.graph)
    is_wanted = _expression(text, f"LCASE(LANG(?l)) IN ({tags})", label.at, l=value)
    keys = (subject, *own.graph_variable)
    ways = tuple(
        relations.Project(
            laws.restrict(way, Condition(tuple(is_wanted.symbols), frozenset(variables(way)))), (*keys, value)
        )
        for way in (laws.join(each, where) for each in narrowed)
    )
    # A label may match the patterns several times.
    inner: Relation = relations.Distinct(ways[0] if len(ways) == 1 else relations.Union(ways))
    number = f'STR(10000 + STRLEN(STRBEFORE("{_listed(service)}", CONCAT(",", LCASE(LANG(?l)), ","))))'

    def with_value(relation: Relation, name: str, written: str, **names: str) -> Relation:
        return extended(relation, name, _expression(text, written, label.at, **names), own, label.at, _CONSTRUCT)

    if label.predicate == _ALIAS:
        numbered, written, joined = hidden("l"), hidden("l"), hidden("l")
        inner = with_value(with_value(inner, numbered, number, l=value), written, "STR(?l)", l=value)
        together = relations.Aggregated(joined, Function.GROUP_CONCAT, (written,), distinct=True, separator=_BESIDE)
        inner = relations.Group(inner, (*keys, numbered), (together,), label.at)
        inner = with_value(inner, marked, "CONCAT(?n, ?t)", n=numbered, t=joined)
    else:
        inner = with_value(inner, marked, f"CONCAT({number}, STR(?l))", l=value)
    least = relations.Aggregated(found, Function.MIN, (marked,), distinct=False, separator=" ")
    return relations.Group(inner, keys, (least,), label.at)


def _value(text: str, service: LabelService, label: Label, subject: str, found: str) -> syntax.Expression:
    """Return the expression for a label, from the number of its language and its text."""
    tag = f'STRBEFORE(SUBSTR("{_listed(service)}", <{terms.XSD}integer>(SUBSTR(?m, 1, 5)) - 9998), ",")'
    value = f"STRLANG(SUBSTR(?m, 6), {tag})"
    if label.predicate == _LABEL:
        name = r'REPLACE(STR(?x), "^(.*[/#]|[^/#]*:)(.)", "$2")'
        value = f"COALESCE({value}, IF(?x = <urn:p2prdf:unbound>, 1/0, IF(ISIRI(?x), {name}, STR(?x))))"
    return _expression(text, value, label.at, m=found, x=subject)


def _listed(service: LabelService) -> str:
    return f",{','.join(service.languages)},"


def _narrowing(relation: Relation, name: str) -> tuple[Basic, ...] | None:
    """Return patterns one of which each value of a variable matches; None if none are known.

    They keep the labels of all other terms from being sent to the coordinator.
    """
    match relation:
        case Basic(window=None) if len(relation.patterns) < PATTERNS_MAX:
            return (relation,)
        case relations.Table(names, rows) if len(rows) <= _VALUES_MAX:
            values = dict.fromkeys(value for row in rows if (value := row[names.index(name)]) is not None)
            return (_among(name, tuple(values)),) if values else None
        case relations.Union(branches):
            return _one_of(branches, name)
        case relations.Join(left, right):
            for side in (left, right):
                if name in certain(side) and (found := _narrowing(side, name)) is not None:
                    return found
            return _one_of((left, right), name)
        case relations.LeftJoin(input, right) if name not in certain(input):
            return _one_of((input, right), name)
        case relations.Extend(input, other) | relations.Exists(input, name=other) if other != name:
            return _narrowing(input, name)
        case relations.Project(input, names) | relations.Group(input, names) if name in names:
            return _narrowing(input, name)
        case (
            relations.LeftJoin(input) | relations.Minus(input) | relations.Filter(input) | relations.Distinct(input)
            | relations.Slice(input)
        ):  # fmt: skip
            return _narrowing(input, name)
    return None


def _one_of(parts: Iterable[Relation], name: str) -> tuple[Basic, ...] | None:
    found = [_narrowing(part, name) for part in parts if name in variables(part)]
    together = tuple(basic for each in found for basic in each or ())
    return together if None not in found and len(together) <= _WAYS_MAX else None


def _among(name: str, values: Iterable[str]) -> Basic:
    return Basic((), (is_one_of(name, values),))


def _renamed(basic: Basic, name: str, subject: str, prefix: str) -> Basic:
    """Return a pattern in which ``subject`` stands for ``name``, and no other name is that of the query."""
    other = {each: f"{prefix}:{each}" for each in mentioned(basic)} | {name: subject}

    def term(each: str) -> str:
        return "?" + other[each[1:]] if is_variable(each) else each

    conditions = tuple(
        Condition(
            tuple(
                symbol._replace(value=other[symbol.value]) if symbol.kind == "var" else symbol
                for symbol in condition.symbols
            ),
            frozenset(other[each] for each in condition.scope if each in other),
        )
        for condition in basic.conditions
    )
    return Basic(tuple((term(s), term(p), term(o)) for s, p, o in basic.patterns), conditions, basic.at)


def _expression(text: str, written: str, at: int, **names: str) -> syntax.Expression:
    """Return an expression of SPARQL in which ``names`` replace its variables."""
    symbols, _ = tokens.symbols(written, tokens.scan(written))
    found: list[Symbol] = [
        symbol._replace(at=at, value=names[symbol.value] if symbol.kind == "var" else symbol.value)
        for symbol in symbols
    ]
    return syntax.Expression(filters.prepare(text, found), at)
