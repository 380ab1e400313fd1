"""Words of texts that somebody waits for, and publications indexed under them.

The problem
-----------
A pattern with a condition on a text waits under its predicate.  So the owner of that key sees every text, and holds
every query; splitting the key (:mod:`p2prdf.peer.joins.hot_keys`) would give each part of the texts to another peer,
but all queries to all of them.

The idea
--------
A query waits by a word that it needs: its pattern has a predicate that is qualified by the word, or by several of
which a text has one (:func:`p2prdf.text.by_words.by_words`).  Whoever publishes a text indexes it under its predicate
as ever and, with each such predicate that somebody waits for and that the text fits, once more.  These are
triples like others: their keys, rows, copies, repair, removals and bookmarks are those of any triple.

The invariant: *of every text that is indexed from the time on that words are waited for (``since``), there are, or are
on their way, the triples with these words.*  The words waited for grow only, and are told as roles are
(:mod:`p2prdf.peer.joins.index_advertisements`): the home of a query that needs new ones tells every peer and stamps the
subscription when all have acknowledged, so who did not know them published what is too old to count.

Who has not heard
-----------------
A peer that was cut off, that has just started, or that was lost in the middle of a publication may leave triples out.
So a message with triples names, by a sum of their hashes, the words that its origin knew and has indexed under
(``words`` in IndexTriples; 0 if it does not say).

1. Who *stores* triples of an origin that knew others, adds the triples with the words it knows itself.  All keepers do
   that, so it does not matter which of them is lost next; and whatever sends triples on and does not know what was
   added (a publication rolled forward, repair, roles that came late) says nothing and has it done again.
2. Who *hears* of words after it has stored texts that are as young as ``since``, adds the triples with them.
3. Who has started anew adds those of the last ``AGAIN_SECONDS``: what it had added may never have left.

(1) and (2) leave no gap: a text is stored before the words are heard of, or after.  What is added twice is the same
triple with the same stamp, and is known where it arrives.  An origin that knew other words is told those known here.

Rejected: words of a text all indexed, known or not (fifty messages for one); telling words to the owner of the
predicate's key, which adds the triples for all (it would see all texts again, and be asked by each); hashes of words
in a fixed number of buckets (a text of fifty words is in most of them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from p2prdf import hlc, keys
from p2prdf.columns import Column, as_array, as_list
from p2prdf.peer.network.batches import TripleBatch, union, youngest
from p2prdf.peer.network.component import Component, Handlers, Restorers
from p2prdf.rdf.fulltext import recent_text_of
from p2prdf.rdf.quads import word_parts_of
from p2prdf.wire.messages import AdvertiseWords, Contact

if TYPE_CHECKING:
    from p2prdf.peer.joins.index_advertisements import Roles
    from p2prdf.peer.network.messenger import Exchange
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.store.tables import Tables

__all__ = ["AGAIN_SECONDS", "WORDS_MAX", "Words"]

WORDS_MAX: Final = 4096
"""Predicates qualified by words that are waited for at once in an overlay; further queries wait under the predicate."""
AGAIN_SECONDS: Final = 60.0
"""Longer than a message is repeated to a peer that is there."""

_TELL_SECONDS: Final = 10.0
_ROLES: Final = 1 << keys.P | 1 << (keys.S | keys.P)
"""A pattern that waits by words has a predicate, no object, and perhaps a subject by then."""
_PLAIN: Final = (1 << keys.EVENT_SHIFT) - 1

U32 = npt.NDArray[np.uint32]


class Words(Component):
    """The words waited for, by predicate, as far as this peer has heard."""

    def __init__(
        self, exchange: Exchange, tables: Tables, dictionary: TermDictionary, indexes: Roles,
        route: Callable[[TripleBatch], None],
    ):  # fmt: skip
        self._exchange = exchange
        self._tables = tables
        self._dictionary = dictionary
        self._route = route
        self._indexes = indexes
        self.digest = 0
        """Names the words known; 0: there are none."""
        self._since: dict[int, int] = {}
        """By predicate that is qualified: the stamp from which on texts are indexed under it."""
        self._waiting: dict[int, dict[str, list[int]]] = {}
        """By predicate and word: the qualified predicates that ask for it."""
        self._predicates: U32 = np.zeros(0, np.uint32)
        self._youngest = 0
        self._told: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._since)

    @property
    def predicates(self) -> list[str]:
        """All that are waited for, in the order in which they were heard of."""
        return self._dictionary.texts(self._since)

    def room_for(self, predicates: Iterable[int]) -> bool:
        """Return whether queries may be let wait by all these predicates.

        Where they are left it is seen to that there are no more than ``WORDS_MAX``.  As several may be left at the same
        time in different places there may be some more; where twice as many are known there is an end to it.
        """
        new = sum(each not in self._since for each in predicates)
        return not new or len(self._since) + new <= 2 * WORDS_MAX

    def allowed(self, predicate: str) -> bool:
        """Return whether a query may wait by this predicate: others do, or there are not too many yet."""
        return len(self._since) < WORDS_MAX or self._dictionary.intern(predicate) in self._since

    # --- hearing of words ------------------------------------------------------------------------

    def add(self, message: AdvertiseWords) -> None:
        """Index under these predicates from now on, and what was published from ``since`` on as well."""
        earlier: dict[int, int] = {}
        for term, since in zip(as_list(message.predicates), as_list(message.since), strict=True):
            known = self._since.get(term)
            if known is None or since < known:
                if known is None and not self._take(term):
                    continue
                self._since[term] = earlier[term] = since
        if not earlier:
            return
        self._exchange.persist(self._message(earlier))
        first = min(earlier.values())
        if not self._exchange.restoring and first <= self._youngest:
            self._add_to(*self._tables.triples_since(first)[:4], only=earlier)

    def _take(self, term: int) -> bool:
        parts = word_parts_of(self._dictionary.text(term))
        if parts is None:
            return False
        predicate = self._dictionary.intern(parts[0])
        waiting = self._waiting.setdefault(predicate, {})
        for word in parts[1]:
            waiting.setdefault(word, []).append(term)
        self._predicates = np.array(list(self._waiting), np.uint32)
        self.digest ^= keys.fmix(self._dictionary.hashes[term])
        return True

    def _message(self, since: Mapping[int, int]) -> AdvertiseWords:
        make = self._exchange.columns.column
        return AdvertiseWords(make(since, "uint32"), make(since.values()))

    def handlers(self) -> Handlers:
        """Return the handler of advertisements."""
        return {AdvertiseWords: lambda _, message: self.add(message)}

    def restorers(self) -> Restorers:
        """Return the method that takes back advertisements."""
        return {AdvertiseWords: self.add}

    def status(self) -> Mapping[str, object]:
        """Return how many predicates are qualified by words."""
        return {"words": len(self)}

    def kept(self) -> list[AdvertiseWords]:
        """Return all that is known, as a message if it is anything."""
        return [self._message(self._since)] if self._since else []

    def tell(self, contact: Contact) -> None:
        """Tell a peer what is known here."""
        for message in self.kept():
            self._exchange.send(contact, message)

    # --- indexing --------------------------------------------------------------------------------

    def indexed(self, batch: TripleBatch) -> TripleBatch | None:
        """Return the triples with words of those that are being published, as a part of that; None if there are none.

        Elements of streams have none, as their predicates are not those of any triple.
        """
        made = self._made(batch.columns()[:4], batch.published, None, all_ages=True)
        if made is not None:
            made.tokens, made.words, made.origin, made.began = batch.tokens, batch.words, batch.origin, batch.began
        return made

    def stored(self, batch: TripleBatch) -> None:
        """Add what the origin of triples that are stored here did not know to be waited for."""
        if not union(batch.roles) & _PLAIN:
            return
        self._youngest = max(self._youngest, youngest(batch))
        if batch.words != self.digest:
            self._add_to(batch.s, batch.p, batch.o, batch.time)
            if batch.words and batch.sender is not None and batch.sender.key == batch.origin:
                self._tell_origin(batch.sender)

    def only_words(self, batch: TripleBatch) -> bool:
        """Return whether all triples of a batch are some with words.

        No role is ever missing then but with the text's own triple, and with that these are added.
        """
        text = self._dictionary.text
        return all(word_parts_of(text(each)) is not None for each in dict.fromkeys(as_list(batch.p)))

    def _tell_origin(self, contact: Contact) -> None:
        now = self._exchange.now
        if now >= self._told.get(contact.key, 0.0):
            self._told[contact.key] = now + _TELL_SECONDS
            self.tell(contact)

    def note_restored(self, batch: TripleBatch) -> None:
        """Note triples that a former life had stored."""
        self._youngest = max(self._youngest, youngest(batch))

    def add_again(self) -> None:
        """Add what a former life may have been about to: this peer has started anew."""
        if self._since and self._youngest:
            recent = max(0, self._youngest - hlc.from_seconds(AGAIN_SECONDS))
            self._add_to(*self._tables.triples_since(recent)[:4])

    def _add_to(
        self, s: Column, p: Column, o: Column, time: Column, *, only: Mapping[int, int] | None = None
    ) -> None:
        made = self._made((s, p, o, time), self._indexes.used, only, all_ages=False)
        if made is not None:
            self._exchange.trace("words-added-late", triples=len(made))
            self._route(made)

    def _made(
        self, columns: tuple[Column, ...], roles: int, only: Mapping[int, int] | None, *, all_ages: bool
    ) -> TripleBatch | None:
        """Return triples with words; ``only`` these predicates, and unless of all ages not those before their time."""
        if not self._since or not roles & _ROLES:
            return None
        places, terms = self._fitting(columns[1], columns[2], None if all_ages else columns[3], only)
        if not places:
            return None
        make = self._exchange.columns
        index = make.column(places, "int64")
        s, _, o, time = (make.take(column, index) for column in columns)
        p = make.column(terms, "uint32")
        hashes = self._dictionary.hash_array()
        parts = (hashes[as_array(column, np.intp)] for column in (s, p, o))
        events = make.adopt(keys.event_ids_by_content(0, *parts))  # of no publisher's, and nobody asks for them
        batch = TripleBatch(s, p, o, time, events, make.full(len(places), roles & _ROLES, "uint32"))
        batch.published = roles & _ROLES
        return batch

    def _fitting(
        self, predicates: Column, objects: Column, times: Column | None, only: Mapping[int, int] | None
    ) -> tuple[list[int], list[int]]:
        """Return places of triples and, for each, a predicate with words that the text there fits."""
        column = as_array(predicates, np.uint32)
        places: list[int] = []
        terms: list[int] = []
        dictionary = self._dictionary
        for place in np.flatnonzero(np.isin(column, self._predicates)).tolist():
            term = int(objects[place])
            text = recent_text_of(dictionary.text(term)) if dictionary.literals[term] else None
            if text is None:
                continue
            waiting = self._waiting[int(column[place])]
            time = None if times is None else hlc.plain(int(times[place]))
            found = chain.from_iterable(waiting[word] for word in text.words if word in waiting)
            for each in dict.fromkeys(found):
                if (only is None or each in only) and (time is None or time >= self._since[each]):
                    places.append(place)
                    terms.append(each)
        return places, terms
