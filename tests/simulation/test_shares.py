"""Every run prints the configurations of its peers and the features of its schedules."""

from __future__ import annotations

from collections import Counter

from p2prdf.peer import PeerConfig
from p2prdf.sim.world import World, WorldOptions
from schedules.failures.command import run_faults
from schedules.shares import DAEMON, FEATURES, Shares, configurations, shown_by_queries


def test_the_configuration_of_a_daemon_has_a_name_of_its_own() -> None:
    config = PeerConfig(replicas=3, copies_min=2, durable=True)
    options = WorldOptions(peers=2, tables="arrays", through_codec=True, config=config)
    assert configurations(World(options)) == {DAEMON: 2}
    lists = configurations(World(WorldOptions(peers=2, config=PeerConfig(indexes="cqc"))))
    assert lists == {"indexes cqc, lists, 1 copy (least 1)": 2}


def test_shares_name_every_feature_and_the_command_that_draws_an_absent_one() -> None:
    shares = Shares()
    shares.add(Counter({DAEMON: 9, "other": 1}), {"texts", "crash"} | shown_by_queries(["ASK { GRAPH <urn:g> {} }"]))
    text = "\n".join(shares.lines())
    assert f"90.0%  {DAEMON}" in text
    for name in FEATURES:
        assert name in text
    assert "full text 1, ASK 1" in text
    assert "windows 0 (make faults)" in text


def test_a_run_without_the_daemons_configuration_says_so() -> None:
    shares = Shares()
    shares.add(Counter({"other": 1}), ())
    assert f"0.0%  {DAEMON}" in "\n".join(shares.lines())


def test_fault_schedules_print_their_shares(capsys) -> None:
    run_faults(range(2), kind="drawn", jobs=1, failures_max=1, trace=False)
    said = capsys.readouterr().out
    assert "peers by configuration:" in said
    assert "2 schedules, of which with: removals" in said
