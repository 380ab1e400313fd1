"""Credentials for an endpoint: from a file or the environment, never from a command line, which all can read."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from p2prdf.errors import LocalProtocolError
from p2prdf.interest.registration import checked_url, host_entry
from p2prdf.private_files import read_private

__all__ = ["CREDENTIALS_VARIABLE", "Credentials", "CredentialsByHost", "find_credentials", "read_credentials"]

CREDENTIALS_VARIABLE: Final = "P2PRDF_ENDPOINT_AUTH"


class Credentials:
    """What is sent to prove who asks.  It does not show itself in messages and logs."""

    __slots__ = ("_header",)

    def __init__(self, text: str, *, source: str):
        """``text``: ``basic USER:PASSWORD`` or ``bearer TOKEN``; raises LocalProtocolError, without repeating it."""
        scheme, _, rest = text.strip().partition(" ")
        rest = rest.strip()
        printable = rest.isprintable() and rest
        if scheme.lower() == "basic" and printable and ":" in rest:
            self._header = "Basic " + base64.b64encode(rest.encode()).decode()
        elif scheme.lower() == "bearer" and printable and " " not in rest and rest.isascii():
            self._header = f"Bearer {rest}"
        else:
            raise LocalProtocolError(f"{source}: no credentials: write basic USER:PASSWORD or bearer TOKEN in one line")

    @property
    def headers(self) -> Mapping[str, str]:
        """The header that proves it."""
        return {"Authorization": self._header}

    def __repr__(self) -> str:
        return "Credentials(...)"


def find_credentials(file: Path | None, environment: Mapping[str, str] = os.environ) -> Credentials | None:
    """Return the credentials of a file, else of the environment, else None.

    Raises LocalProtocolError for a file that others may read, that cannot be read, or that has no credentials.
    """
    if file is None:
        text = environment.get(CREDENTIALS_VARIABLE)
        return None if text is None else Credentials(text, source=CREDENTIALS_VARIABLE)
    return Credentials(read_private(file, "credentials"), source=str(file))


class CredentialsByHost:
    """Credentials for several hosts, from a file of the operator's."""

    def __init__(self, text: str, *, source: str):
        """``text``: in each line ``HOST`` or ``HOST:PORT``, then what :class:`Credentials` takes; ``#`` comments.

        Raises LocalProtocolError, which names the line and does not repeat it.
        """
        self._by_host: dict[str, Credentials] = {}
        for number, line in enumerate(text.splitlines(), 1):
            host, _, rest = line.strip().partition(" ")
            if host and not host.startswith("#"):
                self._by_host[host.lower()] = Credentials(rest, source=f"{source}:{number}")

    def of(self, url: str) -> Credentials | None:
        """Return what is sent to the host of an endpoint; an entry with its port goes first."""
        host, port = checked_url(url)
        return self._by_host.get(host_entry(host, port)) or self._by_host.get(host_entry(host, None))


def read_credentials(file: Path | None) -> CredentialsByHost:
    """Return the credentials of a file by host; none without one.

    Raises LocalProtocolError for a file that others may read, that cannot be read, or that has a line that is none.
    """
    return CredentialsByHost("" if file is None else read_private(file, "credentials"), source=str(file))
