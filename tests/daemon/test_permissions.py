"""Permissions at real nodes by real TLS: every request, by role and by state of the certificate."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import pytest
from gateways import gateway
from permissions_matrix import CASES, PERMISSIONS, ROLES, Place, expected, missing, names_of
from tls_files import Certificates, careless, tls_of

import p2prdf
from p2prdf.client.session import open_session
from p2prdf.columns import LISTS
from p2prdf.gateway.access import Permission, Token, _digest
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire import messages
from p2prdf.wire.codec import FrameCodec, FrameReader
from p2prdf.wire.messages import CLIENT_VERSION, ClientHello
from p2prdf_node.permissions import Action

SECONDS = 60.0
NONE = 0x7000_0000_0000_0001
"""No subscription's number."""
QUERY = "SELECT ?s ?o { GRAPH <urn:m:g> { ?s <urn:p> ?o } }"
CLIENTS = [role for role in ROLES if role != "node"]
STATES = {
    "no certificate": "no-certificate", "other authority": "unknown-ca", "expired": "expired",
    "not yet valid": "not-yet-valid", "revoked": "revoked",
}  # fmt: skip


class Matrix:
    """A node with permissions, and certificates of every role in every state."""

    def __init__(self, folder, launcher):
        mine, other = Certificates(folder), Certificates(folder, "other")
        self.certificates = mine
        self.permissions = folder / "permissions.toml"
        self.permissions.write_text(PERMISSIONS)
        self.folders = {role: mine.client(role) for role in CLIENTS} | {"node": mine.node()}
        self.owner, self.watcher = mine.client("owner"), mine.node()
        self.states = {
            "no certificate": dict.fromkeys(ROLES), "other authority": {each: other.client(each) for each in CLIENTS},
            "expired": {each: mine.expired(folder) for each, folder in self.folders.items()},
            "not yet valid": {each: mine.early(folder) for each, folder in self.folders.items()},
            "revoked": {each: mine.client(each) for each in CLIENTS} | {"node": mine.node()},
        }
        self.states["other authority"]["node"] = other.node()
        for revoked in self.states["revoked"].values():
            mine.revoke(revoked)
        self.node = launcher.start(
            **mine.settings(mine.node()), permissions=self.permissions, replicas=1, copies_min=1, hello_seconds=20
        )

    async def session(self, folder):
        return await open_session("127.0.0.1", self.node.port, connect_seconds=SECONDS, tls=tls_of(folder))

    async def state(self):
        async with p2prdf.connect(self.node.address, tls=tls_of(self.watcher)) as client:
            return await client.status()

    async def errors(self):
        """Return the number of refusals for lack of permission."""
        return (await self.state())["clients"].get("errors_not-allowed", 0)


@pytest.fixture(scope="module")
def matrix(launcher_in, tmp_path_factory):
    with launcher_in("matrix") as launcher:
        yield Matrix(tmp_path_factory.mktemp("certificates"), launcher)


def test_the_matrix_has_all_requests():
    assert missing() == set()


@pytest.mark.parametrize("role", ROLES)
async def test_every_request_is_answered_by_the_permissions_of_its_role(matrix, role):
    async with p2prdf.connect(matrix.node.address, tls=tls_of(matrix.owner)) as owner:
        session = await matrix.session(matrix.folders[role])
        found = {}
        for case in CASES:
            place = await places(matrix, owner, session, role, case)
            found[str(case)] = await answered(matrix, session, case, place)
        session.close()
    assert found == {str(case): expected(case, role) for case in CASES}


async def places(matrix, owner, session, role, case):
    """Return the objects of a case; others' subscriptions are new ones, as a case may end them."""
    place = Place(NONE, 0, 0)
    if "one's own" in case.name and not ROLES[role].isdisjoint((Action.SUBSCRIBE, Action.QUERY)):
        once = Action.SUBSCRIBE not in ROLES[role]
        answer = await session.ask(
            lambda request: messages.ClientSubscribe(request, QUERY, "csbv", False, 60.0, once=once),
            timeout_seconds=SECONDS,
        )
        place.own = answer.subscription
    if "another's" in case.name:
        if "delivered" in case.name:
            place.others_live = (await owner.subscribe(QUERY)).id
        else:
            async with p2prdf.connect(matrix.node.address, tls=tls_of(matrix.owner)) as other:
                place.others = (await other.subscribe(QUERY)).id
    return place


async def answered(matrix, session, case, place):
    """Send something; return whether it was allowed."""
    if not case.answered:
        before = await matrix.errors()
        session.tell(case.make(0, place))
        await session.ask(messages.ClientPing, timeout_seconds=SECONDS)
        return await matrix.errors() == before
    try:
        async with asyncio.timeout(SECONDS):
            await session.start(lambda request: case.make(request, place), names_of(case))
    except p2prdf.NotAllowed:
        return False
    except p2prdf.SubscriptionGone:
        assert place.own == NONE
    except p2prdf.Unavailable:  # there is no such export
        assert case.kind is messages.ClientReadExport
    return True


@pytest.mark.parametrize("state", STATES)
async def test_a_rejected_certificate_gets_no_answer_to_any_request(matrix, state):
    before = Counter((await matrix.state())["connections"]["tls_refused"])
    errors = await matrix.errors()
    for role in ROLES:
        assert await told(matrix, careless(matrix.states[state][role])) == []
    after = Counter((await matrix.state())["connections"]["tls_refused"])
    assert after - before == {STATES[state]: len(ROLES)}
    assert await matrix.errors() == errors, "nothing was looked at"


async def told(matrix, context):
    """Say hello and send every request as soon as that is possible; return the answers except a refusal."""
    codec, frames, found = FrameCodec(TermDictionary(), LISTS), FrameReader(), []
    said = codec.encode([ClientHello(CLIENT_VERSION, "matrix")])
    place = Place(1, 2, 3)
    for number, case in enumerate(CASES, 1):
        said += FrameCodec(names_of(case), LISTS).encode([case.make(number, place)])
    with contextlib.suppress(OSError):
        async with asyncio.timeout(SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", matrix.node.port, ssl=context)
            try:
                writer.write(said)
                while data := await reader.read(65536):
                    if data[0] == 0x15:  # an alert, not a frame
                        break
                    for body in frames.feed(data):
                        found += codec.decode(body)
            finally:
                writer.transport.abort()
    return [each for each in found if not (isinstance(each, messages.ClientError) and each.code == "tls-refused")]


# --- in the place of others ----------------------------------------------------------------------


async def test_a_gateway_speaks_for_the_clients_that_its_tokens_name(matrix, until):
    every = frozenset(Permission)
    names = {"everything": "everything", "subscriber": "subscriber", "asker": "asker", "itself": ""}
    known = {_digest(f"token-of-{each}-here"): Token(every, name) for each, name in names.items()}
    tls = tls_of(matrix.certificates.client("gate"))
    query = {"query": QUERY}

    def said_by(who):
        return {"Authorization": f"Bearer token-of-{who}-here", "Content-Type": "application/n-quads"}

    async with gateway(matrix.node.address, tokens=known, tls=tls) as (session, _):

        async def asked(who, method, path, **how):
            async with session.request(method, path, headers=said_by(who), **how) as answer:
                return answer.status, await answer.text()

        fine, other = ('<urn:s> <urn:p> "gate" <urn:m:g> .', '<urn:s> <urn:p> "gate" <urn:other> .')
        assert (await asked("everything", "POST", "/publish", data=fine))[0] == 200
        for who, data in (("everything", other), ("subscriber", fine), ("itself", fine)):
            status, text = await asked(who, "POST", "/publish", data=data)
            assert (status, "not-allowed" in text) == (403, True)
        assert "gate" in (await asked("everything", "GET", "/sparql", params=query))[1]
        assert (await asked("subscriber", "GET", "/sparql", params=query))[0] == 403
        status, text = await asked("asker", "GET", "/sparql", params=query)
        assert (status, "client gate may not act as client asker" in text) == (403, True)
        assert [(await asked(who, "GET", "/status"))[0] for who in ("itself", "subscriber")] == [200, 403]
        async with session.get("/events", headers=said_by("subscriber"), params=query) as answer:
            assert answer.status == 200
            token = (await answer.content.readuntil(b"\n\n")).split(b"id: ")[1].split(b"\n")[0].decode()
        for who, expected_status in (("everything", 403), ("subscriber", 200)):
            headers = {**said_by(who), "Last-Event-ID": token}

            async def answered(headers=headers):
                """Ask again on 503: for seconds after another test has attached such a subscription, none may."""
                async with session.get("/events", headers=headers) as answer:
                    return None if answer.status == 503 else answer.status

            assert await until(answered, seconds=30) == expected_status
        async with session.ws_connect("/subscribe") as socket:
            for who, kind in (("everything", "notification"), ("asker", "error")):
                authorization = said_by(who)["Authorization"]
                await socket.send_json({"subscribe": {"sparql": QUERY, "authorization": authorization}})
                assert kind in await socket.receive_json(timeout=SECONDS)


# --- while nodes run, fail and come back ---------------------------------------------------------

PLAIN = "[clients.alice]\nmay = ['subscribe', 'query']\nread = ['urn:m:']\npublish = ['urn:m:']\n"
BOTH = PLAIN + PLAIN.replace("alice", "mallory")


def rows(count):
    return [(f"<urn:s{number}>", "<urn:p>", '"x"') for number in range(count)]


async def refused(attempt):
    with pytest.raises(p2prdf.NotAllowed) as caught:
        await attempt
    return str(caught.value)


@pytest.mark.long
async def test_a_subscription_stays_its_owners_at_other_nodes_through_failures_and_on_the_disk(
    launcher, until, tmp_path
):
    certificates, permissions = Certificates(tmp_path), tmp_path / "permissions.toml"
    permissions.write_text(BOTH)
    common = {"permissions": permissions, "replicas": 2, "copies_min": 1}
    nodes, options = [], []
    for number in range(2):
        options.append({**common, **certificates.settings(certificates.node()), "data": tmp_path / f"data{number}"})
        first = {"bootstrap": nodes[0].address} if nodes else {}
        nodes.append(await asyncio.to_thread(launcher.start, **options[number], **first))
    alice, mallory, watcher = (tls_of(each) for each in (
        certificates.client("alice"), certificates.client("mallory"), certificates.node()
    ))  # fmt: skip

    async def met():
        async with p2prdf.connect(nodes[1].address, tls=watcher) as client:
            peer = (await client.status())["peer"]
            return len(peer["contacts"]) == 2 and peer["in_sync"] and not peer["comparing"]

    await until(met, seconds=SECONDS)
    async with p2prdf.connect(nodes[0].address, tls=alice) as client:
        subscription = await client.subscribe(QUERY, lease_seconds=3600, auto_acknowledge=False)
        await client.publish(rows(10), graph="<urn:m:g>")
        async with asyncio.timeout(SECONDS):
            assert len({(await anext(subscription))["s"] for _ in range(5)}) == 5
        token = subscription.token()

    async def tried(node, *, attach=True):
        """Mallory has the token; every attempt is refused, and the next one has to wait."""
        async with p2prdf.connect(node.address, tls=mallory) as client:
            assert "is another client's" in await refused(client.unsubscribe(subscription.id))
            if attach:
                assert "is another client's" in await refused(client.attach(token))
                with pytest.raises(p2prdf.Busy, match="client mallory attached a subscription of another client"):
                    await client.attach(token)

    async def resumed(node):
        async with p2prdf.connect(node.address, tls=alice) as client:
            again = await client.attach(token, auto_acknowledge=False)
            async with asyncio.timeout(SECONDS):
                return {(await anext(again))["s"] for _ in range(5)}

    await tried(nodes[1])
    left = await resumed(nodes[1])
    nodes[0].kill()
    await tried(nodes[1], attach=False)
    assert await resumed(nodes[1]) == left
    nodes[1].kill()
    again = await asyncio.to_thread(launcher.start, **options[1])
    await tried(again)
    assert await resumed(again) == left


async def test_nodes_take_up_rights_that_change_and_keep_those_in_use_if_a_file_is_bad(launcher, until, tmp_path):
    certificates, permissions = Certificates(tmp_path), tmp_path / "permissions.toml"
    permissions.write_text(BOTH)
    node = await asyncio.to_thread(
        launcher.start, permissions=permissions, replicas=1, copies_min=1,
        **certificates.settings(certificates.node()),
    )  # fmt: skip
    node.expected.append("permissions_file_refused")
    alice, watcher = tls_of(certificates.client("alice")), tls_of(certificates.node())

    async def taken_up(count):
        async with p2prdf.connect(node.address, tls=watcher) as client:
            state = (await client.status())["permissions"]
            return state if state["renewed"] == count or state["problem"] else None

    async with p2prdf.connect(node.address, tls=alice) as client:
        assert (await until(lambda: taken_up(0), seconds=SECONDS))["clients"] == 2
        subscription = await client.subscribe(QUERY)
        await client.publish(rows(1), graph="<urn:m:g>")
        async with asyncio.timeout(SECONDS):
            await anext(subscription)
        permissions.write_text("[clients.alice]\nmay = ['fly']\n")
        state = await until(lambda: taken_up(-1), seconds=SECONDS)
        assert state["problem"].startswith(f"{permissions}: clients.alice.may: 'fly' is none of subscribe, query,")
        await client.publish(rows(2), graph="<urn:m:g>")
        async with asyncio.timeout(SECONDS):
            await anext(subscription)
        permissions.write_text(PLAIN.replace("read = ['urn:m:']", "read = ['urn:m:other']"))
        async with asyncio.timeout(SECONDS):
            with pytest.raises(p2prdf.NotAllowed, match="client alice may not read <urn:m:g>"):
                await anext(subscription)
        assert "may not read <urn:m:g>" in await refused(client.attach(subscription.id))
        assert "may not read <urn:m:g>" in await refused(client.query(QUERY))
        await client.publish(rows(3), graph="<urn:m:g>")
        permissions.write_text("[default]")
        await until(lambda: taken_up(2), seconds=SECONDS)
        assert "client alice may not publish" in await refused(client.publish(rows(4), graph="<urn:m:g>"))
        permissions.write_text(PLAIN)
        await until(lambda: taken_up(3), seconds=SECONDS)
        again = await client.attach(subscription.id)
        async with asyncio.timeout(SECONDS):
            assert (await anext(again))["s"] in {s for s, _, _ in rows(3)}


def test_a_node_does_not_start_with_rights_that_it_cannot_hold_anybody_to(launcher, tmp_path):
    permissions = tmp_path / "permissions.toml"
    permissions.write_text(BOTH)
    certificates = Certificates(tmp_path)
    plain = launcher.launch(permissions=permissions)
    settings = certificates.settings(certificates.node())
    permissions_of_nobody = launcher.launch(permissions=tmp_path / "nothing", **settings)
    for node, reason in ((plain, "so TLS is needed"), (permissions_of_nobody, "No such file or directory")):
        assert node.wait(SECONDS) == 2
        assert reason in node.text()
