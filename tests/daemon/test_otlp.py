"""Spans of traced publications come to a collector of OpenTelemetry, sent by a real node over a real socket."""

from __future__ import annotations

import pytest

import p2prdf
from p2prdf_cli.trace_tree import new_traceparent

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed")

from otlp_receiver import receiver

SECONDS = 60.0


async def test_a_collector_gets_the_spans_that_are_logged(launcher, until):
    traced = new_traceparent()
    _, trace, parent, _ = traced.split("-")
    with receiver() as collector:
        node = launcher.start(otlp_endpoint=collector.url, replicas=1, copies_min=1)
        async with p2prdf.connect(node.address) as client:
            subscription = await client.subscribe("SELECT * { ?s <urn:otlp:p> ?o }")
            await client.publish([("<urn:otlp:s>", "<urn:otlp:p>", '"1"')], trace=traced)
            await anext(subscription)

            async def all_there():
                return {"publish", "take", "index", "answer", "deliver"} <= {span.name for _, span in collector.spans}

            await until(all_there, seconds=SECONDS)
            state = await client.status()
        spans = {span.name: span for _, span in collector.spans}
        assert collector.paths == {"/v1/traces"}
        assert {span.trace_id.hex() for span in spans.values()} == {trace}
        assert spans["publish"].parent_span_id.hex() == parent
        assert spans["take"].parent_span_id == spans["index"].parent_span_id == spans["publish"].span_id
        assert spans["answer"].parent_span_id == spans["index"].span_id
        assert all(span.end_time_unix_nano >= span.start_time_unix_nano > 0 for span in spans.values())
        said = {each.key: each.value for each in spans["index"].attributes}
        assert said["p2prdf.rows"].int_value == said["p2prdf.derived"].int_value == 1
        assert {(each["service.name"], each["service.instance.id"]) for each, _ in collector.spans} == {
            ("p2prdf", node.key)
        }
        assert state["otlp"]["failed"] == 0 < state["otlp"]["taken"]
        assert all(f'"span": "{span.span_id.hex()}"' in node.text() for span in spans.values())


async def test_a_collector_that_takes_nothing_costs_its_spans_and_nothing_else(launcher, until):
    with receiver() as collector:
        collector.refuse = True
        node = launcher.start(otlp_endpoint=collector.url, replicas=1, copies_min=1, trace_every=1)
        async with p2prdf.connect(node.address) as client:
            assert await client.publish([("<urn:otlp:s>", "<urn:otlp:p>", '"2"')]) == 1

            async def failed():
                return (await client.status())["otlp"]["failed"]

            await until(failed, seconds=SECONDS)
        assert collector.refused
        assert not collector.spans
        node.terminate()
        assert node.wait(SECONDS) == 0
        assert [line for line in node.text().splitlines() if not line.startswith("{")] == []


def test_an_address_that_is_none_is_refused(launcher):
    node = launcher.launch(otlp_endpoint="collector:4317")
    assert node.wait(SECONDS) == 2
    assert "setting otlp_endpoint: 'collector:4317' is no http or https URL" in node.text()
