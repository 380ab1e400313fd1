"""The commands against real node processes: a user's input at a terminal, and the output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from p2prdf_cli.app import app

TIMEOUT = 30
QUERY = "SELECT ?s ?o WHERE { ?s <urn:%s> ?m . ?m <urn:q> ?o }"


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    """Address of a node of its own overlay, with a second node beside it."""
    processes = []
    addresses: list[str] = []
    try:
        for _ in range(2):
            options = ["--bootstrap", addresses[0]] if addresses else []
            process = subprocess.Popen(
                [sys.executable, "-m", "p2prdf_cli", "node", "--listen", "127.0.0.1:0", *options],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=_environment(),
            )  # fmt: skip
            processes.append(process)
            assert process.stdout is not None
            ready, address, _key = process.stdout.readline().split()
            assert ready == "ready"
            addresses.append(address)
        yield addresses[0]
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(TIMEOUT) for process in processes]
        for process in processes:
            assert process.stdout is not None
            process.stdout.close()
    assert codes == [0, 0], "a node that is told to stop exits with 0"


def _environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("P2PRDF_")}
    return kept | {"COLUMNS": "200"} | more


def _command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "p2prdf_cli", *map(str, arguments)]


@dataclass(frozen=True)
class _Outcome:
    returncode: int
    stdout: str
    stderr: str


def _run(*arguments: str | Path, given: str | None = None, **more: str) -> _Outcome:
    """Run a command to its end: in this process, or, if it is given standard input, in one of its own."""
    if given is None:
        found = CliRunner().invoke(app, [*map(str, arguments)], env=_environment(**more), prog_name="p2prdf")
        return _Outcome(found.exit_code, found.stdout, found.stderr)
    process = subprocess.run(
        _command(*arguments), input=given, capture_output=True, text=True, timeout=TIMEOUT, check=False,
        env=_environment(**more),
    )  # fmt: skip
    return _Outcome(process.returncode, process.stdout, process.stderr)


def _publish(node: str, folder: Path, data: str) -> None:
    file = folder / f"{uuid.uuid4()}.nt"
    file.write_text(data)
    outcome = _run("publish", file, "--peer", node, "--state", folder / "state")
    assert outcome.returncode == 0, outcome.stderr


class _Subscriber:
    """A running ``p2prdf subscribe``; made when its query is live."""

    def __init__(self, *arguments: str):
        self.process = subprocess.Popen(
            _command("subscribe", *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=_environment(),
        )  # fmt: skip
        assert self.process.stderr is not None
        self.told = self.process.stderr.readline()
        assert self.told.startswith("p2prdf: subscription "), self.told + self.process.stderr.read()
        self.id = self.told.split()[2]

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self, number: signal.Signals | None = None) -> tuple[int, str, str]:
        """Return the exit code and the remaining output."""
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, out, err


def _triples(path: Path, name: str, count: int) -> Path:
    path.write_text(
        "".join(f"<urn:s{n}> <urn:{name}> <urn:m{n}> .\n<urn:m{n}> <urn:q> \"{n}\" .\n" for n in range(count))
    )
    return path


def test_a_publication_reaches_the_subscriber(node: str, tmp_path: Path) -> None:
    subscriber = _Subscriber(QUERY % "reach", "--peer", node, "--json", "--count", "3")
    file = _triples(tmp_path / "data.nt", "reach", 3)
    published = _run("publish", file, "--peer", node, "--state", tmp_path / "state", "--ack", "accepted", "--json")
    assert published.returncode == 0, published.stderr
    report = json.loads(published.stdout)
    assert (report["triples"], report["bad_lines"], report["resumed_after"]) == (6, 0, 0)
    code, out, err = subscriber.end()
    answers = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert [answer["sequence"] for answer in answers] == [1, 2, 3]
    assert sorted((a["bindings"]["s"]["value"], a["bindings"]["o"]["value"]) for a in answers) == [
        ("urn:s0", "0"), ("urn:s1", "1"), ("urn:s2", "2"),
    ]  # fmt: skip


def test_a_pipe_gets_tab_separated_values(node: str) -> None:
    subscriber = _Subscriber(QUERY % "tsv", "--peer", node, "--count", "1", "--algorithm", "cqc")
    assert subscriber.line() == "?s\t?o\n"
    data = '<urn:a> <urn:tsv> <urn:b> .\n<urn:b> <urn:q> "x\\ty"@en .\n'
    assert _run("publish", "-", "--peer", node, given=data).returncode == 0
    assert subscriber.end()[:2] == (0, '<urn:a>\t"x\\ty"@en\n')


def test_a_deletion_retracts_solutions(node: str, tmp_path: Path) -> None:
    """In JSON by a flag and under the same identity, in tab-separated values by a first cell that is no term."""
    query = "SELECT ?s ?o WHERE { ?s <urn:deleted> ?o }"
    as_json = _Subscriber(query, "--peer", node, "--json", "--count", "2")
    as_text = _Subscriber(query, "--peer", node, "--count", "2")
    file = tmp_path / "data.nt"
    file.write_text('<urn:a> <urn:deleted> "x" .\n')
    common = ("publish", file, "--peer", node, "--state", tmp_path / "state")
    assert _run(*common).returncode == 0
    deleted = _run(*common, "--delete", "--json")
    assert deleted.returncode == 0, deleted.stderr
    assert json.loads(deleted.stdout)["removed"] is True
    told, taken_back = (json.loads(line) for line in as_json.end()[1].splitlines())
    assert ("removed" in told, taken_back["removed"]) == (False, True)
    assert (told["identity"], told["bindings"]) == (taken_back["identity"], taken_back["bindings"])
    assert told["born"] <= taken_back["born"]
    assert as_text.end()[1] == '?s\t?o\n<urn:a>\t"x"\n-\t<urn:a>\t"x"\n'
    assert _run(*common, "--delete").stdout.startswith(f"{file}: 1 triples deleted in ")


def test_an_interrupted_publication_goes_on_and_nothing_counts_twice(node: str, tmp_path: Path) -> None:
    """A strict run stops at a bad line; the lenient run after it resumes. Seen by a query that counts events."""
    subscriber = _Subscriber("SELECT ?s WHERE { ?s <urn:resume> ?o }", "--peer", node, "--per-event", "--json")
    file = tmp_path / "data.nt"
    lines = [f"<urn:s{n}> <urn:resume> _:b{n % 7} .\n" for n in range(3000)]
    file.write_text("".join(lines[:2500]) + "nonsense\n" + "".join(lines[2500:]))
    common = ("publish", file, "--peer", node, "--state", tmp_path / "state.json", "--json")
    first = _run(*common, "--strict")
    assert first.returncode == 4
    assert first.stderr.startswith("p2prdf: error [data-refused]: ")
    assert f"{file}:2501: " in first.stderr
    second = _run(*common)
    assert second.returncode == 0, second.stderr
    assert "continuing after statement 2,500" in second.stderr
    assert f"{file}:2501: skipped" in second.stderr
    reports = [json.loads(run.stdout) for run in (first, second)]
    assert [(report["triples"], report["resumed_after"]) for report in reports] == [(2500, 0), (500, 2500)]
    subjects = [json.loads(subscriber.line())["bindings"]["s"]["value"] for _ in range(3000)]
    assert sorted(subjects) == sorted(f"urn:s{n}" for n in range(3000))
    third = _run(*common)
    assert json.loads(third.stdout)["resumed_after"] == 0, "a finished publication is forgotten"
    subscriber.end(signal.SIGINT)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ending_the_command_ends_the_subscription(node: str, number: signal.Signals, code: int) -> None:
    subscriber = _Subscriber("SELECT ?s WHERE { ?s <urn:never> ?o }", "--peer", node)
    assert subscriber.line() == "?s\n"
    assert subscriber.end(number) == (code, "", "")
    refused = _run("subscribe", "--attach", subscriber.id, "--peer", node)
    assert refused.returncode == 4
    assert refused.stderr.startswith("p2prdf: error [subscription-gone]: ")
    assert refused.stderr.count("\n") == 1


def test_a_kept_subscription_can_be_taken_up_and_ended(node: str, tmp_path: Path) -> None:
    first = _Subscriber("SELECT ?s WHERE { ?s <urn:keep> ?o }", "--peer", node, "--keep", "--count", "1", "--json")
    _publish(node, tmp_path, "<urn:a> <urn:keep> <urn:b> .\n")
    code, out, told = first.end()
    assert (code, len(out.splitlines())) == (0, 1)
    assert told == f"p2prdf: continue with: p2prdf subscribe --attach {first.id}\n"
    _publish(node, tmp_path, "<urn:c> <urn:keep> <urn:d> .\n")
    second = _Subscriber("--attach", first.id, "--peer", node, "--keep", "--count", "1", "--json")
    code, out, _ = second.end()
    answer = json.loads(out)
    assert (code, answer["sequence"]) == (0, 1), "what was acknowledged does not come again"
    assert [term["value"] for term in answer["bindings"].values()] == ["urn:c"]
    assert _run("unsubscribe", first.id, "--peer", node).returncode == 0
    assert _run("subscribe", "--attach", first.id, "--peer", node).returncode == 4
    assert _run("unsubscribe", first.id, "--peer", node).returncode == 0, "what has ended may be ended again"


def test_a_reader_that_goes_away_ends_the_command_quietly(node: str, tmp_path: Path) -> None:
    subscriber = _Subscriber("SELECT ?s WHERE { ?s <urn:pipe> ?o }", "--peer", node)
    assert subscriber.line() == "?s\n"
    assert subscriber.process.stdout is not None
    assert subscriber.process.stderr is not None
    subscriber.process.stdout.close()
    _publish(node, tmp_path, "<urn:a> <urn:pipe> <urn:b> .\n")
    assert subscriber.process.wait(TIMEOUT) == 141
    assert subscriber.process.stderr.read() == ""
    subscriber.process.stderr.close()


def test_prefixes_come_from_a_file(node: str, tmp_path: Path) -> None:
    (tmp_path / "p.ttl").write_text("@prefix u: <urn:> .\n")
    query = "SELECT ?s WHERE { ?s u:prefixed ?o }"
    subscriber = _Subscriber(query, "--peer", node, "--prefix-file", str(tmp_path / "p.ttl"), "--count", "1")
    _publish(node, tmp_path, "<urn:a> <urn:prefixed> <urn:b> .\n")
    assert subscriber.end()[:2] == (0, "?s\n<urn:a>\n")


def test_bookmarks_are_lines_among_the_answers(node: str, tmp_path: Path) -> None:
    subscriber = _Subscriber(QUERY % "marked", "--peer", node, "--json", "--bookmarks", "--count", "2")
    _publish(node, tmp_path, "<urn:a> <urn:marked> <urn:b> .\n<urn:b> <urn:q> <urn:c> .\n")
    lines, born = [json.loads(subscriber.line())], ""
    while not born or lines[-1].get("bookmark", "") < born:
        born = lines[-1].get("born", born)
        lines.append(json.loads(subscriber.line()))
    _publish(node, tmp_path, "<urn:a2> <urn:marked> <urn:b> .\n")
    code, rest, _ = subscriber.end()
    lines += [json.loads(line) for line in rest.splitlines()]
    assert code == 0
    marks = [line["bookmark"] for line in lines if "bookmark" in line]
    assert marks == sorted(marks)
    assert sum("bindings" in line for line in lines) == 2
    last = ""
    for line in lines:
        last = line.get("bookmark", last)
        assert "bindings" not in line or line["born"] > last


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("SELECT ?s WHERE { ?s <urn:p> ?o", "line 1"),
        ("SELECT ?s WHERE { SERVICE <urn:x> { ?s <urn:p> ?o } }", "SERVICE"),
        ("SELECT ?s WHERE { ?s <urn:p> '" + "x" * 300_000 + "' }", "bytes"),
    ],
)
def test_a_query_that_cannot_be_kept_is_refused_in_one_line(node: str, query: str, named: str) -> None:
    refused = _run("subscribe", query, "--peer", node)
    assert (refused.returncode, refused.stdout) == (4, "")
    assert refused.stderr.startswith("p2prdf: error [query-refused]: ")
    assert named in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_nobody_there_is_exit_code_3() -> None:
    for arguments in (("status",), ("publish", "-"), ("subscribe", "SELECT * { ?s ?p ?o }"), ("unsubscribe", "1")):
        outcome = _run(*arguments, P2PRDF_PEER="127.0.0.1:1")
        assert outcome.returncode == 3
        assert outcome.stderr.startswith("p2prdf: error [unavailable]: 127.0.0.1:1: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("subscribe",),
        ("subscribe", "SELECT * { ?s ?p ?o }", "--file", "q.rq"),
        ("subscribe", "SELECT * { ?s ?p ?o }", "--attach", "1"),
        ("subscribe", "--attach", "nonsense"),
        ("subscribe", "--attach", "1", "--since", "now"),
        ("subscribe", "SELECT * { ?s ?p ?o }", "--since", "2026-11-22T10:00:00"),
        ("subscribe", "SELECT * { ?s ?p ?o }", "--bookmarks"),
        ("subscribe", "SELECT * { ?s ?p ?o }", "--bookmarks", "--json", "--name", "n"),
        ("status", "--peer", "nonsense"),
        ("explain",),
        ("explain", "ASK {}", "--subscription", "1"),
        ("explain", "--subscription", "nonsense"),
        ("publish",),
        ("simulate", "--file", "q.rq"),
        ("node", "--listen", "nonsense"),
        ("node", "--listen", "0.0.0.0:0"),
        ("nonsense",),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    outcome = _run(*arguments)
    assert outcome.returncode == 2
    assert outcome.stdout == ""
    assert outcome.stderr


def test_status_shows_peers_and_shares_of_keys(node: str) -> None:
    shown = _run("status", "--peer", node, "--all")
    assert shown.returncode == 0, shown.stderr
    assert node in shown.stdout
    assert "%" in shown.stdout
    reports = [json.loads(line) for line in _run("status", "--peer", node, "--all", "--json").stdout.splitlines()]
    assert len(reports) == 2
    assert reports[0]["address"] == node
    assert {report["key"] for report in reports} == {reports[0]["key"], reports[0]["peers"][0]["key"]}


def test_status_in_sync_is_0_where_a_node_does_all_of_its_work(node: str) -> None:
    shown = _run("status", "--peer", node, "--in-sync", "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["peer"]["in_sync"] is True


def test_explanations_name_the_pattern_that_stops_everything(node: str, tmp_path: Path) -> None:
    query = "SELECT ?s ?o WHERE { ?s <urn:explained> ?m . ?m <urn:never-matched> ?o FILTER(?o != <urn:x>) }"
    subscriber = _Subscriber(query, "--peer", node)
    _publish(node, tmp_path, "".join(f"<urn:a{n}> <urn:explained> <urn:b{n}> .\n" for n in range(3)))
    waiting: list[int] = []
    for _ in range(100):  # a publication is acknowledged before its consequences have arrived
        document = json.loads(_run("explain", "--subscription", subscriber.id, "--peer", node, "--json").stdout)
        waiting = [step["waiting"] for step in document["parts"][0]["steps"]]
        if waiting == [1, 3]:
            break
    assert waiting == [1, 3]
    shown = _run("explain", "--subscription", subscriber.id, "--peer", node)
    assert shown.returncode == 0, shown.stderr
    assert f"Subscription {subscriber.id} (SELECT, csbv): ?s ?o" in shown.stdout
    told = " ".join(shown.stdout.split())
    assert "no triple matches pattern 2 (?v0 <urn:never-matched> ?o) yet; there are 3 partial results waiting" in told
    subscriber.end(signal.SIGINT)
    (tmp_path / "q.rq").write_text("PREFIX u: <urn:> ASK { ?s u:explained ?m OPTIONAL { ?s u:p ?\u006f } }")
    shown = _run("explain", "--file", tmp_path / "q.rq", "--algorithm", "cqc", "--peer", node)
    assert shown.returncode == 0, shown.stderr
    assert "u:explained" in shown.stdout
    assert "LeftJoin" in shown.stdout
    assert _run("explain", "ASK {}", "--prefix-file", tmp_path / "none.ttl", "--peer", node).returncode == 1
    refused = _run("explain", "SELECT nonsense", "--peer", node)
    assert (refused.returncode, refused.stdout) == (4, "")
    assert refused.stderr.startswith("p2prdf: error [query-refused]: ")


def test_a_file_that_is_not_there_is_named(node: str, tmp_path: Path) -> None:
    outcome = _run("publish", tmp_path / "none.nt", "--peer", node)
    assert outcome.returncode == 1
    assert outcome.stderr == f"p2prdf: error [system]: {tmp_path / 'none.nt'}: No such file or directory\n"


def test_turtle_up_to_its_error_is_published(node: str, tmp_path: Path) -> None:
    file = tmp_path / "data.ttl"
    file.write_text("@prefix : <urn:> .\n:a :turtle :b , :c .\n:d :turtle nonsense here .\n")
    outcome = _run("publish", file, "--peer", node, "--state", tmp_path / "state", "--json")
    assert outcome.returncode == 4
    assert json.loads(outcome.stdout)["triples"] == 2
    assert f"[data-refused]: {file}:3: " in outcome.stderr
