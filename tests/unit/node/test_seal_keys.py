"""Replacement of the keys of datagrams, and the file that lists them."""

from __future__ import annotations

import pytest

from p2prdf.errors import LocalProtocolError
from p2prdf_node.seal import Keyring, Sealer, derived_key
from p2prdf_node.seal_keys import KEYS_MAX, SealKeysFile, read_keys

OLD, NEW = "the old key, long enough", "the new key, long enough"
OF_SECRET = derived_key(b"the secret of the cluster")


def keys_of(*lines):
    return read_keys(OF_SECRET, "\n".join(lines), "keys")


def test_a_key_is_replaced_step_by_step_while_all_go_on():
    """Each node takes each step at some time of its own: nodes before and after a step understand each other."""
    steps = [keys_of("secret"), keys_of("secret", NEW), keys_of(NEW, "secret"), keys_of(NEW)]
    rings = Keyring(steps[0]), Keyring(steps[0])
    ends = Sealer(rings[0], 1), Sealer(rings[1], 2)
    number = 0
    for step in steps[1:]:
        for ring in rings:
            ring.take(step)
            for sender, receiver, key in ((0, 1, 2), (1, 0, 1)):
                number += 1
                sealed = ends[sender].seal(b"x", receiver=key, nonce=number.to_bytes(8), now=5.0)
                assert ends[receiver].open(sealed, now=5.0) == b"x"
    assert sum(end.refused[reason] for end in ends for reason in end.refused) == 0


def test_a_datagram_sealed_by_a_withdrawn_key_is_refused():
    ring = Keyring(keys_of(OLD))
    receiver = Sealer(ring, 2)
    sealed = Sealer(Keyring(keys_of(OLD)), 1).seal(b"x", receiver=2, nonce=bytes(8), now=5.0)
    ring.take(keys_of(NEW))
    assert receiver.open(sealed, now=5.0) is None
    assert receiver.refused["key"] == 1


def test_a_copy_is_refused_under_any_key_in_use_since():
    ring = Keyring(keys_of(OLD))
    receiver = Sealer(ring, 2)
    sealed = Sealer(Keyring(keys_of(OLD)), 1).seal(b"x", receiver=2, nonce=bytes(8), now=5.0)
    assert receiver.open(sealed, now=5.0) == b"x"
    ring.take(keys_of(NEW, OLD))
    assert receiver.open(sealed, now=5.0) is None
    assert receiver.refused["replayed"] == 1


def test_a_datagram_that_has_the_name_of_another_key_is_forged():
    receiver = Sealer(Keyring(keys_of(NEW, OLD)), 2)
    by = {key: Sealer(Keyring(keys_of(key)), 1).seal(b"x", receiver=2, nonce=bytes(8), now=5.0) for key in (NEW, OLD)}
    assert receiver.open(by[NEW][:1] + by[OLD][1:5] + by[NEW][5:], now=5.0) is None
    assert receiver.refused["forged"] == 1


def test_names_reveal_nothing_of_keys_and_differ():
    names = Keyring(keys_of("secret", OLD, NEW)).names
    assert len(set(names)) == 3
    assert not any(key.hex().startswith(name) for name, key in zip(names, keys_of("secret", OLD, NEW), strict=True))


def test_comments_and_empty_lines_are_no_keys():
    assert keys_of("# of 2031", "", f"  {NEW}  ", "secret") == (derived_key(NEW.encode()), OF_SECRET)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([], "there is no key"),
        (["# nothing"], "there is no key"),
        (["too short"], "line 1: a key has at least 16 bytes"),
        ([NEW, "", "Secret"], "line 3: a key has at least 16 bytes"),
        ([NEW, OLD, NEW], "line 3: it has the name of a key before it"),
        ([f"{n}{NEW}" for n in range(KEYS_MAX + 1)], f"line {KEYS_MAX + 1}: more than {KEYS_MAX} keys"),
    ],
)
def test_a_bad_key_is_reported_by_line_and_without_the_key(lines, text):
    with pytest.raises(LocalProtocolError, match=text) as raised:
        keys_of(*lines)
    assert not any(line in str(raised.value) for line in lines if line and line != "Secret")


async def test_the_file_is_taken_up_when_it_changes_and_a_bad_one_is_not(tmp_path):
    path = tmp_path / "keys"
    path.write_text("secret\n")
    ring = Keyring([derived_key(b"another, that the file replaces")])
    file = SealKeysFile(path, OF_SECRET, ring)
    assert ring.find(ring.own) == OF_SECRET
    path.write_text(f"{NEW}\nsecret\n")
    assert [await file.poll(), await file.poll(), await file.poll()] == [False, True, False]
    assert ring.find(ring.own) == derived_key(NEW.encode())
    assert file.status() == {"keys": list(ring.names), "renewed": 1, "problem": None}
    before = ring.names
    path.write_text("short\n")
    assert [await file.poll(), await file.poll()] == [False, False]
    assert ring.names == before
    assert "line 1" in file.status()["problem"]
    path.unlink()
    assert [await file.poll(), await file.poll()] == [False, False]
    assert ring.names == before
    assert "No such file" in file.status()["problem"]


def test_a_node_does_not_start_with_a_bad_file(tmp_path):
    with pytest.raises(LocalProtocolError, match="No such file"):
        SealKeysFile(tmp_path / "none", OF_SECRET, Keyring([OF_SECRET]))
