"""Rounds of questions to nodes: few at a time, shared by all callers, and their verdict on missing nodes."""

from __future__ import annotations

import asyncio
import json

import pytest

from p2prdf.errors import Unavailable
from p2prdf.gateway import survey as module
from p2prdf.gateway.overview import LISTED_MAX, ring_of, subscriptions_of
from p2prdf.gateway.survey import ASKED_MAX, Survey


class Overlay:
    """Nodes that answer at once, without a network; ``asked`` are those that were connected to, in order."""

    def __init__(self, count, *, view=True):
        self.keys = [f"{(number + 1) * (1 << 64) // (count + 1):016x}" for number in range(count)]
        self.view = view
        self.knows = {key: set(self.keys) for key in self.keys}
        """The members named by each node."""
        self.gone = {}
        """The states of nodes that are not alive, as the node in use sees them."""
        self.silent = {}
        """The error that each silent node raises."""
        self.loads = dict.fromkeys(self.keys, 10)
        self.uptimes = dict.fromkeys(self.keys, 5.0)
        self.subscriptions = dict.fromkeys(self.keys, ())
        self.asked = []
        self.survey = Survey(lambda: Node(self, self.keys[0]), self.reach)

    async def reach(self, address):
        key = address.partition(":")[0]
        self.asked.append(key)
        if key in self.silent:
            raise self.silent[key]
        return Node(self, key)

    async def look(self):
        await self.survey.refresh()
        return {each["key"]: each for each in ring_of(self.survey)["members"]}


class Node:
    def __init__(self, overlay, key):
        self.overlay, self.key = overlay, key

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def status(self):
        overlay = self.overlay
        if self.key == overlay.keys[0] and self.key in overlay.silent:
            raise overlay.silent[self.key]
        discovery = {"overlay": "kademlia"}
        if overlay.view:
            gone = [{"key": key, "host": key, "port": 1, "state": state} for key, state in overlay.gone.items()]
            discovery |= {"membership": "view", "complete": True, "members": gone}
        counts = ["triples", "queries", "rows", "subscriptions_coordinated", "subscriptions_local", "solutions_held"]
        peer = dict.fromkeys([*counts, "busy", "in_sync"], 0)
        peer |= {"overlay": "kademlia", "storage_load": 7, "processing_load": overlay.loads[self.key]}
        return {
            "key": self.key, "address": f"{self.key}:1", "peer": peer, "discovery": discovery,
            "clients": {"clients": 1}, "memory_bytes": 9, "uptime_seconds": overlay.uptimes[self.key],
            "stopping": False,
            "peers": [{"key": key, "address": f"{key}:1"} for key in overlay.knows[self.key] - overlay.gone.keys()],
        }  # fmt: skip

    async def subscriptions(self, *, after=0):
        told = sorted(each for each in self.overlay.subscriptions[self.key] if each > after)
        return {
            "total": len(self.overlay.subscriptions[self.key]), "more": len(told) > 64,
            "subscriptions": [{"number": f"{each:016x}"} for each in told[:64]],
        }  # fmt: skip


@pytest.fixture(autouse=True)
def each_look_is_a_round(monkeypatch):
    monkeypatch.setattr(module, "REUSE_SECONDS", 0.0)
    monkeypatch.setattr(module, "_RATE_SECONDS", (0.0, 120.0))


async def test_of_a_thousand_nodes_some_are_asked_each_time_and_all_in_turn():
    overlay = Overlay(1000)
    overlay.knows |= {key: set() for key in overlay.keys[1:]}  # the node in use knows all: others need not report
    told = await overlay.look()
    assert len(told) == 1000
    assert len(overlay.asked) == ASKED_MAX
    assert ring_of(overlay.survey)["counts"]["unasked"] == 1000 - ASKED_MAX - 1
    for rounds in range(2, -(-999 // ASKED_MAX) + 1):
        await overlay.look()
        assert len(overlay.asked) == rounds * ASKED_MAX
    assert len(set(overlay.asked)) == 999, "nobody was asked twice before all were once"
    assert ring_of(overlay.survey)["counts"] == {"here": 1000, "missing": 0, "left": 0, "unasked": 0}
    assert len(json.dumps(ring_of(overlay.survey))) < 600_000


async def test_concurrent_calls_share_one_round(monkeypatch):
    overlay = Overlay(10)
    await asyncio.gather(*(overlay.look() for _ in range(100)))
    assert (overlay.survey.rounds, len(overlay.asked)) == (1, 9)
    monkeypatch.setattr(module, "REUSE_SECONDS", 1e9)
    await overlay.look()
    assert overlay.survey.rounds == 1
    monkeypatch.setattr(module, "REUSE_SECONDS", 0.0)
    await overlay.look()
    assert overlay.survey.rounds == 2


async def test_dead_left_and_silent_nodes_are_told_apart():
    overlay = Overlay(6)
    await overlay.look()
    dead, left, silent, restarted = overlay.keys[1:5]
    overlay.gone |= {dead: "dead", left: "left"}
    overlay.silent[silent] = Unavailable("the way is barred")
    overlay.keys.append("00000000000000aa")  # gone before anybody looked
    overlay.gone["00000000000000aa"] = "dead"
    overlay.asked.clear()
    told = await overlay.look()
    assert {key: each["state"] for key, each in told.items()} == {
        overlay.keys[0]: "here", dead: "missing", left: "left", silent: "missing", restarted: "here",
        overlay.keys[5]: "here", "00000000000000aa": "missing",
    }  # fmt: skip
    assert told[silent]["reason"] == "the way is barred"
    assert dead not in overlay.asked, "the overlay watches over its members better"
    assert told[dead]["load"]["storage_load"] == 7, "what it said last stays"
    assert ring_of(overlay.survey)["means"]["processing_load"] == 10
    overlay.silent.clear()
    overlay.gone.clear()
    overlay.keys.pop()
    told = await overlay.look()
    assert [told[key]["state"] for key in overlay.keys] == ["here"] * 6
    assert told["00000000000000aa"]["reason"] == "no node names it any longer"


async def test_where_each_knows_some_all_that_are_named_are_members():
    overlay = Overlay(6, view=False)
    for number, key in enumerate(overlay.keys):
        overlay.knows[key] = {overlay.keys[(number + 1) % 6]}
    for found in (3, 4, 5, 6):  # each node asked names another
        assert len(await overlay.look()) == found
    assert not ring_of(overlay.survey)["everyone_known"]
    overlay.silent[overlay.keys[3]] = OSError("refused")
    told = await overlay.look()
    assert [told[key]["state"] for key in overlay.keys] == ["here"] * 3 + ["missing"] + ["here"] * 2


async def test_an_answer_that_hangs_or_makes_no_sense_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(module, "_ASK_SECONDS", 0.2)
    overlay = Overlay(5)

    async def reach(address):
        key = address.partition(":")[0]
        if key == overlay.keys[1]:
            await asyncio.Event().wait()
        node = Node(overlay, key)
        if key == overlay.keys[2]:
            node.key = overlay.keys[3]
        if key == overlay.keys[4]:
            del overlay.uptimes[key]
        return node

    overlay.survey = Survey(lambda: Node(overlay, overlay.keys[0]), reach)
    told = await overlay.look()
    reasons = [told[key]["reason"] for key in overlay.keys]
    assert [bool(each) for each in reasons] == [False, True, True, False, True]
    assert "no answer within" in reasons[1]
    assert "another node" in reasons[2]
    assert "not understood" in reasons[4]


async def test_the_rate_of_processing_is_shown_unless_a_node_was_restarted():
    overlay = Overlay(3)
    assert all(each["load"]["processing_load_per_second"] is None for each in (await overlay.look()).values())
    for key in overlay.keys:
        overlay.loads[key], overlay.uptimes[key] = 1000, 6.0
    overlay.loads[overlay.keys[1]], overlay.uptimes[overlay.keys[1]] = 3, 0.1
    told = await overlay.look()
    rates = [told[key]["load"]["processing_load_per_second"] for key in overlay.keys]
    assert rates[1] is None
    assert min(rates[0], rates[2]) > 0


async def test_without_any_node_all_callers_get_an_error_and_the_next_call_tries_again():
    overlay = Overlay(3)
    overlay.silent[overlay.keys[0]] = Unavailable("nobody is there")
    outcomes = await asyncio.gather(*(overlay.look() for _ in range(5)), return_exceptions=True)
    assert all(isinstance(each, Unavailable) for each in outcomes)
    overlay.silent.clear()
    assert len(await overlay.look()) == 3


async def test_members_and_subscriptions_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "MEMBERS_MAX", 20)
    monkeypatch.setattr(module, "SUBSCRIPTIONS_MAX", 4000)
    overlay = Overlay(30)
    for number, key in enumerate(overlay.keys):
        overlay.subscriptions[key] = [number << 32 | each for each in range(1, 301)]
    told = await overlay.look()
    assert len(told) == 20
    assert ring_of(overlay.survey)["left_out"] > 0
    listed = subscriptions_of(overlay.survey)
    assert len(listed["subscriptions"]) == LISTED_MAX
    here = ring_of(overlay.survey)["counts"]["here"]
    assert listed["total"] == 300 * here, "of those asked; how many there are is told in any case"
    assert all(len(each.subscriptions) <= 200 for each in overlay.survey.members.values())


async def test_a_subscription_listed_by_two_nodes_is_listed_once():
    overlay = Overlay(3)
    overlay.subscriptions = {key: [77] for key in overlay.keys}
    await overlay.look()
    for latest in overlay.keys:
        for key, member in overlay.survey.members.items():
            member.heard = overlay.survey.made - (0 if key == latest else 5)
        (told,) = subscriptions_of(overlay.survey)["subscriptions"]
        assert (told["number"], told["home"]) == (f"{77:016x}", f"{latest}:1"), "by whoever was heard last"


async def test_without_a_way_to_others_the_node_in_use_reports_alone():
    overlay = Overlay(4)
    overlay.survey = Survey(lambda: Node(overlay, overlay.keys[0]), None)
    told = await overlay.look()
    assert sorted(each["state"] for each in told.values()) == ["here", "unasked", "unasked", "unasked"]


async def test_a_node_that_nobody_names_is_forgotten():
    overlay = Overlay(3)
    await overlay.look()
    lost = overlay.keys.pop()
    overlay.knows = {key: set(overlay.keys) for key in overlay.keys}
    assert (await overlay.look())[lost]["state"] == "missing"
    overlay.survey.members[lost].named -= module.FORGET_SECONDS
    assert lost not in await overlay.look()
