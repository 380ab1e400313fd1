"""A replica of an interest in a dataset that is in an overlay: a standing query in, updates out.

A dataset is a named graph, its changesets are removals from it and publications into it, and an interest is a standing
query: a CONSTRUCT of the triples that are in its matches, which the nodes tell as they come and go.  What would only
become interesting with a partner is kept where all triples are, so nothing is kept here: no state but the target,
whose cursor names the subscription.

The target's cursor holds a resume token, which changes with the triples in one update, and solutions are acknowledged
when the target has them.  So whoever takes it up is told what the target does not have, each solution once, whatever
became of acknowledgements.  Within a change that takes several updates no token is true of the target.  If it ends
there, or if the subscription is gone, as nobody came back within its lease, the query is left anew, and the target is
compared with all that it answers.

The target is changed at bookmarks: with each of them it holds what follows from all that was published up to a time,
and perhaps of what is newer.  A changeset is a removal and a publication, and it may be seen between the two.  Changes
of many thousands of triples are taken before their bookmark, for nodes tell only so much that is not acknowledged; the
first answers of a query are kept until all are there, and acknowledged before: nobody asks for them again.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Final, NamedTuple

from p2prdf.errors import DataRefused, QueryRefused, SubscriptionGone, TokenRefused, Unavailable
from p2prdf.interest import Interest, Triple
from p2prdf.interest.expression import PatternGroup
from p2prdf.presence.overlay import Left, Overlay
from p2prdf.rdf import tokens
from p2prdf.rdf.query import Filter
from p2prdf.rdf.standing.syntax import is_variable
from p2prdf.replica.target import Target, parts_of

__all__ = ["Followed", "follow", "standing_text"]

_PENDING_MAX: Final = 10_000_000
"""Most triples that change between two bookmarks."""
_UNACKNOWLEDGED_MAX: Final = 8192
"""So many solutions are acknowledged without a bookmark: nodes tell no more than ``answers_window`` (16,384) that are
not, and no bookmark before they have told all.  Eleven characters of a cursor for each, at most."""


class Followed(NamedTuple):
    """A step: triples deleted and inserted; ``as_of``: the target has what was published up to then (seconds)."""

    removed: int
    added: int
    as_of: float
    whole: bool
    """Whether the target was compared as a whole."""


def standing_text(interest: Interest, dataset: str) -> str:
    """Return the standing query that answers an interest's slice of a dataset.

    Each optional group is answered apart, together with the required patterns and with variables of its own: so a
    triple of the template comes from a match of its group alone.

    Raises QueryRefused for a pattern without variables, of which CONSTRUCT would answer the triple in any case.
    """
    bare = next((pattern for pattern in interest.patterns if not any(map(is_variable, pattern))), None)
    if bare is not None:
        raise QueryRefused(f"{' '.join(bare)}: a pattern without variables is always there", construct="interest")
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
    on_solutions: Callable[[int], object] = lambda _count: None,
) -> AsyncGenerator[Followed, None]:
    """Keep a target at an interest's slice of a dataset, for as long as one iterates; yield each step.

    ``dataset``: the canonical IRI of its graph.  ``lease_seconds``: so long the query stands while nobody follows.
    ``on_solutions`` is told how many solutions have come, each time some have.

    Raises QueryRefused for interests that nodes do not take, TargetMoved, TargetRefused, Unavailable, Busy.
    """
    follower = _Follower(target, await target.cursor())
    left = await follower.taken_up(overlay)
    if left is None:
        left = await overlay.subscribe(
            standing_text(interest, dataset), since="beginning", bookmarks=True, hurry=True, auto_acknowledge=False,
            lease_seconds=lease_seconds,
        )
        follower.begin(left)
    change = _Change()
    told = 0
    async for batch in left.batches():
        if batch.lost:
            with contextlib.suppress(Unavailable):
                await left.unsubscribe()
            raise Unavailable(f"{batch.lost} answers were dropped at the query's home; begin again")
        for solution in batch:
            change.tell(solution.terms, solution.identity, removed=solution.removed)
        told += len(batch)
        on_solutions(len(batch))
        if len(change) > _PENDING_MAX:
            raise DataRefused(f"more than {_PENDING_MAX:,} triples change at once")
        if batch.bookmark is not None and batch.bookmark > left.opened:
            step = await follower.take(change, batch.bookmark)
            change = _Change()
            left.acknowledge()
            told = 0
            yield step
        elif told >= _UNACKNOWLEDGED_MAX:
            await follower.take_some(change)
            left.acknowledge()
            told = 0
    raise Unavailable("the query of the replica has ended")


class _Change:
    """What is told between two bookmarks.

    A triple that leaves and comes back is told by two solutions, which may arrive in either order.  So what counts is
    whether one of those told is still true, not which was told last.
    """

    __slots__ = ("_news", "_times", "_told")

    def __init__(self) -> None:
        self._times: dict[Triple, int] = {}
        """By how many of the solutions told each triple is there; 0: it is gone."""
        self._told: set[int] = set()
        """Identities of these solutions."""
        self._news: dict[Triple, None] = {}
        """What was told since :meth:`news` was asked for last."""

    def __len__(self) -> int:
        return len(self._times)

    def tell(self, triple: Triple, identity: int, *, removed: bool) -> None:
        """Note a solution, or that one is not true any more."""
        self._news[triple] = None
        times = self._times.setdefault(triple, 0)
        if not removed:
            self._times[triple] = times + 1
            self._told.add(identity)
        elif identity in self._told:
            self._times[triple] = times - 1
            self._told.remove(identity)

    def held(self, triple: Triple) -> bool:
        """Return whether a triple is there, by what was told."""
        return self._times.get(triple, 0) > 0

    def news(self) -> tuple[list[Triple], list[Triple]]:
        """Return what is gone and what is there of the triples that were told since this was asked last."""
        told, self._news = self._news, {}
        return [each for each in told if not self.held(each)], [each for each in told if self.held(each)]


class _Follower:
    """The target, and how far it is.

    Its cursor is ``SUBSCRIPTION NUMBER TOKEN``, the number that of the update; within a change there is no token.
    """

    def __init__(self, target: Target, cursor: str | None):
        self._target = target
        self._cursor = cursor
        self._number = 0
        self._left: Left | None = None
        self._whole = False

    async def taken_up(self, overlay: Overlay) -> Left | None:
        """Return the query that the cursor names, None if there is none, or if it cannot go on from there."""
        if self._cursor is None:
            return None
        name, _, rest = self._cursor.partition(" ")
        number, _, token = rest.partition(" ")
        if not (name.isdecimal() and number.isdecimal()):
            raise DataRefused(f"the target has the cursor {self._cursor!r}, which is of another kind of replica")
        self._number = int(number)
        if not token:
            with contextlib.suppress(Unavailable):  # it goes when its lease is over
                await overlay.unsubscribe(int(name))
            return None
        try:
            held = base64.b64decode(token, validate=True)
            self._left = await overlay.attach(held, bookmarks=True, auto_acknowledge=False)
        except (ValueError, TokenRefused) as error:
            raise DataRefused(f"the target has the cursor {self._cursor!r}, which is damaged: {error}") from error
        except SubscriptionGone:
            return None
        return self._left

    def begin(self, left: Left) -> None:
        """Compare the target as a whole with the first answers of a query."""
        self._left, self._number, self._whole = left, 0, True

    async def take(self, change: _Change, as_of: float) -> Followed:
        """Bring the target up to a bookmark."""
        assert self._left is not None
        whole = self._whole
        something = whole or len(change) > 0
        removed, added = change.news()
        if whole:
            found = {triple async for triple in self._target.triples()}
            removed = [triple for triple in found if not change.held(triple)]
            added = [triple for triple in added if triple not in found]
        # What changed nothing in the end is acknowledged as well, so the token moves on.
        if something:
            token = base64.b64encode(self._left.token()).decode()
            await self._send(removed, added, token)
        self._whole = False
        return Followed(len(removed), len(added), as_of, whole)

    async def take_some(self, change: _Change) -> None:
        """Bring the target up to a part of a change; first answers are kept until all are there."""
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
