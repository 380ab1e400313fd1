"""The SENS paper's worked example, and each of its open points as it is settled here (docs/reference/channels.md)."""

from __future__ import annotations

from channel_histories import Ticks

from p2prdf.channels import Categories, Channels, Kind, KnowledgeBase, Settings
from p2prdf.channels.account import Schedule
from p2prdf.channels.category import History, Publication
from p2prdf.channels.elements import Cuts, cut
from p2prdf.channels.learner import Learner
from p2prdf.channels.mapping import Entry, skeleton_of

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


# --- section 3: the worked example -------------------------------------------------------------------


def test_the_elements_of_a_text_and_the_two_categories() -> None:
    """The graph has 9 + 6 + 8 elements, the binding 9 + 8."""
    assert cut(professor(137)).elements == ("http", "www", "dept", "uni", "1", "org", "staff", "Professor", "137")
    assert [len(cut(term).elements) for term in teaches(137, 148)] == [9, 6, 8]
    assert publication(teaches(137, 148)).seen(Categories.COUNT)[0] == 23
    assert Categories.COUNT.of_binding(cut(f"{professor(137)}\n{course(148)}")) == 17


def test_a_text_is_its_elements_and_gaps() -> None:
    text = '"GraduateStudent44@Dept1.edu"^^<http://www.w3.org/2001#x-y>\n_1a2'
    found = cut(text)
    assert found.elements == ("GraduateStudent", "44", "Dept", "1", "edu", "http", "www", "w", "3", "org", "2001", "x",
                              "y", "_", "1a", "2")  # fmt: skip
    pairs = zip(found.gaps, (*found.elements, ""), strict=True)
    assert "".join(gap + element for gap, element in pairs) == text


def test_the_mapping_is_learned_from_two_graphs_and_the_third_is_foreseen_before_the_query_runs() -> None:
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


def test_with_a_threshold_of_2_differing_elements_are_key_and_the_rest_structure() -> None:
    history = History(2)
    for numbers in ((137, 148), (142, 259)):
        history.note(17, cut(f"{professor(numbers[0])}\n{course(numbers[1])}").elements)
    assert history.diversity(17) == (1,) * 8 + (2,) + (1,) * 7 + (2,)
    assert history.keys(17) == (8, 16)


def test_histories_are_bounded_and_the_first_is_forgotten_first() -> None:
    history = History(2, positions_max=7)
    for category, count in (("a", 3), ("b", 3), ("c", 2)):
        history.note(category, ["x"] * count)
        history.note(category, ["y"] * count)
    assert [history.keys(category) for category in "abc"] == [(), (0, 1, 2), (0, 1)]
    assert history.diversity("a") == ()


# --- questions that the paper leaves open -----------------------------------------------------------------


def test_2_a_category_by_count_mixes_shapes_and_one_by_shape_does_not() -> None:
    one, other = (TEACHES, TEACHES, "<urn:a-b-c>"), (TEACHES, TEACHES, "<urn:a/b:c>")
    for categories, same in ((Categories.COUNT, True), (Categories.SHAPE, False)):
        found = {publication(each).seen(categories)[0] for each in (one, other)}
        assert (len(found) == 1) == same
        assert (categories.of_binding(cut("<urn:a-b>")) == categories.of_binding(cut("<urn:a/b>"))) == same
    # a candidate made of mixed shapes is no true binding, so it is not reported
    channels = made()
    shaped = ("<http://www.dept.uni1.org/staff/Professor7>", "<http://www.uni.org/onto#likes>", course(3))
    assert told(channels, [teaches(137, 148)], [teaches(142, 259)], [shaped])[2] == ([], [])


def test_3_of_several_structures_the_most_frequent_is_tried_first() -> None:
    entry = Entry(2, (1,), (0,))
    for kind in ("Graduate", "Student", "Student", "Alumnus", "Student", "Graduate"):
        entry.note(skeleton_of(cut(f"<urn:{kind}7>"), (2,)))
    assert [*entry.texts(["9"], 2)] == ["<urn:Student9>", "<urn:Graduate9>"]
    assert [*entry.texts(["9"], 1)] == ["<urn:Student9>"]


def test_4_where_a_key_stands_several_times_hit_rates_decide() -> None:
    """Each professor teaches in a room with the number of the course in the two graphs learned from, and then not."""
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


def test_5_candidates_are_terms_of_the_kind_that_they_were_learned_from() -> None:
    number, integer = "<urn:n>", "<http://www.w3.org/2001/XMLSchema#integer>"
    channels = made(query="SELECT ?x ?n ?w { ?x <urn:n> ?n ; <urn:w> ?w }")

    def graph(at):
        return [(f"<urn:x{at}>", number, f'"{at}"^^{integer}'), (f"<urn:x{at}>", "<urn:w>", f'"wort-{at}"@de')]

    found = told(channels, *map(graph, range(11, 15)))
    assert found[3] == ([("<urn:x14>", f'"14"^^{integer}', '"wort-14"@de')], [])


def test_6_of_several_graphs_since_the_last_run_the_first_with_all_keys_gives_the_entry() -> None:
    it = learner()
    it.note(cut(f"{professor(1)}\n{course(1)}"))
    without = publication((professor(2), TEACHES, "<urn:other>"))
    longer = publication(teaches(2, 3), (TEACHES, TEACHES, TEACHES))
    shorter = publication(teaches(2, 3))
    assert it.learn(cut(f"{professor(2)}\n{course(3)}"), [without, longer, shorter])
    assert len(it.table.entries(23 + 18)) > 0
    assert it.table.entries(23) == [] == it.table.entries(without.seen(Categories.COUNT)[0])


def test_7_without_keys_there_is_no_entry_and_a_reported_binding_is_no_candidate() -> None:
    channels = made()
    told(channels, [teaches(1, 1)])
    assert channels.statistics()[0].entries == 0
    assert told(channels, [teaches(2, 2)], [teaches(2, 2)])[1] == ([], [])
    assert channels.statistics()[0].entries > 0
    assert channels.statistics()[0].candidates == 0


def test_7_an_entry_is_learned_anew_when_its_structure_turns_out_to_be_key() -> None:
    it = learner(threshold=3)
    for number in range(4):  # staff of one school, and then of others
        it.learn(cut(f"{professor(number)}\n{course(number + 10)}"), [publication(teaches(number, number + 10))])
    (entry,) = it.table
    assert entry.keys == (8, 16)
    for number in range(3):
        strange = f"<http://www.dept.uni{number + 5}.org/staff/Professor{number}>"
        it.learn(cut(f"{strange}\n{course(number)}"), [publication((strange, TEACHES, course(number)))])
    assert {entry.keys for entry in it.table} == {(4, 8, 16)}, "entries with the old keys are given up"


def test_8_a_query_is_left_out_as_long_as_eight_of_the_last_ten_were_foreseen() -> None:
    schedule = Schedule(10)
    for _ in range(30):
        schedule.published()
        schedule.told(True)
    assert (schedule.by_hits, schedule.by_rate, schedule.interval) == (10, 1, 10)
    schedule.told(False)
    schedule.told(False)
    assert schedule.interval == 10
    schedule.told(False)
    assert schedule.interval == 1


def test_8_at_the_beginning_the_first_few_are_enough() -> None:
    schedule, found = Schedule(10), []
    for foreseen in (True, True, True, False, True, True):
        schedule.published()
        schedule.told(foreseen)
        found.append(schedule.by_hits)
    assert found == [1, 1, 10, 1, 10, 10], "3 of 3; then 4 of 5 and 5 of 6"


def test_8_a_query_with_rare_news_runs_rarely() -> None:
    schedule = Schedule(10)
    for _ in range(9):
        schedule.published()
    assert schedule.interval == 1, "nothing is known yet"
    schedule.published()
    assert schedule.interval == 10
    schedule.told(False)
    for _ in range(11):
        schedule.published()
    schedule.told(False)
    schedule.told(False)
    assert schedule.interval == 7, "3 in 21"
    for _ in range(1000):
        schedule.published()
    assert schedule.interval == 10, "never more"


def test_8_the_query_runs_when_its_turn_is_and_no_later() -> None:
    schedule = Schedule(10)
    for at in range(1, 11):
        schedule.published()
        assert schedule.due or at < schedule.interval
    assert schedule.due
    schedule.ran()
    assert not schedule.due


def test_9_an_unpredicted_binding_counts_as_missed_when_the_query_finds_it() -> None:
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


def test_9_a_skipped_run_is_made_up_for_before_and_after_a_deletion() -> None:
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
