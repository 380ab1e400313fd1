"""Metrics of nodes with disks and certificates, which nodes of other tests lack."""

from __future__ import annotations

from types import SimpleNamespace

from tls_files import Certificates, tls_of

import p2prdf
from p2prdf.gateway.metrics import METRICS, exposition


async def test_a_node_with_a_disk_and_certificates_exports_all_metrics(launcher, tmp_path):
    certificates = Certificates(tmp_path)
    settings = certificates.settings(certificates.node())
    node = launcher.start(replicas=1, copies_min=1, data=tmp_path / "data", **settings)
    async with p2prdf.connect(node.address, tls=tls_of(certificates.client())) as client:
        await client.publish([("<urn:s>", "<urn:p>", '"1"')])
        state = await client.status()
    lines = exposition(state, SimpleNamespace(subscribers=0, answered={}, webhooks=None)).splitlines()
    missing = [each.name for each in METRICS if f"# TYPE {each.name} {each.kind}" not in lines]
    assert missing == []
    told = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert int(told["p2prdf_storage_bytes"]) > 0
    assert told["p2prdf_storage_refusing"] == told["p2prdf_storage_damaged"] == told["p2prdf_fenced"] == "0"
    assert float(told["p2prdf_tls_expires_seconds"]) > 86_400
    assert int(told['p2prdf_publication_seconds_count{level="indexed"}']) >= 1
