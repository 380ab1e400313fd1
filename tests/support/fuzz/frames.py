"""Fuzzed frames: mutations of genuine frames of every type, as a stranger, as a client and as a peer.

Three parts, each with nodes of its own:

* ``malformed``: frames that no decoder takes (and, before a hello, anything else than a hello), one to a connection.
  The node has to say why, and to end the connection; nothing else may come of it.
* ``requests``: well-formed frames that a welcomed client may send, with contents at random.  A ping behind each one
  shows when it has been processed.  The published triples have a vocabulary of their own.
* ``envelopes``: well-formed and untrue, from a sender that claims to be a known node: without TLS nothing contradicts
  the claim, with TLS a captured member could send the same.  Nodes believe such a sender, so the only demand is that
  they go on: no exception, no end, bounded memory, answers in time.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from fuzz.genuine import Maker, bodies
from fuzz.mutate import framed, mutated
from fuzz.target import Report, Target
from p2prdf.columns import ARRAYS, LISTS
from p2prdf.errors import P2PRDFError
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire import messages as m
from p2prdf.wire.codec import FrameCodec, FrameReader
from p2prdf_node.session import HANDLERS

__all__ = ["run"]

_TALKS: Final = 48
"""Number of simultaneous connections."""
_TALKS_BELIEVED: Final = 6
"""Number of simultaneous connections that claim to be of nodes."""
_SECONDS: Final = 20.0
_POOL: Final = 40
"""Number of genuine frames of each type, made again after each ``_RENEW`` mutations."""
_RENEW: Final = 20_000
_ASKED: Final = 25
"""Requests of one connection."""
_TOLD: Final = 100
"""Envelopes of one connection."""
_END: Final = framed(b"\xc0")
"""No frame: its reader ends the connection, after it has processed everything before."""
_LATER_SECONDS: Final = 0.3
_WAITING: Final = 0.1
_SHARES: Final = {"malformed": 0.6, "requests": 0.3, "envelopes": 0.1}


class _Talk(asyncio.Protocol):
    """One connection: sends something, and reads until the other side ends it."""

    def __init__(self, data: bytes, ended: asyncio.Future[bytes], *, hang_up: bool, later: bytes):
        self._data, self._ended, self._hang_up, self._later = data, ended, hang_up, later
        self._read = bytearray()

    def connection_made(self, transport: Any) -> None:
        """Send everything at once."""
        transport.write(self._data)
        if self._later:
            asyncio.get_running_loop().call_later(_LATER_SECONDS, transport.write, self._later)
        if self._hang_up:
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Store the answer."""
        self._read += data

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the answer on."""
        if not self._ended.done():
            self._ended.set_result(bytes(self._read))


async def _said(port: int, data: bytes, *, hang_up: bool = False, later: bytes = b"") -> list[Any]:
    """Send something to a node, and more ``later``, and return its answers.

    Raises TimeoutError if it does not end the connection.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[bytes] = loop.create_future()
    transport, _ = await loop.create_connection(lambda: _Talk(data, ended, hang_up=hang_up, later=later), "127.0.0.1", port)  # noqa: E501
    try:
        async with asyncio.timeout(_SECONDS):
            answered = await ended
    finally:
        transport.abort()
    codec = FrameCodec(TermDictionary(), LISTS)
    return [each for body in FrameReader().feed(answered) for each in codec.decode(body)]


class _Source:
    """Frames at random: genuine ones and mutations of them, told apart by a decoder like that of nodes."""

    def __init__(self, rng: Random, contacts: list[m.Contact], known: list[int]):
        self.rng, self.contacts, self.known = rng, contacts, known
        self.reason = ""
        """The reason why the last frame was refused."""
        self._made = 0
        self._renew()

    def _renew(self) -> None:
        self._bodies = bodies(self.rng, _POOL, self.contacts)
        self._kinds = list(self._bodies)
        self._codec = FrameCodec(TermDictionary(), ARRAYS)
        self._dictionary = TermDictionary()
        self._maker = Maker(self.rng, self._dictionary, self.contacts, self.known)
        self._encoder = FrameCodec(self._dictionary, LISTS)

    def mutated(self) -> tuple[bytes, list[Any] | None, bool]:
        """Return a mutated frame, its messages if it is valid, and whether a reader would wait for more of it."""
        self._made += 1
        if self._made % _RENEW == 0:
            self._renew()
        rng = self.rng
        frame = mutated(rng, rng.choice(self._bodies[rng.choice(self._kinds)]))
        reader, decoded = FrameReader(), list[Any]()
        try:
            for body in reader.feed(frame):
                decoded += self._codec.decode(body, unchecked=True)  # as nodes decode frames of clients
        except P2PRDFError as error:
            self.reason = str(error)
            return frame, None, False
        return frame, decoded, bool(reader.pending)

    def malformed(self, *, trusted: bool) -> tuple[bytes, bool]:
        """Return a frame that no decoder takes, and whether a reader would wait for more of it.

        ``trusted``: a decoder that takes terms by the digests that come with them, without a check, refuses it
        as well.
        """
        while True:
            frame, decoded, pending = self.mutated()
            if decoded is None and trusted and "term" in self.reason:
                continue
            if frame != _END and (decoded is None or (pending and not decoded)):
                return frame, pending

    def unfit(self) -> tuple[bytes, bool]:
        """Return a frame that cannot be the first of a connection, well-formed or not."""
        while True:
            frame, decoded, pending = self.mutated()
            if frame != _END and (decoded is None or (pending and not decoded)):
                return frame, pending
            if decoded and not isinstance(decoded[0], m.ClientHello | m.PeerHello):
                return frame, pending

    def made(self, kind: type) -> bytes:
        """Return a well-formed frame of a type, with contents at random."""
        while True:
            self._made += 1
            if self._made % _RENEW == 0:
                self._renew()
            body = self._encoder.encode([self._maker.message(kind)])[4:]
            try:
                self._codec.decode(body)
            except P2PRDFError:
                continue
            return framed(body)

    def taken(self, wanted: Callable[[Any], bool]) -> bytes | None:
        """Return a mutated frame with messages that are all ``wanted``; None if none was found."""
        for _ in range(20):
            frame, decoded, pending = self.mutated()
            if decoded and not pending and all(map(wanted, decoded)):
                return frame
        return None


class _Run:
    """The parts of a run."""

    def __init__(self, target: Target, source: _Source, report: Report):
        self.target, self.source, self.report = target, source, report
        self.counts: Counter[str] = Counter()
        self.done = 0
        self._ports = [int(node.address.rpartition(":")[2]) for node in target.nodes]
        self._hello = _encoded(m.ClientHello(agent="fuzz"))

    async def spend(self, count: int, talk: Callable[[], Any], talks: int) -> float:
        """Run ``talks`` at a time until ``count`` frames have been processed; return the seconds."""
        began = time.monotonic()

        async def talking() -> None:
            while self.done < count:
                await talk()
                if not self.target.warmed and self.done >= count // 10:
                    await self.target.warm()

        async with asyncio.TaskGroup() as group:
            for _ in range(talks):
                group.create_task(talking())
        return time.monotonic() - began

    def _peer_hello(self, place: int) -> bytes:
        """Return another node's first message to the node at a place."""
        contacts = self.source.contacts
        return _encoded(m.PeerHello(contacts[(place + 1) % len(contacts)], contacts[place].key))

    async def malformed(self) -> None:
        """One bad frame, at first, after a client's hello or after a peer's."""
        rng, role = self.source.rng, self.source.rng.choice(("stranger", "client", "peer"))
        place = rng.randrange(len(self._ports))
        if role == "stranger":
            first, (frame, pending) = b"", self.source.unfit()
        else:
            first = self._hello if role == "client" else self._peer_hello(place)
            frame, pending = self.source.malformed(trusted=role == "peer")
        self.done += 1
        self.counts[role] += 1
        answered = await _said(self._ports[place], first + frame + (b"" if pending else _END), hang_up=pending)
        if pending:
            self.counts["hung up"] += 1
            return
        last = answered[-1] if answered else None
        fine = isinstance(last, m.ClientError) and last.request == 0 and last.code == "remote-protocol"
        taken = fine and "a frame: None is not a sequence" in last.text
        self.report.check(fine and not taken, f"{role} said {frame[:200]!r} and was answered {last!r:.300}")

    async def requests(self) -> None:
        """Send requests of a client, with a ping behind each."""
        rng, data = self.source.rng, [self._hello]
        for number in range(_ASKED):
            data += [self._request(), _encoded(m.ClientPing(1_000_000 + number))]
        # Some wait for slow requests: queries that are parsed, publications that are acknowledged.
        said, port = b"".join(data), rng.choice(self._ports)
        waits = rng.random() < _WAITING
        answered = await (_said(port, said, later=_END) if waits else _said(port, said + _END))
        pongs = sum(isinstance(each, m.ClientDone) and each.request - 1_000_000 in range(_ASKED) for each in answered)
        self.done += min(pongs + 1, _ASKED)  # a frame that is no request ends the connection, and was processed
        self.counts.update(type(each).__name__ for each in answered)
        last = answered[-1] if answered else None
        self.report.check(isinstance(last, m.ClientError), f"the last answer was {last!r:.300}")

    def _request(self) -> bytes:
        if self.source.rng.random() < 0.1:
            found = self.source.taken(lambda each: type(each) in HANDLERS)
            if found is not None:
                return found
        return self.source.made(self.source.rng.choice(list(HANDLERS)))

    async def envelopes(self) -> None:
        """Send messages of a node, with a frame behind all of them that is none."""
        place = self.source.rng.randrange(len(self._ports))
        data = [self._peer_hello(place), *(self._envelope() for _ in range(_TOLD)), _END]
        try:
            answered = await _said(self._ports[place], b"".join(data))
        except TimeoutError:  # a node that is busy with earlier messages does not read on
            self.counts["not read in time"] += 1
            return
        last = answered[-1] if answered else None
        fine = isinstance(last, m.ClientError) and "None is not a sequence" in last.text
        self.counts["whole talks" if fine else f"ended by {last!r:.150}"] += 1
        self.done += _TOLD if fine else 1

    def _envelope(self) -> bytes:
        if self.source.rng.random() < 0.1:
            found = self.source.taken(lambda each: isinstance(each, m.Envelope))
            if found is not None:
                return found
        return self.source.made(m.Envelope)


def _encoded(message: Any) -> bytes:
    return FrameCodec(TermDictionary(), LISTS).encode([message])


async def run(count: int, rng: Random, report: Report, *, folder: Path | None = None) -> None:
    """Send ``count`` bad frames."""
    for part, share in _SHARES.items():
        begun = Report(f"{report.name} {part}")
        begun.wrong = report.wrong
        await _part(part, int(count * share), Random(f"{rng.random()} {part}"), begun, folder)


async def _part(part: str, count: int, rng: Random, report: Report, folder: Path | None) -> None:
    async with Target(report, folder=None if folder is None else folder / part) as target:
        believed = part == "envelopes"
        watch = await target.begin(publishing=not believed)
        # Without TLS every client that knows its number may use a subscription.
        source = _Source(rng, target.contacts, target.known() if believed else [])
        run = _Run(target, source, report)
        took = await run.spend(count, getattr(run, part), _TALKS_BELIEVED if believed else _TALKS)
        await target.finish(watch, same=part == "malformed", believed=believed)
        report.say(f"{run.done:,} in {took:.0f} s ({run.done / took:,.0f} a second): {dict(run.counts)}")
