"""Steps of a cluster check are selected with the steps that they need, in a fixed order."""

from __future__ import annotations

import pytest
from cluster_check.plan import STEPS, UnknownStep, selected
from cluster_check.steps import RUN

NAMES = [step.name for step in STEPS]


def names(*wanted: str, skipped: tuple[str, ...] = ()) -> list[str]:
    return [step.name for step in selected(wanted, skipped=skipped)]


def test_every_step_has_a_function_and_every_need_is_an_earlier_step() -> None:
    assert set(RUN) == set(NAMES)
    for at, step in enumerate(STEPS):
        assert set(step.needs) <= set(NAMES[:at])


def test_all_steps_run_without_a_selection() -> None:
    assert names() == NAMES


def test_a_selected_step_brings_the_steps_it_needs_and_the_order_is_fixed() -> None:
    assert names("scale", "rolling") == ["start", "rolling", "scale"]
    assert names("tls") == ["tls"]


def test_a_skipped_step_does_not_run_even_if_another_one_needs_it() -> None:
    assert names("rolling", skipped=("start",)) == ["rolling"]


@pytest.mark.parametrize(("wanted", "skipped"), [(("roling",), ()), ((), ("roling",))])
def test_an_unknown_step_is_refused_with_the_list_of_steps(wanted: tuple[str, ...], skipped: tuple[str, ...]) -> None:
    with pytest.raises(UnknownStep, match=r"no step 'roling'; the steps are validate, docs, "):
        selected(wanted, skipped=skipped)
