"""A small dataset that changes at random, an interest in it, and the right content of a target."""

from __future__ import annotations

from p2prdf.interest import Changeset, Interests, parse_interest

__all__ = ["INTEREST", "drawn", "history", "slice_of"]

INTEREST = """SELECT * {
  ?a <urn:type> <urn:A> ; <urn:goals> ?g ; <urn:team> ?t . ?t <urn:label> ?l FILTER (?g != "0")
  OPTIONAL { ?a <urn:page> ?p } OPTIONAL { ?t <urn:in> ?c . ?c <urn:label> ?cl FILTER (?cl != ?l) }
}"""


def drawn(rng):
    """Return a random triple that is about the interest, or nearly."""
    player, team, place = (f"<urn:{kind}{rng.randrange(5)}>" for kind in ("a", "t", "c"))
    return rng.choice([
        (player, "<urn:type>", rng.choice(("<urn:A>", "<urn:A>", "<urn:B>"))),
        (player, "<urn:goals>", f'"{rng.randrange(3)}"'), (player, "<urn:team>", team),
        (player, "<urn:page>", f'"{rng.randrange(2)}"'), (team, "<urn:label>", f'"{rng.randrange(2)}"'),
        (team, "<urn:in>", place), (place, "<urn:label>", f'"{rng.randrange(2)}"'), (player, "<urn:other>", team),
    ])  # fmt: skip


def history(rng, count):
    """Yield changesets that add triples, and remove present and absent ones."""
    held = set()
    for number in range(count):
        gone = [each for each in sorted(held) if rng.random() < 0.25] + [drawn(rng) for _ in range(2)]
        come = [drawn(rng) for _ in range(rng.choice((3, 10, 25)))]
        changeset = Changeset.of(gone, come)
        held = (held - set(gone)) | set(come)
        yield f"{number + 1:06}", changeset, frozenset(held)


def slice_of(held, interest=INTEREST):
    interests = Interests()
    interests.add("it", parse_interest(interest))
    interests.apply(Changeset.of((), held))
    return set(interests.union())
