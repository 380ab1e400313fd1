"""Evaluation of one interest over the shared relations: its trees of nodes, and the triples in its target.

The target holds a triple as long as one of its keys is in a full match: of the required patterns, or of the required
patterns together with an optional group.  A triple may match several patterns, so it counts the patterns by which it
is in the target (its *support*), and stays while that count is above zero.

An optional group hangs below the tree of the required patterns if its own patterns form a tree and one required
pattern has all variables that both share.  Otherwise it gets a tree of its own, from the required patterns and the
group's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from p2prdf.interest.core import Core
from p2prdf.interest.expression import Interest, Pattern, PatternGroup, variables_of
from p2prdf.interest.holdings import Holdings
from p2prdf.interest.join_tree import Condition, JoinTree, Leaf, join_tree
from p2prdf.interest.node import Node
from p2prdf.interest.relation import Columns, Fact, Key, Projection, Relation, Selection, projection
from p2prdf.rdf.compiled import compile_filter
from p2prdf.rdf.query import Filter

__all__ = ["Evaluation", "Pending"]

Pending: TypeAlias = Mapping[Node, Mapping[Relation, Sequence[Key]]]
"""By node, the keys touched in this round that concern it."""

_NOTHING: Final[Mapping[Relation, Sequence[Key]]] = {}


class _Tally:
    """Counts the support of triples by one pattern: for each key, the number of the node's full keys that contain it.
    """

    __slots__ = ("counts", "key_of", "node", "relation")

    def __init__(self, node: Node, relation: Relation, key_of: Projection | None):
        self.node = node
        self.relation = relation
        self.key_of = key_of
        self.counts: dict[Key, int] = {}
        """For a core's pattern only; elsewhere the node's key is the pattern's."""

    def turned(self, keys: Iterable[Key]) -> dict[Key, bool]:
        """Return the pattern's keys that entered or left full matches, with the former state."""
        full = self.node.full
        if self.key_of is None:
            return {key: key not in full for key in keys}
        flips: dict[Key, bool] = {}
        for match in keys:
            key = self.key_of(match)
            count = self.counts.get(key, 0)
            flips.setdefault(key, count > 0)
            count += 1 if match in full else -1
            if count:
                self.counts[key] = count
            else:
                del self.counts[key]
        return {key: before for key, before in flips.items() if (key in self.counts) != before}

    def is_full(self, key: Key) -> bool:
        """Return whether a key is in a full match."""
        return key in (self.node.full if self.key_of is None else self.counts)


class Evaluation:
    """One interest, evaluated."""

    def __init__(self, name: str, interest: Interest, holdings: Holdings):
        self.name = name
        self.interest = interest
        self.selections: list[Selection] = []
        """The selections of its patterns, each once, in order."""
        self.support: dict[Fact, int] = {}
        """The target: by triple, the number of patterns by which it is there."""
        self.changed: dict[Fact, bool] = {}
        """Triples with a change of support in this round, with whether they were in the target before it."""
        self._holdings = holdings
        self._trees: list[list[Node]] = []
        self._tallies: dict[Node, list[_Tally]] = {}
        self._relations: list[Relation] = []
        self._build()

    # --- construction ------------------------------------------------------------------------------

    def _build(self) -> None:
        required = self.interest.required
        conditions = [_condition(self.interest, each) for each in required.conditions]
        hung: list[tuple[int, JoinTree]] = []
        apart: list[PatternGroup] = []
        outward: dict[int, list[str]] = {}
        for group in self.interest.optionals:
            found = self._hanging(group)
            if found is None:
                apart.append(group)
            else:
                hung.append(found)
                outward.setdefault(found[0], []).extend(found[1].leaves[found[1].branches[0].members[0]].key)
        outward = {at: [name for name in shared if name in required.patterns[at]] for at, shared in outward.items()}
        tree = join_tree(required.patterns, conditions, self._cost, outward=outward)
        nodes, placed = self._planted(tree, tuple(range(len(required.patterns))))
        for at, branch in hung:
            node, key = placed[at]
            self._hang(branch, node, key, nodes)
        self._trees.append(nodes)
        for group in apart:
            patterns = tuple(dict.fromkeys((*required.patterns, *group.patterns)))
            also = [*conditions, *(_condition(self.interest, each) for each in group.conditions)]
            own = tuple(at for at, pattern in enumerate(patterns) if pattern in group.patterns)
            self._trees.append(self._planted(join_tree(patterns, also, self._cost), own)[0])

    def _hanging(self, group: PatternGroup) -> tuple[int, JoinTree] | None:
        """Return the required pattern that an optional group can hang on, and the group's tree; else None."""
        required = self.interest.required.patterns
        shared = set(variables_of(required)).intersection(variables_of(group.patterns))
        holders = [at for at, pattern in enumerate(required) if shared <= set(pattern)]
        doors = [at for at, pattern in enumerate(group.patterns) if shared <= set(pattern)]
        if not holders or not doors:
            return None
        conditions = [_condition(self.interest, each) for each in group.conditions]
        if any(not set(each.names) <= set(variables_of(group.patterns)) for each in conditions):
            return None
        door = min(doors, key=lambda at: self._cost(group.patterns[at]))
        tree = join_tree(group.patterns, conditions, self._cost, root=door, outward={door: shared})
        if len(tree.branches[0].members) > 1:
            return None
        return min(holders, key=lambda at: self._cost(required[at])), tree

    def _cost(self, pattern: Pattern) -> tuple[int, ...]:
        return self._holdings.cost(pattern)

    def _planted(
        self, tree: JoinTree, own: Sequence[int]
    ) -> tuple[list[Node], dict[int, tuple[Node, tuple[str, ...]]]]:
        """Make the nodes of a tree; return them, and by pattern its node with the variables of that node's keys.

        ``own``: the patterns with triples that belong to the target.
        """
        relations = [self._relation(leaf) for leaf in tree.leaves]
        nodes: list[Node] = []
        placed: dict[int, tuple[Node, tuple[str, ...]]] = {}
        for branch in tree.branches:
            if branch.parent is None:
                node = self._root(tree, relations)
            else:
                (member,) = branch.members
                leaf = tree.leaves[member]
                node = self._below(
                    nodes[branch.parent], tree.branches[branch.parent].key, relations[member], leaf, branch.shared
                )
            for number, member in enumerate(branch.members):
                placed[member] = (node, branch.key)
                if member in own:
                    key_of = node.source.key_of[number] if isinstance(node.source, Core) else None
                    self._add_tally(node, relations[member], key_of)
            nodes.append(node)
        return nodes, placed

    def _root(self, tree: JoinTree, relations: Sequence[Relation]) -> Node:
        members, key = tree.branches[0].members, tree.branches[0].key
        if len(members) == 1:
            node = Node(relations[members[0]], None, (), (), None, None)
            wanted = [relations[members[0]]]
        else:
            holds = self._conditions(tree.conditions, key)
            core = Core([(relations[at], tree.leaves[at].key) for at in members], key, holds,
                        self._holdings.matches_max)  # fmt: skip
            node = Node(core, None, (), (), None, None)
            wanted = [relations[at] for at in members]
        for relation in wanted:
            relation.roots[node] = None
        self._holdings.owners[node] = self
        return node

    def _below(
        self, above: Node, key_above: tuple[str, ...], relation: Relation, leaf: Leaf, shared: tuple[str, ...], *,
        optional: bool = False,
    ) -> Node:  # fmt: skip
        columns: Columns = tuple(leaf.pattern.index(name) for name in shared)
        columns_above: Columns = tuple(above.source.columns[key_above.index(name)] for name in shared)
        above.source.index(columns_above)
        joint_above = projection(above.source.columns, columns_above)
        node = Node(
            relation, above, columns, columns_above, relation.watch(columns), joint_above, optional=optional
        )
        self._holdings.owners[node] = self
        return node

    def _hang(self, tree: JoinTree, above: Node, key_above: tuple[str, ...], nodes: list[Node]) -> None:
        """Hang the tree of an optional group below a node."""
        made: list[Node] = []
        for branch in tree.branches:
            (member,) = branch.members
            leaf = tree.leaves[member]
            relation = self._relation(leaf)
            if branch.parent is None:
                shared = tuple(name for name in leaf.key if name in variables_of(self.interest.required.patterns))
                node = self._below(above, key_above, relation, leaf, shared, optional=True)
            else:
                node = self._below(made[branch.parent], tree.branches[branch.parent].key, relation, leaf, branch.shared)
            self._add_tally(node, relation, None)
            made.append(node)
        nodes += made

    def _add_tally(self, node: Node, relation: Relation, key_of: Projection | None) -> None:
        self._tallies.setdefault(node, []).append(_Tally(node, relation, key_of))
        above: Node | None = node
        while above is not None and not above.told:
            above.told = True
            above = above.above

    def _relation(self, leaf: Leaf) -> Relation:
        columns = tuple(leaf.pattern.index(name) for name in leaf.key)
        tests = tuple(
            sorted(
                (each.filter.text, tuple(leaf.pattern.index(name) for name in each.names)) for each in leaf.conditions
            )
        )
        filters = {each.filter.text: each.filter for each in leaf.conditions}
        relation = self._holdings.relation(leaf.pattern, columns, [(filters[text], at) for text, at in tests])
        self._relations.append(relation)
        if relation.selection not in self.selections:
            self.selections.append(relation.selection)
        return relation

    def _conditions(self, conditions: Sequence[Condition], key: tuple[str, ...]) -> Callable[[tuple[int, ...]], bool]:
        text = self._holdings.terms.text
        compiled = [(compile_filter(each.filter), [key.index(name) for name in each.names]) for each in conditions]

        def holds(match: tuple[int, ...]) -> bool:
            return all(test([text(match[at]) for at in places]) for test, places in compiled)

        return holds

    # --- rounds --------------------------------------------------------------------------------------

    def everything(self) -> Pending:
        """Return all present keys, for an interest that is added to present triples."""
        roots = {nodes[0] for nodes in self._trees}
        found: dict[Node, dict[Relation, list[Key]]] = {}
        for relation in self._relations:
            for node in relation.roots:
                if node in roots:
                    found.setdefault(node, {})[relation] = list(relation.keys)
        return found

    def settle(self, pending: Pending, *, fresh: bool = False) -> None:
        """Process touched keys, and their triples.

        ``fresh``: this is the first call, with all present keys.
        """
        for nodes in self._trees:
            if any(node in pending for node in nodes):
                self._settle(nodes, pending, fresh=fresh)

    def _settle(self, nodes: list[Node], pending: Pending, *, fresh: bool) -> None:
        for node in nodes:
            touched = pending.get(node, _NOTHING)
            if isinstance(node.source, Core):
                node.settle_members(node.source.settle(touched, fresh=fresh))
            else:
                node.settle_members(key for keys in touched.values() for key in keys)
        for node in reversed(nodes):
            node.settle_satisfied()
        for node in nodes:
            if node.told:
                node.settle_full()
        for node in nodes:
            turned = node.finish()
            touched = pending.get(node, _NOTHING)
            if turned or touched:
                for tally in self._tallies.get(node, ()):
                    self._count(tally, tally.turned(turned), touched.get(tally.relation, ()))

    def _count(self, tally: _Tally, flips: Mapping[Key, bool], touched: Iterable[Key]) -> None:
        """Count the support of triples: those of keys that turned, and those that came or went themselves."""
        relation = tally.relation
        for key, before in flips.items():
            for fact in relation.facts_before(key) if before else relation.facts(key):
                self._support(fact, -1 if before else 1)
        for key in touched:
            if key not in flips and tally.is_full(key):
                added, removed = relation.touched.get(key, ((), ()))
                for fact in added:
                    self._support(fact, 1)
                for fact in removed:
                    self._support(fact, -1)

    def _support(self, fact: Fact, change: int) -> None:
        count = self.support.get(fact, 0)
        self.changed.setdefault(fact, count > 0)
        count += change
        assert count >= 0, "support is taken back from whoever had it"
        if count:
            self.support[fact] = count
        else:
            del self.support[fact]

    def turned(self) -> Iterator[tuple[Fact, bool]]:
        """Yield the triples that entered or left the target in this round, with whether they were in it."""
        for fact, before in self.changed.items():
            if (fact in self.support) != before:
                yield fact, before

    def close(self) -> list[Relation]:
        """Remove all wants; return the relations that were used, once for each use."""
        for nodes in self._trees:
            for node in nodes:
                node.forget()
                self._holdings.owners.pop(node, None)
                for relation in self._relations:
                    relation.roots.pop(node, None)
        return self._relations


def _condition(interest: Interest, condition: Filter) -> Condition:
    names = interest.variables
    return Condition(condition, tuple(names[number] for number in condition.variables))
