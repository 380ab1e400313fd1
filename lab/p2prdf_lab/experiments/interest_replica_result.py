"""Results of the experiment with interest replicas: the paper's tables and figures, claims beside measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from p2prdf_lab.experiments.results import Claim, Curve, Panel, Result, Table

__all__ = ["Bounded", "Followed", "Many", "Measured", "Span", "result_of"]

_PAPER_SECONDS: Final = {"Football": 0.87, "Location": 5.31}
"""Seconds for one changeset in the paper."""
_FIGURES: Final = (("4a", "4b"), ("4c", "4d"))
"""Figures of the paper for Football and for Location: changes, and their growth."""
_FASTER: Final = 50
_MANY_MAX: Final = 20
_TRANSFER_MAX: Final = 0.01


@dataclass(frozen=True, slots=True)
class Span:
    """Counts and times of one interest for the changesets of a day or folder; times in seconds per changeset.

    ``reading``, ``evaluating`` and ``writing`` are processor time; ``elapsed``, and its maximum ``slowest``, are real
    time.
    """

    label: str
    changesets: int
    removed: int
    added: int
    interesting_removed: int
    interesting_added: int
    potential: int
    source_bytes: int
    sent_bytes: int
    reading: float
    evaluating: float
    writing: float
    elapsed: float
    slowest: float

    @property
    def seconds(self) -> float:
        """The sum of the processor times."""
        return self.reading + self.evaluating + self.writing


@dataclass(frozen=True, slots=True)
class Followed:
    """One interest: its target at the start, its days, and sizes after each changeset (mirror, target, potential)."""

    name: str
    begun: int
    spans: tuple[Span, ...]
    sizes: tuple[tuple[int, int, int], ...]
    exact: bool

    def mean(self, what: str) -> float:
        """Return the mean of a time over all changesets."""
        total = sum(float(getattr(span, what)) * span.changesets for span in self.spans)
        return total / sum(span.changesets for span in self.spans)


@dataclass(frozen=True, slots=True)
class Bounded:
    """Completeness of a target with a bound on potentially interesting triples; None: no bound."""

    most: int | None
    kept: int
    complete: float


@dataclass(frozen=True, slots=True)
class Many:
    """Cost of one pass with many interests: seconds to add them, and seconds per changeset."""

    interests: int
    adding: float
    seconds: float
    changed: int
    held: int


@dataclass(frozen=True, slots=True)
class Measured:
    """All measurements.  ``generated``: whether the feed is the generated one, with the paper's proportions."""

    followed: tuple[Followed, ...]
    bounded: tuple[Bounded, ...]
    many: tuple[Many, ...]
    generated: bool


def result_of(setting: dict[str, str | int | float], measured: Measured) -> Result:
    """Return tables, panels and claims."""
    result = Result("interest-replica", "Interest replicas", setting)
    for followed in measured.followed:
        result.tables.append(_days(followed))
    result.tables += [_times(measured.followed), _bounds(measured.bounded), _many(measured.many)]
    for followed, (volume, growth) in zip(measured.followed, _FIGURES, strict=True):
        result.panels += [_volume(followed, volume), _growth(followed, growth)]
    result.panels.append(_potential(measured.followed))
    result.claims += _claims(measured)
    result.notes.append(
        "The paper's times are of its own machine (i7-4770, 16 GB, Jena TDB), with all of DBpedia. Here a time "
        "includes reading a changeset's N-Triples, evaluating it, and writing the result to a store of pyoxigraph."
    )
    return result


def _days(followed: Followed) -> Table:
    rows = [
        (
            span.label, span.changesets, span.removed, span.added, span.interesting_removed, span.interesting_added,
            span.potential, round(span.seconds * 1000, 2),
        )
        for span in followed.spans
    ]  # fmt: skip
    return Table(
        f"{followed.name}: interesting share of the changes ({followed.begun:,} triples at the start)",
        (
            "span", "changesets", "removed", "added", "interesting removed", "interesting added",
            "potentially interesting", "ms per changeset",
        ),
        tuple(rows),
    )  # fmt: skip


def _times(followed: Sequence[Followed]) -> Table:
    rows = [
        (
            each.name, round(each.mean("reading") * 1000, 2), round(each.mean("evaluating") * 1000, 2),
            round(each.mean("writing") * 1000, 2), round(each.mean("seconds") * 1000, 2),
            round(each.mean("elapsed") * 1000, 2), round(max(span.slowest for span in each.spans) * 1000, 2),
            round(_PAPER_SECONDS[each.name] * 1000), round(_PAPER_SECONDS[each.name] / each.mean("seconds")),
        )
        for each in followed
    ]  # fmt: skip
    return Table(
        "Processor time for one changeset, ms",
        (
            "interest", "reading", "evaluating", "writing", "total", "elapsed", "slowest, elapsed", "paper",
            "times as fast",
        ),
        tuple(rows),
    )  # fmt: skip


def _bounds(bounded: Sequence[Bounded]) -> Table:
    rows = [
        ("none" if each.most is None else f"{each.most:,}", each.kept, round(100 * each.complete, 2))
        for each in bounded
    ]
    return Table(
        "A bound on potentially interesting triples, with names before the other triples",
        ("bound", "kept at the end", "% of the target there"), tuple(rows),
    )  # fmt: skip


def _many(many: Sequence[Many]) -> Table:
    rows = [
        (each.interests, round(each.adding, 2), round(each.seconds * 1000, 2), each.changed, each.held) for each in many
    ]
    return Table(
        "Many interests in one pass",
        ("interests", "s to add them", "ms per changeset", "changes of targets", "triples in targets"), tuple(rows),
    )  # fmt: skip


def _volume(followed: Followed, figure: str) -> Panel:
    """Figures 4a and 4c: changes at the source, and the interesting share."""
    ticks = tuple(span.label for span in followed.spans)
    x = tuple(float(at) for at in range(len(ticks)))

    def curve(label: str, name: str) -> Curve:
        return Curve(label, x, tuple(float(max(1, getattr(span, name))) for span in followed.spans))

    return Panel(
        f"{figure}. {followed.name}: triples changed", "", "triples (none is drawn as 1)", (
            curve("source, removed", "removed"), curve("source, added", "added"),
            curve("potentially interesting", "potential"), curve("interesting, removed", "interesting_removed"),
            curve("interesting, added", "interesting_added"),
        ), "bars", ticks, y_log=True,
    )  # fmt: skip


def _growth(followed: Followed, figure: str) -> Panel:
    """Figures 4b and 4d: growth of mirror and replica."""
    x = tuple(float(at) for at in range(len(followed.sizes)))
    mirror, target = (tuple(float(size[at] - followed.sizes[0][at]) for size in followed.sizes) for at in (0, 1))
    return Panel(
        f"{figure}. {followed.name}: growth since the start", "changesets", "triples",
        (Curve("mirror", x, mirror), Curve("replica", x, target)),
    )  # fmt: skip


def _potential(followed: Sequence[Followed]) -> Panel:
    """Figure 4e: growth of potentially interesting triples."""
    return Panel(
        "4e. Potentially interesting triples kept", "changesets", "triples",
        tuple(
            Curve(each.name, tuple(map(float, range(len(each.sizes)))), tuple(float(size[2]) for size in each.sizes))
            for each in followed
        ),
    )  # fmt: skip


def _claims(measured: Measured) -> list[Claim]:
    found = [
        Claim(
            f"{each.name}: the target is exact at the end",
            "equal to the target of the final dataset, and to the contents of the store"
            if each.exact else "they differ", each.exact,
        )
        for each in measured.followed
    ]  # fmt: skip
    for each in measured.followed:
        times = _PAPER_SECONDS[each.name] / each.mean("seconds")
        found.append(
            Claim(
                f"{each.name}: a changeset takes at most a {_FASTER}th of the paper's {_PAPER_SECONDS[each.name]} s",
                f"{each.mean('seconds') * 1000:.1f} ms, {times:.0f} times as fast", times >= _FASTER,
            )
        )  # fmt: skip
    first = measured.followed[0]
    share = sum(span.sent_bytes for span in first.spans) / sum(span.source_bytes for span in first.spans)
    one, many = measured.many[0], measured.many[-1]
    found.append(
        Claim(
            f"{many.interests:,} interests in one pass cost less than {_MANY_MAX} times as much as one",
            f"{many.seconds * 1000:.1f} ms and {one.seconds * 1000:.1f} ms, {many.seconds / one.seconds:.1f} times",
            many.seconds < _MANY_MAX * one.seconds,
        )
    )
    if measured.generated:
        found.append(
            Claim(
                f"{first.name}: a replica gets at most {_TRANSFER_MAX:.0%} of the bytes of a mirror",
                f"{share:.2%} of the bytes", share <= _TRANSFER_MAX,
            )
        )  # fmt: skip
        found += [_growth_claim(each) for each in measured.followed]
    return found


def _growth_claim(followed: Followed) -> Claim:
    (_, target, potential), (_, target_end, potential_end) = followed.sizes[0], followed.sizes[-1]
    return Claim(
        f"{followed.name}: potentially interesting triples grow faster than the target",
        f"by {potential_end - potential:,} and {target_end - target:,} triples",
        potential_end - potential > target_end - target,
    )
