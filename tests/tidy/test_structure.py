"""The structure of a peer is that of docs/explanation/design/components.md; modules and files that texts name exist."""

from __future__ import annotations

import ast
import re

import pytest
from house import structure
from house.passage import Passage

MODULES = re.compile(r":mod:`~?((?:p2prdf|p2prdf_node|p2prdf_cli|p2prdf_lab)(?:\.\w+)*)`")
PATHS = re.compile(r"`([a-z_0-9]+/[\w/]+\.py)")
PARENTS = ("", "p2prdf/", "node/", "node/p2prdf_node/", "cli/", "lab/", "tests/support/")
"""Folders that paths in documents start from."""
PACKAGES = {"p2prdf": "", "p2prdf_node": "node/", "p2prdf_cli": "cli/", "p2prdf_lab": "lab/"}


def test_a_peer_has_at_most_eight_packages_on_six_layers() -> None:
    assert len(structure.rooms()) <= 8
    assert len(structure.floors()) <= 6


def test_no_constructor_of_a_peer_sets_attributes_of_another_component() -> None:
    assert structure.late_wires() == []


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("self.other.ready = True", ["self.other.ready"]),
        ("other.ready = self.ready", ["other.ready"]),
        ("self.a, self.b.c = 1, 2", ["self.b.c"]),
        ("self.ready = other.ready", []),
    ],
)
def test_assignments_to_other_components_are_found(statement: str, found: list[str]) -> None:
    (constructor,) = ast.parse(f"def __init__(self, other):\n    {statement}\n").body
    assert isinstance(constructor, ast.FunctionDef)
    assert [text for _, text in structure.foreign_assignments(constructor)] == found


def test_the_passage_counts_the_calls_of_one_triple_to_its_acknowledged_answer() -> None:
    passage = Passage()
    passage.measure()
    assert passage.messages["IndexTriples"] == 2, "one message to each other replica"
    assert passage.messages["Delivered"] <= 1
    assert sum(passage.calls.values()) > len(passage.calls) > 100


def test_modules_that_docstrings_name_exist() -> None:
    missing = []
    for path in structure.sources("p2prdf", "node", "cli", "lab", "tests"):
        for name in MODULES.findall(path.read_text()):
            place = structure.ROOT / PACKAGES[name.partition(".")[0]] / name.replace(".", "/")
            if not place.with_suffix(".py").is_file() and not place.is_dir():
                missing.append(f"{path.relative_to(structure.ROOT)}: {name}")
    assert missing == []


def test_python_files_that_documents_name_exist() -> None:
    documents = [path for path in sorted((structure.ROOT / "docs").rglob("*.md")) if "history" not in path.parts]
    missing = [
        f"{document.relative_to(structure.ROOT)}: {name}"
        for document in documents
        for name in PATHS.findall(document.read_text())
        if not any((structure.ROOT / parent / name).is_file() for parent in PARENTS)
    ]
    assert missing == []
