"""The permissions file, reloaded when it changes (:mod:`p2prdf_node.watched`).

A file without sections is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from p2prdf_node.permissions_text import read_permissions
from p2prdf_node.watched import WatchedFile

if TYPE_CHECKING:
    from pathlib import Path

    from p2prdf_node.permissions import PermissionsTable

__all__ = ["PermissionsFile"]


class PermissionsFile(WatchedFile["PermissionsTable"]):
    """The permissions in use.  The constructor raises LocalProtocolError for a bad file."""

    def __init__(self, path: Path):
        super().__init__(path, read_permissions, "permissions_file")

    @property
    def table(self) -> PermissionsTable:
        """The permissions in use."""
        return self.value

    def facts(self) -> dict[str, Any]:
        """Return the number of clients with permissions of their own."""
        return {"clients": len(self.value.clients)}
