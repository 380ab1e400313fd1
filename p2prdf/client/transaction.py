"""Transactions: statements to add and to delete that take effect together, at one stamp.

A transaction gathers its changes at the client and is sent as one frame when it is committed. The last change of a
statement counts, so each statement is in it once. Nodes store all of it before they index any of it: it takes effect
as a whole or not at all, also if the node that receives it is killed (docs/explanation/design/settled.md).
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Self

import numpy as np

from p2prdf.client.pieces import Condition, Piece, TermColumns, statements_of
from p2prdf.client.publishing import Publisher
from p2prdf.errors import ChangedMeanwhile, LocalProtocolError, TransactionTooLarge
from p2prdf.hlc import ELEMENT
from p2prdf.rdf.python_values import as_term
from p2prdf.rdf.quads import DEFAULT
from p2prdf.wire.messages import CONDITIONS_MAX, TRANSACTION_BYTES_MAX, TRANSACTION_STATEMENTS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from p2prdf.client.pieces import Item

__all__ = ["Transaction"]

_Quad = tuple[str, str, str, str]


class Transaction:
    """The changes of one transaction. As a context manager it commits at the end, unless an error is raised.

    Example::

        async with client.transaction() as transaction:
            transaction.retract([("<urn:a>", "<urn:goals>", 3)])
            transaction.publish([("<urn:a>", "<urn:goals>", 4)])
        print(transaction.stamp)
    """

    def __init__(
        self, make_publisher: Callable[[], Publisher], graph: str | None,
        if_unchanged: int | Mapping[str, int] | None = None,
    ):  # fmt: skip
        self._make_publisher = make_publisher
        self._if_unchanged = _checked(if_unchanged)
        self._attempt = secrets.randbits(64)
        self._graph = graph or DEFAULT
        self._added: dict[_Quad, bool] = {}
        """Each changed statement, with whether it is added."""
        self._bytes = 0
        self._committed = False
        self._doubtful = False
        """Whether an earlier commit may have taken effect."""
        self.stamp = 0
        """The stamp of all its changes, once they are acknowledged; 0 before, and without changes."""

    async def __aenter__(self) -> Self:
        """Return the transaction."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, unless the block raised an error: then nothing is published."""
        if error is None:
            await self.commit()

    def __len__(self) -> int:
        """Return the number of changed statements."""
        return len(self._added)

    def publish(self, statements: Iterable[Item], *, graph: str | None = None) -> None:
        """Add statements.  Raises TransactionTooLarge, DataRefused for an item that is not a statement.

        ``statements`` and ``graph`` as in :meth:`p2prdf.client.Client.publish`.
        """
        self._take(statements, graph, added=True)

    def retract(self, statements: Iterable[Item], *, graph: str | None = None) -> None:
        """Delete statements; arguments and errors as in :meth:`publish`."""
        self._take(statements, graph, added=False)

    def _take(self, statements: Iterable[Item], graph: str | None, *, added: bool) -> None:
        if self._committed:
            raise LocalProtocolError("the transaction is committed; begin another one")
        for quad in statements_of(statements, graph or self._graph):
            if quad not in self._added:
                self._bytes += sum(len(text.encode()) for text in quad)
            self._added[quad] = added
            if len(self._added) > TRANSACTION_STATEMENTS_MAX or self._bytes > TRANSACTION_BYTES_MAX:
                raise TransactionTooLarge(
                    f"the transaction has more than {TRANSACTION_STATEMENTS_MAX:,} statements, or more than"
                    f" {TRANSACTION_BYTES_MAX >> 20} MiB of text; divide it, or publish in batches, each with a stamp"
                )

    async def commit(self) -> None:
        """Publish all changes together; return when they are acknowledged.

        After Unavailable or Busy the outcome is unknown: all changes have taken effect, or none has. Call it again
        to repeat them.

        Raises ChangedMeanwhile if the condition does not hold; DataRefused, NotAllowed, Busy, Unavailable.
        """
        self._committed = True
        if not self._added:
            return
        versions = self._versions()
        publisher, piece = self._make_publisher(), self._piece(versions)
        self._doubtful = True
        try:
            await publisher.run_whole(piece)
        except ChangedMeanwhile as error:
            self._doubtful = error.repeated
            raise
        self.stamp = publisher.stamp

    def _versions(self) -> dict[str, int]:
        """Return the version of each subject of the condition.  Raises TransactionTooLarge, LocalProtocolError."""
        given = self._if_unchanged
        if given is None:
            return {}
        subjects = dict.fromkeys(quad[0] for quad in self._added)
        if isinstance(given, int):
            versions = dict.fromkeys(subjects, given)
        else:
            versions = dict(given)
            if strange := next((each for each in versions if each not in subjects), None):
                raise LocalProtocolError(f"if_unchanged names {strange}, and no statement of the transaction has it")
        if len(versions) > CONDITIONS_MAX:
            raise TransactionTooLarge(
                f"the transaction depends on {len(versions):,} subjects, and {CONDITIONS_MAX} are the most; divide it,"
                " or name in if_unchanged only the subjects that others change"
            )
        return versions

    def _piece(self, versions: dict[str, int]) -> Piece:
        order = [quad for wanted in (False, True) for quad, added in self._added.items() if added is wanted]
        named = any(graph != DEFAULT for *_, graph in order)
        numbers: dict[str, int] = {}
        rows = [[numbers.setdefault(text, len(numbers)) for text in quad[: 4 if named else 3]] for quad in order]
        columns = TermColumns(list(numbers), *np.array(rows, np.uint32).T)
        condition = None
        if versions:
            condition = Condition([versions.get(quad[0], 0) for quad in order], self._attempt, self._doubtful)
        return Piece(columns, deletions=sum(not added for added in self._added.values()), condition=condition)


def _checked(if_unchanged: int | Mapping[str, int] | None) -> int | dict[str, int] | None:
    """Return a condition with subjects as canonical terms.  Raises LocalProtocolError."""
    if if_unchanged is None:
        return None
    versions = {"": if_unchanged} if isinstance(if_unchanged, int) else {
        as_term(subject): version for subject, version in if_unchanged.items()
    }  # fmt: skip
    for version in versions.values():
        if isinstance(version, bool) or not 0 < version < ELEMENT:
            raise LocalProtocolError(f"if_unchanged={version} is no stamp; give the stamp of a query's result")
    return if_unchanged if isinstance(if_unchanged, int) else versions
