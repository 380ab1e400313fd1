"""Health of a node: the reasons why it does not work, for commands and for the probes of an orchestrator.

Over HTTP (setting ``health``) a check costs microseconds.  A probe that starts ``p2prdf status`` takes a third of a
second of a core, and fails on a busy machine although the node is well.

| Path | Answer 200 |
|---|---|
| ``/healthz`` | the event loop runs |
| ``/readyz`` | the node is a member of a cluster and does not stop |
| ``/startupz`` | it also is in sync, so that it may coordinate subscriptions |
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import structlog

from p2prdf.errors import LocalProtocolError
from p2prdf_node.addresses import split_address

if TYPE_CHECKING:
    from p2prdf_node.daemon import Daemon

__all__ = ["health_served", "out_of_sync", "unready"]

log = structlog.get_logger("node")


def unready(joining: str | None) -> str | None:
    """Return why a node is not ready, or None; ``joining``: the reason why it has joined no cluster yet."""
    return f"is not ready: {joining}" if joining else None


def out_of_sync(joining: str | None, fenced: str | None, *, settled: bool, in_sync: bool) -> str | None:
    """Return why a node does not do all of its work yet, or None."""
    if reason := unready(joining):
        return reason
    if fenced:
        return f"is fenced: {fenced}"
    if not settled:
        return "does not know its overlay yet"
    if not in_sync:
        return "compares its data with other nodes before it coordinates subscriptions"
    return None


@contextlib.asynccontextmanager
async def health_served(daemon: Daemon) -> AsyncIterator[None]:
    """Serve the checks of a node, if its setting ``health`` names an address.

    Raises LocalProtocolError if the address cannot be bound.
    """
    if not daemon.config.health:
        yield
        return
    from p2prdf.monitoring.serving import checked_at  # the HTTP server takes a while to load

    def ready() -> str | None:
        return "the node stops" if daemon.stopping else unready(daemon.membership.joining)

    def started() -> str | None:
        peer = daemon.driver.peer
        return ready() or out_of_sync(None, daemon.membership.fenced, settled=peer.settled, in_sync=peer.in_sync)

    checks = {"/healthz": lambda: None, "/readyz": ready, "/startupz": started}
    async with contextlib.AsyncExitStack() as stack:
        try:
            url = await stack.enter_async_context(checked_at(split_address(daemon.config.health), checks))
        except OSError as error:
            raise LocalProtocolError(f"setting health: {daemon.config.health!r}: {error.strerror}") from error
        log.info("health_served", url=url)
        yield
