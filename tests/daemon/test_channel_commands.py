"""``p2prdf channel`` through real nodes: effects, output and refusals of the commands."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from commands import command, fetched

from p2prdf.channel_workers.worker_metrics import METRICS

PERSON = "<{}> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <urn:Person> .\n"


def run(*words):
    """Run a command; return its exit code, its output (parsed where it is JSON) and its error output."""
    code, out, err = command(*words)
    lines = [json.loads(line) for line in out.splitlines()] if "--json" in words and code in (0, 1) else out
    return code, lines, err


def test_a_channels_life_by_commands(keeping_all, tmp_path):
    peer = ("--peer", keeping_all[0].address)
    query, base = tmp_path / "people.rq", ("--base", "urn:by-commands")
    query.write_text("SELECT ?x { ?x a <urn:Person> }")
    for name in ("ann", "bob"):
        (tmp_path / f"{name}.nt").write_text(PERSON.format(f"urn:{name}"))
    plain = ("--setting", "heuristics=[]")  # nothing is reported before its query runs
    add = ("channel", "add", "people", *base, "-f", query, *plain, *peer)
    assert run(*add, "--wait", 0, "--json")[:2] == (0, [{"name": "people", "begun": False}])
    code, listed, _ = run("channel", "list", *peer)
    assert (code, listed.split("\t")[:3]) == (0, ["people", "unassigned", "urn:by-commands\n"])
    assert run("channel", "status", *peer)[0] == 1
    publish = ("channel", "publish", *base, "--publisher", "me", *peer, "--json")
    code, (first,), _ = run(*publish, tmp_path / "ann.nt")
    assert (code, first["statements"]) == (0, 1)
    host = subprocess.Popen(
        [sys.executable, "-m", "p2prdf_cli", "serve", "channels", *peer, "--settle", "0.1", "--metrics", "127.0.0.1:0"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        metrics = host.stdout.readline().split()[1]
        assert run(*add, "--wait", 30)[:2] == (0, "channel people is evaluated\n")
        assert run(*publish, tmp_path / "ann.nt")[1][0]["graph"] == first["graph"]
        run(*publish, tmp_path / "bob.nt")
        subscribe = ("channel", "subscribe", "people", *peer)
        code, out, _ = run(*subscribe, "--count", 2)
        assert (code, sorted(out.splitlines())) == (
            0, ['"confirmed"\t<urn:bob>', '"initial"\t<urn:ann>', "?kind\t?x"],
        )  # fmt: skip
        # Under a name it goes on where it was.
        told = tmp_path / "told.tsv"
        mine = (*subscribe, "--name", "mine", "--state", tmp_path / "state", "--output", told, "--count")
        assert run(*mine, 2)[0] == 0
        (tmp_path / "eve.nt").write_text(PERSON.format("urn:eve"))
        run(*publish, tmp_path / "eve.nt")
        assert run(*mine, 1)[0] == 0
        assert sorted(told.read_text().splitlines()) == [
            '"confirmed"\t<urn:bob>', '"confirmed"\t<urn:eve>', '"initial"\t<urn:ann>', "?kind\t?x",
        ]  # fmt: skip
        assert run("channel", "delete", *base, "<urn:bob>", "?p", "?o", *peer)[0] == 0
        assert run(*mine, 1, "--withdrawn")[0] == 0
        assert told.read_text().splitlines()[-1] == '-\t"confirmed"\t<urn:bob>'
        code, (stats,), _ = run("channel", "status", "people", *peer, "--json")
        assert (code, stats["state"], stats["graphs"] <= 4) == (0, "evaluated", True)
        told = fetched(metrics)
        assert fetched(metrics.replace("/metrics", "/readyz")) == "ready\n"
        assert 'p2prdf_channel_state{channel="people",state="evaluated"} 1\n' in told
        assert 'p2prdf_knowledge_base_graphs{base="urn:by-commands"} 2\n' in told
        assert 'p2prdf_channel_bindings_delivered_total{channel="people"} ' in told
        assert all(f"# TYPE {each.name} {each.kind}\n" in told for each in METRICS)
        assert run("channel", "remove", "people", *peer)[:2] == (0, "1 dropped\n")
        assert run("channel", "remove", "people", *peer)[:2] == (0, "0 dropped\n")
    finally:
        host.send_signal(signal.SIGTERM)
        said, _ = host.communicate()
    assert host.returncode == 143
    assert [line.split()[0] for line in said.splitlines()] == ["ready", "took", "left"]


def test_wrong_arguments_are_refused_with_the_reason(keeping_all, tmp_path):
    peer, base = ("--peer", keeping_all[0].address), ("--base", "urn:wrong")
    query = tmp_path / "people.rq"
    query.write_text("SELECT ?x { ?x a <urn:Person> } LIMIT 3")
    add = ("channel", "add", "-f", query, *base, *peer)
    code, _, err = run(*add, "people")
    assert (code, "LIMIT" in err) == (4, True)
    query.write_text("SELECT ?x { ?x a <urn:Person> }")
    for setting, reason in (
        ("skip_max", "NAME=VALUE"), ("speed=1", "no setting 'speed'"), ("heuristics=[\"guess\"]", "guess"),
        ("skip_max=true", "skip_max"),
    ):  # fmt: skip
        code, _, err = run(*add, "people", "--setting", setting)
        assert (code, reason in err) == (4, True), err
    assert run("channel", "list", *peer)[:2] == (0, "")
    for words in (("subscribe", "people"), ("status", "people")):
        code, _, err = run("channel", *words, *peer)
        assert (code, "there is no channel people" in err) == (4, True)
    (tmp_path / "bad.nt").write_text("nonsense\n")
    code, _, err = run("channel", "publish", tmp_path / "bad.nt", *base, *peer)
    assert (code, "bad.nt" in err) == (4, True)
    code, _, err = run("channel", "delete", "a", "?p", "?o", *base, *peer)
    assert (code, "not an IRI or literal" in err) == (4, True)
    code, _, err = run("channel", "subscribe", "people", "--renew", *peer)
    assert (code, "--renew and --state go with --name" in err) == (2, True)
