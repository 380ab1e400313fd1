"""The subscription coordinator: equal queries are one group, and each answer reaches its subscriptions, once."""

from __future__ import annotations

from p2prdf import keys
from p2prdf.columns import LISTS
from p2prdf.continuous.home import Home
from p2prdf.continuous.identities import group_home, home_key, subscription_home
from p2prdf.continuous.records import Known
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, make_plan
from p2prdf.rdf.standing.query import parse_query
from p2prdf.wire.messages import Contact, KeepSubscription, OpenSubscription
from p2prdf.wire.validation import KNOWN_MAX

WHO = Contact(5, "h", 5)


def opening(request: int, constant: str = "<p>") -> OpenSubscription:
    """An opening of (?0 constant ?1)."""
    query = ConjunctiveQuery(((0, ~0, 1),), (constant,), (0, 1), ("a", "b"))
    key = home_key(query, Algorithm.CSBV)
    return OpenSubscription(request, key, query, "csbv", False, WHO, 60.0)


def opened(home: Home, request: int, since: int):
    """Open a subscription and return it."""
    message = opening(request)
    group, _ = home.open_group(message, stamp=7)
    return home.subscribe(group, message, since, now=0.0)


def test_a_lease_of_no_length_is_over_once_each_time_it_is_looked_at():
    """It came from another peer, say, and must not keep the search for expired leases busy."""
    home = Home(LISTS, log_rows_max=100)
    subscription = opened(home, 1, since=0)
    subscription.lease_seconds = subscription.lease_until = 0.0
    for now in (1e9, 1e9 + 100.0):
        assert home.expired(now) == [subscription.number]
        assert home.expired(now) == []
    assert home.deadline is not None
    assert home.deadline > 1e9 + 100.0


def rows(home: Home, group, *answers: tuple[int, int]) -> None:
    """Record answers given as (identity, oldest)."""
    identity, oldest = (list(column) for column in zip(*answers, strict=True))
    home.record(group, identity, oldest, oldest, (identity, identity))


def told(subscription) -> list[int]:
    """Return the delivered identities."""
    return [each for chunk in subscription.log.take(1000, 1000) for each in chunk.identity]


def test_two_coordinators_of_a_query_that_begin_at_the_same_moment_give_different_names():
    """As in a partition: otherwise two subscriptions had one number (schedule "parted, again" 30303)."""
    homes = [Home(LISTS, log_rows_max=100, own=key) for key in (1, 2)]
    groups = [home.open_group(opening(1), 7)[0] for home in homes]
    assert groups[0].identity != groups[1].identity
    pairs = zip(homes, groups, strict=True)
    first, second = (home.subscribe(group, opening(1), since=8, now=0.0).number for home, group in pairs)
    assert first != second


def test_equal_queries_share_a_group_and_names_do_not_matter():
    """Only meaning counts; other constants, other algorithm, other kind are other queries."""
    home = Home(LISTS, log_rows_max=100)
    first, new = home.open_group(opening(1), 7)
    same, again = home.open_group(opening(2), 8)
    assert (new, again) == (True, False)
    assert first is same
    base = opening(1).query
    renamed = ConjunctiveQuery(base.patterns, base.constants, base.answer, ("x", "y"))
    assert home_key(renamed, Algorithm.CSBV) == home_key(base, Algorithm.CSBV)
    others = {
        home_key(base, Algorithm.CQC), home_key(base, Algorithm.CSBV, per_event=True), opening(1, "<q>").key,
    }  # fmt: skip
    assert len(others | {opening(1).key}) == 4


def test_queries_with_the_same_coordinator_key_stay_apart(monkeypatch):
    """Among many queries two have equal keys: neither gets the other's answers, here or at another replica."""
    monkeypatch.setattr(keys, "text_key", lambda _: keys.Key(1 << 63))
    home, replica = Home(LISTS, log_rows_max=100), Home(LISTS, log_rows_max=100)
    kept = []
    for request, constant in enumerate(("<p>", "<q>", "<p>")):
        message = opening(request, constant)
        group, _ = home.open_group(message, stamp=7)
        for leaf in group.leaves:
            leaf.plan = make_plan(leaf.query, (0,), Algorithm.CSBV)
        group.planned = True
        subscription = home.subscribe(group, message, 10 + request, now=0.0)
        assert group.query.constants == (constant,)
        kept.append(replica.keep(home.record_of(subscription), 0.0)[0])
    assert len(home.live_groups()) == len(replica.live_groups()) == 2
    assert kept[0].group is kept[2].group is not kept[1].group
    home.close(kept[1].number, 20)
    assert home.open_group(opening(4), 21) == (home.subscriptions[kept[0].number].group, False)
    assert home.open_group(opening(5, "<q>"), 22)[1]


def planned(home: Home, subscription) -> KeepSubscription:
    """Return the record of a subscription, once its query is planned."""
    for leaf in subscription.group.leaves:
        leaf.plan = make_plan(leaf.query, (0,), Algorithm.CSBV)
    subscription.group.planned = True
    return home.record_of(subscription)


def test_a_group_goes_on_for_a_late_subscription_after_its_last_one_ended():
    """The time up to which answers were recorded is known, and the group's name is not used again."""
    home, other = Home(LISTS, log_rows_max=100, own=1), Home(LISTS, log_rows_max=100, own=2)
    subscription = opened(home, 1, since=10)
    other.keep(planned(home, subscription), 0.0)
    record = planned(other, opened(other, 2, since=20))
    rows(home, subscription.group, (100, 15), (101, 20))
    home.close(subscription.number, 30, ends_group=False)
    assert list(home.left) == [record.group]
    assert home.open_group(opening(3), 40)[0].identity != record.group
    assert home.comes_late(record)
    assert home.answered_left(record.group, [25], [25])
    kept, _ = home.keep(record, 0.0)
    assert kept.group is subscription.group
    assert kept.group.recorded == 25
    assert not home.left
    home.take_end(record.group, 50, subscription=False)
    home.take_end(kept.number, 50, subscription=True)
    assert not home.left, "its end is known"


def test_answers_of_an_orphaned_group_are_held_while_there_is_room(monkeypatch):
    """An orphaned query with very many answers loses them, and displaces no other query."""
    monkeypatch.setattr("p2prdf.continuous.home.LEFT_ANSWERS_MAX", 3)
    home, left = Home(LISTS, log_rows_max=100), []
    for number, count in enumerate((2, 4, 1)):
        query = parse_query(f"SELECT ?a {{ ?a <urn:p{number}> ?b MINUS {{ ?a <urn:q> ?c }} }}")
        message = OpenSubscription(number, home_key(query, Algorithm.CSBV), query, "csbv", False, WHO, 60.0)
        group, _ = home.open_group(message, stamp=7)
        subscription = home.subscribe(group, message, 8, now=0.0)
        names, times = list(range(count)), [10] * count
        home.record_leaf(group.leaves[0], names, times, times, (names, names))
        home.close(subscription.number, 20, ends_group=False)
        left.append(group)
    assert list(home.left) == [group.identity for group in left]
    assert [len(group.leaves[0].answers) for group in left] == [2, 0, 1]


def test_a_known_answer_of_younger_triples_is_no_new_answer():
    """Audits count new answers as withheld by a primary; a repeated publication has a later stamp at some replicas."""
    home = Home(LISTS, log_rows_max=100)
    query = parse_query("SELECT ?a { ?a <urn:p> ?b MINUS { ?a <urn:q> ?c } }")
    message = OpenSubscription(1, home_key(query, Algorithm.CSBV), query, "csbv", False, WHO, 60.0)
    group, _ = home.open_group(message, stamp=7)
    leaf = group.leaves[0]
    for stamp, known in ((10, 0), (10, 1), (20, 2)):
        assert (home.answers, home.repeated) == (known, max(0, known - 1))
        home.record_leaf(leaf, [5], [stamp], [stamp], ([1], [2]))
    assert (home.answers, home.repeated) == (3, 2)


def test_the_recovery_states_of_a_replica_are_accepted_by_others():
    assert max(Known) == KNOWN_MAX


def test_numbers_of_groups_and_subscriptions_identify_their_coordinator():
    """A number alone gives the coordinator of the query that it refers to."""
    home = Home(LISTS, log_rows_max=100)
    subscription = opened(home, 1, since=10)
    assert subscription_home(subscription.number) == opening(1).key
    assert group_home(subscription.group.identity) == opening(1).key


def test_an_answer_is_owed_to_the_subscriptions_older_than_its_oldest_triple():
    """A later subscription does not get answers with older triples."""
    home = Home(LISTS, log_rows_max=100)
    early, late = opened(home, 1, since=10), opened(home, 2, since=20)
    rows(home, early.group, (100, 15), (101, 20), (102, 25))
    assert told(early) == [100, 101, 102]
    assert told(late) == [101, 102]


def test_an_answer_that_comes_again_younger_goes_only_to_those_in_between():
    """One of its triples was published again: new to subscriptions made meanwhile, known to the others."""
    home = Home(LISTS, log_rows_max=100)
    early, late = opened(home, 1, since=10), opened(home, 2, since=20)
    rows(home, early.group, (100, 15))
    rows(home, early.group, (100, 15), (100, 22))
    rows(home, early.group, (100, 22), (100, 30))
    assert told(early) == [100]
    assert told(late) == [100]
    assert home.repeated == 3


def test_the_last_subscription_ends_the_group():
    """A later subscription to the query makes a new group."""
    home = Home(LISTS, log_rows_max=100)
    one, two = opened(home, 1, since=10), opened(home, 2, since=20)
    assert home.close(one.number, 50) is None
    assert home.close(two.number, 50) is one.group
    assert home.close(two.number, 50) is None
    assert home.find(one.group.identity) is None
    assert home.open_group(opening(3), 9)[1]


def test_a_query_that_comes_again_has_another_name():
    """Messages still under way for its former incarnation must not touch the new one, however close in time."""
    home = Home(LISTS, log_rows_max=100)
    groups, subscriptions = set(), set()
    for request in range(100):
        subscription = opened(home, request, since=10 << 16)
        groups.add(subscription.group.identity)
        subscriptions.add(subscription.number)
        home.close(subscription.number, 50)
    assert len(groups) == len(subscriptions) == 100


def test_leases_end_unless_renewed():
    """A renewed lease is looked at again when it ends."""
    home = Home(LISTS, log_rows_max=100)
    subscription = opened(home, 1, since=10)
    assert home.deadline == 60.0
    subscription.lease_until = 90.0
    assert home.expired(60.0) == []
    assert home.deadline == 90.0
    assert home.expired(90.0) == [subscription.number]


def test_dropped_answers_are_counted_for_good():
    """A counter that falls when a subscription ends would look restarted, and raise an alarm."""
    home = Home(LISTS, log_rows_max=2)
    one, other = opened(home, 1, 10), opened(home, 2, 10)
    rows(home, one.group, *((number, 20 + number) for number in range(5)))
    assert home.dropped == 6
    home.close(one.number, 30)
    assert home.dropped == 6
    home.close(other.number, 31)
    assert home.dropped == 6
