"""The hosts that a replica's target or source may be on: the operator's list, not the user's.

By naming an endpoint, a user makes this process send requests, with its network access, to that host
(server-side request forgery). Requests therefore go only to listed hosts. A name is resolved once per
connection, and the address is checked before use, so a changing name cannot redirect it. Redirects are not
followed. Loopback, private and reserved addresses are refused unless the list allows them. Link-local addresses
(where clouds serve credentials) and multicast are always refused, except an address that is itself on the list.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TypeAlias
from urllib.parse import urlsplit

from p2prdf.errors import TargetRefused
from p2prdf.interest.registration import checked_url, host_entry

__all__ = ["Hosts", "checked_url"]

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class Hosts:
    """The permitted hosts."""

    def __init__(self, listed: Iterable[str], *, private: bool = False):
        """``listed``: ``host`` or ``host:port``, IPv6 addresses in brackets.

        ``private``: permit addresses of private networks. Raises TargetRefused for an entry that is not a host.
        """
        self._listed: set[tuple[str, int | None]] = set()
        for entry in listed:
            try:
                parts = urlsplit(f"//{entry.strip()}")
                host, port = parts.hostname, parts.port
            except ValueError:
                host, port = None, None
            if not host or parts.path or parts.username is not None:
                raise TargetRefused(f"not a host or host:port: {entry!r}")
            self._listed.add((host, port))
        self._private = private

    @property
    def entries(self) -> list[str]:
        """The sorted list, in a form for other processes."""
        return sorted(host_entry(host, port) for host, port in self._listed)

    def check(self, url: str) -> None:
        """Raise TargetRefused for a URL with an unlisted host or port, or with a forbidden address."""
        host, port = checked_url(url)
        if not {(host, None), (host, port)} & self._listed:
            raise TargetRefused(f"{host}:{port} is not on the list of permitted hosts")
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return
        self.check_address(host, host)

    def check_address(self, host: str, address: str) -> None:
        """Raise TargetRefused if a listed host must not have an address."""
        found = _plain(ipaddress.ip_address(address.partition("%")[0]))
        literal = _is_address(host)
        if (found.is_link_local or found.is_multicast or found.is_unspecified) and not literal:
            raise TargetRefused(f"{host} resolves to {found}, a link-local or multicast address")
        if not found.is_global and not self._private:
            reason = "a non-public address, and private networks are not permitted"
            raise TargetRefused(f"{host} resolves to {found}, {reason}")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _plain(address: _Address) -> _Address:
    """Return the IPv4 address of an IPv4-mapped IPv6 address; others unchanged."""
    mapped = getattr(address, "ipv4_mapped", None)
    return address if mapped is None else mapped
