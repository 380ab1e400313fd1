"""Index pages: links to changesets and folders of the folder itself, and pages that are no index."""

from __future__ import annotations

import pytest

from p2prdf.errors import DataRefused
from p2prdf.replica.server_index import Listing, read_index

URL = "http://h:8080/changes/2014/"


def test_only_links_into_the_folder_itself_count() -> None:
    links = (
        "../", "?C=M;O=A", "000001.added.nt.gz", "/changes/2014/000002.removed.nt", "http://H:8080/changes/2014/03/",
        "./04/", "%30%35/", "06&#47;", "http://other/changes/2014/07/", "/changes/2015/08/", "/08/",
        "09/000001.added.nt", "000010.added.nt?x=1", "000011.other.nt", "http://[", "12", "/xhanges/2014/11/",
    )  # fmt: skip
    page = "".join(f"<li><a class=x href='{link}'>a name</a>\n" for link in links)
    found = read_index(page.encode(), URL)
    assert found == Listing({3: "03", 4: "04", 5: "05", 6: "06"}, {1: "000001", 2: "000002"})


@pytest.mark.parametrize("title", ["Index of /changes", "Directory listing for /changes/", " index of x"])
def test_an_index_may_name_nothing(title: str) -> None:
    page = f"<html><title>{title}</title><a href='readme.html'>x</a></html>".encode()
    assert read_index(page, URL) == Listing({}, {})


def test_other_pages_are_no_index() -> None:
    for page in ("", "<title>Welcome</title><a href='news/'>x</a>", "<title>The Index of all</title>", "000001"):
        assert read_index(page.encode(), URL) is None


@pytest.mark.parametrize(
    "names",
    [("000001.added.nt", "000001.added.nt.gz"), ("000001.added.nt", "1.removed.nt"), ("1/", "01/")],
)
def test_a_file_listed_twice_is_refused(names: tuple[str, str]) -> None:
    page = "".join(f'<a href="{name}">' for name in names)
    with pytest.raises(DataRefused, match=f"^{URL}: .* are the same"):
        read_index(page.encode(), URL)
