"""``p2prdf experiment full-text`` at its smallest: its counts are checked, its times are only printed."""

from __future__ import annotations

import gzip
import json
import lzma
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner
from typer.testing import Result as Outcome

from p2prdf_cli.app import app
from p2prdf_lab.competitors.full_text.rtf_m import RtfM
from p2prdf_lab.experiments import full_text as experiment
from p2prdf_lab.experiments.full_text import FullTextSetting, full_text
from p2prdf_lab.workloads.passages import read_passages
from p2prdf_lab.workloads.texts import TextShape

SMALL = ("--scale", 0.002, "--steps", 2, "--publications", 10, "--growth", 2, "--seconds", 0.05)
TINY = FullTextSetting(TextShape(classes=5), queries=300, steps=2, publications=10, growth=2, seconds=0.05,
                       probabilities=(0.5,))  # fmt: skip


def _passages() -> list[list[str]]:
    rng = random.Random(1)
    words = [f"word{int(rng.paretovariate(0.7)) % 500}" for _ in range(3000)]
    return [words[at : at + 300] for at in range(0, 3000, 300)]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.nt.xz"
    lines = "".join(f'<urn:a> <urn:p> "{" ".join(passage)}" .\n' for passage in _passages())
    path.write_bytes(lzma.compress(lines.encode()))
    return path


def _experiment(*arguments: object) -> Outcome:
    return CliRunner().invoke(app, ["experiment", "full-text", *map(str, arguments)], terminal_width=100)


def test_people_get_times_memory_claims_and_a_figure(texts: Path, tmp_path: Path) -> None:
    outcome = _experiment(*SMALL, "--texts", texts, "--plot", tmp_path / "f.svg")
    assert outcome.exit_code in (0, 5), outcome.output
    for word in ("figure 5a", "Memory, MB", "Insertion", "✓ all find the same", "iBroker, words", "texts.nt.xz"):
        assert word in outcome.stdout.replace("\n", "")  # a long path is broken over lines
    assert max(map(len, outcome.stdout.splitlines())) <= 100
    assert (tmp_path / "f.svg").read_text().count("<svg") == 1


def test_the_document_has_six_panels_and_equal_seeds_count_alike(texts: Path) -> None:
    once, again = (json.loads(_experiment(*SMALL, "--texts", texts, "--json", "-").stdout) for _ in range(2))
    assert [panel["title"][:2] for panel in once["panels"]] == ["5a", "5b", "6a", "6b", "7a", "7b"]
    assert [row[0] for row in once["tables"][0]["rows"]] == [100, 200]
    assert once["tables"][2] == again["tables"][2], "candidates in a list are counted"
    assert once["claims"][0]["holds"]
    memory = [row[1:] for row in once["tables"][3]["rows"]]
    assert all(small < large for small, large in zip(*memory, strict=True))


def test_a_table_that_is_scanned_is_looked_at_as_a_whole_and_the_index_looks_at_little() -> None:
    """Counts, so on any machine."""
    result = full_text(TINY, _passages())
    looked_at = {row[0]: row[2] for row in result.tables[1].rows}
    assert looked_at["RTFm, published"] - looked_at["RTFm, counting"] == 300
    assert looked_at["brute force"] == 300
    assert looked_at["iBroker, first"] < looked_at["iBroker, published"] < looked_at["iBroker, words"]
    assert looked_at["index"] < looked_at["RTFm, counting"]


def test_added_conditions_are_satisfied_by_no_measured_publication() -> None:
    result = full_text(TINY, _passages())
    sizes, times, again, matches, _ = zip(*result.tables[6].rows, strict=True)
    assert sizes == (30, 300, 600)
    assert min(times) > 0
    assert min(again) > 0
    assert len(set(matches)) == 1
    assert matches[0] > 0


def test_without_java_the_rest_is_run_and_the_missing_program_is_named(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = _experiment(*SMALL, "--lucene", "--texts", texts)
    assert outcome.exit_code in (0, 5), outcome.output
    assert "Lucene was not run: there is no java on the PATH" in " ".join(outcome.stdout.split())
    assert "Monitor" not in outcome.stdout


def test_a_program_that_errs_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(RtfM):
        def match(self, publication) -> list[int]:
            return super().match(publication)[1:]

    monkeypatch.setattr(experiment, "RtfM", Forgetful)
    result = full_text(TINY, _passages())
    assert not result.claims[0].holds


def test_texts_are_read_plain_and_compressed_and_short_ones_left_out(tmp_path: Path) -> None:
    line = f'<urn:a> <urn:p> "{"word " * 70}"@en .\n<urn:a> <urn:p> "short" .\n<urn:a> <urn:p> <urn:b> .\n'.encode()
    for name, data in (("a.nt", line), ("a.nt.gz", gzip.compress(line)), ("a.nt.xz", lzma.compress(line))):
        (tmp_path / name).write_bytes(data)
        assert read_passages(tmp_path / name) == [["word"] * 70]


@pytest.mark.parametrize(
    ("name", "data", "named"),
    [
        ("short.nt", b'<urn:a> <urn:p> "short" .\n', "no literal of 60 words"),
        ("bad.nt", b"this is no triple\n", "bad.nt:1"),
        ("cut.nt.xz", lzma.compress(b'<urn:a> <urn:p> "x" .\n' * 9999)[:60], "data is damaged"),
        ("not.nt.xz", b"plain", "data is damaged"),
    ],
)
def test_texts_that_cannot_be_used_are_refused_by_name(name: str, data: bytes, named: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    outcome = _experiment(*SMALL, "--texts", tmp_path / name)
    assert outcome.exit_code == 4, outcome.output
    assert named in " ".join(outcome.stderr.split())
    assert name in outcome.stderr


def test_without_texts_the_needed_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("p2prdf_lab.workloads.passages.FOUND_AT", "shared/nowhere.nt.xz")
    outcome = _experiment(*SMALL)
    assert outcome.exit_code == 2, outcome.output
    told = " ".join(outcome.stderr.replace("│", " ").split())
    assert "real texts are needed" in told
    assert ".nt.xz" in told


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("--scale", 0), 2, "--scale"),
        (("--steps", 0), 2, "steps: 0"),
        (("--publications", 1), 2, "publications: 1"),
        (("--growth", 0), 2, "growth: 0"),
        (("--texts", "nowhere.nt"), 2, "nowhere.nt: there is no such file"),
        (("--plot", "nowhere/f.png"), 1, "nowhere/f.png: there is no such folder"),
    ],
)
def test_bad_input_is_refused_by_name_before_the_run(
    arguments: tuple, code: int, named: str, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_) -> None:
        raise AssertionError("it ran")

    monkeypatch.setattr(experiment, "full_text", never)
    outcome = _experiment("--texts", texts, *arguments)
    assert outcome.exit_code == code, outcome.output
    assert named in " ".join(outcome.stderr.replace("│", " ").split())
