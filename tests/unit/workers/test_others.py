"""Detection of other workers, where subscriptions have owners."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from p2prdf.errors import NotAllowed, SubscriptionGone, Unavailable
from p2prdf.workers.group import WorkerGroup
from p2prdf.workers.worker import Worker

GROUP = WorkerGroup("<urn:keepers>", "<urn:keeps>", "<urn:keeper:", "<urn:asks>")


class Looking(Worker):
    """A worker that does nothing but watch others."""

    def __init__(self, others):
        super().__init__(lambda **_: None, GROUP, "", lease_seconds=1, check_seconds=1, tell=lambda _, __: None)
        self.name = GROUP.subject(1)
        self.known.membership.workers = lambda: [self.name, *map(GROUP.subject, others)]

    def _new_registry(self):
        return SimpleNamespace(membership=SimpleNamespace(expired=set()), take=None)

    def _properties(self):
        return {}

    async def _share(self, overlay):
        pass

    async def _answer(self, overlay, request):
        pass

    async def _stop_work(self):
        pass

    async def _lease_expired(self):
        pass


class Overlay:
    """Explains subscriptions, or refuses with a reason."""

    def __init__(self, says):
        self._says = says
        self.asked = []

    async def explain(self, number):
        self.asked.append(number)
        if number in self._says:
            raise self._says[number]
        return {}


async def test_another_clients_subscription_is_there():
    says = {2: NotAllowed("another client's"), 3: SubscriptionGone("gone"), 4: Unavailable("no answer")}
    overlay = Overlay(says)
    assert await Looking([2, 3, 4, 5])._find_expired(overlay) == [GROUP.subject(3)]
    assert overlay.asked == [2, 1, 3, 4, 5]


async def test_a_worker_without_permission_to_explain_reports_it():
    overlay = Overlay({each: NotAllowed("client keeper may not observe") for each in (1, 2)})
    with pytest.raises(NotAllowed, match="may not observe"):
        await Looking([2])._find_expired(overlay)
