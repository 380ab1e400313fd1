"""Summary of the demonstration: solutions of each query, and work of each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from p2prdf_cli.demo.check import Verdict
from p2prdf_cli.demo.collector import Holding, percentile
from p2prdf_cli.render import human_bytes
from p2prdf_cli.reports import Report, cache_hit_rate, counted, owned_share
from p2prdf_cli.terminal import table

__all__ = ["Summary"]


@dataclass(frozen=True, slots=True)
class Summary:
    """All results of the demonstration."""

    holdings: Sequence[Holding]
    verdicts: Sequence[Verdict]
    reports: Sequence[Report]
    triples: int
    bulk_triples: int
    bulk_seconds: float
    steady_rate: float
    seconds: float

    @property
    def good(self) -> bool:
        """Whether every expected solution arrived once, and no other."""
        return all(verdict.good for verdict in self.verdicts) and not any(h.lost for h in self.holdings)

    @property
    def hops_per_triple(self) -> float:
        """Messages between nodes for each triple; one message carries many triples."""
        return sum(counted(report, "sent") for report in self.reports) / max(1, self.triples)

    def tables(self) -> list[Table]:
        """Return the tables of the summary."""
        return [self._queries(), self._nodes(), self._totals()]

    def as_json(self) -> dict[str, Any]:
        """Return the summary as plain values."""
        return {
            "good": self.good,
            "seconds": round(self.seconds, 3),
            "triples": self.triples,
            "bulk_triples_per_second": round(self.bulk_triples / self.bulk_seconds),
            "steady_triples_per_second": round(self.steady_rate),
            "hops_per_triple": round(self.hops_per_triple, 4),
            "address_cache_hit_rate": _rounded(cache_hit_rate(self.reports)),
            "queries": [
                {
                    "title": holding.query.title,
                    "algorithm": holding.query.algorithm,
                    "patterns": len(holding.query.patterns),
                    "answers": holding.answers,
                    "owed": verdict.owed,
                    "missing": verdict.missing,
                    "extra": verdict.extra,
                    "doubled": verdict.doubled,
                    "latency_bulk_seconds": _latencies(holding.bulk),
                    "latency_steady_seconds": _latencies(holding.steady),
                }
                for holding, verdict in zip(self.holdings, self.verdicts, strict=True)
            ],
            "nodes": list(self.reports),
        }

    def _queries(self) -> Table:
        columns = ("", "standing query", "join", "solutions", "check", "full speed", "steady")
        rows = [
            (
                f"Q{number}",
                holding.query.title,
                f"{holding.query.shape}, {holding.query.algorithm}",
                holding.answers,
                str(verdict),
                _both(holding.bulk),
                _both(holding.steady),
            )
            for number, (holding, verdict) in enumerate(zip(self.holdings, self.verdicts, strict=True), 1)
        ]
        return table("Solutions, and their latency in ms (p50 / p99)", columns, rows)

    def _nodes(self) -> Table:
        columns = ("node", "owns", "published", "holds", "partial", "load", "sent", "memory")
        rows = [
            (
                report["address"],
                f"{owned_share(report):.1%}",
                counted(report, "published"),
                counted(report, "index_entries"),
                counted(report, "rows"),
                counted(report, "processing_load"),
                counted(report, "sent"),
                human_bytes(report["memory_bytes"]),
            )
            for report in self.reports
        ]
        title = "Nodes: share of keys, triples held (once per key), partial results, processing load, messages"
        return table(title, columns, rows)

    def _totals(self) -> Table:
        hit_rate = cache_hit_rate(self.reports)
        steady = [latency for holding in self.holdings for latency in holding.steady]
        bulk = [latency for holding in self.holdings for latency in holding.bulk]
        rows = [
            ("triples published and acknowledged", f"{self.triples:,}"),
            ("full speed", f"{self.bulk_triples / self.bulk_seconds:,.0f} triples/s"),
            ("latency of solutions at full speed, p50 / p99", f"{_both(bulk)} ms"),
            (f"latency of solutions at {self.steady_rate:,.0f} triples/s, p50 / p99", f"{_both(steady)} ms"),
            ("hops per triple (messages between nodes)", f"{self.hops_per_triple:.3f}"),
            ("address-cache hit rate", "-" if hit_rate is None else f"{hit_rate:.3%}"),
            ("time", f"{self.seconds:.1f} s"),
        ]
        return table("Overlay", ("", "value"), rows)


def _milliseconds(latencies: Sequence[float], part: float) -> str:
    value = percentile(latencies, part)
    return "-" if value is None else f"{1000 * value:,.0f}"


def _both(latencies: Sequence[float]) -> str:
    return " / ".join(_milliseconds(latencies, part) for part in (0.5, 0.99)) if latencies else "-"


def _latencies(latencies: Sequence[float]) -> dict[str, float | None]:
    return {"p50": _rounded(percentile(latencies, 0.5)), "p99": _rounded(percentile(latencies, 0.99))}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
