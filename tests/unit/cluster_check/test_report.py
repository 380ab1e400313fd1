"""The report of a check fits the documentation and is good only if a step ran and none failed."""

from __future__ import annotations

import datetime
import json

from cluster_check.counts import Counts
from cluster_check.report import Report, Result

GOOD = Counts(sent=1200, acknowledged=1200, delivered=1200, pause=2.5, reconnections=1)


def report(*results: Result) -> Report:
    versions = {"Kubernetes": "v1.37.2", "runtime": "containerd://1.6.20"}
    return Report(versions, ["n1", "n2"], "p2prdf:0.2.0", list(results), datetime.date(2026, 11, 27))


def test_markdown_names_date_versions_steps_and_counts_in_lines_of_100_characters() -> None:
    text = report(
        Result("rolling", "passed", 61.4, ["three nodes restarted in 40 s"], [GOOD]),
        Result("scale", "passed", 80.0, ["five nodes know each other after 20 s. "], [GOOD]),
    ).markdown()
    assert text.startswith("2026-11-27: Kubernetes v1.37.2, runtime containerd://1.6.20; 2 machines (n1, n2).")
    assert "- **rolling**: passed, 61 s. three nodes restarted in 40 s. 1,200 acknowledged of 1,200 sent" in text
    assert "All loads: 2,400 acknowledged" in text.replace("\n", " ")
    assert max(map(len, text.splitlines())) <= 100


def test_an_api_server_without_machines_and_steps_without_load_are_named_as_such() -> None:
    made = Report({"Kubernetes": "v1.37.2"}, [], "p2prdf:0.2.0", [Result("validate")], datetime.date(2026, 11, 27))
    text = made.markdown()
    assert text.startswith("2026-11-27: Kubernetes v1.37.2; no machine.")
    assert "All loads" not in text


def test_a_report_is_good_if_a_step_ran_and_none_failed() -> None:
    assert report(Result("start"), Result("fleet", "skipped")).good
    assert not report(Result("fleet", "skipped")).good
    assert not report(Result("start"), Result("scale", "failed")).good


def test_totals_are_sums_and_the_longest_pause() -> None:
    lost = Counts(sent=10, acknowledged=10, delivered=9, lost=1, pause=7.5)
    totals = report(Result("kill", counts=[GOOD]), Result("scale", "failed", counts=[lost])).totals
    assert (totals.sent, totals.lost, totals.pause) == (1210, 1, 7.5)


def test_json_holds_every_figure() -> None:
    made = json.loads(json.dumps(report(Result("kill", "passed", 1.25, ["fact"], [GOOD])).as_json()))
    assert made["good"] is True
    assert made["results"][0]["counts"][0]["acknowledged"] == 1200
    assert made["versions"]["Kubernetes"] == "v1.37.2"
