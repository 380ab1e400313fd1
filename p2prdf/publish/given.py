"""Options as Spark passes them: texts, under names in lower case.

Unknown options are refused by name, so that a misspelt option is not silently ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import float_info
from typing import Final

from p2prdf.errors import LocalProtocolError
from p2prdf.tls import Tls

__all__ = ["OptionReader"]

_OF_SPARK: Final = frozenset({"checkpointlocation", "path", "queryname", "truncate"})
"""Spark's own options, which it passes on."""


class OptionReader:
    """Reads options one by one.  All methods raise LocalProtocolError, naming the option."""

    def __init__(self, given: Mapping[str, str]):
        self.given = {name.lower(): value for name, value in given.items()}
        self._taken: set[str] = set()

    def text(self, name: str) -> str:
        """Return an option as it is, "" if it is absent."""
        self._taken.add(name.lower())
        return self.given.get(name.lower(), "").strip()

    def peers(self) -> tuple[str, ...]:
        """Return the nodes to connect to."""
        peers = tuple(part.strip() for part in self.text("peers").split(",") if part.strip())
        if not peers:
            raise LocalProtocolError("option peers is missing: the nodes to connect to, host:port separated by commas")
        for peer in peers:
            host, _, port = peer.rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
                raise LocalProtocolError(f"option peers: {peer!r} is not host:port")
        return peers

    def tls(self) -> Tls | None:
        """Return the files for TLS, None without TLS; every executor has all of them under these names."""
        files = {name: self.text(name) for name in ("tlsCa", "tlsCert", "tlsKey")}
        missing = [name for name, file in files.items() if not file]
        if len(missing) == len(files):
            return None
        if missing:
            raise LocalProtocolError(f"option {missing[0]} is missing: TLS takes all of {', '.join(files)}")
        return Tls(files["tlsCa"], files["tlsCert"], files["tlsKey"])

    def one_of(self, name: str, default: str, values: tuple[str, ...]) -> str:
        """Return one of some values."""
        value = self.text(name).lower() or default
        if value and value not in values:
            raise LocalProtocolError(f"option {name}: {value!r} is neither {' nor '.join(values)}")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean."""
        return self.one_of(name, str(default).lower(), ("true", "false")) == "true"

    def number(self, name: str, default: float, least: float, most: float = float_info.max) -> float:
        """Return a number between two bounds, both included."""
        text = self.text(name)
        try:
            value = float(text) if text else default
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            bound = "on" if most == float_info.max else f"to {most:g}"
            raise LocalProtocolError(f"option {name}: {text!r} is not a number from {least:g} {bound}")
        return value

    def take(self, name: str) -> None:
        """Note that an option is known, by its name in lower case."""
        self._taken.add(name)

    def refuse_others(self) -> None:
        """Refuse all options that were not read."""
        unknown = sorted(self.given.keys() - self._taken - _OF_SPARK)
        if unknown:
            names = ", ".join(unknown)
            raise LocalProtocolError(f"unknown option {names}; docs/reference/spark.md lists the options")
