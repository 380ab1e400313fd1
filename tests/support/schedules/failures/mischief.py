"""The failures of one schedule, drawn from the seed, within the bounds that the product promises to survive.

The promise: no acknowledged item is lost by any crashes with kept disks, by any cuts that are healed, and by the loss
of ``copies_min - 1`` disks before the others have restored the copies.  So a disk is lost only while every acknowledged
item is on enough other disks (:mod:`schedules.failures.copies`), and after ``copies_min - 1`` losses only when all
replicas are equal again (:mod:`schedules.failures.replicas`).  Without replication no other peer replaces an absent
one, so views do not change and no disks are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from p2prdf.peer.network.quorum import MISSING_SECONDS
from p2prdf.wire import contract
from schedules.failures.links import SHAPES, Cut, around, draw_cut
from schedules.failures.replicas import difference
from schedules.failures.world import FAILPOINTS

if TYPE_CHECKING:
    from p2prdf.sim.world import Node
    from p2prdf.wire.contract import Outcome
    from schedules.failures.clients import SubscriberClient
    from schedules.failures.copies import Copies
    from schedules.failures.world import FailingWorld

__all__ = ["CLOCK_STEPS_SECONDS", "Mischief"]

CLOCK_STEPS_SECONDS: Final = (120.0, 3600.0, 86_400.0, 30 * 86_400.0, 365 * 86_400.0)
"""Errors of clocks; a clock is wrong by one to two times one of these."""
_BEHIND: Final = 0.4
"""Share of clock steps that go back."""
_FAILPOINT_TIMES_MAX: Final = {"written": 12, "synced": 8, "send": 60, "effect": 80, "view": 3}
_PEERS_MAX: Final = 9
_LONG_SECONDS: Final = MISSING_SECONDS + 5.0
_UNSEEN_SECONDS: Final = 10.0
_POWER_TOO: Final = 0.5
"""Share of permanent failures with a power cut of all other peers."""


class _Leaving:
    """Waits for the handoff of a leaving peer."""

    def __init__(self, world: FailingWorld):
        self._world = world

    def completed(self, node: Node, _: int, outcome: Outcome) -> None:
        assert isinstance(outcome, contract.Left), outcome
        self._world.schedule(0.0, self._world.depart, node, outcome.handed_over)

    def cut_off(self, _: Node) -> None:
        """Handle a crash during the handoff: the peer returns and stays."""


class Mischief:
    """Schedules failures in a world until :meth:`heal`."""

    def __init__(
        self, world: FailingWorld, random: Random, copies: Copies, clients: Sequence[SubscriberClient]
    ):  # fmt: skip
        self._world = world
        self._failures = world.failures
        self._random = random
        self._copies = copies
        self._clients = clients
        self._cuts: list[tuple[Cut, bool]] = []
        self._over = False
        self._losses = 0
        """Number of disks lost since all replicas were equal."""
        world.on_crash = self._bring_back
        self._bringing = True
        self._unseen_until = 0.0
        """End of the absence of a peer that was taken for dead before its crash."""
        self._set_wrong: dict[int, float] = {}
        """Peers with a clock wrong by minutes or more, with their former skew."""
        self._to_be_gone: dict[int, None] = {}
        """Peers that do not return from their next crash, if the others can restore the copies."""
        self._kinds: dict[str, Callable[[], object]] = {
            "crash": self._crash, "failpoint": self._failpoint, "power-cut": self._power_cut,
            "disk-loss": self._disk_loss, "cut": self._cut, "swizzle": self._swizzle, "suspicion": self._suspicion,
            "join": self._join, "leave": self._leave, "clock-step": self._clock_step, "slow-disk": self._slow_disk,
            "compaction": self._compaction, "subscriber-crash": self._subscriber_crash, "rack-cut": self._rack_cut,
            "gone": self._gone, "gone-halfway": self._gone_halfway,
            "disk-loss-and-crash": self._disk_loss_and_crash, "long-absence": self._long_absence,
            "unseen-absence": self._unseen_absence,
            "zone-cut": self._zone_cut, "zone-loss": self._zone_loss,
        }  # fmt: skip

    def plan(self) -> None:
        """Draw failures and their times."""
        failures, random = self._failures, self._random
        kinds = [kind for kind, weight in failures.weights.items() if weight]
        if not kinds:
            return
        count = random.randint(failures.happenings_min, failures.happenings_max)
        for kind in random.choices(kinds, [failures.weights[kind] for kind in kinds], k=count):
            self._world.schedule(random.uniform(0.0, failures.span_seconds), self._happen, kind)

    def heal(self) -> None:
        """Heal all links, start all peers, and stop further failures."""
        self._over = True
        for links, noticed in self._cuts:
            self._world.mend(links, noticed=noticed)
        self._cuts.clear()
        for machine in self._world.machines:
            machine.failpoint = None
            machine.slow_until = 0.0
        for node in list(self._world.members()):
            if node.index in self._set_wrong:
                self._set_clock(node, self._set_wrong.pop(node.index))
            self._world.restart(node)

    def _happen(self, kind: str) -> None:
        if not self._over:
            self._kinds[kind]()

    # --- processes and disks ---------------------------------------------------------------------

    def _victim(self) -> Node | None:
        living = self._world.living()
        return self._random.choice(living) if living else None

    def _crash(self) -> None:
        node = self._victim()
        if node is not None:
            self._world.crash(node)

    def _bring_back(self, node: Node) -> None:
        """Start a crashed peer again some time later."""
        failures, random = self._failures, self._random
        if node.index in self._to_be_gone:
            del self._to_be_gone[node.index]
            if self._lose(node):
                self._go_after(node)
                return
        if self._bringing and not self._over:
            seconds = random.uniform(failures.down_min_seconds, failures.down_max_seconds)
            self._world.schedule(seconds, self._return, node, random.random() < failures.moved_probability)

    def _return(self, node: Node, moved: bool) -> None:
        self._world.restart(node, moved=moved)

    def _failpoint(self) -> None:
        node = self._victim()
        if node is not None:
            where = self._random.choice(FAILPOINTS)
            self._world.arm_failpoint(node, where, self._random.randint(1, _FAILPOINT_TIMES_MAX[where]))

    def _power_cut(self) -> None:
        """End all processes within a short time, and restart them one by one."""
        world, random = self._world, self._random
        spread = random.choice((0.0, self._failures.power_cut_spread_seconds))
        at_once = spread == 0.0
        for node in world.living():
            world.schedule(0.0 if at_once else random.uniform(0.0, spread), self._cut_power, node)

    def _cut_power(self, node: Node) -> None:
        if not self._over:
            self._world.crash(node, "power-cut")

    def _rack_cut(self) -> None:
        """End as many processes at once as there are replicas, if others stay."""
        world = self._world
        living, count = world.living(), world.options.config.replicas
        if len(living) > count:
            for node in self._random.sample(living, count):
                world.crash(node, "rack-cut")

    def _zone(self) -> list[Node]:
        """Return all members of a failure zone, if there are other members."""
        world = self._world
        zone = self._random.randrange(max(1, self._failures.zones))
        found = [node for node in world.members() if world.zone(node) == f"zone {zone}"]
        return found if len(found) < sum(1 for _ in world.members()) else []

    def _zone_cut(self) -> None:
        """End all processes of a failure zone at once."""
        for node in self._zone():
            self._world.crash(node, "zone-cut")

    def _zone_loss(self) -> None:
        """End all processes of a failure zone and lose their disks, if the other zones can restore the copies.

        Every key then has equal copies in other zones, so this counts as one loss.
        """
        world, failures, random = self._world, self._failures, self._random
        zone = self._zone()
        if not (zone and self._copies.spared(*zone) and self._equal()):
            return
        self._bringing = False
        for node in zone:
            world.crash(node, "zone-loss")
            self._copies.losing(node)
            world.machines[node.index].disk.lose()
            seconds = random.uniform(failures.down_min_seconds, failures.down_max_seconds)
            world.schedule(seconds, self._return, node, random.random() < failures.moved_probability)
        self._bringing = True
        self._losses = world.options.config.copies_min - 1

    def _disk_loss(self) -> float | None:
        """Restart a peer with an empty disk, if the others can restore the copies; return seconds until then."""
        world, random = self._world, self._random
        node = self._crash_with_disk()
        if node is None:
            return None
        world.machines[node.index].disk.lose()
        seconds = random.uniform(self._failures.down_min_seconds, self._failures.down_max_seconds)
        world.schedule(seconds, self._return, node, random.random() < self._failures.moved_probability)
        world.happened["disk-loss"] += 1
        world.say(node, "disk lost")
        return seconds

    def _disk_loss_and_crash(self) -> None:
        """Lose a disk, and crash another peer about when the first one returns, before its data is restored."""
        seconds = self._disk_loss()
        if seconds is not None:
            late = self._random.uniform(-0.2, self._failures.meet_max_seconds)
            self._world.schedule(max(0.0, seconds + late), self._happen, "crash")

    def _long_absence(self) -> None:
        """Keep a peer down until no peer waits for it; at its return a disk is lost, and another peer crashes."""
        world, random = self._world, self._random
        node = self._victim()
        if node is not None and all(map(world.alive, world.members())):
            seconds = _LONG_SECONDS + random.uniform(0.0, self._failures.detect_max_seconds)
            self._crash_for(node, seconds)
            late = random.uniform(-1.5, 0.5)
            world.schedule(seconds + late, self._happen, "disk-loss-and-crash")

    def _unseen_absence(self) -> None:
        """Let all peers take a peer for dead ten seconds before it crashes, for the longest absence by its own clock.

        At its return the others do not wait for it any more.  Just before, a disk is lost, and another peer crashes.
        """
        world, random, node = self._world, self._random, self._victim()
        if node is None or world.now < self._unseen_until or not self._made_up():
            return  # two at once would exceed the promise
        for observer in world.living():
            if observer is not node:
                world.views.suspect(observer, node, _UNSEEN_SECONDS + 1.0)
        back = _UNSEEN_SECONDS + random.uniform(0.8, 0.97) * MISSING_SECONDS
        self._unseen_until = world.now + back + self._failures.down_max_seconds
        world.schedule(_UNSEEN_SECONDS, self._crash_for, node, back - _UNSEEN_SECONDS)
        loss = random.uniform(MISSING_SECONDS + 0.5, back)
        world.schedule(loss, self._happen, "disk-loss-and-crash")

    def _crash_for(self, node: Node, seconds: float) -> None:
        """Crash a peer and start it again after some time."""
        if not self._over and self._world.alive(node):
            self._bringing = False
            self._world.crash(node)
            self._bringing = True
            self._world.schedule(seconds, self._return, node, False)

    def _gone(self) -> None:
        """Crash a peer for good, if the others can restore the copies; sometimes with a power cut of all others."""
        world = self._world
        if sum(1 for _ in world.members()) <= max(3, world.options.config.replicas):
            return
        node = self._crash_with_disk()
        if node is not None:
            world.lose(node)
            world.happened["gone"] += 1
            if self._random.random() < _POWER_TOO:
                self._power_cut()

    def _gone_halfway(self) -> None:
        """Let a peer fail for good while it publishes, and soon afterwards a receiver of a part."""
        node, world = self._victim(), self._world
        many = sum(1 for _ in world.members()) > world.options.config.replicas + 1
        ready = not self._to_be_gone and (self._losses == 0 or self._made_up())
        if node is not None and many and ready:
            self._to_be_gone[node.index] = None
            world.arm_failpoint(node, "publish", 2)

    def _go_after(self, gone: Node) -> None:
        """Let the last one that a peer has published to before it was gone be gone soon, too.

        It compares with others before it notices, for it takes one of them for dead for a moment.
        """
        world, random = self._world, self._random
        node = world.by_key.get(world.machines[gone.index].published_to)
        if node is not None:
            other = random.choice([each for each in world.living() if each is not node] or [node])
            world.schedule(0.05, world.views.suspect, node, other, 0.1)
            world.schedule(random.uniform(0.3, self._failures.detect_min_seconds), self._gone_for_good, node)

    def _gone_for_good(self, node: Node) -> None:
        """Crash a peer for good, if the others can make up for it."""
        if self._world.alive(node) and self._may_lose(node):
            self._bringing = False
            self._world.crash(node)
            self._bringing = True
            self._lose(node)

    def _lose(self, node: Node) -> bool:
        """Let a crashed peer be gone for good, if the others can make up for it; return whether they can."""
        if not self._may_lose(node):
            return False
        self._copies.losing(node)
        self._losses += 1
        self._world.lose(node)
        self._world.happened["gone"] += 1
        return True

    def _may_lose(self, node: Node) -> bool:
        few = self._losses >= self._world.options.config.copies_min - 1
        return not self._over and not few and self._copies.spared(node)

    def _crash_with_disk(self) -> Node | None:
        """Crash a peer with a dispensable disk, and start it no more; return it, None if there is none."""
        world = self._world
        if self._losses >= world.options.config.copies_min - 1 and not self._made_up():
            return None
        order = list(world.members())
        self._random.shuffle(order)
        for node in order:
            if self._copies.spared(node):
                self._bringing = False
                world.crash(node)
                self._bringing = True
                self._copies.losing(node)
                self._losses += 1
                return node
        return None

    def _made_up(self) -> bool:
        """Return whether the peers have restored the copies of all lost disks."""
        if self._equal():
            self._losses = 0
        return self._losses == 0

    def _equal(self) -> bool:
        """Return whether all peers are up, with equal replicas."""
        world = self._world
        heard = {(node.peer.roles_heard_of, tuple(sorted(node.peer.words))) for node in world.living()}
        return all(map(world.alive, world.members())) and len(heard) == 1 and difference(world) is None

    def _slow_disk(self) -> None:
        node = self._victim()
        if node is not None:
            failures = self._failures
            seconds = self._random.uniform(failures.slow_disk_min_seconds, failures.slow_disk_max_seconds)
            self._world.machines[node.index].slow_until = self._world.now + seconds
            self._world.happened["slow-disk"] += 1
            self._world.say(node, f"slow disk for {seconds:.3f} s")

    def _compaction(self) -> None:
        node = self._victim()
        if node is not None:
            self._world.compact(node)

    def _clock_step(self) -> None:
        node = self._victim()
        if node is not None:
            most = self._failures.step_seconds_max
            skew_max = self._world.options.faults.skew_seconds_max
            target = node.skew + self._random.uniform(-most, most)
            self._world.step_clock(node, min(max(target, -skew_max), skew_max) - node.skew)

    def plan_clock_steps(self, random: Random) -> None:
        """Draw the number, the peers and the sizes of clock steps, each of which is later corrected."""
        count = random.randint(1, self._failures.clock_steps_max)
        length = self._failures.span_seconds / count
        for number in range(count):
            members = list(self._world.members())
            peers = random.sample(members, min(random.choice((1, 2, len(members))), len(members)))
            step = random.choice(CLOCK_STEPS_SECONDS) * random.uniform(1.0, 2.0)
            if random.random() < _BEHIND:
                step = -step
            for node in peers:
                wrong = (number + random.uniform(0.1, 0.3)) * length
                right = (number + random.uniform(0.6, 0.8)) * length
                self._world.schedule(wrong, self._clock_wrong, node, step, random.uniform(0.05, 1.0))
                self._world.schedule(right, self._clock_right, node, random.uniform(0.05, 1.0))

    def _clock_wrong(self, node: Node, step: float, down: float) -> None:
        """Set a peer's clock wrong while its process is down."""
        if not self._over and node.index not in self._set_wrong:
            self._set_wrong[node.index] = node.skew
            self._set_clock(node, node.skew + step)
            self._world.schedule(down, self._return, node, False)

    def _clock_right(self, node: Node, down: float) -> None:
        if not self._over and node.index in self._set_wrong:
            self._set_clock(node, self._set_wrong.pop(node.index))
            self._world.schedule(down, self._return, node, False)

    def _set_clock(self, node: Node, skew: float) -> None:
        self._bringing = False
        self._world.crash(node)
        self._bringing = True
        self._world.set_clock(node, skew)

    # --- links and views -------------------------------------------------------------------------

    def _cut_duration(self) -> float:
        return self._random.uniform(self._failures.cut_min_seconds, self._failures.cut_max_seconds)

    def _noticed(self) -> bool:
        return self._random.random() >= self._failures.unnoticed_probability

    def _cut(self) -> None:
        members = [node.index for node in self._world.members()]
        if len(members) < 2:
            return
        shape = self._random.choice(SHAPES)
        self._hold(draw_cut(self._random, members, shape), self._cut_duration(), f"cut ({shape})")

    def _hold(self, links: Cut, seconds: float, why: str) -> None:
        if links and not self._over:
            cut = (links, self._noticed())
            self._cuts.append(cut)
            self._world.cut(links, noticed=cut[1], why=why)
            self._world.schedule(seconds, self._mend, cut)

    def _mend(self, cut: tuple[Cut, bool]) -> None:
        if cut in self._cuts:
            self._cuts.remove(cut)
            self._world.mend(cut[0], noticed=cut[1])

    def _swizzle(self) -> None:
        """Cut the links of some peers one by one, and heal them in another order."""
        random = self._random
        members = [node.index for node in self._world.members()]
        if len(members) < 2:
            return
        some = random.sample(members, random.randint(1, len(members)))
        gap = self._failures.swizzle_gap_seconds
        ends = random.sample(range(len(some)), len(some))
        for at, (index, end) in enumerate(zip(some, ends, strict=True)):
            starts = at * gap
            seconds = (len(some) - at) * gap + (end + 1) * gap
            self._world.schedule(starts, self._hold, around(index, members), seconds, "swizzle")

    def _suspicion(self) -> None:
        """Let some peers take a live one for dead for some time."""
        world, random = self._world, self._random
        other = self._victim()
        if other is None:
            return
        world.happened["suspicion"] += 1
        for observer in world.living():
            if observer is not other and random.random() < 0.5:
                world.views.suspect(observer, other, random.uniform(0.1, self._failures.detect_max_seconds))

    # --- membership ------------------------------------------------------------------------------

    def _join(self) -> None:
        if len(self._world.nodes) < _PEERS_MAX and self._world.options.config.replicas > 1:
            self._world.join(self._random.getrandbits(64))

    def _leave(self) -> None:
        """Let a peer leave with a handoff, if enough others stay."""
        world, node = self._world, self._victim()
        members = sum(1 for _ in world.members())
        if node is not None and members > max(3, world.options.config.replicas):
            world.say(node, "is asked to leave")
            world.request(node, contract.Leave, _Leaving(world))

    # --- clients ---------------------------------------------------------------------------------

    def _subscriber_crash(self) -> None:
        present = [client for client in self._clients if not client.absent and client.record.closed_at is None]
        if present:
            failures = self._failures
            away = self._random.uniform(failures.absent_min_seconds, failures.absent_max_seconds)
            self._random.choice(present).crash(away)
