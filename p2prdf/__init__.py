"""p2prdf: publish RDF and leave standing SPARQL queries in a leaderless overlay of equal peers.

As a client of a running node::

    async with p2prdf.connect("127.0.0.1:7400") as client:
        subscription = await client.subscribe("SELECT ?s ?o WHERE { ?s <urn:goals> ?o }")
        await client.publish([("<urn:a>", "<urn:goals>", 3)])
        async for solution in subscription:
            print(solution["s"], solution.value("o"))

As the driver of a peer, see :mod:`p2prdf.wire.contract` and :mod:`p2prdf.peer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from p2prdf.errors import (
    Busy,
    DataRefused,
    LateElement,
    LocalProtocolError,
    NodeLeaving,
    NotAllowed,
    P2PRDFError,
    QueryRefused,
    RemoteProtocolError,
    SubscriptionGone,
    TlsRefused,
    TokenMismatch,
    TokenRefused,
    Unavailable,
)

if TYPE_CHECKING:
    from p2prdf.client import connect
    from p2prdf.tls import Tls

__all__ = [
    "Busy", "DataRefused", "LateElement", "LocalProtocolError", "NodeLeaving", "NotAllowed",
    "P2PRDFError",
    "QueryRefused", "RemoteProtocolError", "SubscriptionGone", "Tls", "TlsRefused", "TokenMismatch",
    "TokenRefused", "Unavailable",
    "connect",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # The client brings asyncio along, and TLS ssl; the core, a simulation or a Spark executor do without.
    if name == "connect":
        from p2prdf.client import connect

        return connect
    if name == "Tls":
        from p2prdf.tls import Tls

        return Tls
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"Any", "TYPE_CHECKING", "annotations"})
