"""``p2prdf serve interests``: a sync worker for the registered interests of an overlay."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import ExitCode, run
from p2prdf_cli.options import PEER_DEFAULT, Json, Peer
from p2prdf_cli.registered import Alive, Metrics, Wait, event_reporter, monitored, sign_of_life
from p2prdf_cli.replica_target import HOSTS_VARIABLE

if TYPE_CHECKING:
    from p2prdf.interest.registration import Registration
    from p2prdf.replica.credentials import CredentialsByHost
    from p2prdf.replica.hosts import Hosts
    from p2prdf.replica.target import Target

__all__ = ["interests"]


def interests(
    peer: Peer = PEER_DEFAULT,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="HOST[:PORT]",
            help=f"Permitted hosts of targets; repeatable. (default: {HOSTS_VARIABLE}, else none)",
        ),
    ] = None,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Permit private and loopback addresses.")
    ] = False,
    auth_file: Annotated[
        Path | None,
        typer.Option(
            "--auth-file",
            metavar="FILE",
            help="File with lines of HOST[:PORT] and 'basic USER:PASSWORD' or 'bearer TOKEN'.",
        ),
    ] = None,
    update_triples: Annotated[int, typer.Option(min=1, metavar="N", help="Largest update, in triples.")] = 5000,
    lease: Annotated[
        float, typer.Option(min=1.0, metavar="SECONDS", help="Time until other workers take over from a killed one.")
    ] = 8.0,
    potential_max: Annotated[
        list[str] | None,
        typer.Option(
            "--potential-max",
            metavar="[IRI=]N",
            help="Most potentially interesting triples kept per dataset; targets may be incomplete.",
        ),
    ] = None,
    alive: Alive = None,
    metrics: Metrics = None,
    wait: Wait = False,
    as_json: Json = False,
) -> None:
    """Keep the targets of registered interests up to date, until stopped.

    Any number of workers may run; they share the datasets and take over from a
    failed worker. They hold no state and connect to permitted hosts only.

    \b
    Examples:
      p2prdf serve interests --peer node1:7400,node2:7400 --allow-host db1.example.org:3030
      p2prdf serve interests --allow-host localhost --allow-private --auth-file targets.auth
      p2prdf serve interests --allow-host localhost --allow-private --metrics 127.0.0.1:7481
      p2prdf serve interests --allow-host db1.example.org --potential-max http://dbpedia.org=1000000
    """

    async def action() -> ExitCode:
        from p2prdf.replica.credentials import read_credentials
        from p2prdf.replica.hosts import Hosts
        from p2prdf.replica.worker import InterestWorker, InterestWorkerConfig
        from p2prdf.replica.worker_metrics import exposition

        tell = event_reporter(as_json=as_json)
        hosts = Hosts(allow_host or os.environ.get(HOSTS_VARIABLE, "").split(), private=allow_private)
        if not hosts.entries:
            print("p2prdf: no host is allowed, so no target is touched: --allow-host", file=sys.stderr)
        worker = InterestWorker(
            # A connection attempt to a silent address must end well before the lease.
            lambda reconnect_seconds: connect(
                peer, reconnect_seconds=reconnect_seconds, connect_seconds=min(5.0, lease / 4)
            ),
            _opener(hosts, read_credentials(auth_file), update_triples),
            InterestWorkerConfig(
                tuple(hosts.entries),
                lease_seconds=lease,
                check_seconds=min(2.0, lease / 4),
                potential_max=_bounds(potential_max or []),
            ),
            tell=tell,
        )
        async with sign_of_life(alive), monitored(metrics, worker, lambda: exposition(worker), tell):
            await worker.run(wait=wait)
        return ExitCode.OK

    run(action())


def _bounds(given: list[str]) -> dict[str | None, int]:
    """Return bounds by dataset, None for all others.  Raises LocalProtocolError for a malformed bound."""
    from p2prdf.errors import LocalProtocolError
    from p2prdf.rdf import terms

    found: dict[str | None, int] = {}
    for each in given:
        dataset, _, number = each.rpartition("=")
        if not (number.isascii() and number.isdigit() and len(number) <= 12):
            raise LocalProtocolError(f"--potential-max {each}: it ends in no number of triples")
        of = terms.iri(dataset) if dataset else None
        if of in found:
            raise LocalProtocolError(f"--potential-max {each}: there is a bound for that already")
        found[of] = int(number)
    return found


def _opener(hosts: Hosts, credentials: CredentialsByHost, update_triples: int) -> Callable[[Registration], Target]:
    """Return a function that opens the target of an interest, if it is permitted."""
    from p2prdf.errors import TargetRefused
    from p2prdf.replica.endpoint import Endpoint, EndpointConfig

    def opened(registration: Registration) -> Target:
        found = credentials.of(registration.target)
        if credentials.of(registration.query_url) is not found:
            raise TargetRefused(
                f"{registration.query_url}: its host has other credentials than that of {registration.target}"
            )
        config = EndpointConfig(
            registration.target, registration.query_url, registration.graph, triples_max=update_triples, attempts=2,
            timeout_seconds=30.0,
        )  # fmt: skip
        return Endpoint(config, dataset=registration.dataset, hosts=hosts, credentials=found)

    return opened
