"""HTTP gateway to an overlay: SPARQL 1.1 Protocol, publication, WebSocket and SSE subscriptions.

A gateway is a client of nodes in a process of its own, so large or slow requests never make a node wait.  It is
stateless: any number of gateways may run, for example one beside each node, and clients of a failed gateway continue
at another.
"""

from __future__ import annotations

from p2prdf.gateway.app import GatewayConfig, application
from p2prdf.gateway.serving import serve

__all__ = ["GatewayConfig", "application", "serve"]
