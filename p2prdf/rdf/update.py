"""SPARQL 1.1 Update text, restricted to the operations that a decentralised overlay can carry out.

``INSERT DATA`` publishes its triples and ``DELETE DATA`` deletes them.  ``DELETE WHERE`` names patterns: its SELECT
is evaluated, and each solution, inserted into the patterns, gives triples to delete.  ``DELETE { P } WHERE { P }``
with the same triples in both blocks is equivalent to it, and may follow ``WITH <graph>``.  All other templates, and
operations that manage graphs, are refused with name and position.

``GRAPH`` inside the braces gives the graph of the statements in its own braces; a variable graph, in DELETE WHERE,
matches all named graphs.

A text is a sequence of operations separated by ``;``, each with an optional prologue; declarations apply from their
position to the end.  Terms are canonical (:mod:`p2prdf.rdf.terms`).
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias, cast

from p2prdf.errors import DataRefused, QueryRefused
from p2prdf.rdf import terms, tokens
from p2prdf.rdf.code_points import as_written
from p2prdf.rdf.standing.cursor import Cursor
from p2prdf.rdf.standing.syntax import Link, is_variable
from p2prdf.rdf.standing.triples import TriplesReader
from p2prdf.rdf.tokens import QUERY_BYTES_MAX, Symbol

__all__ = ["UPDATE_BYTES_MAX", "DeleteData", "DeleteWhere", "InsertData", "Operation", "Statement", "parse_update"]

UPDATE_BYTES_MAX: Final = 1 << 20
"""Longest text in UTF-8 bytes.

At worst (a token for each byte), parsing takes 400 times as much memory and some seconds, too long for an event loop;
prefixes add IRIs of at most ``tokens.SPELLED_MAX`` characters.
"""

Statement: TypeAlias = tuple[str, str, str] | tuple[str, str, str, str]
"""A triple of the default graph, or a triple and the IRI of its graph.

In a pattern, any part may be a variable.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class InsertData:
    """``INSERT DATA { }``: triples to publish, each once, in the order of the text."""

    triples: tuple[Statement, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteData:
    """``DELETE DATA { }``: triples to delete, each once, in the order of the text."""

    triples: tuple[Statement, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteWhere:
    """``DELETE WHERE { }``: delete the triples that result from each solution of the patterns.

    ``patterns``: each term is canonical, or ``?`` and the name of a variable.
    """

    patterns: tuple[Statement, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables, in the order of their first occurrence."""
        return tuple(dict.fromkeys(term[1:] for pattern in self.patterns for term in pattern if is_variable(term)))

    @property
    def select(self) -> str:
        """The SELECT query to evaluate: its columns are ``variables``, its length is at most QUERY_BYTES_MAX.

        Without variables it has no columns, and one solution without values if all triples exist.
        """
        columns = " ".join("?" + name for name in self.variables) or "*"
        return f"SELECT {columns} WHERE {{ {' '.join(map(_spelled, self.patterns))} }}"

    def triples_of(self, row: Sequence[str | None]) -> tuple[Statement, ...]:
        """Return the triples of one solution, each once; values are in the order of ``variables``.

        Raises DataRefused for a row that is not a solution: of another length, or with an unbound value.
        """
        names = self.variables
        if len(row) != len(names) or None in row:
            raise DataRefused(f"not a solution for {list(names)}: {len(row)} values, {row.count(None)} of them unbound")
        values = dict(zip(names, row, strict=True))

        def value(term: str) -> str:
            return values[term[1:]] or "" if is_variable(term) else term

        found = (tuple(map(value, pattern)) for pattern in self.patterns)
        return tuple(dict.fromkeys(cast("Iterator[Statement]", found)))


def _spelled(pattern: Statement) -> str:
    s, p, o, *graph = pattern
    return f"GRAPH {graph[0]} {{ {s} {p} {o} }}" if graph else f"{s} {p} {o} ."


Operation: TypeAlias = InsertData | DeleteData | DeleteWhere


@as_written
def parse_update(text: str, *, scope: str) -> tuple[Operation, ...]:
    """Return the operations of an update, in order; there may be none.

    Blank nodes of INSERT DATA become IRIs, as in a published file, with ``scope`` as the identifier of the
    publication: 1 to 64 of ``A-Z a-z 0-9 . _ -``.  Use a new scope for each execution if it is to insert new nodes.
    A label belongs to one operation.  DELETE DATA, which allows no blank nodes, names such nodes by these IRIs.

    Raises QueryRefused, with construct and position, for text that is malformed, not supported, longer than
    UPDATE_BYTES_MAX or nested deeper than ``tokens.NESTING_MAX``, and for patterns with a SELECT longer than
    QUERY_BYTES_MAX.  Raises DataRefused for an invalid scope.
    """
    prefix = terms.skolem_prefix(scope)
    size = len(text.encode(errors="surrogatepass"))
    if size > UPDATE_BYTES_MAX:
        reason = f"the text has {size} bytes, more than {UPDATE_BYTES_MAX}"
        raise QueryRefused(reason, construct="update length")
    symbols = tokens.update_symbols(text, tokens.scan(text, UPDATE_BYTES_MAX))
    try:
        return tuple(_UpdateReader(text, symbols, scope, prefix).operations())
    except RecursionError:  # the caller may have used most of the stack
        raise QueryRefused("the update nests too deeply to be parsed", construct="nesting") from None


_REFUSED: Final = {
    "INSERT": "the only insertion is INSERT DATA { }",
    "DELETE": "the only deletions are DELETE DATA { }, DELETE WHERE { } and DELETE { P } WHERE { P }",
    "WITH": "it may precede DELETE { P } WHERE { P } only; name the graph by GRAPH in the braces",
    "USING": "name the graph by GRAPH in the braces",
    "GRAPH": "in an update it encloses triples, and cannot be nested",
    "LOAD": "nodes fetch no files; publish it instead",
    **dict.fromkeys(
        ("CLEAR", "DROP", "CREATE", "COPY", "MOVE", "ADD"),
        "graphs are not managed; a graph exists while it holds a triple",
    ),
    **dict.fromkeys(("SELECT", "ASK", "CONSTRUCT", "DESCRIBE"), "queries are not updates"),
    **dict.fromkeys(
        ("FILTER", "OPTIONAL", "UNION", "MINUS", "BIND", "VALUES", "SERVICE", "EXISTS"),
        "the braces of an update contain triples only",
    ),
}


class _UpdateCursor(Cursor):
    """Steps over the symbols of an update."""

    def misplaced(self, symbol: Symbol) -> QueryRefused:
        """Return the refusal of a symbol; the reasons differ from those for queries."""
        word = symbol.value.upper()
        if symbol.kind == "word" and word in _REFUSED:
            return self.refusal(symbol.at, word, f"not supported: {_REFUSED[word]}")
        return super().misplaced(symbol)


class _UpdateReader:
    """Reads the operations of one update."""

    def __init__(self, text: str, symbols: list[Symbol], scope: str, prefix: str):
        self._cursor = _UpdateCursor(text, symbols, None)
        self._symbols = symbols
        self._scope = scope
        self._prefix = prefix
        self._labels: set[str] = set()
        """Labels of earlier operations: a label belongs to one operation of a text (SPARQL 1.1, 19.6)."""
        self._unnamed = itertools.count()

    def operations(self) -> Iterator[Operation]:
        cursor = self._cursor
        while cursor.peek() is not None:
            yield self._operation()
            if cursor.peek() is not None:
                cursor.expect_mark(";")

    def _operation(self) -> Operation:
        cursor = self._cursor
        first = cursor.next()
        if first.is_word("INSERT") and cursor.take_word("DATA"):
            self._check_block("INSERT DATA", variables=False, blanks=True)
            return InsertData(self._named(self._block(data=True)))
        if first.is_word("DELETE") and cursor.take_word("DATA"):
            self._check_block("DELETE DATA", variables=False, blanks=False)
            return DeleteData(tuple(dict.fromkeys(self._block(data=True))))
        if first.is_word("DELETE") and cursor.take_word("WHERE"):
            self._check_block("DELETE WHERE", variables=True, blanks=False)
            return self._delete_where(first, self._block(data=False))
        if first.is_word("DELETE") and self._sees_brace():
            return self._delete_twice(first, "")
        if first.is_word("WITH"):
            return self._delete_with(first)
        raise cursor.misplaced(first)

    def _sees_brace(self) -> bool:
        following = self._cursor.peek()
        return following is not None and following.is_mark("{")

    def _delete_with(self, first: Symbol) -> DeleteWhere:
        """Read ``DELETE { P } WHERE { P }`` after ``WITH <graph>``, the graph of the triples outside of GRAPH."""
        cursor = self._cursor
        graph = cursor.next()
        if graph.kind != "iri":
            raise cursor.misplaced(graph)
        delete = cursor.next()
        if not delete.is_word("DELETE") or not self._sees_brace():
            raise cursor.misplaced(first)
        return self._delete_twice(delete, graph.value)

    def _delete_twice(self, first: Symbol, graph: str) -> DeleteWhere:
        """Read ``{ P } WHERE { P }``: both blocks hold the same triples, in any order."""
        cursor = self._cursor
        self._check_block("DELETE { P } WHERE { P }", variables=True, blanks=False)
        template = self._block(data=False)
        if not cursor.take_word("WHERE"):
            raise cursor.misplaced(first)
        self._check_block("DELETE { P } WHERE { P }", variables=True, blanks=False)
        patterns = self._block(data=False)
        if set(template) != set(patterns):
            reason = "not supported: the template has other triples than the pattern"
            raise cursor.refusal(first.at, "DELETE { } WHERE { }", reason)
        if graph:
            patterns = [(*each, graph) if len(each) == 3 else each for each in patterns]
        return self._delete_where(first, patterns)

    def _delete_where(self, first: Symbol, block: list[Statement]) -> DeleteWhere:
        patterns = tuple(dict.fromkeys(block))
        # Abbreviated terms are expanded in the query, so its length is computed before it is made.
        size = 32 + sum(len(term.encode()) + 2 for pattern in patterns for term in pattern)
        size += sum(8 for pattern in patterns if len(pattern) == 4)
        operation = DeleteWhere(patterns)
        if size + sum(len(name.encode()) + 2 for name in operation.variables) > QUERY_BYTES_MAX:
            reason = f"as a query the patterns would have more than {QUERY_BYTES_MAX} bytes"
            raise self._cursor.refusal(first.at, "DELETE WHERE", reason)
        return operation

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
                reason = f"{what} cannot have one: a blank node names no existing node"
                raise cursor.refusal(symbol.at, "blank node", reason)
            if symbol.kind == "blank" and symbol.value in self._labels:
                raise cursor.refusal(symbol.at, "blank node label", "an earlier operation uses the same label")

    @staticmethod
    def _is_blank(symbol: Symbol, following: Symbol | None) -> bool:
        if symbol.is_mark("("):
            return following is not None and not following.is_mark(")")
        return symbol.kind == "blank" or symbol.is_mark("[")

    def _block(self, *, data: bool) -> list[Statement]:
        """Read triples in braces, and those of nested GRAPH blocks.

        Patterns may have a literal as their subject; they match nothing.
        """
        cursor = self._cursor
        cursor.expect_mark("{")
        found: list[Statement] = list(self._triples(data=data))
        while cursor.take_word("GRAPH"):
            symbol = cursor.next()
            if symbol.kind not in ("iri", "var"):
                raise cursor.misplaced(symbol)
            graph = symbol.value if symbol.kind == "iri" else "?" + symbol.value
            cursor.expect_mark("{")
            within = [(*triple, graph) for triple in self._triples(data=data)]
            if not within and not data:
                raise cursor.refusal(symbol.at, "GRAPH without triples", "it contains nothing to delete")
            found += within
            cursor.expect_mark("}")
            cursor.take_mark(".")
            found += self._triples(data=data)
        cursor.expect_mark("}")
        return found

    def _triples(self, *, data: bool) -> Iterator[tuple[str, str, str]]:
        cursor = self._cursor
        reader = TriplesReader(cursor, paths=False)
        for triple in reader.read() if reader.sees_term() else ():
            assert isinstance(triple.path, Link), "no paths are read"
            if data and triple.subject.startswith('"'):
                raise cursor.refusal(self._before(triple.at), "literal", "a literal cannot be a subject")
            yield triple.subject, triple.path.predicate, triple.object

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

        found = ((name(s), p, name(o), *graph) for s, p, o, *graph in triples)
        return tuple(dict.fromkeys(cast("Iterator[Statement]", found)))
