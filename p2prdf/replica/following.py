"""A replica of an interest in a dataset of an overlay: a standing query in, updates out.

A dataset is a named graph; an interest is a standing CONSTRUCT of the triples in its matches. The process
stores no state besides the target. The target's cursor contains a resume token, which changes with the triples
in one update; solutions are acknowledged when the target has them. Any process can therefore continue and
receives each missing solution once. Within a change that takes several updates no token is valid: if the
process ends there, or the subscription's lease ran out, the query is registered anew and the target compared
with all its results.

The target changes at bookmarks; readers may see the state between the deletion and the publication of a
changeset. Changes of many thousands of triples are applied before their bookmark, since nodes deliver a bounded
number of unacknowledged solutions. The first results are collected and acknowledged early.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Final, NamedTuple

from p2prdf.errors import DataRefused, QueryRefused, SubscriptionGone, TokenRefused, Unavailable
from p2prdf.interest import Interest, Triple
from p2prdf.interest.expression import PatternGroup
from p2prdf.rdf import tokens
from p2prdf.rdf.query import Filter
from p2prdf.rdf.standing.syntax import is_variable
from p2prdf.replica.target import Target, parts_of
from p2prdf.workers.overlay import Overlay, Subscription

__all__ = ["Followed", "follow", "standing_text"]

_PENDING_MAX: Final = 10_000_000
"""Bound on the triples that change between two bookmarks."""
_UNACKNOWLEDGED_MAX: Final = 8192
"""Solutions to acknowledge without waiting for a bookmark.

Nodes deliver at most ``solutions_window`` (16,384) unacknowledged ones, and no bookmark before they have
delivered all. Each takes at most eleven characters of a cursor.
"""


class Followed(NamedTuple):
    """A step: triples deleted and inserted; ``as_of``: the target reflects this time (seconds)."""

    removed: int
    added: int
    as_of: float
    whole: bool
    """Whether the whole target was compared."""


def standing_text(interest: Interest, dataset: str) -> str:
    """Return the standing query for an interest's slice of a dataset.

    Each optional group has a branch of its own, with the required patterns and with its own variables, so a
    triple of the template comes from a match of its group only.

    Raises QueryRefused for a pattern without variables: CONSTRUCT would return its triple in any case.
    """
    bare = next((pattern for pattern in interest.patterns if not any(map(is_variable, pattern))), None)
    if bare is not None:
        raise QueryRefused(f"{' '.join(bare)}: a pattern without variables matches always", construct="interest")
    template, branches = [], []
    for number, group in enumerate(interest.groups):
        groups: Sequence[PatternGroup] = (group,) if number == 0 else (interest.required, group)
        names = {name: f"?b{number}v{place}" for place, name in enumerate(interest.variables)}
        patterns = dict.fromkeys(pattern for each in groups for pattern in each.patterns)
        conditions = dict.fromkeys(condition for each in groups for condition in each.conditions)
        template += [_spelled(pattern, names) for pattern in group.patterns]
        body = " . ".join(_spelled(pattern, names) for pattern in patterns)
        tests = "".join(f" FILTER ( {_renamed(condition, number)} )" for condition in conditions)
        branches.append(f"{{ GRAPH {dataset} {{ {body} }}{tests} }}")
    return f"CONSTRUCT {{ {' . '.join(template)} }} WHERE {{ {' UNION '.join(branches)} }}"


def _spelled(pattern: Sequence[str], names: dict[str, str]) -> str:
    return " ".join(names.get(part, part) for part in pattern)


def _renamed(condition: Filter, branch: int) -> str:
    """Return a condition with the variables of a branch."""
    text = condition.text
    for token in reversed([each for each in tokens.scan(text) if each.kind == "var"]):
        text = f"{text[: token.at]}?b{branch}{token.text[1:]}{text[token.at + len(token.text) :]}"
    return text


async def follow(
    overlay: Overlay, interest: Interest, dataset: str, target: Target, *, lease_seconds: float = 86_400.0,
    on_solutions: Callable[[int], object] = lambda _count: None, settled: bool = False,
) -> AsyncGenerator[Followed, None]:
    """Keep a target equal to an interest's slice of a dataset, while the caller iterates; yield steps.

    ``dataset``: the canonical IRI of its graph. ``lease_seconds``: how long the query survives without a
    follower. ``on_solutions`` is called with the number of solutions in each batch. ``settled``: the target equals the
    slice as of each step's time, without later changes.

    Raises QueryRefused for interests that nodes refuse, TargetMoved, TargetRefused, Unavailable, Busy.
    """
    follower = _Follower(target, await target.cursor())
    left = await follower.taken_up(overlay, settled=settled)
    if left is None:
        left = await overlay.subscribe(
            standing_text(interest, dataset), since="beginning", bookmarks=not settled, hurry=not settled,
            auto_acknowledge=False, lease_seconds=lease_seconds, settled=settled,
        )  # fmt: skip
        follower.begin(left)
    change = _Change()
    unacknowledged = 0
    async for batch in left.batches():
        if batch.lost:
            with contextlib.suppress(Unavailable):
                await left.unsubscribe()
            raise Unavailable(f"the coordinator dropped {batch.lost} solutions; start again")
        for solution in batch:
            change.tell(solution.terms, solution.identity, removed=solution.removed)
        unacknowledged += len(batch)
        on_solutions(len(batch))
        if len(change) > _PENDING_MAX:
            raise DataRefused(f"more than {_PENDING_MAX:,} triples change at once")
        if batch.bookmark is not None and batch.bookmark > left.opened:
            step = await follower.take(change, batch.bookmark)
            change = _Change()
            left.acknowledge()
            unacknowledged = 0
            yield step
        elif unacknowledged >= _UNACKNOWLEDGED_MAX:
            await follower.take_some(change)
            left.acknowledge()
            unacknowledged = 0
    raise Unavailable("the query of the replica ended")


class _Change:
    """The changes between two bookmarks.

    A triple that vanishes and returns has two solutions, which may arrive in either order. So a triple is
    present if any of its solutions still holds, independently of the last one to arrive.
    """

    __slots__ = ("_news", "_times", "_told")

    def __init__(self) -> None:
        self._times: dict[Triple, int] = {}
        """The number of valid solutions for each triple; 0: it is gone."""
        self._told: set[int] = set()
        """Identities of these solutions."""
        self._news: dict[Triple, None] = {}
        """Triples reported since the last :meth:`news`."""

    def __len__(self) -> int:
        return len(self._times)

    def tell(self, triple: Triple, identity: int, *, removed: bool) -> None:
        """Note a solution or its retraction."""
        self._news[triple] = None
        times = self._times.setdefault(triple, 0)
        if not removed:
            self._times[triple] = times + 1
            self._told.add(identity)
        elif identity in self._told:
            self._times[triple] = times - 1
            self._told.remove(identity)

    def held(self, triple: Triple) -> bool:
        """Return whether a triple is present, according to the solutions."""
        return self._times.get(triple, 0) > 0

    def news(self) -> tuple[list[Triple], list[Triple]]:
        """Return the absent and the present ones of the triples reported since the last call."""
        reported, self._news = self._news, {}
        return [each for each in reported if not self.held(each)], [each for each in reported if self.held(each)]


class _Follower:
    """The target and its progress.

    Its cursor is ``SUBSCRIPTION NUMBER TOKEN`` with the number of the update; within a change it has no token.
    """

    def __init__(self, target: Target, cursor: str | None):
        self._target = target
        self._cursor = cursor
        self._number = 0
        self._left: Subscription | None = None
        self._whole = False

    async def taken_up(self, overlay: Overlay, *, settled: bool) -> Subscription | None:
        """Return the query that the cursor names; None if there is none or it cannot continue from there.

        A query with the other kind of delivery is ended.
        """
        if self._cursor is None:
            return None
        name, _, rest = self._cursor.partition(" ")
        number, _, token = rest.partition(" ")
        if not (name.isdecimal() and number.isdecimal()):
            raise DataRefused(f"the target has the cursor {self._cursor!r} of another kind of replica")
        self._number = int(number)
        if not token:
            with contextlib.suppress(Unavailable):  # its lease ends it otherwise
                await overlay.unsubscribe(int(name))
            return None
        try:
            held = base64.b64decode(token, validate=True)
            self._left = await overlay.attach(held, bookmarks=True, auto_acknowledge=False)
        except (ValueError, TokenRefused) as error:
            raise DataRefused(f"the target has the cursor {self._cursor!r}, which is damaged: {error}") from error
        except SubscriptionGone:
            return None
        if self._left.settled is not settled:
            await self._left.unsubscribe()
            return None
        return self._left

    def begin(self, left: Subscription) -> None:
        """Compare the whole target with the first results of a query."""
        self._left, self._number, self._whole = left, 0, True

    async def take(self, change: _Change, as_of: float) -> Followed:
        """Update the target to a bookmark."""
        assert self._left is not None
        whole = self._whole
        something = whole or len(change) > 0
        removed, added = change.news()
        if whole:
            found = {triple async for triple in self._target.triples()}
            removed = [triple for triple in found if not change.held(triple)]
            added = [triple for triple in added if triple not in found]
        # Changes without effect are acknowledged as well, so the token advances.
        if something:
            token = base64.b64encode(self._left.token()).decode()
            await self._send(removed, added, token)
        self._whole = False
        return Followed(len(removed), len(added), as_of, whole)

    async def take_some(self, change: _Change) -> None:
        """Apply part of a change to the target; first results wait until they are complete."""
        if not self._whole:
            await self._send(*change.news(), None)

    async def _send(self, removed: Iterable[Triple], added: Iterable[Triple], token: str | None) -> None:
        assert self._left is not None
        parts = parts_of(removed, added, self._target.triples_max) or [([], [])]
        for place, (some_removed, some_added) in enumerate(parts):
            self._number += 1
            after = f"{self._left.id} {self._number}"
            if token is not None and place == len(parts) - 1:
                after = f"{after} {token}"
            await self._target.update(some_removed, some_added, before=self._cursor, after=after)
            self._cursor = after
