"""Metrics of the gateway and of the node that it uses, in the text format 0.0.4 of Prometheus.

With a gateway beside each node, each node is a target.  Counters start at 0 with the process that counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from p2prdf.gateway.state import Gateway
from p2prdf.monitoring.exposition import counter, gauge, head, lines, seconds

__all__ = ["METRICS", "exposition"]

METRICS: Final = (
    gauge("uptime_seconds", "uptime_seconds", "Time since the start of the node."),
    gauge("stopping", "stopping", "1 while the node stops."),
    gauge("memory_bytes", "memory_bytes", "Resident memory of the node."),
    gauge("turn_seconds_max", "turn_seconds_max", "Longest turn of the event loop."),
    seconds(
        "turn", "turn_seconds",
        "Turns of the event loop, with the messages taken in; the rate of their sum is its utilisation.",
    ),
    gauge(
        "turn_component_seconds_max", "turn_component_seconds_max",
        "Most processor time of a component in one turn.", "component",
    ),
    gauge("inbox", "inbox", "Messages of other nodes that wait for their share of a turn."),
    counter("failures", "failures", "Defects: effects, tasks and callbacks with an unexpected exception.", "kind"),
    gauge("connections_open", "connections.open", "TCP connections to the node."),
    counter("connections_refused", "connections.refused", "TCP connections refused, by reason.", "reason"),
    counter(
        "false_digests", "connections.false_digests",
        "Frames refused because a term had the digest of another term, by the peer that sent them.", "peer",
    ),
    counter(
        "connections_evicted", "connections.evicted",
        "Connections without any request closed for newcomers: silent (no hello) or idle.", "state",
    ),
    gauge("peers", "discovery.peers", "Other nodes in the view."),
    gauge("member", "discovery.member", "1 if the node is a member of its cluster."),
    gauge("clock_suspect", "discovery.clock_suspect", "1 if the node's clock may be wrong."),
    counter("datagrams_refused", "discovery.datagrams_refused", "Datagrams refused, by reason.", "reason"),
    gauge(
        "fenced", "discovery.fenced", "1 while the clock or the place of the node forbids new work.",
        of="a view",
    ),
    gauge("joining", "discovery.joining", "1 while the node is of no cluster: it has reached no bootstrap address."),
    gauge("merging", "peer.merging", "1 while two clusters merge that were begun apart; one-time queries are refused."),
    counter("cluster_merges", "peer.cluster_merges", "Meetings of two clusters that the node has heard of."),
    gauge("in_sync", "peer.in_sync", "1 if the node is in sync and may act for the subscriptions that it coordinates."),
    gauge("busy", "peer.busy", "1 if the node has no capacity for publications."),
    gauge("replicas", "peer.replicas", "Configured number of copies."),
    gauge("copies", "peer.copies", "Copies possible with the present nodes."),
    gauge("copies_needed", "peer.copies_needed", "Copies that an acknowledgement waits for."),
    gauge("terms", "peer.terms", "Distinct terms held."),
    gauge("triples", "peer.triples", "Triples held, each once."),
    gauge("elements", "peer.elements", "Elements of streams held."),
    gauge("queries", "peer.queries", "Parts of standing queries that wait at this node."),
    gauge("rows", "peer.rows", "Partial results held."),
    gauge("storage_load", "peer.storage_load", "SL of the paper: triples by index, queries and rows held."),
    counter("processing_load", "peer.processing_load", "QPL of the paper: triples and rows matched with queries."),
    gauge("subscriptions_coordinated", "peer.subscriptions_coordinated", "Subscriptions that this node coordinates."),
    gauge("subscriptions_local", "peer.subscriptions_local", "Subscriptions with a subscriber at this node."),
    gauge("solutions_held", "peer.solutions_held", "Unacknowledged solutions held."),
    counter("solutions", "peer.solutions", "Solutions that reached their coordinator."),
    counter("solutions_repeated", "peer.solutions_repeated", "Duplicates among these."),
    counter("solutions_dropped", "peer.solutions_dropped", "Solutions dropped before their acknowledgement."),
    counter(
        "withheld", "peer.withheld",
        "Partial results and solutions that a replica found missing here, by the primary that owed them.", "peer",
    ),
    gauge("expulsions_reported", "peer.expulsions_reported", "Decisions about members that too few members report."),
    gauge("introductions", "peer.introductions", "Statements of which it is recorded which member introduced them."),
    counter("audited", "peer.audited", "Partial results and solutions derived to check the primaries of keys."),
    counter("published", "peer.published", "Triples published at this node."),
    gauge("publications_open", "peer.publications_open", "Publications that have not reached all owners."),
    counter("messages_sent", "peer.sent", "Messages sent to other nodes."),
    counter("messages_retried", "peer.retries", "Messages sent again."),
    counter("messages_refused", "peer.refused", "Messages of other nodes refused."),
    gauge("outbox", "peer.outbox", "Unacknowledged messages."),
    gauge("batches_waiting", "peer.batches_waiting", "Batches that wait for a lookup, or for more nodes."),
    gauge("operations_pending", "peer.operations_pending", "Operations that wait for acknowledgements of other nodes."),
    counter("messages_forwarded", "peer.forwarded", "Messages forwarded to another owner: hops beyond the first."),
    counter("lookups", "peer.lookups", "Lookups of owners."),
    counter("address_cache_hits", "peer.address_cache_hits", "Keys resolved without a lookup."),
    counter("address_cache_misses", "peer.address_cache_misses", "Keys resolved with a lookup."),
    gauge("keys_split", "peer.keys_split", "Hot keys of this node that are split."),
    counter("frames_sent", "transport.frames", "Frames sent to other nodes."),
    counter("bytes_sent", "transport.bytes", "Bytes sent to other nodes."),
    gauge("send_queue", "transport.waiting", "Messages that wait for a socket."),
    gauge("storage_bytes", "storage.bytes", "Size of the state on the disk.", of="a disk"),
    gauge("storage_queued_bytes", "storage.queued_bytes", "Bytes that wait for the disk.", of="a disk"),
    gauge("storage_waiting", "storage.waiting", "Effects that wait for the disk.", of="a disk"),
    gauge("storage_damaged", "storage.damaged", "Damaged places found in the state.", of="a disk"),
    gauge(
        "storage_false_digests", "storage.false_digests",
        "Terms found with the digests of other terms when the state was read.", of="a disk",
    ),
    gauge("stamps_corrected", "peer.stamps_corrected", "Records that carried a stamp from the future at the start."),
    counter("stamps_refused", "peer.stamps_refused", "Messages that were refused for a stamp from the future."),
    gauge("storage_refusing", "storage.refusal", "1 while the disk refuses writes.", of="a disk"),
    gauge("tls_expires_seconds", "tls.expires_seconds", "Time until the certificate expires.", of="certificates"),
    gauge("traces_active", "peer.traces_active", "Traced publications in progress."),
    counter("traces_started", "peer.traces_started", "Publications with a trace that begins at this node."),
    counter("traces_refused", "peer.traces_refused", "Traces refused because of their number."),
    counter("trace_spans_dropped", "peer.spans_dropped", "Spans omitted because of their number."),
    gauge("clients", "clients.clients", "Connected clients."),
    gauge("solutions_waiting", "clients.solutions_waiting", "Solutions that wait for the window of a subscriber."),
    gauge("publications_in_flight", "clients.publications_in_flight", "Unacknowledged publications of clients."),
    gauge("publications_waiting", "clients.publications_waiting", "Publications that wait for capacity."),
    gauge("queries_parsing", "clients.queries_parsing", "Queries that wait for the parser."),
    seconds(
        "publication", "clients.publication_seconds", "Time from a publication to its acknowledgement.", "level"
    ),
    seconds(
        "solution_acknowledged", "clients.solution_seconds",
        "Time from writing a frame of solutions to the acknowledgement of its last one.",
    ),
)  # fmt: skip
"""Metrics of the node."""


def exposition(state: Mapping[str, Any], gateway: Gateway) -> str:
    """Return all metrics: those present in the node's state, and the gateway's own."""
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
