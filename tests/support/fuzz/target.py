"""The target of fuzzing: real nodes that hold data, and the state that must be unchanged afterwards.

Three nodes keep a copy of everything each, so each publication of a genuine client (:mod:`fuzz.watch`) is one
triple more at each of them, and everything else is compared as it is.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from chaos.cluster import Cluster, Node

import p2prdf
from fuzz.watch import Watch
from p2prdf.client import Client, Subscription
from p2prdf.wire.messages import Contact

__all__ = ["Report", "Target"]

NODES: Final = 3
KEPT: Final = 200
"""Number of triples published before the run."""
_QUERY: Final = "SELECT ?s ?o { ?s <urn:kept:p> ?o }"
_WATCHED: Final = "SELECT ?s { ?s <urn:watch:p> ?o }"
GROWTH_BYTES_MAX: Final = 32 << 20
"""Bound of growth of a node's memory since a tenth of the inputs, in bytes, besides the data it was given to keep."""
KEPT_BYTES: Final = {
    "triples": 840, "rows": 165, "plans": 10_000, "subscriptions_coordinated": 10_000, "solutions_held": 200,
    "redelivery_triples": 1300, "outbox": 1600,
}  # fmt: skip
"""Bytes for each item that a node was given to keep, by its counter.

Measured as the growth of a node's heap, or computed from that (docs/explanation/security.md).  A triple is
under seven indexes, at a node that keeps all; half of them have a new term in each of these runs.  A triple
removed and published again counts as another, for both are kept.  A plan has tables of its own, most of them
almost empty. Nodes believe a member that its publication is incomplete until it reports the end.
"""
PING_SECONDS_MAX: Final = 1.0
"""Bound in seconds of the 99th percentile of pings, under the full load of a sender on the same machine."""
_SAME: Final = (
    "triples", "elements", "queries", "rows", "groups", "plans", "subscriptions_coordinated", "solutions_held",
    "keys_split", "indexes", "members_max", "contacts",
)  # fmt: skip
_COUNTED: Final = ("terms", "queries", *KEPT_BYTES)
_TOLD: Final = re.compile(r"Traceback|(?<!link)_failed|AssertionError")
"""Texts that no log may have."""


class Report:
    """The printed lines of a run, and its errors."""

    def __init__(self, name: str):
        self.name = name
        self.wrong: list[str] = []

    def say(self, text: str) -> None:
        """Print a line."""
        print(f"{self.name}: {text}", flush=True)

    def check(self, fine: bool, text: str) -> None:
        """Record an error if a condition does not hold."""
        if not fine:
            self.wrong.append(f"{self.name}: {text}")
            print(f"{self.name}: WRONG: {text}", flush=True)


class Target:
    """Nodes with some content: an asynchronous context manager.

    ``proxied``: all messages between them pass through this process.  ``folder``: the folder of their disks.
    """

    def __init__(self, report: Report, *, proxied: bool = False, folder: Path | None = None, **settings: object):
        common = {"drain_seconds": 1, "hello_seconds": 5, "frame_seconds": 3, **settings}
        self.report = report
        self.cluster = Cluster(NODES, common, behind_proxy=proxied, folder=folder)
        self.subscription: Subscription
        self._client: Client
        self._before: list[dict[str, Any]] = []
        self._memory: list[int] = []
        self._warm: list[dict[str, Any]] = []

    @property
    def nodes(self) -> list[Node]:
        """The nodes."""
        return self.cluster.nodes

    async def __aenter__(self) -> Self:
        try:
            await self.cluster.start()
            self._client = await p2prdf.connect(self.nodes[0].address)
            await self._client.publish(
                [(f"<urn:kept:s{number}>", "<urn:kept:p>", f'"{number}"') for number in range(KEPT)]
            )
            self.subscription = await self._client.subscribe("SELECT ?s { ?s <urn:kept:live> ?o }")
        except BaseException:
            await self.cluster.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._client.close()
            if kind is None:
                for failure in await self.cluster.stop():
                    self.report.check(False, failure)
                self._check_logs()
        finally:
            await self.cluster.close()

    # --- looking ---------------------------------------------------------------------------------

    async def states(self) -> list[dict[str, Any]]:
        """Return the states of all nodes.  Raises AssertionError if one has none."""
        found = []
        for node in self.nodes:
            state = None
            for _ in range(20):
                if (state := await node.status()) is not None:
                    break
            assert state is not None, f"{node.name} does not answer: {node.tail()}"
            found.append(state)
        return found

    async def begin(self, *, publishing: bool = True) -> Watch:
        """Record the nodes' state, and have a genuine client begin to work."""
        await self.quiet()
        self._before = await self.states()
        return await Watch.start(self.nodes[0].address, self.report.name.replace(" ", "-") if publishing else "")

    async def quiet(self) -> None:
        """Wait until no message is in flight any more."""
        async with asyncio.timeout(60):
            while not all(state["peer"]["idle"] for state in await self.states()):
                await asyncio.sleep(0.05)

    @property
    def warmed(self) -> bool:
        """Whether :meth:`warm` was called."""
        return bool(self._memory)

    async def warm(self) -> None:
        """Record the memory that the nodes use by now."""
        self._memory = [0]  # callers need not in the meantime
        states = await self.states()
        self._memory, self._warm = [state["memory_bytes"] for state in states], [state["peer"] for state in states]

    async def finish(self, watch: Watch, *, same: bool, believed: bool = False) -> dict[str, Any]:
        """Report the state of the nodes; ``same``: only the genuine client's publications may be new.

        ``believed``: the input was a member's, so that the nodes' data may be anything by now.
        """
        seen = await watch.end()
        if not believed:
            await self.quiet()
        after = await self.states()
        report, published = self.report, int(seen["publication"]["count"])
        for what, waited in seen.items():
            report.say(
                f"a genuine client's {what}: {waited['count']}, p50 {1000 * waited['p50']:.1f} ms,"
                f" p99 {1000 * waited['p99']:.1f} ms, longest {1000 * waited['max']:.0f} ms"
            )
        report.check(seen["ping"]["p99"] < PING_SECONDS_MAX, f"pings took {seen['ping']['p99']:.2f} s")
        for node, before, state, warm, warm_peer in zip(
            self.nodes, self._before, after, self._memory, self._warm, strict=True
        ):
            grown = state["memory_bytes"] - warm
            report.say(
                f"{node.name}: resident {warm / 1e6:.1f} MB after a tenth, {state['memory_bytes'] / 1e6:.1f} MB at the"
                f" end ({grown / 1e6:+.1f}); longest turn {state['turn_seconds_max']:.3f} s"
            )
            more = {key: state["peer"][key] - warm_peer[key] for key in _COUNTED}
            report.say(f"{node.name}: more than after a tenth: {more}")
            kept = sum(each * max(0, more[key]) for key, each in KEPT_BYTES.items())
            report.say(f"{node.name}: {kept / 1e6:.1f} MB of these are of what it was given to keep")
            beside = f"{grown / 1e6:.0f} MB more, {kept / 1e6:.0f} MB of which it was given to keep"
            report.check(grown - kept < GROWTH_BYTES_MAX, f"{node.name} has {beside}")
            report.check(not any(state["failures"].values()), f"{node.name}: failures {state['failures']}")
            if same:
                expected = {**_noted(before), "triples": before["peer"]["triples"] + published}
                changed = {key: (was, _noted(state)[key]) for key, was in expected.items() if _noted(state)[key] != was}
                report.check(not changed, f"{node.name} changed: {changed}")
        if not believed:
            await self._check_content(published)
        return seen

    async def _check_content(self, published: int) -> None:
        """Check that all published triples are there, and the subscription is live."""
        async with asyncio.timeout(60), p2prdf.connect(self.nodes[1].address) as client:
            rows = set((await client.query(_QUERY)).rows)
            expected = {(f"<urn:kept:s{number}>", f'"{number}"') for number in range(KEPT)}
            self.report.check(rows == expected, f"{len(rows ^ expected)} of {KEPT} triples are not what they were")
            watched = len((await client.query(_WATCHED)).rows)
            self.report.check(watched == published, f"{watched} of {published} new triples are there")
            await client.publish([("<urn:kept:new>", "<urn:kept:live>", '"x"')])
            answer = await anext(self.subscription)
            self.report.check(answer["s"] == "<urn:kept:new>", f"the subscriber was told of {answer}")

    def _check_logs(self) -> None:
        for node in self.nodes:
            text = node.log.read_text("utf-8", "replace")
            lines = text.splitlines()
            found = [line for line in lines if _TOLD.search(line)]
            self.report.say(f"{node.name}: {len(lines)} lines of log")
            self.report.check(not found, f"{node.name} logged {len(found)} failures: {found[:2]}")

    @property
    def contacts(self) -> list[Contact]:
        """The nodes' contacts; available after :meth:`begin`."""
        found = []
        for state in self._before:
            host, _, port = state["address"].rpartition(":")
            found.append(Contact(int(state["key"], 16), host, int(port)))
        return found

    def known(self) -> list[int]:
        """Return numbers that mean something to the nodes."""
        return [self.subscription.id, *(int(state["key"], 16) for state in self._before)]


def _noted(state: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a state that bad input must not change."""
    noted = {key: state["peer"][key] for key in _SAME}
    noted["members"] = sorted(
        (member["key"], member["host"], member["port"], member["state"]) for member in state["discovery"]["members"]
    )
    noted["fenced"] = state["discovery"]["fenced"]
    return noted
