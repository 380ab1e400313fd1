"""Read files with secrets: tokens, credentials, keys."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from p2prdf.errors import LocalProtocolError

__all__ = ["read_private"]

_OTHERS: Final = 0o027
"""Permissions that others and the group must not have.

The group may read, since Kubernetes gives a secret to a process of another user by its group.
"""
_BYTES_MAX: Final = 1 << 20


def read_private(file: Path, content: str) -> str:
    """Return the text of a file that others may not read; messages call it ``content``.

    Raises LocalProtocolError, without quoting the content, for a file that others may read or its group may write,
    that cannot be read, is larger than 1 MiB or not in UTF-8.
    """
    try:
        with file.open("rb") as stream:
            if stat.S_IMODE(os.fstat(stream.fileno()).st_mode) & _OTHERS:
                raise LocalProtocolError(
                    f"{file} holds {content}, but others may read it or its group may write it: chmod 600 {file}"
                )
            read = stream.read(_BYTES_MAX + 1)
    except OSError as error:
        raise LocalProtocolError(f"{file}: {content} cannot be read: {error.strerror}") from None
    if len(read) > _BYTES_MAX:
        raise LocalProtocolError(f"{file}: more than {_BYTES_MAX:,} bytes of {content}")
    try:
        return read.decode()
    except UnicodeDecodeError:
        raise LocalProtocolError(f"{file}: {content} must be text in UTF-8") from None
