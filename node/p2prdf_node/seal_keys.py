"""The file of datagram keys, reloaded when it changes (:mod:`p2prdf_node.watched`).

All nodes of a cluster seal their datagrams with one key.  To replace a key that may have leaked, old and new nodes
must understand each other during the change, and values derived from the cluster's secret (its name on the disks, the
numbers of publishers) must not change.

Therefore the keys have a file, one key per line.  The first key seals, and every key opens.  A key is replaced in
three steps, each completed at all nodes before the next: add the new key as the second, swap the two, remove the old
one.  The word ``secret`` stands for the key derived from the cluster's secret, which is the only key without such a
file.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from p2prdf.errors import LocalProtocolError
from p2prdf_node.seal import Keyring, derived_key
from p2prdf_node.watched import WatchedFile

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["KEYS_MAX", "SealKeysFile", "read_keys"]

KEYS_MAX: Final = 4
BYTES_MIN: Final = 16
_WORD: Final = "secret"


def read_keys(of_secret: bytes, text: str, name: str) -> tuple[bytes, ...]:
    """Return the keys in a file's text, the sealing one first.

    ``of_secret``: the key that the word ``secret`` stands for.  Lines that begin with ``#`` are comments.  Raises
    LocalProtocolError with file and line, never with the content of the line.
    """
    keys: list[bytes] = []
    for number, line in enumerate(text.splitlines(), 1):
        word = line.strip()
        if not word or word.startswith("#"):
            continue
        if word != _WORD and len(word.encode()) < BYTES_MIN:
            raise LocalProtocolError(f"{name}, line {number}: a key has at least {BYTES_MIN} bytes, or is {_WORD!r}")
        keys.append(of_secret if word == _WORD else derived_key(word.encode()))
        if len(keys) > KEYS_MAX:
            raise LocalProtocolError(f"{name}, line {number}: more than {KEYS_MAX} keys")
        if len(set(Keyring(keys).names)) < len(keys):
            raise LocalProtocolError(f"{name}, line {number}: it has the name of a key before it")
    if not keys:
        raise LocalProtocolError(f"{name}: there is no key in it")
    return tuple(keys)


class SealKeysFile(WatchedFile[tuple[bytes, ...]]):
    """The keys in use, in ``keyring``.  The constructor raises LocalProtocolError for a bad file."""

    def __init__(self, path: Path, of_secret: bytes, keyring: Keyring):
        self._keyring = keyring
        super().__init__(path, partial(read_keys, of_secret), "seal_keys_file")

    def _take(self, value: tuple[bytes, ...]) -> None:
        super()._take(value)
        self._keyring.take(value)

    def facts(self) -> dict[str, Any]:
        """Return the names of the keys in use."""
        return {"keys": list(Keyring(self.value).names)}
