"""Genuine messages of every type, with contents at random: the raw material of mutations.

The types are all declared ones (:data:`p2prdf.wire.fields.NUMBERS`), so a new type is included, or
:func:`bodies` says by name that it cannot be made.  All terms have a vocabulary of their own: triples published
by accident match nobody's query.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from p2prdf import keys
from p2prdf.columns import LISTS
from p2prdf.errors import P2PRDFError
from p2prdf.rdf import quads
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, Filter, Plan, make_plan
from p2prdf.rdf.standing.query import parse_query
from p2prdf.wire import messages as m
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.fields import DECLARED, NUMBERS
from p2prdf.wire.messages import Message
from p2prdf_node.transport import VERSION

__all__ = ["Maker", "bodies"]

TOP: Final = (1 << 64) - 1
_IRIS: Final = [f"<urn:fuzz:{number}>" for number in range(30)]
_LITERALS: Final = ['""', '"a"', '"a\\"b"@en', '"1"^^<http://www.w3.org/2001/XMLSchema#integer>', '"\U0001f600"']
_QUERIES: Final = (
    "SELECT ?a ?n WHERE { ?a <urn:fuzz:1> ?b . ?b <urn:fuzz:2> ?c OPTIONAL { ?b <urn:fuzz:3> ?n FILTER(?n > 1) } }",
    "ASK { ?a <urn:fuzz:1> ?b FILTER NOT EXISTS { ?b <urn:fuzz:2> ?c } }",
    "SELECT ?b (COUNT(?a) AS ?n) WHERE { { ?a <urn:fuzz:1> ?b } UNION { ?a <urn:fuzz:2>/<urn:fuzz:1> ?b } } GROUP BY ?b",  # noqa: E501
    "SELECT * { ?a <urn:fuzz:1> ?b }", "ASK {}",
)  # fmt: skip
_TEXTS: Final = (*_QUERIES, "", "x", "SELECT", "{" * 300, "SELECT * { ?s ?p ?o ", "\x00", "é" * 100, "<urn:fuzz:1>")
_HOSTS: Final = ("127.0.0.1", "::1", "127.0.0.1", "", "peer.invalid", "h" * 255)
_FEW_ROWS: Final = 6


class Maker:
    """Draws messages; terms are those of ``dictionary``.

    ``contacts``: peers that messages may be about, beside addresses without a peer; ``known``: numbers that
    mean something, beside some that mean nothing.
    """

    def __init__(
        self, rng: Random, dictionary: TermDictionary, contacts: Sequence[m.Contact] = (), known: Sequence[int] = ()
    ):
        self.rng = rng
        self.dictionary = dictionary
        self.contacts = contacts
        self.known = [0, *known]
        self.standing = [parse_query(text) for text in _QUERIES]
        self._rows = 0

    def message(self, kind: type) -> Any:
        """Return a message of a type."""
        rng = self.rng
        if kind is m.Envelope:
            inner = self.message(rng.choice([each for each in NUMBERS if issubclass(each, Message)]))
            return m.Envelope(self._number(), rng.choice([0, self._number()]), inner)
        if kind in (m.IndexQuery, m.Forward):
            return self._step(kind)
        if kind is m.KeepSubscription:
            return self._kept()
        self._rows = 1 << rng.randrange(4) if kind is m.BucketDigests else rng.randint(0, _FEW_ROWS)
        if kind is m.Answers:
            groups = self._numbers(TOP)
            return m.Answers(groups, self._rows_of(len(groups), rng.randint(0, 3)), rng.randrange(5))
        fields = {field.name: self._field(kind, field) for field in dataclasses.fields(kind)}
        if kind is m.NotOwner:
            fields["before"] = rng.choice([(), fields["contacts"]])
        if kind is m.KeepExport:
            fields["members"] = tuple({each.key: each for each in (*fields["members"], self._contact())}.values())
            fields["zones"] = tuple(rng.choice(("", "a", "b")) for _ in fields["members"])
        if kind is m.ExportPart:
            fields["lines"] = tuple(rng.choice(_TEXTS) for _ in fields["places"])
        if kind is m.ClientPublish and fields["by_content"]:
            fields["first_event"] = 0
        if kind is m.Traced:
            fields["kind"] = rng.randint(1, 4)
        if kind in (m.ClientHello, m.PeerHello):
            fields["version"] = m.CLIENT_VERSION if kind is m.ClientHello else VERSION
        return kind(**fields)

    def _step(self, kind: type) -> Any:
        plan = self._plan()
        step = self.rng.randrange(len(plan.order))
        groups = self._groups(plan.constant_count)
        if kind is m.IndexQuery:
            return m.IndexQuery(plan, step, groups, refresh=self._number(), hops=self.rng.randrange(9))
        rows = self._rows_of(len(groups), len(plan.steps[step].bound))
        return m.Forward(plan, step, groups, rows, refresh=self._number(), hops=self.rng.randrange(9))

    def _kept(self) -> Any:
        query, order = self._any_query(), list[int]()
        for leaf in query.leaves if isinstance(query, StandingQuery) else [query]:
            places = list(range(len(order), len(order) + len(leaf.patterns)))
            self.rng.shuffle(places)
            order += places
        self._rows = 1
        others = {
            field.name: self._field(m.KeepSubscription, field)
            for field in dataclasses.fields(m.KeepSubscription)
            if field.name not in ("query", "order")
        }
        return m.KeepSubscription(query=query, order=tuple(order), **others)

    # --- parts -----------------------------------------------------------------------------------

    def _number(self, top: int = TOP) -> int:
        rng = self.rng
        return min(top, rng.choice((1, 2, 255, 65_535, top, rng.getrandbits(64) % (top + 1), rng.choice(self.known))))

    def _numbers(self, top: int) -> list[int]:
        return LISTS.column([self._number(top) for _ in range(self._rows)])  # type: ignore[return-value]

    def _terms(self, pool: Sequence[str]) -> Any:
        return LISTS.column([self.dictionary.intern(self.rng.choice(pool)) for _ in range(self._rows)])

    def _columns(self, count: int) -> tuple[Any, ...]:
        return tuple(self._terms(_IRIS + _LITERALS) for _ in range(count))

    def _contact(self) -> m.Contact:
        if self.contacts and self.rng.random() < 0.5:
            return self.rng.choice(self.contacts)
        return m.Contact(self._number(), self.rng.choice(_HOSTS), self._number(65_535))

    def _groups(self, params: int) -> m.Groups:
        self._rows = self.rng.randint(1, _FEW_ROWS)
        return m.Groups(*[self._numbers(TOP) for _ in range(4)], self._columns(params))

    def _rows_of(self, groups: int, bindings: int) -> m.Rows:
        self._rows = self.rng.randint(0, _FEW_ROWS) if groups else 0
        group = self._numbers(max(groups - 1, 0))
        return m.Rows(group, *[self._numbers(TOP) for _ in range(3)], self._columns(bindings))

    def _query(self) -> ConjunctiveQuery:
        rng = self.rng
        patterns = [
            (2 * at if rng.random() < 0.7 else -1, -1 - rng.randrange(2), 2 * at + 2 if rng.random() < 0.8 else -2)
            for at in range(rng.randint(1, 3))
        ]
        used = sorted({slot for pattern in patterns for slot in pattern if slot >= 0})
        renamed = {slot: place for place, slot in enumerate(used)}
        slots = tuple(tuple(renamed.get(slot, slot) for slot in pattern) for pattern in patterns)
        answer = tuple(rng.sample(range(len(used)), rng.randint(0, len(used))))
        filters = (Filter("?v0 > 1", (0,)),) if used and rng.random() < 0.2 else ()
        texts = (rng.choice(_IRIS), rng.choice(_IRIS + _LITERALS))
        names = tuple(f"n{place}" for place in answer)
        return ConjunctiveQuery(slots, texts, answer, names, rng.random() < 0.3, filters)  # type: ignore[arg-type]

    def _any_query(self) -> m.Query:
        return self.rng.choice(self.standing) if self.rng.random() < 0.5 else self._query()

    def _plan(self) -> Plan:
        query = self._query()
        order = list(range(len(query.patterns)))
        self.rng.shuffle(order)
        return make_plan(query, order, self.rng.choice(list(Algorithm)), per_event=self.rng.random() < 0.2)

    def _field(self, kind: type, field: dataclasses.Field[Any]) -> Any:  # noqa: C901 - a table of kinds
        rng, name = self.rng, field.name
        top = DECLARED[kind][name].top
        match DECLARED[kind][name].form:
            case "terms" if kind is m.AdvertiseKeywords:
                return self._terms([quads.worded(each, ("tea", "pot")) for each in _IRIS[:5]])
            case "terms":
                resources = name in "sp" and kind not in (m.RatesRequest, m.CountsRequest)
                return self._terms(_IRIS if resources else _IRIS + _LITERALS)
            case "term_columns":
                return self._columns(rng.randint(0, 1 if kind is m.ClientPublish else 3))
            case "u64_columns":
                return tuple(self._numbers(TOP) for _ in range(rng.randint(0, 1)))
            case "u64":
                return self._numbers(top)
            case "u32":
                return self._numbers(top)
            case "int":
                return rng.choice(keys.SPLIT_ROLES) if name == "role" else self._number(top)
            case "bool":
                return rng.random() < 0.3
            case "float":
                return rng.choice([0.0, 0.5, 5.0, 60.0, 1e9])
            case "str":
                pool = {"algorithm": ("csbv", "cqc"), "stream": ("<urn:fuzz:stream>",), "level": (*m.LEVELS, "x"),
                        "traceparent": (f"00-{7:032x}-{7:016x}-01", "x")}  # fmt: skip
                return rng.choice(pool.get(name, _TEXTS))
            case "strings":
                return tuple(rng.choice(_TEXTS) for _ in range(rng.randrange(3)))
            case "order":
                order = list(range(rng.randint(0, 4)))
                rng.shuffle(order)
                return tuple(order)
            case "Contact":
                return self._contact()
            case "Contacts":
                return tuple(self._contact() for _ in range(rng.randrange(4)))
            case "query":
                return self._any_query()
        raise AssertionError(f"{kind.__name__}.{name}: a field of a kind that nothing is known about")


def bodies(rng: Random, count: int, contacts: Sequence[m.Contact] = ()) -> dict[type, list[bytes]]:
    """Return ``count`` bodies of frames with one message of each type, all taken by a decoder.

    Raises AssertionError naming a type of which none can be made.
    """
    dictionary = TermDictionary()
    maker, codec = Maker(rng, dictionary, contacts), FrameCodec(dictionary, LISTS)
    found: dict[type, list[bytes]] = {}
    for kind in (each for each in NUMBERS if issubclass(each, m.IN_FRAMES)):
        made: list[bytes] = []
        for _ in range(20 * count):
            body = codec.encode([maker.message(kind)])[4:]
            try:
                codec.decode(body)
            except P2PRDFError:
                continue
            made.append(body)
            if len(made) == count:
                break
        assert len(made) == count, f"no genuine {kind.__name__} can be made"
        found[kind] = made
    return found
