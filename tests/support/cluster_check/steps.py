"""One function per step.

Each adds facts and counts to its result, and raises Failed with the reason where the cluster is not as it should be.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cluster_check.counts import Counts, read_last_line, read_values
from cluster_check.kubectl import Cluster, Failed
from cluster_check.objects import as_text, client_objects, dumps_objects, in_namespace, without
from cluster_check.report import Result
from cluster_check.tree import CHECK, NAMESPACE, TLS, TLS_NAMESPACE, documented_commands

__all__ = ["RUN", "Check"]

NODE: Final = "p2prdf"
PEER: Final = "p2prdf:7400"
OWN: Final = "127.0.0.1:7400"
SERVICES: Final = ("gateway", "interest-worker", "channel-worker")
RENDERED: Final = (
    "k8s/base", "k8s/gateway", "k8s/interest-workers", "k8s/channel-workers", "k8s/fleet",
    "k8s/overlays/dev", "k8s/overlays/prod", CHECK,
    TLS,
)  # fmt: skip
HTTP_TRIPLES: Final = 200
CHANNEL_GRAPHS: Final = 20
FLEET_TRIPLES: Final = 2000
BEFORE_SECONDS: Final = 5.0
"""Load before and after a fault, so that a pause is seen."""


@dataclass(slots=True)
class Check:
    """The state that the steps share.

    ``page``: the documentation with the commands to run.  ``cli``: p2prdf outside the pods.
    """

    cluster: Cluster
    page: str
    image: str
    fleet_image: str | None
    cli: Path
    rate: float = 20.0
    late_seconds: float = 60.0
    storage_class: str | None = None
    token: str = field(default_factory=lambda: secrets.token_hex(16))

    # --- pods ---

    def exec(
        self, pod: str, *words: str, given: str | None = None, seconds: float = 120, where: str = NAMESPACE
    ) -> str:
        """Run a command in a pod; return its output."""
        return self.cluster.run("-n", where, "exec", "-i", pod, "--", *words, given=given, seconds=seconds)

    def apply(self, objects: str, *, where: str = NAMESPACE) -> None:
        """Apply objects given as text, by strict validation."""
        self.cluster.run("-n", where, "apply", "--validate=strict", "-f", "-", given=objects)

    def whole(self, count: int, *, where: str = NAMESPACE) -> bool:
        """Whether the first ``count`` pods are ready and each of their nodes knows exactly the others."""
        names = [f"{NODE}-{at}" for at in range(count)]
        if self.cluster.ready_pods(where, NODE) != names:
            return False
        for name in names:
            done = self.cluster.try_("-n", where, "exec", name, "--", "p2prdf", "status", "--peer", OWN, "--json")
            if done.returncode != 0 or len(json.loads(done.stdout)["peers"]) != count - 1:
                return False
        return True

    def wait_whole(self, count: int, *, where: str = NAMESPACE) -> float:
        """Wait until all nodes know each other; return the seconds."""
        return self.cluster.wait_until(
            lambda: self.whole(count, where=where), f"{count} ready nodes that know each other", seconds=300
        )

    def remove(self, namespace: str) -> None:
        """Delete a namespace with its claims, and wait for its end."""
        self.cluster.run("delete", "namespace", namespace, "--ignore-not-found", "--timeout=300s", seconds=330)

    def restarts(self, *, where: str = NAMESPACE) -> int:
        """Return how often containers of nodes were restarted."""
        pods = self.cluster.get("pods", "-n", where, "-l", f"app.kubernetes.io/name={NODE}")["items"]
        return sum(each["restartCount"] for pod in pods for each in pod["status"].get("containerStatuses", []))

    @contextlib.contextmanager
    def load(self, result: Result, name: str, *, where: str = NAMESPACE) -> Iterator[None]:
        """Publish and subscribe from the client pod while the block runs; count at its end.  Raises Failed."""
        words = ("python3", "/check/load.py", PEER, name, str(self.rate))
        with self.cluster.start("-n", where, "exec", "-i", "check", "--", *words) as process:
            try:
                assert process.stdout is not None
                if process.stdout.readline().strip() != "live":
                    raise Failed(f"the load did not start: {process.communicate()[1][-600:]}")
                time.sleep(BEFORE_SECONDS)
                yield
                time.sleep(BEFORE_SECONDS)
                out, errors = process.communicate("stop\n", timeout=300 * self.cluster.patience)
            except subprocess.TimeoutExpired:
                raise Failed("the load did not end") from None
            finally:
                process.kill()
        try:
            counts = Counts.of_ledger(read_last_line(out))
        except ValueError as error:
            raise Failed(f"{error}; {errors[-600:]}") from None
        result.counts.append(counts)
        if not counts.good:
            raise Failed("publications were lost, doubled, phantom or retracted, or the load failed")


# --- manifests -----------------------------------------------------------------------------------


def validate(check: Check, result: Result) -> None:
    """Let the API server validate each folder strictly, in a namespace that warns below ``restricted``."""
    cluster = check.cluster
    levels = {f"pod-security.kubernetes.io/{each}": "restricted" for each in ("enforce", "warn")}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": levels}}
    cluster.run("apply", "-f", "-", given=json.dumps(namespace))
    objects = 0
    wrong = []
    for folder in RENDERED:
        moved = in_namespace(cluster.run("kustomize", folder), NAMESPACE)
        words = ("-n", NAMESPACE, "apply", "--dry-run=server", "--validate=strict", "-f", "-")
        done = cluster.try_(*words, given=as_text(moved))
        if done.returncode != 0 or "Warning" in done.stderr:
            wrong.append(f"{folder}: {done.stderr.strip()}")
        objects += len(moved)
    check.remove(NAMESPACE)
    if wrong:
        raise Failed("; ".join(wrong))
    result.facts.append(f"{objects} objects of {len(RENDERED)} folders accepted without a warning")


def docs(check: Check, result: Result) -> None:
    """Run the section Three nodes: its subscriber must print the triples of its publisher."""
    commands = documented_commands(check.page, "Three nodes")
    kubectl = [each for each in commands if each.startswith(("kubectl", "echo"))]
    subscribe = [each for each in kubectl if "p2prdf subscribe" in each]
    publish = [each for each in kubectl if "p2prdf publish" in each]
    if len(subscribe) != 1 or len(publish) != 1:
        raise Failed("the section Three nodes has not one command that subscribes and one that publishes")
    for command in kubectl[: kubectl.index(subscribe[0])]:
        check.cluster.shell(command, seconds=400)
    terminal = subscribe[0].replace("exec -it ", "exec -i ")
    with subprocess.Popen(
        ["bash", "-c", terminal], cwd=check.cluster.folder, env=check.cluster.environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as subscriber:  # fmt: skip
        try:
            time.sleep(BEFORE_SECONDS * check.cluster.patience)
            check.cluster.shell(publish[0])
            assert subscriber.stdout is not None
            lines = [subscriber.stdout.readline() for _ in range(2)]
        finally:
            subscriber.kill()
    if not any("<urn:ann>" in line for line in lines):
        raise Failed(f"the subscriber of the documentation printed {lines}")
    check.remove(NAMESPACE)
    result.facts.append(f"{len(kubectl)} commands; the subscriber at node 0 received the answer published at node 2")


# --- nodes ---------------------------------------------------------------------------------------


def late_names(check: Check, result: Result) -> None:
    """Start nodes without the headless Service, so that no peer's name resolves; add it later."""
    cluster = check.cluster
    cluster.run("apply", "-f", "k8s/overlays/dev/namespace.yaml")
    rest, service = without(
        in_namespace(cluster.run("kustomize", "k8s/overlays/dev"), NAMESPACE), "Service", f"{NODE}-peers"
    )
    check.apply(as_text(rest))
    selector = f"app.kubernetes.io/name={NODE}"

    def running() -> bool:
        pods = cluster.get("pods", "-n", NAMESPACE, "-l", selector)["items"]
        return len(pods) == 3 and all(pod["status"]["phase"] == "Running" for pod in pods)

    cluster.wait_until(running, "three running pods", seconds=300)
    began, acknowledged, ready, tries = time.monotonic(), 0, 0, 0
    while time.monotonic() - began < check.late_seconds:
        ready = max(ready, len(cluster.ready_pods(NAMESPACE, NODE)))
        for at in range(3):
            triple = f'<urn:late:{tries}> <urn:late:p> "{tries}" .\n'
            words = ("p2prdf", "publish", "--peer", OWN, "--reconnect", "1", "-")
            done = cluster.try_(
                "-n", NAMESPACE, "exec", "-i", f"{NODE}-{at}", "--", "timeout", "10", "env", "HOME=/data", *words,
                given=triple,
            )  # fmt: skip
            acknowledged += done.returncode == 0
            tries += 1
    check.apply(as_text(service))
    seconds = check.wait_whole(3)
    result.facts.append(
        f"no name resolved for {check.late_seconds:.0f} s: {ready} nodes ready, {acknowledged} of {tries} publications "
        f"acknowledged; all nodes ready and in one overlay {seconds:.0f} s after the Service existed; "
        f"{check.restarts()} restarts of containers"
    )
    check.remove(NAMESPACE)
    if ready or acknowledged:
        raise Failed("a node that reached none of its peers was ready, or acknowledged a publication")


def start(check: Check, result: Result) -> None:
    """Apply nodes, gateways and workers; wait until everything is ready."""
    cluster = check.cluster
    cluster.run("apply", "-f", "k8s/overlays/dev/namespace.yaml")
    tokens = f"--from-literal=tokens={check.token} read,write"
    if not cluster.exists("-n", NAMESPACE, "secret", "p2prdf-gateway"):
        cluster.run("-n", NAMESPACE, "create", "secret", "generic", "p2prdf-gateway", tokens)
    began = time.monotonic()
    cluster.run("apply", "--validate=strict", "-k", CHECK)
    check.apply(as_text(client_objects(check.image)))
    for what in (f"statefulset/{NODE}", *(f"deployment/{NODE}-{each}" for each in SERVICES)):
        cluster.rollout(NAMESPACE, what)
    cluster.run("-n", NAMESPACE, "wait", "--for=condition=Ready", "pod", "check", "check-target", "--timeout=120s")
    check.wait_whole(3)
    pods = cluster.get("pods", "-n", NAMESPACE)["items"]
    result.facts.append(
        f"{len(pods)} pods ready under `restricted` on {len({pod['spec']['nodeName'] for pod in pods})} machines "
        f"after {time.monotonic() - began:.0f} s, {check.restarts()} restarts of nodes"
    )
    with check.load(result, "start"):
        pass


def rolling(check: Check, result: Result) -> None:
    """Restart all nodes one after the other."""
    with check.load(result, "rolling"):
        check.cluster.run("-n", NAMESPACE, "rollout", "restart", f"statefulset/{NODE}")
        seconds = check.cluster.rollout(NAMESPACE, f"statefulset/{NODE}", seconds=900)
        check.wait_whole(3)
    result.facts.append(f"three nodes restarted in {seconds:.0f} s")


def kill(check: Check, result: Result) -> None:
    """Delete a pod without grace."""
    pod = f"{NODE}-1"
    before = check.cluster.get("pod", "-n", NAMESPACE, pod)["metadata"]["uid"]
    with check.load(result, "kill"):
        check.cluster.run("-n", NAMESPACE, "delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")
        began = time.monotonic()

        def replaced() -> bool:
            found = check.cluster.try_("-n", NAMESPACE, "get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
            return found.returncode == 0 and found.stdout not in ("", before)

        check.cluster.wait_until(replaced, "another pod", seconds=120)
        check.wait_whole(3)
        seconds = time.monotonic() - began
    result.facts.append(f"{pod} killed; three ready nodes again after {seconds:.0f} s")


def drain(check: Check, result: Result) -> None:
    """Cordon and drain a machine of its nodes; the PodDisruptionBudget keeps two of three."""
    cluster = check.cluster
    everywhere = cluster.get("pods", "-A", "-l", f"app.kubernetes.io/name={NODE}")["items"]
    if any(pod["metadata"]["namespace"] != NAMESPACE for pod in everywhere):
        raise Failed("another namespace of this cluster has nodes of p2prdf, which a drain would stop")
    machine = next(pod["spec"]["nodeName"] for pod in everywhere if pod["metadata"]["name"] == f"{NODE}-0")
    there = sum(pod["spec"]["nodeName"] == machine for pod in everywhere)
    least = 3
    try:
        with check.load(result, "drain"):
            words = ("--ignore-daemonsets", "--delete-emptydir-data", f"--pod-selector=app.kubernetes.io/name={NODE}")
            with cluster.start("drain", machine, *words, "--timeout=90s") as draining:
                while draining.poll() is None:
                    least = min(least, len(cluster.ready_pods(NAMESPACE, NODE)))
                    time.sleep(0.5)
                said = draining.stdout.read() if draining.stdout else ""
            cluster.run("uncordon", machine)
            check.wait_whole(3)
    finally:
        cluster.try_("uncordon", machine)
    evicted = len(set(re.findall(rf"pod/({NODE}-\d+) evicted", said)))
    result.facts.append(
        f"{machine} with {there} of three nodes cordoned and drained: {evicted} evicted within 90 s, at least {least} "
        "ready at each moment"
    )
    if least < 2 or not evicted:
        raise Failed("a drain stopped two nodes at once, or none")


def scale(check: Check, result: Result) -> None:
    """Scale to five nodes and back to three."""
    cluster = check.cluster
    with check.load(result, "scale"):
        seconds = []
        for count in (5, 3):
            began = time.monotonic()
            cluster.run("-n", NAMESPACE, "scale", f"statefulset/{NODE}", f"--replicas={count}")
            check.wait_whole(count)
            seconds.append(time.monotonic() - began)
    result.facts.append(f"five nodes know each other after {seconds[0]:.0f} s, three again after {seconds[1]:.0f} s")


# --- services ------------------------------------------------------------------------------------


def gateway(check: Check, result: Result) -> None:
    """Publish, query and subscribe over HTTP; without a token the gateway refuses."""
    token = check.cluster.run(
        "-n", NAMESPACE, "get", "secret", "p2prdf-gateway", "-o", "go-template={{.data.tokens | base64decode}}"
    ).split()[0]
    words = ("python3", "/check/over_http.py", "http://p2prdf-gateway:7480")
    found = read_last_line(check.exec("check", *words, token, "gateway", str(HTTP_TRIPLES)))
    result.facts.append(
        f"{found['published']} triples published, {found['queried']} rows queried, "
        f"{found['received']} solutions received as events"
    )
    if not found["published"] == found["queried"] == found["received"]:
        raise Failed("the counts over HTTP differ")
    refused = check.cluster.try_("-n", NAMESPACE, "exec", "check", "--", *words, "wrong", "refused", "1")
    if "401" not in refused.stderr:
        raise Failed(f"a wrong token was not refused: {refused.stderr[-300:]}")


def interest_workers(check: Check, result: Result) -> None:
    """Register an interest; the endpoint must hold its slice, also after a worker is killed."""
    cluster, graph = check.cluster, "urn:cluster-check:dataset"
    target = "http://check-target:8000/update"
    interest = "SELECT * WHERE { ?s <urn:check:kind> <urn:check:Wanted> . ?s <urn:check:name> ?name }"
    listed = check.exec("check", "p2prdf", "interest", "status", "--peer", PEER)
    if "check-interest" not in listed:
        check.exec(
            "check", "p2prdf", "interest", "add", "--peer", PEER, "--dataset", graph, "--target", target, "--name",
            "check-interest", "--graph", "urn:check:slice", interest,
        )  # fmt: skip

    def publish(first: int, past: int) -> None:
        lines = []
        for at in range(first, past):
            kind = "Wanted" if at % 2 else "Other"
            lines.append(f"<urn:check:k{at}> <urn:check:kind> <urn:check:{kind}> .\n")
            lines.append(f'<urn:check:k{at}> <urn:check:name> "{at}" .\n')
        check.exec("check", "p2prdf", "publish", "--peer", PEER, "--graph", graph, "-", given="".join(lines))

    def held() -> int:
        query = "SELECT (COUNT(*) AS ?n) WHERE { GRAPH <urn:check:slice> { ?s <urn:check:name> ?o } }"
        ask = (
            "import sys, json, urllib.request as u; r = u.Request('http://check-target:8000/query', "
            "sys.argv[1].encode()); print(json.load(u.urlopen(r, timeout=20))['results']['bindings'][0]['n']['value'])"
        )
        return int(check.exec("check", "python3", "-c", ask, query))

    publish(0, 100)
    first = cluster.wait_until(lambda: held() == 50, "50 names at the endpoint", seconds=120)
    worker = _worker_of(cluster, graph)
    cluster.run("-n", NAMESPACE, "delete", "pod", worker, "--grace-period=0", "--force", "--wait=false")
    publish(100, 200)
    second = cluster.wait_until(lambda: held() == 100, "100 names at the endpoint", seconds=180)
    result.facts.append(
        f"200 resources published, 100 of the interest: the first 50 at the endpoint after {first:.0f} s, all 100 "
        f"{second:.0f} s after its worker was killed; 0 lost, 0 foreign"
    )
    cluster.rollout(NAMESPACE, "deployment/p2prdf-interest-worker")


def _worker_of(cluster: Cluster, dataset: str) -> str:
    """Return the worker that took a dataset last.  Raises Failed if none did."""
    taken = {}
    for pod in cluster.ready_pods(NAMESPACE, "p2prdf-interest-worker"):
        log = cluster.run("-n", NAMESPACE, "logs", pod, "--timestamps").splitlines()
        taken |= {line.split()[0]: pod for line in log if '"took"' in line and f'"{dataset}"' in line}
    if not taken:
        raise Failed(f"no worker has taken the dataset {dataset}")
    return taken[max(taken)]


def channel_workers(check: Check, result: Result) -> None:
    """Register a channel, publish graphs, and read its bindings."""
    base = ("--base", "urn:cluster-check:base")
    check.exec(
        "check", "p2prdf", "channel", "add", "check", *base, "--peer", PEER, "--wait", "60",
        "SELECT ?x { ?x a <urn:check:Person> }",
    )  # fmt: skip
    files = " ".join(f"g{at}.ttl" for at in range(CHANNEL_GRAPHS))
    write = "".join(f"echo '<urn:check:p{at}> a <urn:check:Person> .' > g{at}.ttl; " for at in range(CHANNEL_GRAPHS))
    check.exec(
        "check", "sh", "-ec",
        f"{write} p2prdf channel publish {' '.join(base)} --publisher check --peer {PEER} {files}",
    )  # fmt: skip
    read = check.exec(
        "check", "p2prdf", "channel", "subscribe", "check", "--peer", PEER, "--since", "beginning", "--count",
        str(CHANNEL_GRAPHS),
    )  # fmt: skip
    found = re.findall(r"<urn:check:p(\d+)>", read)
    result.facts.append(
        f"{CHANNEL_GRAPHS} graphs published, {len(set(found))} bindings received, "
        f"{len(found) - len(set(found))} doubled"
    )
    if sorted(map(int, found)) != list(range(CHANNEL_GRAPHS)):
        raise Failed("the bindings of the channel are not those published")


def fleet(check: Check, result: Result) -> None:
    """Publish with Spark: one driver and one executor, so that a small cluster has room."""
    assert check.fleet_image is not None
    cluster = check.cluster
    check.apply(as_text(dumps_objects(check.image, check.storage_class)))
    cluster.run("-n", NAMESPACE, "wait", "--for=condition=Ready", "pod", "check-dumps", "--timeout=120s")
    write = (
        "import pathlib; f = pathlib.Path('/dumps/0'); f.mkdir(exist_ok=True); "
        "[(f / f'{part}.nt').write_text(''.join(f'<urn:fleet:{n}> <urn:fleet:p> \"{n}\" .\\n' "
        f"for n in range(part, {FLEET_TRIPLES}, 4))) for part in range(4)]"
    )
    check.exec("check-dumps", "python3", "-c", write)
    objects = in_namespace(cluster.run("kustomize", "k8s/fleet"), NAMESPACE)
    for each in objects:
        if each["kind"] == "Job":
            each["spec"]["completions"] = each["spec"]["parallelism"] = 1
            arguments = each["spec"]["template"]["spec"]["containers"][0]["args"]
            small = {"instances=2": "instances=1", "cores=2": "cores=1"}
            for old, new in small.items():
                arguments[:] = [part.replace(f"executor.{old}", f"executor.{new}") for part in arguments]
            arguments.append("--conf=spark.kubernetes.executor.request.cores=100m")
    cluster.run("-n", NAMESPACE, "delete", "job", "p2prdf-fleet", "--ignore-not-found")
    check.apply(as_text(objects))
    began = time.monotonic()
    waiting = ("wait", "--for=condition=Complete", "job/p2prdf-fleet", f"--timeout={600 * cluster.patience:.0f}s")
    done = cluster.try_("-n", NAMESPACE, *waiting, seconds=630)
    if done.returncode != 0:
        log = cluster.try_("-n", NAMESPACE, "logs", "job/p2prdf-fleet", "--tail=15").stdout
        pods = cluster.try_("-n", NAMESPACE, "get", "pods", "-o", "wide").stdout
        raise Failed(f"the Job is not complete: {done.stderr.strip()}\n{pods}\n{log}")
    seconds = time.monotonic() - began
    query = "SELECT ?o WHERE { ?s <urn:fleet:p> ?o }"
    found = read_values(check.exec("check", "p2prdf", "query", "--peer", PEER, "--json", query), "o")
    result.facts.append(
        f"one driver and one executor published {FLEET_TRIPLES:,} triples in {seconds:.0f} s: {len(found):,} rows, "
        f"{len(found) - len(set(found)):,} doubled"
    )
    if sorted(map(int, found)) != list(range(FLEET_TRIPLES)):
        raise Failed("the rows are not the triples published")


def tls(check: Check, result: Result) -> None:
    """Issue certificates by the commands of the manifests; start nodes, gateways and workers with them."""
    cluster = check.cluster
    folder = cluster.folder / "certificates"
    folder.mkdir(exist_ok=True)

    def issue(*words: str) -> None:
        done = subprocess.run([check.cli, "ca", *words], cwd=folder, text=True, capture_output=True, check=False)
        if done.returncode != 0:
            raise Failed(f"p2prdf ca {' '.join(words)}: {done.stderr.strip()}")

    issue("init", "ca")
    for at in range(3):
        issue("issue", "ca", "--node", "--ordinal", str(at), "--output", f"p2prdf-{at}")
    levels = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TLS_NAMESPACE, "labels": levels}}
    cluster.run("apply", "-f", "-", given=json.dumps(namespace))
    files = [
        f"--from-file=p2prdf-{at}.{end}={folder}/p2prdf-{at}/tls.{end}" for at in range(3) for end in ("crt", "key")
    ]
    create = ("-n", TLS_NAMESPACE, "create", "secret", "generic")
    cluster.run(
        *create,
        "p2prdf-tls",
        f"--from-file=ca.crt={folder}/ca/ca.crt",
        f"--from-file=crl.pem={folder}/ca/crl.pem",
        *files,
    )
    cluster.run(*create, "p2prdf-gateway", f"--from-literal=tokens={check.token} read,write")
    for name in (*SERVICES, "check"):
        issue("issue", "ca", "--client", name, "--output", name)
        some = [f"--from-file={folder}/{name}/{file}" for file in ("ca.crt", "tls.crt", "tls.key")]
        cluster.run(*create, f"p2prdf-{name}-tls", *some)
    cluster.run("apply", "--validate=strict", "-k", TLS)
    check.apply(as_text(client_objects(check.image, secret="p2prdf-check-tls", endpoint=False)), where=TLS_NAMESPACE)
    for what in (f"statefulset/{NODE}", *(f"deployment/{NODE}-{each}" for each in SERVICES)):
        cluster.rollout(TLS_NAMESPACE, what)
    cluster.run("-n", TLS_NAMESPACE, "wait", "--for=condition=Ready", "pod", "check", "--timeout=120s")
    check.wait_whole(3, where=TLS_NAMESPACE)
    with check.load(result, "tls", where=TLS_NAMESPACE):
        pass
    bare = ("env", "-u", "P2PRDF_TLS_CERT", "-u", "P2PRDF_TLS_KEY", "-u", "P2PRDF_TLS_CA", "p2prdf", "status")
    refused = cluster.try_("-n", TLS_NAMESPACE, "exec", "check", "--", *bare, "--peer", PEER)
    if refused.returncode == 0:
        raise Failed("nodes with certificates answered a client without one")
    ready = len(cluster.get("pods", "-n", TLS_NAMESPACE)["items"])
    result.facts.append(f"{ready} pods ready with certificates; a client without one was refused")
    check.remove(TLS_NAMESPACE)


RUN: Final[dict[str, Callable[[Check, Result], None]]] = {
    "validate": validate, "docs": docs, "late-names": late_names, "start": start, "rolling": rolling, "kill": kill,
    "drain": drain, "scale": scale, "gateway": gateway,
    "interest-workers": interest_workers, "channel-workers": channel_workers, "fleet": fleet, "tls": tls,
}  # fmt: skip
