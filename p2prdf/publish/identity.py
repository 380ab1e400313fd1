"""The publisher identity of a partition, by which repeated rows are the same events.

Spark repeats tasks: after the loss of an executor, as a speculative copy of a slow one, or because the driver
failed before it recorded a commit. The query, the batch number, the partition and, with a deterministic source,
the order of rows stay the same; the attempt does not. A batch job has no lasting number, so its rows are
identified by content, under a publisher of the job.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from p2prdf.publish.options import CONTENT, POSITION, WriteOptions

__all__ = ["Identity", "batch_identity", "stream_identity"]


@dataclass(frozen=True, slots=True)
class Identity:
    """A publisher, and whether its events are identified by content."""

    publisher: int
    by_content: bool

    def of(self, partition: int) -> Identity:
        """Return a partition's identity: its own if events are numbered, the common one otherwise."""
        if self.by_content:
            return self
        return Identity(_hashed("partition", f"{self.publisher:016x}", str(partition)), by_content=False)


def batch_identity(options: WriteOptions) -> Identity:
    """Return the identity of a batch job: derived from its name, or random if it has none."""
    publisher = _hashed("job", options.job) if options.job else secrets.randbits(64)
    return Identity(publisher, (options.identity or CONTENT) == CONTENT)


def stream_identity(options: WriteOptions, query: str, batch: str) -> Identity:
    """Return the identity of a streaming query's batch; its number survives a restart from a checkpoint."""
    return Identity(_hashed("stream", query, batch), (options.identity or POSITION) == CONTENT)


def _hashed(*parts: str) -> int:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, person=b"p2prdf-publish").digest(), "big")
