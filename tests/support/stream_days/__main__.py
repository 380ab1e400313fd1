"""``python -m stream_days``: seeded fault schedules with streams, one after the other, and their results."""

from __future__ import annotations

import sys

from seeded_days import run_days

from stream_days.day import run_seed

if __name__ == "__main__":
    sys.exit(run_days("stream_days", __doc__, run_seed))
