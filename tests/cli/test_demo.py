"""The demonstration: its verdict is right, and nothing of it stays behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("airportsdata", reason="the demonstration's data needs the extra `demo`")

import pyoxigraph as ox
from solution_bags import rows_of

from p2prdf_cli.demo import airports
from p2prdf_cli.demo.check import expected_solutions, judge
from p2prdf_cli.demo.queries import QUERIES

MARK = "DEMONSTRATION_TEST"
LINUX = sys.platform == "linux"


def test_the_central_evaluation_agrees_with_an_independent_engine() -> None:
    """Oracle against pyoxigraph; decimals are compared as that engine rewrites them."""
    triples = list(airports.triples(airports.load(8000)))
    store = ox.Store()
    document = "".join(f"{s} {p} {o} .\n" for s, p, o in triples).encode()
    store.bulk_load(document, format=ox.RdfFormat.N_TRIPLES)
    for query, owed in zip(QUERIES, expected_solutions(QUERIES, triples), strict=True):
        normalised: Counter[tuple[str, ...]] = Counter()
        for row, times in owed.items():
            normalised[tuple(map(_as_stored, row))] += times
        assert normalised == _solutions(store, query.sparql), query.title


def _solutions(store: ox.Store, sparql: str) -> Counter[tuple[str, ...]]:
    document = json.loads(store.query(sparql).serialize(format=ox.QueryResultsFormat.JSON))
    return Counter(rows_of(document["head"]["vars"], document["results"]["bindings"]))


def _as_stored(term: str) -> str:
    """Return a term as the store gives it back: decimals without trailing zeros."""
    if not term.endswith("#decimal>"):
        return term
    lexical, datatype = term[1:].split('"', 1)
    return f'"{lexical.rstrip("0").rstrip(".")}"{datatype}'


def test_missing_superfluous_and_doubled_answers_are_distinguished() -> None:
    owed = Counter({("a",): 2, ("b",): 1})
    assert judge(Counter(owed), Counter({1: 1, 2: 1, 3: 1}), owed).good
    verdict = judge(Counter({("a",): 1, ("c",): 1}), Counter({1: 2}), owed)
    assert (verdict.owed, verdict.missing, verdict.extra, verdict.doubled) == (3, 2, 1, 1)
    assert str(verdict) == "2 missing, 1 extra, 1 doubled"


def _marked() -> list[int]:
    """Return the processes that carry the mark of this test in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if MARK_VALUE.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


MARK_VALUE = f"{MARK}={uuid.uuid4()}"


def _demo(*arguments: str) -> subprocess.Popen[str]:
    name, value = MARK_VALUE.split("=")
    return subprocess.Popen(
        [sys.executable, "-m", "p2prdf_cli", "demo", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {name: value, "COLUMNS": "160"},
    )  # fmt: skip


@pytest.mark.parametrize("publisher", ["plain", pytest.param("spark", marks=pytest.mark.long)])
def test_a_small_demonstration_is_right_and_stops_everything(publisher: str) -> None:
    process = _demo("--airports", "800", "--nodes", "3", "--json", "--publisher", publisher)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    summary = json.loads(out)
    assert summary["good"] is True
    assert len(summary["nodes"]) == 3
    assert [(query["missing"], query["extra"], query["doubled"]) for query in summary["queries"]] == [(0, 0, 0)] * 7
    assert sum(query["answers"] for query in summary["queries"]) > 50
    if LINUX:
        assert _marked() == []


@pytest.mark.skipif(not LINUX, reason="processes are looked for in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_however_it_ends_no_node_stays_behind(number: signal.Signals) -> None:
    process = _demo("--airports", "800", "--nodes", "2", "--publisher", "plain")
    assert process.stdout is not None
    while "node 2 at" not in (line := await asyncio.to_thread(process.stdout.readline)):
        assert line, "it ended before its nodes were there"
    process.send_signal(number)
    await asyncio.to_thread(process.communicate, timeout=30)
    expected = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}
    assert process.returncode == expected[number]
    async with asyncio.timeout(10):
        while _marked():  # the kernel ends orphans of a killed parent by itself, but not before we look
            await asyncio.sleep(0.02)
