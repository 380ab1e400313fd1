"""Run the code cells of a notebook: ``python -m notebooks docs/examples/weather.ipynb`` stores their outputs in it.

The cells share one namespace, in a thread with a running event loop, as in Jupyter.  An output is the printed text
and the last expression of a cell.  ``P2PRDF_PEER`` names the node, as on the command line.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["Cell", "code_cells", "run"]

Cell = dict[str, Any]


def code_cells(path: Path) -> tuple[Cell, list[Cell]]:
    """Return a notebook and its code cells, which are parts of it."""
    notebook: Cell = json.loads(path.read_text("utf-8"))
    return notebook, [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(cells: list[Cell]) -> Iterator[list[Cell]]:
    """Run cells in order; yield the outputs of each."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells, 1):
        yield asyncio.run(_outputs("".join(cell["source"]), number, namespace))


async def _outputs(source: str, number: int, namespace: dict[str, Any]) -> list[Cell]:
    parsed = ast.parse(source, f"cell {number}")
    last = parsed.body.pop() if parsed.body and isinstance(parsed.body[-1], ast.Expr) else None
    value, printed = None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(parsed, f"cell {number}", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), namespace)
    found: list[Cell] = []
    if text := printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)})
    if value is not None:
        found.append({
            "data": {"text/plain": repr(value).splitlines(keepends=True)}, "execution_count": number, "metadata": {},
            "output_type": "execute_result",
        })  # fmt: skip
    return found


def main(paths: list[str]) -> None:
    """Run notebooks and store their outputs."""
    for path in map(Path, paths):
        notebook, cells = code_cells(path)
        for number, (cell, outputs) in enumerate(zip(cells, run(cells), strict=True), 1):
            cell["execution_count"], cell["outputs"] = number, outputs
        path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
