"""``publish --stream``: combinations of options, and the times of sending at a given pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from commands import command

from p2prdf.rdf.ntriples import TripleBatch
from p2prdf_cli.publish_stream import paced

FILE = Path("readings.tsv")


def _batch(done: int, *times: int) -> TripleBatch:
    names = [f"<urn:s{time}>" for time in times]
    return TripleBatch(names, names, names, done, 0, times=list(times))


@pytest.mark.parametrize("factor", [1.0, 10.0])
async def test_elements_go_out_as_their_times_say_and_never_before(factor: float) -> None:
    """Elements of one time go together; late ones go at once; each part reports its position in the file."""
    now = 50.0

    def clock() -> float:
        return now

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    async def source() -> AsyncIterator[TripleBatch]:
        yield _batch(5, 7000, 7000, 8000, 7500, 12_000)
        yield _batch(7, 12_000, 13_000)

    went = [
        ((now - 50.0) * factor, part.times, part.statements_done)
        async for part in paced(source(), factor, clock=clock, sleep=sleep)
        if part.s == [f"<urn:s{time}>" for time in part.times]
    ]
    assert went == [
        (pytest.approx(0.0), [7000, 7000], 2), (pytest.approx(1.0), [8000, 7500], 4), (pytest.approx(5.0), [12_000], 5),
        (pytest.approx(5.0), [12_000], 6), (pytest.approx(6.0), [13_000], 7),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--timed",), "say something of a --stream"),
        (("--time", "now"), "say something of a --stream"),
        (("--lateness", "2"), "say something of a --stream"),
        (("--stream", "urn:s", "--timed", "--time", "now"), "no --time"),
        (("--stream", "urn:s", "--pace", "1"), "needs --timed"),
        (("--stream", "urn:s", "--delete"), "goes with neither"),
        (("--stream", "urn:s", "--graph", "urn:g"), "goes with neither"),
        (("--stream", "urn:s", "--ack", "accepted"), "goes with neither"),
        (("--stream", "urn:s", "again.tsv"), "takes one file"),
        (("--stream", "no iri"), "not an IRI"),
        (("--stream", "urn:s", "--time", "soon"), "no event time"),
        (("--stream", "urn:s", "--upto", "2026-01-01T00:00:00"), "time zone"),
        (("--stream", "urn:s", "--lateness", "-1"), "'--lateness'"),
        (("--stream", "urn:s", "--timed", "--pace", "inf"), "no number of times"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(options: tuple[str, ...], why: str) -> None:
    code, out, err = command("publish", FILE, *options)
    assert (code, out) == (2, "")
    assert why in " ".join(err.replace("│", " ").split())


def test_nothing_is_said_by_a_pace_of_nothing() -> None:
    async def none() -> AsyncIterator[TripleBatch]:
        yield _batch(0)

    async def all_of() -> list[TripleBatch]:
        return [part async for part in paced(none(), 1.0)]

    assert asyncio.run(all_of()) == []
