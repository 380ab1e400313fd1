"""The file of the keys that datagrams are sealed by, read again when it changes (:mod:`p2prdf_node.watched`).

The problem.  All nodes of a cluster seal their datagrams by one key.  When it is to be replaced, because somebody may
know it, there is a time when some nodes have the new one and others do not; and what else is made from the cluster's
secret, its name on the disks and the numbers of publishers, must stay what it is.

The idea.  The keys have a file of their own, one a line.  The first of them seals, and what any of them has sealed is
opened.  So a key is replaced in three steps, each taken at all nodes before the next: the new one is added behind the
old one; it is put first; the old one is taken away.  The word ``secret`` stands for the key that is made from the
cluster's secret, which is the only one without such a file.
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
    """Return the keys that a file's text gives, the one that seals first.

    ``of_secret``: the one that the word ``secret`` stands for.  Lines that begin with ``#`` are comments.  Raises
    LocalProtocolError, which names the file and the line, and never what stands there.
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
    """The keys in use, in ``keyring``.  Raises LocalProtocolError when it is made, if the file does not do."""

    def __init__(self, path: Path, of_secret: bytes, keyring: Keyring):
        super().__init__(path, partial(read_keys, of_secret), "seal_keys_file")
        self._keyring = keyring
        keyring.take(self.value)

    async def poll(self) -> bool:
        """Look at the file, and take up what has changed.  Return whether something was taken up."""
        changed = await super().poll()
        if changed:
            self._keyring.take(self.value)
        return changed

    def said(self) -> dict[str, Any]:
        """Return the names of the keys."""
        return {"keys": list(Keyring(self.value).names)}
