"""Policies for every manifest of the project, as functions of the output of ``kubectl kustomize``.

Each policy returns complaints, none if all is well; a complaint names the manifest.  Policies depend on no
names, so a new kind of pod is held to them as soon as it is rendered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

__all__ = ["POLICIES", "Manifest", "Pod", "pods"]

Manifest = dict[str, Any]
Documents = Sequence[Manifest]

WITH_TOKEN: Final = {"p2prdf-fleet"}
"""Service accounts of pods that use the Kubernetes API: Spark's drivers create their executors."""
BY_OPERATORS: Final = re.compile(r"p2prdf-(cluster|tls|gateway|(gateway|interest-worker|channel-worker|fleet)-tls)")
"""Secrets that are no part of manifests."""
AFTER_DRAINING_SECONDS: Final = 15
"""Seconds for the last write, the disk and the end of the process."""
_HOST: Final = ("hostNetwork", "hostPID", "hostIPC", "hostUsers")
_VOLUMES: Final = {"configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret", "downwardAPI"}
_TLS: Final = {"P2PRDF_TLS_CERT", "P2PRDF_TLS_KEY", "P2PRDF_TLS_CA"}


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as it will be: ``owner`` is the manifest that makes it; None for Spark's executors."""

    name: str
    owner: Manifest | None
    labels: Mapping[str, str]
    spec: Manifest

    @property
    def containers(self) -> list[Manifest]:
        """All containers, init containers included."""
        return [*self.spec.get("initContainers", ()), *self.spec["containers"]]

    @property
    def serves(self) -> bool:
        """Whether it runs until it is stopped."""
        return self.owner is not None and self.owner["kind"] in ("StatefulSet", "Deployment", "DaemonSet")


def pods(documents: Documents) -> Iterator[Pod]:
    """Yield all pods, also those in templates that are files of a ConfigMap."""
    for document in documents:
        template = document.get("spec", {}).get("template")
        name = f"{document['kind']} {document['metadata']['name']}"
        if template is not None:
            yield Pod(name, document, template["metadata"]["labels"], template["spec"])
        for file, text in document.get("data", {}).items() if document["kind"] == "ConfigMap" else ():
            inner = yaml.safe_load(text) if file.endswith(".yaml") else None
            if isinstance(inner, dict) and inner.get("kind") == "Pod":
                yield Pod(f"{name}: {file}", None, inner["metadata"]["labels"], inner["spec"])


def _of_kind(documents: Documents, kind: str) -> list[Manifest]:
    return [document for document in documents if document["kind"] == kind]


def _matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    return selector.get("matchLabels", {}).items() <= labels.items()


# --- the policies --------------------------------------------------------------------------------


def restricted(documents: Documents) -> Iterator[str]:
    """The restricted security standard, and a root file system that cannot be written."""
    for pod in pods(documents):
        context = pod.spec.get("securityContext", {})
        if context.get("runAsNonRoot") is not True or not context.get("runAsUser", 0) > 0:
            yield f"{pod.name}: may run as root"
        if context.get("seccompProfile") != {"type": "RuntimeDefault"}:
            yield f"{pod.name}: has no seccomp profile"
        yield from (f"{pod.name}: {each}" for each in _HOST if pod.spec.get(each))
        for volume in pod.spec.get("volumes", ()):
            if not volume.keys() - {"name"} <= _VOLUMES:
                yield f"{pod.name}: volume {volume['name']} is of a kind that is not allowed"
        for container in pod.containers:
            where = f"{pod.name}, {container['name']}"
            security = container.get("securityContext", {})
            if security.get("allowPrivilegeEscalation") is not False or security.get("privileged"):
                yield f"{where}: may get privileges"
            if security.get("capabilities") != {"drop": ["ALL"]}:
                yield f"{where}: has capabilities"
            if security.get("readOnlyRootFilesystem") is not True:
                yield f"{where}: may write its root file system"
            if any("hostPort" in port for port in container.get("ports", ())):
                yield f"{where}: has a port of its host"


def closed_networks(documents: Documents) -> Iterator[str]:
    """Every pod is closed both ways except for the traffic that a rule names."""
    policies = [each["spec"] for each in _of_kind(documents, "NetworkPolicy")]
    for pod in pods(documents):
        for way in ("Ingress", "Egress"):
            if not any(way in each["policyTypes"] and _matches(each["podSelector"], pod.labels) for each in policies):
                yield f"{pod.name}: no NetworkPolicy closes it for {way}"
    for policy in policies:
        for rule in policy.get("ingress", ()):
            if not rule.get("from"):
                yield f"NetworkPolicy for {policy['podSelector']}: lets everybody in"
        for rule in policy.get("egress", ()):
            if not rule.get("to") and not rule.get("ports"):
                yield f"NetworkPolicy for {policy['podSelector']}: lets everything out"


def probes(documents: Documents) -> Iterator[str]:
    """Serving containers have probes, and get clients only when they answer."""
    services = [each["spec"] for each in _of_kind(documents, "Service") if not each["spec"].get("clusterIP")]
    for pod in pods(documents):
        clients = any(each["selector"].items() <= pod.labels.items() for each in services)
        for container in pod.spec["containers"] if pod.serves else ():
            wanted = ["startupProbe", "livenessProbe", *(["readinessProbe"] if clients else [])]
            yield from (f"{pod.name}: has no {each}" for each in wanted if each not in container)


def resources(documents: Documents) -> Iterator[str]:
    """Everything has requests and limits; Spark sets those of its executors."""
    for pod in pods(documents):
        for container in pod.containers if pod.owner is not None else ():
            given = container.get("resources", {})
            for what in ("requests", "limits"):
                missing = {"cpu", "memory"} - given.get(what, {}).keys()
                yield from (f"{pod.name}: no {each} in its {what}" for each in sorted(missing))


def no_tokens(documents: Documents) -> Iterator[str]:
    """No pod can use the Kubernetes API, except those that must."""
    accounts = {each["metadata"]["name"]: each for each in _of_kind(documents, "ServiceAccount")}
    for pod in pods(documents):
        account = pod.spec.get("serviceAccountName")
        if account in WITH_TOKEN:
            continue
        if pod.spec.get("automountServiceAccountToken") is not False:
            yield f"{pod.name}: has a token"
        if pod.owner is not None and account not in accounts:
            yield f"{pod.name}: has no service account of its own"
    for name, account in accounts.items():
        if account.get("automountServiceAccountToken") is not False:
            yield f"ServiceAccount {name}: gives tokens to whoever uses it"


def images(documents: Documents) -> Iterator[str]:
    """Images are named with a version."""
    for pod in pods(documents):
        for container in pod.containers if pod.owner is not None else ():
            _, _, tag = container["image"].rpartition("/")[2].partition(":")
            if tag in ("", "latest"):
                yield f"{pod.name}: image {container['image']} may be any version"


def disruption(documents: Documents) -> Iterator[str]:
    """Of several pods, one at a time is evicted."""
    budgets = [each["spec"] for each in _of_kind(documents, "PodDisruptionBudget")]
    for pod in pods(documents):
        if not pod.serves or pod.owner is None or pod.owner["spec"].get("replicas") == 1:
            continue
        own = [each for each in budgets if _matches(each["selector"], pod.labels)]
        if not own:
            yield f"{pod.name}: has no PodDisruptionBudget"
        yield from (f"{pod.name}: more than one may be evicted" for each in own if each.get("maxUnavailable") != 1)


def grace(documents: Documents) -> Iterator[str]:
    """Pods get the time that they take to leave."""
    maps = {each["metadata"]["name"]: each.get("data", {}) for each in _of_kind(documents, "ConfigMap")}
    for pod in pods(documents):
        for container in pod.spec["containers"] if pod.serves else ():
            settings = {
                name: value
                for source in container.get("envFrom", ())
                for name, value in maps.get(source["configMapRef"]["name"], {}).items()
            }
            arguments = " ".join(container.get("args", ()))
            announce = re.search(r"--announce=(\d+)", arguments)
            seconds = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
            seconds += float(settings.get("P2PRDF_DRAIN_SECONDS", 20 if announce else 0))
            seconds += int(announce[1]) if announce else 0
            given = pod.spec.get("terminationGracePeriodSeconds", 30)
            if given < seconds + AFTER_DRAINING_SECONDS:
                yield f"{pod.name}: is killed after {given} s, and takes {seconds:.0f} s to leave"


def references(documents: Documents) -> Iterator[str]:
    """References point at manifests that exist, or at objects that operators make."""
    there = {(each["kind"], each["metadata"]["name"]) for each in documents}
    for pod in pods(documents):
        for volume in pod.spec.get("volumes", ()):
            secret, map_ = volume.get("secret", {}).get("secretName"), volume.get("configMap", {}).get("name")
            if secret and ("Secret", secret) not in there and not BY_OPERATORS.fullmatch(secret):
                yield f"{pod.name}: nobody makes the Secret {secret}"
            if map_ and ("ConfigMap", map_) not in there:
                yield f"{pod.name}: there is no ConfigMap {map_}"
        for container in pod.containers:
            names = [each["name"] for each in container.get("env", ())]
            for place, each in enumerate(container.get("env", ())):
                unknown = set(re.findall(r"\$\((\w+)\)", str(each.get("value", "")))) - set(names[:place])
                yield from (f"{pod.name}: {name} comes after it is used, or never" for name in sorted(unknown))
    for scaler in _of_kind(documents, "HorizontalPodAutoscaler"):
        target = scaler["spec"]["scaleTargetRef"]
        if (target["kind"], target["name"]) not in there:
            yield f"HorizontalPodAutoscaler {scaler['metadata']['name']}: scales nothing"


def scaling(documents: Documents) -> Iterator[str]:
    """All nodes start together; an autoscaled workload has no number of its own, and its nodes leave one at a time."""
    for each in _of_kind(documents, "StatefulSet"):
        if each["spec"].get("podManagementPolicy", "OrderedReady") != "Parallel":
            yield f"StatefulSet {each['metadata']['name']}: its first pod waits for the second one, which never starts"
    workloads = {(each["kind"], each["metadata"]["name"]): each for each in documents}
    for scaler in _of_kind(documents, "HorizontalPodAutoscaler"):
        spec = scaler["spec"]
        target = workloads.get((spec["scaleTargetRef"]["kind"], spec["scaleTargetRef"]["name"]))
        if target is None:
            continue
        name = f"{target['kind']} {target['metadata']['name']}"
        if "replicas" in target["spec"]:
            yield f"{name}: every apply would undo what its autoscaler did"
        if target["kind"] != "StatefulSet":
            continue
        down = spec.get("behavior", {}).get("scaleDown", {})
        patience = target["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        policies = down.get("policies", [{"type": "Percent", "value": 100, "periodSeconds": 15}])
        for each in policies:
            if each["type"] != "Pods" or each["value"] != 1 or each["periodSeconds"] < 2 * patience:
                yield f"{name}: is scaled in faster than a node leaves"
        if down.get("stabilizationWindowSeconds", 300) < 1800:
            yield f"{name}: is scaled in after a short lull"
        if spec["minReplicas"] < 3:
            yield f"{name}: may have fewer nodes than copies"


def spread(documents: Documents) -> Iterator[str]:
    """Nodes report their zone, so that copies lie in several, and are spread over zones and hosts."""
    for pod in pods(documents):
        if pod.labels.get("app.kubernetes.io/name") != "p2prdf" or pod.owner is None:
            continue
        (container,) = pod.spec["containers"]
        told = {each["name"]: each.get("valueFrom", {}).get("fieldRef", {}) for each in container["env"]}
        if told.get("P2PRDF_ZONE", {}).get("fieldPath") != "metadata.labels['topology.kubernetes.io/zone']":
            yield f"{pod.name}: does not know its zone"
        keys = {each["topologyKey"] for each in pod.spec.get("topologySpreadConstraints", ())}
        anti = pod.spec.get("affinity", {}).get("podAntiAffinity", {})
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        keys |= {each["topologyKey"] for each in anti.get(required, ())}
        missing = {"topology.kubernetes.io/zone", "kubernetes.io/hostname"} - keys
        yield from (f"{pod.name}: several may be at one {each}" for each in sorted(missing))


def tls(documents: Documents) -> Iterator[str]:
    """With TLS all pods have a certificate: nodes with TLS refuse pods without."""
    with_tls = {}
    for pod in pods(documents):
        mounted = {each["name"]: each["mountPath"] for each in pod.containers[0].get("volumeMounts", ())}
        names = {each["name"] for each in pod.containers[0].get("env", ())}
        certified = "certificates" in mounted and (pod.owner is None or names >= _TLS)
        with_tls[pod.name] = certified
        if not certified and (names & _TLS or "certificates" in mounted):
            yield f"{pod.name}: has TLS by halves"
    if any(with_tls.values()):
        yield from (f"{name}: has no certificate" for name, certified in with_tls.items() if not certified)


POLICIES: Final[dict[str, Callable[[Documents], Iterator[str]]]] = {
    each.__name__: each
    for each in (
        restricted, closed_networks, probes, resources, no_tokens, images, disruption, grace, references, scaling,
        spread, tls,
    )
}  # fmt: skip
