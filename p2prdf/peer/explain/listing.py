"""The subscriptions that a peer serves, as a list for operators of an overlay.

One replica of a coordinator delivers the solutions of a subscription, and only that one lists it.  A query to all peers
therefore returns each subscription once, except for a moment during failover.  The size of a list is bounded.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from p2prdf import hlc
from p2prdf.peer.explain.explanation import address
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.rdf.spelling import Names, spell_pattern

if TYPE_CHECKING:
    from p2prdf.continuous.home import Home, Subscription

__all__ = ["LISTED_MAX", "listed"]

LISTED_MAX: Final = 64
"""Subscriptions per page."""
_PATTERNS_MAX: Final = 6
_NAMES_MAX: Final = 16


def listed(home: Home, *, now: float, after: int = 0) -> dict[str, Any]:
    """Return the subscriptions with numbers above ``after``, ascending, as JSON values.

    docs/reference/http.md lists the keys.
    """
    own = {number: each for number, each in home.subscriptions.items() if each.delivered}
    following = sorted(number for number in own if number > after)
    return {
        "total": len(own),
        "more": len(following) > LISTED_MAX,
        "subscriptions": [_told(own[number], now) for number in following[:LISTED_MAX]],
    }


def _told(subscription: Subscription, now: float) -> dict[str, Any]:
    query, log = subscription.group.query, subscription.log
    leaves = query.leaves if isinstance(query, StandingQuery) else (query,)
    count = sum(len(leaf.patterns) for leaf in leaves)
    return {
        "number": f"{subscription.number:016x}",
        "form": query.form.value if isinstance(query, StandingQuery) else "select",
        "names": list(subscription.names[:_NAMES_MAX]),
        "patterns": _spelled(query),
        "patterns_total": count,
        "algorithm": subscription.group.algorithm.value,
        "subscriber": address(subscription.subscriber),
        "reached": not subscription.cut_off,
        "since": round(hlc.seconds(subscription.since), 3),
        "lease_seconds": subscription.lease_seconds,
        "lease_left_seconds": round(max(0.0, subscription.lease_until - now), 1),
        "answers": log.known,
        "unacknowledged": len(log),
        "dropped": log.dropped_total,
    }


def _spelled(query: ConjunctiveQuery | StandingQuery) -> list[str]:
    """Return the first patterns of a query, leaf by leaf."""
    leaves = query.leaves if isinstance(query, StandingQuery) else (query,)
    patterns = (
        spell_pattern(pattern, leaf.constants, names)
        for leaf, names in zip(leaves, Names(query).leaves, strict=True)
        for pattern in leaf.patterns
    )
    return list(islice(patterns, _PATTERNS_MAX))
