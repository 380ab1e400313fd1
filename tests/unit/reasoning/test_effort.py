"""The choice between repair and recomputation of a step: by counts alone, so these tests are exact."""

from __future__ import annotations

from rule_histories import TRANSITIVE, Numbers

from p2prdf.reasoning.effort import Effort
from p2prdf.reasoning.materialiser import FOREVER, Materialiser

IS_IN = TRANSITIVE.head.p


def _chains(numbers, count, length):
    return [
        numbers.fact(f"<urn:{chain}.{at}>", IS_IN, f"<urn:{chain}.{at + 1}>")
        for chain in range(count)
        for at in range(length)
    ]


def test_the_first_step_recomputes_small_ones_repair_and_large_ones_recompute():
    numbers = Numbers()
    materialiser = Materialiser([TRANSITIVE], numbers)
    edges = _chains(numbers, 50, 6)
    assert materialiser.step(0, dict.fromkeys(edges, FOREVER)).anew
    assert not materialiser.step(1, {}, [edges[0]]).anew
    assert not materialiser.step(2, {edges[0]: FOREVER}).anew
    assert materialiser.step(3, {}, edges[:250]).anew
    assert not materialiser.step(4, {}, [edges[260]]).anew


def test_a_step_with_expirations_alone_repairs():
    numbers = Numbers()
    materialiser = Materialiser([TRANSITIVE], numbers)
    materialiser.step(0, dict.fromkeys(_chains(numbers, 50, 6), 5))
    change = materialiser.step(6)
    assert (change.anew, len(change.removed), len(materialiser)) == (False, 50 * 21, 0)


def test_the_number_of_touched_facts_decides_and_is_remembered():
    effort = Effort()
    assert not effort.anew(100, 1000)
    for _ in range(20):
        effort.touched(100, 900)
    assert effort.anew(100, 1000)
    assert not effort.anew(10, 1000)


def test_during_recomputation_some_steps_count_the_touched_facts_to_find_when_they_are_few_again():
    """Renewing a circle raises all its consequences; once the circle is gone, a renewed fact touches itself alone."""
    numbers = Numbers()
    materialiser = Materialiser([TRANSITIVE], numbers)
    circle = [numbers.fact(f"<urn:{at}>", IS_IN, f"<urn:{(at + 1) % 60}>") for at in range(60)]
    for now in range(7):
        materialiser.step(now, dict.fromkeys(circle, now + 1))
    assert materialiser.step(7, dict.fromkeys(circle, 8)).anew
    materialiser.step(9)
    loose = [numbers.fact(f"<urn:l{at}>", IS_IN, f"<urn:m{at}>") for at in range(300)]
    materialiser.step(10, dict.fromkeys(loose, 1000))
    anew = [materialiser.step(11 + at, dict.fromkeys(loose[:20], 1001 + at)).anew for at in range(60)]
    assert anew[0]
    assert not anew[-1]
