"""Experiment E2 of the seed paper: hops per triple with and without a cache of addresses.

One publisher sends triples one at a time to an overlay with the queries.  Patterns keep their written order, as in the
paper, so a partial result of the last step fans out to the peers of many literals.  Three ways of sending are counted
on the same messages:

* *no cache*: a lookup for every identifier;
* *identifiers*: the paper's cache (IPC), with the address of every identifier that a peer has sent to;
* *stretches*: the daemon's address cache, which learns from a lookup all owners of the stretch of
  the ring around the identifier (the code of :mod:`p2prdf.overlay.address_cache`).

A lookup is iterative, as in the daemon: a request and a reply for each peer asked, and one more hop for the message.
With known addresses, the messages of one triple from one peer to another at one step are one transfer.

The size is calibrated, because the parameters in the paper do not give its numbers.  With 52 instances per class and
2,000 queries, a triple costs CQC some 790 hops without a cache after 5,000 triples, 800 in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from p2prdf.overlay.address_cache import AddressCache
from p2prdf.rdf.query import Algorithm
from p2prdf.wire.messages import Contact
from p2prdf_lab.experiments.hops import senders
from p2prdf_lab.experiments.results import Claim, Curve, Panel, Result, Table
from p2prdf_lab.experiments.setting import Progress, Setting, quiet, run_fleet, stages
from p2prdf_lab.fleets.finger_hops import finger_table, lookup_hops
from p2prdf_lab.fleets.places import Places, random_positions

if TYPE_CHECKING:

    import numpy.typing as npt

    from p2prdf_lab.fleets.fleet import Messages

__all__ = ["SETTING", "Traffic", "address_cache"]

SETTING: Final = Setting(queries=2000, triples=6000, instances=52)
"""6,000 triples: up to 5,000 for training, then 1,000 measured ones."""

_TRAINING: Final = (0, 1 / 30, 1 / 12, 1 / 6, 1 / 3, 5 / 6)
"""Triples before each measurement, as shares of all: 0, 200, 500, 1,000, 2,000 and 5,000 of 6,000."""

_MEASURED: Final = 1 / 6
_SUCCESSORS: Final = 8
_PUBLISHER: Final = 0

_NO_CACHE, _IDENTIFIERS, _STRETCHES = "no cache", "identifiers (paper)", "stretches (p2prdf)"
_KINDS: Final = (_NO_CACHE, _IDENTIFIERS, _STRETCHES)


@dataclass(slots=True)
class _Sender:
    """The addresses that one peer has learned, by both caches."""

    stretches: AddressCache
    identifiers: set[int] = field(default_factory=set)


class Traffic:
    """Counts hops of messages, triple by triple, for each kind of cache."""

    def __init__(self, ring: Places, triples: int):
        self._ring = ring
        self._contacts = [Contact(key, "peer.sim", 7400) for key in ring.positions.tolist()]
        self._senders: dict[int, _Sender] = {}
        self._publishers = np.full(triples, _PUBLISHER, np.int64)
        self._sent: set[tuple[str, int, int]] = set()
        self.messages = np.zeros(triples, np.int64)
        self.hops: dict[str, npt.NDArray[np.int64]] = {kind: np.zeros(triples, np.int64) for kind in _KINDS}
        self._fingers = finger_table(ring.positions)

    def take(self, messages: Messages) -> None:
        """Count messages, in the order of triples."""
        owners = self._ring.owners(messages.key)
        sources = senders(self._ring, messages, self._publishers)
        lookups = lookup_hops(self._ring.positions, sources, messages.key, self._fingers)
        self._sent.clear()  # the messages of one step do not wait for those of the next
        for cause, source, owner, key, lookup in zip(
            *(column.tolist() for column in (messages.cause, sources, owners, messages.key, lookups)), strict=True
        ):
            if source != owner:
                self._send(cause, source, owner, key, lookup)

    def _send(self, cause: int, source: int, owner: int, key: int, lookup: int) -> None:
        self.messages[cause] += 1
        self.hops[_NO_CACHE][cause] += lookup
        sender = self._senders.get(source)
        if sender is None:
            sender = self._senders[source] = _Sender(AddressCache(self._contacts[source], "chord"))
        if key in sender.identifiers:
            self.hops[_IDENTIFIERS][cause] += self._once(_IDENTIFIERS, source, owner)
        else:
            sender.identifiers.add(key)
            self.hops[_IDENTIFIERS][cause] += lookup
        if sender.stretches.resolve_list([key])[0] >= 0:
            self.hops[_STRETCHES][cause] += self._once(_STRETCHES, source, owner)
        else:
            self.hops[_STRETCHES][cause] += lookup
            self._learn(sender.stretches, owner, key)

    def _once(self, kind: str, source: int, owner: int) -> int:
        """Return 1 for the first message of a transfer, 0 for the others in it."""
        place = (kind, source, owner)
        if place in self._sent:
            return 0
        self._sent.add(place)
        return 1

    def _learn(self, cache: AddressCache, owner: int, key: int) -> None:
        """Learn the result of a lookup: the owner, its successors, and the last peer before the key."""
        count = len(self._contacts)
        following = [self._contacts[(owner + at) % count] for at in range(min(_SUCCESSORS, count))]
        cache.learn(key, following, len(following) == count, self._contacts[owner - 1])

    def cache_sizes(self) -> dict[str, npt.NDArray[np.int64]]:
        """Return the cache entries per forwarding peer: known identifiers, and known contacts.

        The publisher is excluded, because its cache depends on the published data.
        """
        senders = [sender for place, sender in self._senders.items() if place != _PUBLISHER]
        return {
            _IDENTIFIERS: np.array([len(sender.identifiers) for sender in senders], np.int64),
            _STRETCHES: np.array([sender.stretches.size for sender in senders], np.int64),
        }


@dataclass(slots=True)
class _Phases:
    """Means per triple over the measured triples after each training."""

    trained: list[int]
    messages: list[float]
    hops: dict[str, list[float]]
    sizes: dict[str, npt.NDArray[np.int64]]

    def fall(self, kind: str) -> float:
        """Return the factor by which a cache reduces hops after all training."""
        return self.hops[_NO_CACHE][-1] / self.hops[kind][-1]


def _measure(setting: Setting, algorithm: Algorithm, progress: Progress) -> _Phases:
    ring = Places(random_positions(setting.peers, setting.seed))
    traffic = Traffic(ring, setting.triples)
    run_fleet(
        setting, algorithm, [ring], order="written", batch=1, on_messages=traffic.take, progress=progress
    )
    trained = [round(part * setting.triples) for part in _TRAINING]
    span = round(_MEASURED * setting.triples)

    def means(counts: npt.NDArray[np.int64]) -> list[float]:
        return [float(counts[start : start + span].mean()) for start in trained]

    return _Phases(
        trained, means(traffic.messages), {kind: means(traffic.hops[kind]) for kind in _KINDS}, traffic.cache_sizes()
    )


def address_cache(setting: Setting, progress: Progress = quiet) -> Result:
    """Run E2: hops per triple while caches learn."""
    cqc, csbv = (
        _measure(setting, algorithm, stage)
        for algorithm, stage in zip((Algorithm.CQC, Algorithm.CSBV), stages(progress, 2), strict=True)
    )
    result = Result("address-cache", "Hops per triple as caches learn (E2)", setting.as_dict())
    both = (("CQC", cqc), ("CSBV", csbv))
    result.tables = [_hops_table(both), _sizes_table(both)]
    result.panels = [*(_hops_panel(name, phases) for name, phases in both), _per_message_panel(both)]
    result.claims = _claims(cqc, csbv, full=setting.triples >= SETTING.triples)
    result.notes = [
        "Hops are requests and replies of lookups and transfers of messages; acknowledgements are left out.",
        "Sizes are calibrated to the paper's 800 hops without a cache; the paper's caches then gave 60.",
    ]
    return result


def _hops_table(both: tuple[tuple[str, _Phases], ...]) -> Table:
    rows: list[tuple[str | int | float, ...]] = [
        (
            name, trained, round(phases.messages[at], 2), *(round(phases.hops[kind][at], 1) for kind in _KINDS),
            *(round(phases.hops[_NO_CACHE][at] / phases.hops[kind][at], 1) for kind in _KINDS[1:]),
        )
        for name, phases in both
        for at, trained in enumerate(phases.trained)
    ]  # fmt: skip
    columns = ("algorithm", "triples before", "messages per triple", *(f"hops: {kind}" for kind in _KINDS))
    return Table("Hops per triple", (*columns, "times fewer: identifiers", "times fewer: stretches"), tuple(rows))


def _sizes_table(both: tuple[tuple[str, _Phases], ...]) -> Table:
    rows: list[tuple[str | int | float, ...]] = [
        (name, kind, len(sizes), round(_mean(sizes), 1), int(sizes.max(initial=0)))
        for name, phases in both
        for kind, sizes in phases.sizes.items()
    ]
    columns = ("algorithm", "cache", "peers that pass on", "mean", "largest")
    return Table("Entries per cache in the end (publisher left out)", columns, tuple(rows))


def _hops_panel(name: str, phases: _Phases) -> Panel:
    x = tuple(float(at) for at in range(len(phases.trained)))
    return Panel(
        f"{name}: hops per triple", "triples published before", "hops per triple (log scale)",
        tuple(Curve(kind, x, tuple(phases.hops[kind])) for kind in _KINDS),
        "bars", tuple(f"{trained:,}" for trained in phases.trained), y_log=True,
    )  # fmt: skip


def _per_message_panel(both: tuple[tuple[str, _Phases], ...]) -> Panel:
    curves = []
    for name, phases in both:
        x = tuple(float(trained) for trained in phases.trained)
        for kind in _KINDS[1:]:
            y = tuple(hops / sent for hops, sent in zip(phases.hops[kind], phases.messages, strict=True))
            curves.append(Curve(f"{name}, {kind}", x, y, program=kind))
    return Panel("Hops per message", "triples published before", "hops per message", tuple(curves))


def _mean(sizes: npt.NDArray[np.int64]) -> float:
    """Return the mean, 0 for no peers."""
    return float(sizes.mean()) if len(sizes) else 0.0


def _rising(values: list[float]) -> bool:
    return values[-1] > values[0]


def _claims(cqc: _Phases, csbv: _Phases, *, full: bool) -> list[Claim]:
    def per_message(phases: _Phases, kind: str) -> list[float]:
        return [hops / sent for hops, sent in zip(phases.hops[kind], phases.messages, strict=True)]

    falls = [per_message(phases, kind) for phases in (cqc, csbv) for kind in _KINDS[1:]]
    wanted = 13.0 if full else 5.0
    means = [_mean(phases.sizes[_IDENTIFIERS]) for phases in (cqc, csbv)]
    return [
        Claim(
            "without a cache hops per triple rise with history",
            f"CQC {cqc.hops[_NO_CACHE][0]:.0f} to {cqc.hops[_NO_CACHE][-1]:.0f}, "
            f"CSBV {csbv.hops[_NO_CACHE][0]:.0f} to {csbv.hops[_NO_CACHE][-1]:.0f}",
            _rising(cqc.hops[_NO_CACHE]) and _rising(csbv.hops[_NO_CACHE]),
        ),
        Claim(
            "with a cache a message takes fewer hops the longer it learns",
            ", ".join(f"{each[0]:.1f} to {each[-1]:.1f}" for each in falls),
            all(each[-1] < each[0] for each in falls),
        ),
        Claim(
            f"CQC: at least {wanted:.0f} times fewer hops after training (paper: 800 to 60)",
            f"{cqc.hops[_NO_CACHE][-1]:.0f} to {cqc.hops[_IDENTIFIERS][-1]:.0f} with the paper's cache "
            f"({cqc.fall(_IDENTIFIERS):.1f} times), to {cqc.hops[_STRETCHES][-1]:.0f} with p2prdf's "
            f"({cqc.fall(_STRETCHES):.1f} times)",
            cqc.fall(_STRETCHES) >= wanted and (not full or cqc.fall(_IDENTIFIERS) >= wanted),
        ),
        Claim(
            "CSBV takes more hops than CQC, with and without a cache",
            "; ".join(f"{kind}: {cqc.hops[kind][-1]:.0f} and {csbv.hops[kind][-1]:.0f}" for kind in _KINDS),
            all(csbv.hops[kind][-1] > cqc.hops[kind][-1] for kind in _KINDS),
        ),
        Claim(
            "a peer's cache of identifiers is smaller in CSBV", f"{means[0]:.0f} and {means[1]:.0f} entries on average",
            means[1] < means[0],
        ),
    ]  # fmt: skip
