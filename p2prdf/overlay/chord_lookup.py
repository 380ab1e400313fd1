"""Chord's routing table and its lookup as a state machine, for the daemon and the simulator alike.

The problem: find the owner of a key, which is the first live peer at or after it going clockwise, and the
few peers after that one, none of them missing.  Stoica et al. (2001, section 4) do it by going to the last
peer *before* the key, for that one knows who follows it: whoever is asked names the closest peers before
the key that it knows, those are asked in turn, and with fingers at doubling distances each step halves the
way left, so about half of log2 N peers are asked.

The rule of an answer.  One message serves both purposes, because the names speak for themselves:

* names strictly between the answerer and the key say where to go on;
* names at or after the key are its owners as the answerer knows them: the end of its successor list, owner
  first, without a gap.

Whoever believes to be the last peer before the key gives its successor list.  Whoever is a little further
back gives it too: then the part before the key is ways on, and the rest counts only if all of those turn
out to be dead, so that a peer whose successor has just died can still be asked.

A successor list that has come round the ring ends with the peer whose list it is.  So a ring of one is its
own successor, as in the paper, and a list of owners that ends with the answerer names every peer there is.

Going on.  All names heard are kept by their distance before the key, and the closest that has neither
answered nor failed is asked next: one chain of requests when nobody fails, and a step back to the next
best when somebody does.  Every way on must lie strictly between its teller and the key, so each step comes
closer.  When the closest peer that did not fail has told owners, it is the predecessor, and those are the
result.  If it knew only ways on that failed, others are asked for more of them; if there are none, the
lookup has failed: anyone else's list would leave out that peer and, for all we know, others after it.  Its
own stabilisation will have mended that by the next attempt.

The own peer takes part as one that has answered, from its table.  When peers of that table fail, the table
is read as if they were not in it.

What is true of the result.  Only peers *before* the key were asked.  Those at or after it are what the
predecessor told, so one of them may have died since its last stabilisation.  Peers that failed in this very
lookup are left out, and leaving out dead ones leaves no gap: between the key and the last name nobody alive
is missing.  Whoever must not be told of a dead owner asks the first of the result, and calls :meth:`failed`
of it: that works after the end, too.  A name under the own position is the own peer, or what is left of its
former life, and is given as the own peer.

Bounds: a peer is asked once, at most ``REQUESTS_MAX`` peers are asked and at most ``HEARD_MAX`` remembered;
of one answer ``2 * count`` names are looked at.  A lookup that would need more has failed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from p2prdf.wire.messages import Contact

__all__ = [
    "HEARD_MAX", "REQUESTS_MAX", "WAYS_ON", "ChordTable", "Lookup", "ahead", "between", "ideal_tables",
    "successor_list",
]  # fmt: skip

REQUESTS_MAX: Final = 256
HEARD_MAX: Final = 2048
WAYS_ON: Final = 3
"""How many peers before the key an answer names: the best one and two in case it is dead."""

_BITS: Final = 64
_RING: Final = 1 << _BITS
_TABLES_MAX: Final = 4096

_HEARD, _ASKED, _ANSWERED, _FAILED = range(4)


def ahead(start: int, end: int) -> int:
    """Return how far it is clockwise from one position to another: 1 to 2^64, the whole ring to itself."""
    return (end - start - 1) % _RING + 1


def between(start: int, key: int, end: int) -> bool:
    """Tell whether a key lies strictly between two positions clockwise; from one to itself is all the ring."""
    return key != end and ahead(start, key) < ahead(start, end)


def successor_list(own: Contact, first: Contact, rest: Sequence[Contact], count: int) -> tuple[Contact, ...]:
    """Return the list of ``own`` whose first successor is ``first``, and that one's list is ``rest``.

    At most ``count``; ends with ``own`` if that is where it comes round to, and before anyone who would
    take it round again.
    """
    successors = [first]
    for contact in rest:
        if len(successors) == count:
            break
        if contact.key == own.key:
            successors.append(own)
            break
        if ahead(own.key, contact.key) <= ahead(own.key, successors[-1].key):
            break
        successors.append(contact)
    return tuple(successors)


@dataclass(frozen=True, slots=True)
class ChordTable:
    """What one peer knows of the ring.

    ``successors``: the next peers clockwise, nearest first; ends with the own peer if it has come round, and
    is never empty: a peer that knows nobody is its own successor.  ``predecessor``: the last peer before the
    own one, None if it is not known.  ``fingers``: any other live peers.
    """

    own: Contact
    predecessor: Contact | None
    successors: tuple[Contact, ...]
    fingers: tuple[Contact, ...]
    _ranked: list[Contact] = field(init=False, repr=False, compare=False)
    _ahead: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Sort everyone known clockwise from the own position."""
        assert self.successors, "a peer that knows nobody is its own successor"
        known = {contact.key: contact for contact in self.fingers}
        if self.predecessor is not None:
            known[self.predecessor.key] = self.predecessor
        known.update((contact.key, contact) for contact in self.successors)
        known.pop(self.own.key, None)
        ranked = sorted(known.values(), key=lambda contact: ahead(self.own.key, contact.key))
        object.__setattr__(self, "_ranked", ranked)
        object.__setattr__(self, "_ahead", [ahead(self.own.key, contact.key) for contact in ranked])

    def answer(self, key: int) -> tuple[Contact, ...]:
        """Return what this peer says of a key: where to go on, and who its owners are (see the module).

        At most the successor list and ``WAYS_ON`` names more.
        """
        distance = ahead(self.own.key, key)
        end = bisect_left(self._ahead, distance)
        ways_on = self._ranked[max(0, end - WAYS_ON) : end][::-1]
        if distance > ahead(self.own.key, self.successors[-1].key):
            return tuple(ways_on)
        return tuple(dict.fromkeys((*ways_on, *self.successors)))

    def without(self, gone: Iterable[Contact]) -> ChordTable:
        """Return this table as it is when some of its peers are gone."""
        out = set(gone)
        successors = tuple(contact for contact in self.successors if contact not in out)
        predecessor = None if self.predecessor in out else self.predecessor
        fingers = tuple(contact for contact in self.fingers if contact not in out)
        return ChordTable(self.own, predecessor, successors or (self.own,), fingers)

    def contacts(self) -> list[Contact]:
        """Return everyone known but the own peer, clockwise from the own position."""
        return list(self._ranked)


class Lookup:
    """One lookup.  Ask whom :meth:`requests` names, report what comes of it, until :attr:`done`."""

    __slots__ = (
        "_before_key", "_own_ways", "_owners", "_state", "_table", "_too_many", "_under_way", "asked", "count",
        "done", "own", "parallel", "target",
    )  # fmt: skip

    def __init__(self, target: int, own: Contact, table: ChordTable, *, count: int = 8, parallel: int = 1):
        """Look for the ``count`` peers from ``target`` on, from what the own peer's ``table`` says on.

        ``parallel``: requests under way at once.  More than one costs requests and saves the time of
        waiting for the dead.
        """
        assert count >= 1
        assert parallel >= 1
        assert table.own == own
        self.target = target
        self.own = own
        self.count = count
        self.parallel = parallel
        self.asked = 0  # requests named so far
        self.done = False
        self._under_way = 0
        self._too_many = False
        self._table = table
        self._state: dict[Contact, int] = {own: _ANSWERED}
        self._owners: dict[Contact, tuple[Contact, ...]] = {}  # what each told of those after the target
        self._before_key: list[tuple[int, str, int, Contact]] = []  # of those that have not failed
        self._own_ways: tuple[Contact, ...] = ()
        self._enter(own)
        self._ask_own_table()
        self._advance()

    def requests(self) -> list[Contact]:
        """Return the peers to ask now for the target; each is named once."""
        if self.done:
            return []
        asking = []
        for *_, contact in self._before_key:
            if contact in self._owners or self._under_way >= self.parallel or self.asked >= REQUESTS_MAX:
                break
            if self._state[contact] == _HEARD:
                self._state[contact] = _ASKED
                self._under_way += 1
                self.asked += 1
                asking.append(contact)
        return asking

    def answered(self, contact: Contact, contacts: Sequence[Contact]) -> None:
        """Take in what ``contact`` said (:meth:`ChordTable.answer`).  An answer nobody asked for changes nothing.

        An answer that comes after its request was given up counts again.
        """
        state = self._state.get(contact)
        if self.done or state not in (_ASKED, _FAILED):
            return
        if state == _ASKED:
            self._under_way -= 1
        else:
            self._enter(contact)
        self._state[contact] = _ANSWERED
        self._hear(contact, contacts[: 2 * self.count])
        self._advance()

    def failed(self, contact: Contact) -> None:
        """Note that a peer is gone or silent: one that was asked or, after the end, one of the result."""
        state = self._state.get(contact)
        if self.done and state != _ANSWERED:
            self._state[contact] = _FAILED
        elif state == _ASKED:
            self._under_way -= 1
            self._state[contact] = _FAILED
            del self._before_key[bisect_left(self._before_key, self._place(contact))]
            self._ask_own_table()
            self._advance()

    @property
    def before(self) -> Contact | None:
        """The last peer before the target, None when the lookup failed or is not done."""
        return self._before_key[0][-1] if self.result else None

    @property
    def result(self) -> tuple[Contact, ...]:
        """The peers at or after the target, nearest first; empty when the lookup failed."""
        return self._told()[: self.count]

    @property
    def complete(self) -> bool:
        """Whether the result is the whole ring: the predecessor's successor list came round to itself."""
        owners = self._told()
        return 0 < len(owners) <= self.count and owners[-1] == self._before_key[0][-1]

    # --- inside ----------------------------------------------------------------------------------

    def _ask_own_table(self) -> None:
        """Take in what the own table says without the peers that failed.

        It speaks up again when its former ways on have all failed, and not before: the others are
        further away.
        """
        if any(self._state.get(contact) != _FAILED for contact in self._own_ways):
            return
        failed = [contact for contact, state in self._state.items() if state == _FAILED]
        table = self._table.without(failed) if failed else self._table
        said = table.answer(self.target)
        distance = ahead(self.own.key, self.target)
        self._own_ways = tuple(contact for contact in said if ahead(self.own.key, contact.key) < distance)
        self._hear(self.own, said)

    def _hear(self, teller: Contact, names: Sequence[Contact]) -> None:
        """Take in names: candidates if they lie between their teller and the target, else owners."""
        way = ahead(teller.key, self.target)
        owners = []
        for contact in names:
            if contact == teller or ahead(teller.key, contact.key) >= way:
                owners.append(self.own if contact.key == self.own.key else contact)
            elif contact.key != self.own.key and contact not in self._state:
                self._too_many |= len(self._state) >= HEARD_MAX
                if self._too_many:
                    return
                self._state[contact] = _HEARD
                self._enter(contact)
        if owners:
            owners.sort(key=lambda contact: (self._after(contact), contact.host, contact.port))
            self._owners[teller] = tuple(
                contact for at, contact in enumerate(owners) if not at or owners[at - 1].key != contact.key
            )

    def _after(self, contact: Contact) -> int:
        return (contact.key - self.target) % _RING

    def _place(self, contact: Contact) -> tuple[int, str, int, Contact]:
        return ahead(contact.key, self.target), contact.host, contact.port, contact

    def _enter(self, contact: Contact) -> None:
        insort(self._before_key, self._place(contact))

    def _told(self) -> tuple[Contact, ...]:
        """Return what the closest peer before the target told of those after it, without the failed."""
        if not self.done or self._too_many:
            return ()
        owners = self._owners.get(self._before_key[0][-1], ())
        return tuple(contact for contact in owners if self._state.get(contact) != _FAILED)

    def _advance(self) -> None:
        exhausted = self.asked >= REQUESTS_MAX and self._under_way == 0
        self.done = self._too_many or exhausted or not self._waiting()

    def _waiting(self) -> bool:
        """Tell whether anyone is left to be heard before the closest that told owners."""
        for *_, contact in self._before_key:
            if contact in self._owners:
                return False
            if self._state[contact] != _ANSWERED:
                return True
        return False


# --- tables as they would be -------------------------------------------------------------------------


def ideal_tables(contacts: Iterable[Contact], successors: int = 8) -> Mapping[int, ChordTable]:
    """Return the table of each peer, by its key, as if the ring had been stabilised for ever.

    Finger i is the first peer at or after own + 2^i; repetitions are dropped.  A table is made when it is
    first asked for and a few thousand are kept, so tens of thousands of peers cost next to nothing.
    """
    return _IdealTables(contacts, successors)


class _IdealTables(Mapping[int, ChordTable]):
    """Tables made on demand from all peers in order."""

    def __init__(self, contacts: Iterable[Contact], successors: int):
        assert successors >= 1
        self._ranked = sorted(contacts, key=lambda contact: contact.key)
        self._keys = [contact.key for contact in self._ranked]
        assert all(a < b for a, b in pairwise(self._keys)), "keys are unique"
        self._successors = successors
        self._made: dict[int, ChordTable] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[int]:
        return iter(self._keys)

    def __getitem__(self, key: int) -> ChordTable:
        table = self._made.get(key)
        if table is None:
            place = bisect_left(self._keys, key)
            if self._keys[place : place + 1] != [key]:
                raise KeyError(key)
            if len(self._made) >= _TABLES_MAX:
                del self._made[next(iter(self._made))]
            table = self._made[key] = self._table(place)
        return table

    def _table(self, place: int) -> ChordTable:
        size = len(self._keys)
        own = self._ranked[place]
        following = [self._ranked[(place + step) % size] for step in range(1, min(size, self._successors) + 1)]
        fingers: dict[int, Contact] = {}
        # Shorter fingers than the way to the first successor all are that successor.
        for bit in range(ahead(own.key, following[0].key).bit_length() - 1, _BITS):
            finger = self._ranked[bisect_left(self._keys, (own.key + (1 << bit)) % _RING) % size]
            fingers[finger.key] = finger
        fingers.pop(own.key, None)
        return ChordTable(own, self._ranked[place - 1], tuple(following), tuple(fingers.values()))
