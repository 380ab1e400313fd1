"""Zstandard for tests, which are skipped if its library is not installed."""

from __future__ import annotations

import pytest

__all__ = ["zstd_compressed", "zstd_expanded"]

_REASON = "the package zstandard is not installed (extra zstd)"


def zstd_compressed(data):
    """Return one frame."""
    return pytest.importorskip("zstandard", reason=_REASON).compress(data)


def zstd_expanded(data):
    """Return the content of one frame, which need not state its length."""
    return pytest.importorskip("zstandard", reason=_REASON).ZstdDecompressor().decompressobj().decompress(data)
