"""The documents of LOAD, the endpoints of SERVICE and the contexts of JSON-LD, on the hosts that options permit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from p2prdf.client.services import Endpoints
    from p2prdf.client.update import Loader
    from p2prdf.rdf.remote_contexts import Contexts

__all__ = ["contexts_of", "endpoints_of", "loader_of"]


def loader_of(hosts: Sequence[str], *, private: bool, contexts: Contexts | None = None) -> Loader | None:
    """Return a loader for these hosts; None if there are none.  Raises TargetRefused for an invalid host."""
    if not hosts:
        return None
    from p2prdf.replica.hosts import Hosts
    from p2prdf.replica.loading import WebLoader

    return WebLoader(Hosts(hosts, private=private), contexts=contexts)


def endpoints_of(hosts: Sequence[str], *, private: bool) -> Endpoints | None:
    """Return a client of the endpoints on these hosts; None if there are none.

    Raises TargetRefused for an invalid host.
    """
    if not hosts:
        return None
    from p2prdf.replica.endpoints import WebEndpoints
    from p2prdf.replica.hosts import Hosts

    return WebEndpoints(Hosts(hosts, private=private))


def contexts_of(hosts: Sequence[str], *, private: bool) -> Contexts | None:
    """Return a client of the contexts on these hosts; None if there are none.

    Raises TargetRefused for an invalid host.
    """
    if not hosts:
        return None
    from p2prdf.replica.contexts import WebContexts
    from p2prdf.replica.hosts import Hosts

    return WebContexts(Hosts(hosts, private=private))
