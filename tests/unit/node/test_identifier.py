"""The name of a node, and its position on the ring, which follows from the name."""

from __future__ import annotations

import pytest

from p2prdf import keys
from p2prdf.errors import LocalProtocolError
from p2prdf_node.config import load_config
from p2prdf_node.daemon import _identifier

ADDRESS = ("127.0.0.1", 7400)


def test_an_address_names_a_node_without_a_data_directory():
    assert _identifier(None, ADDRESS, None) == _identifier(None, ADDRESS, None)
    assert _identifier(None, ADDRESS, None) != _identifier(None, ("127.0.0.1", 7401), None)


def test_a_data_directory_keeps_the_identifier_at_any_address(tmp_path):
    first = _identifier(tmp_path / "data", ADDRESS, None)
    assert len(first) == 20
    assert _identifier(tmp_path / "data", ("127.0.0.1", 9), None) == first


def test_ordinals_spread_nodes_evenly(tmp_path):
    for directory in (None, tmp_path):
        found = []
        for ordinal in range(8):
            data = None if directory is None else directory / str(ordinal)
            found.append(keys.node_key(_identifier(data, ("127.0.0.1", ordinal + 1), ordinal)))
        ranked = sorted(found)
        gaps = [b - a for a, b in zip(ranked, [*ranked[1:], ranked[0] + (1 << 64)], strict=True)]
        assert max(gaps) - min(gaps) < 1 << 49  # the other bytes are anything


def test_two_nodes_of_one_ordinal_are_two_peers():
    assert _identifier(None, ADDRESS, 3) != _identifier(None, ("127.0.0.1", 7401), 3)


def test_a_data_directory_of_another_place_is_refused(tmp_path):
    _identifier(tmp_path, ADDRESS, 3)
    assert _identifier(tmp_path, ADDRESS, None) == _identifier(tmp_path, ADDRESS, 3)
    with pytest.raises(LocalProtocolError, match=r"setting ordinal: .* another place than 4"):
        _identifier(tmp_path, ADDRESS, 4)


def test_the_ordinal_comes_from_the_environment_and_may_be_empty_there():
    assert load_config(environment={"P2PRDF_ORDINAL": "0"}).ordinal == 0
    assert load_config(environment={"P2PRDF_ORDINAL": ""}).ordinal is None


def test_a_certificate_says_the_place_on_the_ring_and_nothing_may_contradict_it(tmp_path):
    key = 0x0123_4567_89AB_CDEF
    for data in (None, tmp_path / "fresh"):
        assert keys.node_key(_identifier(data, ADDRESS, None, key)) == key
    assert _identifier(tmp_path / "fresh", ADDRESS, None, key) == _identifier(tmp_path / "fresh", ADDRESS, None)
    held = keys.node_key(_identifier(tmp_path / "held", ADDRESS, None))
    assert keys.node_key(_identifier(tmp_path / "held", ADDRESS, None, held)) == held
    with pytest.raises(LocalProtocolError, match=f"--place {held:016x}"):
        _identifier(tmp_path / "held", ADDRESS, None, key)
    with pytest.raises(LocalProtocolError, match="setting ordinal: the certificate is for another place than 4"):
        _identifier(None, ADDRESS, 4, key)
    assert keys.node_key(_identifier(None, ADDRESS, 1, keys.even_key(1) | 5)) == keys.even_key(1) | 5
