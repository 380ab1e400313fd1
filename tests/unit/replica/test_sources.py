"""The meaning of source names: folders, patches and URLs, alone and one after the other."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from changeset_web import put, served

from p2prdf.errors import DataRefused, LocalProtocolError
from p2prdf.interest import Changeset
from p2prdf.replica.rdf_patch import PATCH_LINE_MAX, read_patch
from p2prdf.replica.sources import Source, open_source, open_sources

TRANSACTION = "TX .\nA <urn:s{0}> <urn:p> <urn:o> .\nTC .\n"


async def positions(source: Source, after: str | None = None, *, growing: bool = False) -> list[str | tuple[str, str]]:
    async with contextlib.aclosing(source.changesets(after, growing=growing)) as given:
        return [position if changeset else (position, "missing") async for position, changeset in given]


@contextlib.asynccontextmanager
async def opened(*names: object) -> AsyncIterator[Source]:
    async with contextlib.aclosing(open_sources([str(name) for name in names])) as source:
        yield source


def pair(folder: Path, *numbers: int) -> None:
    for number in numbers:
        for word in ("added", "removed"):
            put(folder, f"{number:06}.{word}.nt.gz")


async def test_sources_are_read_one_after_the_other_and_the_last_is_followed(tmp_path: Path) -> None:
    pair(tmp_path / "archive", 1, 2)
    put(tmp_path, "archive/000003.removed.nt")  # half of it, but nothing is written there any more
    pair(tmp_path / "later", 4)
    async with served(tmp_path) as web, opened(tmp_path / "archive", web.url + "later") as source:
        assert await positions(source, growing=True) == ["000001", "000002", "000003", "000004"]
        asked = web.asked["GET /later/"]
        pair(tmp_path / "later", 5)
        pair(tmp_path / "archive", 4)
        assert await positions(source, "000004", growing=True) == ["000005"]
        assert web.asked["GET /later/"] == asked + 1
    async with served(tmp_path) as web, opened(web.url + "archive", tmp_path / "later") as source:
        assert await positions(source, "000002") == ["000003", "000004", "000005"]


async def test_a_gap_between_two_sources_is_reported(tmp_path: Path) -> None:
    pair(tmp_path / "archive", 1, 2)
    pair(tmp_path / "later", 4)
    async with served(tmp_path) as web:
        for later in (tmp_path / "later", web.url + "later"):
            async with opened(tmp_path / "archive", later) as source:
                assert await positions(source) == ["000001", "000002", ("000003", "missing")]
                assert await positions(source, "000002") == [("000003", "missing")]
                assert await positions(source, "000003") == ["000004"]


@pytest.mark.parametrize("name", ["log.rdfp", "log.rdfp.gz"])
async def test_a_patch_at_a_url_is_read_like_the_file(name: str, tmp_path: Path) -> None:
    text = "".join(TRANSACTION.format(number) for number in range(3))
    path = put(tmp_path, name, text)
    async with served(tmp_path) as web, opened(web.url + name) as source, opened(path) as local:
        expected = ["000000001", "000000002", "000000003"]
        for each in (source, local):
            assert await positions(each) == expected
            assert await positions(each, expected[0], growing=True) == expected[1:]
            assert await positions(each, expected[2]) == []
            with pytest.raises(DataRefused, match="3 transactions, but 4 were read before"):
                await positions(each, "000000004")
            with pytest.raises(DataRefused, match="is not the number of a transaction"):
                await positions(each, "2014/10/02/21/000000")
        changesets = [changeset async for _, changeset in source.changesets(None, growing=False)]
        assert changesets == [changeset async for _, changeset in local.changesets(None, growing=False)]
        assert isinstance(changesets[0], Changeset)


async def test_a_patch_that_grows_is_followed_by_whole_transactions(tmp_path: Path) -> None:
    path, text = tmp_path / "log.rdfp", ""
    async with served(tmp_path) as web, opened(web.url + "log.rdfp") as source:
        with pytest.raises(DataRefused, match="there is no such file"):
            await positions(source, growing=True)
        taken: list[str | tuple[str, str]] = []
        for letter in "".join(TRANSACTION.format(number) for number in range(2)):
            text += letter
            path.write_text(text)
            taken += await positions(source, str(taken[-1]) if taken else None, growing=True)
            assert len(taken) == text.count("TC ."), "whether or not its line has an end"
        os.utime(path, (1e9, 1e9))
        assert await positions(source, "000000002", growing=True) == []
        assert await positions(source, "000000002", growing=True) == []
        assert web.answered[304] == 1
        assert await positions(source, "000000001", growing=True) == ["000000002"], "whoever is further back gets all"
        path.write_text(text + "A <urn:s> <urn:p> <urn:o> .\n")
        with pytest.raises(DataRefused, match="their end is unknown"):
            await positions(source, "000000002", growing=True)
        assert await positions(source, "000000002") == ["000000003"]


@pytest.mark.parametrize("name", ["log.rdfp", "log.rdfp.gz"])
async def test_damage_in_a_patch_is_reported_by_its_name(name: str, tmp_path: Path) -> None:
    path = put(tmp_path, name, TRANSACTION.format(1) + "nonsense\n")
    async with served(tmp_path) as web:
        for source in (path, web.url + name):
            async with opened(source) as given:
                with pytest.raises(DataRefused, match=f"{name}:4: column 1: no row of RDF Patch"):
                    await positions(given)
    path.write_bytes(b"\xff\xfe\x1f")
    async with opened(path) as given:
        with pytest.raises(DataRefused, match=f"{name}: (not UTF-8|damaged compression)"):
            await positions(given)


async def test_a_line_without_an_end_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    path = put(tmp_path, "log.rdfp", "A <urn:" + "x" * 2 * PATCH_LINE_MAX)
    async with opened(path) as given:
        with pytest.raises(DataRefused, match=f"log.rdfp:1: a line of {PATCH_LINE_MAX + 1} characters"):
            await positions(given, growing=True)


def test_a_transaction_without_an_end_is_left_for_later_only_while_the_file_grows() -> None:
    text = TRANSACTION.format(1) + "TX .\nD <urn:s> <urn:p> <urn:o> .\n"
    assert len(list(read_patch(text.splitlines(keepends=True), growing=True))) == 1
    with pytest.raises(DataRefused, match="the transaction has no end"):
        list(read_patch(text.splitlines(keepends=True)))


async def test_names_that_are_no_source_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "log.rdfp", TRANSACTION)
    with pytest.raises(LocalProtocolError, match="must be the only source"):
        open_sources([str(path), str(tmp_path)])
    with pytest.raises(LocalProtocolError, match="must be the only source"):
        open_sources([str(tmp_path), "http://h/log.rdfp.gz"])
    for name in ("file:///etc/", "ftp://h/", "http://me:secret@h/"):
        with pytest.raises(DataRefused):
            open_source(name)
    async with opened(tmp_path / "absent") as source:
        with pytest.raises(DataRefused, match="there is no such folder"):
            await positions(source)
