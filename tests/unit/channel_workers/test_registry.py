"""Registered channels are read with care, and each knowledge base has one channel worker, the same at every node."""

from __future__ import annotations

import pytest

from p2prdf.channel_workers.registry import ChannelRegistry
from p2prdf.channels import Categories, Evaluation, Settings
from p2prdf.channels.registration import (
    CHANNEL,
    CHANNEL_WORKERS,
    ChannelRegistration,
    binding_literal,
    name_of,
    notifications_graph,
    read_binding,
    read_channel,
    read_settings,
    subject_of,
)
from p2prdf.errors import DataRefused, LocalProtocolError, QueryRefused
from p2prdf.rdf import terms

QUERY = "SELECT ?x { ?x a <urn:C> }"
NAMES = [CHANNEL_WORKERS.subject(number) for number in (7, 8, 9)]


def made(name: str, base: str = "<urn:b>", query: str = QUERY, **settings: object) -> ChannelRegistration:
    return ChannelRegistration(name, base, query, settings)


def registry_of(*channels: ChannelRegistration) -> ChannelRegistry:
    registry = ChannelRegistry()
    for each in channels:
        registry.take(each.triple, removed=False)
    for name in NAMES:
        registry.take((name, CHANNEL_WORKERS.predicate, '"{}"'), removed=False)
    return registry


def test_each_knowledge_base_is_one_hosts_own_and_moves_only_when_that_goes() -> None:
    channels = [made(f"c{number}", f"<urn:b{number % 40}>") for number in range(80)]
    registry = registry_of(*channels)
    own = {name: registry.share(name).own for name in NAMES}
    assert sorted(base for each in own.values() for base in each) == sorted({each.base for each in channels})
    assert all(each for each in own.values()), "all have something to do"
    assert all(len(named) == 2 for each in own.values() for named in each.values()), "its channels are together"
    registry.membership.expired.add(NAMES[0])
    for name in NAMES[1:]:
        assert own[name].keys() <= registry.share(name).own.keys(), "what was theirs is theirs"
    left = sorted(base for name in NAMES[1:] for base in registry.share(name).own)
    assert left == sorted({each.base for each in channels}), "and what it had is somebody's"
    assert registry.bases() == {each.base for each in channels}
    registry.take(channels[0].triple, removed=True)
    assert "c0" not in {one for name in NAMES for each in registry.share(name).own.values() for one in each}


def test_a_bad_or_duplicate_channel_is_refused_by_one_worker() -> None:
    registry = registry_of(made("good"), made("twice"), made("twice", "<urn:c>"))
    registry.take((subject_of("odd"), CHANNEL, '"[]"'), removed=False)
    registry.take((subject_of("query"), CHANNEL, made("query", query="ASK { ?x ?y ?z }").triple[2]), removed=False)
    registry.take(("<urn:x>", CHANNEL, '"{}"'), removed=False)
    shares = [registry.share(name) for name in NAMES]
    assert [name for share in shares for each in share.own.values() for name in each] == ["good"]
    refused = [each for share in shares for each in share.refused.items()]
    assert {name for name, _ in refused} == {"twice", "odd", "query"}
    assert len(refused) == 3
    assert "registered twice" in dict(refused)["twice"]


def test_a_channel_is_read_as_it_was_written() -> None:
    channel = made("n.1", heuristics=["shape"], evaluation="incremental", patience=1)
    assert read_channel(channel.triple[0], channel.triple[2]) == channel
    assert read_settings(channel.settings) == Settings(
        heuristics=(Categories.SHAPE,), evaluation=Evaluation.INCREMENTAL, patience=1
    )
    assert name_of(subject_of("n.1")) == "n.1"
    assert name_of("<urn:p2prdf:channel:a b>") is None
    assert notifications_graph("<urn:a>") != notifications_graph("<urn:b>")
    assert read_binding(binding_literal(("<urn:a>", '"é\\n"'))) == ("<urn:a>", '"é\\n"')


@pytest.mark.parametrize("text", [
    "x", "[]", "{}", '{"base": 1, "query": "x", "settings": {}}', '{"base": "<urn:b>", "query": "x"}', "[" * 100_000,
    '{"base": "<urn:b>", "query": "SELECT ?x { ?x a <urn:C> }", "settings": []}',
    '{"base": "urn:b", "query": "SELECT ?x { ?x a <urn:C> }", "settings": {}}',
    '{"base": "<urn:b>", "query": "nonsense", "settings": {}}',
])  # fmt: skip
def test_a_bad_channel_is_refused(text: str) -> None:
    with pytest.raises(DataRefused):
        read_channel(subject_of("n"), terms.literal(text))


@pytest.mark.parametrize(("settings", "reason"), [
    ({"speed": 1}, "no setting 'speed'"), ({"skip_max": "1"}, "skip_max"), ({"skip_max": True}, "skip_max"),
    ({"patience": "x"}, "patience"), ({"switched": 1}, "switched"), ({"heuristics": "count"}, "heuristics|Categories"),
    ({"heuristics": 3}, "not iterable"), ({"evaluation": "best"}, "best"), ({"threshold": 1}, "threshold"),
    ({"heuristics": ["count", "count"]}, "a name is repeated"),
])  # fmt: skip
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(LocalProtocolError, match=reason):
        read_settings(settings)


def test_a_channel_is_checked_before_its_registration() -> None:
    for wrong, error in ((made("a b"), LocalProtocolError), (made("n", "x"), DataRefused),
                         (made("n", query="SELECT ?x {"), QueryRefused)):  # fmt: skip
        with pytest.raises(error):
            wrong.check()
    made("n").check()
