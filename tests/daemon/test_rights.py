"""Who may do what, at real nodes by real TLS: every request, by role and by state of the certificate."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import pytest
from rights_matrix import CASES, RIGHTS, ROLES, Place, expected, missing, names_of
from tls_files import Certificates, careless, tls_of

import p2prdf
from p2prdf.client.session import open_session
from p2prdf.columns import LISTS
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire import messages
from p2prdf.wire.codec import FrameCodec, FrameReader
from p2prdf.wire.messages import CLIENT_VERSION, ClientHello
from p2prdf_node.rights import Verb

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
    """A node with rights, and certificates of every role in every state."""

    def __init__(self, folder, launcher):
        mine, other = Certificates(folder), Certificates(folder, "other")
        self.certificates = mine
        self.rights = folder / "rights.toml"
        self.rights.write_text(RIGHTS)
        self.node = launcher.start(
            **mine.settings(mine.node()), rights=self.rights, roles="all", replicas=1, copies_min=1, hello_seconds=20
        )
        self.folders = {role: mine.client(role) for role in CLIENTS} | {"node": mine.node()}
        self.owner, self.watcher = mine.client("owner"), mine.node()
        self.states = {
            "no certificate": dict.fromkeys(ROLES), "other authority": {each: other.client(each) for each in CLIENTS},
            "expired": {each: mine.expired(folder) for each, folder in self.folders.items()},
            "not yet valid": {each: mine.early(folder) for each, folder in self.folders.items()},
            "revoked": {each: mine.client(each) for each in CLIENTS} | {"node": mine.node()},
        }
        self.states["other authority"]["node"] = other.node()
        for folder in self.states["revoked"].values():
            mine.revoke(folder)

    async def session(self, folder):
        return await open_session("127.0.0.1", self.node.port, connect_seconds=SECONDS, tls=tls_of(folder))

    async def state(self):
        async with p2prdf.connect(self.node.address, tls=tls_of(self.watcher)) as client:
            return await client.status()

    async def errors(self):
        """How often it was said that something is not allowed."""
        return (await self.state())["clients"].get("errors_not-allowed", 0)


@pytest.fixture(scope="module")
def matrix(launcher_in, tmp_path_factory):
    with launcher_in("matrix") as launcher:
        yield Matrix(tmp_path_factory.mktemp("certificates"), launcher)


def test_the_matrix_has_all_requests():
    assert missing() == set()


@pytest.mark.parametrize("role", ROLES)
async def test_every_request_is_answered_as_the_rights_of_its_role_say(matrix, role):
    async with p2prdf.connect(matrix.node.address, tls=tls_of(matrix.owner)) as owner:
        session = await matrix.session(matrix.folders[role])
        found = {}
        for case in CASES:
            place = await places(matrix, owner, session, role, case)
            found[str(case)] = await answered(matrix, session, case, place)
        session.close()
    assert found == {str(case): expected(case, role) for case in CASES}


async def places(matrix, owner, session, role, case):
    """Return what a case is about; others' subscriptions are new ones, as a case may end them."""
    place = Place(NONE, 0, 0)
    if "one's own" in case.name and not ROLES[role].isdisjoint((Verb.SUBSCRIBE, Verb.QUERY)):
        once = Verb.SUBSCRIBE not in ROLES[role]
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
    """Say something; return whether it was allowed."""
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
    return True


@pytest.mark.parametrize("state", STATES)
async def test_whose_certificate_is_not_accepted_is_answered_nothing_whatever_it_says(matrix, state):
    before = Counter((await matrix.state())["connections"]["tls_refused"])
    errors = await matrix.errors()
    for role in ROLES:
        assert await told(matrix, careless(matrix.states[state][role])) == []
    after = Counter((await matrix.state())["connections"]["tls_refused"])
    assert after - before == {STATES[state]: len(ROLES)}
    assert await matrix.errors() == errors, "nothing was looked at"


async def told(matrix, context):
    """Say hello and everything there is to say, as soon as that is possible; return what is answered but a refusal."""
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
