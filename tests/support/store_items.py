"""The whole content of tables as items."""

from __future__ import annotations

from collections.abc import Iterator

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.store.tables import Tables

__all__ = ["ROLES_AND_KINDS", "items_of", "version_of"]

ROLES_AND_KINDS = [(role, per_event) for role in keys.ROLES for per_event in (False, True)]


def items_of(tables: Tables) -> Iterator[tuple]:
    """Yield all items: their type, ring key and identity."""
    for role, per_event in ROLES_AND_KINDS:
        handle, ring, identities = map(as_list, tables.triple_items(role, per_event))
        for _, *item in zip(handle, ring, identities, strict=True):
            yield "triple", role, per_event, *item
    for what, held in (("row", tables.row_items()), ("link", tables.link_items())):
        for plan, step, *columns in held:
            for _, *item in zip(*map(as_list, columns), strict=True):
                yield what, plan.identity, step, *item


def version_of(tables: Tables) -> tuple[int, int, int]:
    """Return the versions of triples, of events, and of waiting rows."""
    return tables.triple_version(False), tables.triple_version(True), tables.waiting_version
