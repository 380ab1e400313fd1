"""An authority in a folder: issued certificates, their subjects, and revocations."""

from __future__ import annotations

import json
import stat

import pytest
from tls_files import Certificates

from p2prdf.errors import LocalProtocolError, TlsRefused
from p2prdf.keys import even_key
from p2prdf.tls import Tls, context_of, identity_in, node_in, read_identity
from p2prdf_node import certificates as c
from p2prdf_node.authority import AuthorityFolder
from p2prdf_node.config import NodeConfig
from p2prdf_node.tls import NodeTls


@pytest.fixture
def made(tmp_path):
    return Certificates(tmp_path)


def identity(folder):
    return c.identity_of(c.read_certificate(folder / "tls.crt"))


def revoked(made):
    return c.read_revoked(made.crl, c.read_authorities(made.authority.folder / "ca.crt"))


def test_a_certificate_states_identity_and_use_and_nothing_more(made):
    from cryptography import x509

    node, client = made.node(ordinal=5), made.client("alice")
    authority = c.read_certificate(made.authority.folder / "ca.crt")
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value == x509.BasicConstraints(True, 0)
    usage = authority.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.key_cert_sign, usage.crl_sign, usage.digital_signature) == (True, True, False)
    for folder, uses in ((node, {"serverAuth", "clientAuth"}), (client, {"clientAuth"})):
        certificate = c.read_certificate(folder / "tls.crt")
        found = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert {use._name for use in found} == uses
        assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        assert certificate.public_key().curve.name == "secp256r1"
        assert certificate.serial_number.bit_length() == 158
    assert identity(client).name == "alice"
    assert identity(node).key >> 48 == even_key(5) >> 48
    pair = c.fingerprint(c.read_certificate(node / "tls.crt").public_key())
    assert identity(node).name[4:] == pair[4:16]
    without = made.node()
    assert identity(without).name == c.fingerprint(c.read_certificate(without / "tls.crt").public_key())[:16]


def test_only_the_owner_can_read_keys(made):
    node = made.node()
    for path in (made.authority.folder / "ca.key", node / "tls.key", made.authority.folder / "issued.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.authority.folder.stat().st_mode) == 0o700
    text = (made.authority.folder / "issued.json").read_text() + (node / "tls.crt").read_text()
    assert "PRIVATE" not in text


def test_to_issue_into_the_same_folder_renews(made):
    folder = made.node(ordinal=3)
    before, key = identity(folder), (folder / "tls.key").read_bytes()
    made.authority.issue(folder)
    after = identity(folder)
    assert (after.name, (folder / "tls.key").read_bytes()) == (before.name, key)
    assert after.serial != before.serial
    assert len(made.authority.entries()) == 2
    for wrong in ({"client": "alice"}, {"ordinal": 4}, {"place": 4}):
        with pytest.raises(LocalProtocolError, match="choose another folder"):
            made.authority.issue(folder, **wrong)


def test_a_second_authority_joins_the_first_in_a_folder(made, tmp_path):
    folder = made.node()
    name = identity(folder).name
    second = Certificates(tmp_path, "second")
    second.authority.issue(folder)
    assert identity(folder).name == name
    assert len(c.read_authorities(folder / "ca.crt")) == 2
    assert len(c.read_lists(folder / "crl.pem")) == 2
    made.authority.issue(folder)
    assert len(c.read_authorities(folder / "ca.crt")) == 2
    assert len(c.read_lists(folder / "crl.pem")) == 2


def test_a_node_with_state_keeps_its_place_and_nobody_else_gets_it(made):
    folder = made.node(place=0xABC)
    assert identity(folder).key == 0xABC
    with pytest.raises(LocalProtocolError, match="of another key pair"):
        made.node(place=0xABC)
    made.revoke(folder)
    assert revoked(made).keys == {0xABC}
    assert identity(made.node(place=0xABC)).key == 0xABC
    assert revoked(made).keys == frozenset()  # the name is issued again; the old certificate stays revoked
    assert set(revoked(made).uris) == {identity(folder).serial}


def test_a_name_is_out_of_use_when_its_last_certificate_is_revoked(made):
    folder = made.node()
    first = made.authority.entries()[0].serial
    second = made.authority.issue(folder).serial
    gone, others = made.authority.revoke(first.upper())
    assert gone.serial == first
    assert [each.serial for each in others] == [second]
    assert set(revoked(made).uris) == {int(first, 16)}
    assert revoked(made).keys == frozenset()
    assert made.authority.revoke(str(folder / "tls.crt"))[1] == []
    assert revoked(made).keys == {identity(folder).key}
    with pytest.raises(LocalProtocolError, match=r"of this key pair .* are revoked"):
        made.authority.issue(folder)
    since = made.authority.entries()[0].revoked
    assert made.authority.revoke(first)[0].revoked == since
    with pytest.raises(LocalProtocolError, match="neither a file nor the number"):
        made.authority.revoke("1234")


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ({"client": "no spaces"}, "a client's name"),
        ({"client": ""}, "a client's name"),
        ({"client": "x" * 64}, "a client's name"),
        ({"ordinal": 65_536}, "ordinal 65536"),
        ({"days": 0}, "0 days"),
        ({"days": float("nan")}, "nan days"),
        ({"days": 1e9}, "1e\\+09 days"),
    ],
)
def test_an_impossible_certificate_is_refused(made, tmp_path, how, complaint):
    with pytest.raises(LocalProtocolError, match=complaint):
        made.authority.issue(tmp_path / "out", **how)


def test_a_folder_without_an_authority_or_with_a_damaged_one_is_refused(made, tmp_path):
    with pytest.raises(LocalProtocolError, match="there is an authority already"):
        made.authority.create("again")
    with pytest.raises(LocalProtocolError, match="there is no authority here"):
        AuthorityFolder(tmp_path).entries()
    with pytest.raises(LocalProtocolError, match="there is no such folder"):
        AuthorityFolder(tmp_path / "nothing").issue(tmp_path / "out", client="a")
    path = made.authority.folder / "issued.json"
    path.write_text(json.dumps([{"serial": "1"}]))
    with pytest.raises(LocalProtocolError, match=r"issued\.json: damaged"):
        made.client()
    (made.authority.folder / "ca.key").write_text("no key")
    with pytest.raises(TlsRefused, match=r"ca\.key: not a private key"):
        made.client()


def test_lists_of_strangers_and_damaged_ones_are_refused(made, tmp_path):
    other = Certificates(tmp_path, "other")
    authorities = c.read_authorities(made.authority.folder / "ca.crt")
    with pytest.raises(TlsRefused, match="no trusted authority has signed"):
        c.read_revoked(other.crl, authorities)
    both = tmp_path / "both.pem"
    both.write_bytes(made.crl.read_bytes() + other.crl.read_bytes())
    with pytest.raises(TlsRefused, match="no trusted authority has signed"):
        c.read_revoked(both, authorities)
    content = made.crl.read_bytes()
    for damaged in (b"", b"nothing", content[:-40], content + content[:40], content.replace(b"\nMI", b"\nMJ", 1)):
        both.write_bytes(damaged)
        with pytest.raises(TlsRefused, match=r"both\.pem"):
            c.read_revoked(both, authorities)


def test_a_node_does_not_start_with_a_certificate_that_others_would_refuse(made, tmp_path):
    node, other = made.node(), Certificates(tmp_path, "other").node()

    def start(folder, **changed):
        return NodeTls(NodeConfig(**{**made.settings(folder), **changed}))

    assert start(node).key == identity(node).key
    for folder, complaint in (
        (made.expired(node), "has expired on"),
        (made.early(node), "not valid before"),
        (made.client(), "a node's is needed"),
    ):
        with pytest.raises(LocalProtocolError, match=complaint):
            start(folder)
    with pytest.raises(LocalProtocolError, match="no trusted authority has issued"):
        start(node, tls_ca=other / "ca.crt", tls_crl=None)
    with pytest.raises(LocalProtocolError, match="do not belong together"):
        start(node, tls_key=other / "tls.key")
    with pytest.raises(LocalProtocolError, match=r"nothing: No such file"):
        start(node, tls_crl=tmp_path / "nothing")


def test_keys_behind_a_password_are_refused_and_nobody_is_asked_for_it(made):
    from cryptography.hazmat.primitives import serialization

    folder = made.client()
    key = c.read_key(folder / "tls.key")
    spelled = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    )
    (folder / "tls.key").write_bytes(spelled)
    with pytest.raises(TlsRefused, match="a private key is encrypted"):
        Tls(folder / "ca.crt", folder / "tls.crt", folder / "tls.key").context()


@pytest.mark.parametrize(
    "uris",
    [
        [],
        ["https://example.org/"],
        ["urn:p2prdf:node:12"],
        ["urn:p2prdf:node:ABCDEFABCDEFABCD"],
        ["urn:p2prdf:client:"],
        ["urn:p2prdf:client:a b"],
        ["urn:p2prdf:admin:root"],
        ["urn:p2prdf:client:a", "urn:p2prdf:node:0000000000000001"],
        ["urn:p2prdf:client:a\n"],
    ],
)
def test_a_certificate_that_names_nobody_or_two_is_refused(uris):
    with pytest.raises(TlsRefused, match="it must name one node or client"):
        read_identity(uris, serial=1, expires=0)


def test_a_client_connects_to_nodes_alone_regardless_of_other_uses_of_a_certificate():
    dates = {"serialNumber": "1F", "notAfter": "Jan  1 00:00:00 2030 GMT"}
    certificate = {"subjectAltName": (("URI", "urn:p2prdf:client:a"),), **dates}
    assert identity_in(certificate).serial == 31
    with pytest.raises(TlsRefused, match="the other side is client a, not a node"):
        node_in(certificate)
    node = certificate | {"subjectAltName": (("DNS", "x"), ("URI", "urn:p2prdf:node:000000000000000a"))}
    assert node_in(node).key == 10


def test_an_unverified_peer_is_nobody():
    for certificate in (None, {}):
        with pytest.raises(TlsRefused, match="showed no certificate"):
            identity_in(certificate)


def test_a_context_takes_up_no_session_again(made):
    folder = made.node()
    context = context_of(folder / "ca.crt", folder / "tls.crt", folder / "tls.key", server=True)
    assert context.num_tickets == 0
    assert context.minimum_version.name == "TLSv1_3"
