"""The blocking client has every public method of the asynchronous one, with the same arguments."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import p2prdf
from p2prdf import client, sync
from p2prdf.client.channel_store import ChannelStore, ChannelSubscription
from p2prdf.client.concluding import Concluding
from p2prdf.client.interest_store import InterestStore

PAIRS = [
    (client.Client, sync.Client), (client.Subscription, sync.Subscription), (client.Stream, sync.Stream),
    (client.Export, sync.Export), (client.Transaction, sync.Transaction), (InterestStore, sync.InterestStore),
    (ChannelStore, sync.ChannelStore),
    (ChannelSubscription, sync.ChannelSubscription), (Concluding, sync.Concluding),
    (client.Cohort, sync.Cohort),
]  # fmt: skip
ELSEWHERE = {
    client.Client: {"open", "acknowledge"},  # called by connect and by a subscription
    client.Subscription: {  # called by the client and by a cohort
        "attached_again", "end", "put_back", "put_back_gathered", "start_over", "take", "take_bookmark",
        "until_bookmark",
    },
    client.Cohort: {"put_back"},  # by the blocking client
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
        assert not re.search(r"\bawait\b|\basync with\b", ours.__doc__), f"{name}: write it for both clients"
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


TYPED = """
from typing import Any, assert_type
import p2prdf.sync
from p2prdf.client import Batch, Result, Solution

client = p2prdf.sync.connect("127.0.0.1:1", timeout_seconds=3.0)
assert_type(client, p2prdf.sync.Client)
assert_type(client.publish([("<urn:a>", "<urn:b>", 1)], by_content=True), int)
assert_type(client.query("ASK {}"), Result)
subscription = client.subscribe("ASK {}", since="beginning")
assert_type(subscription, p2prdf.sync.Subscription)
assert_type(next(subscription), Solution)
assert_type(next(subscription.batches(timeout_seconds=1)), Batch)
assert_type(subscription.token(), bytes)
assert_type(client.interests.status(), list[dict[str, Any]])
client.query(1)  # type: ignore[arg-type]
client.query("ASK {}", timeout=1)  # type: ignore[call-arg]
"""


@pytest.mark.long
def test_calls_have_the_types_of_the_asynchronous_ones_for_strict_programs(tmp_path: Path) -> None:
    """A type comment that suppresses nothing is an error, so wrong arguments are found as well."""
    (tmp_path / "program.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(tmp_path / "program.py")]
    outcome = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
