"""Image, compose file and Kubernetes manifests fit this daemon: its options, settings and ports.

Structure always, ``kubectl kustomize`` where kubectl is there.  Policies for all manifests, and the schemas of
Kubernetes: ``test_policies.py``.  A real cluster is not part of these tests.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from p2prdf.gateway import GatewayConfig
from p2prdf.gateway.openapi import description
from p2prdf_cli.app import app
from p2prdf_node.config import NodeConfig, load_config, split_address

ROOT = Path(__file__).parents[2]
BASE = ROOT / "k8s/base"
FLEET = ROOT / "k8s/fleet"
GATEWAY = ROOT / "k8s/gateway"
PORT = 7400
SETTINGS = {f"P2PRDF_{field.name.upper()}" for field in dataclasses.fields(NodeConfig)}
Manifest = dict[str, Any]


def _documents(path: Path) -> list[Manifest]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def _all_of(folder: Path) -> list[Manifest]:
    kustomization = _documents(folder / "kustomization.yaml")[0]
    return [document for name in kustomization["resources"] for document in _documents(folder / name)]


def _base() -> list[Manifest]:
    return _all_of(BASE)


def _one(kind: str, name: str | None = None) -> Manifest:
    found = [d for d in _base() if d["kind"] == kind and (name is None or d["metadata"]["name"] == name)]
    assert len(found) == 1, f"{len(found)} manifests of kind {kind}"
    return found[0]


def _pod() -> Manifest:
    return _one("StatefulSet")["spec"]["template"]


def _container() -> Manifest:
    (container,) = _pod()["spec"]["containers"]
    return container


def _options(*command: str) -> set[str]:
    help_text = CliRunner().invoke(app, [*command, "--help"], terminal_width=200).output
    return set(re.findall(r"--[a-z][a-z-]*", help_text))


def _dockerfile_list(instruction: str) -> list[str]:
    text = (ROOT / "deploy/Dockerfile").read_text()
    match = re.search(rf'^\s*{instruction}\s+(\[".*"\])$', text, re.MULTILINE)
    assert match, f"the Dockerfile has no {instruction}"
    return yaml.safe_load(match.group(1))


# --- settings of the daemon in the files -----------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(lambda: _container()["args"], id="statefulset"),
        pytest.param(lambda: _dockerfile_list("CMD"), id="healthcheck"),
        pytest.param(lambda: ["node", "--listen", "0.0.0.0:7400"], id="image command"),
    ],
)
def test_every_argument_is_an_option_of_the_command_line(arguments: Any) -> None:
    command, *rest = [part for part in arguments() if part != "p2prdf"]
    given = {part.split("=")[0] for part in rest if part.startswith("--")}
    assert given
    assert given <= _options(command)


@pytest.mark.parametrize(
    "file",
    [
        "deploy/Dockerfile", "deploy/compose.yaml", "k8s/base/configmap.yaml", "k8s/components/tls/statefulset.yaml",
        "k8s/overlays/prod/kustomization.yaml", "k8s/overlays/prod/statefulset.yaml",
    ],
)  # fmt: skip
def test_every_variable_is_a_setting_of_the_node(file: str) -> None:
    names = set(re.findall(r"\bP2PRDF_[A-Z_]+\b", (ROOT / file).read_text()))
    assert names
    assert names - {"P2PRDF_"} <= SETTINGS


def test_the_cluster_settings_are_accepted_by_the_node() -> None:
    """The container's own arguments and variables, read by the code that will read them."""
    container = _container()
    environment = dict(_one("ConfigMap")["data"])
    environment["P2PRDF_SECRET"] = "a secret of sufficient length"
    options = dict(part.removeprefix("--").split("=", 1) for part in container["args"][1:])
    options["advertise"] = options["advertise"].replace("$(POD_IP)", "10.1.2.3")
    config = load_config(options, environment=environment)
    assert config.listen_address == ("0.0.0.0", PORT)
    stateful = _one("StatefulSet")
    peers = [f"{stateful['metadata']['name']}-{n}.{stateful['spec']['serviceName']}" for n in range(5)]
    assert {split_address(address)[0] for address in config.bootstrap} <= set(peers)
    assert config.drain_seconds < _pod()["spec"]["terminationGracePeriodSeconds"]


# --- ports and names that must agree -------------------------------------------------------------


def test_ports_agree_between_pod_services_policy_and_probes() -> None:
    container = _container()
    ports = {(port["name"], port["protocol"]): port["containerPort"] for port in container["ports"]}
    health = ports.pop(("health", "TCP"))
    assert f"--health=0.0.0.0:{health}" in container["args"]
    for probe, path in {"startupProbe": "/startupz", "readinessProbe": "/readyz"}.items():
        assert container[probe]["httpGet"] == {"path": path, "port": "health"}
    assert ports == {("peer", "TCP"): PORT, ("discovery", "UDP"): PORT}
    for service in ("p2prdf", "p2prdf-peers"):
        for port in _one("Service", service)["spec"]["ports"]:
            assert (port["targetPort"], port["protocol"]) in ports
            assert port["port"] == PORT
    policy = _one("NetworkPolicy")["spec"]
    named = [p for rule in policy["ingress"] + policy["egress"] for p in rule["ports"] if p["port"] != 53]
    assert {(p["port"], p["protocol"]) for p in named} == set(ports)
    assert container["livenessProbe"]["tcpSocket"]["port"] == "peer"


def test_selectors_match_the_pods() -> None:
    labels = _pod()["metadata"]["labels"]
    selectors = [
        _one("StatefulSet")["spec"]["selector"]["matchLabels"],
        _one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        _one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        _one("Service", "p2prdf")["spec"]["selector"],
        _one("Service", "p2prdf-peers")["spec"]["selector"],
        *(c["labelSelector"]["matchLabels"] for c in _pod()["spec"]["topologySpreadConstraints"]),
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)


def test_peers_are_found_before_they_are_ready() -> None:
    headless = _one("Service", _one("StatefulSet")["spec"]["serviceName"])["spec"]
    assert headless["clusterIP"] == "None"
    assert headless["publishNotReadyAddresses"] is True


def test_names_that_manifests_refer_to_exist() -> None:
    container, pod = _container(), _pod()["spec"]
    assert pod["serviceAccountName"] == _one("ServiceAccount")["metadata"]["name"]
    (source,) = container["envFrom"]
    assert source["configMapRef"]["name"] == _one("ConfigMap")["metadata"]["name"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    claims = {claim["metadata"]["name"] for claim in _one("StatefulSet")["spec"]["volumeClaimTemplates"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes | claims


# --- security ------------------------------------------------------------------------------------


def test_pods_satisfy_the_restricted_security_standard() -> None:
    pod, container = _pod()["spec"], _container()
    _check_restricted(pod)
    assert pod["automountServiceAccountToken"] is False
    assert {"cpu", "memory"} <= container["resources"]["limits"].keys()


def _check_restricted(pod: Manifest) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["enableServiceLinks"] is False
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_network_policy_is_closed_both_ways() -> None:
    policy = _one("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert all(rule.get("from") for rule in policy["ingress"])
    assert all(rule.get("to") for rule in policy["egress"])


def test_no_secret_is_in_the_base_and_the_user_of_the_image_is_the_pods() -> None:
    assert not [document for document in _base() if document["kind"] == "Secret"]
    user = _pod()["spec"]["securityContext"]["runAsUser"]
    assert f"USER {user}:{user}" in (ROOT / "deploy/Dockerfile").read_text()


# --- the fleet -----------------------------------------------------------------------------------


def _fleet() -> list[Manifest]:
    return _all_of(FLEET)


def _driver() -> Manifest:
    (job,) = [document for document in _fleet() if document["kind"] == "Job"]
    return job["spec"]["template"]


def _executor() -> Manifest:
    return _documents(FLEET / "executor.yaml")[0]


def test_drivers_have_known_options_and_existing_variables() -> None:
    (container,) = _driver()["spec"]["containers"]
    command, _, *rest = container["args"]
    assert {part.split("=")[0] for part in rest} <= _options(command)
    names = {each["name"] for each in container["env"]}
    assert set(re.findall(r"\$\((\w+)\)", " ".join(container["args"]))) == names
    settings = dict(part.removeprefix("--conf=").split("=", 1) for part in rest if part.startswith("--conf="))
    ports = {port["containerPort"] for port in container["ports"]}
    assert {int(settings["spark.driver.port"]), int(settings["spark.driver.blockManager.port"])} == ports
    template = settings["spark.kubernetes.executor.podTemplateFile"]
    (mount,) = [each for each in container["volumeMounts"] if template.startswith(each["mountPath"] + "/")]
    (volume,) = [each for each in _driver()["spec"]["volumes"] if each["name"] == mount["name"]]
    (generated,) = _documents(FLEET / "kustomization.yaml")[0]["configMapGenerator"]
    assert volume["configMap"]["name"] == generated["name"]
    assert Path(template).name in generated["files"]


def test_the_image_of_drivers_and_executors_is_one() -> None:
    (container,) = _driver()["spec"]["containers"]
    (image,) = _documents(FLEET / "kustomization.yaml")[0]["images"]
    (named,) = [each["value"] for each in container["env"] if each["name"] == "FLEET_IMAGE"]
    assert container["image"] == image["name"]
    assert named == f"{image['name']}:{image['newTag']}"


def test_nodes_let_drivers_and_executors_in_and_they_read_the_same_files() -> None:
    (let_in,) = [
        rule["from"][0]["podSelector"]["matchLabels"] for rule in _one("NetworkPolicy")["spec"]["ingress"][1:]
    ]
    (own,) = [document["spec"] for document in _fleet() if document["kind"] == "NetworkPolicy"]
    for pod in (_driver(), _executor()):
        assert let_in.items() <= pod["metadata"]["labels"].items()
        assert own["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        mounts = {each["mountPath"]: each for each in pod["spec"]["containers"][0]["volumeMounts"]}
        assert mounts["/dumps"]["readOnly"] is True
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        assert volumes[mounts["/dumps"]["name"]]["persistentVolumeClaim"]["claimName"] == "p2prdf-dumps"
        assert "emptyDir" in volumes[mounts["/tmp"]["name"]]


def test_pods_of_the_fleet_satisfy_the_restricted_security_standard() -> None:
    for pod in (_driver()["spec"], _executor()["spec"]):
        _check_restricted(pod)
    assert _executor()["spec"]["automountServiceAccountToken"] is False
    user = _driver()["spec"]["securityContext"]["runAsUser"]
    assert user == _executor()["spec"]["securityContext"]["runAsUser"]
    assert f"USER {user}:{user}" in (ROOT / "deploy/fleet.Dockerfile").read_text()


# --- the gateway ---------------------------------------------------------------------------------


def test_gateways_have_known_options_and_probes_of_existing_paths() -> None:
    made = {document["kind"]: document for document in _all_of(GATEWAY)}
    pod = made["Deployment"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    command, rest = container["args"][:2], container["args"][2:]
    assert command == ["serve", "gateway"]
    options = dict(part.removeprefix("--").partition("=")[::2] for part in rest)
    assert {f"--{name}" for name in options} <= _options(*command)
    assert options["peer"] == f"{_one('Service', 'p2prdf')['metadata']['name']}:{PORT}"
    (port,) = container["ports"]
    assert split_address(options["listen"]) == ("0.0.0.0", port["containerPort"])
    paths = {container[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths <= description()["paths"].keys()
    drain = GatewayConfig().drain_seconds + float(options["announce"])
    assert drain < pod["spec"]["terminationGracePeriodSeconds"]
    (mount,) = container["volumeMounts"]
    (volume,) = pod["spec"]["volumes"]
    assert options["tokens"] == f"{mount['mountPath']}/{volume['secret']['items'][0]['path']}"
    assert volume["secret"]["defaultMode"] & 0o027 == 0, "such a file is not read"
    labels = pod["metadata"]["labels"]
    let_in = _one("NetworkPolicy")["spec"]["ingress"][1]["from"][0]["podSelector"]["matchLabels"]
    assert let_in.items() <= labels.items()
    for selector in (
        made["Deployment"]["spec"]["selector"]["matchLabels"], made["Service"]["spec"]["selector"],
        made["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        made["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):  # fmt: skip
        assert selector.items() <= labels.items()
    assert made["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == made["Deployment"]["metadata"]["name"]
    policy = made["NetworkPolicy"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert all(rule.get("from") for rule in policy["ingress"])
    assert policy["egress"][0]["to"][0]["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "p2prdf"}
    _check_restricted(pod["spec"])
    assert pod["spec"]["automountServiceAccountToken"] is False


# --- sync workers and channel workers ---------------------------------------------------------


@pytest.mark.parametrize(("folder", "command"), [
    ("interest-workers", ("serve", "interests")), ("channel-workers", ("serve", "channels")),
])
def test_workers_have_known_options_and_probes_of_their_health(
    folder: str, command: tuple[str, ...]
) -> None:
    made = {document["kind"]: document for document in _all_of(ROOT / "k8s" / folder)}
    pod = made["Deployment"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert tuple(container["args"][:2]) == command
    options = dict(part.removeprefix("--").partition("=")[::2] for part in container["args"][2:])
    assert {f"--{name}" for name in options} <= _options(*command)
    assert options["peer"] == f"{_one('Service', 'p2prdf')['metadata']['name']}:{PORT}"
    (port,) = container["ports"]
    assert options["metrics"] == f"0.0.0.0:{port['containerPort']}"
    assert "wait" in options, "nodes may start later"
    assert ("allow-private" in options) == (folder == "interest-workers"), "targets are pods, with private addresses"
    paths = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    for probe, path in paths.items():
        assert container[probe]["httpGet"] == {"path": path, "port": port["name"]}
    assert pod["metadata"]["annotations"] == {
        "prometheus.io/scrape": "true", "prometheus.io/port": str(port["containerPort"]),
        "prometheus.io/path": "/metrics",
    }  # fmt: skip
    (ingress,) = made["NetworkPolicy"]["spec"]["ingress"]
    assert ingress["from"] == [{"podSelector": {"matchLabels": {"p2prdf.monitoring": "true"}}}]
    assert ingress["ports"] == [{"port": port["name"], "protocol": "TCP"}]
    let_in = _one("NetworkPolicy")["spec"]["ingress"][1]["from"][0]["podSelector"]["matchLabels"]
    assert let_in.items() <= pod["metadata"]["labels"].items()
    assert made["NetworkPolicy"]["spec"]["egress"][0]["to"][0]["podSelector"]["matchLabels"] == {
        "app.kubernetes.io/name": "p2prdf"
    }



# --- image and compose ---------------------------------------------------------------------------


def test_the_image_copies_only_the_files_that_the_build_needs() -> None:
    """Everything that the Dockerfile copies from the context is let in by .dockerignore, and exists."""
    copied = {
        word.removeprefix("./").rstrip("/")
        for file in ("deploy/Dockerfile", "deploy/fleet.Dockerfile")
        for line in re.findall(r"^COPY (?!--from)(.+)$", (ROOT / file).read_text(), re.MULTILINE)
        for word in line.split()[:-1]
        if not word.startswith("--")
    }
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == let_in
    assert all((ROOT / name).exists() for name in copied)


def test_compose_starts_five_nodes_that_know_each_other() -> None:
    compose = _documents(ROOT / "deploy/compose.yaml")[0]
    services = compose["services"]
    assert len(services) == 5
    published = set()
    for name, service in services.items():
        environment = service["environment"]
        assert split_address(environment["P2PRDF_ADVERTISE"]) == (name, PORT)
        hosts = [split_address(address) for address in environment["P2PRDF_BOOTSTRAP"].split(",")]
        assert all(host in services and port == PORT for host, port in hosts)
        (mapping,) = service["ports"]
        match = re.fullmatch(rf"127\.0\.0\.1:(\d+):{PORT}/tcp", mapping)
        assert match, "clients come over loopback"
        published.add(match.group(1))
        assert service["volumes"] == [f"{name}:/data"]
        assert name in compose["volumes"]
    assert len(published) == 5


# --- tools, where they are -----------------------------------------------------------------------


def test_certificates_come_into_the_pods_of_the_base(tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed: the component was not rendered")
    shutil.copytree(ROOT / "k8s", tmp_path / "k8s")
    overlay = tmp_path / "k8s/overlays/tls"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
        "resources: [../../base]\ncomponents: [../../components/tls]\n"
    )
    rendered = subprocess.run([kubectl, "kustomize", overlay], check=True, capture_output=True, text=True)
    (stateful,) = [each for each in yaml.safe_load_all(rendered.stdout) if each["kind"] == "StatefulSet"]
    pod = stateful["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    values = {each["name"]: each.get("value", "") for each in container["env"]}
    names = list(values)
    assert names.index("POD_NAME") < names.index("P2PRDF_TLS_CERT")  # else it would not be filled in
    files = {name: values[f"P2PRDF_{name.upper()}"] for name in ("tls_cert", "tls_key", "tls_ca", "tls_crl")}
    assert load_config(files).tls
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "certificates"]
    assert {str(Path(file).parent) for file in files.values()} == {mount["mountPath"]}
    assert {"data", "cluster"} <= {each["name"] for each in container["volumeMounts"]}
    assert "certificates" in {each["name"] for each in pod["volumes"]}
    assert "P2PRDF_ORDINAL" in values
