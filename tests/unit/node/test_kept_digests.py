"""State of a version that did not verify digests: rows with a false digest are left out, once."""

from __future__ import annotations

import numpy as np
import pytest
import structlog

from p2prdf.columns import ARRAYS
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, make_plan
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.messages import Forward, Groups, IndexQuery, IndexTriples, KeepAnswers, Rows
from p2prdf_node.journal import Journal
from p2prdf_node.records import Records
from p2prdf_node.storage import VERIFIED, Storage

TRUE, FALSE = "<urn:e:alice>", "<urn:evil:mallory>"
PARAMS = ("<urn:p>", "<urn:q>")
PLAN = make_plan(ConjunctiveQuery(((0, ~0, 1), (1, ~1, 2)), PARAMS, (0,), ("s",)), (0, 1), Algorithm.CSBV)
U64, U32 = np.uint64, np.uint32


@pytest.fixture(autouse=True)
def logged():
    """The log lines, kept from the screen."""
    with structlog.testing.capture_logs() as lines:
        yield lines


def believing(*texts):
    """Return a dictionary in which the second term stands for the first, and the numbers of further terms."""
    terms = TermDictionary()
    false = terms.intern(TRUE)
    terms._texts[false] = FALSE
    return terms, false, [terms.intern(text) for text in texts]


def triples(*numbers):
    column = np.array(numbers, U32)
    return IndexTriples(
        column, column, column, column.astype(U64), column.astype(U64), np.ones(len(column), U32), 0, 0, 0, 0, 0, 0
    )


def rows(group, *bound):
    count = np.arange(len(bound), dtype=U64)
    return Rows(np.full(len(bound), group, U32), count, count, count, (np.array(bound, U32), np.array(bound, U32)))


def groups(terms):
    params = tuple(np.array([terms.intern(param)], U32) for param in PARAMS)
    return Groups(*(np.array([7], U64) for _ in range(4)), params)


def read_back(record):
    """Return the messages that a node reads from a record, its terms, and its counts."""
    terms = TermDictionary()
    records = Records(FrameCodec(terms, ARRAYS), terms)
    return list(records.decode(record)), terms, records


def test_rows_that_name_a_term_with_a_false_digest_are_left_out():
    terms, false, (good, other) = believing("<urn:good>", "<urn:other>")
    (record,) = Records(FrameCodec(terms, ARRAYS)).encode([triples(good, false, other)])
    (message,), read, records = read_back(record)
    assert read.texts(message.s) == ["<urn:good>", "<urn:other>"]
    assert message.time.tolist() == [good, other]
    assert records.false_terms == {FALSE}
    assert records.rows_left_out == 1


def test_partial_results_and_solutions_are_left_out_as_triples_are():
    terms, false, (good,) = believing("<urn:good>")
    count = np.arange(2, dtype=U64)
    messages = [
        Forward(PLAN, 1, groups(terms), rows(0, false, good)),
        KeepAnswers(5, count, count, (np.array([good, false], U32),)),
        KeepAnswers(6, count[:1], count[:1], (np.array([false], U32),)),
    ]
    (record,) = Records(FrameCodec(terms, ARRAYS)).encode(messages)
    (forward, answers), read, records = read_back(record)
    assert read.texts(forward.rows.bindings[0]) == ["<urn:good>"]
    assert read.texts(answers.bindings[0]) == ["<urn:good>"]
    assert records.rows_left_out == 3


def test_a_query_with_a_constant_of_false_digest_is_left_out():
    terms = TermDictionary()
    group = groups(terms)
    query = IndexQuery(PLAN, 0, group)
    number = int(group.params[0][0])
    terms._texts[number] = FALSE
    (record,) = Records(FrameCodec(terms, ARRAYS)).encode([query, triples(terms.intern("<urn:good>"))])
    messages, _, records = read_back(record)
    assert [type(each) for each in messages] == [IndexTriples]
    assert records.rows_left_out == 1


def test_term_that_is_known_before_is_read_as_it_was_published():
    terms, false, _ = believing()
    (record,) = Records(FrameCodec(terms, ARRAYS)).encode([triples(false)])
    read = TermDictionary()
    read.intern(TRUE)
    records = Records(FrameCodec(read, ARRAYS), read)
    (message,) = records.decode(record)
    assert read.texts(message.s) == [TRUE]
    assert not records.false_terms


def restored(tmp_path):
    """Return the state that a journal gives its peer at start, as texts of subjects, and its status."""
    terms = TermDictionary()
    storage = Storage(tmp_path / "state", bytes(20), b"cluster")
    journal = Journal(
        storage, Records(FrameCodec(terms, ARRAYS), terms), durability="fsync", queued_bytes_max=1 << 20,
        compact_bytes_min=1 << 30,
    )  # fmt: skip
    found = []
    journal.restore(lambda messages: found.extend(text for each in messages for text in terms.texts(each.s)))
    storage.close()
    return found, journal.status()


def test_state_is_verified_once_and_reported_while_it_is_not_clean(tmp_path, logged):
    assert restored(tmp_path)[0] == []
    marker = tmp_path / "state" / VERIFIED
    assert marker.exists()  # there is nothing to verify
    marker.unlink()
    terms, false, (good,) = believing("<urn:good>")
    storage = Storage(tmp_path / "state", bytes(20), b"cluster")
    assert list(storage.read()) == []
    storage.commit(Records(FrameCodec(terms, ARRAYS)).encode([triples(good, false)]))
    storage.close()
    found, status = restored(tmp_path)
    assert found == ["<urn:good>"]
    assert (status["false_digests"], status["rows_left_out"]) == (1, 1)
    (line,) = [line for line in logged if line["event"] == "false_digests_found"]
    assert (line["terms"], line["rows"], line["first"]) == (1, 1, [FALSE])
    assert not marker.exists()  # a snapshot is to replace it first
    assert restored(tmp_path)[0] == ["<urn:good>"]
