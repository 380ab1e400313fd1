"""Exports while publications and deletions go on: the lines are the statements as of the stamp of the export.

The oracle takes the acknowledged publications up to the stamp, and the last event of each statement decides.
Publications that fail with a peer may count or not.
"""

from __future__ import annotations

from random import Random

import pytest

from p2prdf.peer import PeerConfig
from p2prdf.peer.entry import exports
from p2prdf.peer.joins import kept_exports
from p2prdf.sim.faults import CALM, Faults
from p2prdf.sim.world import WorldOptions
from p2prdf.wire import contract
from schedules.failures.options import Failures
from schedules.failures.world import FailingWorld

LOSSY = Faults(loss_probability=0.02, duplicate_probability=0.05)
GRAPHS = ("", "<urn:g>", "<urn:h>")


class Asked:
    """A request, with its outcome."""

    def __init__(self, world, node, make):
        self.outcome = None
        self.failed = world.request(node, make, self) is None

    def completed(self, node, request, outcome):
        self.outcome = outcome
        self.failed = isinstance(outcome, contract.Failed)

    def cut_off(self, node):
        self.failed = True


class Writing:
    """All peers publish and delete statements of a small set, in three graphs."""

    def __init__(self, world, seed, statements=60):
        self.world, self.random = world, Random(seed)
        self.statements = [
            (f"<urn:s{n % 7}>", f"<urn:p{n % 5}>", f'"{n}"', GRAPHS[n % 3]) for n in range(statements)
        ]
        self.events, self.writes, self.on = 0, [], True
        world.schedule(0.0, self.write)

    def write(self):
        if not self.on:
            return
        node = self.random.choice(self.world.living())
        some = self.random.sample(self.statements, self.random.randint(1, 8))
        removed = self.random.random() < 0.4
        texts = zip(*some, strict=True)
        s, p, o, g = (node.columns.column(node.dictionary.intern_all(each), "uint32") for each in texts)
        first, self.events = self.events, self.events + len(some)
        asked = Asked(self.world, node, lambda number: contract.Publish(
            number, 77, first, s, p, o, removed=removed, graph=(g,),
        ))
        self.writes.append((asked, some, removed))
        self.world.schedule(self.random.uniform(0.02, 0.08), self.write)

    def state(self, stamp):
        """Return the lines as of a stamp, and those that failed publications make uncertain."""
        last, uncertain = {}, set()
        for asked, some, removed in self.writes:
            if isinstance(asked.outcome, contract.Published):
                if asked.outcome.time <= stamp:
                    for each in some:
                        last[each] = max(last.get(each, (0, False)), (asked.outcome.time, removed))
            else:
                uncertain.update(some)
        return {line(*each) for each, (_, removed) in last.items() if not removed}, set(map(_line, uncertain))


def line(s, p, o, g):
    return f"{s} {p} {o} {g} ." if g else f"{s} {p} {o} ."


def _line(statement):
    return line(*statement)


def world_of(*, overlay="kademlia", tables="arrays", peers=5, replicas=3, faults=CALM, seed=1):
    config = PeerConfig(replicas=replicas, copies_min=min(2, replicas), durable=True, hot_keys=False)
    options = WorldOptions(peers=peers, seed=seed, overlay=overlay, tables=tables, config=config, faults=faults)
    world = FailingWorld(options, Failures(publisher_crash_probability=0.0))
    world.run_for(5.0)
    return world


def answered(world, node, make, seconds=60.0):
    asked, end = Asked(world, node, make), world.now + seconds
    while asked.outcome is None and not asked.failed and world.now < end:
        world.run_for(0.02)
    return asked.outcome


def begun(world, node, stream=""):
    outcome = answered(world, node, lambda number: contract.BeginExport(number, stream))
    assert isinstance(outcome, contract.ExportBegun), outcome
    return outcome


def page(world, node, export, after=0):
    return answered(world, node, lambda number: contract.ReadExport(number, export, after))


def read(world, export, between=lambda: None, nodes=None):
    """Read all pages, each at another peer."""
    after, lines, pages = 0, [], 0
    while after < kept_exports.LAST_PLACE:
        living = nodes or world.living()
        outcome = page(world, living[pages % len(living)], export, after)
        assert isinstance(outcome, contract.ExportRead), outcome
        assert outcome.upto > after
        after, pages = outcome.upto, pages + 1
        lines += outcome.lines
        between()
    assert len(set(lines)) == len(lines), "a line came twice"
    return set(lines)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    monkeypatch.setattr(exports, "PAGE_LINES", 10)
    monkeypatch.setattr(exports, "MEMBER_LINES_MIN", 3)
    monkeypatch.setattr(kept_exports, "SLICE_ROWS", 256)
    monkeypatch.setattr(kept_exports, "PIECE_ROWS", 64)


@pytest.mark.parametrize(
    ("overlay", "tables", "faults"),
    [("kademlia", "arrays", CALM), ("chord", "arrays", LOSSY), ("kademlia", "lists", LOSSY), ("chord", "lists", CALM)],
)
def test_export_has_the_statements_as_of_its_stamp_while_publications_go_on(overlay, tables, faults):
    world = world_of(overlay=overlay, tables=tables, faults=faults)
    writing = Writing(world, 5)
    world.run_for(2.0)
    for node in world.living()[:2]:
        export = begun(world, node)
        lines = read(world, export.export, between=lambda: world.run_for(0.05))
        world.run_for(3.0)  # all publications up to the stamp have an outcome
        expected, uncertain = writing.state(export.stamp)
        assert lines - uncertain == expected - uncertain
        assert len(expected) > 10


@pytest.mark.parametrize("seed", range(3))
def test_export_is_complete_although_peers_crash_while_it_is_read(seed):
    world = world_of(peers=6, seed=seed)
    writing = Writing(world, seed, 200)
    world.run_for(3.0)
    export = begun(world, world.living()[0])
    victims = world.living()[1:5:3]
    pages = []

    def crash():
        pages.append(None)
        if len(pages) in (2, 4) and victims:
            victim = victims.pop()
            world.crash(victim)
            world.run_for(1.0)
            world.lose(victim)
            world.run_for(3.0)

    lines = read(world, export.export, between=crash)
    assert len(pages) > 3
    world.run_for(5.0)
    expected, uncertain = writing.state(export.stamp)
    assert lines - uncertain == expected - uncertain


def test_page_is_refused_when_no_replica_of_a_part_is_left():
    world = world_of(overlay="chord", peers=3, replicas=2)
    Writing(world, 3).on = False
    export = begun(world, world.living()[0])
    for victim in world.living()[1:3]:
        world.crash(victim)
        world.lose(victim)
    world.run_for(5.0)
    outcome = page(world, world.living()[0], export.export)
    assert isinstance(outcome, contract.Failed)
    assert outcome.code == "unavailable"
    assert "no replica of a part" in outcome.text


def test_page_is_refused_with_the_statement_that_no_message_can_have(monkeypatch):
    """Its other replicas cannot send it either, so they are not asked, and the next question gets the same answer."""
    monkeypatch.setattr(kept_exports, "LINE_CHARACTERS_MAX", 30)
    monkeypatch.setattr(kept_exports, "TERM_BYTES_MAX", 30)
    world = world_of(peers=3)
    writing = Writing(world, 3)
    world.run_for(2.0)
    writing.on = False
    export = begun(world, world.living()[0])
    for _ in range(2):
        outcome = page(world, world.living()[0], export.export)
        assert isinstance(outcome, contract.Failed)
        assert outcome.code == "data-refused"
        assert "more than 30 bytes: <" in outcome.text


def test_peer_that_does_not_keep_an_export_refuses_to_read_it():
    world = world_of(peers=3)
    node = world.living()[0]
    export = begun(world, node).export
    assert isinstance(answered(world, node, lambda number: contract.EndExport(number, export)), contract.ExportEnded)
    world.run_for(1.0)
    for each in world.living():
        assert each.peer.status()["exports"] == 0
        outcome = page(world, each, export)
        assert isinstance(outcome, contract.Failed)
        assert "does not keep export" in outcome.text


def test_export_without_readers_is_forgotten():
    world = world_of(peers=3)
    begun(world, world.living()[0])
    assert [each.peer.status()["exports"] for each in world.living()] == [1, 1, 1]
    world.run_for(kept_exports.LEASE_SECONDS + 1)
    assert [each.peer.status()["exports"] for each in world.living()] == [0, 0, 0]


def test_peers_keep_few_exports_and_the_unread_one_gives_way():
    world = world_of(peers=3)
    node = world.living()[0]
    first = begun(world, node).export
    for _ in range(kept_exports.EXPORTS_MAX - 1):
        begun(world, node)
    outcome = answered(world, node, contract.BeginExport)
    assert isinstance(outcome, contract.Failed)
    assert "keeps 4 exports already" in outcome.text
    world.run_for(kept_exports.UNREAD_SECONDS)
    begun(world, node)
    outcome = page(world, node, first)
    assert isinstance(outcome, contract.Failed)


def test_peers_that_keep_only_indexes_in_use_refuse_exports():
    config = PeerConfig(replicas=3, copies_min=2, indexes="on-demand")
    world = FailingWorld(WorldOptions(peers=3, config=config), Failures())
    world.run_for(5.0)
    outcome = answered(world, world.living()[0], contract.BeginExport)
    assert isinstance(outcome, contract.Failed)
    assert "indexes=on-demand" in outcome.text
