"""SPARQL 1.1 Update text, parsed to operations (:mod:`p2prdf.rdf.update_operations`).

A text is a sequence of operations separated by ``;``, each with an optional prologue; declarations apply from their
position to the end.  Terms are canonical (:mod:`p2prdf.rdf.terms`).

The WHERE of an operation is a one-time query.  Its text is that of the update, so it is as long as there, behind the
declarations that it uses.  WITH becomes WITH before the form of the query, USING becomes FROM.  The query is parsed
here, so no operation runs if the WHERE of a later one is malformed.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, cast

from p2prdf.errors import QueryRefused
from p2prdf.rdf import terms, tokens
from p2prdf.rdf.code_points import as_written
from p2prdf.rdf.federation import without_services
from p2prdf.rdf.quads import DEFAULT
from p2prdf.rdf.standing.cursor import Cursor
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.standing.syntax import Link, is_variable
from p2prdf.rdf.standing.triples import TriplesReader, names_within
from p2prdf.rdf.tokens import Symbol, Token
from p2prdf.rdf.update_operations import (
    Clear,
    Create,
    DeleteData,
    InsertData,
    Load,
    Manner,
    Modify,
    Operation,
    Statement,
    Target,
    Transfer,
)
from p2prdf.rdf.update_values import substitute

__all__ = ["OPERATIONS_MAX", "QUERIES_MAX", "UPDATE_BYTES_MAX", "Using", "parse_update"]

UPDATE_BYTES_MAX: Final = 1 << 20
"""Longest text in UTF-8 bytes.

At worst (a token for each byte), parsing takes 400 times as much memory and some seconds, too long for an event loop;
prefixes add IRIs of at most ``tokens.SPELLED_MAX`` characters.
"""
OPERATIONS_MAX: Final = 10_000
"""Most operations of an update."""
QUERIES_MAX: Final = 100
"""Most operations of an update that read data or a document: each takes a one-time query or a request."""


class Using(NamedTuple):
    """The graphs that the protocol chooses for WHERE: ``using-graph-uri`` and ``using-named-graph-uri``.

    Canonical IRIs; an update with WITH or USING is refused then (SPARQL 1.1 Protocol, 2.2.3).
    """

    default: tuple[str, ...] = ()
    named: tuple[str, ...] = ()


@as_written
def parse_update(
    text: str, *, scope: str, using: Using = Using(), now: str = "1970-01-01T00:00:00Z",  # noqa: B008
    services: bool = False,
) -> tuple[Operation, ...]:
    """Return the operations of an update, in order; there may be none.

    Blank nodes of INSERT DATA become IRIs, as in a published file, with ``scope`` as the identifier of the
    publication: 1 to 64 of ``A-Z a-z 0-9 . _ -``.  Use a new scope for each execution if it is to insert new nodes.
    A label belongs to one operation.  DELETE DATA, which allows no blank nodes, names such nodes by these IRIs.
    ``now``: value of NOW, the lexical form of an xsd:dateTime.  ``services``: WHERE may call other endpoints; the
    queries of the operations then contain these calls (:mod:`p2prdf.rdf.federation`).

    Raises QueryRefused, with construct and position, for text that is malformed, not supported, longer than
    UPDATE_BYTES_MAX or nested deeper than ``tokens.NESTING_MAX``, for more operations than OPERATIONS_MAX or
    QUERIES_MAX, and for a WHERE that is no valid query.  Raises DataRefused for an invalid scope.
    """
    prefix = terms.skolem_prefix(scope)
    size = len(text.encode(errors="surrogatepass"))
    if size > UPDATE_BYTES_MAX:
        reason = f"the text has {size} bytes, more than {UPDATE_BYTES_MAX}; send it in several requests"
        raise QueryRefused(reason, construct="update length")
    found = tokens.scan(text, UPDATE_BYTES_MAX)
    try:
        return tuple(_UpdateReader(text, found, scope, prefix, using, now, services=services).operations())
    except RecursionError:  # the caller may have used most of the stack
        raise QueryRefused("the update nests too deeply to be parsed", construct="nesting") from None


_REFUSED: Final = {
    "INSERT": "write INSERT DATA { }, or INSERT { } WHERE { }; the operation before it ends with ';'",
    "DELETE": "write DELETE DATA { }, DELETE WHERE { } or DELETE { } WHERE { }; the operation before ends with ';'",
    "WITH": "write WITH <graph> before DELETE { } or INSERT { }",
    "USING": "write USING <graph> after the templates, before WHERE",
    "GRAPH": "in a template or in data it encloses triples, and cannot be nested",
    **dict.fromkeys(("SELECT", "ASK", "CONSTRUCT", "DESCRIBE"), "queries are not updates"),
    **dict.fromkeys(
        ("FILTER", "OPTIONAL", "UNION", "MINUS", "BIND", "VALUES", "SERVICE", "EXISTS"),
        "templates and data contain triples only; conditions belong in WHERE { }",
    ),
}


class _UpdateCursor(Cursor):
    """Steps over the symbols of an update."""

    def misplaced(self, symbol: Symbol) -> QueryRefused:
        """Return the refusal of a symbol; the reasons differ from those for queries."""
        word = symbol.value.upper()
        if symbol.kind == "word" and word in _REFUSED:
            return self.refusal(symbol.at, word, f"misplaced: {_REFUSED[word]}")
        return super().misplaced(symbol)

    def take_iri(self) -> str:
        """Take an IRI.  Raises QueryRefused if another symbol comes next."""
        symbol = self.next()
        if symbol.kind != "iri":
            raise self.misplaced(symbol)
        return symbol.value


class _UpdateReader:
    """Reads the operations of one update."""

    def __init__(
        self, text: str, found: list[Token], scope: str, prefix: str, using: Using, now: str, *, services: bool
    ):
        self._text = text
        self._services = services
        self._now = now
        self._tokens = found
        self._symbols, self._prologue_of = tokens.update_symbols(text, found)
        self._cursor = _UpdateCursor(text, self._symbols, None)
        self._scope = scope
        self._prefix = prefix
        self._using = using
        self._labels: set[str] = set()
        """Labels of earlier INSERT DATA: a label belongs to one of them (SPARQL 1.1, 19.6)."""
        self._unnamed = itertools.count()

    def operations(self) -> Iterator[Operation]:
        cursor = self._cursor
        count = reading = 0
        while (first := cursor.peek()) is not None:
            operation = self._operation(cursor.next())
            yield operation
            count += 1
            reading += not isinstance(operation, InsertData | DeleteData)
            if count > OPERATIONS_MAX or reading > QUERIES_MAX:
                most = f"{OPERATIONS_MAX:,} operations, {QUERIES_MAX} of them with WHERE, graphs or LOAD"
                reason = f"an update has at most {most}; send it in several requests"
                raise cursor.refusal(first.at, "number of operations", reason)
            if cursor.peek() is not None:
                cursor.expect_mark(";")

    def _operation(self, first: Symbol) -> Operation:
        cursor = self._cursor
        match first.value.upper() if first.kind == "word" else "":
            case "INSERT" if cursor.take_word("DATA"):
                self._check_block("INSERT DATA", variables=False, blanks=True)
                return InsertData(self._named(self._block(data=True)))
            case "DELETE" if cursor.take_word("DATA"):
                self._check_block("DELETE DATA", variables=False, blanks=False)
                return DeleteData(tuple(dict.fromkeys(self._block(data=True, no_blanks="DELETE DATA"))))
            case "DELETE" if cursor.take_word("WHERE"):
                return self._delete_where(first)
            case "INSERT" | "DELETE" if cursor.sees_mark("{"):
                return self._modify(first, "")
            case "WITH":
                graph = cursor.take_iri()
                template = cursor.next()
                if template.is_word("INSERT", "DELETE") and cursor.sees_mark("{"):
                    return self._modify(template, graph)
                raise cursor.misplaced(first)
            case "CLEAR" | "DROP":
                cursor.take_word("SILENT")  # graphs without triples do not exist, so neither operation fails
                return Clear(self._graphs())
            case "CREATE":
                silent = cursor.take_word("SILENT")
                cursor.expect_word("GRAPH")
                return Create(cursor.take_iri(), silent)
            case "COPY" | "MOVE" | "ADD" as manner:
                silent = cursor.take_word("SILENT")
                source = self._graph_or_default()
                cursor.expect_word("TO")
                return Transfer(Manner(manner), source, self._graph_or_default(), silent)
            case "LOAD":
                silent = cursor.take_word("SILENT")
                url, graph = cursor.take_iri(), DEFAULT
                if cursor.take_word("INTO"):
                    cursor.expect_word("GRAPH")
                    graph = cursor.take_iri()
                return Load(terms.lexical(url), graph, silent)
        raise cursor.misplaced(first)

    def _graphs(self) -> str | Target:
        """Read the graphs of CLEAR or DROP."""
        cursor = self._cursor
        symbol = cursor.next()
        if symbol.is_word("GRAPH"):
            return cursor.take_iri()
        if symbol.is_word("DEFAULT"):
            return DEFAULT
        if symbol.is_word("NAMED", "ALL"):
            return Target(symbol.value.upper())
        raise cursor.misplaced(symbol)

    def _graph_or_default(self) -> str:
        cursor = self._cursor
        if cursor.take_word("DEFAULT"):
            return DEFAULT
        cursor.take_word("GRAPH")
        return cursor.take_iri()

    # --- operations with WHERE ---------------------------------------------------------------

    def _delete_where(self, first: Symbol) -> Operation:
        cursor = self._cursor
        self._check_block("DELETE WHERE", variables=True, blanks=False)
        opening = cursor.peek()
        patterns = tuple(dict.fromkeys(self._block(data=False, no_blanks="DELETE WHERE")))
        if any(terms.is_object_only(s) for s, *_ in patterns):
            patterns = ()  # no triple has a literal as its subject
        # Deleting a known triple that does not exist changes nothing, unless WHERE reads other graphs.
        known = len(patterns) == 1 and not _names(patterns) and not any(self._using)
        if not patterns or known:
            return DeleteData(patterns)
        assert opening is not None, "the block was read from it"
        return self._modification(first, "DELETE WHERE", patterns, (), opening.at, self._chosen(first, "", ""))

    def _modify(self, first: Symbol, graph: str) -> Operation:
        """Read ``DELETE { } INSERT { } USING <graph> WHERE { }`` from the first template.

        ``graph``: that of WITH, where templates and patterns name none.
        """
        cursor = self._cursor
        delete, insert = list[Statement](), list[Statement]()
        if first.is_word("DELETE"):
            self._check_block("DELETE { }", variables=True, blanks=False)
            delete = self._block(data=False, no_blanks="DELETE { }")
        if first.is_word("INSERT") or cursor.take_word("INSERT"):
            insert = self._block(data=False)
        cursor.labels.clear()  # labels of a template have a scope of their own
        using = self._using_clauses()
        where = cursor.next()
        if not where.is_word("WHERE"):
            raise cursor.misplaced(first if where.is_mark("{") else where)
        opening = cursor.peek()
        self._skip_group()
        if graph:
            delete, insert = _within(graph, delete), _within(graph, insert)
        construct = " ".join(word for word, block in (("DELETE", delete), ("INSERT", insert)) if block) + " WHERE"
        assert opening is not None, "the group was read from it"
        chosen = self._chosen(first, graph, using)
        return self._modification(first, construct.strip(), delete, insert, opening.at, chosen)

    def _using_clauses(self) -> str:
        """Read USING and USING NAMED; return them as FROM clauses."""
        cursor = self._cursor
        found = []
        while cursor.take_word("USING"):
            named = "NAMED " if cursor.take_word("NAMED") else ""
            found.append(f"FROM {named}{cursor.take_iri()}")
        return " ".join(found)

    def _chosen(self, first: Symbol, graph: str, using: str) -> tuple[str, str]:
        """Return the clauses of the query, before its form and after it, that choose its graphs."""
        default, named = self._using
        if not (default or named):
            return ("", using) if using else (f"WITH {graph} " if graph else "", "")
        if graph or using:
            reason = "using-graph-uri and using-named-graph-uri exclude WITH and USING in the update: use one of both"
            raise self._cursor.refusal(first.at, "USING" if using else "WITH", reason)
        return "", " ".join([*(f"FROM {each}" for each in default), *(f"FROM NAMED {each}" for each in named)])

    def _skip_group(self) -> None:
        """Step over the group of WHERE; it is parsed as part of a query."""
        cursor = self._cursor
        cursor.expect_mark("{")
        depth = 1
        while depth:
            symbol = cursor.next()
            depth += symbol.is_mark("{") - symbol.is_mark("}")

    def _modification(
        self, first: Symbol, construct: str, delete: Iterable[Statement], insert: Iterable[Statement], opens: int,
        chosen: tuple[str, str],
    ) -> Modify:  # fmt: skip
        """Return the operation with its query; ``opens``: the position of the brace after WHERE."""
        delete, insert = tuple(dict.fromkeys(delete)), tuple(dict.fromkeys(insert))
        following = self._cursor.peek()
        ends = len(self._text) if following is None else following.at
        within = self._tokens[
            bisect.bisect_left(self._tokens, opens, key=lambda token: token.at) :
            bisect.bisect_left(self._tokens, ends, key=lambda token: token.at)
        ]  # fmt: skip
        while within[-1].text != "}":  # declarations follow the last operation of a text
            within.pop()
        group = substitute(self._text, within, self._scope, self._now)
        names = _names((*delete, *insert))
        shown = tuple(name for name in names if not name.startswith("."))
        before, after = chosen
        form = "SELECT " + " ".join("?" + name for name in shown)
        if not shown:
            form = "SELECT *" if names else "ASK"
        if len(within) == 2:  # {}
            return Modify(construct, delete, insert, "", ())
        header = f"{self._prologue_of(within)}{before}{form} {after}{' WHERE' if shown or names else ''}"
        for body in dict.fromkeys((group.checked, group.sent)):  # the second may be too long
            try:
                asked = f"{header}\n{body}"
                parse_query(without_services(asked) if self._services else asked, ordered=True)
            except QueryRefused as error:
                raise self._moved(error, construct, first.at, opens) from None
        return Modify(construct, delete, insert, f"{header}\n{group.sent}", shown, group.marks)

    def _moved(self, error: QueryRefused, construct: str, at: int, opens: int) -> QueryRefused:
        """Return the refusal of a query with its position in the update."""
        if error.line is None or error.line < 2 or error.column is None:
            what = error.construct or construct
            if what == "query length":
                return self._cursor.refusal(at, construct, f"its WHERE is too long as a query: {error.reason}")
            return self._cursor.refusal(at, what, error.reason)
        line = self._text.count("\n", 0, opens) + error.line - 1
        column = error.column + (opens - self._text.rfind("\n", 0, opens) - 1 if error.line == 2 else 0)
        return QueryRefused(error.reason, construct=error.construct, line=line, column=column)

    # --- the blocks in braces ----------------------------------------------------------------

    def _check_block(self, what: str, *, variables: bool, blanks: bool) -> None:
        """Scan ahead to the closing brace, and refuse symbols that the operation does not allow."""
        cursor = self._cursor
        depth = 0
        for offset in itertools.count():
            symbol = cursor.peek(offset)
            if symbol is None or (symbol.kind == "word" and not symbol.is_word("A", "TRUE", "FALSE", "GRAPH")):
                return  # the reader refuses this symbol
            if symbol.kind == "mark":
                depth += (symbol.value == "{") - (symbol.value == "}")
                if depth == 0:
                    return
            if symbol.kind == "var" and not variables:
                reason = f"{what} takes triples without variables"
                raise cursor.refusal(symbol.at, "variable", reason)
            if not blanks and self._is_blank(symbol, cursor.peek(offset + 1)):
                raise self._no_blank(what, symbol.at)
            if symbol.kind == "blank" and symbol.value in self._labels:
                raise cursor.refusal(symbol.at, "blank node label", "an earlier INSERT DATA uses the same label")

    def _no_blank(self, what: str, at: int) -> QueryRefused:
        reason = f"{what} cannot have one: a blank node names no existing node"
        return self._cursor.refusal(at, "blank node", reason)

    @staticmethod
    def _is_blank(symbol: Symbol, following: Symbol | None) -> bool:
        if symbol.is_mark("("):
            return following is not None and not following.is_mark(")")
        return symbol.kind == "blank" or symbol.is_mark("[")

    def _block(self, *, data: bool, no_blanks: str = "") -> list[Statement]:
        """Read triples in braces, and those of nested GRAPH blocks.

        Templates may have a literal as their subject; such triples are left out.  ``no_blanks``: the operation, if
        it refuses blank nodes, reifiers without a name included.
        """
        cursor = self._cursor
        cursor.expect_mark("{")
        found: list[Statement] = list(self._triples(data=data, no_blanks=no_blanks))
        while cursor.take_word("GRAPH"):
            symbol = cursor.next()
            if symbol.kind not in ("iri", "var"):
                raise cursor.misplaced(symbol)
            graph = symbol.value if symbol.kind == "iri" else "?" + symbol.value
            cursor.expect_mark("{")
            found += [(*triple, graph) for triple in self._triples(data=data, no_blanks=no_blanks)]
            cursor.expect_mark("}")
            cursor.take_mark(".")
            found += self._triples(data=data, no_blanks=no_blanks)
        cursor.expect_mark("}")
        return found

    def _triples(self, *, data: bool, no_blanks: str) -> Iterator[tuple[str, str, str]]:
        cursor = self._cursor
        reader = TriplesReader(cursor, paths=False, keeps=True)
        for triple in reader.read() if reader.sees_term() else ():
            assert isinstance(triple.path, Link), "no paths are read"
            if data and terms.is_object_only(triple.subject):
                raise cursor.refusal(self._before(triple.at), "literal", "a literal cannot be a subject")
            found = triple.subject, triple.path.predicate, triple.object
            if no_blanks and any(name.startswith(".") for name in _names([found])):
                raise self._no_blank(no_blanks, triple.at)
            yield found

    def _before(self, at: int) -> int:
        """Return the position of the symbol before a verb: the subject, if it is a literal."""
        return self._symbols[bisect.bisect_left(self._symbols, at, key=lambda symbol: symbol.at) - 1].at

    def _named(self, triples: list[Statement]) -> tuple[Statement, ...]:
        """Return the triples with IRIs in place of blank nodes, for which the reader generated variables."""
        labels = self._cursor.labels
        names = {"?" + hidden: terms.skolem(self._scope, label) for label, (hidden, _) in labels.items()}
        self._labels.update(labels)
        labels.clear()

        def name(term: str) -> str:
            if not is_variable(term):
                return term
            found = names.get(term)
            if found is None:  # "~" does not occur in labels
                found = names[term] = f"{self._prefix}~{next(self._unnamed)}>"
            return found

        found = ((name(s), p, terms.renamed(o, name), *graph) for s, p, o, *graph in triples)
        return tuple(dict.fromkeys(cast("Iterator[Statement]", found)))


def _names(statements: Iterable[Statement]) -> tuple[str, ...]:
    """Return the names of the variables in statements, each once, in order."""
    return tuple(dict.fromkeys(name for each in statements for term in each for name in names_within(term)))


def _within(graph: str, template: list[Statement]) -> list[Statement]:
    """Return a template in which statements without a graph belong to the given one."""
    return [(*each, graph) if len(each) == 3 else each for each in template]
