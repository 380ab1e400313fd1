"""Random rules and histories, and closures worked out the slow way."""

from __future__ import annotations

from p2prdf.reasoning.materialiser import FOREVER
from p2prdf.reasoning.rule import Atom, Rule

TERMS = tuple(f"<urn:{name}>" for name in "abcde")
PREDICATES = tuple(f"<urn:{name}>" for name in "pqr")
VARIABLES = ("?x", "?y", "?z", "?w")

TRANSITIVE = Rule(Atom("?x", "<urn:p>", "?z"), (Atom("?x", "<urn:p>", "?y"), Atom("?y", "<urn:p>", "?z")))
SYMMETRIC = Rule(Atom("?y", "<urn:q>", "?x"), (Atom("?x", "<urn:q>", "?y"),))
OF_PROPERTIES = Rule(Atom("?x", "?q", "?y"), (Atom("?p", "<urn:r>", "?q"), Atom("?x", "?p", "?y")))
MEETING = Rule(Atom("?x", "<urn:q>", "?x"), (Atom("?x", "<urn:p>", "?x"),))
THREE = Rule(
    Atom("?w", "<urn:r>", "?x"), (Atom("?x", "<urn:p>", "?y"), Atom("?y", "<urn:q>", "?z"), Atom("?z", "?w", "<urn:a>"))
)


class Always:
    """An effort that recomputes always, never, or now and then."""

    def __init__(self, answer):
        self.answer = answer

    def anew(self, _changes, _facts):
        return self.answer()

    @property
    def counts(self):
        return self.answer()

    def touched(self, changes, facts):
        assert facts >= 0 <= changes


MENDED, ANEW = Always(lambda: False), Always(lambda: True)


class Numbers:
    """Terms by numbers, as a dictionary of terms gives them."""

    def __init__(self):
        self.known = {}

    def __call__(self, term):
        return self.known.setdefault(term, len(self.known))

    def term(self, number):
        return list(self.known)[number]

    def fact(self, *terms):
        return tuple(map(self, terms))


def random_rule(rng):
    """Return a rule of one to three patterns; its head mostly has variables of its body."""
    body = tuple(
        Atom(
            rng.choice((*VARIABLES, *VARIABLES, rng.choice(TERMS))),
            rng.choice((*PREDICATES, *PREDICATES, "?w", "?z")),
            rng.choice((*VARIABLES, *VARIABLES, rng.choice(TERMS), rng.choice(PREDICATES))),
        )
        for _ in range(rng.choice((1, 2, 2, 3)))
    )
    bound = sorted(set().union(*(atom.variables for atom in body))) or [TERMS[0]]
    p = rng.choice((*PREDICATES, *PREDICATES, rng.choice(bound)))
    return Rule(Atom(rng.choice(bound), p, rng.choice((*bound, *TERMS))), body)


def random_rules(rng):
    """Return some rules, known ones and random ones."""
    known = [TRANSITIVE, SYMMETRIC, OF_PROPERTIES, MEETING, THREE]
    return rng.sample(known, rng.randrange(4)) + [random_rule(rng) for _ in range(rng.randrange(1, 3))]


def closure(rules, facts, numbers):
    """Return all that follows from facts: every rule is tried with every combination of facts, until nothing is new."""
    found = set(facts)
    while True:
        new = set()
        for rule in rules:
            for valuation in _valuations(rule.body, found, numbers, {}):
                head = tuple(valuation[part] if part.startswith("?") else numbers(part) for part in rule.head)
                if head not in found:
                    new.add(head)
        if not new:
            return found
        found |= new


def _valuations(body, facts, numbers, known):
    if not body:
        yield known
        return
    for fact in facts:
        bound = dict(known)
        for part, value in zip(body[0], fact, strict=True):
            if bound.setdefault(part, value if part.startswith("?") else numbers(part)) != value:
                break
        else:
            yield from _valuations(body[1:], facts, numbers, bound)


def labelled_closure(rules, given, numbers):
    """Return each fact with the largest moment at which it follows from the facts that hold then."""
    labels = {}
    for moment in sorted(set(given.values())):
        labels |= dict.fromkeys(closure(rules, {f for f, label in given.items() if label >= moment}, numbers), moment)
    return labels


def history(rng, numbers, steps):
    """Yield moments with the facts given and taken back then: renewals, background, late facts, steps left out."""
    now, known = 0, []
    for _ in range(steps):
        now += rng.choice((0, 1, 1, 1, 2, 5))
        given = {}
        for _ in range(rng.randrange(4)):
            fact = (
                numbers.fact(rng.choice(TERMS), rng.choice(PREDICATES), rng.choice((*TERMS, rng.choice(PREDICATES))))
                if not known or rng.random() < 0.7
                else rng.choice(known)
            )
            known.append(fact)
            given[fact] = FOREVER if rng.random() < 0.15 else now + rng.randrange(-1, 9)
        back = rng.sample(known, min(len(known), rng.randrange(3))) if rng.random() < 0.4 else []
        yield now, given, back


class Given:
    """The given facts that hold, tracked by hand."""

    def __init__(self):
        self.labels = {}

    def step(self, now, given, back):
        self.labels = {f: label for f, label in self.labels.items() if label >= now or f in back}
        for fact in back:
            self.labels.pop(fact, None)
        for fact, label in given.items():
            if label >= now:
                self.labels[fact] = max(label, self.labels.get(fact, label))
