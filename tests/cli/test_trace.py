"""Lines of logs become one tree per trace, among any other lines in the logs."""

from __future__ import annotations

import json

from p2prdf_cli.trace_tree import describe, spans_of, trees

ONE, OTHER = "a" * 32, "b" * 32


def _line(span, parent, name, began=1.0, trace=ONE, ms=1.0, **fields):
    named = {"trace": trace, "span": f"{span:016x}", "parent": f"{parent:016x}", "name": name}
    return json.dumps({"node": "n1", "event": "span", **named, "began": began, "ms": ms, **fields, "timestamp": "t"})


LINES = [
    '{"event": "node_ready", "level": "info"}', "no JSON", '{"event": "span"}', '["span"]', '"span"',
    "[" * 100_000 + '"span"',
    _line(3, 2, "index", 1.2, roles="sp"), _line(1, 9, "publish", 1.0, ms=500.0), _line(2, 1, "send", 1.1),
    _line(4, 2, "index", 1.15), _line(4, 2, "index", 1.15), _line(5, 0, "publish", 0.5, trace=OTHER),
]  # fmt: skip


def _names(tree):
    return [(each.depth, int(each.span, 16), each.lost) for each in tree]


def test_spans_are_put_under_their_parents_in_order_of_time_and_each_once():
    first, second = trees(spans_of(LINES))
    assert first[0].trace == OTHER
    assert _names(second) == [(0, 1, False), (1, 2, False), (2, 4, False), (2, 3, False)]
    assert second[3].fields == {"roles": "sp"}
    assert [tree[0].trace for tree in trees(spans_of(LINES, ONE))] == [ONE]


def test_spans_without_a_line_for_the_parent_and_spans_in_a_circle_are_shown_all_the_same():
    lines = [_line(7, 8, "join", 1.0), _line(1, 0, "publish", 2.0), _line(5, 6, "a", 3.0), _line(6, 5, "b", 3.5)]
    (tree,) = trees(spans_of(lines))
    assert _names(tree) == [(0, 1, False), (0, 7, True), (0, 5, True), (1, 6, False)]
    assert "its parent is not in these logs" in list(describe(tree))[2]


def test_a_tree_is_shown_with_times_after_its_first_span_and_in_all():
    first, *lines = describe(trees(spans_of(LINES, ONE))[0])
    assert first == f"trace {ONE}: 4 spans at 1 nodes, 500.0 ms"
    assert lines[0].split() == ["+0.0", "ms", "500.0", "ms", "n1", "publish"]
    assert lines[3].split() == ["+200.0", "ms", "1.0", "ms", "n1", "index", "roles=sp"]


def test_a_chain_of_any_length_is_followed():
    count = 5000
    (tree,) = trees(spans_of(_line(at + 1, at, "publish" if at == 0 else "send", float(at)) for at in range(count)))
    assert [each.depth for each in tree] == list(range(count))
