"""The blocking client has every public method of the asynchronous one, with the same arguments."""

from __future__ import annotations

import inspect

import pytest

import p2prdf
from p2prdf import client, sync
from p2prdf.client.channel_store import ChannelStore, ChannelSubscription
from p2prdf.client.concluding import Concluding
from p2prdf.client.interest_store import InterestStore

PAIRS = [
    (client.Client, sync.Client), (client.Subscription, sync.Subscription), (client.Stream, sync.Stream),
    (client.Export, sync.Export), (InterestStore, sync.InterestStore), (ChannelStore, sync.ChannelStore),
    (ChannelSubscription, sync.ChannelSubscription), (Concluding, sync.Concluding),
]  # fmt: skip
ELSEWHERE = {
    client.Client: {"open", "acknowledge"},  # called by connect and by a subscription
    client.Subscription: {"attached_again", "end", "put_back", "start_over", "take", "take_bookmark"},  # by the client
    client.Stream: {"use"},  # by the client
}
"""Methods that applications do not call."""
INNER = {"ledger", "query_mark", "bookmarks", "hurry"}
"""Attributes that other modules of the client use."""
MORE = {
    client.Subscription: {"batches": {"timeout_seconds"}},
    client.Client: {},
}
"""Arguments that only the blocking method has."""


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def attributes(kind: type) -> set[str]:
    """Return the public attributes that the constructor sets."""
    code = kind.__init__.__code__  # type: ignore[misc]
    return {name for name in code.co_names if f"self.{name} = " in inspect.getsource(kind.__init__)} - INNER  # type: ignore[misc]


@pytest.mark.parametrize(("there", "here"), PAIRS, ids=lambda kind: kind.__name__)
def test_blocking_class_has_every_public_name_of_the_asynchronous_one(there: type, here: type) -> None:
    wanted = {name for name in public(there) | attributes(there) if not name.startswith("_")}
    missing = wanted - ELSEWHERE.get(there, set()) - public(here) - attributes(here)
    assert not missing, f"p2prdf.sync.{here.__name__} lacks {sorted(missing)}"


@pytest.mark.parametrize(("there", "here"), PAIRS, ids=lambda kind: kind.__name__)
def test_blocking_methods_have_the_arguments_and_docstrings_of_the_asynchronous_ones(there: type, here: type) -> None:
    for name in public(there) & public(here):
        theirs, ours = getattr(there, name), getattr(here, name)
        assert ours.__doc__, f"{here.__name__}.{name} has no docstring"
        assert not inspect.iscoroutinefunction(ours), name
        if inspect.isfunction(theirs):
            wanted, found = (
                {each.name: (each.kind, each.default) for each in inspect.signature(method).parameters.values()}
                for method in (theirs, ours)
            )
            for more in MORE.get(there, {}).get(name, ()):
                del found[more]
            assert found == wanted, f"{here.__name__}.{name}"


def test_connecting_takes_the_arguments_of_the_asynchronous_connect() -> None:
    assert inspect.signature(sync.connect) == inspect.signature(p2prdf.connect)
