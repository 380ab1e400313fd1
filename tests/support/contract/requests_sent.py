"""Sends schemathesis's requests for each operation of a gateway's OpenAPI description, and checks the statuses.

Runs in an environment of its own (``make contract``), which has schemathesis and none of the project's packages.
One half of the requests fits the description, the other half breaks it.  Only the status is compared: schemathesis
does not know SPARQL and RDF, so texts come from a list, or are random.  The sender closes event streams after their
head.  Status 503 is right for a request that sets a shorter deadline than an answer takes; every other 503 is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import multiprocessing
import random
import warnings
from collections import Counter

import hypothesis
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, strategies
from hypothesis.errors import Unsatisfiable

MODES = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
EXAMPLES = 100
"""Requests to one operation at a time, from one seed."""
SECONDS = 70
"""Longest wait for the head of an answer: ten seconds more than the longest deadline of a query."""
DEADLINE_MIN = 1.0
"""Deadline in seconds below which 503 is a right answer."""
SHOWN_MAX = 20
RDF = ("<urn:c:s> <urn:c:p> <urn:c:o> .", '<urn:c:s> <urn:c:p> "x"@en .', "", "<urn:c:s> <urn:c:p>", "TX .\nTC .\n")
TEXTS = {
    "application/sparql-query": (
        "SELECT * { ?s <urn:c:p> ?o } LIMIT 5", "ASK {}", "CONSTRUCT WHERE { ?s <urn:c:p> ?o }", "DESCRIBE <urn:c:s>",
        "SELECT * {",
    ),
    "application/sparql-update": (
        "INSERT DATA { <urn:c:s> <urn:c:p> 1 }", "DELETE WHERE { <urn:c:s> ?p ?o }", "DROP GRAPH <urn:c:g>",
        "INSERT { ?s <urn:c:q> ?o } WHERE { ?s <urn:c:p> ?o }", "INSERT DATA {",
    ),
}  # fmt: skip
"""Texts by media type; the other media types are formats of RDF."""


def has_short_deadline(words):
    """Tell whether the request sets a deadline that its answer cannot keep."""
    for part in ("params", "data", "json"):
        given = words.get(part)
        value = given.get("timeout") if isinstance(given, dict) else None
        if isinstance(value, list) and value:  # repeated: the gateway takes the first one
            value = value[0]
        with contextlib.suppress(TypeError, ValueError):
            if float(value) < DEADLINE_MIN:
                return True
    return False


def as_text(context, value):
    """Serialize a body of a format that schemathesis does not know."""
    if isinstance(value, bytes):
        return value
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else json.dumps(value).encode()


def register_formats(description):
    """Tell schemathesis the media types of the description and the texts of queries and updates; return the result."""
    known = {"application/json", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain"}
    found = set()
    for methods in description["paths"].values():
        for operation in methods.values():
            content = operation.get("requestBody", {}).get("content", {})
            found |= set(content)
            for form in content.values():
                for name, schema in form["schema"].get("properties", {}).items():
                    if name in ("query", "update"):
                        schema["format"] = f"sparql-{name}"
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "query":
                    parameter["schema"]["format"] = "sparql-query"
    for name in ("query", "update"):
        texts = strategies.sampled_from(TEXTS[f"application/sparql-{name}"])
        schemathesis.openapi.format(f"sparql-{name}", strategies.one_of(texts, strategies.text()))
    for kind in sorted(found - known):
        schemathesis.serializer(kind)(as_text)
        texts = TEXTS.get(kind, RDF)
        either = strategies.one_of(strategies.sampled_from(texts), strategies.text())
        schemathesis.openapi.media_type(kind, either.map(lambda text: text.encode("utf-8", "surrogatepass")))
    return description


class Sender:
    """Sends requests from one process; ``take`` returns the counts since the last call."""

    def __init__(self, url):
        description = requests.get(f"{url}/openapi.json", timeout=SECONDS).json()
        schema = schemathesis.openapi.from_dict(register_formats(description))
        self.operations = [each.ok() for each in schema.get_all_operations()]
        self._url = url
        self._session = requests.Session()
        self._counts = Counts()

    def send(self, operation, case):
        """Send one request, and check the status of its answer."""
        words = case.as_transport_kwargs(base_url=self._url)
        try:
            with self._session.request(**words, stream=True, timeout=SECONDS, allow_redirects=False) as answer:
                status, kind = answer.status_code, answer.headers.get("Content-Type", "")
                if not kind.startswith("text/event-stream"):
                    answer.content  # noqa: B018  # read, so that the connection serves the next request
        except (requests.exceptions.InvalidHeader, requests.exceptions.InvalidURL, UnicodeError):
            return  # HTTP cannot carry it
        except requests.exceptions.RequestException as error:
            status = type(error).__name__
        counts = self._counts
        counts.asked[operation.label] += 1
        counts.statuses[str(status)] += 1
        for fault in faults(operation, status, words):
            counts.wrong[fault] += 1
            counts.shown.append(f"{fault}: {status} {operation.label} {repr(words)[:600]}")

    def examples(self, number, mode, seed):
        """Send the requests that one seed yields for an operation; return their counts."""
        operation = self.operations[number]

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=EXAMPLES, phases=[Phase.generate], database=None, deadline=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @hypothesis.given(case=operation.as_strategy(mode))
        def run(case):
            self.send(operation, case)

        # An operation without parameters and body cannot be broken.
        with contextlib.suppress(Unsatisfiable):
            run()
        found, self._counts = self._counts, Counts()
        return found


@dataclasses.dataclass
class Counts:
    """Requests by operation, answers by status, and faults."""

    asked: Counter = dataclasses.field(default_factory=Counter)
    statuses: Counter = dataclasses.field(default_factory=Counter)
    wrong: Counter = dataclasses.field(default_factory=Counter)
    shown: list = dataclasses.field(default_factory=list)

    def add(self, other):
        """Add the counts of another process."""
        self.asked += other.asked
        self.statuses += other.statuses
        self.wrong += other.wrong


def faults(operation, status, words):
    """Yield the faults of one answer."""
    if not isinstance(status, int):
        yield "without an answer"
        return
    if status >= 500 and not (status == 503 and has_short_deadline(words)):
        yield "5xx"
    if status not in {int(each) for each in operation.responses.status_codes}:
        yield "undocumented"


def begin(url):
    """Prepare a process."""
    global sender
    warnings.simplefilter("ignore")
    sender = Sender(url)


def work(job):
    """Carry out one job in a process."""
    return sender.examples(*job)


def main():
    """Send the requests; the exit status is 1 if any status is wrong."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("url")
    options.add_argument("--requests", type=int, required=True)
    options.add_argument("--seed", type=int, required=True)
    options.add_argument("--processes", type=int, default=2)
    given = options.parse_args()
    begin(given.url)
    operations, counts, rng, told = len(sender.operations), Counts(), random.Random(given.seed), 0
    shown = 0
    # Processes instead of threads: hypothesis changes the recursion limit, which Python 3.11 keeps for each process.
    with multiprocessing.get_context("spawn").Pool(given.processes, begin, (given.url,)) as pool:
        while counts.asked.total() < given.requests:
            jobs = [(number, mode, rng.getrandbits(63)) for number in range(operations) for mode in MODES]
            rng.shuffle(jobs)
            for found in pool.imap_unordered(work, jobs):
                counts.add(found)
                for line in found.shown[: SHOWN_MAX - shown]:
                    print(f"contract: WRONG: {line}", flush=True)
                    shown += 1
            if counts.asked.total() - told >= 2_000:
                told = counts.asked.total()
                print(f"contract: {told:,} requests, {counts.wrong.total():,} wrong", flush=True)
    print(f"contract: by operation: {json.dumps(dict(sorted(counts.asked.items())))}")
    print(f"contract: by status: {json.dumps(dict(sorted(counts.statuses.items())))}")
    wrong = ", ".join(f"{counts.wrong[each]:,} {each}" for each in ("5xx", "undocumented", "without an answer"))
    print(f"contract: {counts.asked.total():,} requests to {operations} operations, {wrong}", flush=True)
    raise SystemExit(1 if counts.wrong else 0)


if __name__ == "__main__":
    main()
