"""A stream of answers into files, by a driver that is killed between the offset of a batch and its commit."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from pathlib import Path

import pyoxigraph as ox

from spark_check.following import expected
from spark_check.processes import Driver, DriverFailed, until

__all__ = ["Reading"]

START_SECONDS = 240.0


class Reading:
    """One query's answers, as Spark writes them to JSON files."""

    def __init__(self, store: ox.Store, queries: list[str], peers: str, folder: Path):
        """The query with the most answers is read."""
        self._store, self._folder = store, folder
        self.query = max(queries, key=lambda query: expected(store, query).total())
        self._arguments = (
            "read", "--query", self.query, "--master", "local[1]", "--peers", peers,
            "--checkpoint", str(folder / "checkpoint"), "--output", str(folder / "rows"),
        )  # fmt: skip
        self._driver: Driver | None = None
        self.kills = 0

    async def start(self) -> None:
        """Start, and wait until all computed batches are committed, the first one at least: it is subscribed then."""
        self._folder.mkdir(exist_ok=True)
        self._driver = await Driver.start(f"reader{self.kills}", self._folder, *self._arguments)

        async def committed() -> bool:
            commits = self._numbers("commits")
            return not self._driver.running or (bool(commits) and self._numbers("offsets") <= commits)

        await until(committed, START_SECONDS, "the first batch of the reader")
        if not self._driver.running:
            raise DriverFailed(f"the reader has ended: {self._driver.tail()}")

    async def kill(self) -> None:
        """SIGKILL while a batch is computed, or when 20 s have shown none."""
        assert self._driver is not None

        async def under_way() -> bool:
            return not self._driver.running or bool(self._numbers("offsets") - self._numbers("commits"))

        with contextlib.suppress(DriverFailed):
            await until(under_way, 20, "a batch of the reader")
        self._driver.kill()
        self.kills += 1

    async def finish(self) -> None:
        """Read the remaining rows, and end."""
        if self._driver is not None and self._driver.running:
            self._driver.kill()
        last = await Driver.start("reader-last", self._folder, *self._arguments, "--once")
        await last.done(START_SECONDS)

    def _numbers(self, kind: str) -> set[str]:
        folder = self._folder / "checkpoint" / kind
        return {file.name for file in folder.glob("[0-9]*")} if folder.is_dir() else set()

    def wrong(self) -> str:
        """Describe the errors of the written rows, "" if there are none."""
        wanted, got = expected(self._store, self.query), self._rows()
        missing, extra = (wanted - got).total(), (got - wanted).total()
        print(
            f"a stream of answers, its driver killed {self.kills} times while a batch was computed: {got.total():,} "
            f"rows in {len(self._numbers('commits'))} batches, {missing} missing, {extra} too many"
        )
        return f"reading {self.query}: {missing} missing, {extra} too many" if missing or extra else ""

    def _rows(self) -> Counter[tuple[str | None, ...]]:
        """Return the rows of the files that Spark's log lists."""
        names = [each.value for each in self._store.query(self.query).variables]
        files: set[str] = set()
        for log in (self._folder / "rows/_spark_metadata").glob("[0-9]*"):
            entries = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
            files |= {Path(entry["path"]).name for entry in entries}
        rows: Counter[tuple[str | None, ...]] = Counter()
        for name in files:
            for line in (self._folder / "rows" / name).read_text().splitlines():
                row = json.loads(line)
                rows[tuple(row.get(each) for each in names)] += 1
        return rows
