"""The publisher identity of a partition: equal for everything that is sent again, different otherwise."""

from __future__ import annotations

from itertools import product

from p2prdf.publish.identity import Identity, batch_identity, stream_identity
from p2prdf.publish.options import writing_options

PLAIN = writing_options({"peers": "a:1"})
BY_CONTENT = writing_options({"peers": "a:1", "identity": "content"})
BY_POSITION = writing_options({"peers": "a:1", "identity": "position", "job": "nightly"})


def test_a_stream_numbers_rows_by_query_batch_and_partition():
    found = {
        stream_identity(PLAIN, query, batch).of(partition)
        for query, batch, partition in product(("q", "r"), ("0", "1", "11"), (0, 1, 11))
    }
    assert len({each.publisher for each in found}) == 18
    assert not any(each.by_content for each in found)
    assert stream_identity(PLAIN, "q", "1").of(11) in found


def test_by_content_all_partitions_of_a_batch_are_one_publisher():
    one, two = stream_identity(BY_CONTENT, "q", "0"), stream_identity(BY_CONTENT, "q", "1")
    assert one.by_content
    assert one.of(0) == one.of(5)
    assert one != two


def test_a_named_job_is_the_same_publisher_each_time_and_one_without_a_name_never():
    named = writing_options({"peers": "a:1", "job": "nightly"})
    assert batch_identity(named) == batch_identity(named)
    assert batch_identity(named).by_content
    assert batch_identity(named) != batch_identity(writing_options({"peers": "a:1", "job": "daily"}))
    assert batch_identity(PLAIN) != batch_identity(PLAIN)


def test_a_job_may_number_its_rows_too():
    identity = batch_identity(BY_POSITION)
    assert identity == Identity(batch_identity(BY_POSITION).publisher, by_content=False)
    assert identity.of(0) != identity.of(1)
