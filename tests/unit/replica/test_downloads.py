"""Downloads over a real socket: whole or not at all, within bounds, each fault by its name."""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web as http
from changeset_web import ChangesetWeb, put, served

from p2prdf.errors import DataRefused, LocalProtocolError, Unavailable
from p2prdf.replica.downloads import Damaged, DownloadConfig, Downloads, checked_source

Fault = Callable[[http.Request], Awaitable[http.StreamResponse | None]]

TEXT = "<urn:s> <urn:p> <urn:o> .\n" * 400
PACKED = gzip.compress(TEXT.encode(), 1)
NAME = "000001.added.nt.gz"
SMALL = DownloadConfig(
    attempts=4, damaged_attempts=2, idle_seconds=0.3, total_seconds=2.0, stored_bytes_max=60_000, plain_bytes_max=90_000
)


class Got:
    """The outcome of a download of the served file."""

    def __init__(self, web: ChangesetWeb, tmp_path: Path, config: DownloadConfig = SMALL):
        self.web = web
        self.path = tmp_path / "got"
        self.pauses: list[float] = []
        self.downloads = Downloads(web.url, config, pause=self._pause)

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def text(self, *faults: Fault, name: str = NAME) -> str | None:
        """Download, through faults; return the text, None if there is none."""
        self.web.faults[f"/{name}"] = list(faults)
        try:
            saved = await self.downloads.file(self.web.url + name, self.path, compressed=name.endswith(".gz"))
        finally:
            await self.downloads.close()
        if saved is None:
            return None
        return (gzip.decompress if saved.compressed else bytes)(saved.path.read_bytes()).decode()


def status(code: int, **headers: str) -> Fault:
    async def answer(request: http.Request) -> http.StreamResponse:
        return http.Response(status=code, headers={name.replace("_", "-"): text for name, text in headers.items()})

    return answer


def body(data: bytes, **headers: str) -> Fault:
    async def answer(request: http.Request) -> http.StreamResponse:
        return http.Response(body=data, headers={name.replace("_", "-"): text for name, text in headers.items()})

    return answer


def cut(data: bytes, length: int | None) -> Fault:
    """Announce a length, or none, and close the connection behind less."""

    async def answer(request: http.Request) -> http.StreamResponse:
        assert request.transport is not None
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
        head += b"" if length is None else b"Content-Length: %d\r\n" % length
        request.transport.write(head + b"\r\n" + data)  # type: ignore[attr-defined]
        request.transport.close()
        return http.Response()

    return answer


async def endless(request: http.Request) -> http.StreamResponse:
    answer = http.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(b"\x00" * 10_000)


async def silent(request: http.Request) -> http.StreamResponse:
    answer = http.StreamResponse()
    await answer.prepare(request)
    await answer.write(PACKED[:20])
    await asyncio.Event().wait()
    return answer


async def dripping(request: http.Request) -> http.StreamResponse:
    """A connection that is never silent for long, and never done."""
    answer = http.StreamResponse()
    await answer.prepare(request)
    tick = asyncio.Event()
    while True:
        asyncio.get_running_loop().call_later(0.1, tick.set)
        await tick.wait()
        tick.clear()
        await answer.write(b"\x00")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path / "web", NAME, TEXT)
    put(tmp_path / "web", "000001.added.nt", TEXT)
    return tmp_path / "web"


@pytest.mark.parametrize(
    "faults",
    [
        [status(500), status(503), status(429)], [cut(PACKED[:50], len(PACKED))], [cut(PACKED[:50], None)],
        [cut(b"", None)], [silent], [body(PACKED[:50])], [body(PACKED[:-4] + b"abcd")], [body(b"<html>")], [body(b"")],
    ],
    ids=["errors", "cut", "cut without length", "nothing", "silent", "half", "checksum", "no gzip", "empty"],
)  # fmt: skip
async def test_an_incomplete_download_is_repeated(faults: list[Fault], folder: Path, tmp_path: Path) -> None:
    async with served(folder) as web:
        got = Got(web, tmp_path)
        assert await got.text(*faults) == TEXT
    assert got.pauses == [0.5, 1.0, 2.0][: len(faults)]


@pytest.mark.parametrize(
    ("fault", "kind", "reason", "attempts"),
    [
        (status(500), Unavailable, "the server answers 500 Internal Server Error", 4),
        (cut(PACKED[:50], len(PACKED)), Unavailable, "", 4),
        (cut(PACKED[:50], None), Unavailable, "the compressed file is truncated", 4),
        (silent, Unavailable, "Timeout", 4),
        (dripping, Unavailable, "no answer in time", 4),
        (body(PACKED[:50]), Damaged, "the compressed file is incomplete on the server", 2),
        (body(PACKED[:-4] + b"abcd"), Damaged, "damaged compression: ", 2),
        (body(b"<html>"), Damaged, "damaged compression: Not a gzipped file", 2),
        (endless, DataRefused, "more than 60,000 bytes", 1),
        (body(b"\x00" * 60_001), DataRefused, "60,001 bytes, more than 60,000", 1),
        (body(gzip.compress(b"\n" * 90_001)), DataRefused, "more than 90,000 bytes when uncompressed", 1),
        (status(403), DataRefused, "the server answers 403 Forbidden", 1),
        (body(PACKED, Content_Encoding="br"), DataRefused, "the server compresses it as 'br'", 1),
        (status(302, Location="/" + NAME), DataRefused, "more than 5 redirects", 1),
        (status(302), DataRefused, "a redirect that leads nowhere", 1),
        (status(302, Location="http://["), DataRefused, "a redirect that leads nowhere", 1),
        (status(302, Location="file:///etc/passwd"), DataRefused, "a redirect that is not followed: 'file:///", 1),
        (status(302, Location="http://me:secret@h/"), DataRefused, "not followed: a URL must not contain cred", 1),
        (status(302, Location="http://127.0.0.2:1/"), DataRefused, "127.0.0.2, a non-public address", 1),
        (status(302, Location="http://169.254.169.254/"), DataRefused, "a non-public address", 1),
        (status(302, Location="http://localhost:1/"), DataRefused, "localhost resolves to", 1),
    ],
)  # fmt: skip
async def test_each_fault_has_its_name(
    fault: Fault, kind: type[Exception], reason: str, attempts: int, folder: Path, tmp_path: Path
) -> None:
    async with served(folder) as web:
        config = SMALL if fault is not dripping else DownloadConfig(attempts=4, total_seconds=0.3)
        got = Got(web, tmp_path, config)
        with pytest.raises(kind) as raised:
            await got.text(*[fault] * 10)
        said = str(raised.value)
        assert type(raised.value) is kind
        assert said.startswith(f"{web.url}{NAME}: ")
        assert reason in said
        assert "secret" not in said
        assert len(got.pauses) == attempts - 1


async def test_an_absent_file_is_no_fault(folder: Path, tmp_path: Path) -> None:
    async with served(folder) as web:
        got = Got(web, tmp_path)
        assert await got.text(name="000002.added.nt.gz") is None
        assert await got.text(status(410)) is None
        assert got.pauses == []
        assert await got.downloads.exists(web.url + NAME)
        assert not await got.downloads.exists(web.url + "000002.added.nt.gz")
        await got.downloads.close()


async def test_a_redirect_within_the_server_is_followed(folder: Path, tmp_path: Path) -> None:
    async with served(folder) as web:
        assert await Got(web, tmp_path).text(status(307, Location="/elsewhere/../000001.added.nt.gz?x=1")) == TEXT


async def test_plain_files_have_a_length_or_are_refused(folder: Path, tmp_path: Path) -> None:
    async with served(folder) as web:
        name = "000001.added.nt"
        assert await Got(web, tmp_path).text(name=name) == TEXT
        assert await Got(web, tmp_path).text(body(PACKED, Content_Encoding="gzip"), name=name) == TEXT
        assert await Got(web, tmp_path).text(body(PACKED, Content_Encoding="x-gzip")) == TEXT
        assert await Got(web, tmp_path).text(cut(TEXT[:100].encode(), len(TEXT)), name=name) == TEXT
        with pytest.raises(DataRefused, match="so it could be incomplete"):
            await Got(web, tmp_path).text(cut(TEXT.encode(), None), name=name)


async def test_an_unchanged_file_is_not_sent_again(folder: Path, tmp_path: Path) -> None:
    async with served(folder) as web:
        got = Got(web, tmp_path)
        url = web.url + NAME
        fresh = await got.downloads.file(url, got.path, compressed=True)
        assert fresh is not None
        assert fresh.validators == {}, "it could change within the same second"
        os.utime(folder / NAME, (1e9, 1e9))
        first = await got.downloads.file(url, got.path, compressed=True, known=fresh)
        assert first is not None
        assert first is not fresh
        assert await got.downloads.file(url, got.path, compressed=True, known=first) is first
        os.utime(folder / NAME, (2e9 - 1e9 + 5, 1e9 + 5))
        again = await got.downloads.file(url, got.path, compressed=True, known=first)
        assert again is not None
        assert again is not first
        await got.downloads.close()


async def test_pages_are_read_within_bounds_also_if_they_come_compressed(folder: Path, tmp_path: Path) -> None:
    async with served(folder) as web:
        got = Got(web, tmp_path)
        put(folder, "page.txt", TEXT)
        for size, fault, reason in (
            (len(TEXT), None, ""), (len(TEXT) - 1, None, "10,400 bytes, more than 10,399"),
            (len(TEXT), body(PACKED, Content_Encoding="gzip"), ""),
            (len(TEXT) - 1, body(PACKED, Content_Encoding="gzip"), "bytes when uncompressed"),
            (len(TEXT), body(b"br", Content_Encoding="br"), "without request"),
        ):  # fmt: skip
            web.faults["/page.txt"] = [] if fault is None else [fault]
            if reason:
                with pytest.raises(DataRefused, match=reason):
                    await got.downloads.page(web.url + "page.txt", size)
            else:
                page = await got.downloads.page(web.url + "page.txt", size)
                assert page is not None
                assert page.body.decode() == TEXT
        assert await got.downloads.page(web.url + "absent.txt", 10) is None
        web.faults["/page.txt"] = [status(403)]
        assert await got.downloads.page(web.url + "page.txt", 10) is None
        await got.downloads.close()


async def test_a_server_that_is_down_is_unavailable(folder: Path, tmp_path: Path) -> None:
    async with served(folder) as web:
        got = Got(web, tmp_path)
    with pytest.raises(Unavailable, match=f"^{web.url}{NAME}: Cannot connect"):
        await got.text()
    assert got.pauses == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file:///etc/passwd", "is not an http:// or https:// URL"), ("ftp://h/x", "is not an http://"),
        ("http:///x", "with a host"),
        ("http://me:secret@h/", "a URL must not contain credentials"), ("ftp://me:secret@h/", "credentials"),
        ("http://h/?token=1", "neither a query"), ("http://h/#x", "nor a fragment"), ("http://h:x/", "is malformed"),
        ("http://secret@[h/", "the URL is malformed"),
    ],
)  # fmt: skip
def test_urls_that_must_not_be_asked(url: str, reason: str) -> None:
    with pytest.raises(DataRefused) as raised:
        checked_source(url)
    assert reason in str(raised.value)
    assert "secret" not in str(raised.value)
    assert checked_source("HTTPS://h:8443/a/b") == "https://h:8443/a/b"


def test_bounds_that_are_none_are_refused() -> None:
    for bad in ({"attempts": 0}, {"idle_seconds": 0.0}, {"redirects_max": -1}):
        with pytest.raises(LocalProtocolError):
            Downloads("http://h/", DownloadConfig(**bad))  # type: ignore[arg-type]
