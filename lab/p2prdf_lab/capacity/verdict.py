"""The explanation of a capacity plan: the resource that is exhausted first, and remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from p2prdf.peer import PeerConfig
from p2prdf_lab.capacity.growth import TIMES_MAX

if TYPE_CHECKING:
    from p2prdf_lab.capacity.loaded_keys import LoadedKey
    from p2prdf_lab.capacity.plan import CapacityPlan

__all__ = ["verdict"]

_HELPS: Final = 0.7
"""Peers help if doubling them reduces the busiest peer's load to at most this part; 0.5 is the optimum."""

_HOT: Final = 0.3
"""Least part of a peer's load for which the verdict names the keys that cause it."""

_STEEP: Final = 1.2
"""Least exponent of growth that the verdict mentions."""

_NODE: Final = PeerConfig()
"""The defaults of nodes, which decide when a key is split."""


def verdict(plan: CapacityPlan) -> str:
    """Return one paragraph."""
    sentences = [_first_end(plan), *_peers(plan), *_indexing(plan), *_entry(plan), *_growth(plan)]
    return " ".join(each for each in sentences if each)


def _first_end(plan: CapacityPlan) -> str:
    """Name the resource that is exhausted first, in the sample or, within the extrapolation, after ``hours``."""
    node, times, link = plan.options.node, plan.times_estimated, plan.link_per_second.max
    loads = (plan.processing_per_second.max,) * 2
    helds, when = (float(plan.holders["fullest"].footprint.bytes),) * 2, "after the sample"
    if times is not None and times > 1:
        loads = plan.busiest_after(times)
        helds, when = plan.holders["fullest"].after(times), f"after {plan.options.hours:g} h"
    load, held = loads[1], helds[1]
    uses = {
        "processing": (
            load / node.load, loads[0] / node.load,
            f"the busiest peer has {load:,.0f} copies and partial results to process per second",
        ),
        "the network": (
            link / node.link_bytes, link / node.link_bytes,
            f"the busiest peer sends and receives {_size(link)} a second of the sample",
        ),
        "memory": (
            held / node.memory_bytes, helds[0] / node.memory_bytes, f"the fullest peer has {_size(held)} {when}"
        ),
    }  # fmt: skip
    name, (use, least, what) = max(uses.items(), key=lambda each: each[1][0])
    part = f"{what}, {_part(use)} of a node's assumed capacity"
    if use >= 1:
        may = "does" if least >= 1 else "may"
        return f"This overlay {may} not carry the stream: {name} is exhausted first, {part}."
    full = plan.memory_full_after()
    if full is not None and name != "memory":
        part += f". Later in the stream memory is exhausted first: {_when(plan, full)}"
    elif full is not None:
        part += f": {_when(plan, full)}"
    else:
        hours = TIMES_MAX * plan.seconds / 3600
        part += f"; memory lasts for {_hours(hours)}, the longest estimate"
    return f"This overlay carries the stream; the scarcest resource is {name}: {part}."


def _when(plan: CapacityPlan, full: tuple[float, float]) -> str:
    soonest, latest = (each * plan.seconds / 3600 for each in full)
    until = f" to {_hours(latest)}" if full[1] < TIMES_MAX else ", or later"
    limit = plan.options.node.memory_bytes / (1 << 30)
    return f"the fullest peer's {limit:g} GiB are full after {_hours(soonest)}{until}"


def _peers(plan: CapacityPlan) -> list[str]:
    """Say whether more peers or other places help, and the reason if they do not."""
    busiest = max(1.0, float(plan.processing.max()))
    left = plan.doubled_max / busiest
    if left <= _HELPS:
        return [f"More peers help: twice as many leave the busiest {_part(left)} of its load.", *_places(plan)]
    said = [f"More peers hardly help: with twice as many the busiest still has {_part(left)} of its load."]
    part = sum(key.load for key in plan.hot_keys) / busiest
    if part >= _HOT:
        names = "; ".join(f"{key.role} of {' '.join(key.terms)}" if key.terms else key.role for key in plan.hot_keys)
        what = "one key" if len(plan.hot_keys) == 1 else f"{len(plan.hot_keys)} keys"
        said += [f"{_part(part)} of it comes to {what} ({names}).", *_splitting(plan, busiest)]
    return [*said, *_places(plan)]


def _splitting(plan: CapacityPlan, busiest: float) -> list[str]:
    """Name the hot keys of the busiest peer that nodes would split; the plan does not split them."""
    if plan.options.peers == 1:
        return []
    said = (
        f"In the plan a key has one owner. Nodes split a key with {_NODE.hot_rate_min:,} triples in"
        f" {_NODE.hot_interval_seconds:g} s, and fewer partial results (hot_keys, on by default)"
    )
    hot = [key for key in plan.hot_keys if _is_split(plan, key)]
    if not hot:
        return [f"{said}: {'this key is not split' if len(plan.hot_keys) == 1 else 'none of these is split'}."]
    part = sum(key.triples for key in hot) / busiest
    which = "this key is" if len(plan.hot_keys) == 1 else f"{len(hot)} of these are"
    return [f"{said}: {which} split, and peers share up to {_part(part)} of the busiest one's load."]


def _is_split(plan: CapacityPlan, key: LoadedKey) -> bool:
    """Return whether a node would split a key: its load is high enough, and above the cost of copying its rows."""
    enough = _NODE.hot_rate_min / _NODE.hot_interval_seconds
    return key.triples / plan.seconds >= enough and key.rows < _NODE.hot_copies_max * key.triples


def _places(plan: CapacityPlan) -> list[str]:
    """Say whether the busiest peer's load is due to its random place."""
    if plan.even_max is None:
        return []
    left = plan.even_max / max(1.0, float(plan.processing.max()))
    if left > _HELPS:
        return []
    return [f"At even places (each node an --ordinal of its own) the busiest would have {_part(left)} of its load."]


def _indexing(plan: CapacityPlan) -> list[str]:
    """Describe the effect of other indexes or of the other algorithm."""
    said = []
    if len(plan.roles) > len(plan.roles_needed):
        said.append(
            f"Standing queries need {len(plan.roles_needed)} of the {len(plan.roles)} indexes: `indexes = on-demand`"
            f" would make {len(plan.roles_needed)} copies of a triple, and refuse queries about earlier triples."
        )
    if plan.csbv_max is not None:
        left = plan.csbv_max / max(1.0, float(plan.processing.max()))
        if left <= _HELPS:
            said.append(f"CSBV would leave the busiest peer {_part(left)} of its load.")
        else:
            said.append(f"CSBV would not relieve the busiest peer ({_part(left)} of its load).")
    return said


def _entry(plan: CapacityPlan) -> list[str]:
    """Say whether the entry peer has the busiest link."""
    busiest = int((plan.sent_bytes + plan.received_bytes).argmax())
    if plan.options.peers == 1 or busiest not in plan.entries or len(plan.entries) * 2 > plan.options.peers:
        return []
    return ["The busiest link is an entry peer's, which sends all copies: let publishers use more peers."]


def _growth(plan: CapacityPlan) -> list[str]:
    """Name the quantities that grow faster than the stream, and the range of the extrapolation."""
    said = []
    for name, what in (("rows", "Partial results"), ("answers", "Answers")):
        found = plan.growth[name].exponents
        if found is not None and max(found) >= _STEEP:
            said.append(f"{what} grow with the power {found[1]:.1f} of the stream ({found[0]:.1f} before).")
    if plan.times is not None and plan.times_estimated is None:
        said.append(
            f"{plan.options.hours:g} hours are {plan.times:,.0f} times the sample: estimates reach"
            f" {TIMES_MAX} times ({_hours(TIMES_MAX * plan.seconds / 3600)}). Give more data, or fewer hours."
        )
    return said


def _size(count: float) -> str:
    return f"{count / (1 << 20):,.1f} MiB" if count >= 1 << 20 else f"{count / 1024:,.1f} KiB"


def _part(part: float) -> str:
    return f"{part:.0%}" if part >= 0.01 else "less than 1%"


def _hours(hours: float) -> str:
    if hours < 1 / 60:
        return f"{hours * 3600:.0f} s"
    if hours < 2:
        return f"{hours * 60:.0f} min"
    return f"{hours:.0f} h" if hours < 96 else f"{hours / 24:,.0f} days"
