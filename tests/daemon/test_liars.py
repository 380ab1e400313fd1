"""One bad member, with a genuine certificate: its powers, and the damage that outlives its expulsion."""

from __future__ import annotations

import asyncio

from tls_files import Certificates, tls_of

import p2prdf

TRUE, FALSE = "<urn:e:alice>", "<urn:evil:mallory>"
QUERY = "SELECT ?s WHERE { ?s <urn:p> ?o }"


async def state(node, folder):
    async with p2prdf.connect(node.address, reconnect_seconds=0, tls=tls_of(folder)) as client:
        return await client.status()


class Cluster:
    """Two honest nodes and a liar, with certificates."""

    def __init__(self, launcher, folder, lie, **options):
        certificates = Certificates(folder)
        self.certificates = certificates
        self.alice = certificates.client()
        self.honest = [launcher.start(**certificates.settings(certificates.node()), **options)]
        self.honest.append(
            launcher.start(
                bootstrap=self.honest[0].address, **certificates.settings(certificates.node()), **options
            )
        )
        self.liar = launcher.start(
            module="lying_node", zone=lie, bootstrap=self.honest[0].address,
            **certificates.settings(certificates.node()), **options,
        )  # fmt: skip

    async def whole(self):
        """Tell whether all know each other."""
        return all([len((await state(node, self.alice))["peers"]) == 2 for node in (*self.honest, self.liar)])

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
            return all(each["peer"]["in_step"] and each["peer"]["groups"] for each in states)

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
