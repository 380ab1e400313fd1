"""Streams of real sensors, with queries, static data and published answers, which lie beside the repository.

CSRBench: weather observations by sensors in the United States, with the benchmark's windows.  CityBench:
traffic, parking, weather and pollution in Aarhus, for some days; its queries join observations with static data
about sensors.
"""

from __future__ import annotations

import gzip
import json
import lzma
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from windows_oracle import Element, Extent, Rows

from p2prdf.rdf import terms
from p2prdf.rdf.ntriples import TripleBatch
from p2prdf.rdf.timed_lines import read_timed

__all__ = ["DATA", "NAMES", "Dataset", "Query", "available", "load"]

DATA = Path(__file__).parents[3] / "../shared/data/streams"
NAMES = ("csrbench", "citybench")
CITY_STEP_SECONDS = 300
"""Step of CityBench's windows, which its queries do not give; it equals the interval of readings."""

Triple = tuple[str, str, str]


def available() -> bool:
    """Whether the data lies beside the repository."""
    return (DATA / "csrbench.tsv.xz").exists()


@dataclass(frozen=True)
class Query:
    """A query as RSP-QL: a stream of the contents of its window, report by report.

    ``published``: the number of rows in the data set's own answers by the times of reports, in milliseconds;
    None: it lists none.
    """

    name: str
    text: str
    windows: dict[str, Extent]
    """The extents of windows by their names; all are equal."""
    published: dict[int, tuple[int, Rows | None]]

    @property
    def extent(self) -> Extent:
        """The extent of its windows."""
        return next(iter(self.windows.values()))

    def reports(self, dataset: Dataset) -> range:
        """Return the times of all reports from the first element to the end of the stream."""
        step = self.extent.step
        return range(-(-dataset.elements[0].time // step) * step, dataset.end + 1, step)


@dataclass(frozen=True)
class Dataset:
    """A stream with its queries; elements in the order of their times."""

    name: str
    stream: str
    elements: list[Element]
    static: list[Triple]
    queries: list[Query]

    @property
    def end(self) -> int:
        """The time up to which elements are promised: the end plus the longest step, in milliseconds."""
        step = max(query.extent.step for query in self.queries)
        return -(-self.elements[-1].time // step) * step

    def upto(self, seconds: float) -> Dataset:
        """Return the same data set without later elements and answers."""
        last = seconds * 1000
        queries = [
            replace(query, published={report: said for report, said in query.published.items() if report <= last})
            for query in self.queries
        ]
        some = [element for element in self.elements if element.time <= last]
        return Dataset(self.name, self.stream, some, self.static, queries)

    def batches(self) -> list[TripleBatch]:
        """Return all elements as they are published: those of one time together."""
        found: dict[int, list[Triple]] = {}
        for element in self.elements:
            found.setdefault(element.time, []).append(element.triple)
        return [
            TripleBatch(*map(list, zip(*triples, strict=True)), 0, 0, times=[time] * len(triples))
            for time, triples in found.items()
        ]


def load(name: str, stream: str) -> Dataset:
    """Return a data set, its elements in a stream of this name.  Needs ``available``."""
    elements = _elements(name, stream)
    static = DATA / f"{name}.static.nt"
    known = [tuple(line.rstrip(" .\n").split(" ", 2)) for line in static.open()] if static.exists() else []
    published = json.loads(gzip.decompress((DATA / f"{name}.expected.json.gz").read_bytes()))
    queries = [
        _query(each, stream, published, elements[0].time)
        for each in json.loads((DATA / f"{name}.queries.json").read_text())
        if each["range"] is not None
    ]
    return Dataset(name, stream, elements, known, queries)  # type: ignore[arg-type]  # three terms each


def _elements(name: str, stream: str) -> list[Element]:
    with lzma.open(DATA / f"{name}.tsv.xz") as lines:
        batches = list(read_timed(lines, publication_id=name, strict=True))
    return [
        Element(time, stream, (s, p, o))
        for batch in batches
        for time, s, p, o in zip(batch.times, batch.s, batch.p, batch.o, strict=True)
    ]


# --- queries -------------------------------------------------------------------------------------


def _query(said: dict[str, Any], stream: str, published: list[dict[str, Any]], first: int) -> Query:
    extent = Extent(stream, said["range"] * 1000, said.get("step", CITY_STEP_SECONDS) * 1000)
    head, body = re.split(r"\bWHERE\b", said["query"], maxsplit=1)
    inner = body[body.index("{") + 1 : body.rindex("}")]
    where, used = _in_windows(inner) if "after" in said else (f"WINDOW <urn:w> {{ {inner} }}", ["<urn:w>"])
    assert extent.range is not None
    length = f"[RANGE PT{extent.range // 1000}S STEP PT{extent.step // 1000}S]"
    windows = "\n".join(f"FROM NAMED WINDOW {window} ON <{stream}> {length}" for window in used)
    text = f"{head.replace('SELECT', 'SELECT RSTREAM')}\n{windows}\nWHERE {{ {where} }}"
    projected = head.rpartition("SELECT")[2]
    names = tuple(re.findall(r"AS \?(\w+)", projected) or re.findall(r"\?(\w+)", projected))
    answers = {
        round(each["at"] * 1000): (each["count"], _rows(each["rows"], names) if "rows" in each else None)
        for each in published
        if each["query"] == said["name"] and round(each["since"] * 1000) == first
    }
    return Query(said["name"], text, dict.fromkeys(used, extent), answers)


def _in_windows(patterns: str) -> tuple[str, list[str]]:
    """Put the patterns about each observation into a window of their own; others are about static data.

    Windows are named by the variables, and all are alike: the present content of one is joined with the present
    content of another.
    """
    about: dict[str, list[str]] = {}
    rest = []
    for line in filter(None, map(str.strip, patterns.splitlines())):
        observation = re.match(r"\?(o\d?)\s", line)
        if observation is None:
            rest.append(line)
        else:
            about.setdefault(f"<urn:w:{observation[1]}>", []).append(line)
    parts = [f"WINDOW {window} {{ {' '.join(lines)} }}" for window, lines in about.items()]
    return " ".join([*parts, *rest]), list(about)


def _rows(rows: list[dict[str, dict[str, str]]], names: tuple[str, ...]) -> Rows:
    return Counter(tuple(terms.from_json(row[name]) if name in row else None for name in names) for row in rows)
