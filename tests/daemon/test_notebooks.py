"""The notebooks of docs/, with a real node: each cell prints the output that is stored in the notebook."""

from __future__ import annotations

from pathlib import Path

import pytest
from notebooks import code_cells, run

pytest.importorskip("pandas", reason="pandas is not installed (extra arrow)")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra arrow)")

ROOT = Path(__file__).parents[2]


def _text(outputs):
    """Return the text of outputs, without white space at line ends."""
    pieces = [each.get("text") or each["data"]["text/plain"] for each in outputs]
    return [line.rstrip() for piece in pieces for line in "".join(piece).splitlines()]


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/**/*.ipynb")), ids=lambda path: path.name)
def test_cells_of_a_notebook_print_the_stored_outputs(path, launcher, monkeypatch):
    node = launcher.start(replicas=1, copies_min=1)
    monkeypatch.setenv("P2PRDF_PEER", node.address)
    monkeypatch.setenv("COLUMNS", "100")
    _, cells = code_cells(path)
    assert cells
    for cell, outputs in zip(cells, run(cells), strict=True):
        assert _text(outputs) == _text(cell["outputs"]), "".join(cell["source"])
