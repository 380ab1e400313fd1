"""docs/benchmarks.md is a record of commands: a run replaces its own sections and leaves the others."""

from __future__ import annotations

import datetime
import importlib.util
from pathlib import Path

HERE = Path(__file__).parents[1] / "benchmarks" / "page.py"
spec = importlib.util.spec_from_file_location("benchmarks_page", HERE)
assert spec is not None
assert spec.loader is not None
page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(page)

AT = datetime.datetime(2026, 11, 27, tzinfo=datetime.UTC)


def _section(name: str, output: str) -> str:
    text: str = page.section(name, output, quick=False, at=AT, load=0.25, revision="1234567")
    return text


def test_section_names_command_commit_date_and_load() -> None:
    text = _section("hops", "13 times fewer  \n")
    assert "`make bench ARGS='hops'` at 1234567, 2026-11-27, load 0.2 before it." in text
    assert "```\n13 times fewer\n```\n" in text


def test_new_output_replaces_the_section_of_its_name_and_keeps_the_others_in_order() -> None:
    order = ["daemons", "hops", "skew"]
    first = page.replaced("", {"skew": _section("skew", "2.4"), "daemons": _section("daemons", "1,000")}, order)
    second = page.replaced(first, {"hops": _section("hops", "13"), "daemons": _section("daemons", "2,000")}, order)
    assert [found["name"] for found in page.SECTION.finditer(second)] == order
    assert "1,000" not in second
    assert "2.4" in second
    assert second.startswith("# Benchmarks")
    assert page.replaced(second, {}, order) == second


def test_machine_line_names_cores_and_python() -> None:
    assert "cores" in page.machine()
    assert "Python 3" in page.machine()
