"""All benchmarks, as one command: ``make bench`` (or ``make bench ARGS='matching hops'``).

Times are CPU seconds unless they say otherwise, and machines are noisy: each table says how long
its stream is, counts (rows, messages, hops) come beside times, and the calibration line tells
how fast this machine was just now.  ``--quick`` takes smaller sizes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import channels
import comparing
import daemons
import durability
import full_text
import hops
import maintenance
import matching
import publishing
import reexecution
import rights
import rules
import skew
import small
import storage
import tls
import tracing
import windows
import words
from rich.console import Console

SECTIONS: dict[str, Callable[[Console, bool], bool]] = {
    "matching": matching.run,
    "full_text": full_text.run,
    "reexecution": reexecution.run,
    "maintenance": maintenance.run,
    "rules": rules.run,
    "hops": hops.run,
    "skew": skew.run,
    "storage": storage.run,
    "comparing": comparing.run,
    "daemons": daemons.run,
    "durability": durability.run,
    "small": small.run,
    "publishing": publishing.run,
    "tls": tls.run,
    "rights": rights.run,
    "tracing": tracing.run,
    "windows": windows.run,
    "words": words.run,
    "channels": channels.run,
}


def main() -> int:
    """Run the sections asked for; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="default: all")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, for a first look")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 100)
    good = True
    for name in arguments.sections or SECTIONS:
        console.rule(name)
        good &= SECTIONS[name](console, arguments.quick)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
