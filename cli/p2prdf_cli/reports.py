"""Node reports (the JSON of a status request) as tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table

from p2prdf_cli.render import human_bytes
from p2prdf_cli.terminal import table

__all__ = ["Report", "cache_hit_rate", "counted", "owned_share", "report_table", "status_table"]

Report = Mapping[str, Any]


def counted(report: Report, name: str) -> int:
    """Return one of the counters of a node's peer."""
    return int(report["peer"][name])


def owned_share(report: Report) -> float:
    """Return the share (0 to 1) of all keys that the node owns, among itself and the peers it knows."""
    own = int(report["key"], 16)
    others = [int(peer["key"], 16) for peer in report["peers"] if peer["key"] != report["key"]]
    return _clockwise_share(own, others) if report["peer"]["overlay"] == "chord" else _xor_share(own, others)


def _xor_share(own: int, others: list[int]) -> float:
    """Return the share of the keys to which ``own`` has the least XOR distance.

    Walking down the bits of the node's own key, each bit halves the share if a peer with the same bits so far differs
    in it; a half without any peer falls to the other half.
    """
    share = 1.0
    for bit in reversed(range(64)):
        near = [key for key in others if key >> bit == own >> bit]
        if len(near) < len(others):
            share /= 2
        others = near
    return share


def _clockwise_share(own: int, others: list[int]) -> float:
    """Return the share of the keys with ``own`` as their first peer at or after them."""
    behind = [(own - key) % (1 << 64) for key in others]
    return min(behind, default=1 << 64) / (1 << 64)


def cache_hit_rate(reports: Iterable[Report]) -> float | None:
    """Return the share of owners found in address caches, over several nodes; None without any lookup."""
    hits = misses = 0
    for report in reports:
        hits += counted(report, "address_cache_hits")
        misses += counted(report, "address_cache_misses")
    return hits / (hits + misses) if hits + misses else None


def status_table(reports: Sequence[Report]) -> Table:
    """Return a table with one row per node: place in the overlay, tables and loads."""
    columns = ("node", "peers", "owns", "triples", "partial", "load", "sent", "memory")
    rows = [
        (
            report["address"],
            len(_others(report)),
            f"{owned_share(report):.1%}",
            counted(report, "index_entries"),
            counted(report, "rows"),
            counted(report, "processing_load"),
            counted(report, "sent"),
            human_bytes(report["memory_bytes"]),
        )
        for report in reports
    ]
    return table("Nodes", columns, rows)


def report_table(report: Report) -> Table:
    """Return the report of one node as a table with one fact per row."""
    rows = [
        ("key", report["key"]),
        ("up", f"{report['uptime_seconds']:,.0f} s"),
        ("owns", f"{owned_share(report):.1%} of all keys"),
        ("triples held, once per key", counted(report, "index_entries")),
        ("partial results held", counted(report, "rows")),
        ("standing queries joined here", counted(report, "groups")),
        ("subscriptions coordinated here", counted(report, "subscriptions_coordinated")),
        ("solutions found for them", counted(report, "solutions")),
        ("processing load", counted(report, "processing_load")),
        ("storage load", counted(report, "storage_load")),
        ("triples published here", counted(report, "published")),
        ("messages sent to peers", counted(report, "sent")),
        ("address-cache hit rate", _percent(cache_hit_rate([report]))),
        ("memory", human_bytes(report["memory_bytes"])),
        *((f"peer {number}", f"{peer['address']}  {peer['key']}") for number, peer in enumerate(_others(report), 1)),
    ]
    return table(f"Node {report['address']}", ("", "value"), rows)


def _others(report: Report) -> list[Mapping[str, str]]:
    return [peer for peer in report["peers"] if peer["key"] != report["key"]]


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{part:.2%}"
