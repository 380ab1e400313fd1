"""``python -m sybil_node ...``: a node with a genuine certificate that says it lives at another place.

The place is that of the setting ``zone``, in hex.  Whatever it says to others, in datagrams and in hellos, is of this
place; it does all else as nodes do.
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
