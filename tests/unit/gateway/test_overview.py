"""The gateway checks whether a client may see everything without a request for everything."""

from __future__ import annotations

import pytest

from p2prdf.errors import NotAllowed
from p2prdf.gateway.overview import check_observes


class Client:
    """Lists subscriptions, if that is allowed, and does nothing else."""

    def __init__(self, *, may):
        self.may = may
        self.asked = []

    async def subscriptions(self, *, after=0):
        self.asked.append(after)
        if not self.may:
            raise NotAllowed("client alice may not observe")
        return {"total": 3, "more": False, "subscriptions": [{"number": f"{n:016x}"} for n in (1, 2, 3) if n > after]}


async def test_permission_to_observe_is_checked_with_an_empty_list():
    client = Client(may=True)
    await check_observes(client)
    (after,) = client.asked
    assert (await client.subscriptions(after=after))["subscriptions"] == []


async def test_a_client_without_permission_to_observe_is_refused():
    with pytest.raises(NotAllowed, match="may not observe"):
        await check_observes(Client(may=False))
