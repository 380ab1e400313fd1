"""All peers drop the same elements of streams, and none that a query still needs."""

from __future__ import annotations

from random import Random

import pytest
from peer_pair import HIGH, LOW
from streaming_pair import IDLE, STREAM, WINDOW, Streaming

from p2prdf import hlc, keys
from p2prdf.columns import ARRAYS, LISTS
from p2prdf.peer import Peer
from p2prdf.peer.progress.retention import whole_from
from p2prdf.rdf.algebra import CountWindow, Window
from p2prdf.wire.contract import ContactSeen, Publish, Published, Send
from p2prdf.wire.messages import Contact, ElementsForgotten

RETENTION = 100
PAIR = """PREFIX : <urn:> REGISTER RSTREAM :out AS
    SELECT ?x ?z FROM NAMED WINDOW :w ON :s [RANGE 1000s STEP 100s] WHERE { WINDOW :w { ?x :p ?y . ?y :p ?z } }"""
LANDMARK = """PREFIX : <urn:> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> REGISTER ISTREAM :out AS
    SELECT ?x ?z FROM NAMED WINDOW :w ON :s [FROM "1970-01-01T00:00:02Z"^^xsd:dateTime TO NOW STEP 1s]
    WHERE { WINDOW :w { ?x :p ?y . ?y :p ?z } }"""


class Kept(Streaming):
    """A pair with a retention of a hundred seconds."""

    opening_seconds = 3.0

    def __init__(self, columns=ARRAYS, **config):
        chosen = {**IDLE, "events": True, "replicas": 2, "stream_retention_seconds": float(RETENTION)}
        super().__init__(columns, **{**chosen, **config})
        for number, contact in enumerate((LOW, HIGH), 1_000_000):  # so each looks the ring up
            column = self.columns.column([self.dictionary.intern("<urn:x>")], "uint32")
            self.submit(contact, Publish(number, 8, number, column, column, column))
        self.pass_time(3.0)

    def at(self, *seconds, x="<urn:a>", y="<urn:b>"):
        """Publish elements of some event times."""
        return self.elements(*[(x, "<urn:p>", y)] * len(seconds), times=[1000 * each for each in seconds])

    def status(self, at=LOW):
        return self.peers[at.key].status()

    @property
    def held(self):
        return [self.status(each)["elements"] for each in (LOW, HIGH)]

    def horizon(self, at=LOW):
        told = self.status(at)["stream_retention"]
        return told[f"{keys.term_hash(STREAM):016x}"]["before"] if told else 0.0


@pytest.mark.parametrize("columns", [ARRAYS, LISTS])
@pytest.mark.parametrize("replicas", [1, 2])
def test_elements_older_than_the_retention_are_held_nowhere(columns, replicas):
    pair = Kept(columns, replicas=replicas)
    pair.at(*range(50))
    assert min(pair.held) > 0
    pair.say(150_000 - 1)
    assert [pair.horizon(each) for each in (LOW, HIGH)] == [50.0, 50.0]
    assert pair.held == [0, 0]
    pair.at(60)
    assert max(pair.held) == 1, "the retention is not over for it"


def test_an_element_later_than_the_retention_is_acknowledged_and_not_stored():
    pair = Kept()
    pair.at(*range(10))
    pair.say(150_000 - 1)
    pair.events = 0
    assert isinstance(pair.at(*range(10)), Published), "the same once more"
    assert isinstance(pair.at(49), Published)
    assert pair.held == [0, 0]
    assert sum(pair.status(each)["elements_late"] for each in (LOW, HIGH)) > 0


def test_the_retention_watermark_grows_by_a_part_of_the_retention():
    pair = Kept()
    pair.at(0)
    pair.say(150_000 - 1)
    pair.say(150_000 + 3000)
    assert pair.horizon() == 50.0
    pair.say(150_000 + 3125 - 1)
    assert pair.horizon() == 53.125


def test_all_is_kept_if_that_is_the_setting():
    pair = Kept(stream_retention_seconds=0.0)
    pair.at(0)
    pair.say(10_000_000)
    assert (min(pair.held), pair.horizon()) == (1, 0.0)


def test_a_peer_with_unlimited_retention_makes_all_others_keep_all():
    pair = Kept()
    pair.peers[HIGH.key]._retention._keep_ms = 0
    pair.at(0)
    pair.say(10_000_000)
    assert pair.horizon() == 0.0


def test_a_wider_window_extends_the_retention_while_it_is_subscribed_to():
    """Elements are kept for its range, ten minutes and three steps before the last report known to all replicas."""
    pair = Kept()
    window = pair.left(PAIR, since=hlc.FIRST)
    pair.at(1200, x="<urn:a>", y="<urn:b>")
    pair.at(2999)
    pair.say(3_000_000)
    assert pair.horizon() <= 3000 - 1000 - 600 - 300
    assert min(pair.held) == 2, "the first may yet have an answer that the home takes in"
    pair.at(1999, x="<urn:b>", y="<urn:c>")
    pair.say(3_000_000)
    assert pair.rows(window) == [], "it came late, and is in no window with the other"
    pair.at(3100, x="<urn:b>", y="<urn:c>")
    pair.say(4_000_000)
    ends = {time.partition("^^")[0] for *_, time in pair.rows(window)}
    assert len(ends) == 9, "with the element of 2999, in the reports from 3100 on to 3900"
    for number in range(3):
        pair.say(7_000_000 + 1000 * number)
    assert pair.horizon() >= 7000 - 1000 - 600 - 300 - 60 - RETENTION / 32
    assert pair.held == [0, 0]


def test_a_subscription_after_elements_were_dropped_begins_with_whole_windows():
    pair = Kept()
    pair.at(100, 140, 151)
    pair.say(200_000)
    assert pair.horizon() == 100.001
    window = pair.left(WINDOW, since=hlc.FIRST)
    pair.say(200_000)
    times = sorted({time.partition("^^")[0][-4:-2] for *_, time in pair.rows(window)})
    assert times == ["20", "21", "31", "32"], "00:02:20 and 21, 00:02:31 and 32; that of 100 is forgotten"


def test_a_subscription_from_the_beginning_is_told_the_present_beginning():
    pair = Kept()
    pair.at(100, 140)
    pair.say(200_000)
    pair.left(WINDOW, since=hlc.FIRST)
    pair.say(200_000)
    told = [
        each.evaluation.reports["begins"]
        for peer in pair.peers.values()
        for each in peer._coordinator.home.subscriptions.values()
        if each.evaluation is not None
    ]
    assert told == [102.0], "the first window of two seconds that begins at the horizon"


def test_a_landmark_window_keeps_all_since_its_start_and_is_ended_if_that_is_forgotten():
    pair = Kept()
    window = pair.left(LANDMARK, since=hlc.FIRST)
    pair.at(1, 3)
    pair.say(9_000_000)
    assert pair.horizon() == 2.0
    assert min(pair.held) == 1
    pair.at(9001, x="<urn:b>", y="<urn:c>")
    pair.say(9_100_000)
    assert len(pair.rows(window)) == 1
    assert not pair.ended
    other = Kept()
    other.at(1, 3)
    other.say(9_000_000)
    other.left(LANDMARK, since=hlc.FIRST)
    other.say(9_000_000)
    (ended,) = other.ended
    assert "forgotten" in ended.text


def test_nothing_is_dropped_while_a_subscriber_wants_all_and_has_had_no_report():
    """The other stream of its query has no publisher."""
    pair = Kept()
    pair.left(
        """PREFIX : <urn:> REGISTER RSTREAM :out AS
        SELECT ?x ?z FROM NAMED WINDOW :w ON :s [RANGE 2s STEP 1s] FROM NAMED WINDOW :u ON :other [RANGE 2s STEP 1s]
        WHERE { WINDOW :w { ?x :p ?y } WINDOW :u { ?y :p ?z } }""",
        since=hlc.FIRST,
    )
    pair.at(0)
    pair.say(9_000_000)
    assert pair.horizon() == 0.0
    assert min(pair.held) == 1


@pytest.mark.parametrize("columns", [ARRAYS, LISTS])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_restarted_peer_has_dropped_the_expired_elements(columns, compacted, monkeypatch):
    pair = Kept(columns, durable=True)
    disk: list = []
    persist = pair.peers[HIGH.key]._messenger.persist
    monkeypatch.setattr(
        pair.peers[HIGH.key]._messenger, "persist", lambda message: (disk.append(message), persist(message))
    )
    pair.at(*range(40, 60))
    pair.say(150_000 - 1)
    kept = list(pair.peers[HIGH.key].snapshot()) if compacted else disk
    anew = Peer(HIGH, pair.peers[HIGH.key].config, pair.dictionary, columns, Random(3))
    anew.restore(kept, now=pair.now)
    assert not compacted or anew.status()["elements"] == 10, "a snapshot has nothing else"
    while anew.deadline is not None and anew.deadline <= pair.now:
        anew.wake(now=pair.now)
    assert anew.status()["elements"] == 10
    assert anew.status()["stream_retention"]
    sent = anew.submit(ContactSeen(Contact(5, "new", 1)), now=pair.now) + anew.wake(now=pair.now)
    told = [each.envelope.message for each in sent if isinstance(each, Send)]
    assert any(isinstance(each, ElementsForgotten) for each in told)


@pytest.mark.parametrize(
    ("window", "horizon", "first"),
    [
        (Window(2000, 1000), 0, 0), (Window(2000, 1000), 5001, 7000), (Window(2000, 1000), 5000, 7000),
        (Window(2000, 1000), 5002, 8000), (Window(2500, 1000), 5001, 8000), (Window(2000, 3000), 5001, 9000),
        (Window(None, 1000, 5001), 5001, 0), (Window(None, 1000, 5000), 5001, None),
    ],
)  # fmt: skip
def test_a_window_is_whole_from_the_first_report_that_needs_nothing_forgotten(window, horizon, first):
    assert whole_from(window, 1000, horizon) == first


LAST_THREE = """PREFIX : <urn:> REGISTER RSTREAM :out AS
    SELECT ?x ?y FROM NAMED WINDOW :w ON :s [ELEMENTS 3 STEP 2] WHERE { WINDOW :w { ?x :p ?y } }"""


def numbered(pair, subscription):
    """Return the seconds of the time of each report, by its number, as often as it has rows."""
    rows = [(number.split('"')[1], time[18:-1].partition("Z")[0]) for *_, time, number in pair.rows(subscription)]
    return sorted((int(number), time) for number, time in rows)


def test_a_window_by_count_extends_the_retention_until_its_elements_are_counted():
    pair = Kept()
    window = pair.left(LAST_THREE, since=hlc.FIRST)
    pair.at(1)
    pair.say(150_000)
    assert (min(pair.held), pair.horizon()) == (1, 0.0), "it is counted when the second one comes"
    pair.at(160, y="<urn:c>")
    pair.say(300_000)
    assert {number for number, _ in numbered(pair, window)} == {1}
    assert pair.horizon() == 0.0, "so few are in the window, as they are"
    for seconds in range(400, 1600, 100):
        pair.at(seconds)
        pair.say(1000 * seconds)
    pair.say(3_000_000)
    assert numbered(pair, window)[-1][0] == 7
    assert pair.horizon() == 1000.0, "of five elements before the last one that is counted, the first"


def test_a_count_window_after_elements_were_dropped_counts_from_there():
    pair = Kept()
    pair.at(100, 101)
    pair.at(140, x="<urn:c>")
    pair.at(151)
    pair.at(152, x="<urn:c>")
    pair.say(200_000)
    assert pair.horizon() == 100.001
    assert whole_from(CountWindow(3, 2, STREAM), 0, 100_001) == 100_001
    window = pair.left(LAST_THREE, since=hlc.FIRST)
    pair.say(200_000)
    assert set(numbered(pair, window)) == {(1, "20"), (2, "32")}, "of 00:02:20 and 00:02:32; that of 100 is forgotten"
