"""What tells a file from the one that was there before, so that it is read again only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["mark_of"]


def mark_of(path: Path) -> object:
    """Return something that is equal as long as a file is the same, or as long as it cannot be found.  Blocking."""
    try:
        found = path.stat()
    except OSError as error:
        return error.errno
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev
