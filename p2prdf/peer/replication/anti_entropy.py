"""Anti-entropy: replicas compare the items that they hold and send each other the missing ones.

Each item has a 64-bit identity that follows from its content.  Two peers compare digests per item type, then digests
per bucket, then identities.  Missing items travel in the messages that would have brought them originally, so
duplicates are harmless.

    RootDigests   ->                one digest per item type that both replicate, in the sender's view
                  <- DigestDiff     the item types that differ; usually none, which ends the comparison
    BucketDigests ->                digests per bucket of one item type
                  <- IdentityList   identities in the buckets that differ
    Fetch         ->                identities missing here; items missing there are sent at once
                  <- items, then FetchDone

- Only peers with equal views compare.  A question from another view is answered once the views are equal.
- The coordinators' records are compared first.  A peer serves subscriptions after that (``caught_up``).
- A pass follows each change of the view, ``repair_seconds`` after a local change, and soon after data from a peer
  outside the view.
- *Misplaced* items, held but not replicated here, are offered to the primary of their key.

Bounds: two item types at a time, 65,536 identities per message, a rest after each long pass.

Design: docs/explanation/design/replication.md, "Anti-entropy".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from p2prdf.columns import as_array, as_list
from p2prdf.errors import RemoteProtocolError
from p2prdf.overlay.replicas import ReplicaMap
from p2prdf.peer.network.component import Component, Handlers, earliest
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.network.quorum import RecoveryState
from p2prdf.peer.replication.bootstrap import Handoff
from p2prdf.peer.replication.deferred import Deferred
from p2prdf.peer.replication.digests import DigestIndex, Items, Source, buckets_of
from p2prdf.peer.replication.redelivery import Redelivery
from p2prdf.wire.messages import (
    Answers,
    BucketDigests,
    Contact,
    DigestDiff,
    Fetch,
    FetchDone,
    Forward,
    IdentityList,
    IndexQuery,
    IndexTriples,
    Leaving,
    Message,
    PublicationsComplete,
    RootDigests,
)

__all__ = ["IDENTITIES_MAX", "AntiEntropy", "Kind"]

IDENTITIES_MAX: Final = 65_536
"""Identities per message."""
ANSWER_SECONDS: Final = 0.25
"""Time to wait for an answer before asking again; doubled each time, up to 16 times this value."""
GIVEN_SECONDS: Final = 10.0
"""How many seconds to wait for items that were requested."""
OFFER_SECONDS: Final = 5.0
"""A leaving peer repeats its offers if none is answered for so many seconds; doubled each time."""
KINDS_AT_ONCE: Final = 2
"""How many item types are compared at a time, so that anti-entropy does not delay answers."""
FRESH_ITEMS_PER_SECOND: Final = 100_000
"""Rate of full scans: an item type with so many items is scanned once per second at most."""
SETTLE_SECONDS: Final = 0.05
"""Delay in seconds after a change of the view: several changes usually follow each other."""
LOST_SECONDS: Final = 1.0
"""Mean delay before a peer that has caught up replaces lost copies: redelivery comes first."""
REST_FACTOR: Final = 4
"""The rest after a pass of more than ``repair_seconds``, as a multiple of the excess.

A change of the view, or the arrival of misplaced items, ends the rest.
"""
MOVED_PER_SECOND: Final = 1_000
"""Items per second by which the counted length of a pass is bounded, plus a scan of all items.

If a pass takes long and transfers few items, the network is slow and the peers are not busy.
"""
LACKING_SECONDS: Final = 1.0
"""Interval in seconds between questions to peers that started empty and lack the coordinators' state."""
FILLING_SECONDS: Final = 5.0
"""Interval in seconds between questions to peers that started empty and lack only copies."""
STRAYS_SECONDS: Final = 0.5
"""Delay in seconds before misplaced items that arrived here are offered to their primary."""

_NOTHING: Final = np.uint64(0)
_ALL: Final = -1
"""Stands for all item types: their totals are compared."""

U64 = npt.NDArray[np.uint64]


class Kind(Source, Protocol):
    """One item type."""

    number: int

    @property
    def counter(self) -> str:
        """The name of the counter behind :attr:`version`; item types with one counter change together."""
        ...

    def items(self) -> Items:
        """Return all items of this type."""
        ...

    def messages(self, places: npt.NDArray[np.int64]) -> Iterator[Message]:
        """Return some items as messages; ``places`` are row ids that :meth:`changes` has returned."""
        ...

    def everything(self) -> Iterator[Message]:
        """Return all items as messages."""
        ...


@dataclass(slots=True)
class _Comparison:
    """A comparison with another replica, of one item type or of the totals of all."""

    kind: int
    fellow: Contact
    request: int = 0
    """The number of the question; 0: not asked yet.  A repeated question keeps it, so that a late answer counts."""
    again_at: float = 0.0
    wait: float = ANSWER_SECONDS
    buckets: int = 0
    first: int = 0
    """The bucket to continue with; earlier buckets are compared already."""
    more: bool = False
    asked: Sequence[int] = ()
    """The item types of the totals that were requested."""
    fetching: bool = False
    """Whether the question is answered, and the requested items are in flight."""
    anew: bool = False
    """Whether this comparison belongs to no pass: the other replica lacked data and is asked once more."""

    def of(self, sender: Contact, kind: int) -> bool:
        """Return whether a message of ``sender`` about an item type can belong to this comparison."""
        return self.fellow.key == sender.key and self.kind == kind


class AntiEntropy(Component):
    """The anti-entropy process of one peer."""

    def __init__(
        self, messenger: Messenger, kinds: Sequence[Kind], first_kinds: Sequence[int],
        redelivery: Redelivery, first_request: int,
    ):  # fmt: skip
        """``first_kinds`` are compared first; when that is done, this peer has caught up.

        Requests are numbered from ``first_request`` + 1, a random start, so that answers to an earlier process are not
        taken for answers to this one.

        ``redelivery`` adds the origin to triples of publications that may be incomplete.
        """
        self._messenger, self._members, self._recovery = messenger, messenger.members, messenger.recovery
        self._placement = messenger.placement
        self._kinds = {kind.number: kind for kind in kinds}
        self._counters = list({kind.counter: kind for kind in kinds}.values())
        """One item type per counter of changes: a peer at rest looks at these in each turn."""
        self._order = [*first_kinds, *(number for number in self._kinds if number not in first_kinds)]
        self._first_kinds = tuple(first_kinds)
        self._first_done: set[tuple[int, int]] = set()
        """Each pair of a first item type and a replica's key that was compared since the last peer came."""
        self._in_step_with: set[int] = set()
        """The keys of the peers that were present when this peer last caught up, and have been since."""
        self._begun = False
        """Whether a pass was begun since the last peer came."""
        self._held = {kind.number: DigestIndex(kind) for kind in kinds}
        self._looked_at: dict[int, float] = {}
        """By item type that needs a full scan: the time of the last scan."""
        self._stale: dict[int, None] = {}
        """The item types that were not scanned since the current pass began."""
        self._queue: list[_Comparison] = []
        self._open: dict[int, _Comparison] = {}
        self._early: dict[tuple[int, int], tuple[Contact, RootDigests | BucketDigests]] = {}
        """By peer and item type: the last question that was asked from another view."""
        self._offers: dict[int, None] = {}
        """The unanswered offers of this peer while it leaves."""
        self._to_look_at: list[int] = []
        """The item types that the current pass has not scanned yet, in reverse order."""
        self._offering = False
        """Whether the scan also offers misplaced items."""
        self._offered: dict[int, tuple[Contact, int, U64]] = {}
        """By request number, the last offers of misplaced items: receiver, item type and identities."""
        self._took: dict[int, int] = {}
        """By key, the contact number of each peer that has confirmed misplaced items."""
        self._handing = Handoff(self._send_offers)
        self._ask_lacking_at = 0.0
        """When peers that lack data are asked again."""
        self._lives: dict[int, int] = {}
        """By key of a peer: the stamp at which its process began, as last reported."""
        self._request = first_request
        self._due: float | None = None
        self._lost_seconds = LOST_SECONDS * (0.5 + messenger.own.key / (1 << 64))
        """Differs between peers, so that they are not all busy at once."""
        self._redelivery = redelivery
        self._compared: list[int] | None = None
        """The counters of changes when the current or last pass began; None: all data is to be compared."""
        self._began_at: float | None = None
        """When the current pass began; None if there is none."""
        self._moved_before = 0
        """The number of items given and requested before the current pass."""
        self._rest_until = 0.0
        self._on_left: Callable[[bool], None] | None = None
        self._last_round = False
        self._offer_again_at: float | None = None
        """When a leaving peer repeats its offers, unless they are answered."""
        self._patience = OFFER_SECONDS
        """Seconds to wait for an answer to the offers of a departure; doubled each time, as all may be busy."""
        self._leaving: set[int] = set()
        """The keys of the peers that have announced their departure."""
        self._gifts: dict[tuple[int, int], float] = {}
        """Deadline per pending handoff to this peer, by the key of the sender and its offer's number."""
        self.given = 0
        """Items given to other peers."""
        self.taken = 0
        """Items requested from other peers."""
        self.passes = 0
        self._view = 0
        """The last view that this peer has followed."""
        self._members_seen: set[int] = set()
        """The keys of all peers of the last view."""
        self._compare_anew(gained=True)
        messenger.signals.view_changed.connect(self._view_changed)
        messenger.signals.misplaced.connect(self.mark_dirty)
        answers: Handlers = {
            RootDigests: self.totals, BucketDigests: self.summary, IdentityList: self.offer, Fetch: self.want,
        }  # fmt: skip
        self._questions = Deferred(messenger, answers, first_kinds)

    # --- contract --------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[Component, ...]:
        """The components that this one consists of: the questions of other replicas are answered first."""
        return self._questions, self

    @property
    def is_asked(self) -> bool:
        """Whether questions of other replicas wait for an answer."""
        return bool(self._questions)

    @property
    def is_urgent(self) -> bool:
        """Whether questions about coordinators' records wait: other peers cannot serve subscriptions meanwhile."""
        return self._questions.urgent

    def answer_first(self) -> None:
        """Answer such questions in an open turn, within their share of the budget."""
        self._questions.answer_first()

    def handlers(self) -> Handlers:
        """Return the handlers of messages that are not questions (:class:`Deferred` receives the questions)."""
        return {
            DigestDiff: self.differing, FetchDone: self.given_all, Leaving: self.leaving,
            PublicationsComplete: self._publications_complete,
        }  # fmt: skip

    def _publications_complete(self, sender: Contact, message: PublicationsComplete) -> None:
        self._redelivery.complete_told(sender, message)
        self.life_told(sender, message.began)

    def status(self) -> Mapping[str, object]:
        """Return the progress of comparison and the numbers of transferred items."""
        return {
            "comparing": self.comparing, "anti_entropy_rounds": self.passes, "items_sent": self.given,
            "items_requested": self.taken,
        }  # fmt: skip

    # --- when ------------------------------------------------------------------------------------

    @property
    def settled(self) -> bool:
        """Whether this peer lacks no data that another replica has, in the present view."""
        followed = self._placement.known and self._view == self._messenger.view
        return followed and self._recovery.complete

    def _view_changed(self) -> None:
        self.dirty, self._view = True, self._messenger.view
        members = {each.key for each in self._messenger.cache.contacts()}
        gained, self._members_seen = not members <= self._members_seen, members
        self._compare_anew(gained=gained)

    def _compare_anew(self, *, gained: bool) -> None:
        """Schedule a comparison of all data: peers came (``gained``) or went, or this peer has started.

        A peer that came may know data that this peer lacks, above all if this peer was cut off.  If peers only go, no
        peer knows more than before, and this peer stays caught up.  There are two exceptions:

        - As many peers are lost at once as a key has replicas: perhaps no present peer knows the data, so they are
          waited for.
        - Peers that came since this peer last caught up are compared with again: they may now replicate keys about
          which a peer that has gone was to report.
        """
        if gained:
            self._recovery.caught_up = self._begun = False
        elif self._members.lost_together_until is not None:
            self._recovery.caught_up = False
        if not self._recovery.caught_up:
            self._first_done = {each for each in self._first_done if not gained and each[1] in self._in_step_with}
        self._queue.clear()
        self._open.clear()
        self._handing.view_changed()
        self._to_look_at.clear()
        self._recovery.pass_completed = False
        self._compared = None
        self._recovery.offer_due = True
        self._due = self._messenger.now + (self._lost_seconds if self._recovery.caught_up else SETTLE_SECONDS)
        if self._on_left is not None:
            self._last_round = True
        self._answer_early()
        self._see_whether_in_step()

    def heard_stranger(self) -> None:
        """Schedule a comparison of all data: a peer outside this peer's view has sent items.

        That peer sent its items to the replicas in its own view, and counts this peer's copy as one of those needed.
        Replicas outside its view did not receive the items.  This peer is incomplete until all data is compared.
        """
        self.dirty = True
        self._recovery.pass_completed, self._compared = False, None
        if self._due is None and not (self._queue or self._open or self._to_look_at):
            self._due = max(self._messenger.now + ANSWER_SECONDS, self._rest_until)

    @property
    def restless(self) -> bool:
        """Whether comparisons are under way or scheduled."""
        return bool(self._queue or self._open or self._to_look_at or self._due is not None)

    @property
    def comparing(self) -> bool:
        """Whether comparisons, or offers of misplaced items, are pending since the view changed.

        While this is false at all peers and no data arrives, all copies are at their replicas.
        """
        return bool(
            self._queue or self._open or self._to_look_at or self._compared is None or self._recovery.offer_due
            or self._recovery.misplaced != self._recovery.misplaced_offered
        )  # fmt: skip

    @property
    def deadline(self) -> float | None:
        """The time of the next action, or None."""
        if self._last_round or self._looking:
            return self._messenger.now
        members, caught_up = self._members, self._recovery.caught_up
        if members.lacks >= RecoveryState.SUBSCRIPTIONS and caught_up:
            until = members.alone_until
        else:
            until = None if caught_up else members.waits_for_peers_until
        if not self._open and not self._gifts and not members.lacking:  # the usual case
            return earliest(self._due, self._offer_again_at, until)
        due = [each.again_at for each in self._open.values()]
        due += self._gifts.values()
        if members.lacking:
            due.append(self._ask_lacking_at)
        due += [at for at in (self._due, self._offer_again_at, until) if at is not None]
        return min(due, default=None)

    def wake(self) -> None:
        """Perform all actions that are due."""
        messenger = self._messenger
        if self._offer_again_at is not None and messenger.now >= self._offer_again_at:
            self._last_round = True
        if self._last_round:
            self._last_round = False
            self._offer_all()
        self._forget_gifts({gift for gift, until in self._gifts.items() if messenger.now >= until})
        if self._due is not None and messenger.now >= self._due:
            self._due = None
            self._begin()
        for request in [each.request for each in self._open.values() if messenger.now >= each.again_at]:
            self._put_off(self._open.pop(request))
        if self._members.lacking and messenger.now >= self._ask_lacking_at:
            self._ask_lacking()
        if self._looking:
            self._look()
        self._go_on()
        idle = not self._to_look_at and all(each.anew for each in (*self._queue, *self._open.values()))
        self._see_what_is_lacking(compared=idle and self._compared is not None)
        if idle:
            self._plan_next()
        self.dirty = not self._at_rest

    @property
    def _at_rest(self) -> bool:
        """Whether nothing but an event or :attr:`deadline` leads to work: new data waits for the next pass."""
        return (
            self._due is not None and self._recovery.caught_up and not self._members.lacks
            and not (self._queue or self._open or self._to_look_at)
        )  # fmt: skip

    def _plan_next(self) -> None:
        """Schedule the next pass; the current one is done."""
        messenger = self._messenger
        soon = messenger.now + STRAYS_SECONDS
        if self._recovery.misplaced != self._recovery.misplaced_offered and self._due is not None:
            self._due = min(self._due, soon)  # the owners of the misplaced items wait for them
        if self._due is not None:
            return
        if self._compared is not None and not self._recovery.pass_completed:
            self._recovery.pass_completed = True
            messenger.signals.compared.emit()
        if self._began_at is not None:
            long = min(messenger.now - self._began_at, self._busy_seconds()) - messenger.config.repair_seconds
            self._rest_until, self._began_at = messenger.now + REST_FACTOR * long, None
        if self._compared is None:  # the stranger's items may have come after their type was compared
            self._due = max(messenger.now + ANSWER_SECONDS, self._rest_until)
        elif self._recovery.offer_due and self._recovery.caught_up:
            self._to_look_at = list(reversed(self._order))
        elif self._recovery.misplaced != self._recovery.misplaced_offered:
            self._due = soon
        elif self._changed():
            self._due = max(messenger.now + messenger.config.repair_seconds, self._rest_until)

    def _busy_seconds(self) -> float:
        """Return for how many seconds the current pass can have kept a peer busy at most."""
        moved = self.given + self.taken - self._moved_before
        return moved / MOVED_PER_SECOND + sum(map(len, self._held.values())) / FRESH_ITEMS_PER_SECOND

    def _changed(self) -> bool:
        return self._compared is None or self._compared != self._versions()

    def _versions(self) -> list[int]:
        return [kind.version for kind in self._counters]

    def _begin(self) -> None:
        """Begin a pass: compare every item type with every replica that shares keys."""
        found = self._placement.replica_map
        if found is None:  # the replica sets are not known yet
            self._due = self._messenger.now + ANSWER_SECONDS
            return
        self._compared = self._versions()
        self._stale = dict.fromkeys(self._kinds)
        self.passes += 1
        self._begun, self._began_at, self._moved_before = True, self._messenger.now, self.given + self.taken
        fellows = [self._messenger.contact(number) for number in found.fellows(0)]
        first = [] if self._recovery.caught_up else self._first_kinds
        self._queue = [
            _Comparison(kind, other)
            for kind in first
            for other in self._asked_first(found)
            if (kind, other.key) not in self._first_done
        ]
        self._queue += [_Comparison(_ALL, fellow) for fellow in fellows]
        self._open.clear()
        self._to_look_at = list(reversed(self._order))
        self._offering = False

    def _asked_first(self, found: ReplicaMap) -> list[Contact]:
        """Return the peers for the comparison of the first item types.

        These are the replicas that share keys, or all members if this peer lacks the coordinators' state.
        """
        if self._members.lacks >= RecoveryState.SUBSCRIPTIONS:
            return self._others()
        return [self._messenger.contact(number) for number in found.fellows(0)]

    @property
    def _looking(self) -> bool:
        """Whether item types are scanned now: the comparisons that this peer needs to catch up come first."""
        return bool(self._to_look_at) and self._placement.replica_map is not None and (
            self._recovery.caught_up
            or not any(each.kind in self._first_kinds for each in (*self._queue, *self._open.values()))
        )

    def _look(self) -> None:
        """Scan the next item type and offer its misplaced items.

        One type per turn, so that other work is not delayed.
        """
        found = self._placement.replica_map
        assert found is not None
        if self._recovery.caught_up and len(self._to_look_at) == len(self._order):
            self._offering = self._recovery.offer_due or self._recovery.misplaced != self._recovery.misplaced_offered
            if self._offering:
                self._recovery.offer_due, self._recovery.misplaced_offered = False, self._recovery.misplaced
                self._offered.clear()
        kind = self._to_look_at.pop()
        held = self._holdings(kind, found, fresh=self._offering)  # else a counted misplaced item may be overlooked
        if self._offering:
            self._offer_others(kind, held.elsewhere(), found)

    def _go_on(self) -> None:
        """Start comparisons: totals with all peers, then a few item types at a time, by importance.

        While subscribers wait for this peer to catch up, only the first item types are compared, with all peers at
        once.
        """
        self._see_whether_in_step()
        busy = {each.kind for each in self._open.values()}
        waiting: list[_Comparison] = []
        for each in self._queue:
            first = each.kind in self._first_kinds and not self._recovery.caught_up
            early = not first and not self._recovery.caught_up and not busy.isdisjoint(self._first_kinds)
            if each.kind == _ALL:
                full = bool(self._to_look_at)
            else:
                full = len(busy - {_ALL}) >= KINDS_AT_ONCE or each.kind in busy
            if early or (full and not first):
                waiting.append(each)
            else:
                busy.add(each.kind)
                self._ask(each)
        self._queue = waiting

    def _see_whether_in_step(self) -> None:
        """Note that this peer has caught up, if the first item types are compared with all replicas."""
        found = self._placement.replica_map
        if self._recovery.caught_up or not self._begun or found is None:
            return
        if self._members.waits_for_peers_until is not None:
            return
        others = (contact.key for contact in self._asked_first(found))
        if all((kind, key) in self._first_done for key in others for kind in self._first_kinds):
            self._recovery.caught_up = True
            self._in_step_with = {contact.key for contact in self._others()}
            self._messenger.signals.caught_up.emit()

    def _see_what_is_lacking(self, *, compared: bool) -> None:
        """Note which data this peer has received since it started empty.

        ``compared``: a pass has just been completed.
        """
        if not self._members.lacks or not self._recovery.caught_up:
            return
        self._members.lacks_less(RecoveryState.SUBSCRIPTIONS)
        if not self._members.told_by_others:
            return
        self._members.lacks_less(RecoveryState.DATA)
        if compared and not self._members.copies_missing:
            self._members.lacks_less(RecoveryState.COMPLETE)

    def _note_lacking(self, fellow: Contact, lacks: int, *, returned: bool = False) -> None:
        """Note the data that a replica reports to lack, and schedule another question to it."""
        self._members.note_lacking(fellow, RecoveryState(lacks), returned=returned)
        if lacks and self._ask_lacking_at <= self._messenger.now:
            self._ask_lacking_later()

    def _ask_lacking_later(self) -> None:
        homes = max(self._members.lacking.values(), default=RecoveryState.COMPLETE) >= RecoveryState.SUBSCRIPTIONS
        self._ask_lacking_at = self._messenger.now + (LACKING_SECONDS if homes else FILLING_SECONDS)

    def _ask_lacking(self) -> None:
        """Compare the first item types again with replicas that started empty.

        Other peers may have sent them data since.
        """
        messenger, found = self._messenger, self._placement.replica_map
        self._ask_lacking_later()
        if found is None:
            return
        fellows = {contact.key: contact for contact in map(messenger.contact, found.fellows(0))}
        self._members.keep_lacking(set(fellows))
        under_way = {(each.kind, each.fellow.key) for each in (*self._queue, *self._open.values())}
        every = ((kind, key) for kind in self._first_kinds for key in self._members.lacking)
        again = [each for each in every if each not in under_way]
        if self._members.waits_for_peers_until is not None:
            self._first_done.difference_update(again)
        self._queue += [_Comparison(kind, fellows[key], anew=True) for kind, key in again]

    def _ask(self, comparison: _Comparison) -> None:
        messenger = self._messenger
        found, number = self._who_keeps(comparison.fellow)
        sums = None
        if comparison.kind != _ALL and found is not None:
            sums = self._holdings(comparison.kind, found).sums(number)
            if len(sums) != comparison.buckets:  # the number of buckets changed, and with it their content
                comparison.buckets, comparison.first, comparison.request = len(sums), 0, 0
        if not comparison.request:
            self._request += 1
            comparison.request = self._request
        comparison.again_at = messenger.now + comparison.wait
        comparison.wait = min(2 * comparison.wait, 16 * ANSWER_SECONDS)
        self._open[comparison.request] = comparison
        if comparison.kind == _ALL:
            self._ask_totals(comparison)
        elif sums is not None:
            column = messenger.columns.adopt(sums, "uint64")
            own = self._members.record()
            summary = BucketDigests(
                comparison.request, comparison.kind, messenger.view, column, comparison.first, own.lacks, own.returned,
                messenger.life,
            )  # fmt: skip
            messenger.send(comparison.fellow, summary)

    def _put_off(self, comparison: _Comparison) -> None:
        """Queue a comparison whose answer is late: others come first, and the answer still counts."""
        if comparison.fetching:
            comparison.request, comparison.fetching = 0, False
        self._queue.append(comparison)

    def _asked(self, request: int) -> _Comparison | None:
        """Return the comparison that a message answers, also one whose answer is late."""
        late = (each for each in self._queue if each.request == request)
        return self._open.get(request) or next(late, None)

    def _ask_totals(self, comparison: _Comparison) -> None:
        messenger = self._messenger
        comparison.asked = self._order
        totals = self._totals(self._order, comparison.fellow)
        if totals is not None:
            make = messenger.columns.adopt
            kinds = make(np.array(self._order, np.uint32), "uint32")
            messenger.send(comparison.fellow, RootDigests(comparison.request, messenger.view, kinds, make(totals,
                "uint64")))

    def _totals(self, kinds: Sequence[int], fellow: Contact) -> U64 | None:
        """Return the digest of each item type, or None if the replica sets are not known."""
        found, number = self._who_keeps(fellow)
        if found is None:
            return None
        return np.array([self._holdings(kind, found).total(number) for kind in kinds], np.uint64)

    # --- held items ------------------------------------------------------------------------------

    def _who_keeps(self, fellow: Contact) -> tuple[ReplicaMap | None, int]:
        """Return the replica map, None if it is not known, and the contact number of a replica in it."""
        number = self._messenger.cache.number(fellow)
        return (self._placement.replica_map if number >= 0 else None), number

    def _holdings(self, kind: int, found: ReplicaMap | None, *, fresh: bool = False) -> DigestIndex:
        """Return the digest index of an item type; it may be out of date for a type that needs full scans.

        A peer that receives new items starts a comparison itself, with a scan that is not older than its pass.
        """
        held = self._held[kind]
        if not self._kinds[kind].dense and kind not in self._first_kinds:
            now, last = self._messenger.now, self._looked_at.get(kind)
            fresh |= kind in self._stale
            self._stale.pop(kind, None)
            if not fresh and last is not None and last <= now < last + len(held) / FRESH_ITEMS_PER_SECOND:
                held.follow(found)
                return held
            self._looked_at[kind] = now
        held.update(found)
        return held

    # --- comparing -------------------------------------------------------------------------------

    def totals(self, sender: Contact, message: RootDigests) -> None:
        """Answer which item types differ; send nothing while the views differ."""
        self.dirty = True
        messenger = self._messenger
        kinds = [int(kind) for kind in as_array(message.kinds)]
        if not self._agreed(sender, _ALL, message):
            return
        few = [kind for kind in kinds if kind in self._kinds]
        mine = self._totals(few, sender)
        if mine is None:
            return
        equal = dict(zip(few, mine.tolist(), strict=True))
        theirs = zip(kinds, as_list(message.sums), strict=True)
        differing = np.array([kind for kind, total in theirs if equal.get(kind) != total], np.uint32)
        messenger.send(sender, DigestDiff(message.request, messenger.columns.adopt(differing, "uint32")))

    def _agreed(self, sender: Contact, kind: int, message: RootDigests | BucketDigests) -> bool:
        """Return whether the views are equal; if not, keep the question until they are."""
        agreed = bool(message.view) and message.view == self._messenger.view
        if not agreed and message.view:
            self._early[sender.key, kind] = (sender, message)
        return agreed

    def _answer_early(self) -> None:
        early, self._early = self._early, {}
        for sender, message in early.values():
            if isinstance(message, RootDigests):
                self.totals(sender, message)
            else:
                self.summary(sender, message)

    def differing(self, sender: Contact, message: DigestDiff) -> None:
        """Compare the item types that differ, by buckets."""
        comparison = self._asked(message.request)
        if comparison is None or not comparison.of(sender, _ALL):
            return
        different = set(as_list(message.kinds)) | set(self._first_kinds).difference(comparison.asked)
        self._queue += [_Comparison(kind, comparison.fellow) for kind in self._order if kind in different]
        self._queue.sort(key=lambda each: self._order.index(each.kind) if each.kind != _ALL else -1)
        self._first_done |= {(kind, sender.key) for kind in self._first_kinds if kind not in different}
        self._compared_with(comparison)

    def summary(self, sender: Contact, message: BucketDigests) -> None:
        """Answer with the identities in the buckets that differ; send nothing while the views differ."""
        self.dirty = True
        self.life_told(sender, message.began)
        self._note_lacking(sender, message.lacks, returned=message.returned)
        if message.kind not in self._kinds or not self._agreed(sender, message.kind, message):
            return
        found, number = self._who_keeps(sender)
        if found is None:
            return
        held = self._holdings(message.kind, found)
        if message.kind in self._first_kinds and message.lacks >= RecoveryState.SUBSCRIPTIONS:
            items = held.all()
            foreign = found.holds(items.keys, number) & ~found.holds(items.keys, 0)
            if self._handing.first(sender, message, items.only(foreign).ordered()):
                return
        theirs = as_array(message.sums)
        buckets = len(theirs)
        differing = np.flatnonzero(held.sums(number, buckets) != theirs)
        differing = differing[differing >= message.first]
        shared, more = held.shared(number, buckets, differing), False
        while len(shared) > IDENTITIES_MAX and len(differing) > 1:
            more, differing = True, differing[: len(differing) // 2]
            shared = held.shared(number, buckets, differing)
        # an emptier peer asks about few buckets; it asks about more when it holds more
        more |= len(shared) > IDENTITIES_MAX
        identities = shared.identities[:IDENTITIES_MAX]
        empty = np.setdiff1d(differing, buckets_of(identities, buckets))
        request = message.request
        self._send_offer(sender, message.kind, identities, buckets, empty, request=request, asked=True, more=more)

    def offer(self, sender: Contact, message: IdentityList) -> None:
        """Request the items that are missing here, and send the items that are missing there."""
        self.dirty = True
        if message.kind not in self._kinds:
            return
        offered = as_array(message.identities)
        if self._recovery.closing:
            if not message.asked:
                self._want(sender, message, offered, offered)
            return
        found, number = self._who_keeps(sender)
        if not message.asked:
            held = self._holdings(message.kind, found).find(offered)
            if self._want(sender, message, offered, held.identities) and message.kind in self._first_kinds:
                self._gifts[sender.key, message.request] = self._messenger.now + GIVEN_SECONDS
                self._recovery.receiving = True
            return
        comparison = self._asked(message.request)
        if comparison is None or not comparison.of(sender, message.kind) or found is None or comparison.fetching:
            return
        self._members.hear(message.members, known=message.known, complete=message.complete)
        self.life_told(sender, message.began)
        self._note_lacking(sender, message.lacks, returned=message.returned)
        if message.lacks < RecoveryState.UNKNOWN:
            self._members.lacks_less(RecoveryState.SUBSCRIPTIONS)
        if max(as_list(message.buckets), default=0) >= max(comparison.buckets, 1):
            raise RemoteProtocolError(f"an offer of more buckets than the {comparison.buckets} that were asked about")
        mine = self._holdings(message.kind, found).shared(number, comparison.buckets, as_array(message.buckets))
        offered = offered[offered != _NOTHING]
        self._give(sender, message.kind, mine.only(~np.isin(mine.identities, offered)))
        comparison.more = message.more
        comparison.first = max(as_list(message.buckets), default=-1) + 1
        if np.isin(offered, mine.identities).all():
            self._compared_with(comparison)
        else:
            self._queue = [each for each in self._queue if each is not comparison]
            self._open[comparison.request] = comparison
            comparison.fetching, comparison.again_at = True, self._messenger.now + GIVEN_SECONDS
            self._want(sender, message, offered, mine.identities)

    def _want(self, sender: Contact, message: IdentityList, offered: U64, held: U64) -> int:
        """Request the offered items that this peer does not hold; return their number."""
        missing = offered[~np.isin(offered, held)]
        self.taken += len(missing)
        column = self._messenger.columns.adopt(missing, "uint64")
        self._messenger.send(sender, Fetch(message.request, message.kind, message.asked, column))
        return len(missing)

    def want(self, sender: Contact, message: Fetch) -> None:
        """Send the requested items, and report when the other peer has stored them."""
        self.dirty = True
        if message.kind not in self._kinds:
            return
        messenger = self._messenger
        held = self._holdings(message.kind, self._placement.replica_map)
        if self._offer_again_at is not None and not message.asked:
            self._heard_of_offers()

        def done() -> None:
            if not message.asked:
                self._taken(sender, message.request)
                self._offer_closed(message.request)
            # the peer that asked waits for FetchDone
            if message.asked or (len(wanted) and message.kind in self._first_kinds):
                messenger.send(sender, FetchDone(message.request, message.kind))

        token = messenger.token(done)
        wanted = as_array(message.identities)
        found = held.find(wanted)
        if not message.asked and len(found) < len(wanted):  # an offered item has changed since
            self._recovery.offer_due = self.dirty = True
        self._give(sender, message.kind, found, (token,))
        messenger.release((token,))

    def _give(self, to: Contact, kind: int, items: Items, tokens: tuple[int, ...] = ()) -> None:
        if not len(items.places):
            return
        self.given += len(items.places)
        for message in self._messages(kind, np.unique(items.places)):
            if self._on_left is not None and isinstance(message, IndexTriples | IndexQuery | Forward | Answers):
                # The receiver will replicate these items, but in its view this peer still does: it must not pass them
                # back.
                message = replace(message, hops=self._messenger.config.hops_max)
            self._messenger.send(to, message, tokens)

    def _messages(self, kind: int, places: npt.NDArray[np.int64]) -> Iterator[Message]:
        for message in self._kinds[kind].messages(places):
            if isinstance(message, IndexTriples):
                yield from self._redelivery.with_origin(message)
            else:
                yield message

    def given_all(self, sender: Contact, message: FetchDone) -> None:
        """Note that the requested items have arrived."""
        self._forget_gifts({(sender.key, message.request)})
        comparison = self._asked(message.request)
        if comparison is not None and comparison.of(sender, message.kind):
            self._compared_with(comparison)

    def _compared_with(self, comparison: _Comparison) -> None:
        self._open.pop(comparison.request, None)
        self._queue = [each for each in self._queue if each is not comparison]
        if comparison.more:
            comparison.request, comparison.fetching = 0, False
            self._queue.insert(0, comparison)
        elif comparison.kind in self._first_kinds:
            self._first_done.add((comparison.kind, comparison.fellow.key))
        self._go_on()

    def _forget_gifts(self, over: set[tuple[int, int]]) -> None:
        """End the wait for handoffs that are complete, or have a sender that is gone or silent."""
        before = len(self._gifts)
        for gift in over:
            self._gifts.pop(gift, None)
        self._recovery.receiving = bool(self._gifts)
        if before and not self._gifts:
            self._messenger.signals.handoff_done.emit()

    # --- offering --------------------------------------------------------------------------------

    def _offer_others(self, kind: int, items: Items, found: ReplicaMap) -> None:
        """Offer the misplaced items of a type to the primary of their key."""
        if len(items):
            items = items.ordered()
            primaries = found.primaries(items.keys)
            for number in np.unique(primaries).tolist():
                to = self._messenger.contact(number)
                offers = self._send_offers(to, kind, items.only(primaries == number))
                self._offered |= {request: (to, kind, identities) for request, identities in offers}

    def _taken(self, sender: Contact, request: int) -> None:
        """Note that another peer has stored the misplaced items of an offer."""
        self.dirty = True
        if (question := self._handing.taken(sender, request)) is not None:
            self.summary(*question)
        to, kind, identities = self._offered.pop(request, (sender, -1, None))
        number = self._messenger.cache.number(to)
        if identities is not None and number > 0 and to.key == sender.key:
            self._took[to.key] = number
            self._held[kind].told(identities, number)

    def leave(self, done: Callable[[bool], None]) -> None:
        """Hand this peer's items to the replicas that will be responsible without it; then call ``done``.

        ``done`` receives whether the remaining members are enough for all that this peer has acknowledged.

        A departure takes two rounds.  During the first, the peer accepts input as usual.  During the short second round
        it accepts none (``closing``), so all items that it acknowledged are then at other peers.

        If several peers leave at once, each would wait in its second round for all others.  A closing peer therefore
        requests nothing from a leaving peer with a higher key.  That one goes first, and this peer then repeats the
        round.
        """
        self._on_left = done
        self._offer_all()

    def _offer_all(self) -> None:
        """Offer to each other member the items that it will replicate.

        This starts again if the view changes meanwhile, and after a time without answers: a peer that takes this one
        for lost drops its messages, and this peer may not notice.
        """
        self._offers.clear()
        self._offer_again_at = self._messenger.now + self._patience
        self._patience *= 2
        others = [each for each in self._others() if each.key not in self._leaving]
        if others:
            after = self._placement.map_of(others)
            for kind in self._order:
                items = self._holdings(kind, self._placement.replica_map, fresh=True).all().ordered()
                for contact in others:
                    chosen = after.holds(items.keys, self._messenger.cache.number(contact))
                    offers = self._send_offers(contact, kind, items.only(chosen))
                    self._offers |= dict.fromkeys(request for request, _ in offers)
        self._offer_closed(0)

    def leaving(self, sender: Contact, _: Leaving) -> None:
        """Note that another peer accepts no more input.

        If this peer leaves as well, neither waits for the other.
        """
        self._leaving.add(sender.key)
        if self._on_left is not None:
            self._last_round = True

    def contact_lost(self, contact: Contact) -> None:
        """Forget a peer that is gone; if it comes back, it may stay."""
        self.dirty = True
        self._leaving.discard(contact.key)
        self._in_step_with.discard(contact.key)
        self._members.note_lacking(contact, RecoveryState.COMPLETE)
        self._lives.pop(contact.key, None)
        self._forget_told(contact.key)
        self._forget_gifts({gift for gift in self._gifts if gift[0] == contact.key})

    def life_told(self, sender: Contact, began: int) -> None:
        """Note the process of a peer; if it is a new one, offer again the items that an earlier one confirmed.

        The disk may have been lost in between.  The peer may have been gone and back without any member noticing.
        """
        if began and self._lives.get(sender.key) != began:
            if sender.key in self._lives:
                self._members.came_back(sender)
            self._lives[sender.key] = began
            self._recovery.offer_due |= self._forget_told(sender.key)

    def _forget_told(self, key: int) -> bool:
        """Forget the offers to a peer and its confirmations; return whether there were any."""
        self._handing.forget(key)
        before = len(self._offered)
        self._offered = {request: each for request, each in self._offered.items() if each[0].key != key}
        number = self._took.pop(key, 0)
        for held in self._held.values() if number else ():
            held.forget(number)
        return bool(number) or len(self._offered) < before

    def _others(self) -> list[Contact]:
        messenger = self._messenger
        return [contact for contact in messenger.cache.contacts() if contact.key != messenger.own.key]

    def _send_offers(self, to: Contact, kind: int, items: Items) -> list[tuple[int, U64]]:
        """Offer items, which are ordered by identity; return the identities by the numbers of the offers."""
        identities, sent = items.identities, []
        first = np.ones(len(identities), np.bool_)
        first[1:] = identities[1:] != identities[:-1]
        identities = identities[first]
        for start in range(0, len(identities), IDENTITIES_MAX):
            self._request += 1
            part = identities[start : start + IDENTITIES_MAX]
            sent.append((self._request, part))
            self._send_offer(to, kind, part, 1, np.zeros(0, np.int64), request=self._request)
        return sent

    def _send_offer(
        self, to: Contact, kind: int, identities: U64, buckets: int, empty: npt.NDArray[np.int64],
        *, request: int, asked: bool = False, more: bool = False,
    ) -> None:  # fmt: skip
        """Send an offer of identities, with an additional row for each bucket that is empty here."""
        adopt = self._messenger.columns.adopt
        places = np.concatenate([buckets_of(identities, buckets), empty])
        rows = np.concatenate([identities, np.zeros(len(empty), np.uint64)])
        offer = IdentityList(request, kind, asked, more, adopt(places, "uint32"), adopt(rows, "uint64"))
        if asked:
            own, members = self._members.record(), self._members
            offer = replace(
                offer, lacks=own.lacks, returned=own.returned, members=members.expected,
                known=members.knows_before(to), began=self._messenger.life, complete=members.complete,
            )  # fmt: skip
        self._messenger.send(to, offer)

    def _heard_of_offers(self) -> None:
        self._patience = OFFER_SECONDS
        self._offer_again_at = self._messenger.now + self._patience

    def _offer_closed(self, request: int) -> None:
        self.dirty = True
        if request in self._offers:
            del self._offers[request]
            self._heard_of_offers()
        if self._offers or self._last_round or self._on_left is None:
            return  # with another round to come, this answer belongs to the round before
        if not self._recovery.closing:
            self._recovery.closing = self._last_round = True
            for contact in self._others():
                self._messenger.send(contact, Leaving())
            return
        done, self._on_left, self._offer_again_at = self._on_left, None, None
        done(self._enough_stay())

    def _enough_stay(self) -> bool:
        """Return whether the remaining members can keep as many copies as are needed."""
        messenger = self._messenger
        if self._members.first_at is not None:
            return False  # an empty peer may have lost data that only absent members have
        if self._members.lacks and (self._members.somebody_missing or self._members.expected > messenger.cache.size):
            return False  # only absent members may have its lost data, and it counts as missing until they are back
        staying = [each for each in self._others() if each.key not in self._leaving]
        return len(staying) >= self._members.copies_needed
