"""``python -m sybil_node ...``: a node with a genuine certificate that claims another ring position.

The position is that of the setting ``zone``, in hex.  All its datagrams and hellos name this position;
otherwise it behaves as nodes do.
"""

from __future__ import annotations

import sys

from p2prdf_node import tls
from p2prdf_node.__main__ import main

__all__: list[str] = []

if __name__ == "__main__":
    place = int(sys.argv[sys.argv.index("--zone") + 1], 16)
    tls.NodeTls.key = property(lambda _: place)  # type: ignore[method-assign, assignment]
    sys.exit(main())
