"""Hot keys: a key under which too much arrives is split into sub-keys at other peers.

The problem
-----------
In real data one triple in four says rdf:type, and predicates and classes are Zipf-distributed.  All
triples of one predicate have one key under role p, so one peer gets them all, however many peers
there are.  The seed paper (Liarou, Idreos, Koubarakis, ISWC 2007) names skew as future work.

The idea
--------
A key K of *depth* d has 2^d sub-keys; number 0 is K itself, and :func:`p2prdf.keys.sub_key` lays
them evenly on the ring, each where it stays when d grows.  A triple under K goes to one sub-key,
number ``h mod 2^d`` with h the hash of the whole triple.  Rows (queries and partial results) under
K go to the owner of K as ever, which copies them to the *holders*, the owners of the other sub-keys.
There they are kept and copied no further.  So every row meets every triple, at the triple's place.

Depths only grow, are merged by maximum, and nobody has to agree on one, because of

The invariant
-------------
*Every row under K is, or is on its way, at the owner of K and at all its holders; and a triple under K
rests only there.*  Where it rests does not matter for any answer: store, then probe, joins each pair
at that place by whichever comes second, the copy of a row or the triple.  A triple that is
published again, or sent again after a peer was lost, may come to rest at two places; the rows that
are joined twice have equal identities.  So a sender may use any depth, old or new, or none.

For this the copies must be all that the owner sees: rows, later stamps of rows it knows already, the
stamps from which a query that somebody joined is probed anew, and the bounds of groups, which
widen.  They are, for what is copied is what arrives, whether it turns out to be news or not.

Only the owner of K raises its depth.  (1) From that moment it copies all newly arriving rows to
the new holders as well; (2) it copies all rows that it holds under K to them and asks them to hold
(``HoldSubKeys``); (3) when all that is acknowledged it tells senders (``KeyDepth``), each when
its triples come to the wrong place.  (1) before (2), or a row that arrives in between would miss the
new holders; (3) after (2) only saves detours.

Who keeps a triple
------------------
A triple for a sub-key is marked as such, under the role concerned, so the cases are few:

====================  ========================================  =====================================
the sender ...        the receiver, by its own view ...         ... therefore
====================  ========================================  =====================================
knows no depth, or    owns K                                    keeps it; if K's depth puts it
an older one, or the                                            elsewhere, tells the sender, once in
triple is number 0:                                             a while
not marked            does not own K, whatever it holds         passes it on to the owner of K
knows a depth, the    owns K (as well)                          keeps it
right one or an       owns a sub-key of K and was asked to      keeps it, and reminds the owner of K,
older one: marked     hold by who owns K now                    once in a while
                      owns a sub-key, was not asked, or by      passes it on to the owner of K, not
                      another (it is new, or K's owner is)      marked any more, and reminds it
                      owns neither (the sender's view is old)   the same
====================  ========================================  =====================================

So a peer that has no rows of K swallows none of its triples: being asked to hold is what tells.  The
depths of sender and receiver are never compared.  When both have the same *view* of the ring, the
receiver need not check that it owns what it got, but it must still have been asked to hold.

A reminder (``KeyDepth`` to the owner of K) says for which depth its sender was asked to hold.  From it
an owner of K that is new, or has started anew, learns that senders use a depth, adopts it and copies
its rows; and one who believes to have a holder learns that the holder has forgotten.  Until then
triples take a detour, or wait where they are for rows that will be copied to them.

Which keys are hot
------------------
Each peer counts a sample of what arrives (:mod:`p2prdf.peer.joins.load`).  At the end of an interval, if some key
had very many triples, it learns the mean load of all peers and raises the depth of those of its keys whose
sub-keys carry more than ``hot_share`` of the mean.  Copying costs too: every row under a key of depth d is
stored 2^d times.  So a key is split only as far as its copies stay below ``hot_copies_max`` times its triples.

Rejected: placing a triple by one of its free parts (a part may itself be skewed; it would pay if rows
with that part bound went to one sub-key, but in CSBV such rows wait under another key anyway);
sub-keys at random places (some peers get three of them, others none); balancing by moving ring
positions (one key cannot be split that way).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from p2prdf import keys
from p2prdf.columns import ARRAYS, Column, as_array, as_list
from p2prdf.peer.joins.depths import Depths, depth_for
from p2prdf.peer.joins.load import Load, Suspect
from p2prdf.peer.network.component import Component, Handlers
from p2prdf.store.backlog import part_of
from p2prdf.wire.messages import AskLoad, Contact, GroupsGone, HoldSubKeys, KeyDepth, TellLoad

if TYPE_CHECKING:
    from p2prdf.peer.network.batches import TripleBatch
    from p2prdf.peer.network.messenger import Exchange
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.store.tables import Derived, Tables

__all__ = ["HotKeys"]

_KNOWN_MAX = 4096
"""Depths remembered as a sender, and keys held for; forgetting one costs a detour."""
_SPLITS_MAX = 256
"""Keys that one peer splits of its own accord; what others hold for it already it goes along with, up to the above."""
_GROUPS_MAX = 65_536
"""Groups per split key whose end is told to the holders; others end there by their leases."""
_COPIED_ROWS_MAX = 1 << 20
"""Rows times holders that a split may copy at once."""
_CLAIMS_MAX = 4
"""Peers remembered that asked to hold for one key: only one of them owns it."""
_ITS_OWNER = -1
_MARKS = tuple(1 << role + keys.MARK_SHIFT if role in keys.SPLIT_ROLES else 0 for role in range(8))
_ROLE_BITS = tuple(1 << role | 1 << role + keys.EVENT_SHIFT for role in range(8))

Copy = Callable[[Contact, "Derived", tuple[int, ...]], None]


@dataclass(slots=True)
class _Split:
    """A key that this peer owns and has split.

    ``depth``: for which rows are copied; ``told``: what senders may use, since ``told_at``.
    ``holders`` have all rows or are being sent them; one leaves only when its peer is lost.
    """

    role: int
    depth: int = 0
    told: int = 0
    told_at: float = 0.0
    holders: dict[int, Contact] = field(default_factory=dict)
    groups: dict[int, None] = field(default_factory=dict)


class HotKeys(Component):
    """What one peer knows of hot keys: as a sender, as a holder, and as the owner who splits them."""

    def __init__(self, exchange: Exchange, tables: Tables, dictionary: TermDictionary, copy: Copy):
        """``copy`` sends rows to a holder, on behalf of some tokens."""
        self._exchange = exchange
        self._tables = tables
        self._dictionary = dictionary
        self._columns = tables.columns
        self._copy = copy
        self._config = exchange.config
        self._known = Depths(_KNOWN_MAX)
        self._split_depths = Depths(_KNOWN_MAX)
        self._splits: dict[int, _Split] = {}
        self._held: dict[tuple[int, int], dict[int, int]] = {}
        self._said: dict[tuple[int, int, int], None] = {}
        self.load = Load(exchange, self._judge)
        self.restless = False
        """Whether a turn is wanted to see who is to hold."""

    # --- a triple on its way ---------------------------------------------------------------------

    def place(self, role: int, batch: TripleBatch, ring: Column) -> tuple[Column, Column, Column | None]:
        """Return where to send triples whose keys are ``ring``: keys by the depths known, their owners, marks."""
        exchange = self._exchange
        depths = self._known.find(role, ring)
        if depths is None:
            return ring, exchange.first_hops(ring), None
        plain, index = as_array(ring), self._index(batch, as_array(depths))
        target = self._columns.adopt(keys.sub_keys(plain, index))
        # Asked before any lookup: a peer without address cache learns one owner at a time and forgets it.
        nearest = as_array(exchange.closest_known(target), np.int64)
        here = np.flatnonzero((nearest == 0) & (index > 0))
        refused = [here[at] for key, at in ARRAYS.split(plain[here]) if not self._keeps(role, key, agreed=True)]
        if refused:  # this peer owns a sub-key and was not asked to hold
            index[np.concatenate(refused)] = 0
            target = self._columns.adopt(keys.sub_keys(plain, index))
        owners = as_array(exchange.first_hops(target), np.int64)
        if self._config.multisend == "recursive":  # on its way a marked triple would be taken for one of K's
            marked = np.flatnonzero(index)
            direct = self._columns.take(target, self._columns.adopt(marked, np.int64))
            owners = owners.copy()
            owners[marked] = as_array(exchange.owners(direct), np.int64)
        marks = np.where(index > 0, np.uint32(_MARKS[role]), np.uint32(0))
        return target, self._columns.adopt(owners, np.int64), self._columns.adopt(marks, "uint32")

    def accept(self, role: int, batch: TripleBatch, ring: Column) -> tuple[Column, Column, Column | None]:
        """Return the keys of triples that arrived, who is to keep them (0: this peer), the marks of those kept."""
        owners = self._exchange.next_hops(ring)
        marked = as_array(batch.roles, np.uint32) & np.uint32(_MARKS[role])
        places = np.flatnonzero(marked)
        if not len(places):
            return ring, owners, None
        keepers = as_array(owners, np.int64).copy()
        if self._config.multisend == "direct":
            # Sub-key and key lie far apart, and only near a key does every peer lead nearer to it by what it knows.
            proven = self._exchange.owners(self._columns.take(ring, self._columns.adopt(places, np.int64)))
            keepers[places] = as_array(proven, np.int64)
        for key, at in ARRAYS.split(as_array(ring)[places]):
            self._remind(role, key)
            if self._keeps(role, key, agreed=False):
                keepers[places[at]] = 0
        marks = np.where(keepers == 0, marked, np.uint32(0))
        return ring, self._columns.adopt(keepers, np.int64), self._columns.adopt(marks, "uint32")

    def keeps_all(self, batch: TripleBatch, union: int) -> bool:
        """Return whether all marked triples may stay, their sender having the same view of the ring."""
        for role in keys.SPLIT_ROLES:
            if not union & _MARKS[role]:
                continue
            places = np.flatnonzero(as_array(batch.roles, np.uint32) & np.uint32(_MARKS[role]))
            some = self._columns.adopt(places, np.int64)
            take = self._columns.take
            ring = self._tables.triple_keys(role, *(take(part, some) for part in (batch.s, batch.p, batch.o)))
            for key in sorted(set(as_list(ring))):
                self._remind(role, key)
                if not self._keeps(role, key, agreed=True):
                    return False
        return True

    def _index(self, batch: TripleBatch, depths: keys.U64) -> keys.U64:
        """Return the numbers of the sub-keys that triples go to."""
        whole = as_array(self._tables.triple_keys(keys.SPO, batch.s, batch.p, batch.o))
        index: keys.U64 = whole & ((np.uint64(1) << depths) - np.uint64(1))
        return index

    def _owner(self, key: int) -> Contact:
        """Return who owns a key, by all this peer knows."""
        return self._exchange.contact(as_list(self._exchange.closest_known([key]))[0])

    def _keeps(self, role: int, key: int, *, agreed: bool) -> bool:
        """Return whether triples for sub-keys of a key may stay here; ``agreed``: this peer owns one for sure."""
        owner = self._owner(key).key
        if owner == self._exchange.own.key:
            return True
        depth = self._held.get((role, key), {}).get(owner, 0)
        return depth > 0 and (agreed or 0 in as_list(self._exchange.closest_known(_targets(key, depth))))

    def _remind(self, role: int, key: int) -> None:
        """Tell the owner of a key whose triples come here for which depth this peer was asked to hold."""
        if not self._may_say(role, key, _ITS_OWNER):
            return
        owner = self._owner(key)
        if owner.key != self._exchange.own.key:
            asked = self._held.get((role, key), {})
            depth = asked.get(owner.key, max(asked.values(), default=0))
            self._exchange.send(owner, KeyDepth(role, key, depth))

    def _may_say(self, role: int, key: int, to: int) -> bool:
        """Return whether something may be said about a key: once per interval and receiver."""
        if (role, key, to) in self._said:
            return False
        if len(self._said) >= _KNOWN_MAX:
            self._said.clear()
        self._said[role, key, to] = None
        return True

    # --- rows ------------------------------------------------------------------------------------

    def copy_rows(self, rows: Derived) -> None:
        """Copy rows that are about to be stored here to the holders of those keys that are split."""
        if not self._splits:
            return
        role = rows.plan.steps[rows.step].role
        if role not in keys.SPLIT_ROLES:
            return
        ring = self._tables.row_keys(rows)
        depths = self._split_depths.find(role, ring)
        if depths is None:
            return
        places = np.flatnonzero(as_array(depths))
        for key, at in ARRAYS.split(as_array(ring)[places]):
            split = self._splits[key]
            part = part_of(rows, self._columns.adopt(places[at], np.int64), self._columns)
            self._remember(split, part)
            for contact in split.holders.values():
                self._copy(contact, part, ())

    def _remember(self, split: _Split, rows: Derived) -> None:
        """Note whose rows the holders have."""
        for identity in dict.fromkeys(as_list(self._tables.group_ids(rows.plan, rows.group))):
            if len(split.groups) >= _GROUPS_MAX and identity not in split.groups:
                del split.groups[next(iter(split.groups))]
            split.groups[identity] = None

    def end_groups(self, ids: list[int]) -> None:
        """Tell holders of groups that have ended; once, so that peers which hold for each other come to an end."""
        for split in self._splits.values():
            gone = [each for each in ids if split.groups.pop(each, 0) is None]
            if gone:
                for contact in split.holders.values():
                    self._exchange.send(contact, GroupsGone(self._columns.column(gone)))

    # --- splitting -------------------------------------------------------------------------------

    def depth(self, role: int, key: int) -> int:
        """Return the depth that senders may use for a key this peer owns."""
        split = self._splits.get(key)
        return split.told if split is not None and split.role == role else 0

    def split(self, role: int, key: int, depth: int) -> None:
        """Give a key that this peer owns a greater depth, in the three steps of the module's text."""
        split = self._splits.get(key)
        if split is None:
            if len(self._splits) >= _KNOWN_MAX:
                self._exchange.trace("key-not-split", role=keys.ROLE_NAMES[role], key=f"{key:016x}")
                return
            split = self._splits[key] = _Split(role)
        split.depth = depth
        self._split_depths.raise_to(role, key, depth)
        self._exchange.trace("key-split", role=keys.ROLE_NAMES[role], key=f"{key:016x}", depth=depth)
        self._supply(key, split)

    def _supply(self, key: int, split: _Split) -> None:
        """Make the owners of all sub-keys holders; when they have acknowledged, senders may be told."""
        token = self._exchange.token(partial(self._supplied, key, split, split.depth))
        self._ask_to_hold(key, split, _targets(key, split.depth), token)
        self._exchange.release((token,))

    def _ask_to_hold(self, key: int, split: _Split, targets: list[int], token: int) -> None:
        exchange = self._exchange
        owners = as_list(exchange.owners(self._columns.column(targets)))
        for target, owner in zip(targets, owners, strict=True):
            if owner < 0:
                exchange.hold((token,))
                exchange.park([target], partial(self._ask_again, key, split, target, token))
        held: list[Derived] | None = None
        for owner in sorted(set(owners)):
            if owner <= 0:
                continue
            contact = exchange.contact(owner)
            if contact.key not in split.holders:
                split.holders[contact.key] = contact
                held = self._tables.waiting_rows(split.role, key) if held is None else held
                for rows in held:
                    self._remember(split, rows)
                    self._copy(contact, rows, (token,))
            exchange.send(contact, HoldSubKeys(split.role, key, split.depth), (token,))

    def _ask_again(self, key: int, split: _Split, target: int, token: int) -> None:
        self._ask_to_hold(key, split, [target], token)
        self._exchange.release((token,))

    def _supplied(self, key: int, split: _Split, depth: int) -> None:
        """All holders have what there is: senders may be told, this peer at once."""
        if depth > split.told:
            split.told, split.told_at = depth, self._exchange.now
            self._known.raise_to(split.role, key, depth)

    def hold(self, sender: Contact, message: HoldSubKeys) -> None:
        """Keep triples for sub-keys, as long as the sender owns the key."""
        place = (message.role, message.key)
        if place not in self._held and len(self._held) >= _KNOWN_MAX:
            del self._held[next(iter(self._held))]
        asked = self._held.setdefault(place, {})
        if len(asked) >= _CLAIMS_MAX:
            asked.clear()
        asked[sender.key] = max(message.depth, asked.get(sender.key, 0))

    def key_depth(self, sender: Contact, message: KeyDepth) -> None:
        """Learn a depth as a sender; as the owner of the key, what somebody holds for it."""
        role, key, depth = message.role, message.key, message.depth
        if self._owner(key).key != self._exchange.own.key:
            self._known.raise_to(role, key, depth)
            return
        split = self._splits.get(key)
        if split is None or split.role != role:
            if depth and split is None:
                self.split(role, key, depth)
        elif depth > split.depth:
            self.split(role, key, depth)
        elif depth < split.told and split.told == split.depth and sender.key in self._owners_of(key, split.told):
            split.holders.pop(sender.key, None)
            self._supply(key, split)

    def _owners_of(self, key: int, depth: int) -> dict[int, Contact]:
        """Return who owns sub-keys of a key but number 0, by all this peer knows."""
        numbers = as_list(self._exchange.closest_known(self._columns.column(_targets(key, depth))))
        return {contact.key: contact for contact in map(self._exchange.contact, sorted(set(numbers)))}

    def handlers(self) -> Handlers:
        """Return the handlers of loads, of sub-keys and of depths."""
        return {
            AskLoad: self.ask_load, TellLoad: self.load.told, HoldSubKeys: self.hold, KeyDepth: self.key_depth,
        }  # fmt: skip

    def status(self) -> Mapping[str, object]:
        """Return how many keys are split, and how many sub-keys are held."""
        return {
            "keys_split": len(self.splits), "depth_max": max(self.splits.values(), default=0),
            "keys_unsettled": self.unsettled, "sub_keys_held": self.held,
        }  # fmt: skip

    def met(self) -> None:
        """Note that a peer has come, perhaps again, that may own sub-keys: see to it in the next turn."""
        self.restless = bool(self._splits)

    def lost(self, contact: Contact) -> None:
        """Forget what a peer that is gone held, and what it asked to hold: it may come back without its tables."""
        for split in self._splits.values():
            split.holders.pop(contact.key, None)
        for asked in self._held.values():
            asked.pop(contact.key, None)

    # --- what is hot -----------------------------------------------------------------------------

    def turn(self) -> None:
        """At the end of an interval see what is hot and who is to hold; the latter also when somebody has come."""
        if self.load.turn():
            self._said.clear()
            self._tend()
        elif self.restless:
            self._tend()
        self.restless = False

    def ask_load(self, sender: Contact, message: AskLoad) -> None:
        """Tell how much arrives here."""
        self.turn()
        self.load.asked(sender, message)

    def count_triples(self, batch: TripleBatch) -> None:
        """Look at some of the triples that this peer keeps."""
        places = self.load.triples_seen.places(len(batch))
        if not places:
            return
        hashes = self._dictionary.hash_array()
        for at in places:
            bits = int(batch.roles[at])
            s, p, o = (int(hashes[int(part[at])]) for part in (batch.s, batch.p, batch.o))
            whole = keys.role_key(keys.SPO, s, p, o)
            self.load.arrived((bits & (1 << keys.MARK_SHIFT) - 1).bit_count())
            for role in keys.SPLIT_ROLES:
                if bits & _ROLE_BITS[role] and not bits & _MARKS[role]:
                    self._count_triple(role, keys.role_key(role, s, p, o), whole, batch.sender)

    def _count_triple(self, role: int, key: int, whole: int, sender: Contact | None) -> None:
        """Count a triple of sub-key 0, for the others have as many; tell who sends here what belongs there."""
        depth = self.depth(role, key)
        if not whole & (1 << depth) - 1:
            self.load.triples.add(role, key)
        elif sender is not None and self._may_say(role, key, sender.key):
            self._exchange.send(sender, KeyDepth(role, key, depth))

    def count_rows(self, rows: Derived, *, copied: bool) -> None:
        """Look at some of the rows that this peer stores."""
        places = self.load.rows_seen.places(len(rows))
        self.load.arrived(len(places))
        role = rows.plan.steps[rows.step].role
        if places and not copied and role in keys.SPLIT_ROLES:
            some = part_of(rows, self._columns.column(places, "int64"), self._columns)
            for key in as_list(self._tables.row_keys(some)):
                self.load.rows.add(role, key)

    def _judge(self, suspects: list[Suspect], mean: float) -> None:
        """Split what is too hot, measured by the mean load of all peers."""
        config = self._config
        depth_max = min(config.hot_depth_max, self._exchange.cache.size.bit_length() + 1)
        for each in suspects:
            split = self._splits.get(each.key)
            told = split.told if split is not None else 0
            unsettled = split is not None and (split.depth > told or split.told_at > each.since)
            if unsettled or self._owner(each.key).key != self._exchange.own.key:
                continue
            depth = depth_for(each.triples, config.hot_share * mean, depth=told, depth_max=depth_max)
            while depth > told and each.rows * (1 << depth) > config.hot_copies_max * each.triples * (1 << told):
                depth -= 1
            depth = self._affordable(each.role, each.key, told, depth)
            if depth > told and (split is not None or len(self._splits) < _SPLITS_MAX):
                self.split(each.role, each.key, depth)

    def _affordable(self, role: int, key: int, told: int, depth: int) -> int:
        """Return the depth that does not copy too many rows at once."""
        if depth > told:
            held = sum(len(rows) for rows in self._tables.waiting_rows(role, key))
            while depth > told and held * ((1 << depth) - (1 << told)) > _COPIED_ROWS_MAX:
                depth -= 1
        return depth

    def _tend(self) -> None:
        """See to it that split keys are still this peer's and that the owners of their sub-keys hold."""
        exchange = self._exchange
        for key, split in list(self._splits.items()):
            owner = self._owner(key)
            if owner.key != exchange.own.key:
                del self._splits[key]
                self._split_depths.forget(split.role, key)
                exchange.send(owner, KeyDepth(split.role, key, split.told))
                continue
            if self._owners_of(key, split.told).keys() - split.holders.keys() - {exchange.own.key}:
                self._supply(key, split)

    # --- state -----------------------------------------------------------------------------------

    @property
    def splits(self) -> dict[tuple[int, int], int]:
        """Role and key of what is split here, and how deep."""
        return {(split.role, key): split.depth for key, split in self._splits.items()}

    @property
    def unsettled(self) -> int:
        """Number of keys whose greater depth senders may not be told yet."""
        return sum(split.told < split.depth for split in self._splits.values())

    @property
    def held(self) -> int:
        """Number of keys whose sub-keys this peer was asked to hold."""
        return sum(bool(asked) for asked in self._held.values())


def _targets(key: int, depth: int) -> list[int]:
    """Return the sub-keys of a key but number 0."""
    return [keys.sub_key(key, index) for index in range(1, 1 << depth)]
