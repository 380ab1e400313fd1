"""A plugin for pytest: all tests of a run go without one rule (``-p mutants.plugin --mutant NAME``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedules.mutants import MUTANTS

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutant", choices=sorted(MUTANTS), required=True, help="the rule to do without")


def pytest_configure(config: pytest.Config) -> None:
    for owner, name, replacement in MUTANTS[config.getoption("--mutant")].changes():
        setattr(owner, name, replacement)
