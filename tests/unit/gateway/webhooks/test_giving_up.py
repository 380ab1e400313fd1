"""Time limits of failing receivers, with clocks that are set in between or differ between gateways."""

import time
from types import SimpleNamespace

import pytest

from p2prdf.gateway.webhooks import delivery
from p2prdf.gateway.webhooks.delivery import Delivery, DeliveryConfig

DAY = 86_400.0


class Notes:
    """Stores the notes of a delivery."""

    def __init__(self):
        self.failing_since = None
        self.stop = None

    async def failing(self, webhook, since, error):
        self.failing_since = since

    async def stopped(self, webhook, stop):
        self.stop = stop
        raise InterruptedError  # or the delivery would wait for its end


@pytest.fixture
def begun(monkeypatch):
    """Begin the delivery of a webhook; ``failing_since`` is the time of its receiver's first failure, 0 for none."""
    monkeypatch.setattr(delivery, "_shortened", lambda _: 0.0)

    def begin(failing_since):
        webhook = SimpleNamespace(
            failing=(failing_since, "") if failing_since else None, has_gap=False,
            registration=SimpleNamespace(key="", identity=""),
        )  # fmt: skip
        keys = SimpleNamespace(secret=lambda *_: b"")
        notes = Notes()
        made = Delivery(webhook, None, None, keys, notes, DeliveryConfig(), holds_lease=lambda: True)
        return made, notes

    return begin


async def test_a_wall_clock_that_is_set_forward_is_no_reason_to_give_a_receiver_up(begun, monkeypatch):
    made, notes = begun(0.0)
    await made._wait_after("refused")
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + 365 * DAY)
    await made._wait_after("refused")
    assert notes.stop is None


async def test_a_receiver_that_fails_since_a_time_in_the_future_fails_since_now(begun):
    made, notes = begun(time.time() + 30 * DAY)
    await made._wait_after("refused")
    assert made.failing_since == pytest.approx(time.time(), abs=60.0)
    assert notes.stop is None


async def test_a_receiver_that_fails_for_a_day_is_given_up_by_the_next_gateway_too(begun):
    made, notes = begun(time.time() - DAY - 1.0)
    with pytest.raises(InterruptedError):
        await made._wait_after("refused")
    assert "fails for 86,40" in notes.stop.reason
