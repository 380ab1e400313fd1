"""One trace identifier follows a triple: by it the logs of real nodes show the whole path."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
from collections import Counter

from commands import command
from gateways import gateway

import p2prdf
from p2prdf_cli.trace_tree import new_traceparent

SECONDS = 60.0
_names = itertools.count()


def _query(ns):
    return f"SELECT * {{ ?x <{ns}p> ?y . ?y <{ns}q> ?z }}"


def _spans(nodes, trace):
    """Return the lines of a trace in the logs of nodes."""
    found = []
    for node in nodes:
        lines = [line for line in node.text().splitlines() if trace in line and line.endswith("}")]
        found += [json.loads(line) for line in lines]
    return found


async def _told(until, nodes, trace, **counts):
    """Wait until the logs have a number of spans of some names; return those of the trace."""

    async def there():
        spans = _spans(nodes, trace)
        found = Counter(span["name"] for span in spans)
        return spans if all(found[name] >= count for name, count in counts.items()) else None

    return await until(there, seconds=SECONDS)


async def test_the_logs_of_all_nodes_hold_the_trace_of_a_publication(keeping_all, until):
    ns, unrecorded, traced = f"urn:traced{next(_names)}:", new_traceparent(), new_traceparent()
    trace = traced.split("-")[1]
    async with p2prdf.connect(keeping_all[0].address) as publisher, p2prdf.connect(keeping_all[4].address) as reader:
        subscription = await reader.subscribe(_query(ns), auto_acknowledge=False)
        await publisher.publish([(f"<{ns}y>", f"<{ns}q>", '"z"')], trace=unrecorded[:-2] + "00")
        await publisher.publish([(f"<{ns}x>", f"<{ns}p>", f"<{ns}y>")], trace=traced)
        async with asyncio.timeout(SECONDS):
            await anext(subscription)
        subscription.acknowledge()
        spans = await _told(until, keeping_all, trace, publish=1, answer=3, deliver=1, acknowledge=1)
        await subscription.unsubscribe()
    names = [span["name"] for span in spans]
    assert {"take", "index", "send", "acknowledge"} <= set(names)

    def nodes(name):
        return {span["node"] for span in spans if span["name"] == name}

    assert len(nodes("answer")) == 3  # each replica of the coordinator; a busy one may be sent an answer again
    assert (nodes("publish"), nodes("deliver")) == ({keeping_all[0].key}, {keeping_all[4].key})
    assert all(span["level"] == "info" and span["ms"] >= 0 for span in spans)
    assert not _spans(keeping_all, unrecorded.split("-")[1])

    logs = [node.log for node in keeping_all]
    code, out, _ = await asyncio.to_thread(command, "trace", *logs, "--trace", trace)
    first, *lines = out.splitlines()
    assert code == 0
    assert first.startswith(f"trace {trace}: {len(lines)} spans at {len({span['node'] for span in spans})} nodes, ")
    assert " publish " in lines[0]
    assert not [line for line in lines if "not in these logs" in line]
    code, out, _ = await asyncio.to_thread(command, "trace", *logs, "--trace", trace, "--json")
    tree = [json.loads(line) for line in out.splitlines()]
    way, depth = [], tree[-1]["depth"] + 1
    at = next(at for at, span in enumerate(tree) if span["name"] == "deliver")
    for span in reversed(tree[: at + 1]):
        if span is tree[at] or span["depth"] == depth - 1:
            way, depth = [span["name"], *way], span["depth"]
    way = [name for name in way if name not in ("send", "join")]  # joined, unless the pattern is the last of the plan
    assert way == ["publish", "index", "answer", "deliver"]


async def test_a_publication_over_http_belongs_to_the_trace_of_its_request(keeping_all, until):
    ns, traced = f"urn:traced{next(_names)}:", new_traceparent()
    _, trace, parent, _ = traced.split("-")
    headers = {"Content-Type": "application/n-triples"}
    async with gateway(keeping_all[1].address) as (session, _):
        for given in ("no traceparent", traced):
            async with session.post(
                "/publish", data=f"<{ns}x> <{ns}p> <{ns}y> .", headers={**headers, "traceparent": given}
            ) as answer:
                assert answer.status == 200
    spans = await _told(until, keeping_all, trace, publish=1)
    assert {span["parent"] for span in spans if span["name"] == "publish"} == {parent}


def test_the_command_traces_its_publications(keeping_all, tmp_path, until):
    file = tmp_path / "one.nt"
    file.write_text(f"<urn:traced{next(_names)}> <urn:traced:p> <urn:o> .\n")
    words = ("publish", file, "--peer", keeping_all[2].address, "--state", tmp_path / "state")
    code, _, said = command(*words, "--trace", "new")
    assert code == 0
    (trace,) = (line.split()[-1] for line in said.splitlines() if line.startswith("p2prdf: trace "))
    assert [span["name"] for span in asyncio.run(_told(until, keeping_all, trace, publish=1))].count("take") >= 1
    file.write_text(f"<urn:traced{next(_names)}> <urn:traced:p> <urn:o> .\n")
    code, _, said = command(*words, "--trace", "0815")
    assert (code, "traceparent '0815'" in said) == (4, True)
    code, _, said = command("trace", file)
    assert (code, "no trace in" in said) == (4, True)
    code, _, said = command("trace", file, "--trace", secrets.token_hex(15))
    assert code == 2
