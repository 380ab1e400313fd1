"""Tokens are read from files that only their owner may read, and their text is never revealed."""

from __future__ import annotations

import pytest

from p2prdf.errors import LocalProtocolError
from p2prdf.gateway.access import Access, Permission, is_loopback, read_tokens


def test_tokens_are_known_by_their_digests(tmp_path):
    path = tmp_path / "tokens"
    path.write_text("# who\n\nreader-reader-reader read  # the dashboard\nboth-both-both-both read,write\n")
    path.chmod(0o600)
    assert sorted(sorted(each.permissions) for each in read_tokens(path).values()) == [
        [Permission.READ], [Permission.READ, Permission.WRITE],
    ]  # fmt: skip
    assert b"reader" not in b"".join(read_tokens(path))


@pytest.mark.parametrize(("text", "told"), [
    ("secret-secret-secret\n", "tokens:1: expected TOKEN read"),
    ("secret-secret-secret all\n", "tokens:1: expected TOKEN read"),
    ("#\nsecret read\n", "tokens:2: a token has at least 16"), ("# none\n", "no token"),
    ("secret-secret-secret read write\n", "tokens:1: expected TOKEN read"),
    ("secret-secret-secret read a/b\n", "the third word is not a client's name"),
    ("secret-secret-secret read alice bob\n", "tokens:1: expected TOKEN read"),
])  # fmt: skip
def test_a_bad_file_is_reported_by_line(tmp_path, text, told):
    path = tmp_path / "tokens"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(LocalProtocolError, match=told) as refusal:
        read_tokens(path)
    assert "secret" not in str(refusal.value)


def test_a_token_may_name_a_client(tmp_path):
    path = tmp_path / "tokens"
    path.write_text("alice-alice-alice-alice read,write alice\nnobody-nobody-nobody read\n")
    path.chmod(0o600)
    access = Access(read_tokens(path), (), loopback=True)
    assert access.check_token("Bearer alice-alice-alice-alice", Permission.WRITE) == "alice"
    assert access.check_token("Bearer nobody-nobody-nobody", Permission.READ) == ""


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o604])
def test_a_file_that_others_may_read_is_refused(tmp_path, mode):
    path = tmp_path / "tokens"
    path.write_text("reader-reader-reader read\n")
    path.chmod(0o440)
    assert read_tokens(path)
    path.chmod(mode)
    with pytest.raises(LocalProtocolError, match="others may read it"):
        read_tokens(path)


@pytest.mark.parametrize(("origin", "told"), [
    ("*", "name the permitted origins"), ("app.example", "is not an origin"), ("https://a/b", "is not"),
])  # fmt: skip
def test_origins_are_origins(origin, told):
    with pytest.raises(LocalProtocolError, match=told):
        Access(None, [origin], loopback=True)


@pytest.mark.parametrize(("host", "expected"), [
    ("127.0.0.1", True), ("127.8.9.1", True), ("[::1]", True), ("::1", True), ("LocalHost", True),
    ("0.0.0.0", False), ("localhost.example", False), ("", False), ("10.0.0.1", False),
])  # fmt: skip
def test_loopback(host, expected):
    assert is_loopback(host) is expected
