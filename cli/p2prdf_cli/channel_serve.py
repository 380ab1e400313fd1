"""``p2prdf serve channels``: a worker that evaluates the registered channels of an overlay."""

from __future__ import annotations

from typing import Annotated

import typer

from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import ExitCode, run
from p2prdf_cli.options import PEER_DEFAULT, Json, Peer
from p2prdf_cli.registered import Alive, Metrics, Wait, event_reporter, monitored, sign_of_life

__all__ = ["channels"]


def channels(
    peer: Peer = PEER_DEFAULT,
    lease: Annotated[
        float, typer.Option(min=1.0, metavar="SECONDS", help="Time until other workers take over from a killed one.")
    ] = 8.0,
    settle: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="Longest delay of a skipped evaluation.")
    ] = 0.5,
    alive: Alive = None,
    metrics: Metrics = None,
    wait: Wait = False,
    as_json: Json = False,
) -> None:
    """Evaluate registered channels until stopped.

    Any number of workers may run; they share the knowledge bases and take over from
    a failed worker. They hold no state.

    \b
    Examples:
      p2prdf serve channels --peer node1:7400,node2:7400
      p2prdf serve channels --settle 0.1 --metrics 127.0.0.1:7482 --json
    """

    async def action() -> ExitCode:
        from p2prdf.channel_workers.worker import ChannelWorker, ChannelWorkerConfig
        from p2prdf.channel_workers.worker_metrics import exposition

        tell = event_reporter(as_json=as_json)
        worker = ChannelWorker(
            # A connection attempt to a silent address must end well before the lease.
            lambda reconnect_seconds: connect(
                peer, reconnect_seconds=reconnect_seconds, connect_seconds=min(5.0, lease / 4)
            ),
            ChannelWorkerConfig(lease_seconds=lease, check_seconds=min(2.0, lease / 4), settle_seconds=settle),
            tell=tell,
        )
        async with sign_of_life(alive), monitored(metrics, worker, lambda: exposition(worker), tell):
            await worker.run(wait=wait)
        return ExitCode.OK

    run(action())
