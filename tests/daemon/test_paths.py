"""Names from outside are no paths: a file made from a name lies in its folder, or is not made."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from random import Random
from urllib.parse import quote

import aiohttp
import pytest
from gateways import gateway

import p2prdf
from p2prdf.errors import LocalProtocolError, P2PRDFError
from p2prdf.gateway.webhooks.registration import check_name as check_webhook
from p2prdf.replica.changeset_files import checked_position
from p2prdf.replica.server_index import read_index
from p2prdf_cli.subscribe_state import NamedState, check_name

GENERATED = 20_000
BAD = (
    "../../escaped", "/tmp-escaped", "..", ".", "", "a/../../escaped", "a\\..\\escaped", "..\\escaped", "a\0b", "\0",
    "~/x", "%2e%2e%2fescaped", "....//escaped", "..%2f..%2f..%2f..%2fetc%2fpasswd", "../../../../../../../etc/passwd",
    "file:///escaped", "a/b", "a\nb", "-rf", "\u2025/x", "\uff0e\uff0e/x", "a" * 5000,
    "../" * 2000 + "escaped", "./a", "a/.", " ", "$(touch escaped)", "`touch escaped`", "*", "C:\\escaped", "\ufeffx",
)  # fmt: skip
_PARTS = (
    "..", "/", "a", "0", ".", "\\", "\0", "%2f", "%2e", "~", "added.nt", "000001", " ", "\u2044", "b", ":", "?", "#",
)  # fmt: skip


def generated(seed, count):
    """Yield names of the parts that escapes are made of."""
    rng = Random(seed)
    yield from BAD
    for _ in range(count):
        yield "".join(rng.choices(_PARTS, k=rng.randint(1, 8)))


def inside(folder, path):
    """Tell whether a path is in a folder, and directly so."""
    return os.path.dirname(os.path.normpath(path)) == os.path.normpath(folder)  # noqa: PTH120 - as a system reads it


@pytest.mark.parametrize("check", [check_name, check_webhook])
def test_names_that_are_let_through_stay_in_their_folder(check):
    let_through = 0
    for name in generated(7, GENERATED):
        try:
            checked = check(name)
        except (ValueError, LocalProtocolError):
            continue
        let_through += 1
        assert inside("/state/here", f"/state/here/{checked}.json"), name
        assert "\0" not in checked
        assert len(checked) <= 100
    assert 100 < let_through < GENERATED / 2, "else too little is tried, or let through"


def test_positions_that_are_let_through_are_numbers():
    for name in generated(8, GENERATED):
        try:
            position = checked_position(name)
        except LocalProtocolError:
            continue
        assert ".." not in position.split("/")
        assert os.path.normpath(f"/here/{position}").startswith("/here/"), name  # a trailing slash would be another


def test_index_pages_name_nothing_outside_of_their_folder():
    """The pages of a hostile server; the next requests are made from the names alone."""
    pages = found = 0
    for name in generated(9, GENERATED // 4):
        body = f"<title>Index of /x</title><a href='{name}'>x</a><a href='{quote(name, safe='')}'>x</a>".encode()
        body += b"<a href='000007.added.nt'>x</a>"
        pages += 1
        listing = read_index(body, "http://h/x/")
        if listing is None:
            continue
        for each in (*listing.folders.values(), *listing.changesets.values()):
            found += 1
            assert each.isascii(), name
            assert each.isdigit(), name
    assert found >= pages, "else nothing is read of them"


def test_the_state_of_a_subscription_is_written_for_names_alone(tmp_path):
    """The command checks a name before it opens a file; an unchecked name is refused by its characters, too."""
    folder = tmp_path / "deep" / "state"
    folder.mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    for name in BAD:
        with pytest.raises((ValueError, P2PRDFError)):
            NamedState(folder, check_name(name)).__enter__()
    assert sorted(tmp_path.rglob("*")) == before


async def test_names_that_clients_give_make_no_file_of_a_node_or_a_gateway(launcher, tmp_path):
    """Graphs, streams, datasets, channels, rules, subjects and query names: a node has the same files with them."""
    data = tmp_path / "here" / "data"
    node = launcher.start(data=data, replicas=1, copies_min=1)
    bystander = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir() if path != data.parent}
    async with p2prdf.connect(node.address) as client, gateway(node.address) as (session, _):
        await client.publish([("<urn:s>", "<urn:p>", "<urn:o>")])
        before = files(data)
        for name in BAD:
            iri = f"<urn:x:{quote(name[:500], safe='./:~')}>"
            await client.publish([(iri, iri, iri)], graph=iri)
            for what in ({"graph": name}, {"graph": iri}):
                with contextlib.suppress(P2PRDFError):  # most are no IRIs
                    await client.publish([("<urn:s>", "<urn:p>", "<urn:o>")], **what)
            for path in ("/console/{}", "/webhooks/{}", "/{}"):
                url = f"{session._base_url}".rstrip("/") + path.format(quote(name, safe=""))
                async with session.get(_as_is(url)) as answer:
                    assert answer.status in (200, 400, 404, 405), (path, name)
                    assert b"root:" not in await answer.read()
        assert files(data) == before
    here = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir() if path != data.parent}
    assert here.keys() == bystander.keys()
    assert list(data.parent.iterdir()) == [data]


def files(folder: Path) -> list[str]:
    """Return the paths of all files in a folder, relative to it."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def _as_is(url: str) -> aiohttp.client.URL:
    return aiohttp.client.URL(url, encoded=True)
