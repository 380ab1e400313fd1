"""Settled delivery of random queries of the whole algebra: at each mark the answer of another engine."""

from __future__ import annotations

import asyncio

import pytest
from settled_algebra import played

import p2prdf


@pytest.mark.parametrize("seed", range(3))
async def test_random_queries_have_the_answers_of_another_engine_at_their_marks(launcher, seed):
    node = launcher.start()
    async with asyncio.timeout(150), p2prdf.connect(node.address) as client:
        differ, compared = await played(client, seed, 40)
    assert not differ, "\n".join(differ)
    assert compared == 160
