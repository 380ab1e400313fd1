"""Nodes find each other, notice that a node is gone, and keep strangers out."""

from __future__ import annotations

import time

import pytest

import p2prdf


def test_five_processes_find_each_other(kind, overlays):
    """The fixture has waited for it; about a second on an idle machine."""
    launcher = overlays(kind)
    assert len(launcher.nodes) == 5
    assert launcher.seconds_to_meet < 5


async def test_a_node_may_be_started_before_the_one_it_joins_by(
    launcher, until, all_know_each_other, free_port, kind, options_of
):
    early = launcher.launch(bootstrap=f"127.0.0.1:{free_port}", **options_of(kind))
    late = launcher.start(listen=f"127.0.0.1:{free_port}", **options_of(kind))
    early.wait_ready()
    await until(lambda: all_know_each_other([early, late]))


async def test_bootstrap_takes_host_names_and_survives_those_that_do_not_resolve(
    launcher, until, all_know_each_other
):
    first = launcher.start()
    second = launcher.start(bootstrap=f"no-such-host.invalid:7400,localhost:{first.port}")
    await until(lambda: all_know_each_other([first, second]))


async def test_a_killed_or_leaving_node_is_noticed_and_comes_back_with_its_key(
    launcher, until, all_know_each_other, tmp_path, kind, options_of
):
    """A kill is noticed by silence, a goodbye at once; a data directory keeps the identifier."""
    options = options_of(kind)
    nodes = launcher.overlay(2, **options)
    third = launcher.start(bootstrap=nodes[0].address, data=tmp_path / "data", **options)
    await until(lambda: all_know_each_other([*nodes, third]))
    third.kill()
    await until(lambda: all_know_each_other(nodes), seconds=8)
    again = launcher.start(bootstrap=nodes[1].address, data=tmp_path / "data", **options)
    assert again.key == third.key
    assert again.address != third.address
    await until(lambda: all_know_each_other([*nodes, again]))
    asked_at = time.monotonic()
    again.terminate()
    assert again.wait() == 0
    assert time.monotonic() - asked_at < 3
    await until(lambda: all_know_each_other(nodes), seconds=1.5)


async def test_two_clusters_with_different_secrets_do_not_mix(launcher, status, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"the secret of cluster {name}")
    inside = launcher.start(secret_file=tmp_path / "a")
    stranger = launcher.start(secret_file=tmp_path / "b", bootstrap=inside.address, first=True)
    for node in (inside, stranger):
        assert (await status(node))["peers"] == []
    assert (await status(inside))["discovery"]["datagrams_refused"]["key"] > 0


@pytest.mark.parametrize("membership", ["", " overlay"])
async def test_nodes_of_different_overlays_do_not_mix_and_both_say_why(launcher, status, options_of, membership):
    first = launcher.start(**options_of("kademlia" + membership))
    stranger = launcher.start(**options_of("chord" + membership), bootstrap=first.address, first=True)
    for node, own, theirs in ((first, "kademlia", "chord"), (stranger, "chord", "kademlia")):
        state = await status(node)
        assert state["peers"] == []
        assert state["discovery"]["overlay"] == own
        assert state["discovery"]["datagrams_refused"]["overlay"] > 0
        assert f"setting overlay: this node is of a {own} overlay, the node there of {theirs}" in node.text()


async def test_nodes_with_and_without_a_view_do_not_mix_and_both_say_why(launcher, status):
    first = launcher.start()
    stranger = launcher.start(membership="overlay", replicas=1, copies_min=1, bootstrap=first.address, first=True)
    for node, own, theirs in ((first, "view", "overlay"), (stranger, "overlay", "view")):
        state = await status(node)
        assert state["peers"] == []
        assert state["discovery"]["datagrams_refused"]["overlay"] > 0
        assert f"setting membership: it is {own} for this node, for the node there {theirs}" in node.text()


async def test_a_killed_node_is_gone_for_all_others_within_a_second_and_its_next_life_seen(
    launcher, until, all_know_each_other, status, tmp_path
):
    """The five nodes have no connections among each other, which would show the failure sooner."""
    nodes = launcher.overlay(4)
    fifth = launcher.start(bootstrap=nodes[0].address, data=tmp_path / "data", zone="east")
    await until(lambda: all_know_each_other([*nodes, fifth]))
    killed_at = time.monotonic()
    fifth.kill()
    await until(lambda: all_know_each_other(nodes), seconds=5)
    assert time.monotonic() - killed_at < 3, "one second and a half and what a loaded machine adds"
    (member,) = [each for each in (await status(nodes[1]))["discovery"]["members"] if each["key"] == fifth.key]
    assert (member["state"], member["zone"]) == ("dead", "east")
    again = launcher.start(bootstrap=nodes[1].address, listen=fifth.address, data=tmp_path / "data", zone="west")
    await until(lambda: all_know_each_other([*nodes, again]))
    (now,) = [each for each in (await status(nodes[1]))["discovery"]["members"] if each["key"] == fifth.key]
    assert (now["state"], now["zone"]) == ("alive", "west")
    assert now["incarnation"] > member["incarnation"]


async def test_every_node_measures_the_clocks_of_the_others(overlay, until, status):
    async def measured():
        members = (await status(overlay[0]))["discovery"]["members"]
        return [each["offset_seconds"] for each in members if each["offset_seconds"] is not None]

    async def all_measured():
        return len(await measured()) == 4

    await until(all_measured)
    assert all(abs(offset) < 0.4 for offset in await measured()), "they are on one machine"
    assert not (await status(overlay[0]))["discovery"]["clock_suspect"]


def test_a_wrong_setting_ends_with_2_and_one_line(launcher):
    node = launcher.launch(listen="0.0.0.0:0")
    assert node.wait() == 2
    assert node.text().startswith("p2prdf_node: setting listen: '0.0.0.0:0' is not a loopback address")
    assert node.text().count("\n") == 1


def test_an_address_in_use_ends_with_2(overlay, launcher):
    second = launcher.launch(listen=overlay[0].address)
    assert second.wait() == 2
    assert f"cannot listen on {overlay[0].address}" in second.text()


async def test_no_node_at_an_address_is_an_unavailable_that_names_it(free_port):
    with pytest.raises(p2prdf.Unavailable, match=f"127.0.0.1:{free_port}"):
        await p2prdf.connect(f"127.0.0.1:{free_port}")


async def test_several_addresses_are_tried_in_turn(overlay, free_port):
    async with p2prdf.connect(f"127.0.0.1:{free_port}, {overlay[3].address}") as client:
        assert client.peer_key == overlay[3].key
