"""Server of the Model Context Protocol (MCP): tools by which language models use an overlay.

:mod:`p2prdf.mcp.server` defines the tools with the protocol's Python SDK (extra ``mcp``), :mod:`p2prdf.mcp.tools`
carries them out as a client of nodes, and :mod:`p2prdf.mcp.watches` keeps durable subscriptions.
"""

from __future__ import annotations

__all__: list[str] = []
