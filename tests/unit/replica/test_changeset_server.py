"""Changesets of a web server, over a real socket: those of the folder, in order, up to the first missing one."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web as http
from changeset_web import ChangesetWeb, put, served

from p2prdf.errors import DataRefused
from p2prdf.interest import Changeset
from p2prdf.replica import changeset_server
from p2prdf.replica.changeset_server import ChangesetServer
from p2prdf.replica.downloads import DownloadConfig, Downloads
from p2prdf.replica.sources import open_source

DATA = Path(__file__).parents[4] / "shared" / "data" / "changesets"
WORDS = ("added", "removed")

Found = list[tuple[str, Changeset | None]]


class Reader:
    """Reads a server, again and again."""

    def __init__(self, web: ChangesetWeb, scratch: Path):
        self.pauses: list[float] = []
        self.downloads = Downloads(web.url, DownloadConfig(), pause=self._pause)
        self._server = ChangesetServer(web.url, self.downloads, scratch)

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def read(self, after: str | None = None, *, growing: bool = False) -> Found:
        return [each async for each in self._server.changesets(after, growing=growing)]

    async def positions(self, after: str | None = None, *, growing: bool = False) -> tuple[list[str], str | None]:
        """Return the positions that are there, and the missing one."""
        found = await self.read(after, growing=growing)
        assert all(changeset is not None for _, changeset in found[:-1])
        gap = found.pop()[0] if found and found[-1][1] is None else None
        return [position for position, _ in found], gap


class Opened:
    """The folder of a server, and its reader."""

    def __init__(self, tmp_path: Path):
        self.folder = tmp_path / "web"
        self.folder.mkdir()
        self._scratch = tmp_path / "scratch"
        self._scratch.mkdir()

    @contextlib.asynccontextmanager
    async def reading(self, web: ChangesetWeb) -> AsyncIterator[Reader]:
        reader = Reader(web, self._scratch)
        try:
            yield reader
        finally:
            await reader.downloads.close()


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    return Opened(tmp_path)


async def by_folder(folder: Path, after: str | None = None, *, growing: bool = False) -> Found:
    source = open_source(str(folder))
    return [each async for each in source.changesets(after, growing=growing)]


def pair(folder: Path, position: str, suffix: str = ".nt.gz") -> None:
    for word in WORDS:
        put(folder, f"{position}.{word}{suffix}")


def publish(folder: Path, position: str) -> None:
    """Publish as DBpedia Live does: the position is announced before its files are there."""
    point(folder, position)
    pair(folder, position)


def point(folder: Path, position: str) -> None:
    put(folder, "lastPublishedFile.txt", position.replace("/", "-"))


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("name", ["dbpedia-live", "schemaorg", "paper-example"])
async def test_real_changesets_are_those_of_the_folder(name: str, index: bool, opened: Opened) -> None:
    if not (DATA / name).exists():
        pytest.skip(f"the changesets of {name} are not beside the repository (shared/data/changesets)")
    source = next(path for path in sorted((DATA / name).iterdir()) if path.is_dir())
    begin = None
    if name == "dbpedia-live":
        shutil.copytree(source, opened.folder / "2014/10/02/21")
        point(opened.folder, "2014/10/02/21/000004")
        begin = "2014/10/02"
    else:
        shutil.copytree(source, opened.folder, dirs_exist_ok=True)
    expected = await by_folder(opened.folder)
    assert len(expected) == {"dbpedia-live": 5, "schemaorg": 4, "paper-example": 1}[name]
    async with served(opened.folder, index=index) as web, opened.reading(web) as reader:
        assert await reader.read(begin) == expected
        assert await reader.read(expected[0][0]) == expected[1:]
        assert await reader.read(expected[-1][0]) == []


@pytest.mark.parametrize("seed", range(6))
async def test_random_folders_are_read_as_they_lie_on_the_disk(seed: int, opened: Opened) -> None:
    rng = random.Random(seed)
    hours = [f"2014/{rng.randint(1, 12):02}/{day:02}/{rng.randint(0, 23):02}/" for day in (3, 9, 20)]
    folders = [""] if seed % 2 else hours
    for folder in folders:
        first = rng.randint(0, 2)
        for number in range(first, first + rng.randint(2, 7)):
            for word in rng.choice([WORDS, WORDS, WORDS[:1], WORDS[1:]]):
                put(opened.folder, f"{folder}{number:06}.{word}.nt{rng.choice(['', '.gz'])}")
    if seed in (2, 3):  # one is missing
        for path in sorted(opened.folder.rglob("000003.*")):
            path.unlink()
    async with served(opened.folder) as web, opened.reading(web) as reader:
        for growing in (False, True):
            expected = await by_folder(opened.folder, growing=growing)
            assert await reader.read(growing=growing) == expected
            for position, _ in expected[: 1 + len(expected) // 2]:
                here = await by_folder(opened.folder, position, growing=growing)
                assert await reader.read(position, growing=growing) == here


@pytest.mark.parametrize("index", [True, False])
async def test_a_server_that_grows_is_followed_through_hours_and_nothing_is_read_twice(
    index: bool, opened: Opened
) -> None:
    folder, taken = opened.folder, ["2014/12/31/22/000000"]
    publish(folder, taken[0])
    async with served(folder, index=index) as web, opened.reading(web) as reader:

        async def come() -> list[str]:
            found, gap = await reader.positions(taken[-1], growing=True)
            assert gap is None
            taken.extend(found)
            return found

        assert await come() == []
        pair(folder, "2014/12/31/22/000001", ".nt")
        assert await reader.positions(taken[-1]) == ([], None), "it is there and is not named yet"
        for word in WORDS:
            (folder / f"2014/12/31/22/000001.{word}.nt").unlink()
        point(folder, "2014/12/31/22/000001")
        assert await come() == [], "it is named before it is there"
        put(folder, "2014/12/31/22/000001.added.nt.gz")
        assert await come() == [], "half of it is there"
        assert await reader.positions(taken[-1]) == ([], None), "so it is for who does not follow"
        put(folder, "2014/12/31/22/000001.removed.nt.gz").write_bytes(b"\x1f\x8b")
        assert await reader.positions(taken[-1]) == ([], None), "it is being written"
        put(folder, "2014/12/31/22/000001.removed.nt.gz")
        assert await come() == ["2014/12/31/22/000001"]
        put(folder, "2014/12/31/22/000002.added.nt.gz")  # all of it: the next hour is named
        publish(folder, "2015/01/01/00/000000")
        publish(folder, "2015/01/01/00/000001")
        assert await come() == ["2014/12/31/22/000002", "2015/01/01/00/000000", "2015/01/01/00/000001"]
        point(folder, "2015/01/01/03/000000")
        assert await come() == []
        pair(folder, "2015/01/01/03/000000")
        assert await come() == ["2015/01/01/03/000000"]


@pytest.mark.parametrize("index", [True, False])
async def test_a_missing_changeset_is_reported_and_nothing_behind_it_is_read(index: bool, opened: Opened) -> None:
    folder = opened.folder
    for position in ("2014/10/02/21/000000", "2014/10/02/21/000001", "2014/10/02/21/000003", "2014/10/02/22/000000"):
        publish(folder, position)
    async with served(folder, index=index) as web, opened.reading(web) as reader:
        start = "2014/10/02"
        before = ["2014/10/02/21/000000", "2014/10/02/21/000001"]
        assert await reader.positions(start) == (before, "2014/10/02/21/000002")
        assert await reader.positions("2014/10/02/21/000001") == ([], "2014/10/02/21/000002")
        pair(folder, "2014/10/02/21/000002")
        assert (await reader.positions(start))[0][2:] == [
            "2014/10/02/21/000002", "2014/10/02/21/000003", "2014/10/02/22/000000",
        ]  # fmt: skip
        point(folder, "2014/10/02/22/000003")
        assert await reader.positions("2014/10/02/22/000000") == ([], "2014/10/02/22/000001"), "it says it is there"
        point(folder, "2014/10/02/23/000003")
        assert await reader.positions("2014/10/02/22/000000") == ([], "2014/10/02/23/000000")


@pytest.mark.parametrize("index", [True, False])
async def test_numbers_of_one_folder_have_no_gap(index: bool, opened: Opened) -> None:
    for number in (1, 2, 6):
        pair(opened.folder, f"{number:06}", ".nt")
    async with served(opened.folder, index=index) as web, opened.reading(web) as reader:
        assert await reader.positions() == (["000001", "000002"], "000003")
        assert await reader.positions("000002", growing=True) == ([], "000003")
        for number in (3, 4, 5):
            pair(opened.folder, f"{number:06}")
        assert await reader.positions("000002", growing=True) == (["000003", "000004", "000005", "000006"], None)
        assert await reader.positions("000006") == ([], None)
        put(opened.folder, "000007.removed.nt.gz")
        assert await reader.positions("000006", growing=True) == ([], None), "the other file may be on its way"
        assert await reader.positions("000006") == (["000007"], None)
        put(opened.folder, "000008.removed.nt.gz", "damag")
        assert await reader.positions("000006", growing=True) == (["000007"], None)


async def test_the_second_file_that_comes_while_the_first_is_read_is_not_lost(opened: Opened) -> None:
    put(opened.folder, "000001.removed.nt")
    async with served(opened.folder) as web, opened.reading(web) as reader:

        async def comes_now(request: object) -> None:
            put(opened.folder, "000001.added.nt")
            pair(opened.folder, "000002")

        async def index(request: object) -> None:
            web.faults["/000001.removed.nt"] = [comes_now]

        web.faults["/"] = [index]
        assert await reader.read(growing=True) == []
        found = await reader.read(growing=True)
        assert [position for position, _ in found] == ["000001", "000002"]
        assert all(changeset and changeset.added and changeset.removed for _, changeset in found)


async def test_a_number_that_comes_between_two_looks_is_no_gap(opened: Opened) -> None:
    pair(opened.folder, "000001")
    async with served(opened.folder, index=False) as web, opened.reading(web) as reader:
        looked = reader.downloads.exists

        async def exists(url: str) -> bool:
            found = await looked(url)
            if url.endswith("/000002.removed.nt"):  # the last of its names that are tried
                pair(opened.folder, "000002")
                pair(opened.folder, "000003")
            return found

        reader.downloads.exists = exists  # type: ignore[method-assign]
        assert await reader.positions("000001") == (["000002", "000003"], None)


@pytest.mark.parametrize("words", [WORDS, WORDS[:1]])
async def test_a_changeset_listed_but_absent_is_missing(words: tuple[str, ...], opened: Opened) -> None:
    for number in (1, 2, 3, 5):
        for word in words:
            put(opened.folder, f"{number:06}.{word}.nt")
    async with served(opened.folder) as web, opened.reading(web) as reader:

        async def stale(request: object) -> http.Response:
            for path in opened.folder.glob("000002*"):
                path.unlink()
            names = [f"00000{number}.{word}.nt" for number in (1, 2, 3) for word in words]
            links = "".join(f"<A class='x' HREF='/{name}'>it</A><a href='/other/000009.added.nt'>" for name in names)
            return http.Response(text=links, content_type="text/html")

        web.faults["/"] = [stale]
        assert await reader.positions() == (["000001"], "000002")
        assert web.asked["GET /000003.added.nt"] <= 1
        assert await reader.positions("000003") == ([], "000004")


async def test_a_published_changeset_that_goes_before_it_is_read_is_missing(opened: Opened) -> None:
    for number in (1, 2, 3):
        publish(opened.folder, f"2014/10/02/21/{number:06}")
    async with served(opened.folder) as web, opened.reading(web) as reader:

        async def goes(request: object) -> None:
            for path in opened.folder.rglob("000002.*"):
                path.unlink()

        web.faults["/2014/10/02/21/000001.added.nt.gz"] = [goes]
        assert await reader.positions() == (["2014/10/02/21/000001"], "2014/10/02/21/000002")


async def test_folders_without_an_index_below_one_are_refused(opened: Opened) -> None:
    pair(opened.folder, "2014/10/02/21/000000")
    async with served(opened.folder) as web, opened.reading(web) as reader:

        async def forbidden(request: object) -> http.Response:
            return http.Response(status=403)

        web.faults["/2014/10/"] = [forbidden]
        with pytest.raises(DataRefused, match=f"^{web.url}2014/10/: it has no index page, but its parent folder has"):
            await reader.read()
        pair(opened.folder, "1/2/3/4/5/6/7/8/9/000001")
        with pytest.raises(DataRefused, match="folders within folders, deeper than 8"):
            await reader.read()


async def test_an_unknown_position_is_refused(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    pair(opened.folder, "2014/10/02/21/000000")
    async with served(opened.folder, index=False) as web, opened.reading(web) as reader:
        with pytest.raises(DataRefused, match="index pages the end of an hour is unknown"):
            await reader.read("2014/10/02/21/000000")
        with pytest.raises(DataRefused, match=r"neither lastPublishedFile.txt nor an index page nor 000000 or 000001"):
            await reader.read()
        with pytest.raises(DataRefused, match="nor 000041 or one of the 4 behind it exists"):
            await reader.read("000041")
        point(opened.folder, "2014/10/02/21/000000")
        with pytest.raises(DataRefused, match="the first changeset is unknown: give the position"):
            await reader.read()
        with pytest.raises(DataRefused, match=r"000041 is not a position here: lastPublishedFile.txt names years"):
            await reader.read("000041")
        with pytest.raises(DataRefused, match="2014/13/01 is not an hour: month must be in"):
            await reader.read("2014/13/01")
        monkeypatch.setattr(changeset_server, "EMPTY_HOURS_MAX", 30)
        with pytest.raises(DataRefused, match="nothing in 31 hours up to 2014/08/02/06"):
            await reader.read("2014/08/01")


@pytest.mark.parametrize("text", ["", "2014-10-02", "2014-10-02-21-00000", "<html>soft</html>"])
async def test_the_last_published_position_is_read_again_while_it_is_written(text: str, opened: Opened) -> None:
    publish(opened.folder, "2014/10/02/21/000000")
    async with served(opened.folder) as web, opened.reading(web) as reader:

        async def half(request: object) -> None:
            put(opened.folder, "lastPublishedFile.txt", text)

        async def whole(request: object) -> None:
            point(opened.folder, "2014/10/02/21/000000")

        web.faults["/lastPublishedFile.txt"] = [half, whole]
        assert await reader.positions() == (["2014/10/02/21/000000"], None)
        assert reader.pauses == [0.5]
        put(opened.folder, "lastPublishedFile.txt", text)
        with pytest.raises(DataRefused, match=r"lastPublishedFile.txt: not YYYY-MM-DD-HH-NNNNNN but"):
            await reader.read()
        put(opened.folder, "lastPublishedFile.txt", "2014-13-02-21-000000")
        with pytest.raises(DataRefused, match="month must be in"):
            await reader.read()


async def test_a_server_without_changes_is_not_asked_for_the_same_again(opened: Opened) -> None:
    publish(opened.folder, "2014/10/02/21/000000")
    os.utime(opened.folder / "lastPublishedFile.txt", (1e9, 1e9))
    async with served(opened.folder) as web, opened.reading(web) as reader:
        await reader.read("2014/10/02/21/000000")
        await reader.read("2014/10/02/21/000000")
        assert web.answered[304] == 1
        publish(opened.folder, "2014/10/02/21/000001")
        assert await reader.positions("2014/10/02/21/000000") == (["2014/10/02/21/000001"], None)
        await reader.read("2014/10/02/21/000001")
        assert web.answered[304] == 1, "it is so new that it may change within the same second"


async def test_damage_is_reported_by_url_and_line(opened: Opened) -> None:
    put(opened.folder, "000001.added.nt.gz", "<urn:a> <urn:b> <urn:c> .\nno triple\n")
    async with served(opened.folder) as web, opened.reading(web) as reader:
        with pytest.raises(DataRefused, match=f"^{web.url}000001.added.nt.gz:2: "):
            await reader.read()
        put(opened.folder, "000001.added.nt")
        with pytest.raises(DataRefused, match="the same part of a changeset"):
            await reader.read()


@pytest.mark.parametrize("suffix", [".nt.gz", ".nt"])
@pytest.mark.parametrize("index", [True, False])
async def test_reinserted_triples_are_added_and_triples_to_clear_are_counted(
    index: bool, suffix: str, opened: Opened
) -> None:
    for position in ("000001", "000002"):
        pair(opened.folder, position, suffix)
    for word in ("reinserted", "clear"):
        put(opened.folder, f"000002.{word}{suffix}", f"<urn:{word}> <urn:p> <urn:o> .\n")
    async with served(opened.folder, index=index) as web, opened.reading(web) as reader:
        (_, first), (_, second) = await reader.read()
        assert first is not None
        assert second is not None
        assert first.not_applied is None
        assert ("<urn:reinserted>", "<urn:p>", "<urn:o>") in second.added
        assert second.not_applied == (f"{web.url}000002.clear{suffix}", 1)


async def test_a_changeset_with_triples_to_clear_only_is_no_gap_where_an_index_names_it(opened: Opened) -> None:
    for name in ("000001.added.nt", "000002.clear.nt", "000003.added.nt"):
        put(opened.folder, name)
    async with served(opened.folder) as web, opened.reading(web) as reader:
        assert await reader.positions() == (["000001", "000002", "000003"], None)
