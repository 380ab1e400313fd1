"""Whether hosts can be made here, and whether the faults between them really break the network.

Hosts send numbers to each other by datagrams.  Nothing is waited for longer than needed: an arrival is waited
for; a loss is concluded after ``LOST_SECONDS``, so a slow machine may hide a cut that does not cut, but never
lets one fail that does.
"""

from __future__ import annotations

import itertools
import select
import socket
import time
from typing import Final

from netns.lan import Host, Lan

__all__ = ["trial"]

PORT: Final = 7400
LOST_SECONDS: Final = 0.3
ARRIVED_SECONDS: Final = 30.0
PAUSE_SECONDS: Final = 0.1


def trial(lan: Lan) -> dict[str, list[str]]:
    """Make three hosts, break links between them; return the working links of each state (``a>b``: b hears a)."""
    hosts = {name: lan.add(name) for name in "abc"}
    a, b, _ = hosts.values()
    sockets = {name: host.socket() for name, host in hosts.items()}
    for each in sockets.values():
        each.bind(("", PORT))
    numbers = itertools.count()

    def heard(lost: frozenset[str]) -> list[str]:
        pairs = [f"{one}>{two}" for one, two in itertools.permutations(hosts, 2)]
        return [
            pair for pair in pairs
            if _hears(sockets[pair[0]], sockets[pair[2]], hosts[pair[2]], numbers, waiting=pair not in lost)
        ]  # fmt: skip

    told = {"whole": heard(frozenset())}
    lan.cut([a], [b])
    told["cut"] = heard(frozenset({"a>b"}))
    lan.part([a], [b, hosts["c"]])
    told["parted"] = heard(frozenset({"a>b", "b>a", "a>c", "c>a"}))
    lan.heal()
    told["healed"] = heard(frozenset())
    lan.pull(a)
    told["pulled"] = heard(frozenset({"a>b", "b>a", "a>c", "c>a"}))
    lan.plug(a)
    before = b.address
    lan.readdress(b, lan.fresh_address())
    told["moved"] = heard(frozenset())
    told["addresses"] = [before, b.address]
    lan.call("b.nodes", b)
    told["named"] = [socket.gethostbyname("b.nodes")]
    for each in sockets.values():
        each.close()
    return told


def _hears(
    sender: socket.socket, receiver: socket.socket, at: Host, numbers: itertools.count[int], *, waiting: bool
) -> bool:
    """Tell whether datagrams of one host reach another; ``waiting``: they should, so patience is in place."""
    deadline = time.monotonic() + (ARRIVED_SECONDS if waiting else LOST_SECONDS)
    said = set()
    while (left := deadline - time.monotonic()) > 0:
        said.add(f"{next(numbers)}".encode())
        try:
            for number in said:
                sender.sendto(number, (at.address, PORT))
        except OSError:
            pass  # an interface without a cable says so
        readable, _, _ = select.select([receiver], [], [], min(PAUSE_SECONDS, left))
        if readable and receiver.recv(64) in said:
            return True
    return False
