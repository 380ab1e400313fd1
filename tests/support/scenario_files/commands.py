"""The commands of scenario files.

Nodes are n0, n1, ...; terms are ``:name``, ``"text"``, integers or N-Triples, and queries may use the prefix ``:``.
"""

from __future__ import annotations

import re
import traceback
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.errors import P2PRDFError
from p2prdf.hlc import GONE, plain
from p2prdf.peer import PeerConfig
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.query import parse_query
from p2prdf.sim.oracle import Oracle, Publication
from p2prdf.wire import contract
from p2prdf.wire.fields import NUMBERS
from p2prdf.wire.messages import WITHDRAWN, IndexTriples
from scenario_files.cluster import Cluster
from scenario_files.readable import BASE, full, short
from scenario_files.script import Command, ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from p2prdf.sim.world import Node
    from p2prdf.wire.contract import Completed, Effect, Ended, Notify

__all__ = ["Scenario"]

_TERM: Final = re.compile(r'"(?:[^"\\]|\\.)*"(?:@[\w-]+|\^\^<[^>]*>)?|<[^>]*>|\S+')
_OTHER_INDEX: Final = re.compile(r"\((?:triples|events) by (\w+)[;)]|\[([A-Z *]+)\]")
_NODES_MAX: Final = 16
_SETTLE_SECONDS: Final = 30.0
"""Virtual time in which nodes that start compare their data."""


class _Wrong(Exception):
    """A command is wrong; the scenario adds the file and the line."""


@dataclass(slots=True, eq=False)
class _Subscription:
    """A subscriber: its query, the solutions that it holds, and those that it has not acknowledged."""

    name: str
    query: str
    since: int
    node: int
    acknowledges: bool = True
    number: int | None = None
    solutions: dict[int, tuple[str, ...]] = field(default_factory=dict)
    delivered: set[int] = field(default_factory=set)
    pending: dict[int, None] = field(default_factory=dict)
    """Identities that are not acknowledged yet, in order of delivery."""


@dataclass(slots=True, eq=False)
class _Publication:
    """A request to publish or delete triples, and its stamp once it is acknowledged."""

    name: str
    triples: tuple[tuple[str, str, str], ...]
    removed: bool
    stamp: int | None = None


def _name(words: list[str], missing: str) -> str:
    if not words:
        raise _Wrong(f"{missing} is missing")
    return words.pop(0)


class Scenario:
    """Executes the commands of one file on one cluster."""

    def __init__(self, path: Path):
        self._path = path
        self._cluster: Cluster | None = None
        self._lines: list[str] = []
        self._requests: dict[int, tuple[str, Any]] = {}
        self._publications: list[_Publication] = []
        self._subscriptions: dict[str, _Subscription] = {}
        self._events: dict[int, int] = {}
        self._hidden: set[str] = set()
        self._only: set[str] | None = None
        self._between: frozenset[str] = frozenset()
        self._index = ""
        self._after = 0

    def run(self, command: Command) -> list[str]:
        """Execute a command and return the lines that it prints; raises ScenarioError if the line is wrong."""
        word, _, rest = command.text.partition(" ")
        act: Callable[[str], None] | None = getattr(self, f"do_{word.replace('-', '_')}", None)
        if act is None:
            known = ", ".join(each[3:].replace("_", "-") for each in dir(self) if each.startswith("do_"))
            raise ScenarioError(self._path, command.line, f"there is no command {word!r}; the commands are {known}")
        self._lines = []
        try:
            act(rest.strip())
        except (_Wrong, P2PRDFError) as error:
            raise ScenarioError(self._path, command.line, f"{word}: {error}") from error
        except Exception as error:
            at = "".join(traceback.format_exception(error)[-3:])
            raise ScenarioError(self._path, command.line, f"{word} failed\n{at}") from error
        return self._lines

    # --- nodes -----------------------------------------------------------------------------------

    def do_nodes(self, rest: str) -> None:
        """nodes COUNT [SETTING=NUMBER ...]: start so many nodes, and let them compare their data."""
        words = rest.split()
        count = self._number(_name(words, "the number of nodes"), 1, _NODES_MAX)
        if self._cluster is not None:
            raise _Wrong("the nodes of this file are started already")
        config = dict(self._setting(word) for word in words)
        shown, self._only = self._only, set()
        self._cluster = Cluster(
            count, print_line=self._traced, shows=self._shows, on_effect=self._on_effect, **config
        )
        self._cluster.run_for(_SETTLE_SECONDS)
        self._only = shown
        places = ", ".join(f"{node.contact.host} at {node.contact.key >> 60:x}..." for node in self._cluster.nodes)
        self._say(places)

    def do_join(self, rest: str) -> None:
        """join: start one more node; all others learn of it."""
        self._nothing(rest)
        node = self._world.join()
        self._say(f"{node.contact.host} joins at {node.contact.key >> 60:x}...")

    def do_leave(self, rest: str) -> None:
        """leave NODE: ask a node to leave; ``deliver`` lets it hand over its data and end."""
        node = self._node(rest)
        number = self._request(("leave", node))
        self._world.submit(node, contract.Leave(number))

    def do_crash(self, rest: str) -> None:
        """crash NODE [losing-messages]: end its process, and lose its messages in flight; ``lost`` reports it."""
        words = rest.split()
        node = self._node(_name(words, "the node"))
        if words not in ([], ["losing-messages"]):
            raise _Wrong(f"{' '.join(words)!r} is not losing-messages")
        self._world.crash(node, messages_lost=bool(words))

    def do_lost(self, rest: str) -> None:
        """lost NODE: the failure detectors of all others report a crashed node."""
        node = self._node(rest, alive=False)
        self._world.tell_lost(node)

    def do_restart(self, rest: str) -> None:
        """restart NODE [without-disk]: start its process again; all others learn of it."""
        words = rest.split()
        node = self._node(_name(words, "the node"), alive=False)
        if words not in ([], ["without-disk"]):
            raise _Wrong(f"{' '.join(words)!r} is not without-disk")
        records = self._world.restart(node, disk_lost=bool(words))
        self._say(f"{node.contact.host} restarts with {'its disk' if records else 'an empty disk'}")

    def do_cut(self, rest: str) -> None:
        """cut NODE: its links carry nothing, and nobody notices."""
        self._world.machines[self._node(rest).index].cut = True

    def do_heal(self, rest: str) -> None:
        """heal NODE: its links carry messages again."""
        self._world.machines[self._node(rest).index].cut = False

    # --- time and trace --------------------------------------------------------------------------

    def do_deliver(self, rest: str) -> None:
        """deliver [until MESSAGE]: deliver messages until none is in flight, or until one of that type is sent."""
        words = rest.split()
        if not words:
            self._world.deliver()
            return
        if len(words) != 2 or words[0] != "until":
            raise _Wrong("write deliver, or deliver until MESSAGE")
        self._known(words[1:])
        sent, begin = self._world.sent, len(self._world.sent)
        if not self._world.deliver(lambda: words[1] in sent[begin:]):
            raise _Wrong(f"no {words[1]} is sent; sent were {', '.join(sorted(set(sent[begin:]))) or 'none'}")

    def do_advance(self, rest: str) -> None:
        """advance SECONDSs: let so much virtual time pass."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)s", rest)
        if found is None:
            raise _Wrong(f"{rest!r} is not a time such as 5s")
        self._world.run_for(float(found[1]))

    def do_trace(self, rest: str) -> None:
        """trace all | off | only MESSAGE ... | hide MESSAGE ... [between NODE NODE] [index NAME]: choose messages.

        ``between``: only messages between two nodes.  ``index``: of messages about items of one index or another, only
        those about this one.
        """
        words = rest.split()
        word = _name(words, "all, off, only or hide")
        self._hidden, self._only, self._between, self._index = set(), None, frozenset(), ""
        if "index" in words[-2:-1]:
            self._index = words.pop().upper()
            words.pop()
        if "between" in words[-3:-2]:
            self._between = frozenset(words[-2:])
            del words[-3:]
            if not all(re.fullmatch(r"n\d+", each) for each in self._between):
                raise _Wrong("write between and two nodes, such as between n0 n2")
        match word:
            case "all":
                self._nothing(" ".join(words))
            case "off":
                self._nothing(" ".join(words))
                self._only = set()
            case "only":
                self._only = self._known(words)
            case "hide":
                self._hidden = self._known(words)
            case _:
                raise _Wrong(f"{word!r} is not all, off, only or hide")

    # --- clients ---------------------------------------------------------------------------------

    def do_publish(self, rest: str) -> None:
        """publish NODE TRIPLE [. TRIPLE ...]: a client of the node publishes triples."""
        self._publish(rest, removed=False)

    def do_delete(self, rest: str) -> None:
        """delete NODE TRIPLE [. TRIPLE ...]: a client of the node deletes triples."""
        self._publish(rest, removed=True)

    def do_subscribe(self, rest: str) -> None:
        """subscribe NODE NAME [everything] [unacknowledged] [lease=SECONDS] QUERY: leave a standing query.

        ``everything``: triples published before count, too.  ``unacknowledged``: the subscriber acknowledges
        solutions when the script says so.
        """
        words = rest.split()
        node, name = self._node(_name(words, "the node")), _name(words, "the name of the subscription")
        if name in self._subscriptions:
            raise _Wrong(f"there is a subscription {name} already")
        since, acknowledges, lease = 0, True, 86_400.0
        while words and (words[0] in ("everything", "unacknowledged") or words[0].startswith("lease=")):
            match words.pop(0):
                case "everything":
                    since = 1
                case "unacknowledged":
                    acknowledges = False
                case word:
                    lease = self._number(word.removeprefix("lease="), 1, 86_400)
        text = f"PREFIX : <{BASE}> {' '.join(words)}"
        subscription = _Subscription(name, text, since, node.index, acknowledges)
        self._subscriptions[name] = subscription
        number = self._request(("subscribe", subscription))
        standing = parse_query(text)
        conjunctive = standing.conjunctive
        query = standing if conjunctive is None or conjunctive.distinct else conjunctive
        request = contract.Subscribe(number, query, Algorithm.CSBV, lease_seconds=float(lease), since=since)
        self._world.submit(node, request)

    def do_acknowledge(self, rest: str) -> None:
        """acknowledge NAME: the subscriber acknowledges every solution that it was delivered."""
        self._acknowledge(self._subscription(rest), explicit=True)

    def do_detach(self, rest: str) -> None:
        """detach NAME: the subscriber disconnects; the subscription lives on for its lease."""
        subscription = self._subscription(rest)
        self._world.submit(self._world.nodes[subscription.node], contract.Detach(self._live(subscription)))

    def do_attach(self, rest: str) -> None:
        """attach NODE NAME: the subscriber resumes its subscription at a node, with the solutions that it holds."""
        words = rest.split()
        node = self._node(_name(words, "the node"))
        subscription = self._subscription(_name(words, "the name of the subscription"))
        subscription.node = node.index
        number = self._request(("attach", subscription))
        done = sorted(subscription.delivered - subscription.pending.keys())
        have = node.columns.column(done)
        self._world.submit(node, contract.Attach(number, self._live(subscription), have))

    def do_unsubscribe(self, rest: str) -> None:
        """unsubscribe NAME: the subscriber ends its subscription."""
        subscription = self._subscription(rest)
        number = self._request(("unsubscribe", subscription))
        node = self._world.nodes[subscription.node]
        self._world.submit(node, contract.Unsubscribe(number, self._live(subscription)))

    # --- looking ---------------------------------------------------------------------------------

    def do_solutions(self, rest: str) -> None:
        """solutions NAME: the solutions that the subscriber holds, compared with those that the log gives."""
        subscription = self._subscription(rest)
        held = Counter(subscription.solutions.values())
        for row in sorted(held.elements()):
            self._say(" ".join(row))
        owed = self._owed(subscription)
        self._say(f"{held.total()} held, as owed" if held == owed else f"{held.total()} held, OWED ARE {dict(owed)}")

    def do_copies(self, rest: str) -> None:
        """copies TRIPLE: the nodes that hold the triple in their snapshot, and its indexes there."""
        ((s, p, o),) = self._triples(rest)
        found = False
        for node in self._world.living():
            bits = 0
            deleted = False
            for message in self._world.held(node):
                if isinstance(message, IndexTriples):
                    texts = [node.dictionary.texts(as_list(each)) for each in (message.s, message.p, message.o)]
                    for at, triple in enumerate(zip(*texts, strict=True)):
                        if triple == (s, p, o):
                            bits |= int(message.roles[at])
                            deleted = deleted or int(message.time[at]) >= GONE
            if bits:
                found = True
                self._say(f"{node.contact.host}{' deleted' if deleted else ''} {_indexes(bits)}")
        if not found:
            self._say("no copy")

    def do_status(self, rest: str) -> None:
        """status NODE KEY ...: values of the node's status."""
        words = rest.split()
        node = self._node(_name(words, "the node"))
        status = node.peer.status()
        for key in words:
            if key not in status:
                raise _Wrong(f"status has no key {key!r}; its keys are {', '.join(sorted(status))}")
        self._say(" ".join(f"{key}={_plain(status[key])}" for key in words))

    # --- inside ----------------------------------------------------------------------------------

    @property
    def _world(self) -> Cluster:
        if self._cluster is None:
            raise _Wrong("start nodes first, by the command nodes")
        return self._cluster

    def _say(self, line: str) -> None:
        self._lines.append(line.rstrip())

    def _shows(self, name: str, sender: str, receiver: str) -> bool:
        if self._between and self._between != {sender, receiver}:
            return False
        return name not in self._hidden if self._only is None else name in self._only

    def _traced(self, line: str) -> None:
        """Print a line of the trace, unless it is about another index than the one that is wanted."""
        found = _OTHER_INDEX.search(line) if self._index else None
        if found is None or self._index in re.split(r"[ *]+", found[1] or found[2]):
            self._say(line)

    @staticmethod
    def _known(names: list[str]) -> set[str]:
        """Return names of messages; a message that was renamed must not vanish from a trace unnoticed."""
        declared = {each.__name__ for each in NUMBERS}
        for name in names:
            if name not in declared:
                raise _Wrong(f"there is no message {name!r} in p2prdf.wire.messages")
        return set(names)

    @staticmethod
    def _nothing(rest: str) -> None:
        if rest:
            raise _Wrong(f"unexpected {rest!r}")

    @staticmethod
    def _number(text: str, least: int, most: int) -> int:
        if not text.isdigit() or not least <= int(text) <= most:
            raise _Wrong(f"{text!r} is not a number from {least} to {most}")
        return int(text)

    @staticmethod
    def _setting(word: str) -> tuple[str, int]:
        name, _, value = word.partition("=")
        if name not in PeerConfig.__dataclass_fields__ or not value.isdigit():
            raise _Wrong(f"{word!r} is not a setting of a peer with a number, such as copies_min=2")
        return name, int(value)

    def _node(self, name: str, *, alive: bool = True) -> Node:
        for node in self._world.nodes:
            if node.contact.host == name:
                machine = self._world.machines[node.index]
                if machine.alive is not alive:
                    raise _Wrong(f"{name} is {'down' if alive else 'up'}")
                return node
        raise _Wrong(f"there is no node {name!r}")

    def _subscription(self, name: str) -> _Subscription:
        if name not in self._subscriptions:
            raise _Wrong(f"there is no subscription {name!r}")
        return self._subscriptions[name]

    @staticmethod
    def _live(subscription: _Subscription) -> int:
        if subscription.number is None:
            raise _Wrong(f"{subscription.name} is not live yet: deliver first")
        return subscription.number

    @staticmethod
    def _triples(text: str) -> tuple[tuple[str, str, str], ...]:
        tokens = _TERM.findall(text)
        if tokens and tokens[-1] == ".":
            tokens.pop()
        triples = []
        while tokens:
            taken, tokens = tokens[:3], tokens[3:]
            if len(taken) < 3 or "." in taken or (tokens and tokens.pop(0) != "."):
                raise _Wrong(f"{text!r} is not a list of triples, such as :a :p :b . :b :p :c")
            triples.append((full(taken[0]), full(taken[1]), full(taken[2])))
        if not triples:
            raise _Wrong("a triple is missing")
        return tuple(triples)

    def _request(self, purpose: tuple[str, Any]) -> int:
        number = len(self._requests) + 1
        self._requests[number] = purpose
        return number

    def _publish(self, rest: str, *, removed: bool) -> None:
        name, _, text = rest.partition(" ")
        node, triples = self._node(name), self._triples(text)
        kind = "delete" if removed else "publish"
        publication = _Publication(f"{kind} {' '.join(map(short, triples[0]))}", triples, removed)
        self._publications.append(publication)
        number = self._request(("publish", publication))
        intern, make = node.dictionary.intern_all, node.columns.column
        columns = [make(intern(each), "uint32") for each in zip(*triples, strict=True)]
        first = self._events.get(node.index, 0)
        self._events[node.index] = first + len(triples)
        request = contract.Publish(number, node.publisher, first, *columns, removed=removed, after=self._after)
        self._world.submit(node, request)

    def _acknowledge(self, subscription: _Subscription, *, explicit: bool = False) -> None:
        identities, subscription.pending = list(subscription.pending), {}
        node = self._world.nodes[subscription.node]
        if identities and self._world.machines[node.index].alive:
            number = self._request(("acknowledge" if explicit else "acknowledge silently", subscription))
            column = node.columns.column(identities)
            self._world.submit(node, contract.AcknowledgeAnswers(number, self._live(subscription), column))

    # --- effects for clients ----------------------------------------------------------------------

    def _on_effect(self, node: Node, effect: Effect) -> None:
        match effect:
            case contract.Completed():
                self._completed(node, effect)
            case contract.Notify():
                self._notified(node, effect)
            case contract.Ended():
                self._ended(node, effect)

    def _completed(self, node: Node, effect: Completed) -> None:
        purpose, subject = self._requests[effect.request]
        at = node.contact.host
        match effect.outcome:
            case contract.Failed(code, text):
                self._say(f"{at}: {purpose} failed: {code}: {text}")
            case contract.Published(time):
                subject.stamp = time
                self._after = max(self._after, time)
                self._say(f"{at}: acknowledged {subject.name}")
            case contract.Subscribed(number, since):
                subject.number, subject.since = number, since
                self._say(f"{at}: {subject.name} is live as {self._world.readable.name('sub', number)}")
            case contract.Attached():
                self._say(f"{at}: {subject.name} is attached")
            case contract.Unsubscribed():
                self._say(f"{at}: {subject.name} is ended")
            case contract.Settled():
                if purpose == "acknowledge":
                    self._say(f"{at}: solutions of {subject.name} are acknowledged at all replicas")
            case contract.Left(handed_over):
                self._say(f"{at}: {'has handed over all data' if handed_over else 'could not hand over all data'}")
                self._world.schedule(0.0, self._end, node)

    def _end(self, node: Node) -> None:
        """End the process of a node that has left, and tell the others."""
        self._world.crash(node)
        self._world.machines[node.index].left = True
        self._world.tell_lost(node)

    def _notified(self, node: Node, notify: Notify) -> None:
        subscription = self._by_number(notify.subscription)
        columns = [list(map(short, node.dictionary.texts(as_list(each)))) for each in notify.bindings]
        for place, (identity, born) in enumerate(zip(as_list(notify.identity), as_list(notify.born), strict=True)):
            row = tuple(column[place] for column in columns)
            subscription.pending[identity] = None
            again = " again" if identity in subscription.delivered else ""
            subscription.delivered.add(identity)
            if born >= GONE:
                subscription.solutions.pop(identity ^ WITHDRAWN, None)
            elif identity ^ WITHDRAWN not in subscription.delivered:
                subscription.solutions[identity] = row
            sign = "-" if born >= GONE else "+"
            said = self._world.readable.name("#", identity & ~WITHDRAWN)
            self._say(f"{node.contact.host}: {subscription.name} {sign} {' '.join(row)} ({said}){again}")
        if notify.lost:
            self._say(f"{node.contact.host}: {subscription.name} lost {notify.lost} solutions")
        if subscription.acknowledges:
            self._world.schedule(0.0, self._acknowledge, subscription)

    def _by_number(self, number: int) -> _Subscription:
        return next(each for each in self._subscriptions.values() if each.number == number)

    def _ended(self, node: Node, effect: Ended) -> None:
        subscription = self._by_number(effect.subscription)
        if subscription.node == node.index:
            self._say(f"{node.contact.host}: {subscription.name} gets no more here: {effect.code}")

    # --- the oracle ------------------------------------------------------------------------------

    def _owed(self, subscription: _Subscription) -> Counter[tuple[str, ...]]:
        """Return the solutions over the triples that are published, acknowledged and not deleted since."""
        alive: dict[tuple[str, str, str], int] = {}
        acknowledged = [each for each in self._publications if each.stamp is not None]
        for publication in sorted(acknowledged, key=lambda each: plain(each.stamp or 0)):
            for triple in publication.triples:
                if publication.removed:
                    alive.pop(triple, None)
                else:
                    alive[triple] = publication.stamp or 0
        log = [Publication(stamp, event, triple) for event, (triple, stamp) in enumerate(alive.items())]
        standing = parse_query(subscription.query)
        found = Oracle(log).answers(standing.leaves[0], subscription.since)
        return Counter({tuple(map(short, row)): count for row, count in found.items()})


def _indexes(bits: int) -> str:
    return " ".join(keys.ROLE_NAMES[role].upper() for role in keys.ROLES if bits >> role & 1)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
