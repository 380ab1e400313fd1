"""``p2prdf changesets`` and ``p2prdf replica``: effects, output and refusals."""

from __future__ import annotations

import functools
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from field_cases import field_case
from typer.testing import CliRunner, Result

from p2prdf.interest import Triple
from p2prdf.replica.changeset_files import read_file
from p2prdf_cli.app import app

INTEREST = "SELECT * { ?a <urn:type> <urn:A> ; <urn:goals> ?g OPTIONAL { ?a <urn:page> ?p } }"
DUMPS = [
    '<urn:x> <urn:type> <urn:A> .\n<urn:x> <urn:goals> "1" .\n<urn:y> <urn:goals> "2" .\n<urn:z> <urn:other> "3" .\n',
    '<urn:x> <urn:goals> "1" .\n<urn:y> <urn:goals> "2" .\n<urn:y> <urn:type> <urn:A> .\n<urn:y> <urn:page> "p" .\n',
    '<urn:y> <urn:goals> "2" .\n<urn:y> <urn:type> <urn:A> .\n<urn:x> <urn:type> <urn:A> .\n',
]


def _run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Dumps, and the changesets between them by the command."""
    (tmp_path / "interest.rq").write_text(INTEREST)
    for number, text in enumerate(DUMPS):
        (tmp_path / f"{number}.nt").write_text(text)
    for number in (0, 1):
        dumps = (tmp_path / f"{number}.nt", tmp_path / f"{number + 1}.nt")
        made = _run("changesets", "diff", *dumps, tmp_path / "changes")
        assert made.exit_code == 0, made.output
    return tmp_path


def _apply(folder: Path, *words: object, target: str = "files:slice") -> Result:
    kind, _, name = target.partition(":")
    return _run(
        "replica", "apply", folder / "changes", "--target", f"{kind}:{folder / name}", "--state", folder / "state",
        *words,
    )  # fmt: skip


def _beginning(folder: Path) -> list[object]:
    return ["--file", folder / "interest.rq", "--start", folder / "0.nt"]


def _slice(folder: Path) -> set[Triple]:
    found: set[Triple] = set()
    for number in range(1, 10):
        pair = [folder / f"slice/{number:06}.{word}.nt.gz" for word in ("removed", "added")]
        if pair[0].exists():
            found = (found - set(read_file(pair[0]))) | set(read_file(pair[1]))
    return found


def test_changesets_between_dumps_keep_a_slice_true(folder: Path) -> None:
    names = sorted(path.name for path in (folder / "changes").iterdir())
    assert names == [f"00000{n}.{word}.nt.gz" for n in (1, 2) for word in ("added", "removed")]
    done = _apply(folder, *_beginning(folder), "--json")
    assert done.exit_code == 0, done.output
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"position": "000001", "changeset": 4, "removed": 2, "added": 3},
        {"position": "000002", "changeset": 3, "removed": 1, "added": 0},
    ]
    assert _slice(folder) == {("<urn:y>", "<urn:goals>", '"2"'), ("<urn:y>", "<urn:type>", "<urn:A>")}


def test_a_second_run_goes_on_where_the_first_was_left(folder: Path) -> None:
    assert _apply(folder, *_beginning(folder)).exit_code == 0
    again = _apply(folder)
    assert (again.exit_code, again.stdout) == (0, "")
    (folder / "3.nt").write_text(DUMPS[2] + '<urn:x> <urn:goals> "7" .\n')
    assert _run("changesets", "diff", folder / "2.nt", folder / "3.nt", folder / "changes").exit_code == 0
    assert _apply(folder, "--file", folder / "interest.rq").stdout == "000003: 0 removed, 2 added\n"
    checked = _run("replica", "verify", "--target", f"files:{folder / 'slice'}", "--state", folder / "state")
    assert (checked.exit_code, checked.stdout) == (0, "the target is correct: 4 triples, 4 expected\n")


def test_errors_at_a_target_are_reported_and_repaired(folder: Path) -> None:
    import pyoxigraph as ox

    assert _apply(folder, *_beginning(folder), target="store:db").exit_code == 0
    store = ox.Store(str(folder / "db"))
    store.add(ox.Quad(ox.NamedNode("urn:x"), ox.NamedNode("urn:p"), ox.Literal("foreign")))
    store.flush()
    del store
    words = ("--target", f"store:{folder / 'db'}", "--state", folder / "state")
    assert _run("replica", "verify", *words).exit_code == 1
    assert _run("replica", "repair", *words).stdout == "0 triples inserted, 1 deleted\n"
    assert _run("replica", "verify", *words).exit_code == 0


def test_changesets_behind_a_missing_one_are_not_applied(folder: Path) -> None:
    (folder / "changes/000002.removed.nt.gz").rename(folder / "changes/000003.removed.nt.gz")
    (folder / "changes/000002.added.nt.gz").rename(folder / "changes/000003.added.nt.gz")
    done = _apply(folder, *_beginning(folder))
    assert done.exit_code == 1
    assert "000002 is missing" in done.stderr
    assert done.stdout.startswith("000001: ")
    assert len(done.stdout.splitlines()) == 1


def test_a_patch_is_applied_up_to_a_fault_and_then_from_there(folder: Path) -> None:
    patch = folder / "changes.rdfp"
    good = 'TX .\nA <urn:y> <urn:type> <urn:A> .\nTC .\nTX .\nD <urn:x> <urn:goals> "1" .\nTC .\n'
    patch.write_text(good + "TX .\nA broken .\nTC .\n")
    words = ("--target", f"files:{folder / 'slice'}", "--state", folder / "state")
    done = _run("replica", "apply", patch, *words, *_beginning(folder))
    assert done.exit_code == 4
    assert "changes.rdfp:8: column 3" in done.stderr.replace("\n", "")
    patch.write_text(good + "TX .\nA <urn:x> <urn:goals> \"5\" .\nTC .\n")
    assert _run("replica", "apply", patch, *words).stdout == "000000003: 0 removed, 2 added\n"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "no such state yet"),
        (["--file", "interest.rq"], "no such state yet"),
        (["--file", "wrong.rq", "--start", "0.nt"], "UNION"),
        (["--file", "interest.rq", "--start", "absent.nt"], "cannot be read"),
        (["--file", "interest.rq", "--start", "blank.nt"], "blank node _:b"),
        (["--file", "interest.rq", "--start", "http://a.example/", "--allow-host", "b.example"], "not on the list"),
    ],
)
def test_an_impossible_beginning_is_refused(folder: Path, words: list[str], reason: str) -> None:
    (folder / "wrong.rq").write_text("SELECT * { { ?a ?b ?c } UNION { ?c ?b ?a } }")
    (folder / "blank.nt").write_text("_:b <urn:type> <urn:A> .\n")
    done = _apply(folder, *(folder / word if (folder / word).exists() else word for word in words))
    assert done.exit_code == 4
    assert reason in done.stderr.replace("\n", " ")


def test_another_interest_needs_another_state(folder: Path) -> None:
    assert _apply(folder, *_beginning(folder)).exit_code == 0
    (folder / "other.rq").write_text("SELECT * { ?a <urn:goals> ?g }")
    done = _apply(folder, "--file", folder / "other.rq")
    assert done.exit_code == 4
    assert "another interest" in done.stderr


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *words: object) -> None:  # noqa: A002 - its name there
        pass


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    """Python's own web server for the folder."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_changesets_of_a_web_server_are_applied_like_those_of_its_folder(folder: Path, url: str) -> None:
    target = ("--target", f"files:{folder / 'far'}", "--state", folder / "far.state")
    words = ("replica", "apply", url + "changes", *target)
    far = _run(*words, *_beginning(folder), "--json")
    near = _apply(folder, *_beginning(folder), "--json")
    assert (far.exit_code, far.stdout) == (0, near.stdout)
    assert far.stdout.count("position") == 2
    assert _run(*words).stdout == ""
    (folder / "changes/000001.added.nt.gz").unlink()
    (folder / "changes/000001.removed.nt.gz").unlink()
    new = ("replica", "apply", url + "changes", "--target", f"files:{folder / 'new'}", "--state", folder / "new.state")
    missing = _run(*new, *_beginning(folder), "--start-at", "000000")
    assert (missing.exit_code, "000001 is missing: later changesets were not applied" in missing.stderr) == (1, True)
    assert _run(*new).stderr == missing.stderr.splitlines(keepends=True)[-1], "where it begins is kept"


def test_a_server_without_changesets_is_refused_by_its_url(folder: Path, url: str) -> None:
    words = ("--target", f"files:{folder / 'far'}", "--state", folder / "far.state", *_beginning(folder))
    refused = _run("replica", "apply", url + "absent", *words)
    assert refused.exit_code == 4
    assert f"{url}absent/: neither lastPublishedFile.txt nor an index page nor 000000 or 000001" in refused.stderr
    assert _run("replica", "apply", url + "absent.rdfp", *words[:4]).exit_code == 4
    begun = _run("replica", "apply", url + "changes", *words[:4], "--start-at", "000001")
    assert (begun.exit_code, begun.stdout[:7]) == (0, "000002:"), "where it begins can be said later"


def test_triples_to_clear_are_reported_and_counted(folder: Path) -> None:
    (folder / "changes/000002.clear.nt").write_text("<urn:x> <urn:goals> <urn:g> .\n")
    done = _apply(folder, *_beginning(folder), "--json")
    assert done.exit_code == 0, done.output
    counts = [json.loads(line).get("clear_not_applied") for line in done.stdout.splitlines()]
    assert counts == [None, 1]
    assert f"warning: {folder / 'changes/000002.clear.nt'}: 1 triples to clear are not applied" in done.stderr


def test_reported_changesets_of_four_files_say_which_one_is_not_applied(tmp_path: Path) -> None:
    case = field_case("12-dbpedia-live-clear-reinserted")
    done = _run(
        "replica", "apply", case / "fold", "--file", case / "int.rq", "--start", case / "start.nt",
        "--target", f"files:{tmp_path / 'of'}", "--state", tmp_path / "state", "--json",
    )  # fmt: skip
    assert done.exit_code == 1, "000002 is missing"
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each.get("clear_not_applied") for each in told] == [None, 1]
    assert "000001.clear.nt.gz: 1 triples to clear are not applied" in done.stderr
    added = read_file(tmp_path / "of/000003.added.nt.gz")
    assert ("<urn:a>", "<urn:p>", '"re"') in set(added)
