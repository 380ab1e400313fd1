"""Keyword index: texts are indexed under the keywords that queries wait for.

A pattern with a condition on a text would wait under its predicate, so that the owner of one key would see all texts
and all queries.  Instead the query waits under a predicate qualified by a keyword that every matching text contains
(:func:`p2prdf.text.by_words.by_words`), and a publisher adds one triple for each such predicate that its text fits.
These triples are replicated, compared and deleted like others.

Invariant: for each text indexed since a keyword is waited for (``since``), the triples with the keyword are stored or
in flight.  Keywords are advertised to every peer before the subscription is stamped, like indexes
(:mod:`p2prdf.peer.joins.index_advertisements`).  A publisher may have missed an advertisement, so a message names, by
a sum of hashes, the keywords that were applied (``words`` in IndexTriples; 0: unknown):

1. A replica that stores triples of a publisher with other keywords adds the triples for its own keywords.
2. A peer that hears of keywords after it has stored texts since ``since`` adds the triples.
3. A restarted peer adds the triples of the last ``AGAIN_SECONDS`` again.

Repeated additions have equal identities.  docs/explanation/design/rules-and-text.md gives the reasons.
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
from p2prdf.wire.messages import AdvertiseKeywords, Contact

if TYPE_CHECKING:
    from p2prdf.peer.joins.index_advertisements import IndexAdvertisements
    from p2prdf.peer.network.messenger import Messenger
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.store.tables import Tables

__all__ = ["AGAIN_SECONDS", "WORDS_MAX", "KeywordIndex"]

WORDS_MAX: Final = 4096
"""Qualified predicates in use at once in an overlay; further queries wait under the plain predicate."""
AGAIN_SECONDS: Final = 60.0
"""Seconds; longer than a message is repeated to a reachable peer."""

_TELL_SECONDS: Final = 10.0
_ROLES: Final = 1 << keys.P | 1 << (keys.S | keys.P)
"""A pattern that waits under a keyword has a predicate, no object, and perhaps a subject."""
_PLAIN: Final = (1 << keys.EVENT_SHIFT) - 1

U32 = npt.NDArray[np.uint32]


class KeywordIndex(Component):
    """The keywords that queries wait for, by predicate, as far as this peer has heard."""

    def __init__(
        self, messenger: Messenger, tables: Tables, dictionary: TermDictionary, indexes: IndexAdvertisements,
        route: Callable[[TripleBatch], None],
    ):  # fmt: skip
        self._messenger = messenger
        self._tables = tables
        self._dictionary = dictionary
        self._route = route
        self._indexes = indexes
        self.digest = 0
        """A sum of hashes of the known keywords; 0 without any."""
        self._since: dict[int, int] = {}
        """By qualified predicate, the stamp from which on texts are indexed under it."""
        self._waiting: dict[int, dict[str, list[int]]] = {}
        """By predicate and keyword, the qualified predicates with it."""
        self._predicates: U32 = np.zeros(0, np.uint32)
        self._youngest = 0
        self._told: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._since)

    @property
    def predicates(self) -> list[str]:
        """The qualified predicates in use, in the order of their advertisement."""
        return self._dictionary.texts(self._since)

    def room_for(self, predicates: Iterable[int]) -> bool:
        """Return whether queries may wait under all these predicates.

        Entry peers keep the number below ``WORDS_MAX``.  Several may add predicates at the same time, so twice as many
        are accepted.
        """
        new = sum(each not in self._since for each in predicates)
        return not new or len(self._since) + new <= 2 * WORDS_MAX

    def allowed(self, predicate: str) -> bool:
        """Return whether a query may wait under this predicate: it is in use, or there is room for another."""
        return len(self._since) < WORDS_MAX or self._dictionary.intern(predicate) in self._since

    # --- hearing of words ------------------------------------------------------------------------

    def add(self, message: AdvertiseKeywords) -> None:
        """Index texts under these predicates from now on, also texts published from ``since`` on."""
        earlier: dict[int, int] = {}
        for term, since in zip(as_list(message.predicates), as_list(message.since), strict=True):
            known = self._since.get(term)
            if known is None or since < known:
                if known is None and not self._take(term):
                    continue
                self._since[term] = earlier[term] = since
        if not earlier:
            return
        self._messenger.persist(self._message(earlier))
        first = min(earlier.values())
        if not self._messenger.restoring and first <= self._youngest:
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

    def _message(self, since: Mapping[int, int]) -> AdvertiseKeywords:
        make = self._messenger.columns.column
        return AdvertiseKeywords(make(since, "uint32"), make(since.values()))

    def handlers(self) -> Handlers:
        """Return the handler of advertisements."""
        return {AdvertiseKeywords: lambda _, message: self.add(message)}

    def restorers(self) -> Restorers:
        """Return the method that takes back advertisements."""
        return {AdvertiseKeywords: self.add}

    def status(self) -> Mapping[str, object]:
        """Return the number of qualified predicates."""
        return {"keywords": len(self)}

    def kept(self) -> list[AdvertiseKeywords]:
        """Return the known keywords as a message, or nothing without any."""
        return [self._message(self._since)] if self._since else []

    def tell(self, contact: Contact) -> None:
        """Tell a peer the known keywords."""
        for message in self.kept():
            self._messenger.send(contact, message)

    # --- indexing --------------------------------------------------------------------------------

    def indexed(self, batch: TripleBatch) -> TripleBatch | None:
        """Return the triples with keywords of a publication, or None without any.

        Elements of streams have none: their predicates are not those of triples.
        """
        made = self._made(batch.columns()[:4], batch.published, None, all_ages=True)
        if made is not None:
            made.tokens, made.words, made.origin, made.began = batch.tokens, batch.words, batch.origin, batch.began
        return made

    def stored(self, batch: TripleBatch) -> None:
        """Add the triples with keywords that the publisher of stored triples did not know."""
        if not union(batch.roles) & _PLAIN:
            return
        self._youngest = max(self._youngest, youngest(batch))
        if batch.words != self.digest:
            self._add_to(batch.s, batch.p, batch.o, batch.time)
            if batch.words and batch.sender is not None and batch.sender.key == batch.origin:
                self._tell_origin(batch.sender)

    def only_words(self, batch: TripleBatch) -> bool:
        """Return whether all triples of a batch are triples with keywords.

        They need no further indexes: these are added along with the triple of the text.
        """
        text = self._dictionary.text
        return all(word_parts_of(text(each)) is not None for each in dict.fromkeys(as_list(batch.p)))

    def _tell_origin(self, contact: Contact) -> None:
        now = self._messenger.now
        if now >= self._told.get(contact.key, 0.0):
            self._told[contact.key] = now + _TELL_SECONDS
            self.tell(contact)

    def note_restored(self, batch: TripleBatch) -> None:
        """Note triples that the earlier incarnation had stored."""
        self._youngest = max(self._youngest, youngest(batch))

    def add_again(self) -> None:
        """After a restart, add triples again that the earlier incarnation may not have sent."""
        if self._since and self._youngest:
            recent = max(0, self._youngest - hlc.from_seconds(AGAIN_SECONDS))
            self._add_to(*self._tables.triples_since(recent)[:4])

    def _add_to(
        self, s: Column, p: Column, o: Column, time: Column, *, only: Mapping[int, int] | None = None
    ) -> None:
        made = self._made((s, p, o, time), self._indexes.used, only, all_ages=False)
        if made is not None:
            self._messenger.trace("words-added-late", triples=len(made))
            self._route(made)

    def _made(
        self, columns: tuple[Column, ...], roles: int, only: Mapping[int, int] | None, *, all_ages: bool
    ) -> TripleBatch | None:
        """Return triples with keywords, of ``only`` these predicates; ``all_ages``: also of texts before their time."""
        if not self._since or not roles & _ROLES:
            return None
        places, terms = self._fitting(columns[1], columns[2], None if all_ages else columns[3], only)
        if not places:
            return None
        make = self._messenger.columns
        index = make.column(places, "int64")
        s, _, o, time = (make.take(column, index) for column in columns)
        p = make.column(terms, "uint32")
        hashes = self._dictionary.hash_array()
        parts = (hashes[as_array(column, np.intp)] for column in (s, p, o))
        events = make.adopt(keys.event_ids_by_content(0, *parts))  # events of no publisher; no query asks for them
        batch = TripleBatch(s, p, o, time, events, make.full(len(places), roles & _ROLES, "uint32"))
        batch.published = roles & _ROLES
        return batch

    def _fitting(
        self, predicates: Column, objects: Column, times: Column | None, only: Mapping[int, int] | None
    ) -> tuple[list[int], list[int]]:
        """Return places of triples, each with a qualified predicate that its text fits."""
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
