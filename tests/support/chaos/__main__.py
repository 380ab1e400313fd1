"""``python -m chaos``: the command behind ``make chaos``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import uvloop
from rich.console import Console

from chaos.faults import FaultOptions
from chaos.story import Options, play
from chaos.subscriber_kills import SubscriberOptions, play_subscriber_kills


def main() -> int:
    """Run with the options of the command line; return 1 if anything was lost, duplicated or phantom."""
    arguments = _parser().parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120, soft_wrap=True)
    if arguments.subscriber_kills:
        report = uvloop.run(play_subscriber_kills(_subscriber_options(arguments)))
    else:
        report = uvloop.run(play(_options(arguments)))
    report.show(console)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report.as_json(), indent=1, default=str))
    return 0 if report.good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("chaos", description="Kill real nodes while clients publish and subscribe.")
    add = parser.add_argument
    add("--minutes", type=float, default=1.0, help="how long faults are injected")
    add("--kills", type=int, help="stop after so many kills")
    add("--nodes", type=int, default=5)
    add("--seed", type=int, default=1, help="decides what is published and what fails, not exactly when")
    add("--rate", type=float, default=20.0, help="publications a second, of 1 to 40 triples")
    add("--kill-seconds", type=float, nargs=2, default=(1.0, 5.0), metavar=("LEAST", "MOST"), help="between kills")
    add("--down-seconds", type=float, nargs=2, default=(0.0, 2.0), metavar=("LEAST", "MOST"), help="before a restart")
    add("--down-max", type=int, default=1, help="nodes that may be down at once (but for kills of all)")
    add("--all-every", type=int, default=10, metavar="N", help="kill all nodes at every N-th kill; 0: never")
    add("--pauses", type=float, default=0.0, metavar="SHARE", help="share of faults that stop a process for a while")
    add("--network", action="store_true", help="a bad network too: slow, lossy, cut, one-way, broken connections")
    add("--silent", type=float, default=0.0, metavar="SHARE", help="share of kills that no connection tells of")
    add("--hogs", type=int, default=0, metavar="N", help="run N processes beside that use a whole processor each")
    add("--subscriber-kills", type=int, metavar="N", help="kill subscribers that write files N times, instead of nodes")
    add("--nodes-too", action="store_true", help="with --subscriber-kills: kill nodes as well")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of every node")
    add("--json", type=Path, metavar="FILE", help="write everything there")
    add("--keep", type=Path, metavar="FOLDER", help="keep logs and data there (a new folder)")
    return parser


def _options(arguments: argparse.Namespace) -> Options:
    return Options(
        seconds=60 * arguments.minutes,
        kills_max=arguments.kills,
        nodes=arguments.nodes,
        seed=arguments.seed,
        publications_per_second=arguments.rate,
        proxy=arguments.network or arguments.silent > 0,
        faults=_fault_options(arguments),
        hogs=arguments.hogs,
        settings=_settings(arguments),
        folder=arguments.keep,
    )


def _subscriber_options(arguments: argparse.Namespace) -> SubscriberOptions:
    return SubscriberOptions(
        kills=arguments.subscriber_kills,
        nodes=arguments.nodes,
        seed=arguments.seed,
        publications_per_second=arguments.rate,
        faults=_fault_options(arguments) if arguments.nodes_too else None,
        settings=_settings(arguments),
        folder=arguments.keep,
    )


def _fault_options(arguments: argparse.Namespace) -> FaultOptions:
    return FaultOptions(
        kill_seconds=tuple(arguments.kill_seconds),
        down_seconds=tuple(arguments.down_seconds),
        down_max=arguments.down_max,
        all_every=arguments.all_every,
        pause_share=arguments.pauses,
        silent_share=arguments.silent,
        network=arguments.network,
    )


def _settings(arguments: argparse.Namespace) -> dict[str, object]:
    return dict(each.split("=", 1) for each in arguments.set)


if __name__ == "__main__":
    sys.exit(main())
