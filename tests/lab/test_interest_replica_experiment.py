"""``p2prdf experiment interest-replica`` at its smallest: its counts are checked, its times are only printed."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner
from typer.testing import Result as Outcome

from p2prdf.errors import LocalProtocolError
from p2prdf.interest import Change
from p2prdf_cli.app import app
from p2prdf_lab.experiments.interest_replica import ReplicaSetting
from p2prdf_lab.workloads.changeset_feed import Feed, FeedShape

SMALL = ("--scale", 0.01, "--changesets", 2, "--interests", 20)


def _experiment(*arguments: object) -> Outcome:
    return CliRunner().invoke(app, ["experiment", "interest-replica", *map(str, arguments)], terminal_width=100)


def test_people_get_tables_claims_and_a_figure(tmp_path: Path) -> None:
    outcome = _experiment(*SMALL, "--plot", tmp_path / "f.svg")
    assert outcome.exit_code in (0, 5), outcome.output
    for word in ("Football: interesting share", "% of the", "Many interests in one pass", "✓ Football"):
        assert word in outcome.stdout
    assert (tmp_path / "f.svg").read_text().count("<svg") == 1


def test_equal_seeds_count_alike_and_targets_are_exact() -> None:
    once, again = (json.loads(_experiment(*SMALL, "--json", "-").stdout) for _ in range(2))
    for number in (0, 1):
        rows = [[row[:7] for row in each["tables"][number]["rows"]] for each in (once, again)]
        assert rows[0] == rows[1]
        assert [row[0] for row in rows[0]] == [f"day {day}" for day in range(1, 6)]
    assert once["tables"][3] == again["tables"][3]
    assert [claim["holds"] for claim in once["claims"][:2]] == [True, True]
    complete = [row[2] for row in once["tables"][3]["rows"]]
    assert complete[0] == 100 == max(complete)
    assert complete == sorted(complete, reverse=True)
    assert complete[-1] < 100


def test_a_target_that_is_not_exact_is_a_claim_that_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Change, "insertions", property(lambda change: change.added[1:]))
    outcome = _experiment(*SMALL, "--json", "-")
    assert outcome.exit_code == 5
    assert not json.loads(outcome.stdout)["claims"][0]["holds"]


def test_changesets_of_a_folder_are_followed(tmp_path: Path) -> None:
    for hour in ("20", "21"):
        for number in range(2):
            for word in ("added", "removed"):
                line = f'<urn:s{number}> <http://xmlns.com/foaf/0.1/name> "{hour}{word}" .\n'
                path = tmp_path / f"2014/10/02/{hour}/{number:06}.{word}.nt.gz"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(gzip.compress(line.encode()))
    document = json.loads(_experiment("--scale", 0.01, "--interests", 2, "--changes", tmp_path, "--json", "-").stdout)
    assert [row[:7] for row in document["tables"][0]["rows"]] == [
        [f"2014/10/02/{hour}", 2, 2, 2, 0, 0, 2] for hour in ("20", "21")
    ]


def test_a_feed_has_the_sizes_of_the_paper() -> None:
    feed = Feed(FeedShape(20_000, 25))
    start = set(feed.start())
    assert abs(sum(triple[0].startswith("<http://dbpedia.org/resource/Player") for triple in start) - 19_700) < 400
    sizes: dict[int, list[int]] = {}
    for day, changeset in feed.changesets():
        sizes.setdefault(day, []).append(len(changeset))
    assert [len(each) for each in sizes.values()] == [25] * 5
    for day, paper in enumerate((2435, 2355, 2005, 2028, 2031)):
        assert abs(sum(sizes[day]) / 25 - paper) < paper * 0.02, day


def test_impossible_settings_are_refused(tmp_path: Path) -> None:
    for arguments, reason in (
        (("--changesets", 1), "changesets in a day"), (("--changes", tmp_path), "there are no changesets"),
        (("--interests", 1), "2 to 100,000"), (("--changes", tmp_path / "no"), "no such folder"),
    ):  # fmt: skip
        outcome = _experiment("--scale", 0.01, *arguments)
        assert outcome.exit_code == 2, arguments
        assert reason in re.sub(r"[\s│]+", " ", outcome.output)
    with pytest.raises(LocalProtocolError):
        ReplicaSetting(FeedShape(10)).validate()
