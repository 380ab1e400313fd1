"""Which hosts a replica's target or source may be on: the operator's list, not the user's.

Whoever names an endpoint makes this process send requests, with its rights, to where the name leads.  So only hosts
on a list are asked; a name is resolved once for a connection and the address is looked at before it is used, so that
a name cannot lead somewhere else a moment later; redirects are not followed.  Addresses of loopback, private and
reserved ranges are refused unless the list says that its hosts may be there, and link-local ones (where clouds hand
out credentials) and multicast always are, but for an address that is on the list itself.
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
    """The hosts that may be asked."""

    def __init__(self, listed: Iterable[str], *, private: bool = False):
        """``listed``: ``host`` or ``host:port``, IPv6 addresses in brackets; ``private``: also on private networks.

        Raises TargetRefused for an entry that is no host.
        """
        self._listed: set[tuple[str, int | None]] = set()
        for entry in listed:
            try:
                parts = urlsplit(f"//{entry.strip()}")
                host, port = parts.hostname, parts.port
            except ValueError:
                host, port = None, None
            if not host or parts.path or parts.username is not None:
                raise TargetRefused(f"not a host, with or without a port: {entry!r}")
            self._listed.add((host, port))
        self._private = private

    @property
    def entries(self) -> list[str]:
        """The list, in order, as it can be told to others."""
        return sorted(host_entry(host, port) for host, port in self._listed)

    def check(self, url: str) -> None:
        """Raise TargetRefused for a URL whose host and port are not listed, or that names a forbidden address."""
        host, port = checked_url(url)
        if not {(host, None), (host, port)} & self._listed:
            raise TargetRefused(f"{host}:{port} is not on the list of hosts that may be asked")
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return
        self.check_address(host, host)

    def check_address(self, host: str, address: str) -> None:
        """Raise TargetRefused if a listed host must not be at an address."""
        found = _plain(ipaddress.ip_address(address.partition("%")[0]))
        literal = _is_address(host)
        if (found.is_link_local or found.is_multicast or found.is_unspecified) and not literal:
            raise TargetRefused(f"{host} leads to {found}, a link-local or multicast address")
        if not found.is_global and not self._private:
            reason = "which is on no public network, and private ones are not allowed"
            raise TargetRefused(f"{host} leads to {found}, {reason}")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _plain(address: _Address) -> _Address:
    """Return an IPv4 address for one that is mapped into IPv6."""
    mapped = getattr(address, "ipv4_mapped", None)
    return address if mapped is None else mapped
