"""Registrations are read with care, shared out by a rule that all sync workers follow, and asked for by one query."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from random import Random

import pytest

from p2prdf.errors import DataRefused, LocalProtocolError, TargetRefused
from p2prdf.interest import Pattern
from p2prdf.interest.registration import (
    INTEREST,
    INTEREST_WORKERS,
    MAINTAINS,
    PAUSED,
    Registration,
    default_name,
    read_registration,
    subject_of,
    worker_of,
)
from p2prdf.rdf import terms
from p2prdf.rdf.standing.query import parse_query
from p2prdf.replica.candidates import BRANCHES_MAX, WHOLE, branches_of, candidates_text
from p2prdf.replica.credentials import CredentialsByHost, read_credentials
from p2prdf.replica.registry import REGISTRY, Registry

QUERY = "SELECT * { ?a <urn:p> ?b }"
HOSTS = frozenset({"127.0.0.1"})
NAMES = [INTEREST_WORKERS.subject(number) for number in (7, 8, 9)]


def covers(branches, pattern):
    """Return whether one of the branches matches all triples that a pattern matches."""
    return any(all(part in (None, other) for part, other in zip(branch, pattern, strict=True)) for branch in branches)


def made(name: str = "n", dataset: str = "<urn:d>", host: str = "127.0.0.1", **more: object) -> Registration:
    url = f"http://{host}/update"
    return Registration(**{
        "name": name, "dataset": dataset, "target": url, "query_url": url, "graph": f"<urn:g:{name}>", "query": QUERY,
        **more,
    })  # type: ignore[arg-type]  # fmt: skip


def test_a_registration_reads_back_equal() -> None:
    for each in (made(), made(graph=None), made(query='SELECT * { ?a ?b "\\"é\\n" }')):
        s, p, o = each.triple
        assert p == INTEREST
        assert read_registration(s, terms.parse_term(o)) == each
    assert default_name("<urn:d>", "http://a", None) != default_name("<urn:d>", "http://a", "<urn:g>")


@pytest.mark.parametrize(("change", "reason"), [
    ({"dataset": "<not an iri>"}, "mine"), ({"dataset": '"x"'}, "no name of a graph"), ({"graph": '"x"'}, "is no IRI"),
    ({"target": "ftp://x/"}, "not the URL"), ({"query_url": "http://me:secret@x/"}, "credentials do not belong"),
    ({"target": "http://x/" + "a" * 3000}, "3009 characters"), ({"query": "ASK { ?a ?b ?c }"}, "ASK"),
    ({"query": 7}, "be strings"), ({"dataset": None}, "be strings"), ({"more": "x"}, "format of this version"),
])  # fmt: skip
def test_a_bad_interest_is_refused_by_name(change: dict[str, object], reason: str) -> None:
    s, _, o = made("mine").triple
    told = json.loads(terms.lexical(o)) | change
    with pytest.raises(DataRefused, match=reason) as refused:
        read_registration(s, terms.literal(json.dumps(told)))
    assert str(refused.value).startswith("mine: ")
    assert "secret" not in str(refused.value)


def test_names_are_plain() -> None:
    for name in ("", "a b", "a>b", "é", "a" * 101, "-a"):
        with pytest.raises(LocalProtocolError, match="is no name"):
            subject_of(name)
        with pytest.raises(LocalProtocolError, match="is no name"):
            made(name).check()
    for text in ("", "{}", "[]", "null", "{", '"x"'):
        with pytest.raises(DataRefused):
            read_registration(subject_of("n"), terms.literal(text))
    with pytest.raises(DataRefused, match="not the name"):
        read_registration("<urn:x>", made().triple[2])


def test_a_datasets_interests_are_with_one_worker_and_move_only_if_it_goes() -> None:
    workers = dict.fromkeys(NAMES, HOSTS)
    datasets = [f"<urn:d{number}>" for number in range(60)]
    before = {each: worker_of(made(dataset=each), workers) for each in datasets}
    assert {worker_of(made(name, datasets[0]), workers) for name in ("a", "b", "c")} == {before[datasets[0]]}
    shares = [sum(1 for each in before.values() if each == worker) for worker in NAMES]
    assert min(shares) > 10
    del workers[NAMES[0]]
    after = {each: worker_of(made(dataset=each), workers) for each in datasets}
    assert {each for each in datasets if before[each] != after[each]} == {
        each for each in datasets if before[each] == NAMES[0]
    }
    assert worker_of(made(), {}) is None


def test_an_interest_is_with_a_worker_that_allows_its_host() -> None:
    workers = {NAMES[0]: frozenset({"a"}), NAMES[1]: frozenset({"b:80"}), NAMES[2]: frozenset({"b:81"})}
    for number in range(20):
        dataset = f"<urn:d{number}>"
        assert worker_of(made(dataset=dataset, host="a"), workers) == NAMES[0]
        assert worker_of(made(dataset=dataset, host="b"), workers) == NAMES[1]
        assert worker_of(made(dataset=dataset, host="[::1]"), workers) in NAMES, "who says that it is refused"
        elsewhere = made(dataset=dataset, host="a", query_url="http://b/query")
        assert worker_of(elsewhere, {**workers, NAMES[2]: frozenset({"a", "b"})}) == NAMES[2]


def registry_of(*triples: tuple[str, str, str]) -> Registry:
    registry = Registry()
    for each in triples:
        registry.take(each, removed=False)
    return registry


def sign(worker: str, hosts: object = ("127.0.0.1",)) -> tuple[str, str, str]:
    return worker, MAINTAINS, terms.literal(json.dumps({"hosts": hosts}))


def test_workers_share_registrations_without_asking_one_another() -> None:
    registered = [made(f"n{number}", f"<urn:d{number}>") for number in range(30)]
    refused = made("far", host="far.example")
    signs = [sign(each) for each in NAMES]
    registry = registry_of(*(each.triple for each in [*registered, refused]), *signs)
    shares = [registry.share(each, HOSTS) for each in NAMES]
    assert sorted(name for share in shares for name in share.own) == sorted(each.name for each in registered)
    (told,) = [reason for share in shares for reason in share.refused.values()]
    assert "far.example/update: no interest worker permits this host" in told.reason
    registry.membership.expired.add(NAMES[0])
    shares = [registry.share(each, HOSTS) for each in NAMES[1:]]
    assert len([name for share in shares for name in share.own]) == 30
    registry.take(registered[3].triple, removed=True)
    assert "n3" not in registry.registrations().own
    registry.take((registered[4].triple[0], PAUSED, '"true"'), removed=False)
    assert registry.paused() == {registered[4].triple[0]}


def test_a_removal_may_come_before_its_registration() -> None:
    registry = Registry()
    registry.take(made().triple, removed=True)
    registry.take(made().triple, removed=False)
    assert registry.registrations().own == {}
    registry.take(made().triple, removed=False)
    assert registry.registrations().own == {"n": made()}


def test_errors_in_the_registry_are_reported_once_and_stop_nobody() -> None:
    broken = (subject_of("broken"), INTEREST, '"{"')
    registry = registry_of(
        broken, ("<urn:x>", INTEREST, '"{}"'), made("good").triple, made("twice").triple,
        made("twice", query="SELECT * { ?a ?b ?c }").triple, made("late", graph="<urn:g:good>").triple,
        ("<urn:x>", MAINTAINS, '"{}"'), ("<urn:p2prdf:keeper:zz>", MAINTAINS, '"{}"'), sign(NAMES[0], 7),
        sign(NAMES[1]), ("<urn:x>", "<urn:y>", "<urn:z>"),
    )  # fmt: skip
    assert registry.workers() == {NAMES[0]: frozenset(), NAMES[1]: HOSTS}
    own, wrong = registry.registrations()
    assert set(own) == {"good"}
    assert {name: each.reason.partition(":")[0] for name, each in wrong.items()} == {
        "broken": "broken", "twice": "it is registered twice",
        "late": "its target graph belongs to the interest good; a graph has one interest",
    }
    told = [name for worker in NAMES[:2] for name in registry.share(worker, HOSTS).refused]
    assert sorted(told) == ["broken", "late", "twice"]


# --- the one query of a dataset ----------------------------------------------------------------------------------


def drawn_pattern(rng: Random) -> Pattern:
    s = rng.choice(("?a", "?b", "<urn:s1>", "<urn:s2>"))
    p = f"<urn:p{rng.randrange(8)}>"
    return s, p, rng.choice(("?c", "?d", *(f'"{n}"' for n in range(40))))


@pytest.mark.parametrize("seed", range(12))
def test_the_query_covers_all_patterns_and_no_triple_twice(seed: int) -> None:
    rng = Random(seed)
    patterns = [drawn_pattern(rng) for _ in range(rng.choice((1, 3, 10, 60)))]
    branches = branches_of(patterns)
    assert len(branches) <= BRANCHES_MAX
    assert all(covers(branches, pattern) for pattern in patterns)
    for _ in range(200):
        s, p, o = f"<urn:s{rng.randrange(4)}>", f"<urn:p{rng.randrange(9)}>", f'"{rng.randrange(41)}"'
        taken = [each for each in branches if covers([each], (s, p, o))]
        assert len(taken) <= 1
        assert taken or not any(covers([_constants(pattern)], (s, p, o)) for pattern in patterns)


def _constants(pattern: Pattern) -> tuple[str | None, str | None, str | None]:
    s, p, o = (None if part.startswith("?") else part for part in pattern)
    return s, p, o


def test_patterns_too_many_for_one_query_are_asked_for_as_a_whole() -> None:
    assert branches_of([("?a", "?p", "<urn:x>"), ("?a", "<urn:p>", "?b")]) == (WHOLE,)
    assert branches_of([("?a", f"<urn:p{n}>", "?b") for n in range(BRANCHES_MAX + 1)]) == (WHOLE,)
    many = [("?a", "<urn:type>", f"<urn:A{n}>") for n in range(200)]
    assert branches_of([*many, ("?a", "<urn:goals>", "?g")]) == (
        (None, "<urn:goals>", None), (None, "<urn:type>", None),
    )  # fmt: skip
    assert branches_of([("?a", "<urn:p>", f'"{"x" * 900}{n}"') for n in range(20)]) == ((None, "<urn:p>", None),)
    assert branches_of([("<urn:a>", "<urn:p>", "?b"), ("<urn:a>", "<urn:p>", "?c")]) == (
        ("<urn:a>", "<urn:p>", None),
    )  # fmt: skip


def test_the_queries_are_ones_that_nodes_take() -> None:
    full = branches_of([("?a", f"<urn:p{n}>", '"x"@en') for n in range(BRANCHES_MAX)])
    for text in (REGISTRY, candidates_text("<urn:d>", full), candidates_text("<urn:d>", (WHOLE,))):
        assert parse_query(text)


# --- credentials ---------------------------------------------------------------------------------------------------


def test_credentials_are_those_of_the_host(tmp_path: Path) -> None:
    file = tmp_path / "auth"
    file.write_text("# ours\na.example basic me:secret\na.example:81 bearer abc\n\n[::1] bearer def\n")
    file.chmod(0o600)
    found = read_credentials(file)
    assert (one := found.of("http://A.example/update")) is not None
    assert one.headers["Authorization"].startswith("Basic ")
    other = found.of("http://a.example:81/update")
    assert other is not None
    assert other.headers == {"Authorization": "Bearer abc"}
    assert found.of("http://[::1]:99/") is not None
    assert found.of("http://b.example/") is None
    assert read_credentials(None).of("http://a.example/") is None
    with pytest.raises(LocalProtocolError, match="here:2: no credentials") as refused:
        CredentialsByHost("a bearer x\nb hunter2\n", source="here")
    assert "hunter2" not in str(refused.value)
    file.chmod(stat.S_IRUSR | stat.S_IROTH)
    with pytest.raises(LocalProtocolError, match="others may read"):
        read_credentials(file)
    with pytest.raises(TargetRefused):
        found.of("nonsense")
