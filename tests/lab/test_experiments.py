"""The shapes that the seed paper reports, asserted at a small scale; full scale is in docs/experiments.md."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from p2prdf.errors import LocalProtocolError
from p2prdf_lab.experiments import EXPERIMENTS
from p2prdf_lab.experiments.results import by_rank, gini, share_of_top
from p2prdf_lab.experiments.setting import Setting
from p2prdf_lab.fleets.places import Places, even_positions, random_positions

SCALES = {"address-cache": 0.2, "agreement": 0.05}
SETTINGS = {"hot-keys": Setting(peers=32, queries=4, triples=9_000, instances=1, values=1)}


LONG = ("hot-keys",)
EACH = [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in EXPERIMENTS]


@pytest.mark.parametrize("name", EACH)
def test_every_shape_of_the_paper_holds_at_a_small_scale(name):
    experiment = EXPERIMENTS[name]
    told = []
    setting = SETTINGS.get(name) or experiment.at(SCALES.get(name, 0.02))
    result = experiment.run(setting, told.append)
    assert [claim for claim in result.claims if not claim.holds] == []
    assert len(result.claims) >= 5
    assert told == sorted(told)
    assert told[-1] == 1.0
    document = json.loads(json.dumps(result.as_dict()))
    assert document["name"] == name
    for panel in document["panels"]:
        assert panel["y_label"]
        assert panel["title"]
        assert all(len(curve["x"]) == len(curve["y"]) > 1 for curve in panel["curves"])
    for table in document["tables"]:
        assert all(len(row) == len(table["columns"]) for row in table["rows"])


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    experiment = EXPERIMENTS["load-distribution"]
    small = Setting(peers=100, queries=200, triples=1000, instances=5, values=5)
    once, again = (experiment.run(small, lambda _: None).as_dict() for _ in range(2))
    other = experiment.run(Setting(peers=100, queries=200, triples=1000, instances=5, values=5, seed=2), lambda _: None)
    assert once == again != other.as_dict()


def test_settings_that_cannot_be_run_are_refused_by_name():
    for scale in (0, -1, 5, float("nan")):
        with pytest.raises(LocalProtocolError, match="scale"):
            Setting().scaled(scale)
    for bad in ({"peers": 0}, {"triples": 10**9}, {"key_encoding": "rot13"}):
        with pytest.raises(LocalProtocolError):
            Setting(**bad).validate()


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("size", [{}, {"peers": 1}, {"queries": 1}, {"triples": 1}, {"instances": 1, "values": 1}])
def test_the_smallest_sizes_have_results_or_are_refused_by_name(name, size):
    setting = replace(
        EXPERIMENTS[name].setting, **{"peers": 4, "queries": 4, "triples": 60, "instances": 3, "values": 3} | size
    )
    too_small = [part for part, least in EXPERIMENTS[name].least if getattr(setting, part) < least]
    if too_small:
        with pytest.raises(LocalProtocolError, match=f"{too_small[0]}: this experiment needs at least"):
            EXPERIMENTS[name].run(setting)
    else:
        assert EXPERIMENTS[name].run(setting).tables


def test_gini_and_shares_of_known_loads():
    assert gini(np.array([5, 5, 5, 5])) == pytest.approx(0.0)
    assert gini(np.array([0, 0, 0, 8])) == pytest.approx(0.75)
    assert gini(np.zeros(3, np.int64)) == 0.0
    assert share_of_top(np.array([1] * 99 + [101])) == pytest.approx(0.505)


def test_cumulative_load_starts_at_nothing_and_ends_at_everything():
    curve = by_rank("x", np.arange(1000))
    assert (curve.x[0], curve.y[0]) == (0.0, 0.0)
    assert (curve.x[-1], curve.y[-1]) == (1000.0, float(np.arange(1000).sum()))
    assert list(curve.y) == sorted(curve.y)
    assert len(curve.x) <= 402


@pytest.mark.parametrize("overlay", ["chord", "kademlia"])
@pytest.mark.parametrize("peers", [1, 2, 7, 64, 100])
def test_even_places_leave_nobody_more_than_twice_the_mean(overlay, peers):
    keys = np.random.default_rng(1).integers(0, 1 << 64, size=100_000, dtype=np.uint64)
    owned = np.bincount(Places(even_positions(peers), overlay).owners(keys), minlength=peers)
    assert owned.max() <= 2.1 * owned.mean()


def test_random_places_are_all_different():
    assert len(set(random_positions(1000, 3))) == 1000
    assert random_positions(10, 3) == random_positions(10, 3) != random_positions(10, 4)
