"""Namespaces as hosts: a switch, cables, addresses, names; cables that are pulled and packets that go nowhere.

*Nothing is left behind.*  A namespace lives as long as a process is in it or holds it open.  Those made here
have no names (``ip netns`` knows nothing of them): the process that made them holds them by file descriptors,
and when it ends, even by SIGKILL, the kernel takes them down with everything in them.

*Names.*  The process has its own view of the file system, too, in which another file lies over ``/etc/hosts``:
writing a line there has the effect of a cluster's DNS when a pod got its address.

*Cuts.*  Packets from A to B are cut by giving A a hardware address for B that nobody has.  So they leave A and
get lost in the switch without any notice, and packets from B to A still arrive.  (Traffic control would do it
as well; kernels of small machines often have no such modules.)
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Host", "Lan", "Refused", "enter"]

CLONE_NEWNS: Final = 0x0002_0000
CLONE_NEWUSER: Final = 0x1000_0000
CLONE_NEWNET: Final = 0x4000_0000
_MS_BIND: Final = 0x1000
_MS_PRIVATE: Final = 0x4_0000 | 0x4000
NETWORK: Final = ipaddress.ip_network("10.74.0.0/16")
OWN_ADDRESS: Final = str(NETWORK[1])
FIRST_HOST: Final = 256
"""Hosts have addresses from 10.74.1.0 on, each a new one."""
NOBODY: Final = "02:00:00:00:00:01"
"""A hardware address that no interface has."""
COMMAND_SECONDS: Final = 30.0


class Refused(Exception):
    """This machine does not let us make hosts; the text names the missing permission or program."""


def enter() -> None:
    """Take this process out of the machine's networks, into one of its own, with its own view of the file system.

    Call it before anything else, while there is only one thread.  Without root it takes a user namespace, where these
    are allowed.  Raises Refused.
    """
    if sys.platform != "linux":
        raise Refused(f"network namespaces are Linux's, and this is {sys.platform}")
    if shutil.which("ip") is None:
        raise Refused("there is no ip command (package iproute2)")
    user, group = os.geteuid(), os.getegid()
    try:
        _call("unshare", CLONE_NEWNET | CLONE_NEWNS | (CLONE_NEWUSER if user else 0))
        if user:  # be root in here
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {user} 1")
            Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        _call("mount", None, b"/", None, _MS_PRIVATE, None)
    except OSError as error:
        raise Refused(f"namespaces cannot be made here: {error}") from error


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


@dataclass(slots=True, eq=False)
class Host:
    """One namespace with one interface.  ``port``: the other end of its cable, at the switch."""

    name: str
    address: str
    port: str
    _namespace: int
    _own: int

    def socket(self) -> socket.socket:
        """Return a socket for datagrams in the namespace of this host."""
        self.enter()
        try:
            return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        finally:
            _call("setns", self._own, CLONE_NEWNET)

    def enter(self) -> None:
        """Put the calling process into the namespace; for new processes, before they begin."""
        _call("setns", self._namespace, CLONE_NEWNET)

    def ip(self, *commands: str) -> None:
        """Run commands of ``ip`` there.  Raises Refused."""
        _ip(self._namespace, commands)


class Lan:
    """Hosts on one switch, and this process as one more (after :func:`enter`).  Raises Refused."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self._own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._namespaces = [self._own]
        self._addresses = iter(range(FIRST_HOST, NETWORK.num_addresses - 1))
        self._names: dict[str, str] = {}
        self._cut: set[tuple[str, str]] = set()
        self._folder = tempfile.TemporaryDirectory(prefix="p2prdf-netns-")
        self._hosts_file = Path(self._folder.name) / "hosts"
        self._switch = self._namespace()
        _ip(self._switch, ["link add switch type bridge", "link set switch up"])
        self._plug_in(self._own, "own", OWN_ADDRESS)
        self._write_names()
        _call("mount", str(self._hosts_file).encode(), b"/etc/hosts", None, _MS_BIND, None)

    def close(self) -> None:
        """Let go of everything.  Processes in the hosts must have been ended."""
        with contextlib.suppress(OSError):
            _call("umount2", b"/etc/hosts", 0)
        with contextlib.suppress(Refused):
            _ip(self._own, ["link del eth0"])  # at once: there may be another lan after this one
        for namespace in self._namespaces:
            os.close(namespace)
        self._namespaces.clear()
        self._folder.cleanup()

    def add(self, name: str) -> Host:
        """Make a host with a new address."""
        namespace = self._namespace()
        address = self.fresh_address()
        host = self.hosts[name] = Host(name, address, f"to-{name}", namespace, self._own)
        self._plug_in(namespace, host.port, address)
        return host

    def fresh_address(self) -> str:
        """Return an address that no host has had."""
        return str(NETWORK[next(self._addresses)])

    def readdress(self, host: Host, address: str) -> None:
        """Give a host another address, as a pod gets that is started elsewhere; the old one belongs to nobody then."""
        host.ip("addr flush dev eth0 scope global", f"addr add {address}/{NETWORK.prefixlen} dev eth0")
        host.address = address
        for other in self._everyone():  # otherwise they would send to the former holder of the address
            _ip(other, [f"neigh flush to {address}"])

    def call(self, name: str, host: Host | None) -> None:
        """Point a name to a host, or to nobody."""
        self._names.pop(name, None)
        if host is not None:
            self._names[name] = host.address
        self._write_names()

    # --- faults ----------------------------------------------------------------------------------

    def pull(self, host: Host) -> None:
        """Pull a host's cable at the switch: its interface notices."""
        _ip(self._switch, [f"link set {host.port} down"])

    def plug(self, host: Host) -> None:
        """Put it back."""
        _ip(self._switch, [f"link set {host.port} up"])

    def cut(self, senders: Iterable[Host], receivers: Iterable[Host]) -> None:
        """Lose the packets from senders to receivers; those of the other direction arrive."""
        others = list(receivers)
        for sender in senders:
            lost = [other.address for other in others if other is not sender]
            sender.ip(*(f"neigh replace {each} lladdr {NOBODY} nud permanent dev eth0" for each in lost))
            self._cut |= {(sender.name, each) for each in lost}

    def part(self, some: Iterable[Host], others: Iterable[Host]) -> None:
        """Cut both ways between two groups of hosts; this process still reaches all of them."""
        one, two = list(some), list(others)
        self.cut(one, two)
        self.cut(two, one)

    def heal(self) -> None:
        """Undo all cuts."""
        for name, address in sorted(self._cut):
            if name in self.hosts:
                self.hosts[name].ip(f"neigh del {address} dev eth0")
        self._cut.clear()

    # --- inside ----------------------------------------------------------------------------------

    def _everyone(self) -> list[int]:
        return [self._own, *(host._namespace for host in self.hosts.values())]

    def _namespace(self) -> int:
        """Return a new namespace, held open."""
        try:
            _call("unshare", CLONE_NEWNET)
            made = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise Refused(f"namespaces cannot be made here: {error}") from error
        finally:
            _call("setns", self._own, CLONE_NEWNET)
        self._namespaces.append(made)
        return made

    def _plug_in(self, namespace: int, port: str, address: str) -> None:
        _ip(self._switch, [
            f"link add {port} type veth peer name eth0 netns /proc/{os.getpid()}/fd/{namespace}",
            f"link set {port} master switch", f"link set {port} up",
        ])  # fmt: skip
        _ip(namespace, [
            "link set lo up", f"addr add {address}/{NETWORK.prefixlen} dev eth0", "link set eth0 up",
        ])  # fmt: skip

    def _write_names(self) -> None:
        """Write the file in place, as it is mounted elsewhere."""
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in self._names.items())]
        text = "".join(f"{line}\n" for line in lines)
        with self._hosts_file.open("r+" if self._hosts_file.exists() else "w") as file:
            file.write(text)
            file.truncate()


def _ip(namespace: int, commands: Iterable[str]) -> None:
    """Run commands of ``ip`` in a namespace, all in one process."""
    done = subprocess.run(
        ["ip", "-batch", "-"], input="\n".join(commands), text=True, capture_output=True, timeout=COMMAND_SECONDS,
        check=False, preexec_fn=lambda: _call("setns", namespace, CLONE_NEWNET),
    )  # fmt: skip
    if done.returncode:
        raise Refused(f"ip: {'; '.join(commands)}: {done.stderr.strip()}")
