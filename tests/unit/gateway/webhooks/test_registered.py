"""Registrations of webhooks: sealed, read back, refused by name; and the gateway that delivers each."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
import json

import pytest

from p2prdf.errors import DataRefused, LocalProtocolError
from p2prdf.gateway.webhooks.keys import SigningKeys, read_keys, signature
from p2prdf.gateway.webhooks.registration import (
    FAILING,
    GATEWAYS,
    STOPPED,
    Stop,
    WebhookRegistration,
    failing_triple,
    gap_triple,
    read_stop,
    read_webhook,
)
from p2prdf.gateway.webhooks.registry import WebhookRegistry
from p2prdf.rdf import terms

SECRET = base64.b64encode(b"k" * 32).decode()
KEYS = SigningKeys(f"new {SECRET}\nold {base64.b64encode(b'o' * 40).decode()}", source="keys")
ONE = WebhookRegistration(
    "1" * 32, "alice", "orders", "https://hooks.example.org/a", "SELECT * { ?a <urn:p> ?b }", "00000000000000ff", 0,
    100, 1_700_000_000_000, "new",
)  # fmt: skip


def other(**what):
    return dataclasses.replace(ONE, **what)


def test_immediate_webhook_is_written_as_gateways_read_it_that_do_not_know_settled_delivery():
    for made in (ONE, other(settled=True)):
        subject, _, text = made.triple(KEYS)
        assert ("settled" in text) == made.settled
        assert read_webhook(subject, text, KEYS) == made


# --- keys --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "told"), [
    ("", "no key in it"), ("# none\n", "no key in it"), (SECRET, "keys:1: not NAME KEY"),
    (f"a b {SECRET}", "keys:1: not NAME"),
    (f"\nü {SECRET}", "keys:2: not NAME KEY"), ("a !!!", "keys:1: the key is not in base64"),
    (f"a {base64.b64encode(b'k' * 31).decode()}", "at least 32 bytes"),
    (f"a {SECRET}\na {SECRET}", "keys:2: a second key"),
])  # fmt: skip
def test_a_bad_line_of_keys_is_reported_by_its_number_and_not_repeated(tmp_path, text, told):
    path = tmp_path / "keys"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(LocalProtocolError, match=told) as refusal:
        read_keys(path)
    assert SECRET not in str(refusal.value)
    assert SECRET not in repr(KEYS)


def test_secrets_differ_by_webhook_and_by_key_and_are_the_same_everywhere():
    again = SigningKeys(f"# rolled\nold {base64.b64encode(b'o' * 40).decode()}\nnew {SECRET} # first\n", source="keys")
    assert (KEYS.newest, again.newest) == ("new", "old")
    assert again.secret("new", "1" * 32) == KEYS.secret("new", "1" * 32)
    assert len({KEYS.secret(name, webhook) for name in ("new", "old") for webhook in ("1" * 32, "2" * 32)}) == 4
    assert len(base64.b64decode(KEYS.secret("new", "1" * 32).removeprefix("whsec_"), validate=True)) == 32


def test_signatures_are_those_of_standard_webhooks():
    """The example is that of the specification's libraries, worked out by hmac alone."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    made = hmac.new(key, b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330." + body, hashlib.sha256).digest()
    found = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert found == "v1," + base64.b64encode(made).decode()
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


# --- registrations -----------------------------------------------------------------------------------------------


def test_a_registration_is_read_back():
    subject, _, text = ONE.triple(KEYS)
    assert read_webhook(subject, text, KEYS) == ONE
    assert KEYS.secret("new", ONE.identity).removeprefix("whsec_") not in text
    assert SECRET not in text


@pytest.mark.parametrize("changed", [
    {"client": "bob"}, {"url": "https://evil.example.org/"}, {"query": "SELECT * { ?a <urn:q> ?b }"},
    {"subscription": "00000000000000fe"}, {"generation": 1}, {"name": "b"}, {"key": "old"},
])  # fmt: skip
def test_a_registration_without_a_gateways_seal_is_refused(changed):
    """A client that may publish into the graph cannot have alice's readable data posted elsewhere."""
    subject, _, text = ONE.triple(KEYS)
    told = {**json.loads(terms.lexical(text)), **changed}
    with pytest.raises(DataRefused, match="another client wrote it"):
        read_webhook(subject, terms.literal(json.dumps(told)), KEYS)


def test_a_seal_counts_for_its_webhook_alone():
    _, _, text = ONE.triple(KEYS)
    with pytest.raises(DataRefused, match="another client wrote it"):
        read_webhook(other(identity="2" * 32).subject, text, KEYS)


@pytest.mark.parametrize(("subject", "text", "told"), [
    ("<urn:x>", '"{}"', "not the identity"), (ONE.subject, '"{}"', "as this version writes it"),
    (ONE.subject, '"["', "as this version writes it"), (ONE.subject, "<urn:x>", "as this version writes it"),
    (ONE.subject, terms.literal("[" * 100_000), "as this version writes it"),
    (ONE.subject, other(key="new").triple(SigningKeys(f"new {base64.b64encode(b'x' * 32).decode()}", source=""))[2],
     "another client wrote it"),
    (ONE.subject, ONE.triple(KEYS)[2].replace('\\"new\\"', '\\"none\\"'), "'none' is not among this gateway's"),
    (ONE.subject, ONE.triple(KEYS)[2].replace(": 100,", ": true,"), "as this version writes it"),
    (other(batch=0).subject, other(batch=0).triple(KEYS)[2], "batch: 0"),
    (ONE.subject, other(url="ftp://h/").triple(KEYS)[2], "http:// or https://"),
    (ONE.subject, other(url="https://h/" + "a" * 2000).triple(KEYS)[2], "2010 characters"),
])  # fmt: skip
def test_a_bad_registration_is_refused_by_name(subject, text, told):
    with pytest.raises(DataRefused, match=told):
        read_webhook(subject, text, KEYS)


@pytest.mark.parametrize("text", ['"{}"', '"x"', "<urn:x>", '"{\\"ended\\": 1, \\"at\\": true}"'])
def test_a_stop_that_cannot_be_read_is_a_pause(text):
    assert read_stop(text).ended is False


# --- the registry ------------------------------------------------------------------------------------------------


def registry_of(*triples):
    registry = WebhookRegistry(KEYS)
    for each in triples:
        registry.take(each, removed=False)
    return registry


def test_the_last_generation_counts_and_names_the_superseded_ones():
    first, left, right = (other(generation=g, subscription=f"{s:016x}") for g, s in ((0, 9), (1, 2), (1, 3)))
    registry = registry_of(right.triple(KEYS), first.triple(KEYS), left.triple(KEYS), gap_triple(right))
    (found,) = registry.webhooks().values()
    assert (found.registration, found.superseded, found.has_gap) == (right, (first, left), True)
    registry.take(gap_triple(right), removed=True)
    assert [each.has_gap for each in registry.webhooks().values()] == [False]


def test_a_registration_that_comes_while_webhooks_are_read_is_not_missed(monkeypatch):
    """A thread reads them, while the registry takes in more."""
    registry, second = registry_of(ONE.triple(KEYS)), other(identity="2" * 32, name="second")

    def told_more(*_):
        registry.take(second.triple(KEYS), removed=False)
        return "it is not read yet"

    with monkeypatch.context() as patched:
        patched.setattr(registry, "_registration", told_more)
        assert registry.webhooks() == {}
    registry._read.clear()
    assert sorted(registry.webhooks()) == ["1" * 32, "2" * 32]


def test_of_a_clients_webhooks_of_one_name_the_first_counts():
    late, early = other(identity="0" * 32, created=2), other(identity="3" * 32, created=1)
    elsewhere = other(identity="4" * 32, client="bob", created=3)
    registry = registry_of(*(each.triple(KEYS) for each in (late, early, elsewhere)))
    assert {each.registration.identity[0]: each.shadowed for each in registry.webhooks().values()} == {
        "3": False, "0": True, "4": False,
    }  # fmt: skip
    own = registry.share(GATEWAYS.subject(1), ["hooks.example.org"])
    assert sorted(own) == ["3" * 32, "4" * 32]
    registry.take(early.triple(KEYS), removed=True)
    assert sorted(registry.share(GATEWAYS.subject(1), ["hooks.example.org"])) == ["0" * 32, "4" * 32]


def test_reports_about_a_webhook_belong_to_it_and_bad_registrations_are_kept_apart():
    stop, ended = Stop(False, "asked for", 5.0).triple(ONE.subject), Stop(True, "410", 4.0).triple(ONE.subject)
    failing = failing_triple(ONE.subject, 3.0, "it answers 500")
    wrong = (other(identity="5" * 32).subject, ONE.triple(KEYS)[1], '"{}"')
    registry = registry_of(stop, ONE.triple(KEYS), failing, wrong)
    (found,) = registry.webhooks().values()
    assert (found.stop, found.failing) == (Stop(False, "asked for", 5.0), (3.0, "it answers 500"))
    assert {each[1] for each in found.triples} == {ONE.triple(KEYS)[1], STOPPED, FAILING}
    assert list(registry.refused) == [wrong[0]]
    assert registry.said_of([ONE.subject, "<urn:x>"]) == [ONE.triple(KEYS), stop, failing]
    assert registry.said_of([wrong[0]]) == [wrong]
    registry.take(ended, removed=False)
    assert [each.stop for each in registry.webhooks().values()] == [Stop(True, "410", 4.0)], "an end is one"


def test_each_webhook_is_delivered_by_one_gateway_that_allows_its_host():
    webhooks = [other(identity=f"{n:032x}", name=f"n{n}") for n in range(200)]
    registry = registry_of(*(each.triple(KEYS) for each in webhooks))
    said = {1: ["hooks.example.org"], 2: ["hooks.example.org:443"], 3: ["hooks.example.org:8443", "other.example.org"]}
    for number, hosts in said.items():
        sign = (GATEWAYS.subject(number), GATEWAYS.predicate, terms.literal(json.dumps({"hosts": hosts})))
        registry.take(sign, removed=False)
    shares = {number: set(registry.share(GATEWAYS.subject(number), hosts)) for number, hosts in said.items()}
    assert not shares[3]
    assert not shares[1] & shares[2]
    assert len(shares[1] | shares[2]) == 200
    assert min(len(shares[1]), len(shares[2])) > 60
    registry.membership.expired.add(GATEWAYS.subject(1))
    moved = set(registry.share(GATEWAYS.subject(2), said[2]))
    assert moved == shares[1] | shares[2]
