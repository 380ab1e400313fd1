"""Zstandard in bounded pieces: any division of the input, several frames, truncation, windows, bombs."""

from __future__ import annotations

import contextlib
import io
import itertools
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2prdf.errors import DataRefused
from p2prdf.rdf.ntriples import Syntax, read_triples
from p2prdf.rdf.zstd import BLOCK_BYTES_MAX, Damaged, ExpandedFile, Expander, compressor

zstandard = pytest.importorskip("zstandard", reason="the package zstandard is not installed (extra zstd)")

TEXT = b"".join(b"<urn:%d> <urn:p> \"x\" .\n" % number for number in range(20_000)) + b"#" * 400_000
SKIPPABLE = b"\x5a\x2a\x4d\x18\x05\0\0\0hello"


def packed(data, **how):
    return zstandard.ZstdCompressor(**how).compress(data)


def expanded(data, size, window=1 << 23):
    expander = Expander(window)
    found = []
    for start in range(0, len(data), size):
        expander.feed(data[start : start + size])
        while piece := expander.expand():
            assert len(piece) <= BLOCK_BYTES_MAX
            found.append(piece)
    expander.end()
    return b"".join(found)


@pytest.mark.parametrize("how", [{"level": 1}, {"level": 19, "write_checksum": True}, {"write_content_size": False}])
@pytest.mark.parametrize("size", [7, 1000, 1 << 20])
def test_frames_are_expanded_one_after_the_other_however_the_input_is_cut(how, size):
    data = packed(TEXT, **how)
    assert expanded(data + SKIPPABLE + packed(b"") + data, size) == TEXT + TEXT


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=300), max_size=4), st.integers(1, 50), st.data())
def test_every_truncation_is_damage(parts, size, drawn):
    frames = [packed(part, write_checksum=True) for part in parts]
    assert expanded(b"".join(frames), size) == b"".join(parts)
    ends = {0, *itertools.accumulate(map(len, frames))}
    whole = b"".join(frames)
    cut = drawn.draw(st.integers(0, len(whole)))
    if cut in ends:
        expanded(whole[:cut], size)
    else:
        with pytest.raises(Damaged, match="breaks off"):
            expanded(whole[:cut], size)


@settings(max_examples=100)
@given(st.binary(max_size=200), st.integers(1, 50))
def test_any_bytes_are_expanded_or_damaged(data, size):
    for head in (b"", b"\x28\xb5\x2f\xfd"):
        with contextlib.suppress(Damaged):
            expanded(head + data, size)


def test_bomb_expands_by_one_block_at_a_time_and_a_large_window_is_refused():
    bomb = packed(bytes(1 << 26))
    assert len(bomb) < 5000
    expander = Expander(1 << 23)
    expander.feed(bomb)
    assert len(expander.expand()) <= BLOCK_BYTES_MAX
    wide = zstandard.ZstdCompressionParameters(window_log=24, compression_level=3)
    stream = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    data = stream.compress(TEXT) + stream.flush()
    with pytest.raises(Damaged, match="too much memory"):
        expanded(data, 1000)
    assert expanded(data, 1000, window=1 << 27) == TEXT


def test_compressor_writes_one_frame_with_a_checksum():
    stream = compressor()
    data = stream.compress(TEXT) + stream.flush()
    assert expanded(data, 500) == TEXT
    with pytest.raises(Damaged, match="checksum"):
        expanded(data[:-1] + bytes([data[-1] ^ 1]), 500)


def test_compressed_files_are_read_as_triples_and_damage_is_named():
    def read(data):
        batches = read_triples(
            io.BytesIO(data), publication_id="t", syntax=Syntax.N_TRIPLES, compressed=True, source="s.zst"
        )
        return sum(len(batch.s) for batch in batches)

    data = packed(TEXT[: TEXT.index(b"<urn:9000>")])
    assert read(data + data) == 2 * 9000
    with pytest.raises(DataRefused, match=r"^s\.zst: .*damaged.*breaks off"):
        read(data[:-9])


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(DataRefused, match=r"p2prdf\[zstd\]"):
        ExpandedFile(io.BytesIO(), 1 << 23)
