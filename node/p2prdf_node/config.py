"""Every setting of a node: options, environment, file and defaults, merged and validated.

A setting is declared once, as a field of :class:`NodeConfig` or of its base (:mod:`p2prdf.settings`).  Options of the
caller take precedence over the environment (``P2PRDF_`` and the field's name in capitals, lists separated by commas),
the environment over the TOML file (top-level keys named like the fields; unknown keys are refused), and the file over
the default.  Validation runs once, before a socket is opened; an error names setting, value and source.

The cluster secret seals the datagrams of discovery (:mod:`p2prdf_node.datagrams`).  It comes from a file
(``secret_file``) or from ``P2PRDF_SECRET``, never from an option, because ``ps`` shows options.  A node that listens
on loopback may use the fixed default.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from p2prdf.errors import LocalProtocolError
from p2prdf.overlay.swim_config import ZONE_CHARACTERS_MAX, is_zone
from p2prdf.settings import PeerSettings, check_settings, declarations, setting
from p2prdf_node.addresses import split_address
from p2prdf_node.seal import derived_key

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ORDINALS", "RENAMED", "SETTINGS", "NodeConfig", "load_config"]

_DEFAULT_SECRET: Final = b"p2prdf on loopback: no secret"
_SECRET_BYTES_MIN: Final = 16
_ENVIRONMENT_PREFIX: Final = "P2PRDF_"
_OTLP_ENDPOINT: Final = re.compile(r"https?://[^\s/]+(/\S*)?")
ORDINALS: Final = 1 << 16
"""Number of evenly spaced ring positions that ordinals select."""

RENAMED: Final = {
    "rights": "it is called permissions now",
    "roles": "it is called indexes now, with the values all (the default) and on-demand",
    "answers_window": "it is called solutions_window now",
    "answers_pending_max": "it is called solutions_pending_max now",
    "rows_under_way_max": "it is called rows_in_flight_max now",
    "hot_text": "it is called keyword_routing now",
}
"""Former names of settings, each with the text of its refusal."""


def _listen_address(text: str) -> None:
    split_address(text)


def _advertised_address(text: str) -> None:
    split_address(text, port_min=1, default_port=1)


def _seeds(texts: tuple[str, ...]) -> None:
    for text in texts:
        split_address(text, port_min=1)


def _zone(text: str) -> None:
    if not is_zone(text):
        raise ValueError(f"{text!r} is not a name of at most {ZONE_CHARACTERS_MAX} visible characters")


def _url(text: str) -> None:
    if not _OTLP_ENDPOINT.fullmatch(text):
        raise ValueError(f"{text!r} is no http or https URL")


@dataclass(frozen=True, slots=True)
class NodeConfig(PeerSettings):
    """All settings of one node.  :meth:`validate` is called by :func:`load_config`."""

    listen: str = setting(
        "127.0.0.1:7400", "TCP and UDP address; port 0: a free one.", check=_listen_address, metavar="HOST:PORT"
    )
    health: str = setting(
        "", "Health checks over HTTP, without access control. Paths: /startupz, /readyz, /healthz.",
        check=_listen_address, metavar="HOST:PORT",
    )  # fmt: skip
    advertise: str = setting(
        "", "Address for other nodes, if not the one of listen.", check=_advertised_address, metavar="HOST[:PORT]"
    )
    bootstrap: tuple[str, ...] = setting(
        (), "Seed nodes; without: a new cluster. Names are resolved at every attempt.", check=_seeds,
        metavar="HOST:PORT[,...]",
    )  # fmt: skip
    first: bool = setting(
        False, "Begin a cluster if no seed node answers and --data remembers no member. It waits for two seconds.",
        option=True,
    )  # fmt: skip
    data: Path | None = setting(
        None, "Directory for the identity and state of the node. Without: nothing survives a restart.", metavar="DIR"
    )
    durability: str = setting(
        "auto", "Acknowledge after the write to the disk, before it, or keep nothing. auto: fsync with a data"
        " directory, else memory.", choices=("auto", "fsync", "async", "memory"), option=True,
    )  # fmt: skip
    ordinal: int | None = setting(
        None, "Even place on the ring, unique per node. The index of a StatefulSet's pod; without: by the identifier.",
        least=0, most=ORDINALS - 1, option=True,
    )  # fmt: skip
    secret_file: Path | None = setting(
        None, "Cluster secret, or P2PRDF_SECRET; required beyond loopback. At least 16 bytes.", metavar="FILE"
    )
    seal_keys: Path | None = setting(
        None, "Keys of datagrams, the current one first. Without: derived from the secret.", metavar="FILE"
    )
    default_delivery: str = setting(
        "immediate", "Delivery of standing queries that are not monotone. They have OPTIONAL, MINUS, aggregates or"
        " LIMIT; a subscriber may name the other.", choices=("immediate", "settled"), option=True,
    )  # fmt: skip
    tls_cert: Path | None = setting(
        None, "Use TLS with this certificate (p2prdf ca issue --node). TCP is then mutual TLS 1.3 only.",
        metavar="FILE",
    )  # fmt: skip
    tls_key: Path | None = setting(None, "Private key of that certificate.", metavar="FILE")
    tls_ca: Path | None = setting(
        None, "Certificates of the trusted authorities. Several during a change of authority.", metavar="FILE"
    )
    tls_crl: Path | None = setting(None, "Revocation lists of these authorities.", metavar="FILE")
    permissions: Path | None = setting(
        None, "Permissions of clients. By the names in their certificates; without: everything.", metavar="FILE"
    )
    tls_poll_seconds: float = setting(10.0, "Interval between checks of these files for changes.")
    membership: str = setting(
        "view", "Full or partial membership; equal at all nodes. Nodes know all others, up to 1,000 (view), or some, as"
        " in Kademlia or Chord (overlay).", choices=("view", "overlay"), option=True,
    )  # fmt: skip
    zone: str = setting(
        "", "Failure domain; copies go to different zones. Without: a domain of its own.", check=_zone, metavar="NAME"
    )
    log_format: str = setting(
        "auto", "Format of log lines. auto: console if standard error is a terminal, else json.",
        choices=("auto", "json", "console"), option=True,
    )  # fmt: skip
    log_level: str = setting(
        "info", "Lowest level that is logged.", choices=("debug", "info", "warning", "error"),
        option=True,
    )  # fmt: skip
    otlp_endpoint: str = setting(
        "", "URL of an OpenTelemetry collector (OTLP over HTTP) for spans, in addition to the log.", check=_url
    )

    lease_seconds_max: float = setting(86_400.0, "Longest lease of a subscription.")
    connections_max: int = setting(
        1024, "Open TCP connections; a further one replaces the oldest without any request, or is refused as busy."
    )
    connections_per_address_max: int = setting(
        768, "Open TCP connections from one IP address, nodes excepted; further ones are refused as busy."
    )
    publications_max: int = setting(
        64, "Unacknowledged publications of one client; the node stops reading from the client beyond."
    )
    subscriptions_max: int = setting(
        16_384, "Subscriptions delivered to one client; further ones are refused as busy."
    )
    node_subscriptions_max: int = setting(
        262_144, "Subscriptions delivered by this node to all its clients; further ones are refused as busy."
    )
    publish_triples_per_second: float = setting(
        math.inf, "Triples per second of one client; excess publications wait, then are refused as busy.",
        unlimited=True,
    )  # fmt: skip
    publish_bytes_per_second: float = setting(
        math.inf, "Bytes per second of one publishing client; excess publications wait, then are refused as busy.",
        unlimited=True,
    )  # fmt: skip
    queries_pending_max: int = setting(
        1024, "Queries of all clients that wait for the parser; further ones are refused as busy."
    )
    terms_max: int = setting(1 << 31, "Distinct terms that this process accepts.")
    queued_bytes_max: int = setting(
        64 << 20, "Bytes that wait for the disk; beyond, connections that write are not read."
    )
    compact_bytes_min: int = setting(
        16 << 20, "Least size of the state on the disk for a compaction, which runs when the size has doubled."
    )
    hello_seconds: float = setting(5.0, "Deadline for the first message of a connection.")
    frame_seconds: float = setting(30.0, "Deadline for the rest of a frame.")
    idle_seconds: float = setting(60.0, "Idle time after which a link to a node is closed.")
    connect_seconds: float = setting(5.0, "Deadline for a connection to a node.")
    parse_seconds: float = setting(5.0, "Deadline for parsing one query.")
    admission_seconds: float = setting(2.0, "Longest wait of a publication for capacity; then it is refused as busy.")
    drain_seconds: float = setting(
        20.0, "Longest time for an orderly stop: accepted work, and the handoff of copies."
    )
    ping_seconds: float = setting(0.5, "Interval between pings of other nodes.")
    ping_timeout_seconds: float = setting(0.25, "Deadline of the answer to a ping.")
    ping_strikes: int = setting(2, "Consecutive unanswered pings after which a node counts as failed.")
    ping_strikes_linked: int = setting(12, "The same for a node with an open TCP connection.")

    secret: bytes = field(default=b"", repr=False)
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
        check_settings(self)
        if self.membership == "overlay" and self.replicas > 1:
            raise LocalProtocolError(
                f"setting membership: 'overlay' goes with one replica (settings replicas and copies_min), not"
                f" {self.replicas}: copies need membership view"
            )
        if self.data is None and self.durability in ("fsync", "async"):
            raise LocalProtocolError(f"setting durability: {self.durability!r} needs a directory (setting data)")
        self._check_tls()
        if self.copies_min > self.replicas:
            raise LocalProtocolError(f"setting copies_min: {self.copies_min} is more than {self.replicas} replicas")
        if self.secret and len(self.secret) < _SECRET_BYTES_MIN:
            raise LocalProtocolError(
                f"setting secret: {len(self.secret)} bytes are too few, {_SECRET_BYTES_MIN} are needed"
            )
        if not self.secret and not _is_loopback(self.listen_address[0]):
            raise LocalProtocolError(
                f"setting listen: {self.listen!r} is not a loopback address, so a cluster secret is needed"
                " (setting secret_file or P2PRDF_SECRET): without one anyone could join"
            )

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


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


SETTINGS: Final = declarations(NodeConfig)
"""The declaration of each setting by name."""


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
            values[name] = _converted(name, value, source)
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
    given = {name: environment.get(_ENVIRONMENT_PREFIX + name.upper()) for name in SETTINGS}
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


def _converted(name: str, value: Any, source: str) -> Any:
    if name in RENAMED:
        raise LocalProtocolError(f"setting {name} ({source}): {RENAMED[name]}")
    if name not in SETTINGS:
        raise LocalProtocolError(f"setting {name} ({source}): unknown setting")
    return SETTINGS[name].convert(name, value, source)
