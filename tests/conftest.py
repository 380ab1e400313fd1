"""Settings of the whole suite, and how it is spread over processes."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

import pytest
from agenda import check_all_peers
from hypothesis import HealthCheck, settings
from interruptions import let_children_be_interrupted

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

# The duration of an example depends more on the machine's load than on the code.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

let_children_be_interrupted()
check_all_peers()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the flag that accepts new output of golden scenario files."""
    text = "write the output of the scenario files of tests/golden into them instead of comparing it"
    parser.addoption("--rewrite-golden", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to rewrite where nobody reads the difference: CI sets the variable CI, and .ci/run sets it, too."""
    if config.getoption("rewrite_golden") and os.environ.get("CI"):
        raise pytest.UsageError("--rewrite-golden: CI compares golden files and never writes them (variable CI is set)")


@pytest.hookimpl(optionalhook=True)  # where the suite runs in one process, pytest-xdist need not be there
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """Keep tests that share nodes together, for every ``--dist`` mode."""
    from distribution import Distribution

    return Distribution(config, log)


def pytest_collection_finish() -> None:
    """Keep the collected tests out of every later garbage collection: they are most of the heap, and stay to the end.

    Fifteen thousand tests are half a million objects.  Experiments, which collect garbage before they measure,
    would take several times as long beside all the others as they take alone.
    """
    gc.collect()
    gc.freeze()
