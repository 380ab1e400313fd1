"""A peer's part of an export: it sorts rows in pieces, one a turn, and answers afterwards."""

from __future__ import annotations

import pytest
from store_tables import new_tables

from p2prdf import hlc, keys
from p2prdf.columns import ARRAYS
from p2prdf.peer import PeerConfig
from p2prdf.peer.entry import exports
from p2prdf.peer.joins import kept_exports
from p2prdf.peer.joins.kept_exports import LAST_PLACE, KeptExports
from p2prdf.peer.network.messenger import Messenger
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.contract import OwnersFound, Send
from p2prdf.wire.limits import TERM_BYTES_MAX
from p2prdf.wire.messages import (
    ClientExportPage,
    Contact,
    DropExport,
    Envelope,
    ExportKept,
    ExportPart,
    KeepExport,
    ReadExport,
)

OWN, OTHER = Contact(1 << 60, "own", 1), Contact(2 << 60, "other", 1)
NOW = 1_000_000.0
STAMP = hlc.floor(hlc.from_seconds(NOW + 1))
EXPORT = 7


class Member:
    """The exports of one peer, which holds some statements."""

    def __init__(self, statements, text="<urn:o>"):
        messenger = self.messenger = Messenger(OWN, PeerConfig(replicas=1, copies_min=1), ARRAYS)
        messenger.observe(NOW)
        messenger.owners_found(OwnersFound(0, (OWN,), complete=True))
        tables, dictionary = new_tables("columnar")
        p, o = (dictionary.intern_all([each] * statements) for each in ("<urn:p>", text))
        s = dictionary.intern_all([f"<urn:{n}>" for n in range(statements)])
        bits = [keys.role_bit(keys.SPO, per_event=False)] * statements
        tables.add_triples(s, p, o, [1] * statements, [0] * statements, bits)
        self.exports = KeptExports(messenger, tables, dictionary)
        self.receive(KeepExport(EXPORT, STAMP, 0, (OWN,), ("",)))
        assert self.sent() == [ExportKept(EXPORT, "")]

    def receive(self, message):
        self.exports.handlers()[type(message)](OTHER, message)

    def ask(self, after=0, most=1000):
        self.receive(ReadExport(1, EXPORT, after, most, ARRAYS.column([], "uint32")))

    def sent(self):
        effects, self.messenger.effects = self.messenger.effects, []
        return [each.envelope.message for each in effects if isinstance(each, Send)]

    def finish(self):
        while self.exports.deadline == NOW:
            self.exports.wake()


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(kept_exports, "PIECE_ROWS", 10)


@pytest.mark.usefixtures("small_pieces")
def test_a_question_waits_while_each_turn_sorts_one_piece():
    member = Member(45)
    member.ask()
    for _ in range(5):
        assert member.exports.deadline == NOW
        member.exports.wake()
        assert member.sent() == []
    assert member.exports.deadline == NOW
    member.exports.wake()
    [part] = member.sent()
    assert isinstance(part, ExportPart)
    assert part.last_place == LAST_PLACE
    assert sorted(part.lines) == sorted(f"<urn:{n}> <urn:p> <urn:o> ." for n in range(45))
    assert part.places.tolist() == sorted(part.places.tolist())
    assert member.exports.deadline > NOW


@pytest.mark.usefixtures("small_pieces")
def test_each_turn_answers_one_of_the_latest_questions_that_waited(monkeypatch):
    monkeypatch.setattr(kept_exports, "WAITING_MAX", 3)
    member = Member(5)
    for most in range(1, 6):
        member.ask(most=most)
    member.exports.wake()
    assert member.sent() == []
    member.exports.wake()
    assert [len(each.lines) for each in member.sent()] == [3]
    member.finish()
    assert [len(each.lines) for each in member.sent()] == [4, 5]


@pytest.mark.usefixtures("small_pieces")
def test_a_question_about_an_export_that_ends_meanwhile_is_answered():
    member = Member(45)
    member.ask()
    member.receive(DropExport(EXPORT))
    member.finish()
    [part] = member.sent()
    assert not part.known


@pytest.mark.parametrize("most", [0, 1, 7])
def test_questions_for_few_lines_get_all_lines_one_after_the_other(most):
    member = Member(20)
    member.finish()
    after, lines = 0, []
    while after < LAST_PLACE:
        member.ask(after, most)
        [part] = member.sent()
        assert len(part.lines) <= max(1, most)
        after = part.last_place
        lines += part.lines
    assert len(lines) == len(set(lines)) == 20


def test_a_page_of_the_longest_characters_fits_a_frame():
    member = Member(4000, text='"' + "\U0001f600" * 1000 + '"')
    member.finish()
    member.ask(most=8192)
    [part] = member.sent()
    assert 0 < len(part.lines) < 4000
    codec = FrameCodec(TermDictionary())
    codec.encode([Envelope(1, 1, part)])
    page = exports.merged([part, part, part])
    assert 0 < len(page.lines) < 3 * len(part.lines)
    codec.encode([ClientExportPage(1, page.upto, page.lines)])


def test_a_line_that_is_longer_than_the_strings_of_a_message_is_refused():
    member = Member(1, text='"' + "x" * (TERM_BYTES_MAX - 10) + '"')
    member.finish()
    member.ask()
    [part] = member.sent()
    assert (part.known, part.lines) == (True, ())
    assert f"more than {TERM_BYTES_MAX} bytes: <urn:0> <urn:p>" in part.refusal
