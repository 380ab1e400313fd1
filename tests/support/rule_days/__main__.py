"""``python -m rule_days``: seeded fault schedules with rules, one after the other, and their results."""

from __future__ import annotations

import sys

from seeded_days import run_days

from rule_days.day import run_seed

if __name__ == "__main__":
    sys.exit(run_days("rule_days", __doc__, run_seed, calm="nobody fails; messages take their time all the same"))
