"""One bad member, with a genuine certificate: its powers, and the damage that outlives its expulsion."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time

import pytest
from tls_files import Certificates, tls_of

import p2prdf
from p2prdf import hlc

TRUE, FALSE = "<urn:e:alice>", "<urn:evil:mallory>"
QUERY = "SELECT ?s WHERE { ?s <urn:p> ?o }"


async def state(node, folder):
    async with p2prdf.connect(node.address, reconnect_seconds=0, tls=tls_of(folder)) as client:
        return await client.status()


class Cluster:
    """Two honest nodes and a liar, with certificates."""

    def __init__(self, launcher, folder, lie, *, data=False, **options):
        """``data``: the honest nodes keep their state on disks."""
        self.certificates = certificates = Certificates(folder)
        self.alice, self.root = certificates.client(), certificates.client("root")
        self.launcher = launcher
        self.settings = [{**certificates.settings(certificates.node()), **options} for _ in range(2)]
        if data:
            for number, settings in enumerate(self.settings):
                settings["data"] = folder / f"data{number}"
        self.honest = [launcher.start(**self.settings[0])]
        self.honest.append(launcher.start(bootstrap=self.honest[0].address, **self.settings[1]))
        self.folder_of_liar = certificates.node()
        self.liar = launcher.start(
            module="lying_node", zone=lie, bootstrap=self.honest[0].address,
            **certificates.settings(self.folder_of_liar), **options,
        )  # fmt: skip

    def restart(self, number):
        """Kill an honest node, and start it again at the same address."""
        node = self.honest[number]
        node.kill()
        self.honest[number] = self.launcher.start(
            listen=node.address, bootstrap=self.honest[1 - number].address, **self.settings[number]
        )

    async def whole(self):
        """Tell whether all know each other."""
        return all([len((await state(node, self.alice))["peers"]) == 2 for node in (*self.honest, self.liar)])

    async def honest_whole(self):
        """Tell whether the honest nodes know each other alone, and are in sync."""
        states = [await state(node, self.alice) for node in self.honest]
        return all(len(each["peers"]) == 1 and each["peer"]["in_sync"] for each in states)

    def connect(self, node):
        return p2prdf.connect(node.address, tls=tls_of(self.alice))


WITHHELD = "SELECT ?s WHERE { ?s <urn:p> ?o . ?o <urn:q> ?z }"


async def test_primary_that_acknowledges_and_delivers_nothing_is_reported(launcher, until, tmp_path):
    """The other replicas hold the triples: they send the results, and a receiver that lacked it names the primary."""
    cluster = await asyncio.to_thread(
        Cluster, launcher, tmp_path, "withhold", audit_seconds=2, replicas=3, copies_min=2
    )
    honest, liar = cluster.honest, cluster.liar
    await until(cluster.whole, seconds=30)
    count = 60
    async with cluster.connect(honest[0]) as client, cluster.connect(honest[1]) as other:
        answers = await client.subscribe(WITHHELD)

        async def settled():
            states = [await state(node, cluster.alice) for node in honest]
            return all(each["peer"]["in_sync"] and each["peer"]["groups"] for each in states)

        await until(settled, seconds=30)
        await other.publish(
            [(f"<urn:s:{n}>", "<urn:p>", f"<urn:o:{n}>") for n in range(count)]
            + [(f"<urn:o:{n}>", "<urn:q>", "<urn:z>") for n in range(count)]
        )

        async def reported():
            states = [await state(node, cluster.alice) for node in honest]
            assert not any(key != liar.key for each in states for key in each["peer"]["withheld"])
            return any(liar.key in each["peer"]["withheld"] for each in states)

        await until(reported, seconds=60)
        await asyncio.to_thread(liar.kill)  # the next primary derives all that it kept back
        assert await subjects(answers, count, seconds=90) == {f"<urn:s:{n}>" for n in range(count)}
    assert any("solutions-withheld" in node.text() for node in honest)


async def subjects(answers, count, seconds=60):
    """Return the subjects of solutions until there are ``count`` different ones."""
    found = set()
    async with asyncio.timeout(seconds):
        async for solution in answers:
            found.add(str(solution["s"]))
            if len(found) == count:
                break
    return found


async def test_term_with_the_digest_of_another_term_is_refused_and_outlives_nobody(launcher, until, tmp_path):
    cluster = await asyncio.to_thread(Cluster, launcher, tmp_path, "terms")
    honest, liar = cluster.honest, cluster.liar
    await until(cluster.whole, seconds=30)
    async with cluster.connect(honest[0]) as client:
        answers = await client.subscribe(QUERY)
        async with cluster.connect(liar) as other:
            publishing = asyncio.ensure_future(other.publish([(TRUE, "<urn:p>", "<urn:o>")]))

            async def noticed():
                states = [await state(node, cluster.alice) for node in honest]
                return all(liar.key in each["connections"]["false_digests"] for each in states)

            await until(noticed, seconds=30)
            publishing.cancel()
            await asyncio.gather(publishing, return_exceptions=True)
        for node in honest:
            assert FALSE in node.text()
            assert '"code": "false-digest"' in node.text()
            assert f'"peer": "{liar.key}"' in node.text()
        await asyncio.to_thread(liar.kill)
        async with cluster.connect(honest[1]) as other, asyncio.timeout(60):
            await other.publish([(TRUE, "<urn:p>", "<urn:o2>"), ("<urn:last>", "<urn:p>", "<urn:o>")])
        assert await subjects(answers, 2) == {TRUE, "<urn:last>"}


PERMISSIONS = """
[clients.alice]
may = ["subscribe", "query", "observe"]
read = ["*"]
publish = ["*"]
remove = ["*"]

[clients.mallory]
may = ["observe"]

[clients.root]
may = ["subscribe", "query", "observe", "administer"]
read = ["*"]
publish = ["*"]
remove = ["*"]
"""


async def run(*arguments):
    """Run a command in a process; return its exit code, output and errors."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("P2PRDF_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "p2prdf_cli", *map(str, arguments), env=environment | {"COLUMNS": "200"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        output, errors = await process.communicate()
    return process.returncode, output.decode(), errors.decode()


async def run_as(folder, *arguments):
    """Run a command with the certificate in a folder; return its output."""
    files = ("--tls-ca", folder / "ca.crt", "--tls-cert", folder / "tls.crt", "--tls-key", folder / "tls.key")
    code, output, errors = await run(*files, *arguments)
    assert code == 0, (output, errors)
    return output


async def expelled(cluster, until):
    """Expel the liar; wait until it is out of the view of all honest nodes."""
    root, liar, honest = cluster.root, cluster.liar, cluster.honest
    told = await run_as(root, "member", "expel", liar.key, "--peer", honest[0].address)
    assert told == f"expelled {liar.key} at 2 of 2 nodes\n"

    assert all([(await state(node, root))["peer"]["expelled"] == [liar.key] for node in honest])
    await until(cluster.honest_whole, seconds=60)


async def true_now(cluster, node, query=QUERY):
    """Return the subjects that a node answers."""
    async with p2prdf.connect(node.address, tls=tls_of(cluster.root)) as client:
        return sorted(subject for (subject,) in (await client.query(query)).rows)


async def test_client_without_permissions_that_a_liar_lets_in_is_undone(launcher, until, tmp_path):
    """It publishes, deletes and ends without permission; expulsion and clean-up bring the honest state back."""
    permissions = tmp_path / "permissions.toml"
    permissions.write_text(PERMISSIONS)
    cluster = await asyncio.to_thread(Cluster, launcher, tmp_path, "permissions", permissions=permissions, data=True)
    honest, liar = cluster.honest, cluster.liar
    mallory = cluster.certificates.client("mallory")
    await until(cluster.whole, seconds=30)
    true, false = ("<urn:s:true>", "<urn:p>", "<urn:o>"), ("<urn:s:false>", "<urn:p>", "<urn:o>")
    async with cluster.connect(honest[0]) as alice, cluster.connect(honest[1]) as bystander:
        ended = await alice.subscribe(WITHHELD)
        answers = await bystander.subscribe(QUERY)
        await alice.publish([true, ("<urn:s:gone>", "<urn:p>", "<urn:o>", "<urn:g>")])
        await alice.retract([("<urn:s:gone>", "<urn:p>", "<urn:o>", "<urn:g>")])
        async with p2prdf.connect(honest[0].address, tls=tls_of(mallory)) as client:
            with pytest.raises(p2prdf.NotAllowed):
                await client.publish([false])
            with pytest.raises(p2prdf.NotAllowed):
                await client.expel(int(honest[1].key, 16))
        async with p2prdf.connect(liar.address, reconnect_seconds=0, tls=tls_of(mallory)) as client:
            await client.publish([false, ("<urn:s:gone>", "<urn:p>", "<urn:o>", "<urn:g>")])
            await client.retract([true])
            await client.unsubscribe(ended.id)
        with pytest.raises(p2prdf.P2PRDFError):
            async with asyncio.timeout(30):
                await anext(aiter(ended))
        found = await events_of(answers, 3)
        assert set(found) == {("<urn:s:true>", False), ("<urn:s:false>", False), ("<urn:s:true>", True)}
        await expelled(cluster, until)
        introduced = "member", "introduced", liar.key, "--peer", honest[0].address
        listed = await run_as(cluster.root, *introduced)
        assert set(listed.splitlines()) == {
            "+ <urn:s:false> <urn:p> <urn:o> .", "+ <urn:s:gone> <urn:p> <urn:o> <urn:g> .",
            "- <urn:s:true> <urn:p> <urn:o> .", f"ended subscription {ended.id:016x}",
        }  # fmt: skip
        await asyncio.to_thread(liar.kill)  # a client that knows its address may turn to it instead of an honest node
        await asyncio.to_thread(cluster.restart, 1)  # the record and the expulsion are on the disk
        await until(cluster.honest_whole, seconds=60)
        assert (await state(honest[1], cluster.root))["peer"]["expelled"] == [liar.key]
        clean_up = "member", "clean-up", liar.key, "--peer", honest[0].address
        shown = await run_as(cluster.root, *clean_up)
        assert sorted(shown.splitlines()) == [
            "2 statements to be deleted, 1 to be published again, 0 subscriptions ended",
            "delete <urn:s:false> <urn:p> <urn:o> .", "delete <urn:s:gone> <urn:p> <urn:o> <urn:g> .",
            "publish <urn:s:true> <urn:p> <urn:o> .",
        ]  # fmt: skip
        done = await run_as(cluster.root, *clean_up, "--apply")
        assert done == "2 statements deleted, 1 published again, 0 subscriptions ended\n"
        assert await run_as(cluster.root, *clean_up) == (
            "0 statements to be deleted, 0 to be published again, 0 subscriptions ended\n"
        )
        assert set(await events_of(answers, 2)) == {("<urn:s:false>", True), ("<urn:s:true>", False)}
    for node in honest:
        assert await true_now(cluster, node) == ["<urn:s:true>"]
        assert await true_now(cluster, node, "SELECT ?s WHERE { GRAPH <urn:g> { ?s <urn:p> ?o } }") == []


async def events_of(answers, count, seconds=60):
    """Return ``count`` solutions: their subject, and whether they are retracted."""
    found = []
    async with asyncio.timeout(seconds):
        async for solution in answers:
            found.append((str(solution["s"]), solution.removed))
            if len(found) == count:
                return found
    return found


async def test_invented_solutions_end_with_the_expulsion_and_the_clean_up(launcher, until, tmp_path):
    """While it is a member a liar has phantoms delivered; a new subscription has none."""
    permissions = tmp_path / "permissions.toml"
    permissions.write_text(PERMISSIONS)
    cluster = await asyncio.to_thread(
        Cluster, launcher, tmp_path, "solutions", permissions=permissions, replicas=3, copies_min=2
    )
    honest, liar = cluster.honest, cluster.liar
    await until(cluster.whole, seconds=30)
    subjects_true = {f"<urn:s:{number}>" for number in range(60)}
    async with cluster.connect(honest[0]) as alice, cluster.connect(honest[1]) as other:
        answers = await alice.subscribe(WITHHELD)
        for number in range(60):
            triples = (f"<urn:s:{number}>", "<urn:p>", f"<urn:o:{number}>"), (f"<urn:o:{number}>", "<urn:q>", "<urn:z>")
            await other.publish(triples)
        assert FALSE in await subjects(answers, 61)
        await expelled(cluster, until)
        clean_up = "member", "clean-up", liar.key, "--peer", honest[1].address, "--apply", "--subscriptions"
        done = await run_as(cluster.root, *clean_up)
        assert done == "0 statements deleted, 0 published again, 1 subscriptions ended\n"
        with pytest.raises(p2prdf.SubscriptionGone):
            await subjects(answers, 1_000)
        anew = await alice.subscribe(WITHHELD, since="beginning")
        await other.publish([("<urn:s:last>", "<urn:p>", "<urn:o:0>")])
        found = await events_of(anew, 61)
    assert {subject for subject, _ in found} == subjects_true | {"<urn:s:last>"}
    for node in honest:
        assert FALSE not in await true_now(cluster, node, WITHHELD)


async def test_false_accusation_names_the_accuser(launcher, until, tmp_path):
    cluster = await asyncio.to_thread(
        Cluster, launcher, tmp_path, "accuse", audit_seconds=6, replicas=3, copies_min=2
    )
    honest, liar = cluster.honest, cluster.liar
    await until(cluster.whole, seconds=30)
    async with cluster.connect(honest[0]) as client, cluster.connect(honest[1]) as other:
        await client.subscribe(WITHHELD)

        async def settled():
            states = [await state(node, cluster.alice) for node in honest]
            return all(each["peer"]["in_sync"] and each["peer"]["groups"] for each in states)

        await until(settled, seconds=30)
        await other.publish(
            [(f"<urn:s:{n}>", "<urn:p>", f"<urn:o:{n}>") for n in range(60)]
            + [(f"<urn:o:{n}>", "<urn:q>", "<urn:z>") for n in range(60)]
        )

        async def accused():
            states = [await state(node, cluster.alice) for node in honest]
            return any(each["peer"]["withheld"] for each in states)

        await until(accused, seconds=60)
    lines = [json.loads(line) for node in honest for line in node.text().splitlines() if "solutions-withheld" in line]
    assert {each["reporter"] for each in lines} == {liar.key}
    assert {each["peer"] for each in lines} <= {node.key for node in honest}
    await expelled(cluster, until)


async def test_stamps_far_ahead_are_refused_and_outlive_nobody(launcher, until, tmp_path):
    """A statement that a liar deletes a thousand years ahead can still be published, and clocks stay right."""
    cluster = await asyncio.to_thread(Cluster, launcher, tmp_path, "stamps", replicas=3, copies_min=2)
    honest, liar = cluster.honest, cluster.liar
    await until(cluster.whole, seconds=30)
    true = ("<urn:s:true>", "<urn:p>", "<urn:o>")
    async with cluster.connect(honest[0]) as alice:
        answers = await alice.subscribe(QUERY)
        async with cluster.connect(liar) as other:
            deleting = asyncio.ensure_future(other.retract([true]))

            async def refused():
                return all([(await state(node, cluster.alice))["peer"]["stamps_refused"] for node in honest])

            await until(refused, seconds=30)
            deleting.cancel()
            await asyncio.gather(deleting, return_exceptions=True)
        await expelled(cluster, until)
        await alice.publish([true])
        assert await events_of(answers, 1) == [("<urn:s:true>", False)]
        states = [await state(node, cluster.alice) for node in honest]
        assert all(abs(hlc.seconds(each["stamp"]) - time.time()) < 60 for each in states)
    assert any('"code": "stamp-refused"' in node.text() and liar.key in node.text() for node in honest)


async def test_one_member_expels_nobody(launcher, until, tmp_path):
    cluster = await asyncio.to_thread(Cluster, launcher, tmp_path, "expel")
    honest, liar = cluster.honest, cluster.liar
    await until(cluster.whole, seconds=30)
    async with cluster.connect(liar) as other:
        await other.publish([(f"<urn:s:{number}>", "<urn:p>", "<urn:o>") for number in range(20)])

    async def reported():
        states = [await state(node, cluster.alice) for node in honest]
        assert not any(each["peer"]["expelled"] for each in states)
        return any(each["peer"]["expulsions_reported"] for each in states)

    await until(reported, seconds=30)
    assert any("expulsion-reported" in node.text() and f'"reporter": "{liar.key}"' in node.text() for node in honest)
    as_node = tls_of(cluster.folder_of_liar)  # the certificate of a node is good, and serves as a client's
    async with p2prdf.connect(honest[0].address, tls=as_node) as client:
        with pytest.raises(p2prdf.NotAllowed, match="may not expel"):
            await client.expel(int(honest[1].key, 16))
    assert await cluster.whole()


async def test_revoked_member_that_goes_on_is_refused_by_all(launcher, until, tmp_path):
    """It accepts its own certificate; the others close its connections, and nothing that it publishes arrives."""
    cluster = await asyncio.to_thread(Cluster, launcher, tmp_path, "revoked")
    honest, liar = cluster.honest, cluster.liar
    await until(cluster.whole, seconds=30)
    cluster.certificates.revoke(cluster.folder_of_liar)
    await until(cluster.honest_whole, seconds=60)
    async with cluster.connect(honest[0]) as alice, cluster.connect(liar) as other:
        answers = await alice.subscribe(QUERY)
        publishing = asyncio.ensure_future(other.publish([(FALSE, "<urn:p>", "<urn:o>")]))

        async def refused():
            states = [await state(node, cluster.alice) for node in honest]
            return any(each["connections"]["tls_refused"].get("revoked") for each in states)

        await until(refused, seconds=30)
        await alice.publish([(TRUE, "<urn:p>", "<urn:o>")])
        assert await subjects(answers, 1) == {TRUE}
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
    with pytest.raises(p2prdf.P2PRDFError):
        await p2prdf.connect(honest[0].address, reconnect_seconds=0, tls=tls_of(cluster.folder_of_liar))
    assert [await true_now(cluster, node) for node in honest] == [[TRUE], [TRUE]]


async def test_expelled_member_without_certificates_is_refused_until_it_is_readmitted(launcher, until):
    """Its key names it: it stays out while it keeps its address."""
    nodes = await asyncio.to_thread(launcher.overlay, 3)
    *staying, out = nodes

    async def views():
        return [len((await plain_state(node))["peers"]) for node in staying]

    async def met():
        return await views() == [2, 2]

    async def parted():
        return await views() == [1, 1]

    await until(met, seconds=30)
    own = await run("member", "expel", out.key, "--peer", out.address)
    assert own[0] == 4
    assert "name another node" in own[2]
    expel = "member", "expel", out.key, "--peer", staying[0].address
    assert (await run(*expel))[:2] == (0, f"expelled {out.key} at 2 of 2 nodes\n")
    await until(parted, seconds=60)
    listed = await run("member", "list", "--json", "--peer", staying[1].address)
    assert [json.loads(line)["member"] for line in listed[1].splitlines()] == [out.key]

    async def told():
        return "is expelled" in out.text()

    await until(told, seconds=30)
    readmit = "member", "readmit", out.key, "--peer", staying[0].address
    assert (await run(*readmit))[0] == 0
    await until(met, seconds=60)


async def plain_state(node):
    async with p2prdf.connect(node.address, reconnect_seconds=0) as client:
        return await client.status()
