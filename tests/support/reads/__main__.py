"""``python -m reads``: the command behind ``make reads``."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections import Counter

import real_data
from chaos.cluster import Cluster
from w3c import CASES

import p2prdf
from p2prdf.reasoning import instantiate, owl_rl
from reads import lubm
from reads.cases import answered_cases, ask_once, play
from reads.peers import Peers

OVERLAYS = ("kademlia", "chord")
INFERRED = "<urn:inferred>"


def main() -> int:
    """Ask everything in both overlays; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser("reads", description="One-time and standing queries through seven peers.")
    parser.add_argument("--universities", type=int, choices=(1, 10), default=10)
    parser.add_argument("--nodes", action="store_true", help="universities alone, through five processes instead")
    options = parser.parse_args()
    universities = options.universities
    if not (CASES.exists() and lubm.DATA.exists()):
        print(f"the shared data is not at {CASES.parents[1]}")
        return 1
    if options.nodes:
        wrong = asyncio.run(_through_nodes(universities))
    else:
        wrong = [each for overlay in OVERLAYS for each in (*_cases(overlay), *_universities(overlay, universities))]
    for each in wrong:
        print(each)
    return 1 if wrong else 0


def _cases(overlay: str) -> list[str]:
    start, wrong, peers = time.process_time(), [], Peers(overlay)
    cases = answered_cases()
    for case in cases:
        wrong += ask_once(peers, case)
        wrong += play(peers, case)
    print(
        f"{overlay}: {len(cases)} W3C cases asked once as SELECT, ASK and CONSTRUCT, and left as standing "
        f"queries; wrong {len(wrong)}; "
        f"CPU seconds {time.process_time() - start:.0f}"
    )
    return wrong


def _asked() -> list[str]:
    texts = list(lubm.queries().values())
    return [*texts, *lubm.MORE, *map(lubm.by_path, texts)]


async def _through_nodes(universities: int) -> list[str]:
    """Publish at five nodes with three copies of everything on their disks, and ask each of them in turn."""
    triples, queries = [*lubm.data(universities), *lubm.ontology()], _asked()
    cluster = Cluster(5, {"drain_seconds": 1})  # all go at once: no node remains for a handoff
    await cluster.start()
    clients = [await p2prdf.connect(node.address) for node in cluster.nodes]
    try:
        begun = time.monotonic()
        await asyncio.gather(*(client.publish(triples[at::5]) for at, client in enumerate(clients)))
        published = time.monotonic()
        answers = [
            Counter((await clients[at % 5].query(text, timeout_seconds=600)).rows) for at, text in enumerate(queries)
        ]
        asked = time.monotonic()
        wrong = await _with_inference(clients, universities)
    finally:
        for client in clients:
            await client.close()
        failures = await cluster.stop()
    solutions, unequal = lubm.judge(answers, real_data.store_of(triples), queries)
    print(
        f"five nodes: {len(triples):,} triples of LUBM({universities}) published in {published - begun:.1f} s, "
        f"{len(queries)} queries answered one after the other in {asked - published:.1f} s, {solutions:,} solutions; "
        f"wrong {len(unequal)}"
    )
    return unequal + wrong + failures


async def _with_inference(clients: list[p2prdf.Client], universities: int) -> list[str]:
    """Have a client derive the ontology's consequences, and run the benchmark's queries over data and consequences."""
    ontology, begun = lubm.ontology(), time.monotonic()
    instances = instantiate(owl_rl(equality=False), ontology)
    blank = {term for triple in ontology for term in triple if term.startswith("<urn:bnode:")}
    steps = clients[0].derive_by_rules(instances.rules, INFERRED, facts=instances.facts, unsaid=blank)
    async with contextlib.aclosing(steps):
        first = await anext(steps)
    derived = time.monotonic()
    expected, wrong, solutions = lubm.published_answers(universities), [], 0
    for at, (name, text) in enumerate(lubm.queries().items()):
        found = await clients[at % 5].query(lubm.with_inferred(text, INFERRED), timeout_seconds=600)
        solutions += len(found.rows)
        if lubm.digest(set(found.rows)) != expected[name]:
            wrong.append(f"{name} with inference: {len(found.rows)} solutions, not those published")
    print(
        f"by univ-bench in OWL 2 RL {first.added:,} further triples, derived and published in {derived - begun:.1f} s; "
        f"the benchmark's {len(expected)} queries with them in {time.monotonic() - derived:.1f} s, {solutions:,} "
        f"solutions; other than the published ones {len(wrong)}"
    )
    return wrong


def _universities(overlay: str, universities: int) -> list[str]:
    start = time.process_time()
    triples = [*lubm.data(universities), *lubm.ontology()]
    store = real_data.store_of(triples)
    peers = Peers(overlay, tables="arrays")
    peers.publish(triples)
    queries = _asked()
    solutions, wrong = lubm.compare(peers, store, queries)
    print(
        f"{overlay}: {len(queries)} queries to {len(triples):,} triples of LUBM({universities}), {solutions:,} "
        f"solutions; wrong {len(wrong)}; CPU seconds {time.process_time() - start:.0f}"
    )
    return wrong


if __name__ == "__main__":
    sys.exit(main())
