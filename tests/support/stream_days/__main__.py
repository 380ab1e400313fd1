"""``python -m stream_days``: seeded days of streams and failures, one after the other, and what came of them."""

from __future__ import annotations

import sys

from seeded_days import run_days

from stream_days.day import run_seed

if __name__ == "__main__":
    sys.exit(run_days("stream_days", __doc__, run_seed))
