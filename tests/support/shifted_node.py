"""A node with a wrong wall clock: the environment variable CLOCK_AHEAD_SECONDS is the difference in seconds."""

import os
import sys
import time

_AHEAD = float(os.environ["CLOCK_AHEAD_SECONDS"])
_right = time.time
time.time = lambda: _right() + _AHEAD

if __name__ == "__main__":
    from p2prdf_node.__main__ import main

    sys.exit(main())
