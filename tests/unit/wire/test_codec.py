"""Frames: messages survive a round trip between any two dictionaries; malformed frames are refused, cheaply."""

from __future__ import annotations

import dataclasses
import gc
import struct
import tracemalloc
from functools import cache
from random import Random
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2prdf import keys
from p2prdf.columns import ARRAYS, LISTS, Columns, as_list
from p2prdf.errors import Busy, LocalProtocolError, RemoteProtocolError
from p2prdf.rdf import quads
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.dictionary import TermDictionary, TermNames
from p2prdf.rdf.query import (
    FILTERS_BYTES_MAX,
    FILTERS_MAX,
    PATTERNS_MAX,
    Algorithm,
    Concludes,
    ConjunctiveQuery,
    Filter,
    Plan,
    filter_bytes,
    make_plan,
)
from p2prdf.rdf.standing.query import parse_query
from p2prdf.wire import codec, limits
from p2prdf.wire import messages as m
from p2prdf.wire.codec import VERSION, FrameCodec, FrameReader
from p2prdf.wire.fields import BY_NUMBER, DECLARED, NUMBERS, Declared

MATERIALS = {"arrays": ARRAYS, "lists": LISTS}
IRIS = [f"<urn:x:{i}>" for i in range(30)] + ["<urn:x:\u00e9\U0001f600>"]
QUALIFIED = quads.qualified("<urn:x:1>", "<urn:x:2>")
WORDED = [quads.worded(each, ("tea", "pot")) for each in IRIS[:5]]
LITERALS = ['""', '"a"', '"a\\"b"@en', '"1"^^<http://www.w3.org/2001/XMLSchema#integer>', '"\U0001f600"']
TOP = (1 << 64) - 1
FRAMED = [kind for kind in NUMBERS if issubclass(kind, m.IN_FRAMES)]
PEER_MESSAGES = [kind for kind in NUMBERS if issubclass(kind, m.Message)]


# --- any message ---------------------------------------------------------------------------------

STANDING = [
    parse_query(text)
    for text in (
        "SELECT ?a ?n WHERE { ?a <urn:p> ?b . ?b <urn:q> ?c OPTIONAL { ?b <urn:n> ?n FILTER(?n > 1) } }",
        "ASK { ?a <urn:p> ?b FILTER NOT EXISTS { ?b <urn:q> ?c } }",
        "SELECT ?b (COUNT(DISTINCT ?a) AS ?n) WHERE { { ?a <urn:p> ?b } UNION { ?a <urn:q>/<urn:p> ?b } } GROUP BY ?b",
        "ASK {}",
    )
]


@dataclasses.dataclass
class Maker:
    """Draws messages: their term columns are identifiers of ``dictionary``, of either material."""

    draw: st.DrawFn
    dictionary: TermDictionary
    columns: Columns
    rows: int = 0

    def numbers(self, top: int, dtype: type) -> Any:
        some = st.one_of(st.sampled_from([0, 1, 255, 256, 65_535, 65_536, top]), st.integers(0, top))
        value = some.filter(lambda number: number <= top)
        if self.draw(st.booleans()):
            return self.columns.full(self.rows, self.draw(value), dtype)
        return self.columns.column(self.draw(st.lists(value, min_size=self.rows, max_size=self.rows)), dtype)

    def terms(self, pool: list[str]) -> Any:
        texts = self.draw(st.lists(st.sampled_from(pool), min_size=self.rows, max_size=self.rows))
        return self.columns.column([self.dictionary.intern(text) for text in texts], np.uint32)

    def term_columns(self, count: int) -> tuple[Any, ...]:
        return tuple(self.terms(IRIS + LITERALS) for _ in range(count))

    def query(self) -> ConjunctiveQuery:
        count = self.draw(st.integers(1, 4))
        slot = st.integers(-3, 4)
        patterns = self.draw(st.lists(st.tuples(slot, slot, slot), min_size=count, max_size=count))
        variables: dict[int, int] = {}
        constants: dict[int, int] = {}
        renamed = tuple(
            tuple(
                variables.setdefault(s, len(variables)) if s >= 0 else ~constants.setdefault(s, len(constants))
                for s in pattern
            )
            for pattern in patterns
        )
        some = st.lists(st.sampled_from(sorted(variables.values())), max_size=3) if variables else st.just([])
        answer = tuple(self.draw(some))
        filters = tuple(
            Filter("?v0 > 1", tuple(sorted(set(used)))) for used in self.draw(st.lists(some, max_size=2))
        )
        names = tuple(f"n{i}" for i in range(len(answer)))
        texts = tuple(self.draw(st.sampled_from(IRIS + LITERALS)) for _ in constants)
        if count > 1 and self.draw(st.booleans()):
            return self.rule(renamed, texts, filters)
        return ConjunctiveQuery(renamed, texts, answer, names, self.draw(st.booleans()), filters)  # type: ignore[arg-type]

    def rule(self, patterns: Any, texts: tuple[str, ...], filters: tuple[Filter, ...]) -> ConjunctiveQuery:
        """Return a rule with these patterns but the last for its body, if the conclusion is bound by it."""
        (s, p, o), bound = patterns[-1], {slot for pattern in patterns[:-1] for slot in pattern}
        fits = p < 0 and all(slot < 0 or slot in bound for slot in (s, o))
        concludes = self.draw(st.sampled_from(Concludes)) if fits else Concludes.NOTHING
        return ConjunctiveQuery(patterns, texts, (), (), False, filters, concludes)

    def any_query(self) -> m.Query:
        return self.draw(st.sampled_from(STANDING)) if self.draw(st.booleans()) else self.query()

    def plan(self) -> Plan:
        query = self.query()
        order = self.draw(st.permutations(range(len(query.patterns) - bool(query.concludes))))
        if query.concludes:
            return make_plan(query, (*order, len(order)), Algorithm.CSBV)
        return make_plan(query, order, self.draw(st.sampled_from(Algorithm)), per_event=self.draw(st.booleans()))

    def contact(self) -> m.Contact:
        host = self.draw(st.sampled_from(["", "127.0.0.1", "::1", "peer.example", "h" * 255]))
        return m.Contact(self.draw(st.integers(0, TOP)), host, self.draw(st.integers(0, 65_535)))

    def rows_of(self, groups: int, bindings: int) -> m.Rows:
        self.rows = self.draw(st.integers(0, 40)) if groups else 0
        group = self.numbers(max(groups - 1, 0), np.uint32)
        u64 = [self.numbers(TOP, np.uint64) for _ in range(3)]
        return m.Rows(group, *u64, self.term_columns(bindings))

    def groups(self, params: int) -> m.Groups:
        self.rows = self.draw(st.integers(0, 40))
        return m.Groups(*[self.numbers(TOP, np.uint64) for _ in range(4)], self.term_columns(params))

    def message(self, kind: type) -> Any:
        if kind is m.Envelope:
            inner = self.draw(st.sampled_from(PEER_MESSAGES))
            return m.Envelope(self.draw(st.integers(0, TOP)), self.draw(st.integers(0, TOP)), self.message(inner))
        if kind in (m.IndexQuery, m.Forward):
            plan = self.plan()
            step = self.draw(st.sampled_from(waiting_alone(plan) if kind is m.IndexQuery else range(len(plan.order))))
            groups = self.groups(plan.constant_count)
            parts = [plan, step, groups]
            if kind is m.Forward:
                parts.append(self.rows_of(len(groups), len(plan.steps[step].bound)))
            flags = ("copied", "kept") if kind is m.Forward else ()
            more = {name: self.draw(st.booleans()) for name in flags}
            return kind(*parts, refresh=self.draw(st.integers(0, TOP)), hops=self.draw(st.integers(0, 9)), **more)
        if kind is m.Answers:
            self.rows = self.draw(st.integers(0, 40))
            groups = self.numbers(TOP, np.uint64)
            return m.Answers(groups, self.rows_of(len(groups), self.draw(st.integers(0, 3))), 1)
        if kind is m.AdvertiseKeywords:
            self.rows = self.draw(st.integers(0, 40))
            return m.AdvertiseKeywords(self.terms(WORDED), self.numbers(TOP, np.uint64))
        if kind is m.Traced:
            self.rows = self.draw(st.integers(0, 40))
            return m.Traced(self.draw(st.integers(1, 4)), *(self.numbers(TOP, np.uint64) for _ in range(5)))
        if kind is m.NotOwner:
            contacts = tuple(self.contact() for _ in range(self.draw(st.integers(0, 3))))
            before = tuple(self.contact() for _ in contacts)
            return m.NotOwner(contacts, self.draw(st.sampled_from([(), before])))
        if kind is m.KeepSubscription:
            query = self.any_query()
            numbers = {
                field.name: self.field(kind, field)
                for field in dataclasses.fields(kind)
                if field.name not in ("query", "order")
            }
            order: tuple[int, ...] = ()
            for leaf in query.leaves if isinstance(query, StandingQuery) else [query]:
                drawn = self.draw(st.permutations(range(len(leaf.patterns))))
                order += tuple(len(order) + each for each in drawn)
            return m.KeepSubscription(query=query, order=order, **numbers)
        if kind is m.KeepExport:
            members = {each.key: each for each in (self.contact() for _ in range(self.draw(st.integers(1, 3))))}
            zones = tuple(self.draw(st.sampled_from(["", "a", "b"])) for _ in members)
            return m.KeepExport(*(self.draw(st.integers(0, TOP)) for _ in range(3)), tuple(members.values()), zones)
        most = 32 if kind in (m.RootDigests, m.DigestDiff) else 40
        self.rows = 1 << self.draw(st.integers(0, 5)) if kind is m.BucketDigests else self.draw(st.integers(0, most))
        fields = [self.field(kind, field) for field in dataclasses.fields(kind)]
        if kind is m.ClientListIntroduced:
            fields[3] = fields[3][: len(fields[3]) // 3 * 3]
        if kind is m.ExportPart:
            fields[4] = ("<urn:s> <urn:p> <urn:o> .",) * len(fields[3])
        if kind is m.ClientPublish and fields[-6]:
            fields[2] = 0  # by content, so no number
        return kind(*fields)

    def field(self, kind: type, field: dataclasses.Field[Any]) -> Any:
        known = DECLARED[kind][field.name]
        form, top = known.form, known.top
        if field.name == "role":
            return self.draw(st.sampled_from(keys.SPLIT_ROLES))
        simple = {
            "int": st.integers(0, top),
            "bool": st.booleans(),
            "float": st.floats(1 if field.name == "lease_seconds" else 0, 1e9),
            "str": st.just("<urn:stream>")
            if field.name == "stream"
            else st.sampled_from(["csbv", "cqc"]) if field.name == "algorithm" else st.text(max_size=20),
            "strings": st.lists(st.text(max_size=5), max_size=4).map(tuple),
            "order": st.permutations(range(4)).map(tuple),
        }
        match form:
            case "terms":
                resources = field.name in "sp" and kind not in (m.RatesRequest, m.CountsRequest)
                ours = [QUALIFIED] if kind is m.IndexTriples else []
                return self.terms(IRIS + ours if resources else IRIS + LITERALS)
            case "term_columns":
                return self.term_columns(self.draw(st.integers(0, 1 if kind is m.ClientPublish else 3)))
            case "u64_columns":
                return tuple(self.numbers(TOP, np.uint64) for _ in range(self.draw(st.integers(0, 1))))
            case "u64":
                return self.numbers(top, np.uint64)
            case "u32":
                return self.numbers(top, np.uint32)
        if form == "Contact":
            return self.contact()
        if form == "Contacts":
            return tuple(self.contact() for _ in range(self.draw(st.integers(0, 3))))
        if form == "query":
            return self.any_query()
        return self.draw(simple[form].filter(lambda value: not _surrogates(value)))


def waiting_alone(plan: Plan) -> list[int]:
    """Return the steps that wait under terms of their own pattern: the first one, and all those of CQC."""
    bits = (keys.S, keys.P, keys.O)
    return [
        number
        for number, step in enumerate(plan.steps)
        if not any(slot >= 0 and step.role & bit for bit, slot in zip(bits, step.pattern, strict=True))
    ]


def _surrogates(value: Any) -> bool:
    return "\ud800" <= max(str(value), default="") <= "\udfff"


def plain(value: Any, dictionary: TermDictionary, kind: str = "object") -> Any:
    """A message with its terms spelled out, to be compared."""
    if kind == "terms":
        return dictionary.texts(as_list(value))
    if kind == "term_columns":
        return [dictionary.texts(as_list(column)) for column in value]
    if kind in ("u64", "u32"):
        return as_list(value)
    if kind == "u64_columns":
        return list(map(as_list, value))
    if isinstance(value, Plan | ConjunctiveQuery | StandingQuery) or not dataclasses.is_dataclass(value):
        return value
    kinds = DECLARED[type(value)]
    return type(value), [plain(getattr(value, name), dictionary, kind.form) for name, kind in kinds.items()]


def other_dictionary() -> TermDictionary:
    """A dictionary that numbers the same terms otherwise."""
    dictionary = TermDictionary()
    dictionary.intern_all(["<urn:only:here>", *reversed(LITERALS), IRIS[7], IRIS[3]])
    return dictionary


@pytest.mark.parametrize("receiving", MATERIALS)
@pytest.mark.parametrize("sending", MATERIALS)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_any_messages_come_out_as_they_went_in(sending, receiving, data):
    here, there = TermDictionary(), other_dictionary()
    maker = Maker(data.draw, here, MATERIALS[sending])
    kinds = data.draw(st.lists(st.sampled_from(FRAMED), min_size=1, max_size=4))
    messages = [maker.message(kind) for kind in kinds]
    check_round_trip(messages, here, there, MATERIALS[sending], MATERIALS[receiving])


@pytest.mark.parametrize("kind", FRAMED, ids=lambda kind: kind.__name__)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_every_message_type_comes_out_as_it_went_in(kind, data):
    here, there = TermDictionary(), other_dictionary()
    message = Maker(data.draw, here, ARRAYS).message(kind)
    check_round_trip([message], here, there, ARRAYS, ARRAYS)
    check_round_trip([message], here, there, LISTS, LISTS)


def check_round_trip(messages, here, there, sending, receiving):
    sender, receiver = FrameCodec(here, sending), FrameCodec(there, receiving)
    for _ in range(2):  # the second time plans and terms are known
        (body,) = FrameReader().feed(sender.encode(messages))
        decoded = receiver.decode(body)
        assert [plain(each, there) for each in decoded] == [plain(each, here) for each in messages]
        for each in decoded:
            check_material(each, receiving)


def check_material(value: Any, columns: Columns) -> None:
    """Columns are of the codec's material and of their kind's type, and may be written to."""
    types = {"terms": np.uint32, "u32": np.uint32, "u64": np.uint64, "term_columns": np.uint32}
    types["u64_columns"] = np.uint64
    if isinstance(value, Plan | ConjunctiveQuery | StandingQuery) or not dataclasses.is_dataclass(value):
        return
    for name, kind in DECLARED[type(value)].items():
        part, form = getattr(value, name), kind.form
        if form not in types:
            check_material(part, columns)
            continue
        for column in part if form.endswith("_columns") else (part,):
            if columns is LISTS:
                assert type(column) is list
            else:
                assert column.dtype == types[form]
                assert column.flags.writeable


@pytest.mark.parametrize("columns", MATERIALS.values(), ids=MATERIALS)
@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 1000, codec.ROWS_MAX])
def test_batches_of_any_length_share_one_dictionary_of_terms(columns, count):
    here, there = TermDictionary(), other_dictionary()
    random = Random(count)
    ids = here.intern_all([f"<urn:y:{i}>" for i in range(min(count, 5000))])
    s, p, o = ([random.choice(ids) for _ in range(count)] for _ in range(3))
    wide = [random.getrandbits(64) for _ in range(count)]
    triples = m.IndexTriples(
        columns.column(s, np.uint32), columns.column(p, np.uint32), columns.column(o, np.uint32),
        columns.full(count, 1 << 60), columns.column(wide), columns.full(count, 5, np.uint32),
    )  # fmt: skip
    publish = m.ClientPublish(1, 2, 3, triples.o, triples.s, triples.p)
    frame = FrameCodec(here, columns).encode([triples, publish])
    terms = msgpack.unpackb(frame[4:])[1]
    assert len(terms) == len(set(terms)) == len({*s, *p, *o})
    decoded = FrameCodec(there, columns).decode(memoryview(frame)[4:])
    assert [plain(each, there) for each in decoded] == [plain(each, here) for each in (triples, publish)]


def test_a_frame_between_peers_may_have_more_distinct_terms_than_a_column_has_rows():
    """Their digests are longer than the longest column."""
    here, there = TermDictionary(), other_dictionary()
    count = codec.ROWS_MAX // 4  # of three columns, with digests of two numbers each
    s, p, o = (np.array(here.intern_all([f"<urn:{x}:{n}>" for n in range(count)]), np.uint32) for x in "spo")
    one = ARRAYS.full(count, 1)
    envelope = m.Envelope(1, 2, m.IndexTriples(s, p, o, one, one, ARRAYS.full(count, 1, np.uint32)))
    frame = FrameCodec(here, ARRAYS).encode([envelope])
    (decoded,) = FrameCodec(there, ARRAYS).decode(memoryview(frame)[4:], trusted=True)
    assert plain(decoded, there) == plain(envelope, here)


def test_columns_take_the_narrowest_width_and_equal_values_one_pair():
    dictionary = TermDictionary()
    pack = FrameCodec(dictionary, ARRAYS)._encoder.numbers
    for column, length in [([1, 2], 3), ([1, 256], 5), ([1, 1 << 16], 9), ([0, TOP], 17)]:
        assert len(pack(np.array(column, np.uint64))) == length
        assert pack(column) == pack(np.array(column, np.uint64))
    assert pack([7] * 500) == pack(np.full(500, 7, np.uint64)) == (500, 7)


@pytest.mark.parametrize("columns", MATERIALS.values(), ids=MATERIALS)
@pytest.mark.parametrize("count", [1, 100])
def test_between_peers_literals_that_stand_for_graphs_are_subjects_and_predicates_and_no_others_are(columns, count):
    dictionary = TermDictionary()
    iri, ours, other = dictionary.intern_all(["<urn:a>", QUALIFIED, '"x"'])

    def frame(s, p):
        s, p, o = (columns.column([iri] * (count - 1) + [each], np.uint32) for each in (s, p, iri))
        one = columns.full(count, 1)
        message = m.IndexTriples(s, p, o, one, one, columns.full(count, 1, np.uint32))
        return FrameCodec(dictionary, columns).encode([message])[4:]

    for receiver in (TermDictionary(), TermNames()):
        for material in MATERIALS.values():
            codec_there = FrameCodec(receiver, material)
            assert codec_there.decode(frame(ours, ours))
            for wrong in (frame(other, ours), frame(ours, other)):
                with pytest.raises(RemoteProtocolError, match="a literal as"):
                    codec_there.decode(wrong)


def test_a_publication_without_graphs_sends_no_column():
    dictionary = TermDictionary()
    (iri,) = dictionary.intern_all(["<urn:a>"])
    sizes = [
        len(FrameCodec(dictionary, LISTS).encode([m.ClientPublish(1, 2, 3, [iri], [iri], [iri], graph=graph)]))
        for graph in ((), ([iri],))
    ]
    assert sizes[0] < sizes[1] <= sizes[0] + 3


def test_a_known_plan_is_the_same_object_again():
    plan = make_plan(ConjunctiveQuery(((0, -1, 1),), ("<urn:p>",), (0,), ("a",)), (0,), Algorithm.CSBV)
    empty = m.Groups([], [], [], [], ([],))
    frame = FrameCodec(TermDictionary(), LISTS).encode([m.IndexQuery(plan, 0, empty)])
    receiver = FrameCodec(TermDictionary(), ARRAYS)
    first, second = (receiver.decode(frame[4:])[0].plan for _ in range(2))
    assert first is second
    assert first == plan


def test_the_longest_plan_of_a_query_is_sent():
    patterns = tuple((3 * number, 3 * number + 1, 3 * number + 2) for number in range(PATTERNS_MAX))
    variables = tuple(range(3 * PATTERNS_MAX))
    filters = [Filter("?v0", (0,))] * (FILTERS_MAX - 1)
    room = FILTERS_BYTES_MAX - sum(filter_bytes(each.text, each.variables) for each in filters)
    filters.append(Filter("x" * (room - filter_bytes("", variables)), variables))
    query = ConjunctiveQuery(patterns, (), variables, ("a",) * len(variables), filters=tuple(filters))
    message = m.IndexQuery(make_plan(query, range(PATTERNS_MAX), Algorithm.CSBV), 0, m.Groups([], [], [], [], ()))
    frame = FrameCodec(TermDictionary(), LISTS).encode([message])
    assert FrameCodec(TermDictionary(), LISTS).decode(frame[4:])[0].plan == message.plan


def test_plans_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr(limits, "PLANS_MAX", 5)
    here, there = FrameCodec(TermDictionary(), LISTS), FrameCodec(TermDictionary(), LISTS)
    empty = m.Groups([], [], [], [], ([],))
    for number in range(20):
        query = ConjunctiveQuery(((0, -1, 1),), ("<urn:p>",), (0,), ("a",), filters=(Filter(f"?v0 > {number}", (0,)),))
        message = m.IndexQuery(make_plan(query, (0,), Algorithm.CSBV), 0, empty)
        assert there.decode(here.encode([message])[4:])[0].plan == message.plan
    assert len(here._encoder._plans) == len(there._decoder._plans) == 5


def test_a_plan_in_use_is_remembered_and_no_longer(monkeypatch):
    monkeypatch.setattr(limits, "PLANS_MAX", 1)
    here, there = FrameCodec(TermDictionary(), LISTS), FrameCodec(TermDictionary(), LISTS)
    empty = m.Groups([], [], [], [], ([],))

    def sent(number: int) -> Plan:
        query = ConjunctiveQuery(((0, -1, 1),), ("<urn:p>",), (0,), ("a",), filters=(Filter(f"?v0 > {number}", (0,)),))
        message = m.IndexQuery(make_plan(query, (0,), Algorithm.CSBV), 0, empty)
        return there.decode(here.encode([message])[4:])[0].plan

    held = sent(0)
    sent(1)
    assert sent(0) is held
    del held
    sent(1)
    gc.collect()
    assert len(there._decoder._plans._in_use) == len(here._encoder._plans._in_use) == 1


# --- too much to send -----------------------------------------------------------------------------


def test_a_term_of_four_mebibytes_fits_and_a_longer_one_is_refused():
    here, there = TermDictionary(), TermDictionary()
    fits = here.intern('"' + "x" * (codec.TERM_BYTES_MAX - 2) + '"')
    longer = here.intern('"' + "\u00e9" * (codec.TERM_BYTES_MAX // 2) + '"')
    iri = here.intern("<urn:a>")
    sender = FrameCodec(here, LISTS)
    decoded = FrameCodec(there, LISTS).decode(sender.encode([m.ClientPublish(1, 2, 3, [iri], [iri], [fits])])[4:])
    assert there.text(decoded[0].o[0]) == here.text(fits)
    with pytest.raises(LocalProtocolError, match="term of more than"):
        sender.encode([m.ClientPublish(1, 2, 3, [iri], [iri], [longer])])
    sender.encode([m.ClientPublish(1, 2, 3, [iri], [iri], [iri])])  # nothing is left behind


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([m.GroupsGone([1] * (codec.ROWS_MAX + 1))], "rows for one message"),
        ([m.IndexesRequest()] * (codec.MESSAGES_MAX + 1), "messages for one frame"),
        ([m.NotOwner((m.Contact(1, "h", 1),) * 1025)], "contacts for one message"),
        ([m.NotOwner((m.Contact(1, "h", 1),) * 1000)] * 200, "too many terms or parts"),
        ([m.GroupsGone(list(range(1 << 40, (1 << 40) + 60_000)))] * 20, "a frame of"),
        ([m.Deliver(1, 2, 3, [], [], ([],) * 300)], "columns for one message"),
        ([m.GroupsGone([1, -1])], "cannot be encoded"),
        ([m.ClientHello(1, "\ud800")], "cannot be encoded"),
        (["hello"], "str is not a message"),
        ([m.Contact(1, "h", 1)], "Contact is not a message"),
    ],
)
def test_a_message_that_does_not_fit_a_frame_is_refused_by_the_sender(messages, reason):
    sender = FrameCodec(TermDictionary(), LISTS)
    with pytest.raises(LocalProtocolError, match=reason):
        sender.encode(messages)
    (again,) = FrameReader().feed(sender.encode([m.IndexesRequest()]))  # nothing is left behind
    assert FrameCodec(TermDictionary(), LISTS).decode(again) == [m.IndexesRequest()]


@pytest.mark.parametrize("columns", MATERIALS.values(), ids=MATERIALS)
def test_frames_of_nothing_but_equal_values_are_written_so_that_they_are_taken(columns):
    message = m.GroupLeases(columns.full(codec.ROWS_MAX, 7), columns.full(codec.ROWS_MAX, TOP))
    frame = FrameCodec(TermDictionary(), columns).encode([message, message])
    decoded = FrameCodec(TermDictionary(), columns).decode(frame[4:])
    assert [as_list(each.lease) for each in decoded] == [[TOP] * codec.ROWS_MAX] * 2


def test_the_largest_number_of_small_messages_is_taken():
    messages = [m.Envelope(n, n, m.Acknowledge([n])) for n in range(codec.MESSAGES_MAX)]
    frame = FrameCodec(TermDictionary(), LISTS).encode(messages)
    assert FrameCodec(TermDictionary(), LISTS).decode(frame[4:]) == messages


# --- forbidden input ----------------------------------------------------------------------------


@cache
def valid_bodies(seed: int) -> list[bytes]:
    """A few valid frames of every kind of content."""
    random = Random(seed)
    dictionary = TermDictionary()
    ids = dictionary.intern_all(IRIS)
    query = ConjunctiveQuery(((0, -1, 1), (1, -2, 2)), ("<urn:p>", "<urn:q>"), (0, 2), ("a", "b"))
    plan = make_plan(query, (1, 0), Algorithm.CSBV)
    numbers = [random.getrandbits(random.choice([3, 12, 30, 64])) for _ in range(6)]
    some = [random.choice(ids) for _ in range(6)]
    groups = m.Groups(numbers, numbers, numbers, [5] * 6, (some, some))
    rows = m.Rows([0, 1, 2, 3, 4, 5], numbers, numbers, numbers, (some, some))
    contact = m.Contact(1, "127.0.0.1", 7400)
    messages = [
        m.IndexTriples(some, some, some, numbers, numbers, [3] * 6), m.IndexQuery(plan, 1, groups),
        m.Forward(plan, 1, groups, dataclasses.replace(rows, bindings=(some,) * len(plan.steps[1].bound))),
        m.Answers(numbers, rows), m.RatesRequest(1, contact, [1], [2], [ids[0]], [ids[1]], [ids[2]]),
        m.OpenSubscription(1, 2, query, "cqc", True, contact, 60.0),
        m.SubscriptionOpened(1, 2, 3, 60.0, ("x",), (1, 0)), m.Deliver(1, 2, 3, numbers, numbers, (some,)),
        m.Nodes(1, (contact, contact)),
    ]  # fmt: skip
    encode = FrameCodec(dictionary, LISTS).encode
    whole = encode([m.Envelope(1, 2, each) for each in messages])[4:]
    return [whole, *[encode([each])[4:] for each in messages], encode([m.PeerHello(contact, 3)])[4:]]


def check_refused_or_taken(body: bytes) -> None:
    for columns in (ARRAYS, LISTS):
        try:
            decoded = FrameCodec(other_dictionary(), columns).decode(body)
        except RemoteProtocolError:
            pass
        else:
            assert isinstance(decoded, list)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused_and_nothing_else_happens(body):
    check_refused_or_taken(body)
    check_refused_or_taken(b"\x93\x02\x90" + body)
    check_refused_or_taken(b"\x93\x02\x91\xa3<a>\x91" + body)


def test_every_truncation_of_a_valid_frame_is_refused():
    for body in valid_bodies(1)[1:]:
        for end in range(len(body)):
            with pytest.raises(RemoteProtocolError):
                FrameCodec(TermDictionary(), LISTS).decode(body[:end])


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10), st.integers(0, 1 << 32), st.integers(1, 3))
def test_valid_frames_with_bytes_changed_are_refused_or_taken(which, seed, changes):
    random = Random(seed)
    body = bytearray(valid_bodies(seed % 5)[which])
    for _ in range(changes):
        body[random.randrange(len(body))] = random.choice([0, 1, 0x90, 0xC0, 0xC4, 0xD9, 0xFF, random.randrange(256)])
    check_refused_or_taken(bytes(body))


JUNK = [None, -1, 0, 1, 3, 64, 255, 65_537, 1 << 32, TOP, 1.5, float("nan"), True, "", "x", "<a>", b"", b"\x01",
        b"\xff\x01", b"\xff\xff\xff\xff\xff\xff\xff\xff\x08", b"\x00\x00\x03",
        [], [1], [2, 1], [65_537, 0], [1, TOP], [[]],
        {}]  # fmt: skip


def _replaced(value: Any, random: Random) -> Any:
    """Replace one part somewhere inside by junk, or drop or double it."""
    if isinstance(value, list) and value and random.random() < 0.85:
        at = random.randrange(len(value))
        change = random.random()
        if change < 0.1:
            return value[:at] + value[at + 1 :]
        if change < 0.2:
            return [*value, value[at]]
        return [*value[:at], _replaced(value[at], random), *value[at + 1 :]]
    if isinstance(value, bytes) and len(value) > 30 and random.random() < 0.7:  # a plan
        return msgpack.packb(_replaced(msgpack.unpackb(value), random)) if value[0] == 0x98 else value[:-9] + value[-1:]
    return random.choice(JUNK)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 10), st.integers(0, 1 << 32))
def test_valid_frames_with_parts_replaced_are_refused_or_taken(which, seed):
    random = Random(seed)
    body = msgpack.unpackb(valid_bodies(0)[which])
    check_refused_or_taken(msgpack.packb(_replaced(body, random)))


def frame_of(*messages: Any, terms: Any = ("<a>", '"b"'), version: Any = VERSION) -> bytes:
    return msgpack.packb([version, terms, messages])


ONE = [1, 0]
PLAN = ["csbv", False, False, [[0, -1, 1], [1, -1, 2]], [0, 1], [0], [["?v0", [0]]], 1, 0, 0]
RULE = ["csbv", False, False, [[0, -1, 1], [1, -1, 0]], [0, 1], [], [], 1, 2, 0]
GROUPS = [ONE, ONE, ONE, ONE, [ONE]]


def triples(**changes: Any) -> list[Any]:
    fields = {"s": ONE, "p": ONE, "o": [1, 1], "time": ONE, "event": ONE, "roles": ONE, "hops": 0, "view": 0}
    fields |= {"origin": 0, "published": 0, "began": 0, "complete": 0, "stamp": 0, "words": 0} | changes
    return [1, *fields.values()]


def index_query(plan: list[Any], step: Any = 0, groups: Any = GROUPS) -> list[Any]:
    return [2, msgpack.packb(plan), step, groups, 0, 0]


def planned(at: int, value: Any) -> list[Any]:
    return index_query([*PLAN[:at], value, *PLAN[at + 1 :]])


def rule(at: int, value: Any) -> list[Any]:
    return index_query([*RULE[:at], value, *RULE[at + 1 :]])


def forward(rows: Any, step: int = 1) -> list[Any]:
    return [3, msgpack.packb(PLAN), step, GROUPS, rows, 0, 0, 0, False, False]


COLUMNS = (ONE, ONE, ONE)


def publish(*graphs: Any, s: Any = ONE, p: Any = ONE, times: Any = ()) -> list[Any]:
    return [66, 1, 2, 3, s, p, [1, 1], "indexed", False, 0, list(graphs), False, list(times)]


def query(**changes: Any) -> list[Any]:
    parts: dict[str, Any] = {"patterns": [[0, -1, 1]], "constants": ["<p>"], "answer": [0], "names": ["a"]}
    parts |= {"distinct": False, "filters": [], "concludes": 0}
    return [16, 1, 2, list((parts | changes).values()), "csbv", False, [1, "h", 1], 1.0, 0, 0, 0]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (frame_of(version=1), "frame version 1; this peer speaks version 6"),
        (frame_of(version=True), "frame version True"),
        (msgpack.packb([VERSION, []]), "a frame has 3 parts, not 2"),
        (msgpack.packb({}), "not a sequence"),
        (frame_of(terms=["<a>", 5]), "a term is not a string"),
        (frame_of(terms=["<a>", []]), "a term is not a string"),
        (frame_of(terms=["<a>", {}]), "a term is not a string"),
        (frame_of(terms=["a"]), "'a' is not a term"),
        (frame_of(terms=["<a"]), "'<a' is not a term"),
        (frame_of(terms=['"a']), "is not a term"),
        (frame_of(terms=["_:b"]), "is not a term"),
        (msgpack.packb([VERSION, [b"<\xff>"], []]).replace(b"\xc4", b"\xd9"), "not a frame"),
        (frame_of([120]), "unknown message type 120"),
        (frame_of([]), "unknown message type None"),
        (frame_of([[1]]), "unknown message type a tuple"),
        (frame_of(5), "not a sequence"),
        (frame_of([11, 1]), "IndexesRequest has 0 fields, not 1"),
        (frame_of([49, 1, 2, [49, 1, 2, [11]]]), "Envelope.message: unknown message type 49"),
        (frame_of([49, 1, 2, [75, 1]]), "Envelope.message: unknown message type 75"),
        (frame_of(triples(o=[1, 2])), "IndexTriples.o: a term beyond the 2 of the frame"),
        (frame_of(triples(o=b"\x00\xff\x01")), "IndexTriples.o: a term beyond"),
        (frame_of(triples(o=struct.pack("<QQB", 0, TOP, 8))), "IndexTriples.o: a term beyond"),
        (frame_of(triples(o=[2, 0])), "columns of 1 and of 2 rows"),
        (frame_of(triples(s=[1, 1])), "a literal as subject"),
        (frame_of([63, ONE, ONE]), "is no predicate of texts with words"),
        (frame_of(triples(p=[1, 1])), "a literal as predicate"),
        (frame_of(publish(ONE, ONE)), "ClientPublish.graph: 2 columns; 1 are allowed"),
        (frame_of(publish([2, 0])), "columns of 1 and of 2 rows"),
        (frame_of(publish([1, 2])), "ClientPublish.graph: a term beyond the 2 of the frame"),
        (frame_of(publish(*[ONE] * 257)), "257 columns; 1 are allowed"),
        (frame_of([66, 1, 2, 3, *COLUMNS, "indexed", False, 0, 5, False, []]), "ClientPublish.graph: columns: 5 is"),
        (frame_of([66, 1, 2, 3, *COLUMNS, "indexed", False, 0, [], True, []]), "first event 3 of events that have no"),
        (frame_of([66, 1, 2, 0, *COLUMNS, "indexed", False, 0, [], 1, []]), "ClientPublish.by_content"),
        (frame_of(publish(ONE, times=[ONE, ONE])), "ClientPublish.times: 2 columns; 1 are allowed"),
        (frame_of(publish(ONE, times=[[2, 0]])), "columns of 1 and of 2 rows"),
        (frame_of(publish(ONE, times=[[1, -1]])), "ClientPublish.times: -1 is not an integer"),
        (frame_of([88, "<urn:a>", 1, 1 << 45, 3, 4]), "began: 35184372088832 is not an integer from 0 to 351"),
        (frame_of([88, "<urn:a>", 1, 2, 1 << 45, 4]), "ClientHeartbeat.upto: 35184372088832 is not"),
        (frame_of([60, ONE, ONE, ONE, ONE, [1, 1 << 45]]), "KeepEnds.upto: 35184372088832 is not"),
        (frame_of([46, False, [ONE, ONE], 0]), "WatchWatermarks.streams: 2 columns"),
        (frame_of([94, 0, ONE, ONE, ONE, ONE, ONE]), "traces of messages of kind 0"),
        (frame_of([94, 5, ONE, ONE, ONE, ONE, ONE]), "Traced.kind: 5 is not an integer from 0 to 4"),
        (frame_of([94, 1, *[[65, 0]] * 5]), "Traced.stamps: 65 rows; 64 are allowed"),
        (frame_of([94, 1, ONE, ONE, ONE, ONE, [2, 0]]), "columns of 1 and of 2 rows"),
        (frame_of(triples(published=1 << 16)), "65536 is not an integer from 0 to 65535"),
        (frame_of([37, 1, 19, 0, [3, 0], 0]), "3 sums; a power of two"),
        (frame_of([40, 1, 32]), "32 is not an integer from 0 to 31"),
        (frame_of(triples(roles=struct.pack("<QB", 1 << 32, 8))), "4294967296 is not an integer from 0 to"),
        (frame_of(triples(time=b"\x01\x02\x03")), "3 bytes are not a column of numbers of 3 bytes"),
        (frame_of(triples(time=b"\x01\x02\x02\x02")), "4 bytes are not a column of numbers of 2 bytes"),
        (frame_of(triples(time=b"")), "0 bytes are not a column"),
        (frame_of(triples(time=[65_537, 1])), "65537 rows; 1 to 65536"),
        (frame_of(triples(time=[0, 1])), "0 rows"),
        (frame_of(triples(time=[1, -1])), "-1 is not an integer"),
        (frame_of(triples(time=[1, 1.0])), "1.0 is not an integer"),
        (frame_of(triples(hops=True)), "IndexTriples.hops: True is not an integer"),
        (frame_of(triples(hops=-1)), "-1 is not an integer"),
        (frame_of(index_query(PLAN, step=2)), "step 2 of a plan of 2"),
        (frame_of(index_query(PLAN, groups=[ONE, ONE, ONE, ONE, []])), "0 constants for a plan of 1"),
        (frame_of(index_query(PLAN, groups=[ONE, ONE, ONE, [2, 0], [ONE]])), "columns of 1 and of 2 rows"),
        (frame_of(index_query(PLAN, groups=[ONE, ONE, ONE, ONE, [[2, 0]]])), "columns of 1 and of 2 rows"),
        (frame_of([2, b"\x98", 0, GROUPS, 0, 0]), "IndexQuery.plan: not a frame"),
        (frame_of([2, "plan", 0, GROUPS, 0, 0]), "is not a plan"),
        (frame_of(planned(0, "magic")), "unknown algorithm 'magic'"),
        (frame_of(planned(1, 0)), "0 is not true or false"),
        (frame_of(planned(3, [])), "0 patterns"),
        (frame_of(planned(3, [[0, -1, 1]] * 257)), "257 patterns"),
        (frame_of(planned(3, [[0, -1]])), "a pattern has 3 parts, not 2"),
        (frame_of(planned(3, [[0, -2, 1], [1, -1, 2]])), "slot -2 is no variable and none of 1 constants"),
        (frame_of(planned(3, [[0, -1, 6], [1, -1, 2]])), "slot 6"),
        (frame_of(planned(4, [0, 0])), "not an order of 2 patterns"),
        (frame_of(planned(4, [0])), "not an order of 2 patterns"),
        (frame_of(planned(5, [3])), "3 is no variable of the patterns"),
        (frame_of(planned(6, [["x" * FILTERS_BYTES_MAX, [0]]])), "filters of 49176 bytes; 49152 are allowed"),
        (frame_of(planned(8, 3)), "3 is not an integer from 0 to 2"),
        (frame_of(planned(8, 1)), "a rule has a body that binds its conclusion"),
        (frame_of(rule(1, True)), "a rule has a body"),
        (frame_of(rule(2, True)), "a rule has a body"),
        (frame_of(rule(3, [[0, -1, 1], [1, -1, 2]])), "a rule has a body"),
        (frame_of(rule(3, [[0, 2, 1], [1, 2, 0]])), "a rule has a body"),
        (frame_of(rule(4, [1, 0])), "what a rule concludes is not the last step of its plan"),
        (frame_of(query(filters=[["x" * FILTERS_BYTES_MAX, [0]]])), "filters of 49176 bytes"),
        (frame_of(query(concludes=1)), "a rule has a body"),
        (frame_of(query(concludes=1, answer=[], names=[])), "a rule has a body"),
        (frame_of(planned(5, [True])), "True is no variable"),
        (frame_of(planned(6, [["?v0", [1, 0]]])), "not ascending"),
        (frame_of(planned(6, [["?v0", [0, 0]]])), "not ascending"),
        (frame_of(planned(6, [["?v0", [5]]])), "5 is no variable"),
        (frame_of(planned(6, [[b"?v0", [0]]])), "is not a string"),
        (frame_of(planned(9, 1 << 40)), "1099511627776 is not an integer from 0 to"),
        (frame_of(planned(7, 1 << 20)), "1048576 is not an integer from 0 to"),
        (frame_of(forward([ONE, ONE, ONE, ONE, []])), "0 bindings for a step that carries 2"),
        (frame_of(forward([[1, 1], ONE, ONE, ONE, [ONE, ONE]])), "a row of group 1; the bound is 1"),
        (frame_of([4, ONE, [[1, 1], ONE, ONE, ONE, []], 0]), "a row of group 1; the bound is 1"),
        (frame_of(query(constants=["p"])), "'p' is not a term"),
        (frame_of(query(constants=[""])), "'' is not a term"),
        (frame_of([*query()[:3], b"{}", *query()[4:]]), "not a standing query"),
        (frame_of([*query()[:3], b"x" * 1_200_000, *query()[4:]]), "1200000 bytes"),
        (frame_of(query(patterns=[[0, -2, 1]])), "slot -2"),
        (frame_of(query(answer=[2])), "2 is no variable"),
        (frame_of(query(names=[])), "0 names for an answer of 1"),
        (frame_of(query(names=[3])), "3 is not a string"),
        (frame_of([69, 1, 2, 3, [], [0, 2], 0, False]), "not an order of 2 patterns"),
        (frame_of([33, [[1, "h", 65_536]], []]), "65536 is not an integer from 0 to 65535"),
        (frame_of([33, [[1, "h" * 256, 1]], []]), "a host name of 256 characters"),
        (frame_of([33, [[1, "h"]], []]), "Contact has 3 fields, not 2"),
        (frame_of([33, [[1, "h", 1]] * 1025, []]), "1025 parts; 1024 are allowed"),
        (frame_of([33, [[1, "h", 1]] * 2, [[1, "h", 1]]]), "1 peers before 2 others"),
        (frame_of([15, 7, 1, 2]), "HoldSubKeys.role: sub-keys under role 7, which has none"),
        (frame_of([25, 0, 1, 2]), "KeyDepth.role: sub-keys under role 0, which has none"),
        (frame_of([25, 2, 1, 9]), "9 is not an integer from 0 to 8"),
        (frame_of([14, 1, 2, float("inf")]), "inf is not a number of seconds"),
        (frame_of([10, 65_536, 0]), "65536 is not an integer from 0 to 65535"),
        (frame_of([*query()[:-4], float("nan"), 0, 0, 0]), "nan is not a number of seconds"),
        (frame_of([*query()[:-4], float("inf"), 0, 0, 0]), "inf is not a number of seconds"),
        (frame_of([*query()[:-4], -1, 0, 0, 0]), "-1 is not a number of seconds"),
        (frame_of([*query()[:-4], 0, 0, 0, 0]), "a lease of 0.0 s is less than 0.01 s"),
        (frame_of([*query()[:-4], 1e-9, 0, 0, 0]), "a lease of 1e-09 s is less than 0.01 s"),
        (frame_of([17, 1, 2, 3, 0.0, [], [], 0, 0]), "a lease of 0.0 s is less than 0.01 s"),
        (frame_of(index_query([*PLAN[:3], [[0, -1, 1], [1, 0, 2]], *PLAN[4:]], 1)), "under values that only rows have"),
        (frame_of([23, 1, 2, 3, ONE, ONE, [ONE] * 257, 0]), "257 columns; 256 are allowed"),
        (frame_of([68, 1, "SELECT", "magic", False, 1.0, 0, 0, False]), "unknown algorithm"),
        (frame_of(*[[11]] * (codec.MESSAGES_MAX + 1)), "8193 messages"),
        (frame_of([7, [65_536, 1], [65_536, 1]]), "equal values than the frame has bytes"),
        (msgpack.packb([VERSION, [], [[[[]] * 70_000] * 8]]), "more than 524288 parts"),
        (b"\x93\x02\x90\xdd\xff\xff\xff\xff", "exceeds max_array_len"),
        (b"\x93\x02\x91\xdb\xff\xff\xff\xff", "not a frame"),
        (b"\x93\x02\x90\x91\x92\x05\xc6\xff\xff\xff\xff", "not a frame"),
        (b"\x93\x02\x90\x91\xdf\xff\xff\xff\xff", "exceeds max_map_len"),
        (b"\x93\x02\x90\x91\xd6\xff\x00\x00\x00\x00", "exceeds max_ext_len"),
        (b"\x93\x02\x90\x91\xc7\x00\x05", "extension type 5"),
        (b"\x91" * 5000, "not a frame"),
        (b"\x93\x02\x90\x90\x00", "extra data"),
        (b"", "not a frame"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("columns", MATERIALS.values(), ids=MATERIALS)
def test_a_forbidden_frame_is_refused_with_its_reason(columns, body, reason):
    with pytest.raises(RemoteProtocolError) as caught:
        FrameCodec(TermDictionary(), columns).decode(body)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("columns", MATERIALS.values(), ids=MATERIALS)
def test_a_sender_before_its_hello_names_no_terms(columns):
    dictionary = TermDictionary()
    codec = FrameCodec(dictionary, columns)
    with pytest.raises(RemoteProtocolError, match="terms, of somebody who has not said who it is"):
        codec.decode(frame_of([64, 1, "", ""]), named=False)
    assert len(dictionary) == 0
    assert codec.decode(frame_of([64, 1, "", ""], terms=()), named=False) == [m.ClientHello(1)]


def test_the_frames_that_the_refused_ones_deviate_from_are_taken():
    rows = [ONE, ONE, ONE, ONE, [ONE, ONE]]
    concluding = query(concludes=2, patterns=[[0, -1, 1], [1, -1, 0]], answer=[], names=[])
    contacts = [33, [[1, "h" * 255, 65_535]], []]
    good = frame_of(triples(), index_query(PLAN), index_query(RULE), forward(rows), query(), concluding, contacts)
    for columns in (ARRAYS, LISTS):
        assert len(FrameCodec(TermDictionary(), columns).decode(good)) == 7


def test_a_full_dictionary_is_the_receivers_trouble_not_the_senders_fault():
    with pytest.raises(Busy):
        FrameCodec(TermDictionary(terms_max=1), LISTS).decode(frame_of())


def test_a_term_known_under_another_spelling_of_the_frame_is_one_term():
    dictionary = TermDictionary()
    FrameCodec(dictionary, LISTS).decode(frame_of(triples(o=[1, 1]), terms=["<a>", "<a>"]))
    assert len(dictionary) == 1


BOMBS = {
    "equal values": msgpack.packb([VERSION, ["<a>"], [[5, [65_536, TOP]]] * 8000]),
    "empty arrays": b"\x93\x02\x90\xdd" + (262_144).to_bytes(4, "big") + b"\x90" * 262_144,
    "nested arrays": msgpack.packb([VERSION, [], [[[0]] * 500] * 500]),
    "short strings": msgpack.packb([VERSION, ["ab"] * 262_144, []]),
    "many bindings": msgpack.packb(
        [VERSION, ["<a>"], [[23, 1, 2, 3, [60_000, 1], [60_000, 1], [[60_000, 0]] * 256, 0]] * 99]
    ),
    "nulls in a plan": msgpack.packb(
        [VERSION, [], [[2, b"\x98" + b"\xdc\x03\xff" + b"\xc0" * 60_000, 0, [], 0, 0]] * 90]
    ),
    "wide from narrow": msgpack.packb([VERSION, ["<a>"], [[5, bytes(60_000) + b"\x01"]] * 100]),
}


@pytest.mark.parametrize("columns", MATERIALS.values(), ids=MATERIALS)
@pytest.mark.parametrize("bomb", BOMBS)
def test_no_frame_takes_much_more_memory_than_its_size(bomb, columns):
    body = BOMBS[bomb]
    receiver = FrameCodec(TermDictionary(), columns)
    tracemalloc.start()
    try:
        receiver.decode(body)
    except RemoteProtocolError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 20 * len(body) + (4 << 20)


# --- the stream ----------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=50), max_size=10), st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_frames_come_out_whole_however_the_stream_is_cut(bodies, cuts):
    stream = b"".join(struct.pack(">I", len(body)) + body for body in bodies)
    reader, found, at, turn = FrameReader(), [], 0, 0
    while at < len(stream):
        step = cuts[turn % len(cuts)]
        found += reader.feed(memoryview(stream)[at : at + step])
        at, turn = at + step, turn + 1
    assert found == bodies
    assert reader.pending == 0


def test_an_incomplete_frame_waits_and_is_counted():
    reader = FrameReader()
    assert reader.feed(b"\x00\x00\x00\x03ab") == []
    assert reader.pending == 6
    assert reader.feed(b"c\x00") == [b"abc"]
    assert reader.pending == 1


@pytest.mark.parametrize("length", [0, codec.FRAME_BYTES_MAX + 1, (1 << 32) - 1])
def test_a_frame_that_lies_about_its_length_is_refused_before_it_is_buffered(length):
    reader = FrameReader()
    assert reader.feed(b"\x00\x00\x00\x01x" + struct.pack(">I", length)[:3]) == [b"x"]
    with pytest.raises(RemoteProtocolError, match=f"a frame of {length} bytes"):
        reader.feed(struct.pack(">I", length)[3:])


def test_message_numbers_are_unique_and_every_message_has_one():
    assert len(set(NUMBERS.values())) == len(NUMBERS)
    assert {number: kind for kind, number in NUMBERS.items()} == BY_NUMBER
    declared = {each for each in vars(m).values() if isinstance(each, type) and issubclass(each, Declared)}
    bases = {Declared, m.Message, m.ClientMessage, m.Contact, m.Groups, m.Rows}
    assert set(FRAMED) == declared - bases


def test_random_choices_of_the_tests_are_not_vacuous():
    """Mutated frames are sometimes taken and mostly refused."""
    taken = 0
    for seed in range(200):
        random = Random(seed)
        body = msgpack.packb(_replaced(msgpack.unpackb(valid_bodies(0)[random.randrange(11)]), random))
        try:
            FrameCodec(TermDictionary(), LISTS).decode(body)
            taken += 1
        except RemoteProtocolError:
            pass
    assert 5 < taken < 150
