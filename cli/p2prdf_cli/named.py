"""``p2prdf subscribe --name``: a durable subscription, which survives any end of the command.

:mod:`p2prdf_cli.subscribe_state` describes its state and the order of the writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from p2prdf.errors import LocalProtocolError, P2PRDFError, SubscriptionGone
from p2prdf_cli.subscribe_state import NOW, NamedState, OutputFile, Record, Wish

if TYPE_CHECKING:
    from typing import TextIO

    from p2prdf.client import Client, Subscription
    from p2prdf_cli.render import SolutionWriter
    from p2prdf_cli.subscribe import Wanted

__all__ = ["LEASE_SECONDS", "Named", "end_named"]

LEASE_SECONDS: Final = 86_400.0
"""Lease of a named subscription without a subscriber: a day, the default maximum of nodes."""
COMMIT_ANSWERS_MAX: Final = 4096
"""Most solutions between two saves; a save also happens whenever no solution waits."""
GOODBYE_SECONDS: Final = 3.0

MakeWriter = Callable[[Sequence[str], "TextIO | None", bool], "SolutionWriter"]
"""Makes a writer from the names, the stream (None: standard output), and whether a header is needed."""


class Named:
    """One run of the command for a name with a locked state.

    Raises LocalProtocolError if the options differ from those of the name, or if its output was changed.
    """

    def __init__(self, state: NamedState, options: Wanted, query: str | None):
        """``query``: the query with its prefixes and rules; None to continue that of the name."""
        self._query = query
        self._state = state
        self._options = options
        self._record = self._read()
        self.wish = self._wish()
        if self._record is not None and not options.renew:
            difference = self._record.wish.difference(state.name, self.wish)
            if difference is not None:
                raise LocalProtocolError(f"{difference}; choose another name, or start again with --renew")
        self._output = None if self.wish.output is None else OutputFile(self.wish.output)
        if self._output is not None and self._record is not None and not options.renew:
            try:
                self._output.check(self._record.length)
            except BaseException:
                self._output.close()
                raise

    def close(self) -> None:
        """Close the output; the next run cuts its unsaved part."""
        if self._output is not None:
            self._output.close()

    async def run(self, client: Client, make_writer: MakeWriter, began: Callable[[Subscription], None]) -> None:
        """Write ``count`` solutions, or without a bound; ``began`` is called before the first one.

        Raises SubscriptionGone, and every other error that ends the subscription.
        """
        try:
            subscription = await self._begin(client)
            stream = None if self._output is None else self._output.stream
            header = self._output is None or self._output.length == 0
            writer = make_writer(subscription.names, stream, header)
            self._commit(subscription)
            began(subscription)
            await self._write(subscription, writer)
        except SubscriptionGone as error:
            raise SubscriptionGone(
                f"{self._state.name}: {error}; missed solutions are lost; --renew starts again"
            ) from None

    def _read(self) -> Record | None:
        try:
            return self._state.read()
        except LocalProtocolError:
            if self._options.renew and self._query is not None:
                return None
            raise

    def _wish(self) -> Wish:
        options, record = self._options, self._record
        output = None if options.output is None else options.output.absolute()
        if self._query is not None:
            since = NOW if options.start is None else options.start
            return Wish(self._query, options.algorithm.value, options.per_event, output, options.as_json, since)
        if record is None:
            raise LocalProtocolError(f"there is no subscription {self._state.name} yet: give it a query")
        was = record.wish
        since = was.since if options.start is None else options.start
        return replace(was, output=output or was.output, as_json=options.as_json or was.as_json, since=since)

    async def _begin(self, client: Client) -> Subscription:
        record, output = self._record, self._output
        if record is not None and not self._options.renew:
            subscription = await client.attach(
                record.token, query=self.wish.query, algorithm=self.wish.algorithm, per_event=self.wish.per_event,
                auto_acknowledge=False,
            )  # fmt: skip
            if output is not None:
                output.cut(record.length)
            return subscription
        if record is not None:
            await _unsubscribe(client, record)
            if output is not None and record.wish.output == output.path:
                output.cut_torn(record.length)
        since = None if self.wish.since == NOW and self._options.start is None else self.wish.since
        return await client.subscribe(
            self.wish.query, algorithm=self.wish.algorithm, per_event=self.wish.per_event,
            lease_seconds=self._options.lease or LEASE_SECONDS, auto_acknowledge=False, since=since,
            settled=self._options.delivery,
        )  # fmt: skip

    async def _write(self, subscription: Subscription, writer: SolutionWriter) -> None:
        from p2prdf_cli.render import remark

        left, unsaved = self._options.count, 0
        async for solution in subscription:
            if solution.lost:
                remark(f"{solution.lost:,} solutions before number {solution.sequence:,} were dropped: output too slow")
            if solution.gap is not None:
                writer.gap(solution.gap)
            writer.solution(solution)
            unsaved += 1
            left = None if left is None else left - 1
            if left == 0 or unsaved >= COMMIT_ANSWERS_MAX or not subscription.waiting:
                self._commit(subscription)
                unsaved = 0
            if left == 0:
                return

    def _commit(self, subscription: Subscription) -> None:
        """Save the output and the resume token durably, and only then acknowledge."""
        if self._output is None:
            sys.stdout.flush()
        length = 0 if self._output is None else self._output.sync()
        self._state.save(Record(self.wish, subscription.id, subscription.token(), length))
        subscription.acknowledge()


async def end_named(client: Client, state: NamedState) -> None:
    """End a named subscription and forget its name; its output stays.  Raises LocalProtocolError for an unknown
    name."""
    record = state.read()
    if record is None:
        raise LocalProtocolError(f"there is no subscription {state.name}")
    await client.unsubscribe(record.subscription)
    state.forget()


async def _unsubscribe(client: Client, record: Record) -> None:
    """End the former subscription of the name, if that succeeds within GOODBYE_SECONDS; else its lease ends it."""
    with contextlib.suppress(P2PRDFError, TimeoutError):
        async with asyncio.timeout(GOODBYE_SECONDS):
            await client.unsubscribe(record.subscription)
