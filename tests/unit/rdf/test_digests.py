"""A term with the digest of another term is refused, and costs the receiver nothing permanent."""

from __future__ import annotations

import pytest

from p2prdf.errors import FalseDigest, RemoteProtocolError
from p2prdf.rdf import dictionary
from p2prdf.rdf.dictionary import TermDictionary, digests_of
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.messages import Contact, Envelope, RatesRequest

TRUE, FALSE = "<urn:e:alice>", "<urn:evil:mallory>"


@pytest.mark.parametrize("before", [0, 5, 9000])
def test_new_term_with_digest_of_another_term_is_refused(before):
    terms = TermDictionary()
    texts = [f"<urn:n:{number}>" for number in range(before)] + [FALSE]
    with pytest.raises(FalseDigest, match="urn:evil:mallory") as refused:
        terms.take(texts, digests_of([*texts[:-1], TRUE]))
    assert refused.value.texts == (FALSE,)
    assert terms.find(FALSE) is None
    assert terms.find(TRUE) is None
    assert terms.text(terms.intern(TRUE)) == TRUE


@pytest.mark.parametrize("half", [0, 8])
def test_one_wrong_half_of_a_digest_is_enough(half):
    digest = bytearray(digests_of([TRUE]))
    digest[half] ^= 1
    with pytest.raises(FalseDigest):
        TermDictionary().take([TRUE], bytes(digest))


def test_all_false_terms_of_a_frame_are_named():
    texts = ["<urn:1>", "<urn:2>", "<urn:3>"]
    with pytest.raises(FalseDigest) as refused:
        TermDictionary().take(texts, digests_of(["<urn:2>", "<urn:2>", "<urn:1>"]))
    assert refused.value.texts == ("<urn:1>", "<urn:3>")


def test_digests_of_known_terms_are_not_computed_again(monkeypatch):
    terms, texts = TermDictionary(), [f"<urn:n:{number}>" for number in range(1000)]
    digests = digests_of(texts)
    computed = []
    monkeypatch.setattr(dictionary, "digests_of", lambda part: computed.extend(part) or digests_of(part))
    terms.take(texts, digests)
    assert computed == texts
    terms.take(texts, digests)
    terms.take([*texts, "<urn:new>"], digests + digests_of(["<urn:new>"]))
    assert computed == [*texts, "<urn:new>"]


def test_known_term_is_recognised_by_its_digest_with_any_text():
    terms = TermDictionary()
    known = terms.intern(TRUE)
    assert terms.take([FALSE], digests_of([TRUE])).tolist() == [known]
    assert terms.text(known) == TRUE


def test_frame_of_a_peer_with_a_false_digest_is_a_typed_refusal():
    sender, receiver = TermDictionary(), TermDictionary()
    liar = FrameCodec(sender)
    term = sender.intern(TRUE)
    sender._texts[term] = FALSE
    body = liar.encode([Envelope(1, 0, RatesRequest(1, _contact(), [0], [1], [term], [term], [term]))])[4:]
    with pytest.raises(FalseDigest) as refused:
        FrameCodec(receiver).decode(body, trusted=True)
    assert isinstance(refused.value, RemoteProtocolError)
    assert refused.value.code == "false-digest"
    assert len(receiver) == 0
    FrameCodec(receiver).decode(body)  # without trust its digests do not count
    assert receiver.find(FALSE) is not None


def _contact():
    return Contact(1, "127.0.0.1", 1)
