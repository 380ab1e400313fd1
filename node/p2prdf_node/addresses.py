"""The written form of addresses: ``host:port``, with IPv6 hosts in brackets."""

from __future__ import annotations

__all__ = ["format_address", "split_address"]


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
