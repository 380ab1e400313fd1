"""Credentials for an endpoint: from a file or the environment, since others can read a command line."""

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
    """Credentials for HTTP requests.  Their representation, in messages and logs, hides them."""

    __slots__ = ("_header",)

    def __init__(self, text: str, *, source: str):
        """``text``: ``basic USER:PASSWORD`` or ``bearer TOKEN``; LocalProtocolError, without the text."""
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
        """The authorization header."""
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
    """Credentials for several hosts, from the operator's file."""

    def __init__(self, text: str, *, source: str):
        """``text``: one entry a line: ``HOST`` or ``HOST:PORT``, then credentials; ``#`` begins a comment.

        Credentials are as for :class:`Credentials`. Raises LocalProtocolError, which names the line without its
        text.
        """
        self._by_host: dict[str, Credentials] = {}
        for number, line in enumerate(text.splitlines(), 1):
            host, _, rest = line.strip().partition(" ")
            if host and not host.startswith("#"):
                self._by_host[host.lower()] = Credentials(rest, source=f"{source}:{number}")

    def of(self, url: str) -> Credentials | None:
        """Return the credentials for an endpoint; an entry with its port has precedence."""
        host, port = checked_url(url)
        return self._by_host.get(host_entry(host, port)) or self._by_host.get(host_entry(host, None))


def read_credentials(file: Path | None) -> CredentialsByHost:
    """Return the credentials in a file, by host; none without a file.

    Raises LocalProtocolError for a file that others may read, that cannot be read, or that has an invalid line.
    """
    return CredentialsByHost("" if file is None else read_private(file, "credentials"), source=str(file))
