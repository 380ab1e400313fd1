"""The blocking client with real nodes: calls, threads, interrupts, loops that run, and the interpreter's exit."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import p2prdf
import p2prdf.sync
from p2prdf.client.export import LAST_PLACE

_names = itertools.count()
THREAD = "p2prdf-sync"


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:sync{next(_names)}:"


@pytest.fixture
def client(keeping_all):
    with p2prdf.sync.connect(keeping_all[0].address) as client:
        yield client


def numbered(ns, count, first=0):
    return [(f"<{ns}s{n}>", f"<{ns}p>", n) for n in range(first, first + count)]


def everything(ns):
    return f"SELECT ?s ?o {{ ?s <{ns}p> ?o }}"


def values(solutions):
    return sorted(solution.value("o") for solution in solutions)


@contextlib.contextmanager
def interrupted(wait_until, seconds=10.0):
    """Send this process a SIGINT once a condition holds."""

    def send():
        deadline = time.monotonic() + seconds
        while not wait_until() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        thread.join()


# --- calls -------------------------------------------------------------------------------------------------------


def test_data_is_published_queried_updated_deleted_and_explained(client, ns):
    assert client.publish(numbered(ns, 5)) == 5
    result = client.query(everything(ns))
    assert values(result) == [0, 1, 2, 3, 4]
    assert client.update(f"DELETE {{ ?s <{ns}p> 4 }} WHERE {{ ?s <{ns}p> 4 }}").deleted == 1
    assert client.retract(numbered(ns, 1)) == 1
    assert values(client.query(everything(ns))) == [1, 2, 3]
    assert client.explain(everything(ns))["form"] == "select"
    assert client.status()["key"] == client.peer_key
    assert client.stamp() < client.stamp()
    assert client.peer_address.startswith("127.0.0.1:")
    assert client.others


def test_subscription_yields_solutions_and_ends_when_nothing_arrives(client, ns):
    subscription = client.subscribe(everything(ns))
    client.publish(numbered(ns, 3))
    assert values(itertools.islice(subscription, 3)) == [0, 1, 2]
    assert list(subscription.solutions(timeout_seconds=0.1)) == []
    client.publish(numbered(ns, 2, first=3))
    assert values(itertools.islice(subscription.solutions(timeout_seconds=20), 2)) == [3, 4]
    assert client.explain(subscription)["subscription"]["number"] == f"{subscription.id:016x}"
    assert (subscription.names, subscription.lost) == (("s", "o"), 0)
    subscription.unsubscribe()


def test_time_of_zero_takes_only_solutions_that_are_waiting(client, ns):
    subscription = client.subscribe(everything(ns))
    client.publish(numbered(ns, 3))
    deadline = time.monotonic() + 20
    found = []
    while len(found) < 3:
        found += subscription.solutions(timeout_seconds=0)
        assert time.monotonic() < deadline
    assert values(found) == [0, 1, 2]
    assert not subscription.waiting


def test_token_resumes_at_another_node_without_loss_or_repetition(keeping_all, ns):
    with p2prdf.sync.connect(keeping_all[1].address) as client:
        subscription = client.subscribe(everything(ns), auto_acknowledge=False)
        client.publish(numbered(ns, 10))
        first = values(itertools.islice(subscription, 4))
        token = subscription.token()
        subscription.acknowledge()
    with p2prdf.sync.connect(keeping_all[2].address) as client:
        again = client.attach(token, query=everything(ns))
        assert sorted(first + values(itertools.islice(again, 6))) == list(range(10))
        assert list(again.solutions(timeout_seconds=0.3)) == []
        with pytest.raises(p2prdf.TokenMismatch):
            client.attach(token, query="SELECT ?s { ?s <urn:other> ?o }")


def test_batches_go_on_after_a_time_without_any(client, ns):
    subscription = client.subscribe(everything(ns))
    assert list(subscription.batches(timeout_seconds=0.1)) == []
    client.publish(numbered(ns, 10))
    found = []
    while len(found) < 10:
        batches = [next(subscription.batches(solutions_max=4, timeout_seconds=20))]
        assert max(map(len, batches)) <= 4
        found += itertools.chain.from_iterable(batches)
    assert values(found) == list(range(10))


def test_result_is_a_data_frame_with_typed_columns(client, ns):
    pytest.importorskip("pandas")
    client.publish(numbered(ns, 5))
    frame = client.query(everything(ns) + " ORDER BY ?o").to_pandas()
    assert list(frame.columns) == ["s", "o"]
    assert (frame["o"].dtype, frame["o"].sum(), frame["s"][0]) == ("int64", 10, f"<{ns}s0>")


def test_errors_are_those_of_the_asynchronous_client(client, ns):
    with pytest.raises(p2prdf.QueryRefused) as refused:
        client.query("SELECT ?s\nWHERE { ?s ?p ")
    assert refused.value.line == 2
    with pytest.raises(p2prdf.DataRefused):
        client.publish([("no term", f"<{ns}p>", 1)])
    with pytest.raises(p2prdf.SubscriptionGone):
        client.attach(0x1234)
    with pytest.raises(p2prdf.Unavailable, match=r"127\.0\.0\.1:1"):
        p2prdf.sync.connect("127.0.0.1:1")
    with pytest.raises(p2prdf.LocalProtocolError, match="no address"):
        p2prdf.sync.connect("")


def test_source_may_be_a_generator_that_reads_through_the_same_client(client, ns):
    client.publish(numbered(ns, 3))
    rows = (each for each in client.query(everything(ns)))
    doubled = ((row["s"], f"<{ns}double>", 2 * row.value("o")) for row in rows if client.status())
    assert client.publish(doubled) == 3
    assert values(client.query(f"SELECT ?o {{ ?s <{ns}double> ?o }}")) == [0, 2, 4]


def test_transaction_takes_effect_at_the_end_of_its_block(client, ns):
    client.publish(numbered(ns, 2))
    with client.transaction() as transaction:
        transaction.retract(numbered(ns, 1))
        transaction.publish(each for each in numbered(ns, 3, first=7) if client.status())
        assert len(transaction) == 4
        assert values(client.query(everything(ns))) == [0, 1]
    assert transaction.stamp
    assert values(client.query(everything(ns))) == [1, 7, 8, 9]
    with pytest.raises(ZeroDivisionError), client.transaction() as transaction:
        transaction.publish(numbered(ns, 1, first=1 // 0))
    assert transaction.stamp == 0


def test_stream_promises_event_times_and_is_closed_with_its_context(client, ns):
    with client.stream(f"<{ns}in>") as stream:
        assert stream.publish(numbered(ns, 3), time=1_700_000_000) == 3
        assert stream.events == 3
        stream.heartbeat(1_700_000_100)
        assert stream.promised == 1_700_000_100_000
    with pytest.raises(p2prdf.LocalProtocolError, match="closed"):
        stream.publish(numbered(ns, 1))


def test_export_is_read_page_by_page_and_continued(client, ns):
    client.publish(numbered(ns, 3))
    export = client.export()
    pages = list(export.pages())
    assert pages[-1].upto == LAST_PLACE
    assert sum(f"<{ns}p>" in line for page in pages for line in page.lines) == 3
    again = client.continue_export(export.number, export.stamp)
    rest = [line for page in again.pages(after=pages[0].upto) for line in page.lines]
    assert rest == [line for page in pages[1:] for line in page.lines]
    export.end()


def test_derived_graph_is_kept_while_the_caller_iterates(client, ns):
    client.publish(numbered(ns, 2))
    query = f"CONSTRUCT {{ ?s <{ns}q> ?o }} WHERE {{ ?s <{ns}p> ?o }}"
    with client.derive(query, f"<{ns}g>") as changes:
        assert next(changes).added == 2
        assert len(client.query(f"SELECT ?o {{ GRAPH <{ns}g> {{ ?s <{ns}q> ?o }} }}")) == 2
    assert list(changes) == []
    assert client.drop_derived(f"<{ns}g>") == 2


def test_rules_stand_while_the_context_lasts(client, ns):
    from p2prdf.reasoning import parse_rules

    rules = parse_rules(f"PREFIX : <{ns}> CONSTRUCT {{ ?s :q ?o }} WHERE {{ ?s :p ?o }}")
    with client.conclude(rules, f"<{ns}derived>") as concluding:
        assert concluding.rules > 0
        client.publish(numbered(ns, 2))
        derived = client.subscribe(f"SELECT ?o {{ GRAPH <{ns}derived> {{ ?s <{ns}q> ?o }} }}", since="beginning")
        assert values(itertools.islice(derived, 2)) == [0, 1]


def test_stores_of_interests_and_channels_answer(client):
    assert isinstance(client.interests.registered(), list)
    assert isinstance(client.channels.registered(), list)
    with pytest.raises(p2prdf.LocalProtocolError, match="no channel"):
        client.channels.subscribe("none")


# --- threads, loops and interrupts -------------------------------------------------------------------------------


def test_threads_share_a_client_and_a_subscription(client, ns):
    def take():
        while len(found) < 100 and time.monotonic() < deadline:
            found.extend(subscription.solutions(timeout_seconds=0.1))

    found, deadline = [], time.monotonic() + 30
    subscription = client.subscribe(everything(ns), auto_acknowledge=False)
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        taking = [threads.submit(take) for _ in range(4)]
        sent = [threads.submit(client.publish, numbered(ns, 25, first=25 * n)) for n in range(4)]
        assert [each.result() for each in sent] == [25] * 4
        assert [each.result() for each in taking] == [None] * 4
    assert values(found) == list(range(100))


async def test_calls_work_in_a_thread_whose_loop_is_running(keeping_all, ns):
    assert asyncio.get_running_loop().is_running()
    with p2prdf.sync.connect(keeping_all[0].address) as client:
        client.publish(numbered(ns, 2))
        assert values(client.query(everything(ns))) == [0, 1]
        subscription = client.subscribe(everything(ns), since="beginning")
        assert values(itertools.islice(subscription.solutions(timeout_seconds=20), 2)) == [0, 1]


def test_interrupt_ends_the_waiting_and_loses_no_solution(client, ns):
    subscription = client.subscribe(everything(ns))
    with pytest.raises(KeyboardInterrupt), interrupted(lambda: subscription._turn.locked()):
        next(subscription)
    client.publish(numbered(ns, 2))
    assert values(itertools.islice(subscription, 2)) == [0, 1]
    with pytest.raises(KeyboardInterrupt), interrupted(lambda: subscription._turn.locked()):
        list(subscription.batches())
    client.publish(numbered(ns, 1, first=2))
    assert values(next(subscription.batches())) == [2]


def test_item_that_an_interrupted_call_did_not_return_is_delivered_again(client, ns):
    def put_back(taken):
        client._background.read(lambda: subscription._behind.put_back(taken))

    subscription = client.subscribe(everything(ns), auto_acknowledge=False)
    client.publish(numbered(ns, 9))
    next(subscription)
    token = subscription.token()
    second = next(subscription)
    put_back(second)
    assert subscription.token() == token
    assert next(subscription).sequence == second.sequence
    batch = next(subscription.batches(solutions_max=3))
    put_back(batch)
    assert next(subscription.batches()).first == batch.first


def test_solution_after_a_part_of_a_batch_is_the_next_one(client, ns):
    subscription = client.subscribe(everything(ns))
    client.publish(numbered(ns, 9))
    last = 0
    while last < 9:
        batch = next(subscription.batches(solutions_max=2))
        assert batch.first == last + 1
        last = batch.last
        if last < 9:
            last += 1
            assert next(subscription).sequence == last


def test_interrupted_publication_stops_and_the_client_goes_on(client, ns):
    def source():
        yield from numbered(ns, 1)
        begun.set()
        assert done.wait(20)

    begun, done = threading.Event(), threading.Event()
    with pytest.raises(KeyboardInterrupt), interrupted(begun.is_set):
        client.publish(source())
    done.set()
    assert client.publish(numbered(ns, 1, first=1)) == 1
    assert values(client.query(everything(ns))) in ([0, 1], [1])


def test_callback_that_calls_the_client_is_refused_instead_of_waiting_for_itself(client, ns):
    with pytest.raises(p2prdf.LocalProtocolError, match="would wait for itself"):
        client.publish(numbered(ns, 1), on_progress=lambda _: client.status())


def test_closing_ends_the_calls_of_other_threads_and_refuses_later_ones(keeping_all, ns):
    client = p2prdf.sync.connect(keeping_all[0].address)
    subscription = client.subscribe(everything(ns))
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(next, subscription)
        while not subscription._turn.locked():
            time.sleep(0.01)
        client.close()
        with pytest.raises(p2prdf.Unavailable, match="the client was closed"):
            waiting.result()
    client.close()
    assert subscription.names == ("s", "o")
    with pytest.raises(p2prdf.Unavailable, match="the client was closed"):
        client.status()


def threads_of_clients():
    return [thread for thread in threading.enumerate() if thread.name == THREAD]


def test_abandoned_client_is_closed_when_it_is_collected(keeping_all):
    before = len(threads_of_clients())
    client = p2prdf.sync.connect(keeping_all[0].address)
    assert len(threads_of_clients()) == before + 1
    del client
    gc.collect()
    assert len(threads_of_clients()) == before


def test_failed_connection_leaves_no_thread():
    before = len(threads_of_clients())
    with pytest.raises(p2prdf.Unavailable):
        p2prdf.sync.connect("127.0.0.1:1", connect_seconds=1)
    assert len(threads_of_clients()) == before


PROGRAMS = {
    "an open client": "",
    "an open subscription": "s = client.subscribe('SELECT ?o { ?s <urn:never> ?o }')",
    "a thread that waits": (
        "s = client.subscribe('SELECT ?o { ?s <urn:never> ?o }')\n"
        "threading.Thread(target=lambda: list(s.solutions(timeout_seconds=3600)), daemon=True).start()\n"
        "while not s._turn.locked(): pass"
    ),
    "an open stream": "stream = client.stream('<urn:never>', live=True); stream.publish([('<urn:a>', '<urn:b>', 1)])",
    "an iterator": (
        "changes = client.derive('CONSTRUCT { ?s <urn:q> ?o } { ?s <urn:never> ?o }', '<urn:g>')\n"
        "next(changes)"
    ),
    "a client in a child": (
        "import os\n"
        "if os.fork() == 0:\n"
        "    try: client.status()\n"
        "    except p2prdf.LocalProtocolError as error: print(error)\n"
        "    sys.exit(0)\n"
        "assert os.wait()[1] == 0"
    ),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_interpreter_exits_quietly_with(keeping_all, program):
    code = (
        "import sys, threading, p2prdf.sync\n"
        f"client = p2prdf.sync.connect('{keeping_all[0].address}')\n"
        f"{program}\n"
        "print('end')"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    outcome = subprocess.run(
        [sys.executable, "-W", "default", "-c", code], env=environment,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.endswith("end\n")
    assert outcome.stderr == ""
