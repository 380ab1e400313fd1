"""The fleet of k8s/fleet against real nodes: its driver's own arguments, real Spark, executors by the image's entry.

tests/support/kube_api.py plays Kubernetes; its pods are processes of this machine.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip("pyspark")

from kube_api import KubeApi, image_environment, variables

import p2prdf

ROOT = Path(__file__).parents[2]
FLEET = ROOT / "k8s/fleet"
DRIVER = "p2prdf-fleet-1-abcde"
COUNT = 2_000


@pytest.fixture
def cluster(tmp_path):
    """A cluster with a pod for the driver."""
    logs = tmp_path / "pods"
    logs.mkdir()
    api = KubeApi(ROOT / "deploy/fleet-entrypoint", logs, image_environment(sys.executable))
    api.driver(DRIVER)
    yield api
    api.close()


def arguments_of_the_driver(api, overlay, tmp_path):
    """Return the arguments of the driver's container, with this machine in the place of a cluster."""
    job = yaml.safe_load((FLEET / "job.yaml").read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    fields = {
        "metadata.labels['batch.kubernetes.io/job-name']": "p2prdf-fleet",
        "metadata.annotations['batch.kubernetes.io/job-completion-index']": "1",
        "metadata.name": DRIVER, "metadata.namespace": "default", "status.podIP": "127.0.0.1",
    }  # fmt: skip
    arguments = []
    for argument in container["args"]:
        for name, value in variables(container, fields).items():
            argument = argument.replace(f"$({name})", value)
        assert "$(" not in argument
        arguments.append(argument)
    instead = {
        "/dumps/": f"{tmp_path}/dumps/", "p2prdf:7400": ",".join(node.address for node in overlay),
        "https://kubernetes.default.svc": api.url, "/etc/p2prdf/": f"{FLEET}/", "memory=1g": "memory=512m",
        "port=7078": "port=0", "blockManager.port=7079": "blockManager.port=0", "instances=2": "instances=1",
    }  # fmt: skip
    for old, new in instead.items():
        assert any(old in argument for argument in arguments), old
        arguments = [argument.replace(old, new) for argument in arguments]
    # The API here has no watches: how pods are is asked for instead.
    return [*arguments, "--conf=spark.kubernetes.executor.enableApiWatcher=false", "--json"]


@pytest.mark.long
def test_a_driver_has_executors_of_its_own_publish_its_folder(cluster, overlay, tmp_path):
    folder = tmp_path / "dumps/1"
    folder.mkdir(parents=True)
    for part in range(2):
        numbers = range(part, COUNT, 2)
        (folder / f"{part}.nt").write_text("".join(f'<urn:fleet:{at}> <urn:fleet:p> "{at}" .\n' for at in numbers))

    async def run():
        async with p2prdf.connect(overlay[1].address) as client:
            subscription = await client.subscribe("SELECT ?s ?o WHERE { ?s <urn:fleet:p> ?o }")
            driver = await asyncio.create_subprocess_exec(
                ROOT / "deploy/fleet-entrypoint", *arguments_of_the_driver(cluster, overlay, tmp_path),
                env=cluster.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            try:
                async with asyncio.timeout(120):
                    out, err = await driver.communicate()
            finally:
                if driver.returncode is None:
                    driver.kill()
            assert driver.returncode == 0, err.decode() + cluster.text()
            found = set()
            async with asyncio.timeout(20):
                while len(found) < COUNT:
                    found.add((await anext(subscription)).terms)
            return json.loads(out), found

    told, found = asyncio.run(run())
    assert told["triples"] == COUNT
    assert found == {(f"<urn:fleet:{at}>", f'"{at}"') for at in range(COUNT)}
    executors = [pod for name, pod in cluster.created.items() if name != DRIVER]
    assert len(executors) == 1
    for pod in executors:
        template = yaml.safe_load((FLEET / "executor.yaml").read_text())
        assert pod["metadata"]["name"].startswith(DRIVER)
        assert template["metadata"]["labels"].items() <= pod["metadata"]["labels"].items()
        assert pod["metadata"]["ownerReferences"][0]["name"] == DRIVER
        (container,) = pod["spec"]["containers"]
        assert container["image"] == "p2prdf-fleet:0.2.0"
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert {"dumps", "scratch"} <= {mount["name"] for mount in container["volumeMounts"]}
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert {"pods", "configmaps"} <= cluster.deleted, "the driver cleans up"
