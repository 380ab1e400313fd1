"""Names and forms of registered channels, their publications and their notifications in an overlay.

All of them are triples of known graphs, stored and replicated like others:

- ``<urn:p2prdf:channels>``: one triple for each channel, with its name and a literal for the rest.
- the graph named by a knowledge base's IRI: one triple for each published graph and each deletion in force
  (:mod:`p2prdf.channels.publication`).
- a graph for each knowledge base, with its notifications (:func:`notifications_graph`): one triple of channel, kind and
  binding for each binding that holds, and one for each channel that a worker has begun.
- ``<urn:p2prdf:channel-hosts>``: one triple for each channel worker (:mod:`p2prdf.workers.group`).
- ``<urn:p2prdf:channel-requests>``: requests to channel workers and their answers; the requester deletes them.

Any client may publish into these graphs, so readers check all of it and refuse invalid parts by name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from p2prdf.channels.category import Categories
from p2prdf.channels.evaluation import Evaluation
from p2prdf.channels.query import parse_channel
from p2prdf.channels.settings import Settings
from p2prdf.errors import DataRefused, LocalProtocolError, P2PRDFError
from p2prdf.rdf import terms
from p2prdf.reasoning import Triple
from p2prdf.workers.group import Names, WorkerGroup

__all__ = [
    "ANSWERS", "ASKS", "BEGUN", "CHANNEL", "CHANNELS_GRAPH", "CHANNEL_WORKERS", "CONFIRMED", "INITIAL", "KINDS",
    "REQUESTS_GRAPH", "TENTATIVE", "ChannelRegistration", "binding_literal", "check_base", "name_of",
    "notifications_graph", "read_binding", "read_channel", "read_settings", "subject_of",
]  # fmt: skip

CHANNELS_GRAPH: Final = "<urn:p2prdf:channels>"
REQUESTS_GRAPH: Final = "<urn:p2prdf:channel-requests>"
CHANNEL: Final = "<urn:p2prdf:channel>"
ASKS: Final = "<urn:p2prdf:asks>"
ANSWERS: Final = "<urn:p2prdf:answers>"
CHANNEL_WORKERS: Final = WorkerGroup(
    "<urn:p2prdf:channel-hosts>", "<urn:p2prdf:hosts>", "<urn:p2prdf:channel-host:", ASKS
)
"""The worker group that evaluates channels."""

INITIAL: Final = "<urn:p2prdf:initial>"
TENTATIVE: Final = "<urn:p2prdf:tentative>"
CONFIRMED: Final = "<urn:p2prdf:confirmed>"
KINDS: Final = (INITIAL, TENTATIVE, CONFIRMED)
"""How a binding is known to hold: since the beginning of the channel, or as its notifications say."""
BEGUN: Final = "<urn:p2prdf:begun>"
"""Relates a knowledge base to a channel: all initial bindings have been reported."""

_NAMES: Final = Names("<urn:p2prdf:channel:")
subject_of: Final = _NAMES.subject
"""Returns the IRI of a name; raises LocalProtocolError for an invalid name."""
name_of: Final = _NAMES.name
"""Returns the name in an IRI, None for other terms."""
_FIELDS: Final = frozenset({"base", "query", "settings"})


@dataclass(frozen=True, slots=True)
class ChannelRegistration:
    """A registered channel.

    ``base``: the canonical IRI of its knowledge base; ``query``: its text; ``settings``: the given ones, as for
    :func:`read_settings`.
    """

    name: str
    base: str
    query: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Raise LocalProtocolError or a subclass if the channel is not valid."""
        subject_of(self.name)
        check_base(self.base)
        read_settings(self.settings)
        parse_channel(self.query)

    @property
    def triple(self) -> Triple:
        """The triple that registers it."""
        content = {"base": self.base, "query": self.query, "settings": dict(self.settings)}
        return subject_of(self.name), CHANNEL, terms.literal(json.dumps(content, sort_keys=True))


def check_base(base: str) -> None:
    """Raise DataRefused if a term is not an IRI for a knowledge base."""
    if terms.kind(terms.parse_term(base)) is not terms.Kind.IRI:
        raise DataRefused(f"{base[:120]} is not an IRI, so it cannot name a knowledge base")


def notifications_graph(base: str) -> str:
    """Return the graph of the notifications on the channels of a knowledge base."""
    return f"<urn:p2prdf:told:{hashlib.sha256(base.encode()).hexdigest()[:32]}>"


def read_settings(given: Mapping[str, Any]) -> Settings:
    """Return settings from names and plain values.

    ``heuristics`` is a list of names, ``evaluation`` a name. Raises LocalProtocolError for unknown names and
    invalid values.
    """
    known = {each.name: each.type for each in fields(Settings)}
    for name in given:
        if name not in known:
            raise LocalProtocolError(f"channels have no setting {name[:120]!r}")
    made: dict[str, Any] = dict(given)
    try:
        if "evaluation" in made:
            made["evaluation"] = Evaluation(made["evaluation"])
        if "heuristics" in made:
            made["heuristics"] = tuple(Categories(each) for each in made["heuristics"])
    except (ValueError, TypeError) as error:
        raise LocalProtocolError(f"a setting of channels: {error}") from None
    for name, value in made.items():
        wanted = {"int": (int,), "float": (int, float), "bool": (bool,)}.get(str(known[name]))
        if wanted and (not isinstance(value, wanted) or isinstance(value, bool) != (wanted == (bool,))):
            raise LocalProtocolError(f"the setting {name} of a channel is not {str(value)[:60]!r}")
    settings = Settings(**made)
    settings.validate()
    return settings


def read_channel(subject: str, text: str) -> ChannelRegistration:
    """Return the channel in a triple of the graph of channels.  Raises DataRefused for other triples."""
    name = name_of(subject)
    if name is None:
        raise DataRefused("not the name of a channel", source=subject[:120])
    try:
        content = json.loads(terms.lexical(text))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or set(content) != _FIELDS:
        raise DataRefused("not a channel in this version's format", source=name)
    base, query, settings = content["base"], content["query"], content["settings"]
    if not (isinstance(base, str) and isinstance(query, str) and isinstance(settings, dict)):
        raise DataRefused("base and query of a channel are texts, settings an object", source=name)
    found = ChannelRegistration(name, base, query, settings)
    try:
        found.check()
    except P2PRDFError as error:
        raise DataRefused(str(error), source=name) from None
    return found


def binding_literal(binding: tuple[str, ...]) -> str:
    """Return the literal of a binding: a JSON array of its canonical terms."""
    return terms.literal(json.dumps(list(binding), ensure_ascii=False, separators=(",", ":")))


def read_binding(literal: str) -> tuple[str, ...] | None:
    """Return the binding of a literal, None for other literals."""
    try:
        found = json.loads(terms.lexical(literal)) if literal.startswith('"') else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or not all(isinstance(term, str) for term in found):
        return None
    return tuple(found)
