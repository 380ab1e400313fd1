"""Plays the scenario files of this folder and compares each block with its expected output.

``--rewrite-golden`` writes the output into the files instead; ``git diff`` then shows the change.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from scenario_files import commands, script

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario_prints_its_expected_output(path: Path, request: pytest.FixtureRequest) -> None:
    shown_path = path.relative_to(FOLDER.parents[1])
    text = path.read_text("utf-8")
    blocks = script.parse(text, shown_path)
    played = script.play(blocks, commands.Scenario(shown_path).run)
    if request.config.getoption("rewrite_golden"):
        path.write_text(script.shown(played), "utf-8")
        return
    for block, found in zip(blocks, played, strict=True):
        if block.commands:
            place = f"{shown_path}:{block.commands[0].line}: {block.commands[0].text}"
            assert block.separated, f"{place}\nhas no {script.SEPARATOR}: write its output by --rewrite-golden"
            assert block.output == found.output, f"{place}\nprints something else (accept it by --rewrite-golden)"
