"""Channels on a university: the benchmark's queries as channels, the last 1,000 descriptions published one by one."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import random
import time
from collections import defaultdict

import pytest
from reads import lubm

from p2prdf.channels import PAPER, Channels, Kind, KnowledgeBase
from p2prdf.rdf.ntriples import read_triples
from p2prdf.reasoning import Triple, owl_rl

LAST = 1000


def _graphs() -> list[list[Triple]]:
    """Return the descriptions in a random order that the expected answers are for."""
    text = lzma.decompress((lubm.DATA / "lubm1-seed0.nt.xz").read_bytes()).decode()
    groups = [group for group in text.split("\n\n") if group.strip()]
    random.Random(1).shuffle(groups)
    return [_read(group) for group in groups]


def _read(text: str) -> list[Triple]:
    batches = read_triples(io.BytesIO(text.encode() + b"\n"), publication_id="lubm", strict=True)
    return [triple for batch in batches for triple in zip(batch.s, batch.p, batch.o, strict=True)]


@pytest.mark.skipif(not lubm.DATA.exists(), reason=f"the shared university data is not at {lubm.DATA}")
def test_new_answers_of_the_benchmarks_channels_come_once_and_all_are_there_in_the_end() -> None:
    graphs = _graphs()
    knowledge = KnowledgeBase.of_ontology(lubm.ontology(), owl_rl(equality=False))
    for start in range(0, len(graphs) - LAST, 1000):
        knowledge.add(triple for graph in graphs[start : min(start + 1000, len(graphs) - LAST)] for triple in graph)
    channels = Channels(knowledge, time.perf_counter)
    for name, query in lubm.queries().items():
        channels.create(name, query, PAPER)
    told, early = defaultdict(list), 0
    for graph in graphs[-LAST:]:
        for each in (*channels.publish(graph), *channels.evaluate()):
            if each.first:
                told[each.channel].append("\t".join(each.binding))
                early += each.kind is Kind.TENTATIVE
    for each in channels.settle():
        if each.first:
            told[each.channel].append("\t".join(each.binding))
    expected = json.loads((lubm.DATA / "lubm1-seed0.sens.json").read_text())["queries"]
    digests = {name: _digest(told[name]) for name in expected}
    assert digests == {name: each["sha256"] for name, each in expected.items()}
    assert early >= 700, "students are foreseen"
    published = (4, 0, 6, 34, 719, 7790, 67, 7790, 208, 4, 224, 15, 1, 5916)
    holding = {each.name: each.bindings for each in channels.statistics()}
    assert tuple(holding[f"q{number}"] for number in range(1, 15)) == published
    answers = {name: _digest("\t".join(row) for row in channels.subscribe(name, "judge")) for name in expected}
    assert answers == lubm.published_answers()


def _digest(lines) -> str:
    return hashlib.sha256("".join(f"{line}\n" for line in sorted(lines)).encode()).hexdigest()
