"""Content negotiation: the media type and content coding that a request selects (RFC 9110, 12.5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, TypeVar

from p2prdf.gateway.problems import Refused

__all__ = ["chosen", "chosen_coding"]

_T = TypeVar("_T")
_RANGE: Final = re.compile(r"\s*([\w!#$&^.+*-]+)/([\w!#$&^.+*-]+)\s*((?:;[^,]*)?)")
_QUALITY: Final = re.compile(r";\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*(?:;|$)", re.IGNORECASE)
_RANGES_MAX: Final = 64


def chosen(accept: str | None, offered: Mapping[str, _T]) -> tuple[str, _T]:
    """Return the preferred media type and its value in ``offered``; the first offered one among equals.

    Raises Refused (406) if none is acceptable.
    """
    ranges = _ranges(accept) if accept and accept.strip() else [("*", "*", 1.0)]
    best: tuple[float, int, str] | None = None
    for place, media_type in enumerate(offered):
        quality = _quality(media_type, ranges)
        if quality > 0 and (best is None or (quality, -place) > best[:2]):
            best = quality, -place, media_type
    if best is None:
        raise Refused(HTTPStatus.NOT_ACCEPTABLE, f"Accept: {accept}: the available types are {', '.join(offered)}")
    return best[2], offered[best[2]]


def chosen_coding(accept_encoding: str, *, zstd: bool) -> str:
    """Return the content coding that an ``Accept-Encoding`` header prefers: ``gzip``, ``zstd``, or "" for none.

    ``zstd``: whether Zstandard is possible; it goes before gzip if the header names both with the same quality.
    """
    found: dict[str, float] = {}
    for part in accept_encoding.split(",")[:_RANGES_MAX]:
        name, _, parameters = part.partition(";")
        quality = _QUALITY.search(f";{parameters}")
        found[name.strip().lower()] = float(quality[1]) if quality else 1.0
    gzip = found.get("gzip", found.get("x-gzip", found.get("*", 0.0)))
    if zstd and found.get("zstd", 0.0) >= gzip and found.get("zstd", 0.0) > 0:
        return "zstd"
    return "gzip" if gzip > 0 else ""


def _ranges(accept: str) -> list[tuple[str, str, float]]:
    found = []
    for part in accept.split(",")[:_RANGES_MAX]:
        match = _RANGE.fullmatch(part)
        if match is None or (match[1] == "*" and match[2] != "*"):
            continue  # a malformed range selects nothing
        quality = _QUALITY.search(match[3])
        found.append((match[1].lower(), match[2].lower(), min(1.0, float(quality[1])) if quality else 1.0))
    return found


def _quality(media_type: str, ranges: list[tuple[str, str, float]]) -> float:
    """Return the quality of a type by its most specific range; 0: not acceptable."""
    kind, _, name = media_type.partition("/")
    found = [
        ((first == kind) + (second == name), quality)
        for first, second, quality in ranges
        if first in (kind, "*") and second in (name, "*")
    ]
    return max(found)[1] if found else 0.0
