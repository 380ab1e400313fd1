"""The state of the node that a gateway uses, and its own, as Prometheus reads them (text format 0.0.4).

A gateway beside each node makes each node a target.  Counters begin at 0 when the process does that counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from p2prdf.gateway.state import Gateway

__all__ = ["METRICS", "Metric", "exposition"]


class Metric(NamedTuple):
    """A metric of a node.

    ``path``: where its value is in the node's state; ``label``: of what its parts tell.  ``of``: what a node must have
    to tell it (a disk, certificates); "": all do.
    """

    name: str
    kind: str
    path: tuple[str, ...]
    text: str
    label: str = ""
    of: str = ""


def _gauge(name: str, path: str, text: str, of: str = "") -> Metric:
    return Metric(f"p2prdf_{name}", "gauge", tuple(path.split(".")), text, "", of)


def _counter(name: str, path: str, text: str, label: str = "") -> Metric:
    return Metric(f"p2prdf_{name}_total", "counter", tuple(path.split(".")), text, label)


def _seconds(name: str, path: str, text: str, label: str = "") -> Metric:
    """Return a histogram (:mod:`p2prdf_node.histogram`)."""
    return Metric(f"p2prdf_{name}_seconds", "histogram", tuple(path.split(".")), text, label)


METRICS: Final = (
    _gauge("uptime_seconds", "uptime_seconds", "Since the node began."),
    _gauge("stopping", "stopping", "1 while the node leaves."),
    _gauge("memory_bytes", "memory_bytes", "Resident memory of the node."),
    _gauge("turn_seconds_max", "turn_seconds_max", "Longest turn of the event loop: nobody else was served."),
    _seconds("turn", "turn_seconds", "Turns of the event loop: their sum is how busy it is."),
    _counter("failures", "failures", "Defects: effects, tasks and callbacks that failed unexpectedly.", "what"),
    _gauge("connections_open", "connections.open", "TCP connections to the node."),
    _counter("connections_refused", "connections.refused", "TCP connections refused, by reason.", "reason"),
    _gauge("peers", "discovery.peers", "Other nodes that are known to be alive."),
    _gauge("member", "discovery.member", "1 if the node is a member of its overlay."),
    _gauge("clock_suspect", "discovery.clock_suspect", "1 if the node's clock may be off."),
    _counter("datagrams_refused", "discovery.datagrams_refused", "Datagrams refused, by reason.", "reason"),
    _gauge(
        "fenced", "discovery.fenced", "1 while the node takes no new work, for its clock or its place on the ring.",
        "a view",
    ),
    _gauge("in_step", "peer.in_step", "1 if the node may speak for the subscriptions it is home of."),
    _gauge("busy", "peer.busy", "1 if the node has no room for publications."),
    _gauge("replicas", "peer.replicas", "Copies that are to be kept of everything."),
    _gauge("copies", "peer.copies", "Copies that there are nodes for."),
    _gauge("copies_needed", "peer.copies_needed", "Copies without which nothing is acknowledged."),
    _gauge("terms", "peer.terms", "Distinct terms held."),
    _gauge("triples", "peer.triples", "Triples held, each once."),
    _gauge("elements", "peer.elements", "Elements of streams held."),
    _gauge("queries", "peer.queries", "Parts of standing queries that wait here."),
    _gauge("rows", "peer.rows", "Partial results held."),
    _gauge("storage_load", "peer.storage_load", "SL of the paper: triples by role, queries and rows held."),
    _counter("processing_load", "peer.processing_load", "QPL of the paper: triples and rows checked against queries."),
    _gauge("subscriptions_home", "peer.subscriptions_home", "Subscriptions that this node is the home of."),
    _gauge("subscriptions_here", "peer.subscriptions_here", "Subscriptions whose subscriber is at this node."),
    _gauge("answers_held", "peer.answers_held", "Answers kept that are not acknowledged."),
    _counter("answers", "peer.answers", "Answers that came home."),
    _counter("answers_repeated", "peer.answers_repeated", "Of these, known already."),
    _counter("answers_dropped", "peer.answers_dropped", "Answers dropped before they were acknowledged."),
    _counter("published", "peer.published", "Triples published at this node."),
    _gauge("publications_open", "peer.publications_open", "Publications that are not yet at their owners."),
    _counter("messages_sent", "peer.sent", "Messages sent to other nodes."),
    _counter("messages_retried", "peer.retries", "Messages sent again."),
    _counter("messages_refused", "peer.refused", "Messages of other nodes refused."),
    _gauge("outbox", "peer.outbox", "Messages that are not acknowledged."),
    _gauge("parked", "peer.parked", "Batches that wait for a lookup, or for more nodes."),
    _gauge("undertakings", "peer.undertakings", "Publications and the like that wait for acknowledgements."),
    _counter("messages_passed_on", "peer.passed_on", "Messages for keys of another node: hops beyond the first."),
    _counter("lookups", "peer.lookups", "Lookups of owners."),
    _counter("address_cache_hits", "peer.address_cache_hits", "Keys resolved without a lookup."),
    _counter("address_cache_misses", "peer.address_cache_misses", "Keys resolved with a lookup."),
    _gauge("keys_split", "peer.keys_split", "Hot keys of this node that are split."),
    _counter("frames_sent", "transport.frames", "Frames sent to other nodes."),
    _counter("bytes_sent", "transport.bytes", "Bytes sent to other nodes."),
    _gauge("parcels_waiting", "transport.waiting", "Messages that no socket has taken yet."),
    _gauge("storage_bytes", "storage.bytes", "Size of the state on the disk.", "a disk"),
    _gauge("storage_queued_bytes", "storage.queued_bytes", "Bytes that wait for the disk.", "a disk"),
    _gauge("storage_waiting", "storage.waiting", "Effects that wait for the disk.", "a disk"),
    _gauge("storage_damaged", "storage.damaged", "Damaged places that were found in the state.", "a disk"),
    _gauge("storage_refusing", "storage.refusal", "1 while the disk takes nothing.", "a disk"),
    _gauge("tls_expires_seconds", "tls.expires_seconds", "Until the node's certificate expires.", "certificates"),
    _gauge("traces_followed", "peer.traces_followed", "Traced publications that are followed now."),
    _counter("traces_begun", "peer.traces_begun", "Publications traced from this node on."),
    _counter("traces_refused", "peer.traces_refused", "Traces that were too many to follow."),
    _counter("trace_spans_cut", "peer.spans_cut", "Spans that were too many to tell."),
    _gauge("clients", "clients.clients", "Clients connected."),
    _gauge("answers_waiting", "clients.answers_waiting", "Answers that wait for a subscriber's room."),
    _gauge("publications_under_way", "clients.publications_under_way", "Publications of clients under way."),
    _gauge("publications_waiting", "clients.publications_waiting", "Publications that wait for room."),
    _gauge("queries_parsing", "clients.queries_parsing", "Queries that wait for the parser."),
    _seconds(
        "publication", "clients.publication_seconds", "From a publication to its acknowledgement.", "level"
    ),
    _seconds(
        "answer_acknowledged", "clients.answer_seconds",
        "From writing a frame of answers to the acknowledgement of its last one.",
    ),
)  # fmt: skip
"""Of the node."""

_NOTHING: Final = object()
"""What a node does not tell."""


def exposition(state: Mapping[str, Any], gateway: Gateway) -> str:
    """Return all metrics: those that the state has, and the gateway's own."""
    return "".join(f"{line}\n" for line in _lines(state, gateway))


def _lines(state: Mapping[str, Any], gateway: Gateway) -> Iterator[str]:
    for metric in METRICS:
        if (value := _found(state, metric.path)) is _NOTHING:
            continue
        yield from _head(metric.name, metric.kind, metric.text)
        if metric.kind == "histogram":
            yield from _histogram(metric, value)
        elif metric.label:
            for name, part in value.items():
                yield f'{metric.name}{{{metric.label}="{name}"}} {_number(part)}'
        else:
            yield f"{metric.name} {_number(value)}"
    yield from _head("p2prdf_gateway_subscribers", "gauge", "Event streams and WebSockets that are open.")
    yield f"p2prdf_gateway_subscribers {gateway.subscribers}"
    yield from _head("p2prdf_gateway_requests_total", "counter", "Requests answered, by path and status.")
    for (path, status), count in sorted(gateway.answered.items()):
        yield f'p2prdf_gateway_requests_total{{path="{path}",status="{status}"}} {count}'


def _histogram(metric: Metric, value: Mapping[str, Any]) -> Iterator[str]:
    parts = value.items() if metric.label else (("", value),)
    for name, part in parts:
        label = f'{metric.label}="{name}"' if metric.label else ""
        more = f"{label}," if label else ""
        for bound, count in zip(part["le"], part["upto"], strict=True):
            yield f'{metric.name}_bucket{{{more}le="{bound:g}"}} {_number(count)}'
        yield f'{metric.name}_bucket{{{more}le="+Inf"}} {_number(part["count"])}'
        braces = f"{{{label}}}" if label else ""
        yield f"{metric.name}_sum{braces} {_number(part['sum'])}"
        yield f"{metric.name}_count{braces} {_number(part['count'])}"


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _found(state: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = state
    for name in path:
        value = value.get(name, _NOTHING) if isinstance(value, dict) else _NOTHING
    return value


def _number(value: Any) -> str:
    if value is None or isinstance(value, str):  # a reason: there is one, or none
        value = value is not None
    return str(int(value)) if isinstance(value, bool | int) else repr(float(value))
