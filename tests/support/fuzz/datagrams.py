"""Fuzzed datagrams: without the cluster's key, with it and too late, replayed, for others, and with bad content.

Messages between nodes pass through a proxy here and are recorded, so the truncated, flipped and replayed
datagrams are genuine.  None of these may be opened and accepted: each must be counted as refused, for a reason,
and answered by nothing.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]

from fuzz.mutate import _changed
from fuzz.target import Report, Target
from p2prdf.errors import RemoteProtocolError
from p2prdf.overlay.swim_messages import Packet
from p2prdf.wire.datagrams import decode
from p2prdf_node.config import NodeConfig
from p2prdf_node.seal import OVERHEAD, Keyring, Sealer

__all__ = ["run"]

_BURST: Final = 40
_QUEUE_BYTES_MAX: Final = 40_000
_RECORDED: Final = 4096
_RECORD_SECONDS: Final = 3.0
_MARK: Final = b"K"
_HEADER_BYTES: Final = OVERHEAD - 16


class _Queues:
    """Bytes waiting in the sockets of nodes, by the kernel's table; other kernels than Linux show none."""

    _TABLE: Final = Path("/proc/net/udp")

    def look(self, ports: list[int]) -> tuple[int, int]:
        """Return the bytes in the fullest queue, and the number of datagrams dropped for want of room."""
        try:
            rows = [line.split() for line in self._TABLE.read_text("ascii").splitlines()[1:]]
        except OSError:
            time.sleep(0.002)
            return 0, 0
        mine = [row for row in rows if int(row[1].partition(":")[2], 16) in ports]
        waiting = max((int(row[4].partition(":")[2], 16) for row in mine), default=0)
        return waiting, sum(int(row[12]) for row in mine)


class _Maker:
    """Makes bad datagrams; ``recorded`` holds genuine ones: the receiver's place, and the datagram."""

    def __init__(self, rng: Random, keys: list[int], recorded: deque[tuple[int, bytes]]):
        self._rng, self._keys, self._recorded = rng, keys, recorded
        config = NodeConfig()
        self._ours = Sealer(Keyring([config.seal_key]), 0)
        self._others = Sealer(Keyring([bytes(32)]), 0)
        self.kinds: dict[str, Callable[[], tuple[int, bytes]]] = {
            "noise": self._noise, "of another key": self._forged, "truncated": self._truncated,
            "flipped": self._flipped, "replayed": self._replayed, "at a wrong time": self._untimely,
            "to another node": self._misdirected, "nonsense under the key": self._nonsense,
        }  # fmt: skip

    def make(self) -> tuple[str, int, bytes]:
        """Return a kind, the place of the node it goes to, and a datagram."""
        kind = self._rng.choice(list(self.kinds))
        place, datagram = self.kinds[kind]()
        return kind, place, datagram

    def _place(self) -> int:
        return self._rng.randrange(len(self._keys))

    def _genuine(self) -> tuple[int, bytes]:
        return self._recorded[self._rng.randrange(len(self._recorded))]

    def _payload(self) -> bytes:
        return self._genuine()[1][_HEADER_BYTES:-16]

    def _noise(self) -> tuple[int, bytes]:
        rng = self._rng
        length = rng.randrange(1401) if rng.random() < 0.99 else rng.randrange(65_508)
        data = rng.randbytes(length)
        return self._place(), b"\x02" + data[1:] if data and rng.random() < 0.5 else data

    def _forged(self) -> tuple[int, bytes]:
        place = self._place()
        datagram = self._sealed(self._others, self._payload(), place)
        if self._rng.random() < 0.5:  # its header names the cluster's key
            datagram = datagram[:1] + self._sealed(self._ours, b"", place)[1:5] + datagram[5:]
        return place, datagram

    def _sealed(self, sealer: Sealer, payload: bytes, place: int, late: float = 0.0) -> bytes:
        now = max(0.0, time.time() + late)
        return sealer.seal(payload, receiver=self._keys[place], nonce=self._rng.randbytes(8), now=now)

    def _truncated(self) -> tuple[int, bytes]:
        place, datagram = self._genuine()
        return place, datagram[: self._rng.randrange(len(datagram))]

    def _flipped(self) -> tuple[int, bytes]:
        place, datagram = self._genuine()
        changed = bytearray(datagram)
        for at in self._rng.sample(range(len(changed)), self._rng.randint(1, 3)):
            changed[at] ^= 1 << self._rng.randrange(8)
        return place, bytes(changed)

    def _replayed(self) -> tuple[int, bytes]:
        return self._genuine()

    def _untimely(self) -> tuple[int, bytes]:
        place, rng = self._place(), self._rng
        late = rng.choice((-1, 1)) * rng.choice((10.5, 60.0, 3600.0, 1e9))
        return place, self._sealed(self._ours, self._payload(), place, late)

    def _misdirected(self) -> tuple[int, bytes]:
        place = self._place()
        other = self._rng.choice([each for each in range(len(self._keys)) if each != place])
        return place, self._sealed(self._ours, self._payload(), other)

    def _nonsense(self) -> tuple[int, bytes]:
        place, rng = self._place(), self._rng
        while True:
            packet = msgpack.packb(_changed(rng, msgpack.unpackb(self._payload()[1:])), unicode_errors="surrogatepass")
            if rng.random() < 0.3:
                packet = packet[: rng.randrange(len(packet))] + rng.randbytes(rng.randrange(4))
            try:
                decode(packet, Packet)
            except RemoteProtocolError:
                return place, self._sealed(self._ours, _MARK + packet, place)


def _refused(states: list[dict[str, Any]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for state in states:
        found.update(state["discovery"]["datagrams_refused"])
    return found


async def run(count: int, rng: Random, report: Report, *, folder: Path | None = None) -> None:
    """Send ``count`` bad datagrams to three nodes."""
    async with Target(report, proxied=True, folder=folder) as target:
        states = await target.states()
        ports = [int(node.address.rpartition(":")[2]) for node in target.nodes]
        recorded = _record(target)
        async with asyncio.timeout(30):
            while len(recorded) < 60:
                await asyncio.sleep(0.05)
        watch = await target.begin()
        before, drops = _refused(await target.states()), _Queues().look(ports)[1]
        maker = _Maker(rng, [int(state["key"], 16) for state in states], recorded)
        sockets = [_socket() for _ in range(16)]
        sent, answered, began = Counter[str](), 0, time.monotonic()
        while sent.total() < count:
            for _ in range(min(_BURST, count - sent.total())):
                kind, place, datagram = maker.make()
                rng.choice(sockets).sendto(datagram, ("127.0.0.1", ports[place]))
                sent[kind] += 1
            await asyncio.sleep(0)
            while _Queues().look(ports)[0] > _QUEUE_BYTES_MAX:
                await asyncio.sleep(0.0005)
            answered += sum(map(_received, sockets))
            if not target.warmed and sent.total() >= count // 10:
                await target.warm()
        took = time.monotonic() - began
        async with asyncio.timeout(20):
            while _Queues().look(ports)[0]:
                await asyncio.sleep(0.01)
        await target.finish(watch, same=True)
        answered += sum(map(_received, sockets))
        for each in sockets:
            each.close()
        lost = _Queues().look(ports)[1] - drops
        refused = _refused(await target.states()) - before
        report.say(f"{sent.total():,} in {took:.0f} s ({sent.total() / took:,.0f} a second): {dict(sent)}")
        report.say(f"refused: {dict(refused)}; {lost} dropped by the kernel; {answered} bytes of answers")
        report.check(answered == 0, f"{answered} bytes came back")
        report.check(
            sent.total() - lost <= refused.total() <= sent.total() + _GENUINE_REFUSED_MAX,
            f"{refused.total()} of {sent.total()} were refused, and {lost} lost",
        )
        report.check(refused["malformed"] == sent["nonsense under the key"] or lost > 0, "nonsense was taken for sense")


_GENUINE_REFUSED_MAX: Final = 0


def _record(target: Target) -> deque[tuple[int, bytes]]:
    """Keep the last datagrams between the nodes, once they are delivered."""
    proxy = target.cluster.proxy
    assert proxy is not None
    recorded: deque[tuple[int, bytes]] = deque(maxlen=_RECORDED)
    post, names = proxy.post, [node.name for node in target.nodes]

    def noted(receiver: str, datagram: bytes, source: tuple[str, int]) -> None:
        post(receiver, datagram, source)
        if len(datagram) > OVERHEAD:
            recorded.append((names.index(receiver), datagram))

    proxy.post = noted  # type: ignore[method-assign]
    return recorded


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    made.setblocking(False)
    return made


def _received(given: socket.socket) -> int:
    """Return how many bytes have come in."""
    total = 0
    try:
        while True:
            total += len(given.recv(65536))
    except BlockingIOError:
        return total
