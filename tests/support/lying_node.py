"""``python -m lying_node ...``: a node with a genuine certificate and one changed part.

The setting ``zone`` names the part: a key of ``LIES``.  The node does all else as nodes do.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from p2prdf.peer.joins.engine import Engine
from p2prdf.peer.network.messenger import Messenger
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.messages import Expulsions, IndexTriples
from p2prdf_node.__main__ import main
from p2prdf_node.accounts import Account, Accounts
from p2prdf_node.permissions import ALL
from p2prdf_node.tls import NodeTls

__all__: list[str] = []

TRUE, FALSE = "<urn:e:alice>", "<urn:evil:mallory>"
CENTURIES = (1_000 * 365 * 86_400 * 1_000) << 16
"""A thousand years, in stamps."""


def lie_about_terms():
    """Send one term in place of another, with the digest of the other."""
    texts_of = TermDictionary.texts

    def texts(self, identifiers):
        return [FALSE if text == TRUE else text for text in texts_of(self, identifiers)]

    TermDictionary.texts = texts


def withhold_solutions():
    """Acknowledge triples and partial results, and send none of their results."""
    Engine.route = lambda *_: None
    Engine._route = lambda *_: None


def let_everybody_do_everything():
    """Ask no client for its identity, and so act for any of them."""

    def open_account(self, _identity, _speaks_for, now):
        return Account("", ALL, self._publisher_key, now)

    Accounts.open = open_account


def invent_solutions():
    """Beside each solution send another one, with another identity and a false term in each column."""
    route_answers = Engine._route_answers

    def route(self, rows):
        route_answers(self, rows)
        false = self._dictionary.intern(FALSE)
        bindings = tuple(column * 0 + false for column in rows.bindings)
        route_answers(self, replace(rows, identity=rows.identity + 1, bindings=bindings))

    Engine._route_answers = route


def accuse_primaries():
    """Audit by results of another identity, which nobody can have: each honest primary seems to withhold them."""
    send_audited = Engine._send_audited
    Engine._send_audited = lambda self, rows, suspect: send_audited(
        self, replace(rows, identity=rows.identity + 1), suspect
    )


def stamp_ahead():
    """Send triples and deletions with stamps a thousand years ahead."""
    send = Messenger.send

    def ahead(self, to, message, tokens=()):
        if isinstance(message, IndexTriples):
            message = replace(message, time=message.time + CENTURIES)
        return send(self, to, message, tokens)

    Messenger.send = ahead


def expel_others():
    """Report to each member that each other one is expelled, whenever something is published."""
    send = Messenger.send

    def report(self, to, message, tokens=()):
        if isinstance(message, IndexTriples):
            victims = [each.key for each in self.cache.contacts() if each.key not in (self.own.key, to.key)]
            make, count = self.columns.column, len(victims)
            stamps = make([self.tick()] * count, "uint64")
            send(self, to, Expulsions(make(victims, "uint64"), stamps, make([1] * count, "uint32")))
        return send(self, to, message, tokens)

    Messenger.send = report


def ignore_revocation():
    """Accept every certificate, its own revoked one too."""
    NodeTls.refusal = lambda *_: None


LIES = {
    "terms": lie_about_terms, "withhold": withhold_solutions, "permissions": let_everybody_do_everything,
    "solutions": invent_solutions, "accuse": accuse_primaries, "stamps": stamp_ahead, "expel": expel_others,
    "revoked": ignore_revocation,
}  # fmt: skip

if __name__ == "__main__":
    LIES[sys.argv[sys.argv.index("--zone") + 1]]()
    sys.exit(main())
