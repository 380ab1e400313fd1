"""Measurements that any process can report."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["memory_bytes"]


def memory_bytes() -> int:
    """Return the resident memory of this process in bytes; 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0
