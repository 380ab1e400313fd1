"""The permissions file: its parser, and its content, reloaded when it changes (:mod:`p2prdf_node.watched`).

The file is TOML, with sections for clients (by name), for groups that clients belong to, and ``default`` for all
clients without a section, which otherwise may do nothing::

    [groups.plant]
    may = ["subscribe", "query"]
    read = ["default", "https://example.org/plant/"]
    triples_per_second = 10_000

    [clients.press-7]
    groups = ["plant"]
    publish = ["https://example.org/plant/press-7/"]
    predicates = ["https://example.org/ns#"]

    [default]
    may = ["observe"]

Graphs, and streams likewise, are given by prefixes of their IRIs; ``<IRI>`` is that IRI alone, ``default`` the
default graph, ``*`` all graphs.  ``predicates`` and ``subjects``, prefixes of IRIs as well, narrow the statements
that the same section permits to publish and remove.  A client may do everything that one of its sections permits.  A
quota in its own section takes precedence, else the largest quota of its groups counts.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from p2prdf.errors import LocalProtocolError
from p2prdf.rdf.reach import ANY
from p2prdf.tls import CLIENT_NAME
from p2prdf_node.permissions import ANYTHING, STATED, Action, Grant, Permissions, PermissionsTable, Prefixes, Quotas
from p2prdf_node.watched import WatchedFile

__all__ = ["CLIENTS_MAX", "PREFIXES_MAX", "PermissionsFile", "read_permissions"]

CLIENTS_MAX: Final = 65_536
PREFIXES_MAX: Final = 1024
"""Most entries of one list."""
_DEFAULT: Final = "default"
_IRI: Final = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*')

_QUOTAS: Final = tuple(each.name for each in fields(Quotas))
_LISTS: Final = ("publish", "remove", "read", "predicates", "subjects", "may", "speaks_for", "groups")


class _Wrong(Exception):
    """An invalid entry: its place and the reason."""


@dataclass(frozen=True, slots=True)
class _Section:
    """One parsed section."""

    actions: frozenset[Action]
    publish: tuple[Grant, ...]
    remove: tuple[Grant, ...]
    read: Prefixes
    speaks_for: frozenset[str]
    quotas: dict[str, float]
    groups: tuple[str, ...]


class PermissionsFile(WatchedFile[PermissionsTable]):
    """The permissions in use.  The constructor raises LocalProtocolError for a bad file."""

    def __init__(self, path: Path):
        super().__init__(path, read_permissions, "permissions_file")

    def facts(self) -> dict[str, Any]:
        """Return the number of clients with permissions of their own."""
        return {"clients": len(self.value.clients)}


def read_permissions(text: str, source: str = "permissions") -> PermissionsTable:
    """Parse a permissions file.  Raises LocalProtocolError, naming source, section, key and reason."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise LocalProtocolError(f"{source}: {error}") from None
    try:
        return _table(document)
    except _Wrong as error:
        raise LocalProtocolError(f"{source}: {error}") from None


def _table(document: dict[str, Any]) -> PermissionsTable:
    if not document:
        raise _Wrong("the file has no section; an empty section [default] permits nothing to anybody")
    for key in document:
        if key not in ("clients", "groups", "default"):
            raise _Wrong(f"{key}: there are sections clients.NAME, groups.NAME and default")
    groups = {name: _section(f"groups.{name}", told) for name, told in _sections(document, "groups")}
    for name, group in groups.items():
        if group.groups:
            raise _Wrong(f"groups.{name}: groups belong to no groups")
    clients = {}
    for name, told in _sections(document, "clients"):
        if not CLIENT_NAME.fullmatch(name):
            raise _Wrong(f"clients.{name}: not the name of a client: {CLIENT_NAME.pattern}")
        clients[name] = _permissions(f"client {name}", _section(f"clients.{name}", told), groups)
    if len(clients) > CLIENTS_MAX:
        raise _Wrong(f"{len(clients)} clients; at most {CLIENTS_MAX} are accepted")
    default = _permissions("", _section("default", document.get("default", {})), groups)
    return PermissionsTable(clients, default)


def _sections(document: dict[str, Any], key: str) -> Iterable[tuple[str, Any]]:
    told = document.get(key, {})
    if not isinstance(told, dict):
        raise _Wrong(f"{key}: not a table of sections")
    return told.items()


def _permissions(who: str, own: _Section, groups: dict[str, _Section]) -> Permissions:
    sections = [own]
    for name in own.groups:
        if name not in groups:
            raise _Wrong(f"{who or 'default'}: there is no section groups.{name}")
        sections.append(groups[name])
    read = Prefixes()
    for each in sections:
        read |= each.read
    quotas = {}
    for name in _QUOTAS:
        given = [own.quotas[name]] if name in own.quotas else [each.quotas.get(name, 0.0) for each in sections]
        quotas[name] = max(given) or math.inf
    return Permissions(
        who, frozenset[Action]().union(*(each.actions for each in sections)),
        tuple(grant for each in sections for grant in each.publish),
        tuple(grant for each in sections for grant in each.remove), read,
        frozenset[str]().union(*(each.speaks_for for each in sections)), Quotas(**quotas),
    )  # fmt: skip


def _section(where: str, told: Any) -> _Section:
    if not isinstance(told, dict):
        raise _Wrong(f"{where}: not a section")
    lists: dict[str, list[str]] = {}
    quotas: dict[str, float] = {}
    for key, value in told.items():
        if key in _LISTS:
            lists[key] = _texts(f"{where}.{key}", value)
        elif key in _QUOTAS:
            quotas[key] = _quota(f"{where}.{key}", value)
        else:
            raise _Wrong(f"{where}.{key}: unknown key; the keys are {', '.join((*_LISTS, *_QUOTAS))}")
    actions = frozenset(_action(f"{where}.may", each) for each in lists.get("may", ()))
    narrowed = {
        key: _prefixes(f"{where}.{key}", lists[key], default=False) if key in lists else ANYTHING
        for key in ("predicates", "subjects")
    }
    grants = {
        key: (Grant(_prefixes(f"{where}.{key}", lists[key]), **narrowed),) if lists.get(key) else ()
        for key in ("publish", "remove")
    }
    for name in lists.get("speaks_for", ()):
        if name != ANY and not CLIENT_NAME.fullmatch(name):
            raise _Wrong(f"{where}.speaks_for: {name!r} is neither the name of a client nor {ANY!r}")
    actions |= {action for action in (Action.PUBLISH, Action.REMOVE) if grants[action]}
    return _Section(
        actions, grants["publish"], grants["remove"], _prefixes(f"{where}.read", lists.get("read", [])),
        frozenset(lists.get("speaks_for", ())), quotas, tuple(lists.get("groups", ())),
    )  # fmt: skip


def _texts(where: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _Wrong(f"{where}: not a list of texts")
    if len(value) > PREFIXES_MAX:
        raise _Wrong(f"{where}: {len(value)} entries; at most {PREFIXES_MAX} are accepted")
    return value


def _quota(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e18:
        raise _Wrong(f"{where}: {value!r} is not a positive number")
    return float(value)


def _action(where: str, text: str) -> Action:
    for action in STATED:
        if text == action:
            return action
    hint = "; say which graphs by a list of its own" if text in (Action.PUBLISH, Action.REMOVE) else ""
    raise _Wrong(f"{where}: {text!r} is none of {', '.join(STATED)}{hint}")


def _prefixes(where: str, texts: Iterable[str], *, default: bool = True) -> Prefixes:
    beginnings = []
    found = Prefixes()
    for text in texts:
        if text == ANY:
            found = replace(found, everything=True)
        elif default and text == _DEFAULT:
            found = replace(found, default=True)
        else:
            exact = text.startswith("<") and text.endswith(">")
            if not _IRI.fullmatch(text[1:-1] if exact else text):
                raise _Wrong(f"{where}: {text!r} is not the beginning of an IRI, scheme and colon included")
            beginnings.append(text if exact else "<" + text)
    return replace(found, beginnings=tuple(dict.fromkeys(beginnings)))
