"""The state of the node that a gateway uses, and its own, as Prometheus reads them (text format 0.0.4).

A gateway beside each node makes each node a target.  Counters begin at 0 when the process does that counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from p2prdf.gateway.state import Gateway
from p2prdf.monitoring.exposition import counter, gauge, head, lines, seconds

__all__ = ["METRICS", "exposition"]

METRICS: Final = (
    gauge("uptime_seconds", "uptime_seconds", "Since the node began."),
    gauge("stopping", "stopping", "1 while the node leaves."),
    gauge("memory_bytes", "memory_bytes", "Resident memory of the node."),
    gauge("turn_seconds_max", "turn_seconds_max", "Longest turn of the event loop: nobody else was served."),
    seconds("turn", "turn_seconds", "Turns of the event loop: their sum is how busy it is."),
    counter("failures", "failures", "Defects: effects, tasks and callbacks that failed unexpectedly.", "what"),
    gauge("connections_open", "connections.open", "TCP connections to the node."),
    counter("connections_refused", "connections.refused", "TCP connections refused, by reason.", "reason"),
    gauge("peers", "discovery.peers", "Other nodes that are known to be alive."),
    gauge("member", "discovery.member", "1 if the node is a member of its overlay."),
    gauge("clock_suspect", "discovery.clock_suspect", "1 if the node's clock may be off."),
    counter("datagrams_refused", "discovery.datagrams_refused", "Datagrams refused, by reason.", "reason"),
    gauge(
        "fenced", "discovery.fenced", "1 while the node takes no new work, for its clock or its place on the ring.",
        of="a view",
    ),
    gauge("in_step", "peer.in_step", "1 if the node may speak for the subscriptions it is home of."),
    gauge("busy", "peer.busy", "1 if the node has no room for publications."),
    gauge("replicas", "peer.replicas", "Copies that are to be kept of everything."),
    gauge("copies", "peer.copies", "Copies that there are nodes for."),
    gauge("copies_needed", "peer.copies_needed", "Copies without which nothing is acknowledged."),
    gauge("terms", "peer.terms", "Distinct terms held."),
    gauge("triples", "peer.triples", "Triples held, each once."),
    gauge("elements", "peer.elements", "Elements of streams held."),
    gauge("queries", "peer.queries", "Parts of standing queries that wait here."),
    gauge("rows", "peer.rows", "Partial results held."),
    gauge("storage_load", "peer.storage_load", "SL of the paper: triples by role, queries and rows held."),
    counter("processing_load", "peer.processing_load", "QPL of the paper: triples and rows checked against queries."),
    gauge("subscriptions_home", "peer.subscriptions_home", "Subscriptions that this node is the home of."),
    gauge("subscriptions_here", "peer.subscriptions_here", "Subscriptions whose subscriber is at this node."),
    gauge("answers_held", "peer.answers_held", "Answers kept that are not acknowledged."),
    counter("answers", "peer.answers", "Answers that came home."),
    counter("answers_repeated", "peer.answers_repeated", "Of these, known already."),
    counter("answers_dropped", "peer.answers_dropped", "Answers dropped before they were acknowledged."),
    counter("published", "peer.published", "Triples published at this node."),
    gauge("publications_open", "peer.publications_open", "Publications that are not yet at their owners."),
    counter("messages_sent", "peer.sent", "Messages sent to other nodes."),
    counter("messages_retried", "peer.retries", "Messages sent again."),
    counter("messages_refused", "peer.refused", "Messages of other nodes refused."),
    gauge("outbox", "peer.outbox", "Messages that are not acknowledged."),
    gauge("parked", "peer.parked", "Batches that wait for a lookup, or for more nodes."),
    gauge("undertakings", "peer.undertakings", "Publications and the like that wait for acknowledgements."),
    counter("messages_passed_on", "peer.passed_on", "Messages for keys of another node: hops beyond the first."),
    counter("lookups", "peer.lookups", "Lookups of owners."),
    counter("address_cache_hits", "peer.address_cache_hits", "Keys resolved without a lookup."),
    counter("address_cache_misses", "peer.address_cache_misses", "Keys resolved with a lookup."),
    gauge("keys_split", "peer.keys_split", "Hot keys of this node that are split."),
    counter("frames_sent", "transport.frames", "Frames sent to other nodes."),
    counter("bytes_sent", "transport.bytes", "Bytes sent to other nodes."),
    gauge("parcels_waiting", "transport.waiting", "Messages that no socket has taken yet."),
    gauge("storage_bytes", "storage.bytes", "Size of the state on the disk.", of="a disk"),
    gauge("storage_queued_bytes", "storage.queued_bytes", "Bytes that wait for the disk.", of="a disk"),
    gauge("storage_waiting", "storage.waiting", "Effects that wait for the disk.", of="a disk"),
    gauge("storage_damaged", "storage.damaged", "Damaged places that were found in the state.", of="a disk"),
    gauge("storage_refusing", "storage.refusal", "1 while the disk takes nothing.", of="a disk"),
    gauge("tls_expires_seconds", "tls.expires_seconds", "Until the node's certificate expires.", of="certificates"),
    gauge("traces_followed", "peer.traces_followed", "Traced publications that are followed now."),
    counter("traces_begun", "peer.traces_begun", "Publications traced from this node on."),
    counter("traces_refused", "peer.traces_refused", "Traces that were too many to follow."),
    counter("trace_spans_cut", "peer.spans_cut", "Spans that were too many to tell."),
    gauge("clients", "clients.clients", "Clients connected."),
    gauge("answers_waiting", "clients.answers_waiting", "Answers that wait for a subscriber's room."),
    gauge("publications_under_way", "clients.publications_under_way", "Publications of clients under way."),
    gauge("publications_waiting", "clients.publications_waiting", "Publications that wait for room."),
    gauge("queries_parsing", "clients.queries_parsing", "Queries that wait for the parser."),
    seconds(
        "publication", "clients.publication_seconds", "From a publication to its acknowledgement.", "level"
    ),
    seconds(
        "answer_acknowledged", "clients.answer_seconds",
        "From writing a frame of answers to the acknowledgement of its last one.",
    ),
)  # fmt: skip
"""Of the node."""


def exposition(state: Mapping[str, Any], gateway: Gateway) -> str:
    """Return all metrics: those that the state has, and the gateway's own."""
    return "".join(f"{line}\n" for line in (*lines(METRICS, state), *_own(gateway)))


def _own(gateway: Gateway) -> Iterator[str]:
    yield from head("p2prdf_gateway_subscribers", "gauge", "Event streams and WebSockets that are open.")
    yield f"p2prdf_gateway_subscribers {gateway.subscribers}"
    yield from head("p2prdf_gateway_requests_total", "counter", "Requests answered, by path and status.")
    for (path, status), count in sorted(gateway.answered.items()):
        yield f'p2prdf_gateway_requests_total{{path="{path}",status="{status}"}} {count}'
    if gateway.webhooks is not None:
        yield from head("p2prdf_gateway_webhooks", "gauge", "Webhooks that this gateway delivers, by state.")
        for state_name, count in sorted(gateway.webhooks.states().items()):
            yield f'p2prdf_gateway_webhooks{{state="{state_name}"}} {count}'
        yield from head("p2prdf_gateway_webhook_requests_total", "counter", "Requests to receivers, by outcome.")
        for outcome, count in sorted(gateway.webhooks.sender.outcomes.items()):
            yield f'p2prdf_gateway_webhook_requests_total{{outcome="{outcome}"}} {count}'
