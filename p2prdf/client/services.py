"""SERVICE in one-time queries and updates: the client asks other endpoints, and VALUES take the place of the calls.

The client asks, rather than a node: the permission to contact other hosts is that of its operator, and nodes contact
nobody. For each call, in the order of the text, the client asks the overlay for the values of the variables that the
call shares with the patterns beside it, asks the endpoint for the solutions with these values, a batch at a time, and
puts them into the query (:mod:`p2prdf.rdf.federation`). The last query is answered like any other.

Each of the overlay's results counts all publications acknowledged before the call; an endpoint counts its data at the
times of the requests.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from p2prdf.client.describing import answer
from p2prdf.client.query import answer_once
from p2prdf.errors import DataRefused, LocalProtocolError, P2PRDFError, QueryRefused, TargetRefused, Unavailable

if TYPE_CHECKING:
    from p2prdf.client.client import Client
    from p2prdf.client.query import Result
    from p2prdf.rdf.federation import ServiceCall

__all__ = ["NO_ENDPOINTS", "Endpoints", "ServiceBounds", "answer_with_services", "check_services", "with_solutions"]

_Row: TypeAlias = tuple[str | None, ...]

_BATCH_CHARACTERS_MAX: Final = 64 << 10
"""Most characters of the values in one request, unless a single row has more: servers bound requests."""
_REMEDY: Final = "use SERVICE SILENT if the query can do without the endpoint"


@dataclass(frozen=True, slots=True)
class ServiceBounds:
    """Bounds of each SERVICE: solutions, values sent to the endpoint, and values of one request.

    With more values, the endpoint is asked for all its solutions instead.
    """

    solutions_max: int = 10_000
    values_max: int = 10_000
    batch_max: int = 100

    def validate(self) -> None:
        """Raise LocalProtocolError for a bound that is not positive."""
        if min(self.solutions_max, self.values_max, self.batch_max) < 1:
            raise LocalProtocolError("solutions_max, values_max and batch_max must be positive")


class Endpoints(Protocol):
    """Asks the endpoints of SERVICE, as :class:`p2prdf.replica.endpoints.WebEndpoints` does."""

    def check(self, url: str) -> None:
        """Raise P2PRDFError for an endpoint that may not be asked."""
        ...

    async def ask(self, url: str, query: str, *, scope: str, rows_max: int) -> tuple[Sequence[str], Sequence[_Row]]:
        """Return names and rows of a SELECT query.  Raises P2PRDFError; the caller sets the deadline."""
        ...


class _NoEndpoints:
    """Permits no endpoint: SERVICE is refused, SERVICE SILENT has no effect."""

    def check(self, url: str) -> None:
        """Raise TargetRefused."""
        raise TargetRefused(f"no host is permitted, so {url} is not asked")

    async def ask(  # the arguments are those of the protocol
        self, url: str, query: str, *, scope: str, rows_max: int  # noqa: ARG002
    ) -> tuple[Sequence[str], Sequence[_Row]]:
        """Raise TargetRefused."""
        raise TargetRefused(f"no host is permitted, so {url} is not asked")


NO_ENDPOINTS: Final[Endpoints] = _NoEndpoints()
"""Stands for the endpoints if none are permitted."""


async def answer_with_services(
    client: Client, query: str, endpoints: Endpoints, bounds: ServiceBounds | None, *, algorithm: str,
    timeout_seconds: float, symmetric: bool = False,
) -> Result:  # fmt: skip
    """Answer a query that may call other endpoints; see :meth:`p2prdf.client.Client.query`."""
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    replaced = await with_solutions(
        client, query, endpoints, bounds, algorithm=algorithm, timeout_seconds=timeout_seconds
    )
    left = max(0.0, deadline - asyncio.get_running_loop().time())
    try:
        return await answer(
            client, replaced, algorithm=algorithm, timeout_seconds=left, of_seconds=timeout_seconds,
            symmetric=symmetric,
        )  # fmt: skip
    except QueryRefused as error:
        if replaced == query:
            raise
        raise QueryRefused(error.reason, construct=error.construct) from None  # its position is in another text


async def with_solutions(
    client: Client, query: str, endpoints: Endpoints, bounds: ServiceBounds | None, *, algorithm: str,
    timeout_seconds: float, of_seconds: float | None = None,
) -> str:  # fmt: skip
    """Return a query with the solutions of other endpoints instead of its calls.

    ``of_seconds``: the timeout of which ``timeout_seconds`` are left, as errors name it.

    Everything that can be refused is checked before the first request.  Raises Unavailable after the timeout.
    """
    of_seconds = of_seconds or timeout_seconds
    bounds = bounds or ServiceBounds()
    bounds.validate()
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    try:
        async with asyncio.timeout(timeout_seconds):
            return await _Execution(client, endpoints, bounds, algorithm, deadline, of_seconds).replaced(query)
    except TimeoutError:
        raise Unavailable(f"the endpoints of SERVICE did not answer within {of_seconds:g} s") from None


class _Execution:
    """Replaces the calls of one query; ``deadline``: on the clock of the loop; ``of_seconds``: for errors."""

    def __init__(
        self, client: Client, endpoints: Endpoints, bounds: ServiceBounds, algorithm: str, deadline: float,
        of_seconds: float,
    ):  # fmt: skip
        self._of_seconds = of_seconds
        self._client = client
        self._endpoints = endpoints
        self._bounds = bounds
        self._algorithm = algorithm
        self._deadline = deadline

    @property
    def left(self) -> float:
        """The time until the deadline, in seconds."""
        return max(0.0, self._deadline - asyncio.get_running_loop().time())

    async def replaced(self, text: str) -> str:
        """Return a query with the solutions of other endpoints instead of its calls."""
        from p2prdf.rdf.federation import first_service  # imported late: the parser is slow to load
        from p2prdf.rdf.tokens import QUERY_BYTES_MAX

        await asyncio.to_thread(check_services, text, self._endpoints)
        bytes_max = max(QUERY_BYTES_MAX, len(text.encode()))  # a text with rules may be longer
        while (call := await asyncio.to_thread(first_service, text)) is not None:
            text = await self._without(call)
            if (size := len(text.encode())) > bytes_max:
                reason = f"with its solutions the query has {size:,} bytes, more than {bytes_max:,}; ask for fewer"
                raise call.refusal(reason)
        return text

    async def _without(self, call: ServiceCall) -> str:
        """Return the query with the solutions of a call instead of it."""
        try:
            self._endpoints.check(call.endpoint)
        except P2PRDFError as error:
            return _failed(call, error)
        values = await self._values(call)
        try:
            return call.replaced(*await self._solutions(call, values))
        except P2PRDFError as error:
            return _failed(call, error)

    async def _values(self, call: ServiceCall) -> list[_Row] | None:
        """Return the values of variables that a call shares with the patterns beside it.

        None if there are no such patterns, if the overlay cannot evaluate them alone, or if there are too many values.
        """
        if call.bindings is None:
            return None
        try:
            result = await answer_once(
                self._client, call.bindings, algorithm=self._algorithm, timeout_seconds=self.left,
                of_seconds=self._of_seconds, rows_max=self._bounds.values_max + 1,
            )  # fmt: skip
        except QueryRefused:
            return None
        found = result.rows
        is_open = any(all(term is None for term in row) for row in found)
        return None if is_open or len(found) > self._bounds.values_max else found

    async def _solutions(
        self, call: ServiceCall, values: Sequence[_Row] | None
    ) -> tuple[Sequence[str], Sequence[_Row]]:
        """Return the solutions of a call that can be joined with some values."""
        scope = f"service.{secrets.token_hex(8)}"
        most = self._bounds.solutions_max
        if values is None:
            return await self._endpoints.ask(call.endpoint, call.query(), scope=scope, rows_max=most)
        names: Sequence[str] = call.names
        rows: list[_Row] = []
        for number, batch in enumerate(_batches(values, self._bounds.batch_max)):
            found_names, found = await self._endpoints.ask(
                call.endpoint, call.query(batch), scope=scope, rows_max=most
            )
            if not number:
                names = found_names
            if set(found_names) != set(names):
                raise DataRefused("two results of one query have different columns", source=call.endpoint)
            if len(rows) + len(found) > most:
                raise DataRefused(f"more than {most:,} solutions", source=call.endpoint)
            places = [found_names.index(name) for name in names]
            rows += (tuple(row[at] for at in places) for row in found)
        return names, rows


def _batches(values: Sequence[_Row], rows_max: int) -> Iterator[list[_Row]]:
    """Yield the values of one request after the other: so many rows, or fewer if their terms are long."""
    batch: list[_Row] = []
    size = 0
    for row in values:
        length = sum(len(term) for term in row if term is not None)
        if batch and (len(batch) == rows_max or size + length > _BATCH_CHARACTERS_MAX):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += length
    if batch:
        yield batch


def check_services(text: str, endpoints: Endpoints) -> None:
    """Raise QueryRefused for a query that is malformed beside its calls, and for a call that is not permitted."""
    from p2prdf.rdf.federation import first_service, without_services
    from p2prdf.reasoning.ruled_query import result_form

    result_form(without_services(text))
    while (call := first_service(text)) is not None:
        if not call.silent:
            try:
                endpoints.check(call.endpoint)
            except P2PRDFError as error:
                raise call.refusal(f"{error}; permit its host (--service-from)") from None
        text = call.left_out()


def _failed(call: ServiceCall, error: P2PRDFError) -> str:
    """Return the query without a failed SERVICE SILENT; raise the error of another call."""
    if not call.silent:
        raise _located(call, error) from None
    return call.left_out()


def _located(call: ServiceCall, error: P2PRDFError) -> P2PRDFError:
    """Return an error that names the endpoint and the remedy."""
    if isinstance(error, Unavailable):
        return Unavailable(f"SERVICE {error}; {_REMEDY}")
    reason = error.reason if isinstance(error, DataRefused) else str(error)
    return call.refusal(f"{reason}; {_REMEDY}")
