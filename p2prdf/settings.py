"""Settings: each is declared once, with its type, default, bounds and meaning.

A configuration is a frozen dataclass with fields declared by :func:`setting`.  The checks, the conversion of
values from files, environment variables and command lines, the options and the reference page follow from the
declarations.  :class:`PeerSettings` has the settings of a peer that operators give; a node's configuration and the
peer's own both extend it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from p2prdf.errors import LocalProtocolError

__all__ = ["Declaration", "PeerSettings", "check_settings", "declarations", "setting", "shared_settings"]

_NUMBER_MAX: Final = 1e12
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Declaration:
    """The declaration of one setting."""

    help: str
    """Meaning, and unit if the name has none; the first sentence alone is the help of the option."""
    choices: tuple[str, ...] = ()
    """Permitted texts; without, any text."""
    least: float | None = None
    """Least number; without, numbers must be above 0."""
    most: float | None = None
    """Greatest number."""
    unlimited: bool = False
    """Whether ``inf`` is permitted."""
    option: bool = False
    """Whether ``p2prdf node`` has an option for it; implied by ``metavar``."""
    metavar: str = ""
    """Placeholder of the value in the help of that option; by default the choices or ``N``."""
    check: Callable[[Any], object] | None = None
    """Function that raises ValueError with the value and the reason."""
    type: str = ""
    """The annotation of the field."""
    default: Any = None
    """The default, which needs no check."""

    @property
    def on_command_line(self) -> bool:
        """Whether ``p2prdf node`` has an option for it."""
        return self.option or bool(self.metavar)

    def refuse(self, name: str, value: Any) -> None:
        """Raise LocalProtocolError with the setting, its value and the reason, if the value is wrong."""
        if self.choices and value not in self.choices:
            raise LocalProtocolError(f"setting {name}: {value!r} is none of {', '.join(self.choices)}")
        if isinstance(value, int | float) and not isinstance(value, bool) and not self._in_range(value):
            reason = "a positive number in range"
            if self.most is not None:
                reason = f"between {self.least or 0:g} and {self.most:g}"
            elif self.least is not None:
                reason = f"a number from {self.least:g} on, in range"
            raise LocalProtocolError(f"setting {name}: {value!r} is not {reason}")
        try:
            if self.check is not None and value != self.default:
                self.check(value)
        except ValueError as error:
            raise LocalProtocolError(f"setting {name}: {error}") from None

    def _in_range(self, value: float) -> bool:
        if value == math.inf:
            return self.unlimited
        above = value > 0 if self.least is None else value >= self.least
        return above and (value < _NUMBER_MAX if self.most is None else value <= self.most)

    def convert(self, name: str, value: Any, source: str) -> Any:
        """Return the value of a file, an environment variable or an option in the setting's type."""
        try:
            return _CONVERSIONS[self.type](value)
        except (TypeError, ValueError) as error:
            raise LocalProtocolError(f"setting {name} ({source}): {value!r}: {error}") from None

    @property
    def values(self) -> str:
        """The permitted values, in Markdown."""
        kind = self.type.removesuffix(" | None")
        if kind not in ("int", "float"):
            kinds = {"bool": "`true`, `false`", "Path": "path", "tuple[str, ...]": "list"}
            return kinds.get(kind, ", ".join(f"`{each}`" for each in self.choices))
        text = "integer" if kind == "int" else "number"
        if self.most is not None:
            return f"{text}, {self.least or 0:g} to {self.most:,.0f}"
        return text + (", above 0" if self.least is None else f", {self.least:g} or more") + ", or inf" * self.unlimited


def setting(default: _Value, meaning: str, **how: Any) -> _Value:
    """Declare a setting as a field of a dataclass; ``how`` has fields of :class:`Declaration`."""
    field: Any = dataclasses.field(default=default, metadata={"declared": Declaration(meaning, **how)})
    return field  # type: ignore[no-any-return]  # a dataclass replaces it by the default


@functools.cache
def declarations(kind: type[Any]) -> dict[str, Declaration]:
    """Return the declared settings of a dataclass by name, its own before inherited ones."""
    fields = [each for each in dataclasses.fields(kind) if "declared" in each.metadata]
    fields.sort(key=lambda each: each.name not in kind.__annotations__)
    return {
        each.name: dataclasses.replace(each.metadata["declared"], type=str(each.type), default=each.default)
        for each in fields
    }


def check_settings(config: Any) -> None:
    """Check the value of each declared setting.  Raises LocalProtocolError."""
    for name, declared in declarations(config.__class__).items():
        declared.refuse(name, getattr(config, name))


def shared_settings(config: PeerSettings) -> dict[str, Any]:
    """Return the settings of a peer out of a configuration that extends them."""
    return {name: getattr(config, name) for name in declarations(PeerSettings)}


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """The settings of a peer that operators give, with the defaults of nodes."""

    overlay: str = setting(
        "kademlia", "Routing; equal at all nodes. Owner of a key: the XOR-closest node (kademlia), or the first at or"
        " after it (chord).", choices=("kademlia", "chord"), option=True,
    )  # fmt: skip
    replicas: int = setting(3, "Copies of the data of each key; 1: no replication.", least=1, most=16, option=True)
    copies_min: int = setting(
        2, "Copies that an acknowledgement waits for. In a cluster that never had so many nodes: all of them.",
        least=1, most=16, option=True,
    )  # fmt: skip
    indexes: str = setting(
        "all", "Index for all queries, or for standing queries only. The latter (on-demand) is for clusters that only"
        " pass streams on.", choices=("all", "on-demand"), option=True,
    )  # fmt: skip
    solutions_window: int = setting(
        16_384, "Unacknowledged solutions of one subscription between its coordinator and its client."
    )
    query_rows_max: int = setting(
        1_000_000, "Rows in the operators of one query, and solutions of each of its leaves; a query with more is"
        " ended.",
    )  # fmt: skip
    solutions_pending_max: int = setting(
        1_000_000, "Solutions kept for one subscription; beyond, the oldest are dropped and reported as a gap."
    )
    retention_bytes: int = setting(
        512 << 20,
        "Approximate bytes of the solutions kept for one subscription; beyond, the oldest are dropped, as a gap.",
    )
    retention_seconds: float = setting(
        7 * 86_400.0,
        "Longest time that unacknowledged solutions are kept; then they are dropped and reported as a gap.",
    )
    introductions_max: int = setting(
        1_000_000, "Statements of which this node records which member introduced them; with more the oldest half is"
        " dropped. 0: it records none.", least=0,
    )  # fmt: skip
    turn_budget_seconds: float = setting(
        0.02, "Processor time after which a turn of the event loop stops, so that sockets are read; the next turn goes"
        " on.",
    )  # fmt: skip
    audit_seconds: float = setting(
        20.0, "Time after a publication at which replicas check samples of what its primary delivered; 0: no checks.",
        least=0,
    )  # fmt: skip
    stream_idle_seconds: float = setting(
        10.0, "Longest wait for a silent publisher of a stream; then windows close without its later elements."
    )
    stream_retention_seconds: float = setting(
        7 * 86_400.0, "Event time for which elements of streams are kept, in addition to the needs of queries; 0:"
        " forever. Equal at all nodes.", least=0,
    )  # fmt: skip
    rows_in_flight_max: int = setting(
        262_144, "Triples published at this node and not yet at their owners; further publications wait."
    )
    triples_max: int = setting(200_000_000, "Triples and partial results held; further publications wait.")
    clock_skew_seconds: float = setting(
        0.001, "Largest clock difference of nodes; subscriptions become live with this delay.", least=0
    )
    hot_keys: bool = setting(True, "Split keys with too much load; off: only follow the splits of other nodes.")
    hot_interval_seconds: float = setting(30.0, "Interval between decisions about splits.")
    hot_rate_min: int = setting(10_000, "Least number of triples under a key in an interval for a split.", least=0)
    hot_share: float = setting(0.5, "Largest load of one sub-key, as a share of the mean load of all nodes.")
    keyword_routing: bool = setting(
        False, "Index queries with text conditions by keyword, if they cover only later publications, not by predicate."
    )
    read_queries: bool = setting(
        False,
        "Answer one-time queries of few triples by reading these at their owners; experimental. Equal at all nodes.",
    )
    forget_intervals: bool = setting(
        False, "Forget validity intervals of deleted triples that later ones supersede; experimental. Equal at all"
        " nodes.",
    )  # fmt: skip
    trace_every: int = setting(
        0, "Trace one in this many publications of clients; 0: only those with a trace of their own.", least=0
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("is not a text")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise TypeError("is not a list of texts")
    return tuple(part.strip() for part in parts if part.strip())


def _path(value: Any) -> Path:
    if not isinstance(value, str | Path):
        raise TypeError("is not a path")
    return Path(value)


def _flag(value: Any) -> bool:
    if str(value).lower() not in ("true", "false", "1", "0", "on", "off"):
        raise TypeError("is neither true nor false")
    return str(value).lower() in ("true", "1", "on")


def _integer(value: Any) -> int:
    if isinstance(value, bool | float):
        raise TypeError("is not a whole number")
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError("is not a number")
    return float(value)


_CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "str": _text, "tuple[str, ...]": _texts, "Path | None": _path, "bool": _flag, "int": _integer,
    "int | None": _integer, "float": _number,
}  # fmt: skip
"""Conversion of a given value by the annotation of its field."""
