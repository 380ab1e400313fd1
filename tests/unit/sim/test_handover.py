"""Envelopes between peers of different material arrive in the receiver's, with the same values."""

from __future__ import annotations

import numpy as np
import pytest

from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.rdf.query import Algorithm, make_plan
from p2prdf.sim.handover import handed_over
from p2prdf.wire.messages import Envelope, Forward, GroupsGone, IndexTriples, Nodes, Rows
from p2prdf.wire.messages import Groups as GroupColumns
from p2prdf_lab.workloads.random_queries import conjunctive_query

PLAN = make_plan(conjunctive_query([("?x", "<urn:p>", "?y")], ["?x"]), [0], Algorithm.CSBV)
BIG = (1 << 64) - 1


@pytest.mark.parametrize(
    "message",
    [
        IndexTriples([1], [2], [3], [BIG], [BIG - 1], [7], 2),
        Forward(
            PLAN, 0, GroupColumns([BIG], [1], [2], [3], ([4],)), Rows([0, 0], [5, BIG], [6, 6], [7, 7], ([8, 9],))
        ),
        GroupsGone([]),
        Nodes(1, ()),
    ],
    ids=lambda message: type(message).__name__,
)
def test_there_and_back_changes_nothing(message):
    envelope = Envelope(9, 10, message)
    there = handed_over(envelope, ARRAYS)
    assert handed_over(there, LISTS) == envelope


def test_arrays_have_the_widths_that_columnar_tables_work_with():
    there = handed_over(Envelope(0, 0, IndexTriples([1], [2], [3], [BIG], [5], [6])), ARRAYS).message
    assert (there.s.dtype, there.time.dtype, there.roles.dtype) == (np.uint32, np.uint64, np.uint32)
    assert as_list(there.time) == [BIG]
