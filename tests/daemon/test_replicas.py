"""Interest replicas through real nodes: changesets in, a SPARQL endpoint out, exact although processes are killed."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import sys
from random import Random

import pytest
from dataset_histories import INTEREST, history, slice_of
from sparql_endpoint import EndpointProcess

import p2prdf
from p2prdf.interest import parse_interest
from p2prdf.replica import following
from p2prdf.replica.embedded import EmbeddedStore
from p2prdf.replica.following import follow
from p2prdf.replica.publishing import DATASETS, DatasetPublisher
from p2prdf_cli.replica_target import Reach, open_target

SECONDS = 60.0
_names = itertools.count()


@pytest.fixture
def dataset():
    """A dataset of this test's own, as the overlay is shared."""
    return f"<urn:dataset{next(_names)}>"


async def triples_of(target):
    return {triple async for triple in target.triples()}


async def reaches(target, expected, steps):
    """Let a replica go on until the target holds the expected triples."""
    async with asyncio.timeout(SECONDS):
        while await triples_of(target) != expected:
            await anext(steps)


async def test_a_target_follows_random_changesets_and_is_taken_up_where_it_was_left(keeping_all, dataset, tmp_path):
    rng, sizes = Random(23), []
    target = EmbeddedStore(tmp_path / "store", dataset=dataset)
    async with p2prdf.connect(keeping_all[0].address) as client, p2prdf.connect(keeping_all[3].address) as other:
        publisher = DatasetPublisher(other, dataset)
        await publisher.begin()
        assert publisher.position is None
        await publisher.start([])
        for position, changeset, held in history(rng, 6):
            await publisher.publish(position, changeset)
            expected = slice_of(held)
            async with contextlib.aclosing(follow(client, parse_interest(INTEREST), dataset, target)) as steps:
                first = await anext(steps)
                assert first.whole is (position == "000001"), "only at first is it compared as a whole"
                await reaches(target, expected, steps)
            sizes.append(len(expected))
        # Its query has ended, and others wrote to the target, which kept its cursor.
        cursor = await target.cursor()
        await client.unsubscribe(int(cursor.split()[0]))
        await target.update(list(expected)[:3], [("<urn:x>", "<urn:y>", "<urn:z>")], before=cursor, after=cursor)
        async with contextlib.aclosing(follow(other, parse_interest(INTEREST), dataset, target)) as steps:
            assert (await anext(steps))[:2] == (1, 3)
            assert await triples_of(target) == expected
        await target.update([], [], before=await target.cursor(), after="2014/10/02/21/000003")
        with pytest.raises(p2prdf.DataRefused, match="another kind of replica"):
            await anext(follow(client, parse_interest(INTEREST), dataset, target))
        again = DatasetPublisher(client, dataset)
        await again.begin()
        assert again.position == "000006"
    await target.close()
    assert max(sizes) > 10


async def test_slices_and_changes_beyond_the_window_of_unacknowledged_answers_are_followed(
    launcher, dataset, monkeypatch
):
    nodes = launcher.overlay(3, solutions_window=100)
    monkeypatch.setattr(following, "_UNACKNOWLEDGED_MAX", 50)
    interest = parse_interest("SELECT * WHERE { ?s <urn:label> ?label }")
    labels = [(f"<urn:thing{number}>", "<urn:label>", f'"{number}"') for number in range(2000)]
    target = EmbeddedStore(None, dataset=dataset)
    async with p2prdf.connect(nodes[0].address) as client:
        await client.publish(labels[:1000], graph=dataset)
        async with contextlib.aclosing(follow(client, interest, dataset, target)) as steps:
            async with asyncio.timeout(SECONDS):
                assert (await anext(steps)).whole
            await reaches(target, set(labels[:1000]), steps)
            await client.retract(labels[:500], graph=dataset)
            await client.publish(labels[1000:], graph=dataset)
            await reaches(target, set(labels[500:]), steps)
    await target.close()


class Interrupted(EmbeddedStore):
    """A target that becomes unreachable after a number of updates."""

    def __init__(self, path, *, dataset, updates):
        super().__init__(path, dataset=dataset, triples_max=20)
        self.updates = updates

    async def update(self, removed, added, *, before, after):
        if not self.updates:
            raise p2prdf.Unavailable("the target is gone")
        self.updates -= 1
        await super().update(removed, added, before=before, after=after)


async def test_a_change_of_several_updates_that_was_left_in_the_middle_is_compared_as_a_whole(keeping_all, dataset):
    interest = parse_interest("SELECT * WHERE { ?s <urn:label> ?label }")
    labels = [(f"<urn:thing{number}>", "<urn:label>", f'"{number}"') for number in range(150)]
    async with p2prdf.connect(keeping_all[2].address) as client:
        await client.publish(labels[:50], graph=dataset)
        target = Interrupted(None, dataset=dataset, updates=3)
        steps = follow(client, interest, dataset, target)
        async with contextlib.aclosing(steps), asyncio.timeout(SECONDS):
            assert (await anext(steps)).whole
            await client.publish(labels[50:], graph=dataset)
            target.updates = 2
            with pytest.raises(p2prdf.Unavailable, match="target is gone"):
                await reaches(target, set(labels), steps)
        found = await triples_of(target)
        assert set(labels[:50]) < found < set(labels), "it has a part"
        former = int((await target.cursor()).split()[0])
        await client.retract(sorted(found)[::2], graph=dataset)  # triples that it has beyond its last token, and others
        target.updates = -1
        async with contextlib.aclosing(follow(client, interest, dataset, target)) as steps:
            async with asyncio.timeout(SECONDS):
                assert (await anext(steps)).whole
            assert await triples_of(target) == set(labels) - set(sorted(found)[::2])
        with pytest.raises(p2prdf.SubscriptionGone):
            await client.attach(former)
    await target.close()


async def test_a_damaged_cursor_is_refused(keeping_all, dataset):
    target = EmbeddedStore(None, dataset=dataset)
    await target.update([], [], before=None, after="12 1 bm90IGEgdG9rZW4=")
    async with p2prdf.connect(keeping_all[0].address) as client:
        with pytest.raises(p2prdf.DataRefused, match="damaged: not a resume token: 11 bytes"):
            await anext(follow(client, parse_interest(INTEREST), dataset, target))
    await target.close()


def test_a_triple_is_present_while_one_of_its_solutions_holds_in_any_order_of_changes():
    triple = ("<urn:s>", "<urn:p>", "<urn:o>")
    for told in itertools.permutations([(1, False), (1, True), (2, False)]):
        if told.index((1, False)) < told.index((1, True)):  # the client never delivers a removal first
            change = following._Change()
            for identity, removed in told:
                change.tell(triple, identity, removed=removed)
            assert change.news() == ([], [triple])
    change = following._Change()
    change.tell(triple, 2, removed=False)
    assert change.news() == ([], [triple])
    change.tell(triple, 1, removed=True)  # of a solution delivered two bookmarks ago
    assert change.news() == ([], [triple])
    change.tell(triple, 2, removed=True)
    assert (change.news(), change.news()) == (([triple], []), ([], []))


async def graph_of(client, dataset):
    return set((await client.query(f"SELECT ?s ?p ?o {{ GRAPH {dataset} {{ ?s ?p ?o }} }}")).rows)


async def test_the_published_change_is_the_effect_of_the_changeset(keeping_all, dataset):
    async with p2prdf.connect(keeping_all[1].address) as client:
        publisher = DatasetPublisher(client, dataset)
        await publisher.begin()
        await publisher.start([])
        for position, changeset, held in history(Random(7), 5):
            await publisher.publish(position, changeset)
            await publisher.publish(position, changeset)  # as after a crash: it changes nothing
            assert await graph_of(client, dataset) == held
        assert publisher.position == "000005"
        for before in ("start", "000004"):  # it was stopped before the position before was removed
            await client.publish([(dataset, "<urn:p2prdf:at>", f'"{before}"')], graph=DATASETS)
            await publisher.begin()
            assert publisher.position == "000005"


@pytest.mark.long
async def test_an_endpoint_is_exact_though_nodes_endpoint_and_follower_are_killed(launcher, dataset, tmp_path):
    nodes = launcher.overlay(5)
    (tmp_path / "interest.rq").write_text(INTEREST)
    (tmp_path / "empty.nt").write_text("")
    (tmp_path / "changes").mkdir()
    endpoint = EndpointProcess(tmp_path / "endpoint").start()
    addresses = ",".join(node.address for node in nodes[:2])
    words = (
        sys.executable, "-m", "p2prdf_cli", "replica", "follow", "--peer", addresses, "--dataset", dataset[1:-1],
        "--file", str(tmp_path / "interest.rq"), "--target", f"http://127.0.0.1:{endpoint.port}/update",
    )  # fmt: skip
    follower = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.DEVNULL)
    try:
        days = list(history(Random(23), 6))
        for number, (position, changeset, _) in enumerate(days):
            for word, triples in (("removed", changeset.removed), ("added", changeset.added)):
                lines = "".join(f"{' '.join(triple)} .\n" for triple in triples)
                (tmp_path / "changes" / f"{position}.{word}.nt").write_text(lines)
            published = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "p2prdf_cli", "changesets", "publish", str(tmp_path / "changes"), "--dataset",
                dataset[1:-1], "--peer", addresses, "--start", str(tmp_path / "empty.nt"),
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            said, _ = await published.communicate()
            assert published.returncode == 0
            assert said.decode().startswith(position), "it goes on behind what was published"
            if number == 1:
                nodes[3].kill()
            if number in (2, 4):
                follower.send_signal(signal.SIGKILL)
                await follower.wait()
                follower = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.DEVNULL)
            if number == 3:
                endpoint.kill()
                endpoint.start()
        expected = slice_of(days[-1][2])
        target = open_target(f"{endpoint.url}/update", Reach(dataset=dataset[1:-1]))
        async with asyncio.timeout(SECONDS):
            while await triples_of(target) != expected:
                await asyncio.sleep(0.1)
        await target.close()
        assert len(expected) > 10
    finally:
        with contextlib.suppress(ProcessLookupError):
            follower.kill()
        await follower.wait()
        endpoint.kill()
