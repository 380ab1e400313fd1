"""Blocking transactions, publishers of streams, and exports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from p2prdf.client import Export as AsyncExport
from p2prdf.client import Stream as AsyncStream
from p2prdf.client import Transaction as AsyncTransaction
from p2prdf.sync.facade import Facade, at_once, blocking, direct, iterated

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Export", "Stream", "Transaction"]


class Transaction(Facade[AsyncTransaction]):
    """The changes of one transaction: ``with client.transaction() as transaction: transaction.publish(triples)``.

    The block commits at its end, unless an error is raised. One thread uses it.
    """

    publish = direct(AsyncTransaction.publish)
    retract = direct(AsyncTransaction.retract)
    commit = blocking(AsyncTransaction.commit)

    @property
    def stamp(self) -> int:
        """Stamp of all its changes, once they are acknowledged; 0 before, and without changes."""
        return self._behind.stamp

    def __len__(self) -> int:
        return len(self._behind)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()


class Stream(Facade[AsyncStream]):
    """A publisher of one stream: ``with client.stream(iri) as stream: stream.publish(triples)``."""

    publish = blocking(AsyncStream.publish)
    heartbeat = blocking(AsyncStream.heartbeat)
    close = blocking(AsyncStream.close)
    stop = at_once(AsyncStream.stop)

    @property
    def iri(self) -> str:
        """The stream, in N-Triples form."""
        return self._behind.iri

    @property
    def publisher(self) -> int:
        """Number of the publisher."""
        return self._behind.publisher

    @property
    def events(self) -> int:
        """Number of elements so far."""
        return self._behind.events

    @property
    def began(self) -> int | None:
        """The earliest event time, in milliseconds since 1970; None: there was none yet."""
        return self._behind.began

    @property
    def latest(self) -> int | None:
        """The latest acknowledged event time, in milliseconds since 1970; None: there is none."""
        return self._behind.latest

    @property
    def promised(self) -> int | None:
        """The event time up to which all elements are promised, in milliseconds since 1970; None: none yet."""
        return self._behind.promised

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.stop()


class Export(Facade[AsyncExport]):
    """An export that nodes keep: :meth:`pages` yields its lines, :meth:`end` has the nodes forget it."""

    pages = iterated(AsyncExport.pages)
    end = blocking(AsyncExport.end)

    @property
    def number(self) -> int:
        """Number of the export, the same at all nodes."""
        return self._behind.number

    @property
    def stamp(self) -> int:
        """Stamp of the exported state (:mod:`p2prdf.hlc`)."""
        return self._behind.stamp
