"""Secrets are read from files that only their owner may read, and never repeated."""

from __future__ import annotations

import pytest

from p2prdf.errors import LocalProtocolError
from p2prdf.private_files import read_private


@pytest.mark.parametrize(("content", "mode", "told"), [
    (b"hunter2", 0o644, "others may read it"), (b"hunter2", 0o620, "its group may write it"),
    (b"hunter2\xff", 0o600, "UTF-8"), (b"hunter2" * 200_000, 0o600, "more than 1,048,576 bytes"),
])  # fmt: skip
def test_a_file_that_will_not_do_is_named_and_not_repeated(tmp_path, content, mode, told):
    path = tmp_path / "keys"
    path.write_bytes(content)
    path.chmod(mode)
    with pytest.raises(LocalProtocolError, match=told) as refusal:
        read_private(path, "keys")
    assert str(path) in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(LocalProtocolError, match="missing: keys cannot be read: No such file"):
        read_private(tmp_path / "missing", "keys")


def test_its_group_may_read_it(tmp_path):
    path = tmp_path / "keys"
    path.write_text("é")
    path.chmod(0o440)
    assert read_private(path, "keys") == "é"
