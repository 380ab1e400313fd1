"""``python -m late_names_node ...``: a node with bootstrap names that resolve to loopback once a file exists.

The file's path stands in the environment variable ``LATE_NAMES_FILE``.  The node does all else as nodes do.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from p2prdf_node import seeds
from p2prdf_node.__main__ import main

__all__: list[str] = []


async def _look_up(host: str, port: int, _family: int) -> list[tuple[str, int]]:
    if not Path(os.environ["LATE_NAMES_FILE"]).exists():
        raise socket.gaierror(socket.EAI_NONAME, f"{host}: Name or service not known")
    return [("127.0.0.1", port)]


if __name__ == "__main__":
    seeds.look_up = _look_up
    sys.exit(main())
