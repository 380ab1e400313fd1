"""The checkers can fail: each mutant breaks one thing and is caught within a few seeds.

A harness that finds nothing proves nothing until it is shown to find a planted error.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.peer.joins.depths import Depths
from p2prdf.peer.joins.hot_keys import HotKeys, _Split
from p2prdf.sim.oracle import Oracle
from p2prdf.sim.ring import Ring
from p2prdf.store.columnar import ColumnarTables
from p2prdf.store.light import LightTables
from p2prdf.wire.messages import (
    AdvertiseIndexes,
    Answers,
    Deliver,
    Envelope,
    Forward,
    GroupsGone,
    IndexQuery,
    IndexTriples,
    SubscriptionOpened,
)
from schedules.scenario import draw_scenario, run_scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf.sim.world import Node, World
    from schedules.checkers import Problem

SEEDS_MAX = 60
HOT_SEEDS_MAX = 300


def _caught(prepare: Callable[[World], None] | None, kinds: set[str], *, hot: bool = False) -> Problem:
    """Run seeds until one shows a problem of these kinds; fail if none does.  ``hot``: those that split keys."""
    for seed in range(HOT_SEEDS_MAX if hot else SEEDS_MAX):
        scenario = draw_scenario(seed, "varied")
        if scenario.options.peers > 7 or (hot and not scenario.hot):
            continue
        for problem in run_scenario(scenario, prepare=prepare).problems:
            if problem.kind in kinds:
                return problem
    pytest.fail(f"{HOT_SEEDS_MAX if hot else SEEDS_MAX} seeds and the mutant lives")


def _swallow(kind: type, *, every: bool = False) -> Callable[[World], None]:
    """Make the first message of a kind vanish although its receiver acknowledges it, or every one."""

    def prepare(world: World) -> None:
        swallowed: list[tuple[int, int]] = []

        def tap(node: Node, envelope: Envelope) -> Envelope:
            transfer = (node.index, envelope.transfer)
            if isinstance(envelope.message, kind) and (every or not swallowed or transfer in swallowed):
                swallowed.append(transfer)
                return dataclasses.replace(envelope, message=GroupsGone([]))
            return envelope

        world.tap = tap

    return prepare


@pytest.mark.parametrize("kind", [IndexTriples, IndexQuery, Forward, Answers, Deliver])
def test_a_message_that_vanishes_although_acknowledged_is_missed(kind: type):
    _caught(_swallow(kind), {"missing", "placement"})


def test_a_token_that_is_never_released_is_a_leftover():
    problem = _caught(lambda world: world.nodes[0].peer._messenger.token(lambda: None), {"leftover"})
    assert "operations_pending = 1" in problem.text


def test_a_split_that_is_never_reported_is_a_leftover(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(HotKeys, "_supplied", lambda *_: None)
    assert "keys_migrating" in _caught(None, {"leftover"}, hot=True).text


def test_an_advertisement_that_vanishes_is_missed():
    _caught(_swallow(AdvertiseIndexes), {"missing", "placement"})


def test_a_subscriber_that_never_hears_of_its_subscription_is_missed():
    """In every repetition of its request; an answer lost once is requested again."""
    _caught(_swallow(SubscriptionOpened, every=True), {"unanswered", "refused"})
    for seed in range(10):
        outcome = run_scenario(draw_scenario(seed, "varied"), prepare=_swallow(SubscriptionOpened))
        assert outcome.good, outcome.report()


def _change_notify(change: Callable[..., list]) -> Callable[[World], None]:
    def prepare(world: World) -> None:
        original = world._notify

        def notify(node: Node, effect) -> None:
            for changed in change(effect):
                original(node, changed)

        world._notify = notify  # type: ignore[method-assign]

    return prepare


def test_an_answer_that_is_handed_over_twice_is_found():
    problem = _caught(_change_notify(lambda effect: [effect, effect]), {"sequence"})
    assert "follows" in problem.text or "twice" in problem.text


def test_an_answer_that_nobody_owes_is_found():
    def swapped(effect):
        columns = effect.bindings
        other = type(columns[0])(columns[0]) if len(columns) else None
        if other is None or len(columns) < 2:
            return [effect]
        return [dataclasses.replace(effect, bindings=(columns[1], columns[0], *columns[2:]))]

    _caught(_change_notify(swapped), {"extra"})


def test_an_answer_that_is_dropped_on_the_last_metre_is_missed():
    problem = _caught(_change_notify(lambda effect: [] if effect.first == 1 else [effect]), {"missing"})
    assert "answers:" in problem.text


def test_a_reported_gap_is_a_problem():
    problem = _caught(_change_notify(lambda effect: [dataclasses.replace(effect, lost=3)]), {"sequence"})
    assert "3 answers" in problem.text


def test_an_identity_under_two_numbers_is_found():
    def repeated(effect):
        shifted = dataclasses.replace(effect, first=effect.first + len(as_list(effect.identity)))
        return [effect, shifted]

    problem = _caught(_change_notify(repeated), {"sequence"})
    assert "twice" in problem.text or "follows" in problem.text


def test_identities_that_are_not_indexed_by_position_lose_answers(monkeypatch: pytest.MonkeyPatch):
    """Rule R2: two vectors of the same triples in another order are two answers."""
    one, many = keys.contribution, keys.contributions
    monkeypatch.setattr(keys, "contribution", lambda identity, _: one(identity, 0))
    monkeypatch.setattr(keys, "contributions", lambda identities, _: many(identities, 0))
    _caught(None, {"missing"})


def test_keys_that_forget_a_part_lose_answers_or_rows(monkeypatch: pytest.MonkeyPatch):
    """Peers that compute keys otherwise than the ring send rows to peers that never join them."""
    original = keys.role_keys
    monkeypatch.setattr(keys, "role_keys", lambda role, s, p, _: original(role, s, p, p))
    _caught(None, {"missing", "placement", "not live", "restless"})


@pytest.mark.parametrize("overlay", ["kademlia", "chord"])
def test_triples_that_lie_where_another_metric_would_put_them_are_found(overlay: str):
    def prepare(world: World) -> None:
        if world.options.overlay != overlay:
            world.ring = Ring(world.ring, overlay)

    problem = _caught(prepare, {"placement"})
    assert "owns" in problem.text


def test_rows_that_are_not_copied_when_a_key_is_split_lose_answers(monkeypatch: pytest.MonkeyPatch):
    """Triples that go to the new sub-keys do not meet the queries that waited before."""
    for tables in (LightTables, ColumnarTables):
        monkeypatch.setattr(tables, "waiting_rows", lambda *_: [])
    _caught(None, {"missing"}, hot=True)


def test_rows_that_come_to_a_split_key_and_are_not_copied_lose_answers(monkeypatch: pytest.MonkeyPatch):
    """Triples at the holders do not meet the queries that came since."""
    monkeypatch.setattr(HotKeys, "copy_rows", lambda *_: None)
    _caught(None, {"missing"}, hot=True)


def test_copying_that_begins_only_when_the_split_is_acknowledged_loses_rows(monkeypatch: pytest.MonkeyPatch):
    """Rows that arrive between the copying and its acknowledgement are missed."""
    original = HotKeys.copy_rows

    def late(self: HotKeys, rows) -> None:
        settled = {key: split for key, split in self._splits.items() if split.told == split.depth}
        everything, self._splits = self._splits, {key: settled.get(key, _Split(0)) for key in self._splits}
        original(self, rows)
        self._splits = everything

    monkeypatch.setattr(HotKeys, "copy_rows", late)
    _caught(None, {"missing", "placement"}, hot=True)


class Guess(Depths):
    """A sender that takes every key for split in two."""

    def find(self, role, ring):
        if role not in keys.SPLIT_ROLES:
            return None
        return [1] * len(ring) if isinstance(ring, list) else ring * 0 + 1


def _guessing(monkeypatch: pytest.MonkeyPatch) -> None:
    original = HotKeys.__init__

    def init(self: HotKeys, *arguments) -> None:
        original(self, *arguments)
        self._known = Guess(1)

    monkeypatch.setattr(HotKeys, "__init__", init)


def test_senders_that_take_every_key_for_split_do_no_harm(monkeypatch: pytest.MonkeyPatch):
    """A peer that was not asked to hold a sub-key passes on: any depth will do, also a wrong one."""
    _guessing(monkeypatch)
    for seed in range(25):
        outcome = run_scenario(draw_scenario(seed, "varied"))
        assert outcome.good, outcome.report()


def test_an_owner_of_a_sub_key_that_stores_triples_without_having_been_asked_loses_answers(
    monkeypatch: pytest.MonkeyPatch,
):
    _guessing(monkeypatch)
    monkeypatch.setattr(HotKeys, "_keeps", lambda *_, **__: True)
    _caught(None, {"missing"})


class TooEager(Oracle):
    """An oracle that counts publications from before the subscription."""

    def _count(self, triple, since):
        return super()._count(triple, 0)


class TooStrict(Oracle):
    """An oracle for which the stamp of the subscription itself is too early."""

    def _count(self, triple, since):
        return super()._count(triple, since + (1 << 16))


class Bag(Oracle):
    """An oracle that takes publications for a bag where they are a set."""

    def answers(self, query, since, *, per_event=False):
        return super().answers(query, since, per_event=not query.distinct)


class Projected(Oracle):
    """An oracle that drops the multiplicities that projection leaves."""

    def answers(self, query, since, *, per_event=False):
        return Counter(dict.fromkeys(super().answers(query, since, per_event=per_event), 1))


@pytest.mark.parametrize(
    ("mutant", "kind"),
    [(TooEager, "missing"), (TooStrict, "extra"), (Bag, "missing"), (Projected, "extra")],
)
def test_an_oracle_of_another_semantics_disagrees_with_the_product(
    mutant: type[Oracle], kind: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("schedules.scenario.Oracle", mutant)
    _caught(None, {kind})
