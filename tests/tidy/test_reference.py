"""Pages of docs/reference that are made from the code are current."""

from __future__ import annotations

from pathlib import Path

import pytest
from reference_pages import FOLDER, PAGES, metrics_page

from p2prdf.gateway import metrics


@pytest.mark.parametrize("name", PAGES)
def test_page_is_current(name: str) -> None:
    assert (FOLDER / name).read_text("utf-8") == PAGES[name](), f"docs/reference/{name} is not current: run make docs"


def test_metrics_page_has_those_of_the_gateway_itself() -> None:
    source = Path(metrics.__file__).read_text("utf-8")
    own = {word for word in source.split('"') if word.startswith("p2prdf_gateway_") and " " not in word}
    assert own
    assert [name for name in own if f"`{name}`" not in metrics_page()] == []
