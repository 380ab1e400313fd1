"""A node of a join tree: the keys of a pattern that are in some match, maintained by counting.

A key of a node passes through three states:

- *member*: it is present, and a member of the node above leads to it (all keys of the root are members).  Other keys
  are ignored, which is most of the content of common predicates.
- *satisfied*: each node below has a satisfied key that fits, so there is a match of this node and all below it.
- *full*: it is satisfied, and a full key of the node above fits, so it is in a match of all patterns.

The state of a key depends on its neighbours only through counts: ``satisfied_below[v]`` of a node counts its
satisfied keys with value v in the columns shared with the node above; ``full_above[v]`` counts the full keys there
with v.  A change therefore passes through the tree three times without enumerating a match: down (members), up
(satisfied), down again (full).  Each pass visits only keys with a neighbour count that went from none to some, or
back.

Nodes of optional groups hang below required ones and do not block them: ``optional`` nodes leave satisfaction above
them alone.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Protocol

from p2prdf.interest.relation import Columns, Key, Projection, Watch

__all__ = ["Keys", "Node"]


class Keys(Protocol):
    """The source of a node's keys."""

    columns: Columns

    @property
    def keys(self) -> Container[Key]:
        """All present keys."""

    def index(self, columns: Columns) -> None:
        """Index the keys by the values in some columns too."""

    def with_joint(self, columns: Columns, joint: Key) -> Iterable[Key]:
        """Return the keys with a value in some columns, which must be indexed."""


class Node:
    """One node.  ``above`` and ``columns`` are its place in the tree, and are None and empty for the root."""

    __slots__ = (
        "_full_flips", "_full_turned", "_joined", "_left", "_satisfied_flips", "_turned", "_want_flips", "above",
        "below", "columns", "columns_above", "full", "full_above", "joint_above", "joint_of", "missing", "optional",
        "satisfied_below", "source", "told", "watch",
    )  # fmt: skip

    def __init__(
        self, source: Keys, above: Node | None, columns: Columns, columns_above: Columns, watch: Watch | None,
        joint_above: Projection | None, *, optional: bool = False,
    ):  # fmt: skip
        """``columns``: the columns shared with the node above, here; ``columns_above``: the same, there."""
        self.source = source
        self.above = above
        self.columns = columns
        self.columns_above = columns_above
        self.watch = watch
        self.joint_of = watch.joint_of if watch is not None else None
        self.joint_above = joint_above
        self.optional = optional
        self.below: list[Node] = []
        self.told = False
        """Whether a tally needs the full keys of this node or of one below."""
        self.missing: dict[Key, int] = {}
        """Members, with the number of required nodes below that have no satisfied key for them."""
        self.satisfied_below: dict[Key, int] = {}
        self.full: dict[Key, None] = {}
        self.full_above: dict[Key, int] = {}
        self._clear()
        if above is not None:
            above.below.append(self)

    def _clear(self) -> None:
        self._want_flips: dict[Key, bool] = {}
        self._satisfied_flips: dict[Key, bool] = {}
        self._full_flips: dict[Key, bool] = {}
        self._joined: list[Key] = []
        self._left: dict[Key, int] = {}
        self._turned: dict[Key, bool] = {}
        """Keys whose satisfaction changed, with the former value."""
        self._full_turned: dict[Key, None] = {}

    # --- down: members ----------------------------------------------------------------------------

    def settle_members(self, touched: Iterable[Key]) -> None:
        """Let keys join and leave; ``touched``: keys that may have come or gone."""
        keys, missing = self.source.keys, self.missing
        for key in self._membership_doubtful(touched):
            there = key in keys and self._is_wanted(key)
            if there == (key in missing):
                continue
            if there:
                missing[key] = -1  # counted on the way up
                self._joined.append(key)
            else:
                self._left[key] = missing.pop(key)
            for node in self.below:
                node.want(key, 1 if there else -1)

    def _membership_doubtful(self, touched: Iterable[Key]) -> Iterator[Key]:
        yield from touched
        if self.watch is None:
            return
        for joint, before in self._want_flips.items():
            if (self in self.watch.wanted.get(joint, ())) != before:
                yield from self.source.with_joint(self.columns, joint)

    def _is_wanted(self, key: Key) -> bool:
        if self.watch is None or self.joint_of is None:
            return True
        found = self.watch.wanted.get(self.joint_of(key))
        return found is not None and self in found

    def want(self, key: Key, change: int) -> None:
        """Count a member above that begins, or ceases, to lead here."""
        assert self.watch is not None
        assert self.joint_above is not None
        joint = self.joint_above(key)
        wanted = self.watch.wanted.setdefault(joint, {})
        before = wanted.get(self, 0)
        self._want_flips.setdefault(joint, before > 0)
        if before + change:
            wanted[self] = before + change
        else:
            del wanted[self]
            if not wanted:
                del self.watch.wanted[joint]

    # --- up: satisfied keys -------------------------------------------------------------------------

    def settle_satisfied(self) -> None:
        """Count the satisfied keys below; all nodes below have done so."""
        required = [node for node in self.below if not node.optional]
        missing, turned = self.missing, self._turned
        new = frozenset(self._joined)
        for key in self._joined:
            count = 0
            for node in required:
                assert node.joint_above is not None
                count += node.joint_above(key) not in node.satisfied_below
            missing[key] = count
            turned[key] = False
        for node in required:
            for joint, before in node.satisfied_flips():
                step = 1 if before else -1
                for key in self.source.with_joint(node.columns_above, joint):
                    if key in missing and key not in new:
                        turned.setdefault(key, missing[key] == 0)
                        missing[key] += step
        for key, count in self._left.items():
            # A key that left in this round was satisfied by the state before it.
            turned[key] = count == 0
        self._count_satisfied()

    def _count_satisfied(self) -> None:
        missing, counts = self.missing, self.satisfied_below
        for key, before in list(self._turned.items()):
            now = missing.get(key) == 0
            if now == before:
                del self._turned[key]
                continue
            if self.joint_of is not None:
                joint = self.joint_of(key)
                count = counts.get(joint, 0)
                self._satisfied_flips.setdefault(joint, count > 0)
                _count(counts, joint, count + (1 if now else -1))

    def satisfied_flips(self) -> Iterator[tuple[Key, bool]]:
        """Yield values that went from none to some satisfied keys or back, with whether there were some."""
        for joint, before in self._satisfied_flips.items():
            if (joint in self.satisfied_below) != before:
                yield joint, before

    # --- down again: full keys ----------------------------------------------------------------------

    def settle_full(self) -> None:
        """Determine the keys in full matches; the node above has done so."""
        for key in self._fullness_doubtful():
            now = self.missing.get(key) == 0 and self._is_full_above(key)
            if now == (key in self.full):
                continue
            self._full_turned[key] = None
            if now:
                self.full[key] = None
            else:
                del self.full[key]
            for node in self.below:
                if node.told:
                    node.count_full(key, 1 if now else -1)

    def _fullness_doubtful(self) -> Iterator[Key]:
        yield from self._turned
        for joint, before in self._full_flips.items():
            if (joint in self.full_above) != before:
                # Keys that have gone since have left, so they are among those that turned.
                yield from list(self.source.with_joint(self.columns, joint))

    def _is_full_above(self, key: Key) -> bool:
        return self.joint_of is None or self.joint_of(key) in self.full_above

    def count_full(self, key: Key, change: int) -> None:
        """Count a full key above that appears or disappears."""
        assert self.joint_above is not None
        joint = self.joint_above(key)
        count = self.full_above.get(joint, 0)
        self._full_flips.setdefault(joint, count > 0)
        _count(self.full_above, joint, count + change)

    def finish(self) -> list[Key]:
        """Return the keys that became full or ceased to be, and reset for the next round."""
        turned = list(self._full_turned)
        self._clear()
        return turned

    def forget(self) -> None:
        """Withdraw all wants of this node."""
        if self.watch is not None and self.above is not None and self.joint_above is not None:
            for key in self.above.missing:
                wanted = self.watch.wanted.get(self.joint_above(key))
                if wanted is not None and wanted.pop(self, None) is not None and not wanted:
                    del self.watch.wanted[self.joint_above(key)]


def _count(counts: dict[Key, int], joint: Key, count: int) -> None:
    assert count >= 0, "what is counted was counted before"
    if count:
        counts[joint] = count
    else:
        del counts[joint]
