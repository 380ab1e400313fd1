"""The suite runs in two processes (``make test``): whatever runs nodes stays in one of them, one test at a time.

Nodes are processes of their own, five at a time, and tests of them have deadlines.  The other process does what needs
none, mostly the simulator, and what needs Spark, whose nodes are five of its own.  A third process was tried: on two
cores the suite takes as long, and each test longer.
"""

from __future__ import annotations

import gc
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says more of what else the machine does than of the code.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

WITH_SPARK: Final = ("tests/daemon/test_spark", "tests/daemon/test_fleet.py")
WITH_SETUP: Final = ("tests/cli/test_experiment.py",)
"""Made ready once for all tests of the file, and that takes long."""
WITH_NODES: Final = ("tests/daemon/", "tests/cli/test_demo.py", "tests/cli/test_with_nodes.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have tests with nodes in one group, and those with Spark, which mostly wait for its processes, in another."""
    for item in items:
        if item.nodeid.startswith(WITH_SPARK):
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif item.nodeid.startswith(WITH_SETUP):
            item.add_marker(pytest.mark.xdist_group("setup"))
        elif item.nodeid.startswith(WITH_NODES):
            item.add_marker(pytest.mark.xdist_group("nodes"))


def pytest_collection_finish() -> None:
    """Keep what was collected out of every later collection of garbage: it is most of the heap, and stays to the end.

    Fifteen thousand tests are half a million objects, a quarter of a second for each run over them.  Experiments, which
    collect before they measure, would take several times as long beside all the others as they take alone.
    """
    gc.collect()
    gc.freeze()
