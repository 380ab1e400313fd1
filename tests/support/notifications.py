"""Notifications of simulated peers, changed on their way to subscribers, to see that the judge notices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from schedules.failures.world import FailingWorld

__all__ = ["with_notifications"]


def with_notifications(change: Callable[..., list[Any]]) -> Callable[[FailingWorld], None]:
    """Return a preparation of a world in which ``change`` turns each notification into some others, or none."""

    def prepare(world: FailingWorld) -> None:
        original = world._notify

        def notify(node: Any, effect: Any) -> None:
            for changed in change(effect):
                original(node, changed)

        world._notify = notify  # type: ignore[method-assign]

    return prepare
