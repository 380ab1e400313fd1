"""All manifests, as they are rendered, keep to the project's policies; and each policy notices when they do not."""

from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from policies import POLICIES, Manifest, pods

ROOT = Path(__file__).parents[2]
HEAD = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
FOLDERS = ("base", "gateway", "interest-workers", "channel-workers", "fleet", "overlays/dev", "overlays/prod")
MADE = {
    "base with certificates": "resources: [../../base]\ncomponents: [../../components/tls]\n",
    "everything": (
        "resources: [../../base, ../../gateway, ../../interest-workers, ../../channel-workers, ../../fleet]\n"
    ),
    "everything with certificates": (
        "resources: [../../base, ../../gateway, ../../interest-workers, ../../channel-workers, ../../fleet]\n"
        "components: [../../components/tls, ../../components/tls-fleet]\n"
    ),
    "prod with the fleet": "resources: [../prod, ../tls-fleet]\n",
}


@cache
def rendered(name: str) -> str:
    """Return the output of ``kubectl kustomize`` for a folder, or for an overlay made on the spot."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed: nothing was rendered")
    with TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "k8s", Path(folder) / "k8s")
        overlays = Path(folder) / "k8s/overlays"
        for made, text in {
            "made": MADE.get(name, ""),
            "tls-fleet": "namespace: p2prdf\nresources: [../../fleet]\ncomponents: [../../components/tls-fleet]\n",
        }.items():
            (overlays / made).mkdir()
            (overlays / made / "kustomization.yaml").write_text(HEAD + text)
        source = overlays / "made" if name in MADE else Path(folder) / "k8s" / name
        done = subprocess.run([kubectl, "kustomize", source], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


@cache
def _read(name: str) -> list[Manifest]:
    return [each for each in yaml.load_all(rendered(name), LOADER) if each]


def documents(name: str) -> list[Manifest]:
    """Return manifests that may be spoiled."""
    return copy.deepcopy(_read(name))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", [*FOLDERS, *MADE])
def test_rendered_manifests_keep_to_the_policies(name: str, policy: str) -> None:
    assert list(POLICIES[policy](documents(name))) == []


def test_every_folder_with_manifests_is_rendered() -> None:
    found = {str(each.parent.relative_to(ROOT / "k8s")) for each in (ROOT / "k8s").rglob("kustomization.yaml")}
    assert found - {"components/tls", "components/tls-fleet"} == set(FOLDERS)
    kinds = {pod.name for pod in pods(documents("everything with certificates"))}
    assert len(kinds) == 6, "nodes, gateways, interest workers, channel workers, drivers, executors"


@pytest.mark.parametrize("name", [*FOLDERS, *MADE])
def test_rendered_manifests_fit_the_schemas_of_kubernetes(name: str, tmp_path: Path) -> None:
    beside = str(Path(sys.executable).parent)
    validate = shutil.which("kubernetes-validate", path=beside) or shutil.which("kubernetes-validate")
    if validate is None:
        pytest.skip("kubernetes-validate is not installed (extra manifests): no schema was looked at")
    file = tmp_path / "rendered.yaml"
    file.write_text(rendered(name))
    checked = subprocess.run([validate, "--strict", file], check=False, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


# --- each policy notices -------------------------------------------------------------------------


def one(all_of_them: list[Manifest], kind: str, name: str = "p2prdf") -> Manifest:
    (found,) = [each for each in all_of_them if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def pod(all_of_them: list[Manifest], kind: str = "StatefulSet", name: str = "p2prdf") -> Manifest:
    return one(all_of_them, kind, name)["spec"]["template"]["spec"]


def container(all_of_them: list[Manifest], kind: str = "StatefulSet", name: str = "p2prdf") -> Manifest:
    return pod(all_of_them, kind, name)["containers"][0]


def without(all_of_them: list[Manifest], kind: str, name: str) -> None:
    all_of_them.remove(one(all_of_them, kind, name))


def _executor(all_of_them: list[Manifest], old: str, new: str) -> None:
    (files,) = [each["data"] for each in all_of_them if each["kind"] == "ConfigMap" and "executor.yaml" in each["data"]]
    assert old in files["executor.yaml"]
    files["executor.yaml"] = files["executor.yaml"].replace(old, new)


def _rule(all_of_them: list[Manifest], name: str, way: str) -> Manifest:
    return one(all_of_them, "NetworkPolicy", name)["spec"][way][0]


def _drain(all_of_them: list[Manifest]) -> None:
    (settings,) = [each["data"] for each in all_of_them if "P2PRDF_DRAIN_SECONDS" in each.get("data", {})]
    settings["P2PRDF_DRAIN_SECONDS"] = "400"


def _behavior(all_of_them: list[Manifest]) -> Manifest:
    return one(all_of_them, "HorizontalPodAutoscaler")["spec"]["behavior"]["scaleDown"]


SPOILS: list[tuple[str, str, Callable[[list[Manifest]], object]]] = [
    ("restricted", "run as root", lambda d: pod(d)["securityContext"].update(runAsUser=0)),
    (
        "restricted", "run as root",
        lambda d: pod(d, "Deployment", "p2prdf-channel-worker")["securityContext"].pop("runAsNonRoot"),
    ),
    ("restricted", "seccomp", lambda d: pod(d)["securityContext"].pop("seccompProfile")),
    ("restricted", "hostNetwork", lambda d: pod(d).update(hostNetwork=True)),
    ("restricted", "volume", lambda d: pod(d)["volumes"].append({"name": "x", "hostPath": {"path": "/"}})),
    ("restricted", "get privileges", lambda d: container(d)["securityContext"].pop("allowPrivilegeEscalation")),
    ("restricted", "capabilities", lambda d: _executor(d, "drop: [ALL]", "drop: []")),
    ("restricted", "root file", lambda d: container(d)["securityContext"].update(readOnlyRootFilesystem=False)),
    ("restricted", "port of its host", lambda d: container(d)["ports"][0].update(hostPort=7400)),
    ("closed_networks", "for Ingress", lambda d: without(d, "NetworkPolicy", "p2prdf-interest-worker")),
    ("closed_networks", "for Egress",
     lambda d: one(d, "NetworkPolicy", "p2prdf-fleet")["spec"].update(policyTypes=["Ingress"])),
    ("closed_networks", "everybody in", lambda d: _rule(d, "p2prdf", "ingress").pop("from")),
    ("closed_networks", "everything out", lambda d: d and one(d, "NetworkPolicy")["spec"]["egress"].append({})),
    ("probes", "no livenessProbe", lambda d: container(d, "Deployment", "p2prdf-interest-worker").pop("livenessProbe")),
    ("probes", "no startupProbe", lambda d: container(d).pop("startupProbe")),
    ("probes", "no readinessProbe", lambda d: container(d, "Deployment", "p2prdf-gateway").pop("readinessProbe")),
    ("resources", "no memory in its limits", lambda d: container(d)["resources"]["limits"].pop("memory")),
    ("resources", "no cpu in its requests", lambda d: container(d, "Job", "p2prdf-fleet").pop("resources")),
    ("no_tokens", "has a token", lambda d: pod(d).pop("automountServiceAccountToken")),
    ("no_tokens", "has a token", lambda d: _executor(d, "Token: false", "Token: true")),
    ("no_tokens", "gives tokens", lambda d: one(d, "ServiceAccount").pop("automountServiceAccountToken")),
    ("no_tokens", "of its own", lambda d: pod(d).update(serviceAccountName="default")),
    ("images", "any version", lambda d: container(d).update(image="registry:5000/p2prdf")),
    ("images", "any version", lambda d: container(d, "Job", "p2prdf-fleet").update(image="p2prdf-fleet:latest")),
    ("disruption", "no PodDisruptionBudget", lambda d: without(d, "PodDisruptionBudget", "p2prdf")),
    ("disruption", "more than one", lambda d: one(d, "PodDisruptionBudget")["spec"].update(maxUnavailable=2)),
    ("grace", "takes 405 s", _drain),
    ("grace", "takes 30 s",
     lambda d: pod(d, "Deployment", "p2prdf-gateway").update(terminationGracePeriodSeconds=40)),
    ("references", "nobody makes", lambda d: pod(d)["volumes"][0]["secret"].update(secretName="certificates")),
    ("references", "no ConfigMap", lambda d: pod(d)["volumes"].append({"name": "x", "configMap": {"name": "x"}})),
    ("references", "after it is used", lambda d: container(d)["env"].reverse()),
    ("references", "scales nothing",
     lambda d: one(d, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"].update(name="nodes")),
    ("scaling", "every apply", lambda d: one(d, "StatefulSet")["spec"].update(replicas=9)),
    ("scaling", "waits for the second", lambda d: one(d, "StatefulSet")["spec"].pop("podManagementPolicy")),
    ("scaling", "faster than", lambda d: _behavior(d)["policies"][0].update(value=2)),
    ("scaling", "faster than", lambda d: _behavior(d)["policies"][0].update(periodSeconds=300)),
    ("scaling", "faster than", lambda d: one(d, "HorizontalPodAutoscaler")["spec"].pop("behavior")),
    ("scaling", "short lull", lambda d: _behavior(d).update(stabilizationWindowSeconds=60)),
    ("scaling", "fewer nodes", lambda d: one(d, "HorizontalPodAutoscaler")["spec"].update(minReplicas=2)),
    ("spread", "its zone", lambda d: next(e for e in container(d)["env"] if "ZONE" in e["name"]).update(name="X")),
    ("spread", "at one kubernetes.io/hostname", lambda d: pod(d).pop("affinity")),
    ("spread", "at one topology.kubernetes.io/zone", lambda d: pod(d).pop("topologySpreadConstraints")),
    ("tls", "no certificate", lambda d: d.append(one(documents("gateway"), "Deployment", "p2prdf-gateway"))),
    ("tls", "by halves", lambda d: container(d, "Deployment", "p2prdf-channel-worker").pop("env")),
    ("tls", "by halves", lambda d: container(d, "Job", "p2prdf-fleet").update(volumeMounts=[])),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "complaint", "spoil"), SPOILS, ids=[f"{p}-{c}" for p, c, _ in SPOILS])
def test_each_policy_notices_a_violation(
    policy: str, complaint: str, spoil: Callable[[list[Manifest]], object]
) -> None:
    spoiled = documents("prod with the fleet")
    assert list(POLICIES[policy](spoiled)) == []
    spoil(spoiled)
    found = list(POLICIES[policy](spoiled))
    assert any(complaint in each for each in found), found


def test_no_policy_goes_without_a_manifest_that_it_notices() -> None:
    assert {policy for policy, _, _ in SPOILS} == POLICIES.keys()


def test_production_is_nine_nodes_in_three_zones_that_start_together() -> None:
    rendering = documents("overlays/prod")
    stateful, scaler = one(rendering, "StatefulSet")["spec"], one(rendering, "HorizontalPodAutoscaler")["spec"]
    assert (scaler["minReplicas"], stateful["podManagementPolicy"]) == (9, "Parallel")
    (zones,) = stateful["template"]["spec"]["topologySpreadConstraints"]
    assert (zones["minDomains"], zones["maxSkew"], zones["whenUnsatisfiable"]) == (3, 1, "DoNotSchedule")
    assert zones["topologyKey"] == "topology.kubernetes.io/zone"
    (claim,) = stateful["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "p2prdf"
    assert stateful["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
