"""Events for settled delivery: under which indexes the owner of a pattern tells them."""

from __future__ import annotations

import pytest
from store_tables import new_tables

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.peer.joins.exact import ExactLeaves
from p2prdf.peer.network.batches import TripleBatch
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, make_plan
from p2prdf.store.tables import NEVER
from p2prdf.wire.messages import Groups

BY_SUBJECT, BY_PREDICATE = 1 << keys.S, 1 << keys.P
ALL = (1 << 16) - 1


@pytest.mark.parametrize("kind", ["light", "columnar"])
@pytest.mark.parametrize(
    ("roles", "probed", "is_leader", "told"),
    [
        (BY_PREDICATE, None, False, True),
        (BY_PREDICATE, ALL, False, True),
        (BY_PREDICATE, ALL & ~BY_PREDICATE, True, False),
        (BY_SUBJECT, None, True, False),
        (BY_SUBJECT, ALL, True, True),
        (BY_SUBJECT, ALL, False, False),
        (BY_SUBJECT, ALL & ~BY_PREDICATE, True, False),
    ],
)
def test_an_event_is_told_under_the_index_of_a_pattern_also_if_its_message_names_another(
    kind, roles, probed, is_leader, told
):
    """An interval is stored under the indexes of earlier ones, so its publication may come under no other."""
    tables, dictionary = new_tables(kind)
    make = tables.columns.column
    leaves = ExactLeaves(tables, dictionary, lambda role, ring: [is_leader and role == keys.P] * len(ring))
    query = ConjunctiveQuery(((0, ~0, 1),), ("<b>",), (0, 1), ("s", "o"))
    plan = make_plan(query, (0,), Algorithm.CSBV, exact=True)
    constants = (make([dictionary.intern("<b>")], "uint32"),)
    leaves.add(plan, tables.add_groups(plan, Groups(make([7]), make([1]), make([1]), make([NEVER]), constants)))
    s, p, o = (make([dictionary.intern(text)], "uint32") for text in ("<a>", "<b>", "<c>"))
    batch = TripleBatch(s, p, o, make([50]), make([1]), make([roles], "uint32"))
    found = [
        as_list(derived.born) for derived in leaves.derive(batch, None if probed is None else make([probed], "uint32"))
    ]
    assert found == ([[50]] if told else [])

