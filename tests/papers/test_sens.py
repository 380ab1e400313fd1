"""Predicted notifications of channels: sentences of seed 000 (SENS, ESWC 2009), and the product's behaviour for each.

Quotations and sections are those of the notes on the paper.  Section 7.4 numbers the questions that the paper leaves
open, with the answers of this implementation (docs/reference/channels.md).
"""

from __future__ import annotations

from channel_histories import Ticks

from p2prdf.channels import Categories, Channels, Kind, KnowledgeBase, Settings
from p2prdf.channels.account import Schedule
from p2prdf.channels.category import History, Publication
from p2prdf.channels.elements import Cuts, cut
from p2prdf.channels.learner import Learner
from p2prdf.channels.mapping import Entry, skeleton_of
from p2prdf.reasoning import Atom, Rule

TEACHES = "<http://www.uni.org/onto#teacherOf>"
QUERY = f"SELECT ?p ?c {{ ?p {TEACHES} ?c }}"
PAPER = Settings(heuristics=(Categories.COUNT,), threshold=2, skip_max=1, switched=False, bindings_first=0,
                 test_budget=1e9, analysis_budget=1e9)  # fmt: skip


def professor(number):
    return f"<http://www.dept.uni1.org/staff/Professor{number}>"


def course(number):
    return f"<http://dept.uni1.org/courses/Course{number}>"


def teaches(*numbers):
    return (professor(numbers[0]), TEACHES, course(numbers[1]))


def made(settings=PAPER, query=QUERY):
    channels = Channels(KnowledgeBase(), Ticks(1))
    channels.create("it", query, settings)
    return channels


def told(channels, *graphs):
    """Publish graphs; return for each the bindings reported early, and the new ones of the query."""
    found = []
    for graph in graphs:
        early = [each.binding for each in channels.publish(graph)]
        found.append((early, [each.binding for each in channels.evaluate() if each.first]))
    return found


def learner(threshold=2, **more):
    settings = {"entries_max": 100, "alternatives_max": 4, "skeletons_tried": 2} | more
    return Learner(Categories.COUNT, threshold=threshold, **settings)


def publication(*statements, number=1):
    return Publication(number, statements, Cuts())


# --- the worked example ---------------------------------------------------------------------------


def test_a_category_is_the_number_of_elements_of_a_text() -> None:
    """Section 7.3: "number of elements in its textual form. Example: graph 9+6+8 = 23, binding 9+8 = 17"."""
    assert cut(professor(137)).elements == ("http", "www", "dept", "uni", "1", "org", "staff", "Professor", "137")
    assert [len(cut(term).elements) for term in teaches(137, 148)] == [9, 6, 8]
    assert publication(teaches(137, 148)).seen(Categories.COUNT)[0] == 23
    assert Categories.COUNT.of_binding(cut(f"{professor(137)}\n{course(148)}")) == 17


def test_a_text_is_cut_at_delimiters_and_between_a_letter_and_a_digit() -> None:
    """Section 7.3: "maximal run between delimiters ... extra split between a letter and a following digit"."""
    text = '"GraduateStudent44@Dept1.edu"^^<http://www.w3.org/2001#x-y>\n_1a2'
    found = cut(text)
    assert found.elements == ("GraduateStudent", "44", "Dept", "1", "edu", "http", "www", "w", "3", "org", "2001", "x",
                              "y", "_", "1a", "2")  # fmt: skip
    pairs = zip(found.gaps, (*found.elements, ""), strict=True)
    assert "".join(gap + element for gap, element in pairs) == text


def test_a_mapping_that_is_learned_from_two_graphs_predicts_the_binding_of_the_third() -> None:
    """Section 9.3: "BC(9)=GC(9), BC(17)=GC(23), third graph yields the correct candidate before query execution"."""
    channels = made()
    both = told(channels, [teaches(137, 148)], [teaches(142, 259)])
    assert both == [([], [(professor(137), course(148))]), ([], [(professor(142), course(259))])]
    (entry,) = channels._channels["it"]._competition.every[0].table
    # BC(9) = GC(9) and BC(17) = GC(23), from 1 as the paper counts
    assert [(key + 1, place + 1) for key, place in zip(entry.keys, entry.places, strict=True)] == [(9, 9), (17, 23)]
    assert entry.binding == 17
    (early,) = channels.publish([teaches(151, 301)])
    assert (early.kind, early.binding, early.first) == (Kind.TENTATIVE, (professor(151), course(301)), True)
    (later,) = channels.evaluate()
    assert (later.kind, later.binding, later.first) == (Kind.CONFIRMED, (professor(151), course(301)), False)


def test_elements_below_the_threshold_are_structure_and_the_others_key() -> None:
    """Section 7.3: "Index < threshold (2 in the example ...) -> structure element; else key element"."""
    history = History(2)
    for numbers in ((137, 148), (142, 259)):
        history.note(17, cut(f"{professor(numbers[0])}\n{course(numbers[1])}").elements)
    assert history.diversity(17) == (1,) * 8 + (2,) + (1,) * 7 + (2,)
    assert history.keys(17) == (8, 16)


def test_histories_are_bounded_and_the_first_is_forgotten_first() -> None:
    """Section 7.3: "Per category and position: set of values seen"; here up to a bound of positions."""
    history = History(2, positions_max=7)
    for category, count in (("a", 3), ("b", 3), ("c", 2)):
        history.note(category, ["x"] * count)
        history.note(category, ["y"] * count)
    assert [history.keys(category) for category in "abc"] == [(), (0, 1, 2), (0, 1)]
    assert history.diversity("a") == ()


# --- questions that the paper leaves open -----------------------------------------------------------------


def test_a_category_by_count_mixes_shapes_and_one_by_shape_does_not() -> None:
    """Section 7.4, 2: "Category by count only mixes different shapes ... optional `category=shape`"."""
    one, other = (TEACHES, TEACHES, "<urn:a-b-c>"), (TEACHES, TEACHES, "<urn:a/b:c>")
    for categories, same in ((Categories.COUNT, True), (Categories.SHAPE, False)):
        found = {publication(each).seen(categories)[0] for each in (one, other)}
        assert (len(found) == 1) == same
        assert (categories.of_binding(cut("<urn:a-b>")) == categories.of_binding(cut("<urn:a/b>"))) == same
    # a candidate made of mixed shapes is no true binding, so it is not reported
    channels = made()
    shaped = ("<http://www.dept.uni1.org/staff/Professor7>", "<http://www.uni.org/onto#likes>", course(3))
    assert told(channels, [teaches(137, 148)], [teaches(142, 259)], [shaped])[2] == ([], [])


def test_of_several_structures_the_most_frequent_is_tried_first() -> None:
    """Section 7.4, 3: "Structure position with several seen values | Most frequent value"."""
    entry = Entry(2, (1,), (0,))
    for kind in ("Graduate", "Student", "Student", "Alumnus", "Student", "Graduate"):
        entry.note(skeleton_of(cut(f"<urn:{kind}7>"), (2,)))
    assert [*entry.texts(["9"], 2)] == ["<urn:Student9>", "<urn:Graduate9>"]
    assert [*entry.texts(["9"], 1)] == ["<urn:Student9>"]


def test_where_a_key_occurs_at_several_positions_hit_rates_decide() -> None:
    """Section 7.4, 4: "create alternatives, let hit rates decide".

    Each professor teaches in a room with the number of the course in the two graphs learned from, and then not.
    """
    settings = Settings(heuristics=(Categories.COUNT,), threshold=2, skip_max=1, switched=False, test_budget=1e9,
                        analysis_budget=1e9)  # fmt: skip
    channels = made(settings)

    def graph(number, course_number, room):
        # "Course" stands before the number in the room's name, too, so the text around does not decide
        return [(professor(number), "<urn:in>", f"<urn:Course{room}>"), teaches(number, course_number)]

    told(channels, graph(1, 148, 148), graph(2, 259, 259))
    table = channels._channels["it"]._competition.every[0].table
    assert len(table) >= 2, "an entry for each place"
    for number in range(3, 9):
        told(channels, graph(number, 300 + number, 400 + number))
    best = next(iter(table.entries(channels_category(graph(9, 309, 409)))))
    assert best.hits == best.tries >= 5
    assert told(channels, graph(9, 309, 409))[0][0] == [(professor(9), course(309))]
    assert any(entry.tries > entry.hits for entry in table), "and the other place was tried in vain"


def channels_category(statements):
    return publication(*statements).seen(Categories.COUNT)[0]


def test_candidates_are_terms_of_the_kind_that_they_were_learned_from() -> None:
    """Section 7.4, 5: "Binding template stores delimiters, variable boundaries, term kind/datatype"."""
    number, integer = "<urn:n>", "<http://www.w3.org/2001/XMLSchema#integer>"
    channels = made(query="SELECT ?x ?n ?w { ?x <urn:n> ?n ; <urn:w> ?w }")

    def graph(at):
        return [(f"<urn:x{at}>", number, f'"{at}"^^{integer}'), (f"<urn:x{at}>", "<urn:w>", f'"wort-{at}"@de')]

    found = told(channels, *map(graph, range(11, 15)))
    assert found[3] == ([("<urn:x14>", f'"14"^^{integer}', '"wort-14"@de')], [])


def test_of_several_graphs_since_the_last_run_the_first_with_all_keys_gives_the_entry() -> None:
    """Section 7.4, 6: "create entry for the first that contains all keys"."""
    it = learner()
    it.note(cut(f"{professor(1)}\n{course(1)}"))
    without = publication((professor(2), TEACHES, "<urn:other>"))
    longer = publication(teaches(2, 3), (TEACHES, TEACHES, TEACHES))
    shorter = publication(teaches(2, 3))
    assert it.learn(cut(f"{professor(2)}\n{course(3)}"), [without, longer, shorter])
    assert len(it.table.entries(23 + 18)) > 0
    assert it.table.entries(23) == [] == it.table.entries(without.seen(Categories.COUNT)[0])


def test_a_binding_without_key_elements_gives_no_entry_and_a_reported_one_is_no_candidate() -> None:
    """Section 7.4, 7: "No entry; candidates identical to tagged ones are skipped anyway"."""
    channels = made()
    told(channels, [teaches(1, 1)])
    assert channels.statistics()[0].entries == 0
    assert told(channels, [teaches(2, 2)], [teaches(2, 2)])[1] == ([], [])
    assert channels.statistics()[0].entries > 0
    assert channels.statistics()[0].candidates == 0


def test_an_entry_is_learned_again_when_a_structure_element_becomes_a_key_element() -> None:
    """Section 7.3: "diversity index = number of distinct values"; it grows, so an entry may become obsolete."""
    it = learner(threshold=3)
    for number in range(4):  # staff of one school, and then of others
        it.learn(cut(f"{professor(number)}\n{course(number + 10)}"), [publication(teaches(number, number + 10))])
    (entry,) = it.table
    assert entry.keys == (8, 16)
    for number in range(3):
        strange = f"<http://www.dept.uni{number + 5}.org/staff/Professor{number}>"
        it.learn(cut(f"{strange}\n{course(number)}"), [publication((strange, TEACHES, course(number)))])
    assert {entry.keys for entry in it.table} == {(4, 8, 16)}, "entries with the old keys are given up"


def test_a_query_is_skipped_as_long_as_eight_of_the_last_ten_notifications_were_predicted() -> None:
    """Section 7.4, 8: "default f: 10 if hits>=8, else 1"."""
    schedule = Schedule(10)
    for _ in range(30):
        schedule.published()
        schedule.reported(True)
    assert (schedule.by_hits, schedule.by_rate, schedule.interval) == (10, 1, 10)
    schedule.reported(False)
    schedule.reported(False)
    assert schedule.interval == 10
    schedule.reported(False)
    assert schedule.interval == 1


def test_the_first_few_predictions_are_enough_to_skip_a_query() -> None:
    """Section 7.4, 8: "hit statistic over last 10 notifications"; at the beginning over the first three or more."""
    schedule, found = Schedule(10), []
    for foreseen in (True, True, True, False, True, True):
        schedule.published()
        schedule.reported(foreseen)
        found.append(schedule.by_hits)
    assert found == [1, 1, 10, 1, 10, 10], "3 of 3; then 4 of 5 and 5 of 6"


def test_a_query_with_rare_notifications_runs_rarely() -> None:
    """Section 7.4, 8: "low-frequency channels also skipped ... 1/notification rate"."""
    schedule = Schedule(10)
    for _ in range(9):
        schedule.published()
    assert schedule.interval == 1, "nothing is known yet"
    schedule.published()
    assert schedule.interval == 10
    schedule.reported(False)
    for _ in range(11):
        schedule.published()
    schedule.reported(False)
    schedule.reported(False)
    assert schedule.interval == 7, "3 in 21"
    for _ in range(1000):
        schedule.published()
    assert schedule.interval == 10, "never more"


def test_a_query_waits_at_most_ten_cycles() -> None:
    """Section 7.4, 8: "up to 10 cycles skipped"."""
    schedule = Schedule(10)
    for at in range(1, 11):
        schedule.published()
        assert schedule.due or at < schedule.interval
    assert schedule.due
    schedule.ran()
    assert not schedule.due


def test_an_unpredicted_binding_counts_as_missed_when_the_query_finds_it() -> None:
    """Section 7.4, 9: "With skipping, misses are only seen at the next run | Count them then"."""
    channels = made(Settings(heuristics=(Categories.COUNT,), threshold=2, switched=False, test_budget=1e9,
                             analysis_budget=1e9))  # fmt: skip
    told(channels, *([teaches(number, number + 500)] for number in range(20)))
    before = channels.statistics()[0]
    assert (before.recently_foreseen, before.bound) == (10, 9)
    strange = [(f"<urn:somebody-{number}>", TEACHES, "<urn:something>") for number in range(3)]
    found = [told(channels, [each]) for each in strange]
    assert found == [[([], [])]] * 3, "the query is left out"
    assert channels.statistics()[0].recently_foreseen == 10
    late = [each.binding for each in channels.settle() if each.first]
    assert sorted(late) == [(s, o) for s, _, o in strange]
    assert (channels.statistics()[0].recently_foreseen, channels.statistics()[0].bound) == (7, 0)


def test_a_deletion_forces_a_run_of_skipped_queries() -> None:
    """Section 7.4, 9: "force a run after delete"; here one before it, too."""
    channels = made(Settings(heuristics=(Categories.COUNT,), threshold=2, switched=False, test_budget=1e9,
                             analysis_budget=1e9))  # fmt: skip
    told(channels, *([teaches(number, number + 500)] for number in range(20)))
    strange = ("<urn:somebody>", TEACHES, "<urn:something>")
    assert told(channels, [strange]) == [([], [])]
    count, found = channels.delete(("<urn:somebody>", "?p", "?o"))
    assert count == 1
    assert [each.binding for each in found if each.first] == [("<urn:somebody>", "<urn:something>")]
    assert found[-1].after == 21, "it was true before the deletion"
    assert channels.settle() == []
    told(channels, [strange])
    assert [each.binding for each in channels.settle() if each.first] == [("<urn:somebody>", "<urn:something>")]


# --- promises that hold with any heuristics ---------------------------------------------------------------


def test_a_run_reports_the_bindings_that_were_not_reported_before() -> None:
    """Section 7.1: "a query run reports result minus tags and then tags := result"."""
    channels = made()
    assert told(channels, [teaches(1, 2)], [teaches(3, 4)], [teaches(3, 4)]) == [
        ([], [(professor(1), course(2))]), ([], [(professor(3), course(4))]), ([], []),
    ]  # fmt: skip


def test_a_binding_that_disappears_and_returns_is_reported_again() -> None:
    """Section 7.1: "a binding that disappears and returns is reported again"."""
    channels = made()
    assert told(channels, [teaches(1, 2)])[0][1] == [(professor(1), course(2))]
    channels.delete((professor(1), "?p", "?o"))
    assert told(channels, [teaches(1, 2)])[0][1] == [(professor(1), course(2))]


def test_a_deletion_removes_explicit_triples_and_those_that_followed_from_them_only() -> None:
    """Section 7.1: "delete(pattern) removes matching explicit triples and what was inferred only from
    them"."""
    within = "<urn:in>"
    transitive = Rule(Atom("?x", within, "?z"), (Atom("?x", within, "?y"), Atom("?y", within, "?z")))
    knowledge = KnowledgeBase([transitive])
    a, b, c, d = (f"<urn:{name}>" for name in "abcd")
    knowledge.add([(a, within, b), (b, within, c), (a, within, c), (c, within, d)])
    count, _ = knowledge.remove((b, within, "?o"))
    assert count == 1
    assert set(knowledge.triples()) == {(a, within, b), (a, within, c), (c, within, d), (a, within, d)}


def test_a_wrong_prediction_costs_a_test_and_reports_nothing() -> None:
    """Section 7.2: "Worst case = wasted budget, never a wrong notification"."""
    channels = made()
    told(channels, [teaches(137, 148)], [teaches(142, 259)])
    lie = (professor(151), "<http://www.uni.org/onto#dislikesX>", course(301))
    assert publication(lie).seen(Categories.COUNT)[0] == 23, "the same category as that of a teacher"
    assert told(channels, [lie]) == [([], [])]
    assert channels.statistics()[0].candidates > 0


def test_both_ways_report_the_same_bindings_after_the_final_run() -> None:
    """Section 7.5: "identical set of notifications in both runs after the final full query"."""
    graphs = [[teaches(number, 500 + number % 7)] for number in range(25)]
    reported = []
    for settings in (PAPER, Settings(heuristics=(), skip_max=1, bindings_first=0)):
        channels = made(settings)
        found = [binding for early, late in told(channels, *graphs) for binding in early + late]
        found += [each.binding for each in channels.settle() if each.first]
        reported.append(found)
    assert sorted(reported[0]) == sorted(reported[1])
    assert len(set(reported[0])) == len(reported[0]) == 25
