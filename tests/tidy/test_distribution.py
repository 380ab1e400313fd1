"""Tests that share nodes run in one process, in every way of spreading the suite over several."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("xdist")

from distribution import Distribution


class Worker:
    """A process that runs tests, as far as a scheduler sees it: it runs each test at once."""

    shutting_down = False

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.sent: list[int] = []
        self.ran: list[str] = []
        self.gateway = SimpleNamespace(id="worker")

    def send_runtest_some(self, places: list[int]) -> None:
        self.sent += places

    def shutdown(self) -> None:
        self.shutting_down = True


def _run(names: list[str], workers: int = 2) -> list[list[str]]:
    """Return which tests each worker ran, one after the other in turns."""
    option = SimpleNamespace(loadscopereorder=True)
    config = SimpleNamespace(option=option, getvalue=lambda _: ["popen"] * workers)
    scheduler = Distribution(config)
    running = [Worker(names) for _ in range(workers)]
    for worker in running:
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, names)
    scheduler.schedule()
    while any(worker.sent for worker in running):
        for worker in running:
            if worker.sent:
                place = worker.sent.pop(0)
                worker.ran.append(names[place])
                scheduler.mark_test_complete(worker, place)
    return [worker.ran for worker in running]


def test_a_group_has_one_process_and_the_largest_comes_first() -> None:
    nodes = [f"tests/daemon/test_{file}.py::test_it[{n}]" for file in "ab" for n in range(20)]
    spark = [f"tests/daemon/test_spark.py::test_it[{n}]" for n in range(5)]
    alone = [f"tests/unit/test_{file}.py::test_it[a@b-{n}]" for file in "cd" for n in range(30)]
    first, second = _run([*alone[:30], *spark, *nodes, *alone[30:]])
    assert first[:40] == nodes
    assert second[:5] == spark
    assert sorted(first + second) == sorted(nodes + spark + alone)
    assert {name in alone for name in first[40:] + second[5:]} == {True}
    assert abs(len(first) - len(second)) <= 3, "what belongs to no group evens out what the groups leave"
