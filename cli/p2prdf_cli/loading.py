"""The loader for the documents of LOAD, from the hosts that an option permits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from p2prdf.client.update import Loader

__all__ = ["loader_of"]


def loader_of(hosts: Sequence[str], *, private: bool) -> Loader | None:
    """Return a loader for these hosts; None if there are none.  Raises TargetRefused for an invalid host."""
    if not hosts:
        return None
    from p2prdf.replica.hosts import Hosts
    from p2prdf.replica.loading import WebLoader

    return WebLoader(Hosts(hosts, private=private))
