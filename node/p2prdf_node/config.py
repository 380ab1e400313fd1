"""Every setting of a node: options, environment, file and defaults, merged and validated.

A setting is a field of :class:`NodeConfig`.  Options of the caller take precedence over the environment (``P2PRDF_``
and the field's name in capitals, lists separated by commas), the environment over the TOML file (top-level keys named
like the fields; unknown keys are refused), and the file over the default.  Validation runs once, before a socket is
opened; an error names setting, value and source.

The cluster secret seals the datagrams of discovery (:mod:`p2prdf_node.discovery`).  It comes from a file
(``secret_file``) or from ``P2PRDF_SECRET``, never from an option, because ``ps`` shows options.  A node that listens
on loopback may use the fixed default.
"""

from __future__ import annotations

import dataclasses
import hashlib
import ipaddress
import math
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from p2prdf.errors import LocalProtocolError
from p2prdf.overlay.address_cache import OVERLAYS
from p2prdf.overlay.swim_config import ZONE_CHARACTERS_MAX, is_zone
from p2prdf_node.seal import derived_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ORDINALS", "RENAMED", "NodeConfig", "format_address", "load_config", "split_address"]

_DEFAULT_SECRET: Final = b"p2prdf on loopback: no secret"
_SECRET_BYTES_MIN: Final = 16
_ENVIRONMENT_PREFIX: Final = "P2PRDF_"
_OTLP_ENDPOINT: Final = re.compile(r"https?://[^\s/]+(/\S*)?")
ORDINALS: Final = 1 << 16
"""Number of evenly spaced ring positions that ordinals select."""

RENAMED: Final = {
    "rights": "it is called permissions now",
    "roles": "it is called indexes now, with the values all (the default) and on-demand",
}
"""Former names of settings, each with the text of its refusal."""


@dataclasses.dataclass(frozen=True, slots=True)
class NodeConfig:
    """All settings of one node.  :meth:`validate` is called by :func:`load_config`."""

    listen: str = "127.0.0.1:7400"
    """Address for TCP (nodes and clients) and UDP (discovery).  Port 0 takes a free port."""
    health: str = ""
    """Address (host:port) for health checks over HTTP without access control (``/startupz``, ``/readyz``,
    ``/healthz``); none if empty."""
    advertise: str = ""
    """Host or host:port for other nodes; the listening address if empty."""
    bootstrap: tuple[str, ...] = ()
    """Addresses (host:port) of seed nodes; names are resolved at every attempt.  Without: the node begins a cluster."""
    first: bool = False
    """Begin a cluster if no bootstrap address answers within two seconds and ``data`` remembers no other member."""
    data: Path | None = None
    """Directory for the identifier and the state of the node; without one nothing survives a restart."""
    durability: str = "auto"
    """Acknowledge after the write to the disk (``fsync``), before it (``async``), or keep nothing (``memory``).
    ``auto``: fsync with a data directory, else memory."""
    replicas: int = 3
    """Copies of the data of each key; 1: no replication."""
    copies_min: int = 2
    """Copies that an acknowledgement waits for; all nodes of a cluster that never had so many."""
    ordinal: int | None = None
    """Place among evenly placed nodes, unique in the cluster (the index of a StatefulSet's pod)."""
    secret_file: Path | None = None
    """File with the cluster secret: at least 16 bytes, without white space at the ends."""
    seal_keys: Path | None = None
    """File with the keys of datagrams, the current one first; without it the key is derived from the secret."""
    tls_cert: Path | None = None
    """Certificate of this node, with its key; with ``tls_key`` and ``tls_ca`` TCP is mutual TLS 1.3 only."""
    tls_key: Path | None = None
    """Private key of the certificate."""
    tls_ca: Path | None = None
    """Certificates of the trusted authorities; several during a change of authority."""
    tls_crl: Path | None = None
    """Revocation lists of these authorities."""
    permissions: Path | None = None
    """File with the permissions of clients, by the names in their certificates; without it all is permitted."""
    tls_poll_seconds: float = 10.0
    """Interval between checks of these files for changes."""
    overlay: str = "kademlia"
    """Routing and ownership of keys; the same at all nodes."""
    membership: str = "view"
    """``view``: all nodes know all others, up to 1,000; ``overlay``: each knows some, as in Kademlia or Chord.  The
    same at all nodes."""
    zone: str = ""
    """Failure domain of the node; a node without a zone is a domain of its own."""
    indexes: str = "all"
    """``all``: put every triple into every index, so that every query is answered over everything published;
    ``on-demand``: only into those that standing queries need, for clusters that only pass streams on."""

    log_format: str = "auto"
    """``auto``: console if standard error is a terminal, else json."""
    log_level: str = "info"
    """Lowest level that is logged."""
    trace_every: int = 0
    """Trace one in this many publications of clients; 0: only those with a trace of their own."""
    otlp_endpoint: str = ""
    """URL of an OpenTelemetry collector (OTLP over HTTP) for spans, in addition to the log."""

    lease_seconds_max: float = 86_400.0
    """Longest lease of a subscription."""
    connections_max: int = 1024
    """Open TCP connections; a further one replaces the oldest without any request, or is refused as busy."""
    connections_per_address_max: int = 768
    """Open TCP connections from one IP address, nodes excepted; further ones are refused as busy."""
    publications_max: int = 64
    """Unacknowledged publications of one client; the node stops reading from the client beyond."""
    subscriptions_max: int = 16_384
    """Subscriptions delivered to one client; further ones are refused as busy."""
    node_subscriptions_max: int = 262_144
    """Subscriptions delivered by this node to all its clients; further ones are refused as busy."""
    publish_triples_per_second: float = math.inf
    """Triples per second of one client; excess publications wait, then are refused as busy."""
    publish_bytes_per_second: float = math.inf
    """Bytes per second of one publishing client; excess publications wait, then are refused as busy."""
    queries_pending_max: int = 1024
    """Queries of all clients that wait for the parser; further ones are refused as busy."""
    answers_window: int = 16_384
    """Unacknowledged solutions of one subscription between its coordinator and its client."""
    query_rows_max: int = 1_000_000
    """Rows of the operators of one query; a query with more is ended."""
    answers_pending_max: int = 1_000_000
    """Solutions kept for one subscription; beyond, the oldest are dropped and reported as a gap."""
    retention_bytes: int = 512 << 20
    """Approximate bytes of the solutions kept for one subscription; beyond, the oldest are dropped, as a gap."""
    retention_seconds: float = 7 * 86_400.0
    """Longest time that unacknowledged solutions are kept; then they are dropped and reported as a gap."""
    introductions_max: int = 1_000_000
    """Statements of which this node records which member introduced them; with more the oldest half is dropped.
    0: it records none."""
    turn_budget_seconds: float = 0.02
    """Processor time after which a turn of the event loop stops, so that sockets are read; the next turn goes on."""
    audit_seconds: float = 20.0
    """Time after a publication at which replicas check samples of what its primary delivered; 0: no checks."""
    stream_idle_seconds: float = 10.0
    """Longest wait for a silent publisher of a stream; then windows close without its later elements."""
    stream_retention_seconds: float = 7 * 86_400.0
    """Event time for which elements of streams are kept, in addition to the needs of queries; 0: forever.  The same at
    all nodes."""
    rows_under_way_max: int = 262_144
    """Triples published at this node and not yet at their owners; further publications wait."""
    triples_max: int = 200_000_000
    """Triples and partial results held; further publications wait."""
    terms_max: int = 1 << 31
    """Distinct terms that this process accepts."""
    queued_bytes_max: int = 64 << 20
    """Bytes that wait for the disk; beyond, connections that write are not read."""
    compact_bytes_min: int = 16 << 20
    """Least size of the state on the disk for a compaction, which runs when the size has doubled."""

    hot_keys: str = "on"
    """``on``: split keys with too much load; ``off``: only follow the splits of other nodes."""
    hot_interval_seconds: float = 30.0
    """Interval between decisions about splits."""
    hot_rate_min: int = 10_000
    """Least number of triples under a key in an interval for a split."""
    hot_share: float = 0.5
    """Largest load of one sub-key, as a share of the mean load of all nodes."""

    hot_text: str = "off"
    """``on``: index queries with text conditions by keyword; ``off``: by predicate."""

    clock_skew_seconds: float = 0.001
    """Largest clock difference of nodes; subscriptions become live with this delay."""

    hello_seconds: float = 5.0
    """Deadline for the first message of a connection."""
    frame_seconds: float = 30.0
    """Deadline for the rest of a frame."""
    idle_seconds: float = 60.0
    """Idle time after which a link to a node is closed."""
    connect_seconds: float = 5.0
    """Deadline for a connection to a node."""
    parse_seconds: float = 5.0
    """Deadline for parsing one query."""
    admission_seconds: float = 2.0
    """Longest wait of a publication for capacity; then it is refused as busy."""
    drain_seconds: float = 20.0
    """Longest time for an orderly stop: accepted work, and the handoff of copies."""

    ping_seconds: float = 0.5
    """Interval between pings of other nodes."""
    ping_timeout_seconds: float = 0.25
    """Deadline of the answer to a ping."""
    ping_strikes: int = 2
    """Consecutive unanswered pings after which a node counts as failed."""
    ping_strikes_linked: int = 12
    """The same for a node with an open TCP connection."""

    secret: bytes = dataclasses.field(default=b"", repr=False)
    """The cluster secret itself; filled in by :func:`load_config`."""

    @property
    def listen_address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        return split_address(self.listen)

    @property
    def tls(self) -> bool:
        """Whether TCP is TLS."""
        return self.tls_cert is not None

    @property
    def durability_in_force(self) -> str:
        """``fsync``, ``async`` or ``memory``."""
        if self.durability != "auto":
            return self.durability
        return "memory" if self.data is None else "fsync"

    @property
    def cluster_name(self) -> bytes:
        """Eight bytes derived from the secret that mark this cluster's state on the disk."""
        return hashlib.blake2b(self.seal_key, digest_size=8, person=b"p2prdf-cluster").digest()

    @property
    def seal_key(self) -> bytes:
        """Key derived from the secret that seals datagrams, unless ``seal_keys`` gives other keys."""
        return derived_key(self.secret or _DEFAULT_SECRET)

    @property
    def publisher_key(self) -> bytes:
        """Key derived from the secret for the publisher numbers of named clients."""
        return hashlib.blake2b(self.secret or _DEFAULT_SECRET, digest_size=32, person=b"p2prdf-names").digest()

    def validate(self) -> None:
        """Raise LocalProtocolError with the setting, its value and the reason of the refusal."""
        host, _ = self._check_addresses()
        self._choice("overlay", tuple(OVERLAYS))
        self._choice("membership", ("view", "overlay"))
        if self.membership == "overlay" and self.replicas > 1:
            raise LocalProtocolError(
                f"setting membership: 'overlay' goes with one replica (settings replicas and copies_min), not"
                f" {self.replicas}: copies need membership view"
            )
        self._choice("indexes", ("all", "on-demand"))
        if not is_zone(self.zone):
            raise LocalProtocolError(
                f"setting zone: {self.zone!r} is not a name of at most {ZONE_CHARACTERS_MAX} visible characters"
            )
        if self.otlp_endpoint and not _OTLP_ENDPOINT.fullmatch(self.otlp_endpoint):
            raise LocalProtocolError(f"setting otlp_endpoint: {self.otlp_endpoint!r} is no http or https URL")
        self._choice("durability", ("auto", "fsync", "async", "memory"))
        if self.data is None and self.durability in ("fsync", "async"):
            raise LocalProtocolError(f"setting durability: {self.durability!r} needs a directory (setting data)")
        self._check_tls()
        self._choice("hot_keys", ("on", "off"))
        self._choice("hot_text", ("on", "off"))
        self._choice("log_format", ("auto", "json", "console"))
        self._choice("log_level", ("debug", "info", "warning", "error"))
        if self.copies_min > self.replicas:
            raise LocalProtocolError(f"setting copies_min: {self.copies_min} is more than {self.replicas} replicas")
        if self.ordinal is not None and not 0 <= self.ordinal < ORDINALS:
            raise LocalProtocolError(f"setting ordinal: {self.ordinal} is not between 0 and {ORDINALS - 1}")
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            unlimited = value == math.inf and field.name.endswith("_per_second")
            if isinstance(value, bool):
                continue
            unlimited |= value == 0 and field.name in ("stream_retention_seconds", "trace_every")
            if field.name != "ordinal" and isinstance(value, int | float) and not (0 < value < 1e12 or unlimited):
                raise LocalProtocolError(f"setting {field.name}: {value!r} is not a positive number in range")
        if self.secret and len(self.secret) < _SECRET_BYTES_MIN:
            raise LocalProtocolError(
                f"setting secret: {len(self.secret)} bytes are too few, {_SECRET_BYTES_MIN} are needed"
            )
        if not self.secret and not _is_loopback(host):
            raise LocalProtocolError(
                f"setting listen: {self.listen!r} is not a loopback address, so a cluster secret is needed"
                " (setting secret_file or P2PRDF_SECRET): without one anyone could join"
            )

    def _check_addresses(self) -> tuple[str, int]:
        """Check all addresses; return the one to listen on."""
        if self.advertise:
            self._address("advertise", self.advertise, default_port=1)
        if self.health:
            self._address("health", self.health, port_min=0)
        for address in self.bootstrap:
            self._address("bootstrap", address)
        return self._address("listen", self.listen, port_min=0)

    def _check_tls(self) -> None:
        files = {name: getattr(self, name) for name in ("tls_cert", "tls_key", "tls_ca")}
        missing = [name for name, path in files.items() if path is None]
        if missing and (len(missing) < len(files) or self.tls_crl is not None):
            raise LocalProtocolError(
                f"setting {missing[0]}: not given: TLS needs all of {', '.join(files)}"
            )
        if self.permissions is not None and not self.tls:
            raise LocalProtocolError(
                f"setting permissions: {self.permissions}: they need the names in certificates, so TLS is needed"
                f" (settings {', '.join(files)})"
            )

    @staticmethod
    def _address(name: str, text: str, *, port_min: int = 1, default_port: int | None = None) -> tuple[str, int]:
        try:
            return split_address(text, port_min=port_min, default_port=default_port)
        except ValueError as error:
            raise LocalProtocolError(f"setting {name}: {error}") from None

    def _choice(self, name: str, allowed: tuple[str, ...]) -> None:
        if getattr(self, name) not in allowed:
            value = getattr(self, name)
            raise LocalProtocolError(f"setting {name}: {value!r} is none of {', '.join(allowed)}")


def split_address(text: str, *, port_min: int = 0, default_port: int | None = None) -> tuple[str, int]:
    """Split ``host:port`` (IPv6 hosts in brackets).  Raises ValueError naming the text and the reason."""
    host, colon, port_text = text.strip().rpartition(":")
    if default_port is not None and (not colon or text.strip().endswith("]")):
        host, port_text = text.strip(), str(default_port)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r} is not host:port (write an IPv6 address in brackets)")
    if not host or not port_text.isascii() or not port_text.isdigit():
        raise ValueError(f"{text!r} is not host:port")
    if not port_min <= int(port_text) <= 65_535:
        raise ValueError(f"{text!r}: port {port_text} is not between {port_min} and 65535")
    return host, int(port_text)


def format_address(host: str, port: int) -> str:
    """Spell an address so that :func:`split_address` reads it back."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# --- merging -------------------------------------------------------------------------------------


def load_config(
    options: Mapping[str, Any] | None = None,
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> NodeConfig:
    """Merge options (None: not given), environment and TOML file, and validate the result.

    Raises LocalProtocolError.
    """
    environment = environment or {}
    values: dict[str, Any] = {}
    for name, reason in RENAMED.items():
        variable = _ENVIRONMENT_PREFIX + name.upper()
        if environment.get(variable):
            raise LocalProtocolError(f"setting {name} (environment, {variable}): {reason}")
    for source, given in (
        (str(file), _read_file(file) if file is not None else {}),
        ("environment", _from_environment(environment)),
        ("option", {name: value for name, value in (options or {}).items() if value is not None}),
    ):
        for name, value in given.items():
            values[name] = _coerce(name, value, source)
    values["secret"] = _secret(values.get("secret_file"), environment)
    config = NodeConfig(**values)
    config.validate()
    return config


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise LocalProtocolError(f"configuration file {path}: {error}") from error


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    given = {name: environment.get(_ENVIRONMENT_PREFIX + name.upper()) for name in _COERCIONS}
    return {name: value for name, value in given.items() if value}


def _secret(path: Path | None, environment: Mapping[str, str]) -> bytes:
    if path is None:
        return environment.get(_ENVIRONMENT_PREFIX + "SECRET", "").encode()
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise LocalProtocolError(f"setting secret_file: {path}: {error.strerror}") from error
    if not secret:
        raise LocalProtocolError(f"setting secret_file: {path} is empty")
    return secret


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
    if isinstance(value, bool):
        return value
    if str(value).lower() not in ("true", "false", "1", "0"):
        raise TypeError("is neither true nor false")
    return str(value).lower() in ("true", "1")


def _integer(value: Any) -> int:
    if isinstance(value, bool | float):
        raise TypeError("is not a whole number")
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError("is not a number")
    return float(value)


_BY_TYPE: Final[dict[str, Callable[[Any], Any]]] = {
    "str": _text,
    "tuple[str, ...]": _texts,
    "Path | None": _path,
    "bool": _flag,
    "int": _integer,
    "int | None": _integer,
    "float": _number,
}
_COERCIONS: Final = {
    field.name: _BY_TYPE[str(field.type)] for field in dataclasses.fields(NodeConfig) if field.name != "secret"
}


def _coerce(name: str, value: Any, source: str) -> Any:
    coercion = _COERCIONS.get(name)
    if name in RENAMED:
        raise LocalProtocolError(f"setting {name} ({source}): {RENAMED[name]}")
    if coercion is None:
        raise LocalProtocolError(f"setting {name} ({source}): unknown setting")
    try:
        return coercion(value)
    except (TypeError, ValueError) as error:
        raise LocalProtocolError(f"setting {name} ({source}): {value!r}: {error}") from None
