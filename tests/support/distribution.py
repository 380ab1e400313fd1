"""Groups of tests that stay in one process when the suite runs in several (``pytest -n 2``).

All tests with nodes stay in one process, one test at a time: nodes are processes of their own, five at a time,
and tests of them have deadlines; overlays that many tests share are started once.  The other process runs tests
without nodes, mostly of the simulator, and tests with Spark, which have five nodes of their own.  A third
process was tried: on two cores the suite takes as long, and each test longer.

The scheduler derives the group from the name of a test.  The mark ``xdist_group`` was tried: pytest-xdist hands
it on inside of the name, and pytest 9.2 loses it on the way without a word (its issue 1386).
"""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadScopeScheduling

__all__ = ["Distribution", "group_of"]

_GROUPS: Final = (
    ("spark", ("tests/daemon/test_spark", "tests/daemon/test_fleet.py")),
    ("setup", ("tests/lab/test_experiment.py",)),  # prepared once for all tests of the file, which takes long
    ("nodes", ("tests/daemon/", "tests/cli/test_demo.py", "tests/cli/test_with_nodes.py")),
)
"""Prefixes of the names of each group; the first match counts."""


def group_of(name: str) -> str:
    """Return the group of a test, which is the test alone if it may run anywhere."""
    return next((group for group, beginnings in _GROUPS if name.startswith(beginnings)), name)


class Distribution(LoadScopeScheduling):
    """Hand out the groups first, the largest before the others, so that single tests come last."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
