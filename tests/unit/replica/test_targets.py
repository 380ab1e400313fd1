"""All kinds of targets take each update once, and hold the terms that were sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sparql_endpoint import EndpointProcess

from p2prdf.errors import DataRefused, LocalProtocolError, TargetMoved, TargetRefused, Unavailable
from p2prdf.interest import Triple, parse_interest
from p2prdf.rdf import terms
from p2prdf.replica.changeset_files import ChangesetFolder, read_changeset
from p2prdf.replica.credentials import Credentials, find_credentials
from p2prdf.replica.embedded import EmbeddedStore
from p2prdf.replica.endpoint import Endpoint, EndpointConfig
from p2prdf.replica.hosts import Hosts
from p2prdf.replica.target import Target, parts_of
from p2prdf.replica.triple_files import TripleFiles

GRAPH = "<http://example.org/slice>"
HOSTS = Hosts(["127.0.0.1"], private=True)
A, B, C = (("<urn:s>", "<urn:p>", f"<urn:{name}>") for name in "abc")


async def _no_pause(seconds: float) -> None:
    del seconds


def endpoint(process: EndpointProcess, dataset: str = "data", **options: object) -> Endpoint:
    config = EndpointConfig(f"{process.url}/update", f"{process.url}/query", **{"graph": GRAPH, **options})  # type: ignore[arg-type]
    return Endpoint(config, dataset=dataset, hosts=HOSTS, pause=_no_pause)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[EndpointProcess]:
    found = EndpointProcess(tmp_path / "store").start()
    yield found
    found.kill()


@pytest.fixture(params=["endpoint", "endpoint, default graph", "embedded", "files"])
async def target(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Target]:
    found: Target
    if request.param.startswith("endpoint"):
        process = request.getfixturevalue("process")
        found = endpoint(process, graph=None if "default" in request.param else GRAPH)
    elif request.param == "embedded":
        found = EmbeddedStore(tmp_path / "embedded", dataset="data", graph=GRAPH)
    else:
        found = TripleFiles(tmp_path / "files")
    yield found
    await found.close()


async def _content(target: Target) -> set[Triple]:
    return {triple async for triple in target.triples()}


async def test_triples_and_cursor_change_together_and_once(target: Target) -> None:
    assert await target.cursor() is None
    await target.update([], [A, B], before=None, after="1")
    assert (await target.cursor(), await _content(target)) == ("1", {A, B})
    await target.update([A], [C], before="1", after="2")
    assert (await target.cursor(), await _content(target)) == ("2", {B, C})
    for before in (None, "1", "3"):
        with pytest.raises(TargetMoved):
            await target.update([B], [A], before=before, after="9")
    assert (await target.cursor(), await _content(target)) == ("2", {B, C})
    await target.update([], [], before="2", after="3")
    assert (await target.cursor(), await _content(target)) == ("3", {B, C})


async def test_a_triple_deleted_and_inserted_is_there(target: Target) -> None:
    await target.update([], [A], before=None, after="1")
    await target.update([A, C], [A], before="1", after="2")
    assert await _content(target) == {A}


LITERALS = [
    *map(terms.literal, [
        "plain", "", 'quotes " and \\ and \n and \r', "\\u0041 is no A, \\\\n no line", "tab\tand\u2028", "\x01\x7f",
        "{ } . ; ?x $y <a> '''", "\\\\\\", "\ud7ff\ue000\uffff\U0010ffff",
    ]),
    terms.literal("é \U0001f600 \u05d0", None, "he"), terms.literal("a", None, "en-gb"),
    terms.literal("x", "http://example.org/a#b%20c"), terms.literal("3", terms.XSD + "integer"),
]  # fmt: skip


async def test_terms_arrive_as_they_are(target: Target) -> None:
    triples = {("<http://example.org/é?a=1&b=%2F#c>", "<urn:p>", literal) for literal in LITERALS}
    await target.update([], triples, before=None, after='a "cursor" \\ é')
    assert await _content(target) == triples
    assert await target.cursor() == 'a "cursor" \\ é'
    await target.update(triples, [], before='a "cursor" \\ é', after="2")
    assert await _content(target) == set()


async def test_a_folder_of_files_can_be_followed_in_turn(tmp_path: Path) -> None:
    target = TripleFiles(tmp_path)
    await target.update([], [A, B], before=None, after="x")
    await target.update([A], [C], before="x", after="y")
    found = [read_changeset(each) for each in ChangesetFolder(tmp_path).scan().ready]
    assert [(each.removed, each.added) for each in found] == [((), (A, B)), ((A,), (C,))]
    again = TripleFiles(tmp_path)
    assert (await again.cursor(), await _content(again)) == ("y", {B, C})
    (tmp_path / "cursor.json").write_text("{}")
    with pytest.raises(DataRefused, match=r"cursor\.json"):
        TripleFiles(tmp_path)


async def test_two_replicas_in_one_store_have_cursors_of_their_own(tmp_path: Path) -> None:
    one = EmbeddedStore(None, dataset="one", graph=GRAPH)
    two = EmbeddedStore(None, dataset="two", graph=GRAPH)
    two.store = one.store
    await one.update([], [A], before=None, after="1")
    assert await two.cursor() is None


def test_a_large_change_is_divided_deletions_first_and_alike_each_time() -> None:
    parts = parts_of([C, A], [B], 2)
    assert parts == [([A, C], []), ([], [B])] == parts_of([A, C], [B], 2)
    assert parts_of([], [], 2) == []


# --- endpoints ---------------------------------------------------------------------------------------------


async def test_an_update_is_made_once_through_answers_that_do_not_come(tmp_path: Path) -> None:
    """Of five requests four are answered 503, two of these after they took effect."""
    process = EndpointProcess(tmp_path / "store").start("--stutter", "5")
    target = endpoint(process, attempts=12)
    try:
        cursor: str | None = None
        for number in range(8):
            triples = [("<urn:s>", "<urn:p>", f"<urn:o{number}{part}>") for part in "ab"]
            await target.update([triples[0]] if number % 2 else [], triples, before=cursor, after=str(number))
            cursor = str(number)
        assert len(await _content(target)) == 16
        assert target.requests > 16
    finally:
        await target.close()
        process.kill()


async def test_errors_of_the_endpoint_are_reported(process: EndpointProcess) -> None:
    target = endpoint(process)
    with pytest.raises(TargetRefused, match="answers 400"):
        await target.update([], [("<urn:s>", "no term", "<urn:o>")], before=None, after="1")
    elsewhere = Endpoint(
        EndpointConfig(f"{process.url}/elsewhere", f"{process.url}/query"), dataset="data", hosts=HOSTS, pause=_no_pause
    )
    with pytest.raises(TargetRefused, match="307 and redirects"):
        await elsewhere.update([], [A], before=None, after="1")
    small = endpoint(process, answer_bytes_max=10)
    await target.update([], [A], before=None, after="1")
    with pytest.raises(TargetRefused, match="more than 10 bytes"):
        await _content(small)
    process.kill()
    gone = endpoint(process, attempts=2)
    with pytest.raises(Unavailable):
        await gone.cursor()
    for each in (target, elsewhere, small, gone):
        await each.close()


async def test_credentials_are_sent_and_never_shown(tmp_path: Path) -> None:
    process = EndpointProcess(tmp_path / "store").start("--auth", "Basic dTpzZWNyZXQ=")
    config = EndpointConfig(f"{process.url}/update", f"{process.url}/query")
    credentials = Credentials("basic u:secret\n", source="test")
    let_in = Endpoint(config, dataset="data", hosts=HOSTS, credentials=credentials, pause=_no_pause)
    kept_out = Endpoint(config, dataset="data", hosts=HOSTS, pause=_no_pause)
    try:
        assert await let_in.cursor() is None
        with pytest.raises(TargetRefused, match="401") as refused:
            await kept_out.cursor()
        assert "secret" not in f"{credentials!r} {refused.value}"
    finally:
        await let_in.close()
        await kept_out.close()
        process.kill()


async def test_pages_of_any_size_make_up_the_whole(process: EndpointProcess) -> None:
    target = endpoint(process)
    triples = {("<urn:s>", f"<urn:p{n % 3}>", f"<urn:o{n}>") for n in range(50)}
    await target.update([], triples, before=None, after="1")
    for size in (7, 50, 1000):
        paged = endpoint(process, page_triples=size)
        assert await _content(paged) == triples
        await paged.close()
    await target.close()


async def test_a_slice_of_a_source_is_read_by_patterns(process: EndpointProcess) -> None:
    source = endpoint(process, page_triples=2)
    interest = parse_interest("SELECT * { ?a <urn:p> ?b . ?b <urn:q> <urn:x> OPTIONAL { ?a <urn:r> [] } }")
    full = {
        ("<urn:a>", "<urn:p>", "<urn:b>"), ("<urn:a2>", "<urn:p>", "<urn:b>"), ("<urn:b>", "<urn:q>", "<urn:x>"),
        ("<urn:a>", "<urn:r>", '"1"'),
    }  # fmt: skip
    near = {("<urn:a>", "<urn:p>", "<urn:c>"), ("<urn:d>", "<urn:r>", '"2"'), ("<urn:e>", "<urn:q>", "<urn:x>")}
    await source.update([], {*full, *near, ("<urn:a>", "<urn:z>", "<urn:b>")}, before=None, after="1")
    assert {triple async for triple in source.matching(interest, matched=False)} == full | near
    assert {triple async for triple in source.matching(interest, matched=True)} == full
    await source.close()


# --- permitted endpoints ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://listed.example/", "http"),
        ("http:///update", "a host"),
        ("http://user:word@listed.example/", "credentials"),
        ("http://other.example/", "not on the list"),
        ("http://listed.example:81/", "not on the list"),
        ("http://127.0.0.1:3030/", "private networks are not permitted"),
        ("http://[::1]/", "private networks are not permitted"),
        ("http://169.254.169.254/latest", "not on the list"),
        ("http://listed.example:x/", "Port"),
    ],
)  # fmt: skip
def test_only_hosts_on_the_list_are_asked(url: str, reason: str) -> None:
    hosts = Hosts(["listed.example:80", "127.0.0.1", "[::1]"])
    with pytest.raises(TargetRefused, match=reason):
        hosts.check(url)


def test_names_must_not_lead_to_other_networks() -> None:
    hosts, inside = Hosts(["listed.example"]), Hosts(["listed.example"], private=True)
    hosts.check("https://listed.example:8443/ds/update")
    hosts.check_address("listed.example", "93.184.216.34")
    for address in ("10.1.2.3", "127.0.0.1", "::1", "::ffff:10.0.0.1", "fd00::1"):
        with pytest.raises(TargetRefused):
            hosts.check_address("listed.example", address)
        inside.check_address("listed.example", address)
    for address in ("169.254.169.254", "fe80::1%eth0", "224.0.0.1", "0.0.0.0", "::ffff:169.254.169.254"):
        with pytest.raises(TargetRefused, match="link-local"):
            inside.check_address("listed.example", address)
    for wrong in ("", "http://host/", "a:b", "user@host"):
        with pytest.raises(TargetRefused, match="not a host"):
            Hosts([wrong])


async def test_a_name_that_leads_inside_is_refused_when_the_connection_is_made(process: EndpointProcess) -> None:
    url = f"http://localhost:{process.port}/query"
    target = Endpoint(EndpointConfig(url, url), dataset="d", hosts=Hosts(["localhost"]), pause=_no_pause)
    with pytest.raises(TargetRefused, match="localhost resolves to"):
        await target.cursor()
    await target.close()


def test_credentials_come_from_files_that_nobody_else_reads(tmp_path: Path) -> None:
    file = tmp_path / "auth"
    file.write_text("bearer abc\n")
    for mode in (0o644, 0o660, 0o604):
        file.chmod(mode)
        with pytest.raises(LocalProtocolError, match="others may read"):
            find_credentials(file)
    for mode in (0o440, 0o600):
        file.chmod(mode)
        found = find_credentials(file)
        assert found is not None
        assert found.headers == {"Authorization": "Bearer abc"}
    for wrong in ("", "basic nobody", "bearer a b", "digest x", "bearer a\nX: y"):
        with pytest.raises(LocalProtocolError, match="no credentials") as refused:
            Credentials(wrong, source="a file")
        assert wrong == "" or wrong not in str(refused.value)
    assert find_credentials(None, {}) is None
    assert find_credentials(None, {"P2PRDF_ENDPOINT_AUTH": "basic a:b"}) is not None
    with pytest.raises(LocalProtocolError, match="cannot be read"):
        find_credentials(tmp_path / "absent")
