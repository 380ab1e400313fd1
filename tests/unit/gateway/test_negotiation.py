"""Media types are chosen as RFC 9110 says: the quality of the most specific range counts."""

from __future__ import annotations

import pytest

from p2prdf.gateway.negotiation import chosen, chosen_coding
from p2prdf.gateway.problems import Refused

OFFERED = {"application/json": 1, "text/csv": 2, "text/plain": 3}


@pytest.mark.parametrize(("accept", "expected"), [
    (None, 1), ("", 1), ("*/*", 1), ("text/*", 2), ("text/csv", 2), ("TEXT/CSV", 2),
    ("text/*;q=0.3, text/plain;q=0.7", 3), ("text/plain;q=0.1, */*", 1), ("application/json;q=0, */*", 2),
    ("application/json;q=0.5,text/csv;q=0.5", 1), ("image/png, text/csv;q=0.001", 2),
    ("text/csv;charset=utf-8;q=0.9, text/plain;q=0.8", 2), ("nonsense, text/plain", 3),
    ("text/plain;q=1.7, text/csv", 2),
])  # fmt: skip
def test_the_best_acceptable_type_is_chosen(accept, expected):
    assert chosen(accept, OFFERED)[1] == expected


@pytest.mark.parametrize("accept", ["image/png", "*/*;q=0", "text/csv;q=0", "nonsense", ",", "*/csv"])
def test_an_unavailable_type_is_refused(accept):
    with pytest.raises(Refused, match="application/json"):
        chosen(accept, OFFERED)


@pytest.mark.parametrize(("header", "accepted"), [
    ("gzip", True), ("GZIP;q=0.1", True), ("x-gzip", True), ("*", True), ("br, *;q=0.5", True), ("", False),
    ("gzip;q=0", False), ("gzip;q=0.000, *", False), ("*;q=0", False), ("br", False), ("gzipped", False),
    (";,;q=1", False),
])  # fmt: skip
def test_gzip_is_accepted_by_name_or_by_star_unless_its_quality_is_zero(header, accepted):
    assert chosen_coding(header, zstd=False) == ("gzip" if accepted else "")


@pytest.mark.parametrize(("header", "coding"), [
    ("gzip, deflate, br, zstd", "zstd"), ("zstd", "zstd"), ("ZSTD;q=0.5, gzip;q=0.6", "gzip"), ("zstd;q=0", ""),
    ("zstd;q=0.5, gzip;q=0.4", "zstd"), ("*", "gzip"), ("zstd;q=0, *", "gzip"), ("gzip;q=0, zstd", "zstd"),
])  # fmt: skip
def test_zstandard_is_chosen_by_name_if_gzip_is_not_preferred(header, coding):
    assert chosen_coding(header, zstd=True) == coding
