"""Lines of a time and a statement: their meaning, and the treatment of bad lines."""

from __future__ import annotations

import gzip
import io

import pytest

from p2prdf.errors import DataRefused
from p2prdf.hlc import ELEMENT_MS_MAX
from p2prdf.rdf.lines import LINE_BYTES_MAX
from p2prdf.rdf.timed_lines import event_time, read_timed

MANY = 2500


def read(data, **options):
    """Return (subject, object, time) of each element, and the bad lines."""
    bad = []
    options = {"publication_id": "file", "on_bad_line": lambda each: bad.append((each.line, each.reason)), **options}
    batches = list(read_timed(io.BytesIO(data), **options))
    assert all(len(batch.s) == len(batch.times) <= 1000 for batch in batches)
    rows = [row for batch in batches for row in zip(batch.s, batch.o, batch.times, strict=True)]
    if batches:
        assert batches[-1].statements_done == len(rows) + options.get("skip", 0)
    return rows, bad


def line(number, time):
    return f'{time}\t<urn:s{number}> <urn:p> "{number}" .\n'.encode()


def test_times_are_decimals_or_moments():
    times = {
        "0": 0, "+7": 7000, "1.5": 1500, "0.0014": 1, "0.0016": 2, "1407110400": 1_407_110_400_000,
        "1970-01-01T00:00:01Z": 1000, "1970-01-01T02:00:01.25+02:00": 1250, "2016-02-29T24:00:00Z": 1_456_790_400_000,
        f"{ELEMENT_MS_MAX // 1000}.{ELEMENT_MS_MAX % 1000}": ELEMENT_MS_MAX,
    }  # fmt: skip
    assert {text: event_time(text) for text in times} == times


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no event time"), ("now", "no event time"), ("-1", "no event time"), ("1e3", "no event time"),
        ("1,5", "no event time"), ("nan", "no event time"), ("2026-02-30T00:00:00Z", "no event time"),
        ("2026-01-01T00:00:00", "time zone"), ("1969-12-31T23:59:59Z", "between 1970 and 3084"),
        ("35184372088.832", "between 1970 and 3084"), ("1" * 100, "no event time"), ("9999-01-01T00:00:00Z", "between"),
    ],
)  # fmt: skip
def test_a_bad_time_is_refused_with_the_reason(text, why):
    with pytest.raises(DataRefused, match=why):
        event_time(text)


@pytest.mark.parametrize("compressed", [False, True])
def test_elements_come_with_their_times_and_are_resumed_after_any(compressed):
    data = b"".join(line(number, number / 8) for number in range(MANY))
    data = gzip.compress(data) if compressed else data
    every, bad = read(data, compressed=compressed)
    assert every == [(f"<urn:s{n}>", f'"{n}"', 125 * n) for n in range(MANY)]
    assert bad == []
    for skip in (1, 999, 1000, MANY):
        assert read(data, compressed=compressed, skip=skip)[0] == every[skip:]


def test_bad_lines_are_reported_and_cost_themselves_alone():
    good = [line(number, number) for number in range(6)]
    statement = b"<urn:s> <urn:p> <urn:o> .\n"
    wrong = [statement, b"soon\t" + statement, b"5\tno statement\n", b"5\t\n", b"5\t# none\n"]
    lines = [good[0], wrong[0], b"\n", b"# a remark\n", good[1], *wrong[1:4], good[2], good[3], wrong[4], *good[4:]]
    rows, bad = read(b"".join(lines).rstrip(b"\n"))
    assert [row[2] for row in rows] == [0, 1000, 2000, 3000, 4000, 5000]
    assert [number for number, _ in bad] == [2, 6, 7, 8, 11]
    assert "not a time, a tabulator and a statement" in bad[0][1]
    assert "'soon' is no event time" in bad[1][1]
    with pytest.raises(DataRefused, match="data:2: not a time"):
        read(b"".join(lines), strict=True, source="data")


def test_each_line_has_one_statement():
    """Otherwise a statement could get the time of another's line."""
    two = b'2\t<urn:a> <urn:p> "2" . <urn:a> <urn:p> "3" .\n'
    cut = b'2\t<urn:a> <urn:p>\n3\t"2" . <urn:a> <urn:p> "3" .\n'
    for wrong, lines in ((two, [2]), (cut, [2, 3]), (b"2\t# none\n" + two, [2, 3])):
        rows, bad = read(line(1, 1) + wrong + line(4, 4))
        assert [row[2] for row in rows] == [1000, 4000]
        assert [number for number, _ in bad] == lines


def test_blank_nodes_are_the_files_and_the_same_in_each_line():
    rows, _ = read(b"1\t_:b <urn:p> _:c .\n2\t_:b <urn:p> _:b .\nbad\n3\t_:c <urn:p> _:b .\n")
    b, c = rows[0][:2]
    assert [row[:2] for row in rows] == [(b, c), (b, b), (c, b)]
    assert b.startswith("<urn:bnode:file:")


def test_a_line_without_an_end_is_dropped_in_bounded_memory():
    rows, bad = read(line(1, 1) + b"2\t<" + b"x" * (LINE_BYTES_MAX + (1 << 18)) + b"\n" + line(3, 3))
    assert [row[2] for row in rows] == [1000, 3000]
    assert [number for number, _ in bad] == [2]


def test_damaged_compression_is_reported_after_the_lines_before():
    data = gzip.compress(b"".join(line(number, 1) for number in range(20_000)))
    with pytest.raises(DataRefused, match="damaged"):
        read(data[: len(data) // 2], compressed=True)
