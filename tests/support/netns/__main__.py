"""``python -m netns``: the command behind ``make netns``."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import sys
from pathlib import Path
from typing import Any, Final

from netns.lan import Lan, Refused, enter
from netns.trial import trial

NOT_HERE: Final = 77
"""Exit code where this machine does not let us make hosts."""


def main() -> int:
    """Run the stories named on the command line; return 1 if anything was wrong in one of them."""
    arguments = _arguments()
    try:
        enter()  # first of all: modules imported below may start threads
        with contextlib.closing(Lan()) as lan:
            told = trial(lan)
    except Refused as reason:
        print(f"no hosts: {reason}", file=sys.stderr)
        return NOT_HERE
    if arguments.check:
        print(json.dumps(told))
        return 0
    if arguments.handing_over:
        return _measure(arguments.handing_over)
    return _tell_all(arguments)


def _tell_all(arguments: argparse.Namespace) -> int:
    import uvloop
    from rich.console import Console

    from netns.stories import LIMITS, STORIES, Settings, tell

    unknown = [name for name in arguments.story if name not in STORIES]
    if unknown:
        print(f"no story {unknown[0]!r}; there are {', '.join(STORIES)}", file=sys.stderr)
        return 2
    logging.getLogger("p2prdf.client").setLevel(logging.ERROR)  # clients are expected to change nodes
    console = Console(width=None if sys.stdout.isatty() else 120, soft_wrap=True, stderr=arguments.json is None)
    told: dict[str, Any] = {}
    good = True
    for name in arguments.story or (each for each in STORIES if each not in LIMITS):
        settings = Settings(
            cut_seconds=arguments.cut_seconds, rate=arguments.rate, seed=arguments.seed,
            rest_seconds=arguments.rest_seconds,
            nodes=dict(each.split("=", 1) for each in arguments.set),
            folder=None if arguments.keep is None else arguments.keep / name,
        )  # fmt: skip
        with contextlib.closing(Lan()) as lan:
            report, seen = uvloop.run(tell(name, lan, settings))
        good = good and report.good
        console.rule(name)
        report.show(console)
        console.print(f"seconds to leave: {', '.join(f'{each:.2f}' for each in seen['leave_seconds']) or '-'}")
        console.print(f"errors logged: {seen['complaints'] or 'none'}", highlight=False)
        told[name] = {**report.as_json(), **seen}
        print(_line(name, told[name]), flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(told, indent=1, default=str))
    return 0 if good else 1


def _measure(sizes: list[int]) -> int:
    import uvloop

    from netns.handing_over import measure

    def tell(figures: dict[str, Any]) -> None:
        print(", ".join(f"{name} {value}" for name, value in figures.items()), flush=True)

    with contextlib.closing(Lan()) as lan:
        uvloop.run(measure(lan, sorted(sizes), tell))
    return 0


def _line(name: str, figures: dict[str, Any]) -> str:
    """Return a story's figures in one line."""
    verdict, gap = figures["verdict"], figures["delay_seconds"]["largest"]
    counts = ", ".join(
        f"{verdict[key]:,} {word}"
        for key, word in (
            ("acknowledged", "owed"), ("delivered", "delivered"), ("lost", "lost"), ("duplicated", "duplicated"),
            ("phantom", "phantom"), ("taken_back", "taken back"),
        )
    )  # fmt: skip
    errors = sum(figures["failures"]["publishers"].values())
    return f"{name}: {counts}, {errors} errors of publishers, longest wait for an answer {gap} s" + (
        "" if figures["good"] else " - NOT GOOD"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("netns", description="Nodes on hosts of their own, and what may happen to those.")
    add = parser.add_argument
    add("story", nargs="*", help="which to tell; by default all")
    add("--cut-seconds", type=float, default=20.0, help="how long a broken network stays broken")
    add("--rate", type=float, default=10.0, help="publications a second, of 1 to 40 triples")
    add("--rest-seconds", type=float, default=300.0, help="how long answers may be missing at the end")
    add("--seed", type=int, default=1, help="decides what is published")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of every node")
    add("--json", type=Path, metavar="FILE", help="write everything there")
    add("--keep", type=Path, metavar="FOLDER", help="keep logs and data there (a new folder)")
    add(
        "--handing-over", type=int, nargs="+", metavar="TRIPLES",
        help="instead of stories: how long a node takes to leave when so many have been published, at each of five",
    )  # fmt: skip
    add("--check", action="store_true", help="only tell who hears whom on hosts; exit code 77 if none can be made here")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
