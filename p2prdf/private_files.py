"""Files with what nobody else is to know: tokens, credentials, keys."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from p2prdf.errors import LocalProtocolError

__all__ = ["read_private"]

_OTHERS: Final = 0o027
"""What nobody may have of it but its owner.  Its group may read: so Kubernetes gives a secret to who is not root."""
_BYTES_MAX: Final = 1 << 20


def read_private(file: Path, what: str) -> str:
    """Return the text of a file that others may not read; ``what`` is in it, for messages.

    Raises LocalProtocolError, without repeating any of it, for a file that others may read or its group write, that
    cannot be read, is larger than 1 MiB or not in UTF-8.
    """
    try:
        with file.open("rb") as stream:
            if stat.S_IMODE(os.fstat(stream.fileno()).st_mode) & _OTHERS:
                raise LocalProtocolError(
                    f"{file}: others may read it, or its group write it, and it has {what}: chmod 600 {file}"
                )
            read = stream.read(_BYTES_MAX + 1)
    except OSError as error:
        raise LocalProtocolError(f"{file}: {what} cannot be read: {error.strerror}") from None
    if len(read) > _BYTES_MAX:
        raise LocalProtocolError(f"{file}: more than {_BYTES_MAX:,} bytes of {what}")
    try:
        return read.decode()
    except UnicodeDecodeError:
        raise LocalProtocolError(f"{file}: {what} are to be text in UTF-8") from None
