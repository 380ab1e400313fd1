"""Hot keys: a key with too many arrivals is split into sub-keys at other peers.

One triple in four of real data has rdf:type as its predicate, and all triples of a predicate share one key.  A key K
of *depth* d therefore has 2^d sub-keys, which :func:`p2prdf.keys.sub_key` spreads evenly over the ring; number 0 is
K.  A triple under K goes to sub-key ``h mod 2^d``, with h the hash of the triple.  Rows under K go to the owner of K,
which copies them to the *holders*, the owners of the other sub-keys.  Every row meets every triple at the triple's
sub-key.

Invariant: every row under K is, or is in flight, at the owner of K and at all holders, and a triple under K is stored
only at these.  Any of them is right for a triple, so a sender may use any depth; depths only grow and merge by
maximum.

Only the owner of K raises its depth: (1) it copies all newly arriving rows to the new holders as well; (2) it copies
all rows that it has under K and asks the holders to hold (``HoldSubKeys``); (3) after their acknowledgements it tells
senders (``KeyDepth``).  Without (1) before (2), a row that arrives in between would miss the new holders.

Keepers of a triple
-------------------
A triple for a sub-key is marked under its index, which leaves these cases:

====================  ========================================  =====================================
the sender ...        the receiver, by its own view ...         ... therefore
====================  ========================================  =====================================
knows no depth, or    owns K                                    keeps it; if K's depth puts it
an older one, or the                                            elsewhere, corrects the sender, once
triple is number 0:                                             in a while
not marked            does not own K                           passes it on to the owner of K
knows a depth, the    owns K (as well)                          keeps it
right one or an       owns a sub-key of K and was asked to      keeps it, and reminds the owner of K,
older one: marked     hold by the present owner of K            once in a while
                      owns a sub-key, was not asked, or by      passes it on to the owner of K, not
                      another (it is new, or K's owner is)      marked any more, and reminds it
                      owns neither (the sender's view is old)   the same
====================  ========================================  =====================================

A peer without the rows of K keeps none of its triples: only the request to hold allows it.  A reminder (``KeyDepth``
to the owner of K) tells a new or restarted owner that senders use a depth, and an owner that its holder has
forgotten.

Selection: each peer samples its arrivals (:mod:`p2prdf.peer.joins.load`).  Once a key has very many triples, its
owner compares the load of the sub-keys with ``hot_share`` of the mean load of all peers, and raises the depth as long
as the copies stay below ``hot_copies_max`` times the triples.  docs/explanation/design/hot-keys.md gives the reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from p2prdf import keys
from p2prdf.columns import ARRAYS, Column, as_array, as_list
from p2prdf.peer.joins.depths import Depths, depth_for
from p2prdf.peer.joins.load import Load, Suspect
from p2prdf.peer.joins.spread import Destinations, Spread
from p2prdf.peer.network.component import Handlers
from p2prdf.store.backlog import part_of
from p2prdf.wire.messages import Contact, GroupsGone, HoldSubKeys, KeyDepth, LoadRequest, LoadResponse

if TYPE_CHECKING:
    from p2prdf.peer.network.batches import TripleBatch
    from p2prdf.peer.network.messenger import Messenger
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.store.tables import Derived, Tables

__all__ = ["HotKeys"]

_KNOWN_MAX = 4096
"""Depths remembered as a sender, and keys held for; forgetting one costs a detour."""
_SPLITS_MAX = 256
"""Keys that one peer splits by its own decision; splits that others hold already count towards _KNOWN_MAX."""
_GROUPS_MAX = 65_536
"""Groups per split key with ends that holders are told; further groups end there by their leases."""
_COPIED_ROWS_MAX = 1 << 20
"""Rows times holders that one split may copy at once."""
_CLAIMS_MAX = 4
"""Remembered requests to hold for one key, from different peers; only one of these owns it."""
_ITS_OWNER = -1
_MARKS = tuple(1 << role + keys.MARK_SHIFT if role in keys.SPLIT_ROLES else 0 for role in range(8))
_ROLE_BITS = tuple(1 << role | 1 << role + keys.EVENT_SHIFT for role in range(8))

Copy = Callable[[Contact, "Derived", tuple[int, ...]], None]


@dataclass(slots=True)
class _Split:
    """A key that this peer owns and has split.

    ``depth``: the depth of copied rows; ``told``: the depth for senders, since ``told_at``.
    ``holders`` have all rows or are being sent them; one leaves only when its peer is lost.
    """

    role: int
    depth: int = 0
    told: int = 0
    told_at: float = 0.0
    holders: dict[int, Contact] = field(default_factory=dict)
    groups: dict[int, None] = field(default_factory=dict)


class HotKeys(Spread):
    """Hot keys at one peer in its three roles: sender, holder, and owner that splits a key."""

    def __init__(self, messenger: Messenger, tables: Tables, dictionary: TermDictionary, copy: Copy):
        """``copy`` sends rows to a holder, on behalf of some tokens."""
        super().__init__(messenger)
        self._tables = tables
        self._dictionary = dictionary
        self._copy = copy
        self._config = messenger.config
        self._known = Depths(_KNOWN_MAX)
        self._split_depths = Depths(_KNOWN_MAX)
        self._splits: dict[int, _Split] = {}
        self._held: dict[tuple[int, int], dict[int, int]] = {}
        self._said: dict[tuple[int, int, int], None] = {}
        self.load = Load(messenger, self._judge)
        self.restless = False  # else the next turn has to look for holders

    # --- a triple on its way ---------------------------------------------------------------------

    def spread(self, role: int, batch: TripleBatch, ring: Column, *, arrived: bool) -> Destinations:
        """Return the owners of triples, whose keys are sub-keys where a key is split."""
        ring, owners, marks = (self.accept if arrived else self.place)(role, batch, ring)
        if batch.sender is not None:
            self._placement.note_passing(batch.tokens, ring, owners)
        return ring, [(owners, marks)]

    def few(self, batch: TripleBatch, hashes: keys.U64, *, arrived: bool) -> None:
        """Return None: a key may be split."""

    def probed(self, roles: Column) -> Column | None:  # noqa: ARG002
        """Return None: a peer joins all triples that it stores."""
        return None

    def place(self, role: int, batch: TripleBatch, ring: Column) -> tuple[Column, Column, Column | None]:
        """Return the destinations of triples with the keys ``ring``: keys by the known depths, owners, marks."""
        messenger = self._messenger
        depths = self._known.find(role, ring)
        if depths is None:
            return ring, self._placement.destinations(ring)[0], None
        plain, index = as_array(ring), self._index(batch, as_array(depths))
        target = self._columns.adopt(keys.sub_keys(plain, index))
        # Before any lookup: a peer without address cache learns one owner at a time and forgets it.
        nearest = as_array(messenger.closest_known(target), np.int64)
        here = np.flatnonzero((nearest == 0) & (index > 0))
        refused = [here[at] for key, at in ARRAYS.split(plain[here]) if not self._keeps(role, key, agreed=True)]
        if refused:  # this peer owns a sub-key and was not asked to hold
            index[np.concatenate(refused)] = 0
            target = self._columns.adopt(keys.sub_keys(plain, index))
        owners = as_array(self._placement.destinations(target)[0], np.int64)
        if self._config.multisend == "recursive":  # on its way, other peers would take a marked triple for one under K
            marked = np.flatnonzero(index)
            direct = self._columns.take(target, self._columns.adopt(marked, np.int64))
            owners = owners.copy()
            owners[marked] = as_array(messenger.owners(direct), np.int64)
        marks = np.where(index > 0, np.uint32(_MARKS[role]), np.uint32(0))
        return target, self._columns.adopt(owners, np.int64), self._columns.adopt(marks, "uint32")

    def accept(self, role: int, batch: TripleBatch, ring: Column) -> tuple[Column, Column, Column | None]:
        """Return keys of arrived triples, contact numbers of their keepers (0: this peer), and marks of kept ones."""
        (owners,) = self._placement.destinations(ring, arrived=True)
        marked = as_array(batch.roles, np.uint32) & np.uint32(_MARKS[role])
        places = np.flatnonzero(marked)
        if not len(places):
            return ring, owners, None
        keepers = as_array(owners, np.int64).copy()
        if self._config.multisend == "direct":
            # Sub-key and key lie far apart; only near a key does the knowledge of every peer lead closer to it.
            proven = self._messenger.owners(self._columns.take(ring, self._columns.adopt(places, np.int64)))
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
        """Return the owner of a key by the view of this peer."""
        return self._messenger.contact(as_list(self._messenger.closest_known([key]))[0])

    def _keeps(self, role: int, key: int, *, agreed: bool) -> bool:
        """Return whether triples for sub-keys of a key may stay here; ``agreed``: this peer owns one for sure."""
        owner = self._owner(key).key
        if owner == self._messenger.own.key:
            return True
        depth = self._held.get((role, key), {}).get(owner, 0)
        return depth > 0 and (agreed or 0 in as_list(self._messenger.closest_known(_targets(key, depth))))

    def _remind(self, role: int, key: int) -> None:
        """Tell the owner of a key the depth for which this peer was asked to hold."""
        if not self._may_say(role, key, _ITS_OWNER):
            return
        owner = self._owner(key)
        if owner.key != self._messenger.own.key:
            asked = self._held.get((role, key), {})
            depth = asked.get(owner.key, max(asked.values(), default=0))
            self._messenger.send(owner, KeyDepth(role, key, depth))

    def _may_say(self, role: int, key: int, to: int) -> bool:
        """Return whether a message about a key may be sent: one per interval and receiver."""
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
        """Note the groups of rows that the holders have."""
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
                    self._messenger.send(contact, GroupsGone(self._columns.column(gone)))

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
                self._messenger.trace("key-not-split", role=keys.ROLE_NAMES[role], key=f"{key:016x}")
                return
            split = self._splits[key] = _Split(role)
        split.depth = depth
        self._split_depths.raise_to(role, key, depth)
        self._messenger.trace("key-split", role=keys.ROLE_NAMES[role], key=f"{key:016x}", depth=depth)
        self._supply(key, split)

    def _supply(self, key: int, split: _Split) -> None:
        """Make the owners of all sub-keys holders; after their acknowledgements, senders are told."""
        token = self._messenger.token(partial(self._supplied, key, split, split.depth))
        self._ask_to_hold(key, split, _targets(key, split.depth), token)
        self._messenger.release((token,))

    def _ask_to_hold(self, key: int, split: _Split, targets: list[int], token: int) -> None:
        messenger = self._messenger
        owners = as_list(messenger.owners(self._columns.column(targets)))
        for target, owner in zip(targets, owners, strict=True):
            if owner < 0:
                messenger.park([target], partial(self._ask_to_hold, key, split, [target], token), (token,))
        held: list[Derived] | None = None
        for owner in sorted(set(owners)):
            if owner <= 0:
                continue
            contact = messenger.contact(owner)
            if contact.key not in split.holders:
                split.holders[contact.key] = contact
                held = self._tables.waiting_rows(split.role, key) if held is None else held
                for rows in held:
                    self._remember(split, rows)
                    self._copy(contact, rows, (token,))
            messenger.send(contact, HoldSubKeys(split.role, key, split.depth), (token,))

    def _supplied(self, key: int, split: _Split, depth: int) -> None:
        """Note that all holders have all rows: senders may be told, this peer at once."""
        if depth > split.told:
            split.told, split.told_at = depth, self._messenger.now
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
        """Learn a depth as a sender, or, as the owner of the key, the depth that a peer holds for it."""
        role, key, depth = message.role, message.key, message.depth
        if self._owner(key).key != self._messenger.own.key:
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
        """Return the owners of the sub-keys of a key except number 0, by the view of this peer."""
        numbers = as_list(self._messenger.closest_known(self._columns.column(_targets(key, depth))))
        return {contact.key: contact for contact in map(self._messenger.contact, sorted(set(numbers)))}

    def handlers(self) -> Handlers:
        """Return the handlers of loads, of sub-keys and of depths."""
        return {
            LoadRequest: self.ask_load, LoadResponse: self.load.told, HoldSubKeys: self.hold, KeyDepth: self.key_depth,
        }  # fmt: skip

    def met(self) -> None:
        """Note that a peer has come that may own sub-keys: the next turn checks it."""
        self.restless = bool(self._splits)

    def lost(self, contact: Contact) -> None:
        """Forget the holds of a lost peer and its requests: it may come back without its tables."""
        for split in self._splits.values():
            split.holders.pop(contact.key, None)
        for asked in self._held.values():
            asked.pop(contact.key, None)

    # --- selection -------------------------------------------------------------------------------

    def turn(self) -> None:
        """At the end of an interval look for hot keys; then, and after a peer has come, look for holders."""
        if self.load.turn():
            self._said.clear()
            self._tend()
        elif self.restless:
            self._tend()
        self.restless = False

    def ask_load(self, sender: Contact, message: LoadRequest) -> None:
        """Tell how much arrives here."""
        self.turn()
        self.load.asked(sender, message)

    def count_triples(self, batch: TripleBatch) -> None:
        """Sample the triples that this peer keeps."""
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
        """Count a triple of sub-key 0 for all sub-keys; correct a sender of triples of another sub-key."""
        depth = self.depth(role, key)
        if not whole & (1 << depth) - 1:
            self.load.triples.add(role, key)
        elif sender is not None and self._may_say(role, key, sender.key):
            self._messenger.send(sender, KeyDepth(role, key, depth))

    def count_rows(self, rows: Derived, *, copied: bool) -> None:
        """Sample the rows that this peer stores."""
        places = self.load.rows_seen.places(len(rows))
        self.load.arrived(len(places))
        role = rows.plan.steps[rows.step].role
        if places and not copied and role in keys.SPLIT_ROLES:
            some = part_of(rows, self._columns.column(places, "int64"), self._columns)
            for key in as_list(self._tables.row_keys(some)):
                self.load.rows.add(role, key)

    def _judge(self, suspects: list[Suspect], mean: float) -> None:
        """Split the keys that are too hot by the mean load of all peers."""
        config = self._config
        depth_max = min(config.hot_depth_max, self._messenger.cache.size.bit_length() + 1)
        for each in suspects:
            split = self._splits.get(each.key)
            told = split.told if split is not None else 0
            unsettled = split is not None and (split.depth > told or split.told_at > each.since)
            if unsettled or self._owner(each.key).key != self._messenger.own.key:
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
        """Drop splits of keys that this peer owns no longer, and ask new owners of sub-keys to hold."""
        messenger = self._messenger
        for key, split in list(self._splits.items()):
            owner = self._owner(key)
            if owner.key != messenger.own.key:
                del self._splits[key]
                self._split_depths.forget(split.role, key)
                messenger.send(owner, KeyDepth(split.role, key, split.told))
                continue
            if self._owners_of(key, split.told).keys() - split.holders.keys() - {messenger.own.key}:
                self._supply(key, split)

    # --- state -----------------------------------------------------------------------------------

    @property
    def splits(self) -> dict[tuple[int, int], int]:
        """The depth of each split key, by index and key."""
        return {(split.role, key): split.depth for key, split in self._splits.items()}

    @property
    def unsettled(self) -> int:
        """Number of keys with a greater depth that senders may not use yet."""
        return sum(split.told < split.depth for split in self._splits.values())

    @property
    def held(self) -> int:
        """Number of keys with sub-keys that this peer was asked to hold."""
        return sum(bool(asked) for asked in self._held.values())


def _targets(key: int, depth: int) -> list[int]:
    """Return the sub-keys of a key except number 0."""
    return [keys.sub_key(key, index) for index in range(1, 1 << depth)]
