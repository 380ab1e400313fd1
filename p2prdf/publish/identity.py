"""Who a partition publishes as, so that a row that is sent again is the same event.

Spark runs tasks again: when an executor is lost, when one is slow (a speculative copy), when the driver died before it
noted that a batch was committed.  What stays the same then is the query, the number of its batch, the partition and, if
the source is deterministic, the order of rows in it; never the attempt.  A batch job has no number that outlives it, so
its rows are known by what they say, under a publisher that is the job's.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from p2prdf.publish.options import CONTENT, POSITION, WriteOptions

__all__ = ["Identity", "batch_identity", "stream_identity"]


@dataclass(frozen=True, slots=True)
class Identity:
    """A publisher, and whether its events are known by their content."""

    publisher: int
    by_content: bool

    def of(self, partition: int) -> Identity:
        """Return the identity of a partition: its own where rows are numbered, that of all where they are not."""
        if self.by_content:
            return self
        return Identity(_hashed("partition", f"{self.publisher:016x}", str(partition)), by_content=False)


def batch_identity(options: WriteOptions) -> Identity:
    """Return the identity of a batch job: made from its name, or drawn if it has none."""
    publisher = _hashed("job", options.job) if options.job else secrets.randbits(64)
    return Identity(publisher, (options.identity or CONTENT) == CONTENT)


def stream_identity(options: WriteOptions, query: str, batch: str) -> Identity:
    """Return the identity of one batch of a streaming query, whose number outlives a restart from its checkpoint."""
    return Identity(_hashed("stream", query, batch), (options.identity or POSITION) == CONTENT)


def _hashed(*parts: str) -> int:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, person=b"p2prdf-publish").digest(), "big")
