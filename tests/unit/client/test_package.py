"""The package as an interpreter shows it."""

from __future__ import annotations

import p2prdf


def test_dir_shows_every_public_name_before_it_is_used():
    assert {*p2prdf.__all__} <= {*dir(p2prdf)}
    assert not {"Any", "TYPE_CHECKING"} & {*dir(p2prdf)}
    assert "several addresses" in p2prdf.connect.__doc__.lower()
