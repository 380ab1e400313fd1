"""The permissions file, reloaded when it changes (:mod:`p2prdf_node.watched`); a file without sections is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from p2prdf_node.rights_text import read_rights
from p2prdf_node.watched import WatchedFile

if TYPE_CHECKING:
    from pathlib import Path

    from p2prdf_node.rights import RightsTable

__all__ = ["RightsFile"]


class RightsFile(WatchedFile["RightsTable"]):
    """The permissions in use.  The constructor raises LocalProtocolError for a bad file."""

    def __init__(self, path: Path):
        super().__init__(path, read_rights, "rights_file")

    @property
    def table(self) -> RightsTable:
        """The permissions in use."""
        return self.value

    def said(self) -> dict[str, Any]:
        """Return the number of clients with permissions of their own."""
        return {"clients": len(self.value.clients)}
