"""``python -m fuzz``: bad input by the million for real nodes and a real gateway; returns 1 if anything was wrong."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from random import Random
from typing import Final

from fuzz import datagrams, frames, web
from fuzz.target import Report

KINDS: Final = {"datagrams": datagrams.run, "frames": frames.run, "requests": web.run}


def main() -> int:
    """Run the kinds named on the command line."""
    parser = argparse.ArgumentParser("fuzz", description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], help="all by default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--datagrams", type=int, default=1_000_000)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=100_000)
    options = parser.parse_args()
    wrong = []
    for kind in options.kinds or KINDS:
        report, began = Report(kind), time.monotonic()
        asyncio.run(KINDS[kind](getattr(options, kind), Random(f"{options.seed} {kind}"), report))
        report.say(f"done after {time.monotonic() - began:.0f} s, {len(report.wrong)} wrong (seed {options.seed})")
        wrong += report.wrong
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
