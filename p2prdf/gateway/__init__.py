"""HTTP in front of an overlay: SPARQL 1.1 Protocol, publication, subscriptions over WebSocket and server-sent events.

A gateway is a client of nodes in a process of its own, so whoever sends it something large or slow keeps no node
waiting.  It has no state: any number may run, one beside each node say, and whoever loses one goes on at another.
"""

from __future__ import annotations

from p2prdf.gateway.app import GatewayConfig, application
from p2prdf.gateway.serving import serve

__all__ = ["GatewayConfig", "application", "serve"]
