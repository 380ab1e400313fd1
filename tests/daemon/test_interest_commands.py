"""``p2prdf interest`` and ``p2prdf serve interests`` through real nodes: effects, output and refusals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
from commands import SECONDS, command, fetched
from sparql_endpoint import EndpointProcess

from p2prdf.replica.worker_metrics import METRICS

INTEREST = "SELECT * { ?a <urn:type> <urn:A> ; <urn:goals> ?g }"
ONE = '<urn:x> <urn:type> <urn:A> .\n<urn:x> <urn:goals> "1" .\n<urn:y> <urn:goals> "2" .\n'


def run(*words):
    """Run a command; return its exit code, its output (parsed where it is JSON) and its error output."""
    code, out, err = command(*words)
    lines = [json.loads(line) for line in out.splitlines()] if "--json" in words and code in (0, 1) else out
    return code, lines, err


@pytest.fixture
def endpoint(tmp_path):
    found = EndpointProcess(tmp_path / "endpoint").start("--auth", "Bearer abc")
    yield found
    found.kill()


def test_an_interests_life_by_commands(keeping_all, endpoint, tmp_path):
    peer = ("--peer", keeping_all[0].address)
    (tmp_path / "interest.rq").write_text(INTEREST)
    (tmp_path / "start.nt").write_text(ONE)
    (tmp_path / "changes").mkdir()
    (tmp_path / "auth").write_text("127.0.0.1 bearer abc\n")
    (tmp_path / "auth").chmod(0o600)
    dataset, place = "urn:by-commands", ("--target", f"{endpoint.url}/update", "--graph", "urn:g:x")

    def published():
        words = ("changesets", "publish", tmp_path / "changes", "--dataset", dataset, "--start", tmp_path / "start.nt")
        assert (run(*words, *peer))[0] == 0

    def state(name, wanted, position=None):
        """Ask until an interest is in a state, and at a position; return the exit code and the state."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            code, (found,), _ = run("interest", "status", name, *peer, "--json")
            if found["state"] == wanted and position in (None, found.get("position")):
                return code, found
        raise AssertionError(found)

    add = ("interest", "add", "--dataset", dataset, "-f", tmp_path / "interest.rq", *peer)
    published()
    assert (run(*add, "--name", "x", *place, "--json"))[:2] == (0, [{"name": "x"}])
    code, _, err = run(*add, "--name", "y", *place)
    assert (code, "this is the target of the interest x" in err) == (4, True)
    assert (run(*add, "--target", "http://far.example/update", "--name", "far"))[0] == 0
    reported = run("interest", "status", "x", *peer)
    assert reported[:2] == (1, "x\tunassigned\t\t\t\tno interest worker answers for it\n")
    worker = subprocess.Popen(
        [sys.executable, "-m", "p2prdf_cli", "serve", "interests", *peer, "--allow-host", f"127.0.0.1:{endpoint.port}",
         "--allow-private", "--auth-file", str(tmp_path / "auth"), "--metrics", "127.0.0.1:0"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        metrics = worker.stdout.readline().split()[1]
        code, found = state("x", "current")
        assert (code, found["position"], found["target_triples"], found["potential_triples"]) == (0, "start", 2, 1)
        (tmp_path / "changes/000001.added.nt").write_text("<urn:y> <urn:type> <urn:A> .\n")
        (tmp_path / "changes/000001.removed.nt").write_text("")
        published()
        state("x", "current", "000001")
        assert run("interest", "verify", "x", *peer) == (
            0, "the target is correct: 4 triples, 4 expected\n", "",
        )  # fmt: skip
        assert run("interest", "repair", "x", *peer) == (0, "0 triples inserted, 0 deleted\n", "")
        told = fetched(metrics)
        assert fetched(metrics.replace("/metrics", "/healthz")) == "ok\n"
        assert fetched(metrics.replace("/metrics", "/readyz")) == "ready\n"
        assert 'p2prdf_interest_state{interest="x",state="current"} 1\n' in told
        assert 'p2prdf_interest_target_triples{interest="x"} 4\n' in told
        assert 'p2prdf_dataset_changesets_total{dataset="urn:by-commands"} ' in told
        assert "abc" not in told, "no credentials"
        assert all(f"# TYPE {each.name} {each.kind}\n" in told for each in METRICS)
        code, found = state("far", "refused")
        assert (code, "far.example" in found["error"]) == (1, True)
        assert (run("interest", "verify", "far", *peer))[0] == 1
        assert (run("interest", "pause", "x", *peer))[:2] == (0, "x is paused\n")
        assert (state("x", "paused"))[0] == 0
        _, listed, _ = run("interest", "list", *peer, "--json")
        assert [(each["name"], each["paused"]) for each in listed] == [("far", False), ("x", True)]
        assert listed[1]["graph"] == "urn:g:x"
        assert (run("interest", "resume", "x", *peer))[:2] == (0, "x is resumed\n")
        state("x", "current")
        for name in ("x", "far"):
            assert (run("interest", "remove", name, *peer))[:2] == (0, "1 removed\n")
        assert (run("interest", "remove", "x", *peer))[:2] == (0, "0 removed\n")
        code, _, err = run("interest", "pause", "x", *peer)
        assert (code, "there is no interest x" in err) == (4, True)
        assert (run("interest", "list", *peer))[:2] == (0, "")
    finally:
        worker.send_signal(signal.SIGTERM)
        said, _ = worker.communicate()
    assert worker.returncode == 143
    events = [line.split()[0] for line in said.splitlines()]
    assert events == ["ready", "took", "left"]
    assert "abc" not in said


def test_the_transactions_of_an_rdf_patch_are_published_each_once(keeping_all, tmp_path):
    peer = ("--peer", keeping_all[0].address)
    start, patch = tmp_path / "start.nt", tmp_path / "log.rdfp"
    start.write_text('<urn:x> <urn:goals> "1" .\n')
    patch.write_text('TX .\nD <urn:x> <urn:goals> "1" .\nA <urn:x> <urn:goals> "2" .\nTC .\n')
    words = ("changesets", "publish", patch, "--dataset", "urn:patched", "--start", start, *peer, "--json")
    assert (run(*words))[:2] == (0, [{"position": "000000001", "removed": 1, "added": 1}])
    with patch.open("a") as more:
        more.write('TX .\nA <urn:x> <urn:goals> "3" .\nTC .\n')
    assert (run(*words))[:2] == (0, [{"position": "000000002", "removed": 0, "added": 1}])
    assert (run(*words))[:2] == (0, [])
    code, found, _ = run("query", "SELECT ?g { GRAPH <urn:patched> { ?x <urn:goals> ?g } } ORDER BY ?g", *peer)
    assert (code, [line for line in found.splitlines() if '"' in line]) == (0, ['"2"', '"3"'])
    with patch.open("a") as more:
        more.write("A <urn:x> nonsense .\n")
    code, _, err = run(*words)
    assert (code, f"{patch}" in err) == (4, True)


def test_wrong_arguments_are_refused_with_the_reason(keeping_all, tmp_path):
    peer = ("--peer", keeping_all[0].address)
    (tmp_path / "interest.rq").write_text("SELECT * { ?a <urn:p> ?b } LIMIT 3")
    add = ("interest", "add", "--dataset", "urn:d", "-f", tmp_path / "interest.rq", *peer, "--target")
    code, _, err = run(*add, "http://h/update")
    assert (code, "ORDER BY, LIMIT or OFFSET" in err) == (4, True)
    (tmp_path / "interest.rq").write_text(INTEREST)
    code, _, err = run(*add, "http://me:secret@h/update")
    assert (code, "credentials do not belong" in err, "secret" in err) == (4, True, False)
    code, _, err = run(*add, "http://h/update", "--name", "not good")
    assert (code, "is no name" in err) == (4, True)
    (tmp_path / "auth").write_text("h bearer abc\n")
    (tmp_path / "auth").chmod(0o644)
    code, _, err = run("serve", "interests", *peer, "--allow-host", "h", "--auth-file", tmp_path / "auth")
    assert (code, "others may read" in err) == (4, True)
    for words, reason in (
        (("--metrics", "nowhere"), "--metrics"), (("--potential-max", "many"), "ends in no number"),
        (("--potential-max", "1", "--potential-max", "2"), "a bound for that already"),
    ):  # fmt: skip
        code, _, err = run("serve", "interests", *peer, "--allow-host", "h", *words)
        assert (code, reason in err) == (4, True), err
    code, _, err = run("serve", "interests", *peer, "--allow-host", "h/x")
    assert (code, "not a host" in err) == (4, True)
