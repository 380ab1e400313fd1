"""Nodes and clients with certificates: admission, refusal, and changes of both while they run."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import shutil
import socket
import ssl
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import pytest
import uvloop
from commands import command
from gateways import GatewayProcess
from tls_files import Certificates, careless, tls_of

import p2prdf
from p2prdf.columns import LISTS
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.tls import context_of
from p2prdf.wire import messages
from p2prdf.wire.codec import FrameCodec, FrameReader
from p2prdf.wire.messages import CLIENT_VERSION, ClientHello, Contact, PeerHello
from p2prdf_node.transport import VERSION

QUERY = "SELECT ?s ?o { ?s <urn:p> ?o }"


@pytest.fixture
def certificates(tmp_path):
    return Certificates(tmp_path)


def start_overlay(launcher, certificates, count, **options):
    """Start nodes with certificates, each joining by the first; return them and their folders."""
    folders = [certificates.node() for _ in range(count)]
    first = launcher.start(**certificates.settings(folders[0]), **options)
    others = [
        launcher.launch(bootstrap=first.address, **certificates.settings(folder), **options) for folder in folders[1:]
    ]
    return [first, *(node.wait_ready() for node in others)], folders


async def state(node, folder):
    async with p2prdf.connect(node.address, reconnect_seconds=0, tls=tls_of(folder)) as client:
        return await client.status()


async def together(nodes, folder):
    """Tell whether each node knows all others."""
    keys = {node.key for node in nodes}
    return all([{p["key"] for p in (await state(n, folder))["peers"]} | {n.key} == keys for n in nodes])


async def test_an_overlay_with_certificates_publishes_subscribes_answers_and_outlives_a_node(
    launcher, until, certificates
):
    nodes, folders = await asyncio.to_thread(start_overlay, launcher, certificates, 3)
    alice = certificates.client()
    await until(lambda: together(nodes, alice))
    for node, folder in zip(nodes, folders, strict=True):
        assert certificates.authority.entries()[folders.index(folder)].uri == f"urn:p2prdf:node:{node.key}"
    async with (
        p2prdf.connect(nodes[0].address, tls=tls_of(alice)) as client,
        p2prdf.connect(nodes[1].address, tls=tls_of(folders[2])) as with_a_nodes_certificate,
    ):
        subscription = await client.subscribe(QUERY)
        await with_a_nodes_certificate.publish((f"<urn:s{n}>", "<urn:p>", f'"{n}"') for n in range(500))
        async with asyncio.timeout(10):
            assert len({(await anext(subscription))["o"] for _ in range(500)}) == 500
        assert len((await client.query(QUERY)).rows) == 500
        nodes[2].kill()
        await until(lambda: together(nodes[:2], alice), seconds=20)
        again = await asyncio.to_thread(
            launcher.start, bootstrap=nodes[0].address, **certificates.settings(folders[2])
        )
        assert again.key == nodes[2].key
        await until(lambda: together([*nodes[:2], again], alice), seconds=20)
        await client.publish([("<urn:last>", "<urn:p>", '"last"')])
        async with asyncio.timeout(10):
            assert (await anext(subscription))["o"] == '"last"'


# --- admission ------------------------------------------------------------------------------------


class Gate:
    """One node, and folders of certificates of all kinds to come to it with."""

    def __init__(self, folder, launcher):
        mine, other = Certificates(folder), Certificates(folder, "other")
        self.certificates = mine
        self.own = mine.node()
        self.node = launcher.start(**mine.settings(self.own), hello_seconds=1)
        self.alice = mine.client()
        self.folders = {
            "no certificate": None,
            "other authority": other.client(),
            "other authority's node": other.node(),
            "expired": mine.expired(self.alice),
            "expired node": mine.expired(mine.node()),
            "not yet valid": mine.early(self.alice),
            "not yet valid node": mine.early(mine.node()),
            "revoked": mine.client("mallory"),
            "revoked node": mine.node(),
            "client": self.alice,
            "node": mine.node(),
            "node of another key": mine.node(),
        }
        mine.revoke(self.folders["revoked"])
        mine.revoke(self.folders["revoked node"])

    async def has_looked(self):
        """Tell whether the node has read the list of revoked certificates."""
        return (await state(self.node, self.alice))["tls"]["revoked"] == 2

    async def refusals(self):
        """Return how many were refused so far, by reason."""
        return Counter((await state(self.node, self.alice))["connections"]["tls_refused"])


@pytest.fixture(scope="module")
def gate(launcher_in, tmp_path_factory, until):
    with launcher_in("gate") as launcher:
        made = Gate(tmp_path_factory.mktemp("certificates"), launcher)
        asyncio.run(until(made.has_looked, seconds=30))
        yield made


REFUSED = {
    "no certificate": "no-certificate",
    "other authority": "unknown-ca",
    "other authority's node": "unknown-ca",
    "expired": "expired",
    "expired node": "expired",
    "not yet valid": "not-yet-valid",
    "not yet valid node": "not-yet-valid",
    "revoked": "revoked",
    "revoked node": "revoked",
}
"""A stranger that shows one of these is refused, regardless of its first message, and counted by this reason."""
SERVED = {
    ("client", "client hello"): "welcome",
    ("client", "nothing"): "no valid hello",
    ("node", "peer hello"): "no member of this cluster answers as",  # it is let in, and then asked for by a datagram
    ("node", "client hello"): "welcome",
    ("node", "nothing"): "no valid hello",
    ("node of another key", "client hello"): "welcome",
    ("node of another key", "nothing"): "no valid hello",
}
BY_VERB = {("client", "peer hello"): "role", ("node of another key", "peer hello"): "other-key"}


async def told(gate, context, said, claimed):
    """Connect to the node, send something, and return its messages until it closes or has sent a welcome."""
    found = []
    frames = FrameReader()
    codec = FrameCodec(TermDictionary(), LISTS)
    hello = {
        "peer hello": [PeerHello(Contact(claimed, "127.0.0.1", 9), int(gate.node.key, 16), VERSION)],
        "client hello": [ClientHello(CLIENT_VERSION, "matrix")],
        "nothing": [],
    }[said]
    with contextlib.suppress(OSError):
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", gate.node.port, ssl=context)
            try:
                if hello:
                    writer.write(codec.encode(hello))
                while data := await reader.read(65536):
                    if data[0] == 0x15:  # an alert, not a frame
                        break
                    for body in frames.feed(data):
                        found += codec.decode(body)
                    if isinstance(found[-1], messages.ClientWelcome):
                        break
            finally:
                writer.transport.abort()
    return found


def spelled(found):
    return ["welcome" if isinstance(each, messages.ClientWelcome) else each.text for each in found]


@pytest.mark.parametrize("said", ["peer hello", "client hello", "nothing"])
@pytest.mark.parametrize("shown", [*REFUSED, "client", "node", "node of another key"])
async def test_admission_by_certificate_and_first_message(gate, shown, said):
    before = await gate.refusals()
    folder = gate.folders[shown]
    claimed = 7
    if folder is not None and shown != "node of another key" and "node" in shown:
        uri = next(e.uri for e in gate.certificates.authority.entries() if e.uri.startswith("urn:p2prdf:node"))
        claimed = key_of(folder) if shown == "node" else int(uri.rpartition(":")[2], 16)
    said_back = spelled(await told(gate, careless(folder), said, claimed))
    counted = await gate.refusals() - before
    if (shown, said) in SERVED:
        assert len(said_back) == 1
        assert said_back[0].startswith(SERVED[shown, said])
        assert not counted
        return
    reason = REFUSED.get(shown) or BY_VERB[shown, said]
    assert counted == {reason: 1}
    assert "welcome" not in said_back
    if reason in ("role", "other-key", "revoked"):  # the refusal follows a complete handshake
        assert len(said_back) == 1
    else:
        assert said_back == []


def key_of(folder):
    """Return the ring position in a certificate of a folder."""
    from p2prdf_node import certificates

    return certificates.identity_of(certificates.read_certificate(folder / "tls.crt")).key


@pytest.mark.parametrize(
    ("said", "reason"), [("peer hello", "not-tls"), ("client hello", "not-tls"), ("nothing", "timeout")]
)
async def test_nobody_is_let_in_without_tls(gate, said, reason):
    before = await gate.refusals()
    assert spelled(await told(gate, None, said, 7)) == []
    assert await gate.refusals() - before == {reason: 1}


async def test_older_versions_of_tls_are_refused(gate):
    before = await gate.refusals()
    context = careless(gate.alice)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert await told(gate, context, "client hello", 7) == []
    assert await gate.refusals() - before == {"version": 1}


async def test_a_client_reports_the_reason_of_a_tls_failure(gate, launcher_in):
    async def refusal(tls, address=gate.node.address):
        with pytest.raises(p2prdf.TlsRefused) as caught:
            await p2prdf.connect(address, tls=tls)
        return str(caught.value)

    def mixed(folder):
        return p2prdf.Tls(gate.own / "ca.crt", folder / "tls.crt", folder / "tls.key")

    folders = gate.folders
    assert "this node accepts TLS only" in await refusal(None)
    without = careless(None)
    without.verify_mode = ssl.CERT_REQUIRED
    without.load_verify_locations(gate.own / "ca.crt")
    assert "requires a certificate and got none" in await refusal(without)
    assert "no trusted authority issued the certificate" in await refusal(tls_of(folders["other authority"]))
    assert "does not trust the authority of our certificate" in await refusal(mixed(folders["other authority"]))
    assert "our certificate has expired" in await refusal(tls_of(folders["expired"]))
    assert "not valid yet" in await refusal(tls_of(folders["not yet valid"]))
    assert "of client mallory is revoked" in await refusal(tls_of(folders["revoked"]))
    assert "was not verified" in await refusal(careless(gate.alice))
    gone = p2prdf.Tls(gate.own / "ca.crt", gate.own / "nothing", gate.own / "tls.key")
    assert "nothing" in await refusal(gone)
    with launcher_in("plain") as launcher:
        plain = await asyncio.to_thread(launcher.start)
        assert "the other side does not use TLS" in await refusal(tls_of(gate.alice), plain.address)


@pytest.mark.parametrize("shown", ["client", "expired node", "revoked node"])
async def test_a_client_takes_only_a_node_for_a_node(gate, shown):
    """A server that shows a client's certificate, or an expired one; clients have no revocation lists."""
    folder = gate.folders[shown]
    context = context_of(folder / "ca.crt", folder / "tls.crt", folder / "tls.key", server=True)
    heard = []

    async def serve(reader, writer):
        with contextlib.suppress(OSError):
            heard.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(p2prdf.Unavailable) as caught:
            await p2prdf.connect(address, tls=tls_of(gate.alice))
    assert isinstance(caught.value, p2prdf.TlsRefused) == (shown != "revoked node")
    assert bool(b"".join(heard)) == (shown == "revoked node")


# --- commands ------------------------------------------------------------------------------------


def options(folder):
    return ["--tls-ca", folder / "ca.crt", "--tls-cert", folder / "tls.crt", "--tls-key", folder / "tls.key"]


def variables(folder):
    names = {"P2PRDF_TLS_CA": "ca.crt", "P2PRDF_TLS_CERT": "tls.crt", "P2PRDF_TLS_KEY": "tls.key"}
    return {name: str(folder / file) for name, file in names.items()}


def test_commands_connect_with_the_certificate_of_options_or_of_the_environment(gate, tmp_path):
    data = tmp_path / "data.nt"
    data.write_text("<urn:s> <urn:p> <urn:o> .\n")
    where = ("--peer", gate.node.address)
    assert command(*options(gate.alice), "publish", data, *where)[0] == 0
    code, told, _ = command("status", *where, "--json", environment=variables(gate.own))
    assert (code, gate.node.key in told) == (0, True)
    code, _, said = command("status", *where)
    assert code == 3
    assert "error [tls-refused]" in said
    assert "this node accepts TLS only" in said
    code, _, said = command(*options(gate.folders["revoked"]), "publish", data, *where)
    assert code == 3
    assert "of client mallory is revoked" in said
    code, _, said = command(*options(gate.alice)[:4], "status", *where)
    assert code == 4
    assert "--tls-key (or P2PRDF_TLS_KEY) is not given" in said
    code, told, _ = command("status", *where, "--json")  # options of the last command are forgotten
    assert (code, told) == (3, "")


def test_a_loop_that_ends_with_a_refusal_leaves_no_connection_behind(certificates):
    """The node refuses a client that does not answer its goodbye; the command ends with that at once."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    folder = certificates.node()
    serving.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    refused = FrameCodec(TermDictionary(), LISTS).encode([messages.ClientError(0, "tls-refused", "you are revoked")])
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as thread:

        def refuse():
            connection, _ = listening.accept()
            with serving.wrap_socket(connection, server_side=True) as encrypted:
                encrypted.sendall(refused)
                ended.wait(60)

        answering = thread.submit(refuse)
        try:
            address = f"127.0.0.1:{listening.getsockname()[1]}"
            with pytest.raises(p2prdf.TlsRefused, match="you are revoked"):  # noqa: SIM117
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(_connect(address, tls_of(certificates.client())))
            gc.collect()  # an unclosed connection is reported here, and fails the test
        finally:
            ended.set()
        answering.result(60)


async def _connect(address, tls):
    async with p2prdf.connect(address, reconnect_seconds=0, tls=tls):
        pass


async def test_a_gateway_comes_to_nodes_with_its_certificate(gate):
    started = await GatewayProcess.start(gate.node.address, environment=variables(gate.alice))
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{started.url}/readyz") as answer:
            assert answer.status == 200
    finally:
        await started.kill()


# --- costs of strangers ---------------------------------------------------------------------------


async def test_handshakes_that_are_garbage_or_never_end_stop_nobody(gate):
    """Three hundred at once: some send noise, some nothing, some the beginning of a handshake, byte by byte."""
    before = await gate.refusals()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        careless(gate.alice).wrap_bio(incoming, outgoing).do_handshake()
    opening = outgoing.read()
    strangers = []
    try:
        for number in range(300):  # the first ones must not wait for the last: their time runs from now on
            reader, writer = await asyncio.open_connection("127.0.0.1", gate.node.port)
            strangers.append((reader, writer))
            writer.write((b"\x80" * 4096, b"", opening[: 1 + number // 3])[number % 3])
        async with p2prdf.connect(gate.node.address, tls=tls_of(gate.alice)) as client:
            longest = 0.0
            for number in range(50):
                began = time.monotonic()
                await client.publish([(f"<urn:s{number}>", "<urn:p>", '"while strangers knock"')])
                longest = max(longest, time.monotonic() - began)
            assert longest < 1
        async with asyncio.timeout(5):
            for reader, _ in strangers:
                with contextlib.suppress(ConnectionError):
                    await reader.read()
    finally:
        for _, writer in strangers:
            writer.transport.abort()
    assert await gate.refusals() - before == {"not-tls": 100, "timeout": 200}
    assert gate.node.text().count("connection_refused") < 200  # five lines a second


@pytest.mark.long
async def test_handshakes_count_as_connections(launcher, certificates, until):
    folder, alice = certificates.node(), certificates.client()
    node = await asyncio.to_thread(
        launcher.start, **certificates.settings(folder), hello_seconds=1, connections_max=5
    )
    silent = [await asyncio.open_connection("127.0.0.1", node.port) for _ in range(5)]
    assert (await state(node, alice))["connections"]["evicted"] == {"silent": 1}

    async def over():
        counts = (await state(node, alice))["connections"]
        return counts["tls_refused"].get("timeout") == 4

    await until(over)
    for _, writer in silent:
        writer.transport.abort()


# --- while nodes run -----------------------------------------------------------------------------


async def test_a_revoked_client_and_a_revoked_node_are_out_at_once_and_the_others_go_on(
    launcher, until, certificates
):
    nodes, folders = await asyncio.to_thread(start_overlay, launcher, certificates, 3)
    alice, bob = certificates.client(), certificates.client("bob")
    await until(lambda: together(nodes, bob))
    for node in nodes:
        node.expected.append("tls_files_refused")
    async with (
        p2prdf.connect(nodes[0].address, tls=tls_of(bob)) as client,
        p2prdf.connect(nodes[1].address, tls=tls_of(alice), reconnect_seconds=0) as gone,
    ):
        subscription = await client.subscribe(QUERY)
        her_own = await gone.subscribe(QUERY)
        certificates.revoke(alice)
        async with asyncio.timeout(5):
            with pytest.raises(p2prdf.TlsRefused, match=r"of client alice is revoked"):
                await anext(her_own)

        async def is_out():  # each node looks at its files at moments of its own
            try:
                await (await p2prdf.connect(nodes[2].address, tls=tls_of(alice))).close()
            except p2prdf.TlsRefused as error:
                return "revoked" in str(error)

        await until(is_out, seconds=5)
        certificates.revoke(folders[2])
        await until(lambda: together(nodes[:2], bob), seconds=20)
        out = await state(nodes[0], bob)
        assert out["discovery"]["datagrams_refused"]["revoked"] > 0
        assert out["connections"]["tls_refused"]["revoked"] >= 1
        await client.publish((f"<urn:s{n}>", "<urn:p>", f'"{n}"') for n in range(200))
        async with asyncio.timeout(10):
            assert len({(await anext(subscription))["o"] for _ in range(200)}) == 200
        # The node goes on trying, and stays out.
        seen = (await state(nodes[0], bob))["discovery"]["datagrams_refused"]["revoked"]

        async def heard_again():
            return (await state(nodes[0], bob))["discovery"]["datagrams_refused"]["revoked"] > seen + 5

        await until(heard_again)
        assert await together(nodes[:2], bob)


@pytest.mark.long
@pytest.mark.parametrize("overlay", ["kademlia", "chord"])
async def test_a_revoked_node_is_out_of_overlays_without_a_view(launcher, until, certificates, options_of, overlay):
    kind = options_of(f"{overlay} overlay")
    nodes, folders = await asyncio.to_thread(start_overlay, launcher, certificates, 3, **kind)
    bob = certificates.client("bob")
    await until(lambda: together(nodes, bob))
    certificates.revoke(folders[2])
    await until(lambda: together(nodes[:2], bob), seconds=20)
    async with p2prdf.connect(nodes[0].address, tls=tls_of(bob)) as client:
        subscription = await client.subscribe(QUERY)
        await client.publish((f"<urn:s{n}>", "<urn:p>", f'"{n}"') for n in range(50))
        async with asyncio.timeout(10):
            assert len({(await anext(subscription))["o"] for _ in range(50)}) == 50
    seen = (await state(nodes[0], bob))["discovery"]["datagrams_refused"]["revoked"]

    async def heard_again():
        return (await state(nodes[0], bob))["discovery"]["datagrams_refused"]["revoked"] > seen + 5

    await until(heard_again)  # it goes on trying, and stays out
    assert await together(nodes[:2], bob)


async def test_a_certificate_is_renewed_without_a_restart_and_a_damaged_one_changes_nothing(
    launcher, until, certificates
):
    folder, alice = certificates.node(), certificates.client()
    node = await asyncio.to_thread(launcher.start, **certificates.settings(folder))
    node.expected.append("tls_files_refused")
    async with p2prdf.connect(node.address, tls=tls_of(alice), reconnect_seconds=0) as client:
        before = (await client.status())["tls"]
        assert before["serial"] == certificates.authority.entries()[0].serial
        good = (folder / "tls.crt").read_bytes()
        (folder / "tls.crt").write_bytes(good[:300])

        async def problem():
            return (await client.status())["tls"]["problem"]

        assert "tls.crt" in await until(problem)
        assert (await state(node, alice))["tls"]["serial"] == before["serial"]
        shutil.copy(folder / "tls.key", certificates.folder / "kept.key")
        stranger = certificates.node()
        shutil.copy(stranger / "tls.crt", folder / "tls.crt")
        await until(lambda: has_problem(client, "do not belong together"))
        shutil.copy(stranger / "tls.key", folder / "tls.key")
        await until(lambda: has_problem(client, f"this is node {node.key}"))
        (folder / "tls.key").write_bytes((certificates.folder / "kept.key").read_bytes())
        (folder / "tls.crt").write_bytes(good)
        renewed = certificates.authority.issue(folder)

        async def taken_up():
            tls = (await client.status())["tls"]
            return tls if tls["serial"] == renewed.serial else None

        after = await until(taken_up)
        assert after["problem"] is None
        assert after["renewed"] >= 1
    assert (await state(node, alice))["key"] == node.key


async def has_problem(client, text):
    return text in ((await client.status())["tls"]["problem"] or "")


async def test_one_authority_is_replaced_by_another_while_nodes_and_clients_run(
    launcher, until, certificates, tmp_path
):
    nodes, folders = await asyncio.to_thread(start_overlay, launcher, certificates, 2)
    alice, old = certificates.client(), certificates.client("old")
    new = Certificates(tmp_path, "new")
    number = 0

    async def works(folder):
        nonlocal number
        number += 1
        async with (
            p2prdf.connect(nodes[0].address, tls=tls_of(folder)) as client,
            p2prdf.connect(nodes[1].address, tls=tls_of(folder)) as publisher,
        ):
            subscription = await client.subscribe(QUERY)
            await publisher.publish([("<urn:s>", "<urn:p>", f'"{number}"')])
            async with asyncio.timeout(10):
                return (await anext(subscription))["o"] == f'"{number}"'

    async def taken_up(count):
        states = [await state(node, alice) for node in nodes]
        return all(each["tls"]["renewed"] >= count for each in states)

    await until(lambda: together(nodes, alice))
    first = (folders[0] / "ca.crt").read_bytes()
    second = (new.authority.folder / "ca.crt").read_bytes()
    for folder in (*folders, alice):
        (folder / "ca.crt").write_bytes(first + second)
    await until(lambda: taken_up(1))
    assert await works(alice)
    new.authority.issue(folders[0])  # one node has a certificate of the new authority, the other of the old one
    await until(lambda: renewed_to(nodes[0], alice, new))
    assert await works(alice)
    new.authority.issue(folders[1])
    new.authority.issue(alice, client="alice")
    await until(lambda: renewed_to(nodes[1], alice, new))
    assert [node.key for node in nodes] == [(await state(node, alice))["key"] for node in nodes]
    for folder in (*folders, alice):
        (folder / "ca.crt").write_bytes(second)
    old_list = certificates.crl.read_bytes()
    certificates.crl.write_bytes(new.crl.read_bytes())
    await until(lambda: refused(nodes, old))
    assert await works(alice)
    assert old_list != certificates.crl.read_bytes()


async def renewed_to(node, folder, authority):
    serials = {each.serial for each in authority.authority.entries()}
    return (await state(node, folder))["tls"]["serial"] in serials


async def refused(nodes, folder):
    """Tell whether all nodes refuse the certificate of a folder."""
    for node in nodes:
        try:
            await state(node, folder)
        except p2prdf.TlsRefused:
            continue
        return False
    return True
