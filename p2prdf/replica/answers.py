"""What a keeper answers when somebody asks: how its targets are, whether one is what it should be, and to make it so.

A request is a triple of a known graph, and so are answers; who asked removes all of them.  Keepers reach targets and
have credentials, those who ask need neither.  A keeper answers for what it keeps itself; of the rest it says nothing,
which is an answer, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from p2prdf.errors import P2PRDFError
from p2prdf.interest import Triple
from p2prdf.interest.registration import ANSWERS, REQUESTS_GRAPH, Registration
from p2prdf.rdf import terms
from p2prdf.replica.overlay import Writing

if TYPE_CHECKING:
    from p2prdf.replica.keeper import Keeper, Kept

__all__ = ["answer", "report"]

_INTERESTS: Final = 200
"""Interests in one triple of an answer."""

Told: TypeAlias = dict[str, object]


async def answer(keeper: Keeper, overlay: Writing, request: Triple) -> None:
    """Answer a request, if it is one and this keeper has something to say."""
    try:
        asked = json.loads(terms.lexical(request[2]))
    except ValueError:
        return
    if not isinstance(asked, dict):
        return
    what, name = asked.get("what"), asked.get("name")
    if what == "status" and (name is None or isinstance(name, str)):
        told = await report(keeper, None if name is None else [name])
    elif what in ("verify", "repair") and isinstance(name, str) and name in keeper.kept:
        told = [await _compared(name, keeper.kept[name], mend=what == "repair")]
    elif what in ("verify", "repair") and isinstance(name, str) and name in keeper.refused:
        told = [{"name": name, "error": keeper.refused[name].reason}]
    else:
        told = []
    parts = [told[at : at + _INTERESTS] for at in range(0, len(told), _INTERESTS)] or [[]]
    said = [
        {"keeper": keeper.name[1:-1], "part": number, "parts": len(parts), "interests": part}
        for number, part in enumerate(parts)
    ]
    try:
        await overlay.publish(
            [(request[0], ANSWERS, terms.literal(json.dumps(each))) for each in said], graph=REQUESTS_GRAPH
        )
    except P2PRDFError:
        return  # who asked is told by nobody, and says so


async def _compared(name: str, kept: Kept, *, mend: bool) -> Told:
    try:
        found = await (kept.target.repair() if mend else kept.target.verify())
    except P2PRDFError as error:
        return {"name": name, "error": str(error)}
    return {
        "name": name, "expected": found.expected, "found": found.found, "equal": found.equal,
        "lacking": found.lacking, "foreign": found.foreign,
    }  # fmt: skip


async def report(keeper: Keeper, names: Iterable[str] | None = None) -> list[Told]:
    """Return how interests are that a keeper has to do with; ``names``: of these alone.

    ``as_of`` and ``position``: up to which time, and to which changeset, the target has the dataset; ``lag_seconds``:
    how long ago that was.
    """
    wanted = None if names is None else frozenset(names)
    kept = {name: each for name, each in keeper.kept.items() if wanted is None or name in wanted}
    sizes: dict[str, tuple[int, int]] = {}
    for dataset in {each.registration.dataset for each in kept.values()}:
        if dataset in keeper.passes:
            here = [name for name, each in kept.items() if each.registration.dataset == dataset]
            sizes.update(await keeper.passes[dataset].sizes(here))
    told = [_state(keeper, name, each, sizes) for name, each in sorted(kept.items())]
    for name, (registration, reason) in sorted(keeper.refused.items()):
        if wanted is None or name in wanted:
            told.append({"name": name, "state": "refused", "error": reason, **_what(registration)})
    return told


def _state(keeper: Keeper, name: str, kept: Kept, sizes: Mapping[str, tuple[int, int]]) -> Told:
    target, dataset = kept.target, keeper.passes.get(kept.registration.dataset)
    error = target.error or (None if dataset is None else dataset.error)
    if target.paused:
        state = "paused"
    elif error is not None:
        state = "failing"
    elif not target.as_of:
        state = "reading"
    else:
        state = "current" if target.is_current else "behind"
    told: Told = {"name": name, "state": state, **_what(kept.registration), "pending_triples": target.pending}
    if target.reached:
        reached = target.reached / 1000
        told |= {"as_of": reached, "lag_seconds": round(max(0.0, keeper.now() - reached), 3)}
    if target.reached_position is not None:
        told["position"] = target.reached_position
    if name in sizes:
        told["target_triples"], told["potential_triples"] = sizes[name]
    if error is not None:
        told["error"] = error
    return told


def _what(registration: Registration | None) -> Told:
    if registration is None:
        return {}
    graph = None if registration.graph is None else registration.graph[1:-1]
    return {"dataset": registration.dataset[1:-1], "target": registration.target, "graph": graph}
