"""Mutants: each removes one rule of the protocol, to prove that the checkers detect the absence.

A mutant replaces methods of the real classes inside a context manager; production code has no switches.  It names the
removed rule and runs on seeds of a kind of fault schedules that needs the rule, in order, until one of them breaks a
promise.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.continuous.delivered_set import DeliveredSet
from p2prdf.continuous.evaluation import Evaluation
from p2prdf.continuous.home import Home
from p2prdf.continuous.incarnations import Incarnations
from p2prdf.continuous.leaf import LeafAnswers
from p2prdf.continuous.records import Known, Subscription
from p2prdf.hlc import GONE
from p2prdf.overlay.outbox import Transfer
from p2prdf.peer import Peer
from p2prdf.peer.entry.dedup import RecentlyStable
from p2prdf.peer.entry.entry import ClientEdge
from p2prdf.peer.joins.engine import Engine
from p2prdf.peer.joins.index_advertisements import LateIndexes
from p2prdf.peer.joins.keyword_index import KeywordIndex
from p2prdf.peer.joins.stable_deletions import StableDeletions
from p2prdf.peer.network.batches import TripleBatch, unmarked
from p2prdf.peer.network.cluster import Cluster
from p2prdf.peer.network.completions import Completions
from p2prdf.peer.network.inbox import Inbox
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.network.placement import Replicated
from p2prdf.peer.network.quorum import MISSING_SECONDS, Members
from p2prdf.peer.network.recovery import Recovery
from p2prdf.peer.progress.low_watermark import EARLY_CUTS, Inspection, LowWatermarks, UnderWay
from p2prdf.peer.replication import staging as accepted
from p2prdf.peer.replication.anti_entropy import AntiEntropy
from p2prdf.peer.replication.conditions import Conditions
from p2prdf.peer.replication.redelivery import Redelivery
from p2prdf.peer.subscriptions.coordinator import Coordinator
from p2prdf.peer.subscriptions.delivery import Delivery
from p2prdf.peer.subscriptions.evaluation import Evaluations
from p2prdf.peer.subscriptions.opening import Opening
from p2prdf.peer.subscriptions.replication import RecordReplication
from p2prdf.peer.subscriptions.unresolved import Unresolved
from p2prdf.store import columnar, columnar_state, light_state
from p2prdf.store.columnar import ColumnarTables
from p2prdf.store.columnar_state import ColumnarState
from p2prdf.store.intervals import ValidityIntervals
from p2prdf.store.light import LightTables
from p2prdf.store.light_state import IDENTITY, LightState
from p2prdf.store.result_log import ResultLog, withdrawals
from p2prdf.store.tables import Derived, Ends, Tables
from p2prdf.store.triple_table import TripleTable
from p2prdf.wire.contract import Bookmark, Completed, Effect, Published
from p2prdf.wire.messages import SURE, Contact, DeletionsForgotten, Fetch, IndexTriples, MembersKnown
from schedules.failures.days import run_day
from schedules.failures.scenario import Verdict
from schedules.failures.world import FailingWorld
from schedules.shares import Configurations

__all__ = ["MUTANTS", "SEEDS_MAX", "Caught", "Mutant", "catch", "run_mutants"]

SEEDS_MAX: Final = 2000
"""Most seeds before a mutant counts as not caught."""

_SHARE_SEEDS = 50
_NEVER = (1 << 64) - 1
_NO_INDEX = -1
_ON: Final = {
    "late-words": "standing queries", "no-roll-forward": "crashes", "spare-the-returned": "returns",
    "begun-before-live": "members", "settled-forgotten": "cuts", "settled-early": "cuts",
    "alone-everywhere": "removals", "joins-for-others": "removals", "join-the-ended": "removals",
    "stable-unproven": "replacements",
    "stable-at-once": "replacements", "arrivals-trusted": "replacements", "late-ends-trusted": "replacements",
    "one-stay": "removals", "rows-live-on": "removals", "answers-after-withdrawals": "removals",
    "always-sure": "removals", "never-sure": "removals", "bookmark-before-answers": "bookmarks",
    "withdrawn-leaf-comes-back": "standing queries", "no-compare-after-takeover": "standing queries",
    "no-commit-wait": "clocks", "late-removals": "removals and disks",
    "names-taken-for-new": "standing queries", "leaf-answers-not-kept": "standing queries",
    "withdraw-the-known": "kept", "unsteady-marks": "kept", "removals-at-once": "kept", "told-before-copies": "kept",
    "one-keeper-of-records": "kept", "marks-without-outbox": "bookmarks", "known-late": "parted, again",
    "strangers-unheard": "strangers", "late-roles": "parted", "narrow-forever": "parted, again",
    "ended-unheard": "parted, again", "never-cut-off": "parted, late", "lost-together": "racks",
    "told-elsewhere-ignored": "parted, standing queries", "bare-contents-not-repaired": "parted, standing queries",
    "sure-at-once": "standing queries, nothing removed",
    "own-clock-only": "stragglers", "late-look": "stragglers, busy", "begun-anew": "disks and snapshots",
    "fellows-know": "unseen absences", "without-origin": "gone halfway",
    "first-at-once": "disks and snapshots, told of the living",
    "former-lives-forgotten": "disks and snapshots, told of the living",
    "staged-not-in-snapshots": "disks and snapshots", "islands": "late bootstrap",
    "clusters-not-compared": "islands",
    "stamps-uncorrected": "clock steps", "outbox-at-the-end": "slow processors, bookmarks",
    "acknowledged-in-open-turns": "slow processors",
    "unknown-withdrawals-refused": "pinned", "over-not-in-snapshots": "pinned",
    "ended-rows-unanswered": "pinned", "graphs-mixed": "drawn",
    "no-roll-forward-after-restart": "gone for good", "one-round-of-leaving": "leaving", "gone-alone": "leaving alone",
}  # fmt: skip
"""Kinds of schedules (of :mod:`schedules.failures.days`) for mutants that drawn schedules seldom catch."""
_CHUNK = 4

Change = tuple[Any, str, Any]
"""A class or module, the name of a replaced attribute, and its replacement."""


@contextmanager
def _changed(changes: list[Change]) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name, replacement in changes:
            assert hasattr(owner, name), f"{owner.__name__} has no {name} that could be replaced"
            if name in vars(owner):
                stack.callback(setattr, owner, name, vars(owner)[name])
            else:  # inherited
                stack.callback(delattr, owner, name)
            setattr(owner, name, replacement)
        yield


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule and its removal; ``changes`` returns the replacements when the mutant takes effect."""

    name: str
    rule: str
    changes: Callable[[], list[Change]]

    @property
    def days(self) -> str:
        """The kind of schedules that test the rule."""
        return _ON.get(self.name, "plain")

    def run(self, seed: int, configurations: Configurations = "daemon", days: str = "") -> Verdict:
        """Run the schedule of a seed without the rule; ``days``: its kind, by default the one of this mutant."""
        with _changed(self.changes()):
            return run_day(days or self.days, seed, configurations=configurations)


@dataclass(frozen=True, slots=True)
class Caught:
    """The evidence against a mutant: the first bad seed, its kinds of problems, and the number of bad seeds."""

    name: str
    first: int | None
    kinds: tuple[str, ...]
    bad: int
    seeds: int

    def __str__(self) -> str:
        if self.first is None:
            return f"{self.name}: NOT CAUGHT in {self.seeds} seeds"
        return f"{self.name}: first seed {self.first} ({', '.join(self.kinds)}), {self.bad} of {self.seeds} seeds"

def _acknowledge_before_sync() -> list[Change]:
    return [(FailingWorld, "_waits", lambda *_: False)]


def _acknowledge_before_record() -> list[Change]:
    """A publisher's acknowledgement does not wait for the record of the entry node."""
    carry_out = FailingWorld._carry_out

    def carried_out(self: Any, node: Any, effects: Any) -> None:
        machine = self.machines[node.index]
        life = machine.life
        early = [each for each in effects if isinstance(each, Completed) and isinstance(each.outcome, Published)]
        for each in early:
            machine.clocks[each.request] = machine.clock
            self._perform(node, each)
        if machine.life == life:
            carry_out(self, node, [each for each in effects if each not in early])

    return [(FailingWorld, "_carry_out", carried_out)]


def _islands() -> list[Change]:
    return [(Members, "alone", property(lambda _: False))]


def _clusters_not_compared() -> list[Change]:
    known = Cluster.known
    return [(Cluster, "known", lambda self, *told: known(self, *told) if not self.identity else None)]


def _stamps_uncorrected() -> list[Change]:
    return [(Peer, "_corrected", lambda _, message: message)]


def _one_copy() -> list[Change]:
    return [(Members, "spare", property(lambda self: min(self._config.replicas, self._cache.size) - 1))]


def _no_probe_of_rows() -> list[Change]:
    """A row is not joined with triples that came before it."""

    def stored(original: Any) -> Any:
        def add_rows(self: Any, rows: Derived, _: Any = None) -> list[Derived]:
            result: list[Derived] = original(self, rows, self.columns.full(len(rows), 0, "bool"))
            return result

        return add_rows

    return [(tables, "add_rows", stored(tables.add_rows)) for tables in (LightTables, ColumnarTables)]


def _unordered_identities() -> list[Change]:
    one, many = keys.contribution, keys.contributions
    return [
        (keys, "contribution", lambda identity, _: one(identity, 0)),
        (keys, "contributions", lambda identities, _: many(identities, 0)),
    ]


def _no_rejoin() -> list[Change]:
    return [(Engine, "rejoin", lambda *_: None)]


def _no_repair() -> list[Change]:
    def wake(self: AntiEntropy) -> None:
        recovery = self._messenger.recovery
        if not recovery.caught_up:
            recovery.caught_up = True
            self._messenger.signals.caught_up.emit()

    return [(AntiEntropy, "wake", wake)]


def _repair_unjoined() -> list[Change]:
    """Items from anti-entropy are stored, but never joined."""
    original = Engine._spread

    def spread(self: Engine, batch: TripleBatch, *, arrived: bool) -> None:
        before = len(self._mine)
        original(self, batch, arrived=arrived)
        if arrived and not batch.origin:
            for each in self._mine[before:]:
                each.roles = unmarked(each.roles)

    return [(Engine, "_spread", spread)]


def _join_the_ended() -> list[Change]:
    return [(Engine, "_joins_alone", lambda _: False)]


def _alone_everywhere() -> list[Change]:
    """Rows that wait at all peers are treated as rows that only one peer joins."""

    def met_from(self: LightTables, stamp: int, _: Any) -> int:
        return max(self._ended_from, stamp) if self.settled else self._ended_from

    nowhere = SimpleNamespace(**vars(keys) | {"ANY": _NO_INDEX})
    return [(LightTables, "_met_from", met_from), (columnar, "keys", nowhere)]


def _joins_for_others() -> list[Change]:
    """A peer joins all that it holds, also under keys of which it is no longer a replica."""
    return [(Replicated, "leads", lambda *_: [True] * len(_[-1]))]


def _stable_at_once() -> list[Change]:
    """One low watermark proves deletions stable, though their retractions may be in flight."""

    def learn(self: StableDeletions, upto: int, _: int, *, whole: bool = False) -> None:
        if upto >= self._tables.stable_before:
            self._tables.stable_before = upto + 1

    return [(StableDeletions, "learn", learn)]


def _stable_unproven() -> list[Change]:
    """All deletions count as stable at once."""
    floor = property(lambda self: self.latest_end + 1)
    setter = floor.setter(lambda *_: None)
    return [(tables, "stable_before", setter) for tables in (LightTables, ColumnarTables)]


def _arrivals_trusted() -> list[Change]:
    """A peer that comes is taken to know all stable deletions."""
    return [(StableDeletions, "met", lambda self, _: self._cuts.clear())]


def _late_ends_trusted() -> list[Change]:
    """A deletion that arrives late counts as stable."""

    def note_ends(self: Ends, _: int, latest: int) -> None:
        self.latest_end = max(self.latest_end, latest)

    return [(Ends, "_note_ends", note_ends)]


def _forget_unproven() -> list[Change]:
    """Superseded intervals are forgotten at once."""

    def forget_superseded(self: StableDeletions) -> None:
        self._tables.forget_superseded(_NEVER)

    return [(StableDeletions, "_forget_superseded", forget_superseded)]


def _forget_unstable() -> list[Change]:
    """The horizon alone decides, though the deletions may not be stable in the present view."""

    def forget_superseded(self: StableDeletions) -> None:
        self._tables.forget_superseded(self._before)

    return [(StableDeletions, "_forget_superseded", forget_superseded)]


def _absent_unmissed() -> list[Change]:
    """Members that are absent do not stop the horizon."""
    return [(StableDeletions, "whole", property(lambda _: True))]


def _late_unrefuted() -> list[Change]:
    """Proofs of cuts before a late deletion count after it."""

    def take(self: StableDeletions, _: Contact, message: DeletionsForgotten) -> None:
        self._before = max(self._before, message.before)
        self._forget_superseded()

    return [(StableDeletions, "take", take)]


def _first_ends_early() -> list[Change]:
    """The first interval does not end with the forgotten ones, so their deletions are unknown."""
    return [(ValidityIntervals, "first_end", lambda *_: 1)]


def _forgotten_heard_again() -> list[Change]:
    """Deletions that ended forgotten intervals divide the first interval once more."""
    original = ValidityIntervals.forget

    def forget(self: Any, triple: Any, *arguments: Any) -> list[int]:
        forgotten = original(self, triple, *arguments)
        self._merged.clear()
        return forgotten

    return [(ValidityIntervals, "forget", forget)]


def _forget_untold() -> list[Change]:
    """Digests do not hear of forgotten intervals."""
    return [
        (LightTables, "triple_version", lambda self, per_event: len(self._events if per_event else self._triples)),
        (TripleTable, "touched", _touched_only_living),
    ]


def _touched_only_living(self: TripleTable, rows: Any, *, anything: bool) -> None:
    if len(rows) and self.roles.values[rows].any():
        self.version += anything
        self._touched.append(rows)


def _no_roll_forward() -> list[Change]:
    return [(Redelivery, "_finish", lambda *_: None)]


def _removals_at_once() -> list[Change]:
    return [(accepted, "_deletions", lambda _: 0)]


def _no_roll_forward_after_restart() -> list[Change]:
    return [(Redelivery, "finish_all", lambda *_: None)]


def _discard_unmatched() -> list[Change]:
    """Peers store only triples for which a pattern or row waits."""

    def discarding(original: Any) -> Any:
        def add_triples(self: Any, *columns: Any) -> list[Derived]:
            sizes = self.sizes()
            result: list[Derived] = original(self, *columns) if sizes.queries + sizes.rows else []
            return result

        return add_triples

    return [(tables, "add_triples", discarding(tables.add_triples)) for tables in (LightTables, ColumnarTables)]


def _no_commit_wait() -> list[Change]:
    def tell(self: Opening, subscription: Subscription) -> None:
        heapq.heappush(self._settling, (0.0, subscription.number))
        self._tell_settled()

    return [(Opening, "_tell_when_past", tell)]


def _count_others_copies() -> list[Change]:
    """A triple that its receiver forwards without storing counts as a copy."""
    return [(Inbox, "keep", lambda *_: ())]


def _forget_on_restart() -> list[Change]:
    return [(Peer, "restore", lambda *_, **__: None)]


def _late_roles() -> list[Change]:
    """Triples from before the advertisement of an index are not put into it."""
    return [(LateIndexes, "_route", lambda *_: None)]


def _graphs_mixed() -> list[Change]:
    """A pattern of the default graph with a variable predicate matches statements of named graphs and the directory."""
    changes: list[Change] = []
    for module in (columnar_state, light_state):
        original = module.compile_step

        def compile_step(plan: Any, number: int, original: Any = original) -> Any:
            return replace(original(plan, number), never_literal=())

        changes.append((module, "compile_step", compile_step))
    return changes


def _lost_words() -> list[Change]:
    """A publisher claims to use the keyword index for words that queries wait for, but does not."""
    return [(KeywordIndex, "indexed", lambda *_: None)]


def _late_words() -> list[Change]:
    """Texts from before the advertisement of a word are not indexed under it."""
    return [(KeywordIndex, "_add_to", lambda *_, **__: None)]


def _words_unknown() -> list[Change]:
    """The words of a query in the keyword index are not advertised."""
    return [(Opening, "_words_of", lambda *_: [])]


def _give_up_lost() -> list[Change]:
    """In-flight messages to a lost peer are dropped."""
    return [(Messenger, "give_up", _only_forget)]


def _only_forget(self: Messenger, contact: Contact, *, left: bool = False) -> list[Transfer]:
    self.cache.lost(contact)
    self._ring_changed()
    for transfer in self.outbox.lost(contact):
        self.release(transfer.tokens, contact.key)
    return []


def _spare_the_returned() -> list[Change]:
    return [(Completions, "fewer", lambda _: None)]


def _begun_before_live() -> list[Change]:
    """A subscription is not restarted after a change of the view during its opening."""
    original = Delivery.begin

    def begin(self: Delivery, subscription: Subscription) -> None:
        if not subscription.delivered or subscription.opening:
            original(self, subscription)

    return [(Delivery, "begin", begin)]


def _settled_forgotten() -> list[Change]:
    return [(RecentlyStable, "places_left", lambda *_: None)]


def _settled_early() -> list[Change]:
    """Answers are settled although a coordinator may be alive outside the view."""
    return [(Members, "somebody_missing", property(lambda _: False))]


def _never_cut_off() -> list[Change]:
    return [(Members, "perhaps_cut_off", property(lambda _: False))]


def _narrow_forever() -> list[Change]:
    return [(Engine, "_widened", lambda *_: None)]


def _one_round_of_leaving() -> list[Change]:
    """A leaving peer accepts new items until its end."""
    return [(AntiEntropy, "_offer_closed", _leave_at_once)]


def _leave_at_once(self: AntiEntropy, request: int) -> None:
    self._offers.pop(request, None)
    if not self._offers and self._on_left is not None:
        done, self._on_left = self._on_left, None
        done(self._enough_stay())


def _gone_alone() -> list[Change]:
    """A leaving peer reports a complete handoff with any number of other peers."""
    return [(AntiEntropy, "_enough_stay", lambda _: True)]


def _known_late() -> list[Change]:
    """Answers that are recorded for a group count only for its subscriptions known at that time."""
    return [(Home, "comes_late", lambda *_: False)]


def _one_keeper_of_records() -> list[Change]:
    """A record in flight to a lost peer counts as a copy if there is no other peer."""
    return [(RecordReplication, "_send_when_enough", RecordReplication._send)]


def _without_origin() -> list[Change]:
    """Anti-entropy transfers parts of incomplete publications without their origin."""

    def with_origin(_: Redelivery, message: IndexTriples) -> Iterator[IndexTriples]:
        yield message

    return [(Redelivery, "with_origin", with_origin)]


def _lost_together() -> list[Change]:
    return [(Members, "lost_together_until", property(lambda _: None))]


def _begun_anew() -> list[Change]:
    """A peer that restarts again after the loss of its disk regards its new data as complete."""
    return [(Members, "record", lambda self: MembersKnown(self.most))]


def _first_at_once() -> list[Change]:
    """A peer without disk that sees no other peer regards itself as the first, although it was given seeds."""
    return [(Members, "first_at", property(lambda _: None))]


def _former_lives_forgotten() -> list[Change]:
    """A peer does not miss members that it has not seen since its start."""
    return [(Members, "somebody_missing", property(lambda self: self.lost_within(MISSING_SECONDS)))]


def _fellows_know() -> list[Change]:
    """Other peers treat a peer in recovery as a replica with complete data."""
    return [(Members, "note_lacking", lambda *_, **__: None)]


def _marks_without_outbox() -> list[Change]:
    return [(UnderWay, "add", lambda *_: None)]


def _late_look() -> list[Change]:
    """Peers examine in-flight work at the end of a turn after the cut, not at the cut."""
    original = LowWatermarks.wake

    def wake(self: LowWatermarks) -> None:
        self._inspected = [replace(each, found=self._under_way()) for each in self._inspected]
        original(self)

    return [(LowWatermarks, "wake", wake)]


def _late_early_cuts() -> list[Change]:
    """A peer that hears of an early cut after its clock has passed it reports its present work for that cut."""
    original = LowWatermarks._report_early

    def report(self: LowWatermarks, contact: Contact, after: int) -> None:
        original(self, contact, after)
        passed = {after + each: {contact.key: contact} for each in EARLY_CUTS if after + each <= self._cut}
        if passed:
            self._inspected.append(Inspection(self._under_way(), 0, passed, ()))

    return [(LowWatermarks, "_report_early", report)]


def _outbox_at_the_end() -> list[Change]:
    """Peers examine the outbox at the end of a turn, without earlier messages of a split turn."""
    original = LowWatermarks.wake

    def wake(self: LowWatermarks) -> None:
        if self._messenger.put_since_cut is not None:
            self._messenger.put_since_cut = list(self._messenger.outbox.messages())
        original(self)

    return [(LowWatermarks, "wake", wake)]


def _acknowledged_in_open_turns() -> list[Change]:
    """Arrivals are acknowledged at the end of a turn's budget, before they are processed."""
    original = Peer.wake

    def wake(self: Peer, *, now: float) -> list[Effect]:
        effects = original(self, now=now)
        if self.turn_open:
            self._messenger.flush_acknowledgements()
            effects += self._end()
        return effects

    return [(Peer, "wake", wake)]


def _own_clock_only() -> list[Change]:
    """Only the own clock passes a cut; the stamps of messages are ignored."""
    original = LowWatermarks.passing
    return [(LowWatermarks, "passing", lambda self, _=0: original(self))]


def _unsteady_marks() -> list[Change]:
    return [(Recovery, "complete", property(lambda _: True))]


def _late_removals() -> list[Change]:
    """A late deletion also removes a publication that has a later stamp and arrived earlier."""
    original = ValidityIntervals.remove

    def remove(
        self: ValidityIntervals[Any], triple: Any, stamp: int, time_of: Callable[[int], int],
        lacks: Callable[[int], bool],
    ) -> Iterator[Any]:
        for begin, time, _ in original(self, triple, stamp, time_of, lacks):
            yield begin, time if time >= GONE else 0, None

    return [(ValidityIntervals, "remove", remove)]


def _one_stay() -> list[Change]:
    """A publication after a deletion has the identity of the one before."""

    def identity_of(self: LightState, triple: Any) -> int:
        hashes = self._dictionary.hashes
        return int(triple[IDENTITY] if triple[IDENTITY] >= 0 else keys.triple_id(*(hashes[each] for each in triple[0])))

    return [(LightState, "_identity_of", identity_of), (ColumnarState, "_identities", _identities_of_triples)]


def _identities_of_triples(self: ColumnarState, table: Any, rows: Any) -> Any:
    if table.per_event:
        return table.event.values[rows]
    hashes = self._dictionary.hash_array()
    return keys.triple_ids(*(hashes[table.terms(rows, position)] for position in range(3)))


def _rows_live_on() -> list[Change]:
    """The end of a partial result does not retract the results derived from it."""
    original = Engine._store_rows

    def store_rows(self: Engine) -> None:
        rejoining, self._tables.add_rows = self._tables.add_rows, _joining_the_living(self._tables)  # type: ignore[method-assign]
        try:
            original(self)
        finally:
            self._tables.add_rows = rejoining  # type: ignore[method-assign]

    return [(Engine, "_store_rows", store_rows)]


def _joining_the_living(tables: Tables) -> Callable[..., list[Derived]]:
    add_rows = tables.add_rows

    def joining(rows: Derived, probed: Any = None) -> list[Derived]:
        living = [each != GONE for each in as_list(rows.oldest)]
        wanted = living if probed is None else [a and bool(b) for a, b in zip(living, probed, strict=True)]
        return add_rows(rows, tables.columns.column(wanted, "bool"))

    return joining


def _withdraw_the_known() -> list[Change]:
    """The retraction of an unknown answer is ignored."""
    original = ResultLog.withdraw

    def withdraw(self: ResultLog, identity: Any, *rest: Any) -> int:
        known = self._marks.find(withdrawals(self._columns, identity))
        return original(self, identity, *rest) if len(known) == len(identity) else 0

    return [(ResultLog, "withdraw", withdraw)]


def _answers_after_withdrawals() -> list[Change]:
    """An answer that arrives after its retraction is delivered."""
    return [(ResultLog, "withdraw", ResultLog.append), (ResultLog, "_leave_out_withdrawn", lambda _: None)]


def _always_sure() -> list[Change]:
    """A coordinator treats every retracted answer as acknowledged by the subscriber."""

    def with_certainty(self: ResultLog, part: Any) -> Any:
        return self._columns.column([each | SURE if each >= GONE else each for each in as_list(part.born)])

    return [(ResultLog, "_with_certainty", with_certainty)]


def _never_sure() -> list[Change]:
    """A coordinator's retraction does not say that the answer was acknowledged."""
    return [(ResultLog, "_with_certainty", lambda _, part: part.born)]


def _bookmark_before_answers() -> list[Change]:
    return [(ResultLog, "handed_out", property(lambda _: True)), (ClientEdge, "_tell_bookmark", _tell_at_once)]


def _tell_at_once(self: ClientEdge, local: Any) -> None:
    if local.reaching is not None:
        local.bookmark = local.reaching[2]
        local.reaching = None
        self._messenger.effects.append(Bookmark(local.number, local.bookmark))


def _told_before_copies() -> list[Change]:
    """Answers of a standing query go to the subscriber and to the other replicas at the same time."""
    original = Evaluations._stage

    def stage(self: Evaluations, *arguments: Any) -> None:
        tell = self._records.tell
        self._records.tell = lambda key, message, tokens=(): tell(key, message)  # type: ignore[method-assign]  # noqa: ARG005
        try:
            original(self, *arguments)
        finally:
            self._records.tell = tell  # type: ignore[method-assign]

    return [(Evaluations, "_stage", stage)]


def _no_compare_after_takeover() -> list[Change]:
    """A new evaluator of a standing query reports the current answers and retracts none."""

    def begin(self: Evaluation, _: Any) -> None:
        original(self, DeliveredSet())

    original = Evaluation._begin_to_compare
    return [(Evaluation, "_begin_to_compare", begin)]


def _sure_at_once() -> list[Change]:
    """After a failover, the new coordinator at once retracts answers that its data does not imply."""
    return [(Evaluation, "_mark_tentative", lambda *_: None)]


def _names_taken_for_new() -> list[Change]:
    """Delivered answers are looked up only for current or held rows; other rows get their first identity again."""
    original = Incarnations.changes

    def changes(self: Incarnations, wanted: Any, _: Any) -> Any:
        return original(self, wanted, lambda names: [False] * len(names))

    return [(Incarnations, "changes", changes)]


def _told_elsewhere_ignored() -> list[Change]:
    return [(Evaluations, "told_elsewhere", lambda *_: None)]


def _withdrawn_leaf_comes_back() -> list[Change]:
    """The retraction of a leaf's answer is forgotten if it arrives before the answer."""
    original = LeafAnswers._withdraw

    def withdraw(self: LeafAnswers, identity: int, born: int) -> Any:
        return original(self, identity, born) if identity in self._ordinals else []

    return [(LeafAnswers, "_withdraw", withdraw)]


def _leaf_answers_not_kept() -> list[Change]:
    """The answers of leaves are held in memory only."""
    original = Delivery._record_leaf

    def record_leaf(self: Delivery, *arguments: Any) -> bool:
        original(self, *arguments)
        return False

    return [(Delivery, "_record_leaf", record_leaf)]


def _bare_contents_not_repaired() -> list[Change]:
    return [(DeliveredSet, "bare", property(lambda _: []))]


def _ends_untold() -> list[Change]:
    return [(RecordReplication, "tell_subscriber", lambda *_: None), (Replicated, "renewal_seconds_max", 86_400.0)]


def _strangers_unheard() -> list[Change]:
    return [(AntiEntropy, "heard_stranger", lambda _: None)]


def _ended_unheard() -> list[Change]:
    """A group ends with its last local subscription, unless a member is known to be missing."""
    original = Coordinator._end

    def end(self: Coordinator, subscription: Subscription, done: Callable[[], None] = lambda: None) -> None:
        group = subscription.group
        original(self, subscription, done)
        last = self.home.known(group.identity, subscription=False) is Known.UNKNOWN
        if last and not self._messenger.members.somebody_missing:
            self.records.end_group(group.identity, self._messenger.tick())
            self._end_group(group)

    return [(Coordinator, "_end", end)]


def _staged_not_in_snapshots() -> list[Change]:
    return [(Evaluations, "messages", lambda _: [])]


def _unknown_withdrawals_refused() -> list[Change]:
    return [(Unresolved, "hold_withdrawn", lambda *_: False)]


def _over_not_in_snapshots() -> list[Change]:
    return [(ResultLog, "_close_over", lambda *_: [])]


def _ended_rows_unanswered() -> list[Change]:
    """Rows of ended queries get no reply, and any request counts as a reply to a leaving peer's offers.

    Either of the two rules alone breaks the cycle of requests.
    """
    original = AntiEntropy.want

    def want(self: AntiEntropy, sender: Contact, message: Fetch) -> None:
        if self._offer_again_at is not None:
            self._heard_of_offers()
        original(self, sender, message)

    return [(Engine, "_note_ended", lambda *_: None), (AntiEntropy, "want", want)]


def _released_under_way() -> list[Change]:
    """Ended groups are released while rows are queued by the numbers of groups."""
    original = Engine._store_next

    def store_next(self: Engine) -> bool:
        self._tables.release_ended()
        return original(self)

    return [(Engine, "_store_next", store_next)]


def _grants_unseen() -> list[Change]:
    """A replica grants a subject though it has granted it to another transaction since."""
    return [(Conditions, "_latest_grant", lambda *_: (0, 0))]


def _changes_unseen() -> list[Change]:
    """A replica grants a subject though a publication or deletion has come since."""
    return [(tables, "latest_news", lambda *_: 0) for tables in (LightTables, ColumnarTables)]


def _floor_unraised() -> list[Change]:
    """Forgotten grants do not raise the floor."""
    original = Conditions._note

    def note(self: Conditions, subject: int, stamp: int, attempt: int) -> None:
        floor = self._floor
        original(self, subject, stamp, attempt)
        self._floor = floor

    return [(Conditions, "_note", note)]


def _grants_in_any_view() -> list[Change]:
    """A replica grants in a view that it does not share, and before it has compared its data."""
    return [(Conditions, "_may_tell", lambda *_: True)]


def _conditions_unheard() -> list[Change]:
    """Low watermarks pass the transactions that wait for grants."""
    return [(Conditions, "queued", lambda _: [])]


MUTANTS: Final[dict[str, Mutant]] = {
    mutant.name: mutant
    for mutant in (
        Mutant("acknowledge-before-sync", "what follows a record waits until it is durable", _acknowledge_before_sync),
        Mutant(
            "acknowledge-before-record", "the record of the entry node counts as a copy when it is durable",
            _acknowledge_before_record,
        ),
        Mutant("one-copy", "an acknowledgement waits for copies_min copies", _one_copy),
        Mutant("no-probe-of-rows", "whichever of a row and a triple comes second is joined", _no_probe_of_rows),
        Mutant("unordered-identities", "identities tell the positions of triples apart", _unordered_identities),
        Mutant("no-rejoin", "a new primary joins again what lies under its keys", _no_rejoin),
        Mutant("no-repair", "replicas give each other what is missing", _no_repair),
        Mutant("repair-unjoined", "what comes by repair is joined like everything else", _repair_unjoined),
        Mutant("removals-at-once", "a removal takes effect when enough peers keep it", _removals_at_once),
        Mutant("join-the-ended", "intervals that never overlapped are not joined", _join_the_ended),
        Mutant("alone-everywhere", "pairs are left out only where one peer alone joins", _alone_everywhere),
        Mutant("joins-for-others", "a peer joins only under the keys that it leads", _joins_for_others),
        Mutant("stable-at-once", "two low watermarks prove that deletions are stable", _stable_at_once),
        Mutant("stable-unproven", "deletions are stable only where that is proven", _stable_unproven),
        Mutant("arrivals-trusted", "the arrival of a peer withdraws the proof", _arrivals_trusted),
        Mutant("late-ends-trusted", "a deletion that arrives late withdraws the proof", _late_ends_trusted),
        Mutant("forget-unproven", "two cuts of all members prove that an interval may go", _forget_unproven),
        Mutant("forget-unstable", "an interval goes where its deletion is stable", _forget_unstable),
        Mutant("absent-unmissed", "an absent member stops the horizon of forgotten intervals", _absent_unmissed),
        Mutant("late-unrefuted", "a late deletion refutes the horizons of earlier cuts", _late_unrefuted),
        Mutant("first-ends-early", "the first interval ends with the forgotten ones", _first_ends_early),
        Mutant("forgotten-heard-again", "deletions of forgotten intervals change nothing", _forgotten_heard_again),
        Mutant("forget-untold", "digests follow what is forgotten", _forget_untold),
        Mutant("grants-unseen", "of two transactions on one version one is granted", _grants_unseen),
        Mutant("changes-unseen", "a subject that has changed is not granted", _changes_unseen),
        Mutant("floor-unraised", "forgotten grants refuse the versions before them", _floor_unraised),
        Mutant("grants-in-any-view", "a replica grants in a shared view, after a comparison", _grants_in_any_view),
        Mutant("conditions-unheard", "a transaction that waits for grants holds low marks back", _conditions_unheard),
        Mutant("no-roll-forward", "a publication whose peer is lost is finished by others", _no_roll_forward),
        Mutant("no-roll-forward-after-restart", "so it is by who starts anew", _no_roll_forward_after_restart),
        Mutant("discard-unmatched", "triples are kept whether or not somebody waits", _discard_unmatched),
        Mutant("no-commit-wait", "a query is live when all clocks are past its stamp", _no_commit_wait),
        Mutant("count-others-copies", "only those who keep a key count as its copies", _count_others_copies),
        Mutant("forget-on-restart", "what a disk holds is restored", _forget_on_restart),
        Mutant("late-roles", "a role counts for what came before it was heard of", _late_roles),
        Mutant("graphs-mixed", "a pattern without GRAPH reads the default graph only", _graphs_mixed),
        Mutant("lost-words", "a text is indexed under words that are waited for", _lost_words),
        Mutant("late-words", "a word counts for what came before it was heard of", _late_words),
        Mutant("words-unknown", "a query is live when all know the words it waits by", _words_unknown),
        Mutant("give-up-lost", "what was on its way to a lost peer goes to others", _give_up_lost),
        Mutant("spare-the-returned", "peers that come back make up for no copy under way", _spare_the_returned),
        Mutant("begun-before-live", "a subscription is told from the beginning once it is live", _begun_before_live),
        Mutant("settled-forgotten", "what was settled is left out of other epochs", _settled_forgotten),
        Mutant("settled-early", "nothing is settled while somebody is missing", _settled_early),
        Mutant("never-cut-off", "who may be cut off indexes under all roles", _never_cut_off),
        Mutant("narrow-forever", "what was left out for a subscription heard of late is joined", _narrow_forever),
        Mutant("one-round-of-leaving", "what a leaving peer acknowledged is with others", _one_round_of_leaving),
        Mutant("gone-alone", "who leaves knows whether enough others stay", _gone_alone),
        Mutant("late-removals", "what is published after a removal stays, though heard of first", _late_removals),
        Mutant("one-stay", "a triple that is published again is another to the answers", _one_stay),
        Mutant("rows-live-on", "what is made of what is over is over, too", _rows_live_on),
        Mutant("withdraw-the-known", "answers are taken back that another may have told", _withdraw_the_known),
        Mutant("answers-after-withdrawals", "what is taken back is not told later", _answers_after_withdrawals),
        Mutant("always-sure", "what a subscriber never had is not taken back", _always_sure),
        Mutant("never-sure", "what a subscriber has settled is taken back", _never_sure),
        Mutant("known-late", "what came before a subscription was known is derived again for it", _known_late),
        Mutant("one-keeper-of-records", "a query is live when enough peers keep its record", _one_keeper_of_records),
        Mutant("without-origin", "repair says where unfinished publications were published", _without_origin),
        Mutant("lost-together", "as many peers as keep a key, lost at once, are waited for", _lost_together),
        Mutant("begun-anew", "who lost its disk remembers so until it was told what others know", _begun_anew),
        Mutant("first-at-once", "who began with nothing waits for those it was told of", _first_at_once),
        Mutant("former-lives-forgotten", "who starts again misses those whom it knew before", _former_lives_forgotten),
        Mutant("fellows-know", "who lost its disk is as good as missing to others", _fellows_know),
        Mutant("marks-without-outbox", "what is under way holds low marks back", _marks_without_outbox),
        Mutant("late-look", "all look at what is under way at one cut", _late_look),
        Mutant("late-early-cuts", "an early cut that the clock has passed is not reported", _late_early_cuts),
        Mutant("outbox-at-the-end", "what a split turn sent holds low marks back", _outbox_at_the_end),
        Mutant(
            "acknowledged-in-open-turns", "nothing is acknowledged before its turn is over", _acknowledged_in_open_turns
        ),
        Mutant("own-clock-only", "a message stamped after a cut is handled after it", _own_clock_only),
        Mutant("unsteady-marks", "no low mark while copies may lack something", _unsteady_marks),
        Mutant("bookmark-before-answers", "a bookmark follows the answers before it", _bookmark_before_answers),
        Mutant("told-before-copies", "what a standing query answers is told when others have it", _told_before_copies),
        Mutant("no-compare-after-takeover", "what is true no more is taken back", _no_compare_after_takeover),
        Mutant("sure-at-once", "nothing is taken back while what it follows from may be on its way", _sure_at_once),
        Mutant("names-taken-for-new", "a row that comes again has a name of its own", _names_taken_for_new),
        Mutant("told-elsewhere-ignored", "what another replica told is compared with", _told_elsewhere_ignored),
        Mutant("withdrawn-leaf-comes-back", "what a leaf took back stays so", _withdrawn_leaf_comes_back),
        Mutant("leaf-answers-not-kept", "what leaves answered survives a restart", _leaf_answers_not_kept),
        Mutant("bare-contents-not-repaired", "all replicas know what subscribers hold", _bare_contents_not_repaired),
        Mutant("ends-untold", "who holds what another ends hears of it", _ends_untold),
        Mutant("ended-unheard", "a query ends when all who keep it know of nobody who waits", _ended_unheard),
        Mutant("strangers-unheard", "what a peer out of view sent is compared before a low mark", _strangers_unheard),
        Mutant("unknown-withdrawals-refused", "what a replica cannot place yet it keeps", _unknown_withdrawals_refused),
        Mutant("ended-rows-unanswered", "who sends what is over hears of it", _ended_rows_unanswered),
        Mutant("released-under-way", "ended groups are released when no row names a group", _released_under_way),
        Mutant("over-not-in-snapshots", "what was taken back stays known", _over_not_in_snapshots),
        Mutant("islands", "a peer with seeds that has met no member is no cluster, however long it waits", _islands),
        Mutant("clusters-not-compared", "two clusters that meet become one, and all know it", _clusters_not_compared),
        Mutant("stamps-uncorrected", "stamps of the future on the disk move to the past", _stamps_uncorrected),
        Mutant("staged-not-in-snapshots", "a snapshot holds what others are being told", _staged_not_in_snapshots),
    )
}


def _run(name: str, seed: int, configurations: Configurations = "daemon") -> Verdict:
    """Run a mutant on a schedule; a schedule that also fails with the rule proves nothing, and counts as good."""
    verdict = MUTANTS[name].run(seed, configurations)
    if verdict.good or not run_day(MUTANTS[name].days, seed, configurations=configurations).good:
        verdict.problems.clear()
    return verdict


def catch(
    name: str, *, seeds_max: int = SEEDS_MAX, share_seeds: int = 0, jobs: int = 1,
    configurations: Configurations = "daemon",
) -> Caught:  # fmt: skip
    """Run a mutant until it is caught, and on at least ``share_seeds`` seeds to measure how often.

    A schedule catches the mutant if it fails without the rule and passes with it.
    """
    first: int | None = None
    kinds: tuple[str, ...] = ()
    bad = seeds = 0
    for verdict in _verdicts(name, seeds_max, jobs, configurations):
        seeds += 1
        if not verdict.good:
            bad += 1
            if first is None:
                first, kinds = verdict.day.seed, tuple(sorted({problem.kind for problem in verdict.problems}))
        if first is not None and seeds >= share_seeds:
            break
    return Caught(name, first, kinds, bad, seeds)


def _verdicts(name: str, seeds: int, jobs: int, configurations: Configurations) -> Iterator[Verdict]:
    run = partial(_run, name, configurations=configurations)
    if jobs == 1:
        yield from map(run, range(seeds))
        return
    with ProcessPoolExecutor(jobs) as pool:
        try:
            yield from pool.map(run, range(seeds), chunksize=_CHUNK)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def run_mutants(
    names: list[str], *, seeds_max: int, jobs: int, configurations: Configurations = "daemon"
) -> int:
    """Run mutants and print the schedules that catch them, as a table; return 1 if one is not caught."""
    print("| Rule removed | Days | First bad seed | What it broke | Bad seeds |")
    print("|---|---|---|---|---|")
    alive = []
    for name in names:
        share = min(_SHARE_SEEDS, seeds_max)
        caught = catch(name, seeds_max=seeds_max, share_seeds=share, jobs=jobs, configurations=configurations)
        if caught.first is None:
            alive.append(name)
        found = f"{caught.bad} of {caught.seeds}"
        rule = f"{name}: {MUTANTS[name].rule} | {MUTANTS[name].days}"
        first = "none" if caught.first is None else caught.first
        print(f"| {rule} | {first} | {', '.join(caught.kinds)} | {found} |", flush=True)
    print(f"{len(alive)} of {len(names)} mutants live" + (f": {', '.join(alive)}" if alive else ""))
    return 1 if alive else 0
