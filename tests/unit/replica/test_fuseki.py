"""A replica at Apache Jena Fuseki, in memory and in TDB2, which keeps numbers by value and is killed in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fuseki
import pytest
from replica_runner import DIED, expected, open_target, run, write_history

from p2prdf.errors import TargetMoved
from p2prdf.interest import Interests, Triple, parse_interest
from p2prdf.interest.changeset import Changeset
from p2prdf.rdf import terms
from p2prdf.replica.replica import Replica
from p2prdf.replica.target import Target

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(fuseki.missing()), reason=f"no Apache Jena Fuseki: {fuseki.missing()}"),
]


@pytest.fixture(params=["memory", "tdb2"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[fuseki.Fuseki]:
    found = fuseki.Fuseki(tmp_path / "fuseki", tdb2=request.param == "tdb2").start()
    yield found
    found.kill()


async def _content(target: Target) -> set[Triple]:
    return {triple async for triple in target.triples()}


async def test_terms_arrive_as_they_are_and_updates_once(server: fuseki.Fuseki) -> None:
    target = open_target(server.url)
    literals = [
        *map(terms.literal, [
            "plain", "", 'quotes " and \\ and \n and \r', "tab\tand\u2028", "{ } . ; ?x $y <a> '''", "\\\\\\",
            "\\u0041 is no A, \\n no line", "\U0010ffff",
        ]),
        terms.literal("é \U0001f600 \u05d0", None, "he"), terms.literal("x", "http://example.org/a#b%20c"),
        terms.literal("3", terms.XSD + "integer"),
    ]  # fmt: skip
    triples = {("<http://example.org/é?a=1&b=%2F#c>", "<urn:p>", literal) for literal in literals}
    await target.update([], triples, before=None, after="1")
    assert await _content(target) == triples
    with pytest.raises(TargetMoved):
        await target.update(triples, [], before=None, after="2")
    await target.update(triples, [], before="1", after="2")
    assert (await _content(target), await target.cursor()) == (set(), "2")
    await target.close()


async def test_numbers_are_kept_by_value_or_as_they_are(server: fuseki.Fuseki) -> None:
    target = open_target(server.url)
    interests = Interests()
    interests.add("it", parse_interest("SELECT * { ?s <urn:n> ?n }"))
    replica = Replica(interests, target)
    one, also = (("<urn:s>", "<urn:n>", terms.literal(n, terms.XSD + "integer")) for n in ("1", "01"))
    await replica.begin([one])
    await replica.apply("1", Changeset.of((), [also]))
    assert (await replica.verify()).equal
    await replica.apply("2", Changeset.of([one]))
    assert len(await _content(target)) == 1
    assert (await replica.verify()).equal
    await replica.close()


def test_a_replica_killed_in_between_ends_exact(server: fuseki.Fuseki, tmp_path: Path) -> None:
    dataset = write_history(tmp_path, seed=5)
    deaths = sum(run(tmp_path, server.url, tmp_path / "state", die_at=point) == DIED for point in (2, 5, 8, 11))
    assert deaths == 4
    assert run(tmp_path, server.url, tmp_path / "state") == 0  # it compares the target itself
    assert expected(dataset)


async def test_a_server_killed_between_updates_goes_on_where_it_was(tmp_path: Path) -> None:
    server = fuseki.Fuseki(tmp_path / "fuseki", tdb2=True).start()
    target = open_target(server.url)
    triples = [("<urn:s>", "<urn:p>", f"<urn:o{number}>") for number in range(10)]
    await target.update([], triples, before=None, after="1")
    server.kill()
    server.start()
    assert await target.cursor() == "1"
    await target.update(triples[:5], [], before="1", after="2")
    assert await _content(target) == set(triples[5:])
    await target.close()
    server.kill()
