"""The commands of README, tutorial and how-to guides, typed into terminals, print the output that the page shows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("pty")  # no pseudo-terminals, no terminals to type into

from documents import Session, parse, run

import p2prdf

ROOT = Path(__file__).parents[2]
WITH_CONSOLE = [
    path for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    if any(block.language == "console" for block in parse(path.read_text("utf-8")))
]  # fmt: skip


@pytest.mark.parametrize("path", WITH_CONSOLE, ids=lambda path: path.name)
def test_commands_of_a_document_print_the_output_it_shows(path, tmp_path):
    with Session(tmp_path) as session:
        run(path.read_text("utf-8"), session)
        assert session.typed >= 2


def test_readme_has_runnable_commands_and_at_most_600_words():
    assert ROOT / "README.md" in WITH_CONSOLE
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 600


@pytest.mark.parametrize("path", WITH_CONSOLE, ids=lambda path: path.name)
def test_examples_that_documents_show_are_files_of_the_repository(path):
    for block in parse(path.read_text("utf-8")):
        name = block.options.get("file", "")
        if name.startswith("docs/"):
            assert (ROOT / name).read_text("utf-8") == block.text, f"{path.name}:{block.line} differs from {name}"


def test_spark_example_of_readme_publishes(overlay, spark):
    (example,) = [
        block.text for block in parse((ROOT / "README.md").read_text("utf-8"))
        if block.options.get("file", "").endswith("from_spark.py")
    ]  # fmt: skip
    example = re.sub(r"127\.0\.0\.1:74\d\d", overlay[0].address, example)
    exec(compile(example, "from_spark.py", "exec"), {})


class Topic:
    """Stands for a consumer of Kafka: messages that come again as long as they are not committed."""

    def __init__(self, *values):
        self.messages = [SimpleNamespace(value=json.dumps(value).encode()) for value in values]
        self.commits = 0
        self.done = asyncio.Event()

    async def getmany(self, timeout_ms, max_records):
        if self.commits == 2:
            self.done.set()
            await asyncio.Event().wait()
        return {"partition 0": self.messages}

    async def commit(self):
        self.commits += 1


async def test_kafka_example_publishes_a_repeated_message_once(overlay):
    example = {}
    exec((ROOT / "docs/examples/from_kafka.py").read_text("utf-8"), example)
    topic = Topic(["<urn:kafka:a>", "<urn:kafka:p>", '"1"'], ["<urn:kafka:b>", "<urn:kafka:p>", '"2"'])
    async with p2prdf.connect(overlay[1].address) as client:
        subscription = await client.subscribe("SELECT ?s { ?s <urn:kafka:p> ?o }", per_event=True, bookmarks=True)
        forwarding = asyncio.create_task(example["forward"](topic, client))
        await topic.done.wait()
        told, now = [], time.time()
        async for batch in subscription.batches():
            told += batch.columns[0]
            if batch.bookmark is not None and batch.bookmark > now:
                break
        forwarding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await forwarding
    assert sorted(told) == ["<urn:kafka:a>", "<urn:kafka:b>"]
