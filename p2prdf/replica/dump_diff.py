"""The changeset between two dumps of a dataset, in bounded memory.

Each dump is read once, in any order and any supported format. Its triples are sorted in runs of
``run_triples``, stored as files in the caller's folder, and the runs of both dumps are merged. Memory holds one
run (about 400 bytes a triple); the folder needs about the size of both dumps as N-Triples. A repeated triple of
a dump counts once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Final

from p2prdf.replica.changeset_files import read_file

__all__ = ["RUNS_MAX", "RUN_TRIPLES", "diff_dumps", "sorted_lines"]

RUN_TRIPLES: Final = 500_000
RUNS_MAX: Final = 200
"""Bound on files merged at once: the usual limit of open files per process."""


def diff_dumps(
    old: Path, new: Path, scratch: Path, *, run_triples: int = RUN_TRIPLES, blank_scope: str | None = None
) -> Iterator[tuple[bool, str]]:
    """Yield differences as sorted N-Triples lines without line ends; True for lines of the new dump.

    ``scratch``: a folder for runs, which are deleted afterwards. Raises DataRefused with file and line.
    """
    before = sorted_lines(old, scratch / "old", run_triples=run_triples, blank_scope=blank_scope)
    after = sorted_lines(new, scratch / "new", run_triples=run_triples, blank_scope=blank_scope)
    both = heapq.merge(((line, False) for line in before), ((line, True) for line in after))
    for line, group in groupby(both, key=lambda each: each[0]):
        sides = [is_new for _, is_new in group]
        if len(sides) == 1:
            yield sides[0], line


def sorted_lines(
    dump: Path, scratch: Path, *, run_triples: int = RUN_TRIPLES, blank_scope: str | None = None
) -> Iterator[str]:
    """Yield a dump's triples as sorted lines without line ends, each once."""
    if run_triples < 1:
        raise ValueError("a run has at least one triple")
    scratch.mkdir(parents=True, exist_ok=True)
    runs: list[Path] = []
    lines: list[str] = []
    for s, p, o in read_file(dump, blank_scope=blank_scope, triples_max=None):
        lines.append(f"{s} {p} {o} .")
        if len(lines) >= run_triples:
            runs.append(_written(sorted(set(lines)), scratch / f"{len(runs)}.run"))
            lines = []
            if len(runs) >= RUNS_MAX:
                runs = [_merged(runs, scratch)]
    with ExitStack() as stack:
        streams = [_read(run, stack) for run in runs]
        for line, _ in groupby(heapq.merge(*streams, sorted(set(lines)))):
            yield line
    for run in runs:
        run.unlink()


def _merged(runs: list[Path], scratch: Path) -> Path:
    with ExitStack() as stack:
        whole = _written((line for line, _ in groupby(heapq.merge(*(_read(run, stack) for run in runs)))),
                         scratch / "merged.run")  # fmt: skip
    for run in runs:
        run.unlink()
    return whole.rename(scratch / "0.run")


def _written(lines: Iterator[str] | list[str], path: Path) -> Path:
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(line + "\n" for line in lines)
    return path


def _read(path: Path, stack: ExitStack) -> Iterator[str]:
    stream = stack.enter_context(path.open(encoding="utf-8", newline="\n"))
    return (line[:-1] for line in stream)
