"""Compressed data: gzip, bzip2 and xz, in one member or several, and damage in it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable

import pytest

from p2prdf.errors import DataRefused
from p2prdf.rdf.ntriples import Syntax, read_triples

WAYS = [gzip.compress, bz2.compress, lzma.compress]
JSON = b'{"@id": "urn:a", "urn:p": [1, 2, 3]}'


def count(data: bytes, syntax: Syntax = Syntax.N_TRIPLES) -> int:
    stream = io.BytesIO(data)
    batches = read_triples(
        stream, publication_id="x", syntax=syntax, compressed=True, source="s", strict=True
    )
    return sum(len(batch.s) for batch in batches)


def lines(start: int, stop: int) -> bytes:
    return b"".join(b"<urn:%d> <urn:p> <urn:o> .\n" % number for number in range(start, stop))


@pytest.mark.parametrize("compress", WAYS)
def test_members_one_after_the_other_are_one_file(compress: Callable[[bytes], bytes]) -> None:
    assert count(compress(lines(0, 5000)) + compress(lines(5000, 9000)) + compress(b"")) == 9000
    half = lines(0, 10)[:100], lines(0, 10)[100:]
    assert count(compress(half[0]) + compress(half[1])) == 10
    assert count(compress(b"\xef\xbb\xbf" + lines(0, 2))) == 2
    assert count(compress(JSON), Syntax.JSON_LD) == 3


@pytest.mark.parametrize("syntax", [Syntax.N_TRIPLES, Syntax.TURTLE, Syntax.JSON_LD])
@pytest.mark.parametrize("compress", WAYS)
def test_damaged_data_is_refused(compress: Callable[[bytes], bytes], syntax: Syntax) -> None:
    packed = compress(lines(0, 5000) if syntax is not Syntax.JSON_LD else b"[" + JSON + b"," * 10_000 + b"]")
    for damaged in (packed[: len(packed) // 2], packed[:-1], packed[:20] + b"\0\0\0\0\0\0" + packed[26:], packed[:3]):
        with pytest.raises(DataRefused, match=r"^s"):
            count(damaged, syntax)


@pytest.mark.parametrize("junk", [b"junk", b"\0\0junk", lines(5, 6), b"BZ", b"\xfd7zXZ\x00", b"x" * 300_000])
@pytest.mark.parametrize("compress", WAYS)
def test_other_bytes_after_a_member_are_refused(compress: Callable[[bytes], bytes], junk: bytes) -> None:
    for size in (5, 20_000):
        with pytest.raises(DataRefused, match=r"^s.*the compressed data is damaged"):
            count(compress(lines(0, size)) + junk)


@pytest.mark.parametrize("compress", WAYS)
def test_zeros_after_members_are_padding(compress: Callable[[bytes], bytes]) -> None:
    assert count(compress(lines(0, 5)) + b"\0" * 8 + compress(lines(5, 9)) + b"\0" * 300_000) == 9


def test_xz_that_needs_much_memory_is_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 28}]
    packed = lzma.compress(lines(0, 5), filters=filters)
    with pytest.raises(DataRefused, match=r"[Mm]emory"):
        count(packed)
