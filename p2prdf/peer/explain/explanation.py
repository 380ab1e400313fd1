"""The explanation of a query as JSON values: plan, steps, their rows, and where evaluation stops.

:mod:`p2prdf.peer.explain.explain` collects the data.  docs/reference/explain.md lists the keys.  The size is bounded:
at most ``STEPS_MAX`` steps, and every text is cut.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from p2prdf import hlc, keys
from p2prdf.continuous.home import Group, Subscription
from p2prdf.continuous.leaf import Leaf
from p2prdf.continuous.order import expected_triples
from p2prdf.continuous.windows import next_multiple
from p2prdf.rdf.algebra import CountWindow, StandingQuery
from p2prdf.rdf.layouts import inputs_of
from p2prdf.rdf.quads import stream_parts_of
from p2prdf.rdf.query import Plan, Step, constant_mask
from p2prdf.rdf.spelling import Names, spell_expression, spell_pattern
from p2prdf.wire.messages import NOT_COUNTED, Contact

__all__ = ["FINDINGS_MAX", "STEPS_MAX", "Sheet", "StepCounts", "address", "step_keys"]

STEPS_MAX: Final = 256
"""How many steps of all leaves are counted and listed; the sheet names the number of omitted steps."""
FINDINGS_MAX: Final = 40
PAST_MS: Final = 60_000
"""A stream lies in the past if its watermark is older than this."""
_PARTS: Final = ((keys.S, 0), (keys.P, 1), (keys.O, 2))


@dataclass(slots=True)
class StepCounts:
    """A step, and the sums of rows and triples over all peers that answered.

    ``under``: the index by which triples were counted.
    """

    leaf: int
    number: int
    under: int = NOT_COUNTED
    waiting: int = 0
    over: int = 0
    triples: int = 0
    young: int = 0
    estimated: int = 0

    @property
    def counted(self) -> bool:
        """Whether any node stores triples under this index."""
        return self.under != NOT_COUNTED


def address(contact: Contact) -> str:
    """Return the address of a peer, as its node advertises it."""
    host = f"[{contact.host}]" if ":" in contact.host else contact.host
    return f"{host}:{contact.port}"


def step_keys(leaf: Leaf, step: Step, hash_of: Callable[[str], int]) -> list[int]:
    """Return the ring keys of a step if its constants alone decide: one, those of all buckets, or none."""
    if step.role == keys.ANY:
        return [int(key) for key in keys.BUCKET_KEYS]
    if step.role & ~constant_mask(step.pattern):
        return []
    constants = leaf.query.constants
    parts = [hash_of(constants[~slot]) if slot < 0 else 0 for slot in step.pattern]
    return [int(keys.role_key(step.role, *parts))]


class Sheet:
    """The explanation of a query or, with ``subscription``, of a standing one.

    ``nodes`` returns the replicas of a ring key, the primary first; ``hash_of`` returns the hash of a term.
    """

    def __init__(
        self, group: Group, subscription: Subscription | None, counts: Sequence[StepCounts],
        nodes: Callable[[int], list[str]], hash_of: Callable[[str], int],
    ):  # fmt: skip
        self._group = group
        self._subscription = subscription
        self._counts = counts
        self._nodes = nodes
        self._hash_of = hash_of
        names = group.query.names if subscription is None else subscription.names
        self._query = dataclasses.replace(group.query, names=names)
        self._names = Names(self._query)

    def told(self, problems: Sequence[str], *, now: float, clock: int | None = None) -> dict[str, Any]:
        """Return the explanation; ``problems`` are findings that do not concern single steps.

        ``clock``: the time of day in milliseconds since 1970.  Streams may lie in the past of it.
        """
        group, query = self._group, self._query
        standing = isinstance(query, StandingQuery)
        said: dict[str, Any] = {
            "kind": "query" if self._subscription is None else "subscription",
            "form": query.form.value if isinstance(query, StandingQuery) else "select",
            "names": list(query.names),
            "algorithm": group.algorithm.value,
            "per_event": group.per_event,
            "home": {"key": _hexadecimal(group.key), "nodes": self._nodes(group.key)},
        }
        if self._subscription is not None:
            said["subscription"] = self._told_subscription(self._subscription, now)
        if standing:
            said["operators"] = list(self._told_operators())
        by_leaf = [[each for each in self._counts if each.leaf == at] for at in range(len(group.leaves))]
        said["parts"] = [self._told_leaf(*each) for each in zip(group.leaves, by_leaf, strict=True)]
        patterns = sum(len(leaf.query.patterns) for leaf in group.leaves)
        said["steps_left_out"] = patterns - len(self._counts)
        said["unmatched"] = [
            {"part": each.leaf + 1, "pattern": self._step(each).position + 1}
            for each in self._counts
            if each.counted and not each.triples
        ]
        findings = [*problems, *self._unreported(clock), *self._findings(by_leaf)]
        if len(findings) > FINDINGS_MAX:
            findings = [*findings[:FINDINGS_MAX], f"and {len(findings) - FINDINGS_MAX} more of this kind"]
        said["findings"] = findings
        return said

    def _plan(self, leaf: Leaf) -> Plan:
        assert leaf.plan is not None, "it is explained when it is planned"
        return leaf.plan

    def _step(self, counts: StepCounts) -> Step:
        return self._plan(self._group.leaves[counts.leaf]).steps[counts.number]

    # --- state -----------------------------------------------------------------------------------

    @staticmethod
    def _told_subscription(subscription: Subscription, now: float) -> dict[str, Any]:
        log, contents, evaluation = subscription.log, subscription.contents, subscription.evaluation
        return {
            "number": _hexadecimal(subscription.number),
            "since": round(hlc.seconds(subscription.since), 3),
            "subscriber": address(subscription.subscriber),
            "reached": not subscription.cut_off,
            "lease_seconds": subscription.lease_seconds,
            "lease_left_seconds": round(max(0.0, subscription.lease_until - now), 1),
            "live": not subscription.opening,
            "delivered": subscription.delivered,
            "answers": log.known,
            "unacknowledged": len(log),
            "dropped": log.dropped_total,
            "true": None if contents is None else len(contents.rows),
            "rows_held": None if evaluation is None else evaluation.rows_held,
            "reports": None if evaluation is None else evaluation.reports,
        }

    def _told_operators(self) -> Iterator[dict[str, Any]]:
        assert isinstance(self._query, StandingQuery)
        evaluation = None if self._subscription is None else self._subscription.evaluation
        rows = {} if evaluation is None else evaluation.rows_by_operator
        for number, operator in enumerate(self._query.operators):
            said = {
                "number": number,
                "operator": type(operator).__name__,
                "inputs": list(inputs_of(operator)),
                "detail": self._names.spell_operator(number),
            }
            yield said if evaluation is None else said | {"rows": rows.get(number, 0)}

    def _told_leaf(self, leaf: Leaf, counts: Sequence[StepCounts]) -> dict[str, Any]:
        said: dict[str, Any] = {"steps": [self._told_step(leaf, each) for each in counts]}
        if self._subscription is not None:
            said["identity"] = _hexadecimal(leaf.identity)
            said["answers"] = self._subscription.log.known if leaf.answers is None else leaf.answers.true
        return said

    def _told_step(self, leaf: Leaf, counts: StepCounts) -> dict[str, Any]:
        step, query, names = self._step(counts), leaf.query, self._names.leaves[counts.leaf]
        variables = [f"?{name}" for name in names]
        varying = step.role & ~constant_mask(step.pattern)
        ring = step_keys(leaf, step, self._hash_of)
        rate = leaf.counts.get(step.position)
        known = self._subscription is None or leaf.counts  # else another node has planned the query
        expected = expected_triples(step.pattern, query.constants, rate) if known else None
        said: dict[str, Any] = {
            "pattern": step.position + 1,
            "text": spell_pattern(step.pattern, query.constants, names),
            "filters": [spell_expression(query.filters[each].text, variables) for each in step.filters],
            "role": keys.ROLE_NAMES[step.role],
            "varies_with": [names[step.pattern[at]] for bit, at in _PARTS if varying & bit],
            "keys": [_hexadecimal(key) for key in ring],
            "nodes": list(dict.fromkeys(node for key in ring for node in self._nodes(key))),
            "rate": rate,
            "expected": None if expected is None else round(expected, 3),
            "counted_by": keys.ROLE_NAMES[counts.under & keys.SPO] if counts.counted else None,
            "triples": counts.triples if counts.counted else None,
            "triples_estimated": bool(counts.estimated & 2),
        }
        if self._subscription is not None:
            said |= {
                "triples_since": counts.young if counts.counted else None,
                "waiting": counts.waiting,
                "over": counts.over,
                "waiting_estimated": bool(counts.estimated & 1),
            }
        return said

    # --- findings --------------------------------------------------------------------------------

    def _findings(self, by_leaf: Sequence[Sequence[StepCounts]]) -> Iterator[str]:
        if self._subscription is None:
            yield from self._findings_of_query()
            return
        for leaf, counts in zip(self._group.leaves, by_leaf, strict=True):
            if counts:
                answers = self._subscription.log.known if leaf.answers is None else len(leaf.answers)
                yield self._where_it_stops(leaf, counts, answers)

    def _findings_of_query(self) -> Iterator[str]:
        fine = True
        for each in self._counts:
            if not each.counted:
                fine = False
                yield f"nobody waits for what {self._named(each)} needs: nodes keep no triples by which it is counted"
            elif not each.triples:
                fine = False
                yield f"no triple matches {self._named(each)}"
        if fine:
            yield "every pattern matches some triples"

    def _where_it_stops(self, leaf: Leaf, counts: Sequence[StepCounts], answers: int) -> str:
        """Name the first step without results."""
        complete = len(counts) == len(leaf.query.patterns)
        for at, each in enumerate(counts):
            last = at + 1 == len(counts)
            if last and not complete:
                break
            if not (answers if last else counts[at + 1].waiting):
                return self._why_it_stops(each, 0 if last else counts[at + 1].over)
        if leaf.answers is None:
            return f"all patterns match: {answers} answers and withdrawals so far"
        found = f"{answers} {'answer' if answers == 1 else 'answers'}"
        return f"part {counts[0].leaf + 1}: all patterns match: {found} so far"

    def _unreported(self, clock: int | None) -> Iterator[str]:
        """Explain why a query with windows reports nothing, if so; ``clock``: the time of day (ms)."""
        evaluation = None if self._subscription is None else self._subscription.evaluation
        reports = None if evaluation is None else evaluation.reports
        if reports is not None and reports["watermark"] is None:
            yield "no report is made before publishers of its streams have said how far they are (heartbeats)"
        elif reports is not None and isinstance(self._query, StandingQuery) and clock is not None:
            known = round((reports["watermark"] or 0) * 1000)
            if clock - known > PAST_MS:
                yield self._in_the_past(self._query, known, clock)

    def _in_the_past(self, query: StandingQuery, known: int, clock: int) -> str:
        """Name the elements for which the next report waits.

        ``known``: the time (ms) up to which all elements have arrived.
        """
        named = {parts[1] for leaf in query.leaves for each in leaf.constants if (parts := stream_parts_of(each))}
        named |= {window.stream for window in query.windows if isinstance(window, CountWindow)}
        every = 0 if query.report is None else query.report.every
        after = known if not every else next_multiple(known + 1, every) - 1
        streams = " and ".join(sorted(named))
        return (
            f"the elements of {streams} lie in the past: the last ones known are of {_time(known)}, "
            f"{_ago(clock - known)} ago by this clock; the next report waits for elements after {_time(after)}"
        )

    def _why_it_stops(self, each: StepCounts, taken_back: int) -> str:
        """Explain why a step has no results."""
        named, number = self._named(each), each.number
        alone = len(self._group.leaves) == 1
        nothing = "nothing fires" if alone else f"part {each.leaf + 1} has no answer"
        waits = "is one partial result waiting" if each.waiting == 1 else f"are {each.waiting} partial results waiting"
        there = f"; there {waits} for it" if number else ""
        if not each.waiting:
            return f"the query does not wait for {named} at any node that answered"
        if not each.counted:
            return f"nothing has come of {named} yet{there}"
        if not each.triples:
            removed = "any more: what did was removed" if taken_back else "yet"
            return f"{nothing} because no triple matches {named} {removed}{there}"
        many = "one triple matches" if each.triples == 1 else f"{each.triples} triples match"
        if not each.young:
            return f"{nothing}: {many} {named}, but from before the subscription{there}"
        filtered = " and passes the filters" if self._step(each).filters else ""
        if number:
            return f"{_results(each.waiting)} for {named}: {many} its constants, none has their values{filtered}"
        if filtered:
            return f"{nothing}: {many} the constants of {named}, none passes the filters"
        return f"{nothing}: {many} the constants of {named}, none fits it, or what came of it is on its way"

    def _named(self, each: StepCounts) -> str:
        leaf, step = self._group.leaves[each.leaf], self._step(each)
        text = spell_pattern(step.pattern, leaf.query.constants, self._names.leaves[each.leaf])
        part = f" of part {each.leaf + 1}" if len(self._group.leaves) > 1 else ""
        return f"pattern {step.position + 1}{part} ({text})"


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ago(milliseconds: int) -> str:
    minutes = milliseconds // 60_000
    for unit, size in (("days", 2880), ("hours", 120)):
        if minutes >= size:
            return f"{minutes // (size // 2)} {unit}"
    return f"{minutes} minutes" if minutes > 1 else "one minute"


def _results(count: int) -> str:
    return "one partial result waits" if count == 1 else f"{count} partial results wait"


def _hexadecimal(number: int) -> str:
    return f"{number:016x}"
