"""The file of rights, read again when it changes (:mod:`p2prdf_node.watched`); one without any section is bad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from p2prdf_node.rights_text import read_rights
from p2prdf_node.watched import WatchedFile

if TYPE_CHECKING:
    from pathlib import Path

    from p2prdf_node.rights import RightsTable

__all__ = ["RightsFile"]


class RightsFile(WatchedFile["RightsTable"]):
    """The rights in use.  Raises LocalProtocolError when it is made, if the file does not do."""

    def __init__(self, path: Path):
        super().__init__(path, read_rights, "rights_file")

    @property
    def table(self) -> RightsTable:
        """The rights."""
        return self.value

    def said(self) -> dict[str, Any]:
        """Return for how many clients there are rights."""
        return {"clients": len(self.value.clients)}
