"""Bad input by the thousand for real nodes and a real gateway; ``make fuzz`` has it by the million."""

from __future__ import annotations

from random import Random

import pytest
from fuzz import datagrams, frames, web
from fuzz.genuine import bodies
from fuzz.target import Report

from p2prdf.wire.fields import NUMBERS
from p2prdf.wire.messages import IN_FRAMES

SEED = 5


def test_there_are_genuine_frames_of_every_type():
    assert set(bodies(Random(SEED), 2)) == {kind for kind in NUMBERS if issubclass(kind, IN_FRAMES)}


@pytest.mark.parametrize(
    ("kind", "count"), [(datagrams.run, 2000), (frames.run, 800), (web.run, 300)],
    ids=["datagrams", "frames", "requests"],
)  # fmt: skip
async def test_bad_input_changes_nothing_and_fails_nothing(tmp_path, kind, count):
    report = Report("short")
    await kind(count, Random(SEED), report, folder=tmp_path / "nodes")
    assert report.wrong == []
