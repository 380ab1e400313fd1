"""msgpack within bounds, for frames and datagrams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]  # it ships no types
import numpy as np

from p2prdf.errors import RemoteProtocolError
from p2prdf.rdf.dictionary import DIGEST_BYTES
from p2prdf.wire.limits import ROWS_MAX, TERMS_MAX

__all__ = ["packer", "unpack"]

_BIN_BYTES_MAX: Final = max(8 * ROWS_MAX + 1, DIGEST_BYTES * TERMS_MAX)
"""The longest column, or the digests of all terms of a frame; their readers check the exact bound."""


def packer() -> Callable[[Any], bytes]:
    """Return a function from values to msgpack, for one thread."""
    pack: Callable[[Any], bytes] = msgpack.Packer(default=_plain).pack
    return pack


def _plain(value: Any) -> Any:
    """Convert a numpy scalar to a type that msgpack knows."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in a message")


def unpack(
    data: bytes | memoryview, *, arrays_max: int, strings_max: int, bytes_max: int = _BIN_BYTES_MAX,
    count: Callable[[tuple[Any, ...]], Any] | None = None,
) -> Any:  # fmt: skip
    """Build a value; ``count`` is called with each array.  Raises RemoteProtocolError unless it is well-formed."""
    try:
        return msgpack.unpackb(
            data, use_list=False, raw=False, strict_map_key=True, list_hook=count, ext_hook=_no_extension,
            max_array_len=arrays_max, max_str_len=strings_max, max_bin_len=bytes_max,
            max_map_len=0, max_ext_len=0,
        )  # fmt: skip
    except (ValueError, msgpack.UnpackException) as error:
        raise RemoteProtocolError(f"not a frame: {(str(error) or type(error).__name__)[:200]}") from None


def _no_extension(code: int, data: bytes) -> Any:  # noqa: ARG001
    raise RemoteProtocolError(f"msgpack extension type {code}")
