"""Queries with full-text conditions that wait at one node for one predicate, and literals that come; no sockets.

Each query asks for two words: one of its topic, which ten queries share, and one as frequent as words are (Zipf's
law).  A text has 60 words, of two topics among them, and satisfies two queries of each by design, more by chance; so a
triple has as many matches however many queries wait.  *Scan*: the same tables, but that no row is filed by its
condition, as it was before there was an index.

*Stems*: the index at 10,000 queries with words of syllables and endings, in a language: compared as they are, by stems,
without stop words, and by similarity, of these two words.
"""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from common import calibrate, settle
from rich.console import Console
from rich.table import Table

from p2prdf import keys
from p2prdf.rdf import terms
from p2prdf.rdf.compiled import compile_filter
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.fulltext import FULL_TEXT
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, Filter, Plan, Step, make_plan
from p2prdf.store.columnar import ColumnarTables
from p2prdf.store.full_text import NO_CONDITION, FullText
from p2prdf.store.light import LightTables
from p2prdf.store.tables import Tables
from p2prdf.wire.messages import Groups

GROWTH_MAX = 3.0
"""Bound of a triple's time among 100,000 queries, as a multiple of that among 1,000."""
FASTER_MIN = 50.0
"""Least factor by which the index beats the scan at 10,000 queries."""

SECONDS_MAX = 6.0
"""Seconds of a scan's measurement; the index is measured for all triples."""
SCAN_BATCH_MAX = 20
"""Batch of a scan: it takes seconds, and batches of a thousand would not be faster, as filters run one by one."""
TRIPLES = 3000
WORDS, PER_TOPIC, TOPICS, PLANTED = 50_000, 10, 2, 2
LENGTH = 60
PREDICATE = "<urn:bench:text>"
STEMS_QUERIES = 10_000
ENDINGS = ("", "s", "ing", "ed", "ly", "ness")
WAYS = {
    "as they are": '"{0}" ftAND "{1}" ftAND ftNOT "never{2}"',
    "by stems": '("{0}" ftAND "{1}" ftAND ftNOT "never{2}") using stemming',
    "without stop words": '("{0}" ftAND "{1}" ftAND ftNOT "never{2}") using stop words',
    "by similarity": 'ftSIMILAR[0.15] "{0} {1}" using corpus[100000, "{0}" 5, "{1}" 5000]',
}
"""Ways of comparing words, and conditions in each of them for a topic, another word and a number."""


class Scan(FullText):
    """Files no row by its condition."""

    def use(self, plan: Plan, step: Step) -> int:
        """Return none."""
        return NO_CONDITION


@dataclass
class Loaded:
    """A node's tables with queries in them, and literals to come."""

    tables: Tables
    dictionary: TermDictionary
    texts: list[str]
    registered: float


def _vocabulary() -> list[float]:
    return list(accumulate(1 / rank for rank in range(2, WORDS + 2)))


def _syllables(name: str) -> str:
    """Return a name with a number as a word with an ending, and that of a topic without."""
    number, made, ending = int(name.strip("topicw")), name[0], 0
    if made == "w":
        number, ending = divmod(number, len(ENDINGS))
    while number or len(made) < 4:
        number, digit = divmod(number, 40)
        made += "bdfgklmnprst"[digit % 12] + "aeiou"[digit % 5]
    return made + "nd" + ENDINGS[ending]


def load(kind: str, queries: int, *, scan: bool, triples: int = 2 * TRIPLES, way: str | None = None) -> Loaded:
    """Fill tables of ``kind`` (light or columnar) with queries; make texts, those of two streams.

    ``way``: how words are compared, which are then English; None: as they are, in no language.
    """
    chance = random.Random(1)
    shares = _vocabulary()
    topics = queries // PER_TOPIC

    def word() -> str:
        return f"w{bisect(shares, chance.random() * shares[-1])}"

    spelled: Callable[[str], str] = str if way is None else _syllables
    behind = "" if way is None else ', "en"'
    asked = [(number // PER_TOPIC, word()) for number in range(queries)]
    texts = []
    for _ in range(triples):
        words = [word() for _ in range(LENGTH - TOPICS * (1 + PLANTED))]
        for topic in chance.sample(range(topics), TOPICS):
            first = topic * PER_TOPIC + chance.randrange(PER_TOPIC - PLANTED)
            words += [f"topic{topic}", *(asked[first + more][1] for more in range(PLANTED))]
        chance.shuffle(words)
        texts.append(f'"{" ".join(map(spelled, words))}"{"" if way is None else "@en"}')
    dictionary = TermDictionary()
    tables: Tables = (LightTables if kind == "light" else ColumnarTables)(dictionary, compile_filter)
    if scan:
        tables._full_text = Scan(dictionary)  # type: ignore[attr-defined]
    predicate = dictionary.intern(PREDICATE)
    make = tables.columns
    column, params = make.column, (make.column([predicate], "uint32"),)
    one, lease = column([1]), column([1 << 63])
    start = time.process_time()
    for number, (topic, other) in enumerate(asked):
        asked_so = WAYS[way or "as they are"].format(spelled(f"topic{topic}"), spelled(other), number)
        condition = terms.literal(asked_so + behind)
        filters = (Filter(f"{FULL_TEXT} ( ?v1 , {condition} )", (1,)),)
        query = ConjunctiveQuery(((0, -1, 1),), (PREDICATE,), (0, 1), ("x", "text"), filters=filters)
        plan = make_plan(query, (0,), Algorithm.CSBV)
        tables.add_queries(plan, 0, tables.add_groups(plan, Groups(column([number]), one, one, lease, params)), 0)
    return Loaded(tables, dictionary, texts, time.process_time() - start)


def feed(loaded: Loaded, batch: int, stream: int = 0) -> tuple[float, float]:
    """Publish the texts of a stream; return CPU seconds per triple and answers per triple."""
    tables, dictionary = loaded.tables, loaded.dictionary
    make = tables.columns
    objects = dictionary.intern_all(loaded.texts[stream * TRIPLES : (stream + 1) * TRIPLES])
    subjects = dictionary.intern_all(f"<urn:bench:{number}>" for number in range(len(objects)))
    predicate = dictionary.intern(PREDICATE)
    role = 1 << keys.P
    answers = done = 0
    settle()
    start = time.process_time()
    for first in range(0, len(objects), batch):
        some = objects[first : first + batch]
        size = len(some)
        derived = tables.add_triples(
            make.column(subjects[first : first + batch], "uint32"), make.full(size, predicate, "uint32"),
            make.column(some, "uint32"), make.full(size, 10), make.column(range(first, first + size)),
            make.full(size, role, "uint32"),
        )  # fmt: skip
        answers += sum(map(len, derived))
        done += size
        if time.process_time() - start > SECONDS_MAX:
            break
    return (time.process_time() - start) / done, answers / done


def run(console: Console, quick: bool) -> bool:
    """Print the table; return whether time grows by no more than the bar and the scan is beaten by it."""
    sizes = (1000, 10_000) if quick else (1000, 10_000, 100_000)
    console.print(f"calibration: {calibrate():.2f} M cold dictionary look-ups per CPU-second")
    table = Table(title=f"one node, texts of {LENGTH} words, queries of two words (and one they must not have)")
    columns = (
        "queries", "tables", "batch", "registered/cpu-s", "matches/triple", "scan: triples/cpu-s",
        "index: triples/cpu-s", "ms/triple", "times faster",
    )  # fmt: skip
    for column in columns:
        table.add_column(column, justify="right")
    took: dict[tuple[int, str, int], tuple[float, float]] = {}
    for queries in sizes:
        for kind, batches in (("light", (1,)), ("columnar", (1, 1000))):
            scanned = load(kind, queries, scan=True)
            scans = [feed(scanned, min(batch, SCAN_BATCH_MAX), stream)[0] for stream, batch in enumerate(batches)]
            del scanned
            gc.unfreeze()
            indexed = load(kind, queries, scan=False)
            for stream, (batch, scan) in enumerate(zip(batches, scans, strict=True)):
                index, answers = feed(indexed, batch, stream)
                took[queries, kind, batch] = scan, index
                table.add_row(
                    f"{queries:,}", kind, f"{batch:,}", f"{queries / indexed.registered:,.0f}", f"{answers:.2f}",
                    f"{1 / scan:,.2f}", f"{1 / index:,.0f}", f"{index * 1000:.3f}", f"{scan / index:,.0f}",
                )  # fmt: skip
            del indexed
            gc.unfreeze()
    console.print(table)
    _stems(console)
    _memory(console)
    if quick:
        return True
    kinds = {at[1:] for at in took}
    growth = max(took[sizes[-1], *each][1] / took[sizes[0], *each][1] for each in kinds)
    faster = min(took[10_000, *each][0] / took[10_000, *each][1] for each in kinds)
    console.print(
        f"bar: time per triple grows {growth:.2f} times from {sizes[0]:,} to {sizes[-1]:,} queries (less than "
        f"{GROWTH_MAX}); at 10,000 the index is {faster:,.0f} times as fast as the scan (at least {FASTER_MIN})"
    )
    return growth < GROWTH_MAX and faster >= FASTER_MIN


def _stems(console: Console) -> None:
    """Print the cost of comparing words by stems, and of leaving stop words out."""
    title = f"{STEMS_QUERIES:,} queries about texts in a language"
    table = Table(title=title)
    for column in ("words are compared", "tables", "batch", "matches/triple", "ms/triple", "registered/cpu-s"):
        table.add_column(column, justify="right")
    for way in WAYS:
        for kind, batches in (("light", (1,)), ("columnar", (1, 1000))):
            loaded = load(kind, STEMS_QUERIES, scan=False, way=way)
            for stream, batch in enumerate(batches):
                took, answers = feed(loaded, batch, stream)
                rate = STEMS_QUERIES / loaded.registered
                table.add_row(way, kind, f"{batch:,}", f"{answers:.2f}", f"{took * 1000:.3f}", f"{rate:,.0f}")
            del loaded
            gc.unfreeze()
    console.print(table)


def _memory(console: Console, queries: int = 5_000) -> None:
    """Print bytes per query, with and without the index, all objects counted."""
    for kind in ("light", "columnar"):
        taken = []
        for scan in (True, False):
            load(kind, 100, scan=scan, triples=1)
            gc.collect()
            tracemalloc.start()
            loaded = load(kind, queries, scan=scan, triples=1)
            gc.collect()
            taken.append(tracemalloc.get_traced_memory()[0] / queries)
            tracemalloc.stop()
            del loaded
        console.print(
            f"{kind} tables: {taken[0]:,.0f} bytes per query of a plan of its own, "
            f"{taken[1] - taken[0]:,.0f} more with the index of texts"
        )
