"""All benchmarks, as one command: ``make bench`` (or ``make bench ARGS='matching hops'``).

Times are CPU seconds unless they say otherwise, and machines are noisy: each table says how long
its stream is, counts (rows, messages, hops) come beside times, and the calibration line tells
how fast this machine was just now.  ``--quick`` takes smaller sizes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NamedTuple

import channels
import comparing
import daemons
import durability
import ended
import full_text
import hops
import latency
import maintenance
import matching
import outside
import permissions
import publishing
import reexecution
import replacement
import rules
import settled
import skew
import small
import storage
import tls
import tracing
import windows
import words
from rich.console import Console


class Section(NamedTuple):
    """A section and the configuration that it measures."""

    run: Callable[[Console, bool], bool]
    configuration: str
    """Processes, copies, durability and indexes, in this order."""


DEFAULT = "five daemons with the defaults: three copies, two acknowledged; fsync; every index"
ONE_PEER = "one peer without sockets; one copy; memory; "

SECTIONS: dict[str, Section] = {
    "daemons": Section(daemons.run, f"{DEFAULT}, beside `on-demand`"),
    "latency": Section(latency.run, DEFAULT),
    "settled": Section(settled.run, DEFAULT),
    "publishing": Section(publishing.run, DEFAULT),
    "small": Section(small.run, "five daemons; one copy or three; memory or fsync, as each row says; every index"),
    "outside": Section(outside.run, "each system as its line below says"),
    "replacement": Section(
        replacement.run, "three daemons with the defaults: three copies, two acknowledged; fsync; every index"
    ),
    "durability": Section(
        durability.run, "five daemons; one copy or three; memory or fsync, as each row says; every index"
    ),
    "ended": Section(ended.run, DEFAULT),
    "tls": Section(tls.run, f"{DEFAULT}; with certificates and without"),
    "channels": Section(channels.run, "five daemons; three copies, two acknowledged; memory; every index"),
    "permissions": Section(permissions.run, "one daemon; one copy; memory; every index"),
    "storage": Section(storage.run, "one daemon; one copy; memory, async or fsync, as each row says; every index"),
    "windows": Section(windows.run, "seven simulated peers; three copies; records kept; every index"),
    "rules": Section(rules.run, "sixteen simulated peers; three copies; memory; every index"),
    "tracing": Section(tracing.run, "three simulated peers; one copy; memory; every index"),
    "words": Section(words.run, "simulated peers; one copy; memory; indexes on demand"),
    "hops": Section(hops.run, "200 simulated peers; one copy; memory; every index, as in the paper"),
    "skew": Section(skew.run, "64 and 200 simulated peers; one copy; memory; indexes on demand"),
    "matching": Section(matching.run, f"{ONE_PEER}one index"),
    "full_text": Section(full_text.run, f"{ONE_PEER}one index"),
    "maintenance": Section(maintenance.run, f"{ONE_PEER}every index"),
    "reexecution": Section(reexecution.run, f"{ONE_PEER}one index"),
    "comparing": Section(comparing.run, f"{ONE_PEER}every index"),
}
"""Defaults first."""


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
        console.print(f"configuration: {SECTIONS[name].configuration}")
        good &= SECTIONS[name].run(console, arguments.quick)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
