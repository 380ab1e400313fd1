"""Objects that the check adds to a namespace (a client pod, an endpoint, a claim with dumps), and edited manifests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

__all__ = ["as_text", "client_objects", "dumps_objects", "in_namespace", "without"]

SCRIPTS: Final = ("cluster_check/load.py", "cluster_check/over_http.py", "sparql_endpoint.py")
SUPPORT: Final = Path(__file__).parents[1]
Manifest = dict[str, Any]


def as_text(objects: Iterable[Manifest]) -> str:
    """Return objects as one List, for ``kubectl apply -f -``."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def in_namespace(rendered: str, namespace: str) -> list[Manifest]:
    """Return rendered manifests moved into one namespace, without Namespace objects."""
    objects = [each for each in yaml.safe_load_all(rendered) if each and each["kind"] != "Namespace"]
    for each in objects:
        each["metadata"]["namespace"] = namespace
        for subject in each.get("subjects", []):
            if "namespace" in subject:
                subject["namespace"] = namespace
    return objects


def without(objects: Iterable[Manifest], kind: str, name: str) -> tuple[list[Manifest], list[Manifest]]:
    """Return the other objects, and those of one kind and name."""
    rest, taken = [], []
    for each in objects:
        (taken if (each["kind"], each["metadata"]["name"]) == (kind, name) else rest).append(each)
    return rest, taken


def client_objects(image: str, *, secret: str | None = None, endpoint: bool = True) -> list[Manifest]:
    """Return a client pod ``check`` with the scripts, and a SPARQL endpoint ``check-target`` if wanted.

    ``secret``: a Secret with ca.crt, tls.crt and tls.key for the client.
    """
    scripts = {Path(name).name: (SUPPORT / name).read_text() for name in SCRIPTS}
    labels = {"p2prdf.client": "true", "p2prdf.http-client": "true"}
    objects = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "check-scripts"}, "data": scripts},
        _pod("check", image, ["sleep", "86400"], labels, secret=secret),
    ]
    if endpoint:
        serve = ["python3", "/check/sparql_endpoint.py", "store", "--host=0.0.0.0", "--port=8000"]
        objects += [
            _pod("check-target", image, serve, {"p2prdf.target": "true", "app": "check-target"}),
            {
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "check-target"},
                "spec": {"selector": {"app": "check-target"}, "ports": [{"port": 8000}]},
            },
        ]  # fmt: skip
    return objects


def dumps_objects(image: str, storage_class: str | None) -> list[Manifest]:
    """Return the claim ``p2prdf-dumps`` and a pod ``check-dumps`` that may write into it."""
    spec: Manifest = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    pod = _pod("check-dumps", image, ["sleep", "86400"], {})
    pod["spec"]["volumes"].append({"name": "dumps", "persistentVolumeClaim": {"claimName": "p2prdf-dumps"}})
    pod["spec"]["containers"][0]["volumeMounts"].append({"name": "dumps", "mountPath": "/dumps"})
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "p2prdf-dumps"}, "spec": spec}
    return [claim, pod]


def _pod(
    name: str, image: str, command: list[str], labels: Mapping[str, str], *, secret: str | None = None
) -> Manifest:
    environment = [{"name": "HOME", "value": "/tmp"}]
    mounts = [{"name": "scripts", "mountPath": "/check"}, {"name": "scratch", "mountPath": "/tmp"}]
    volumes: list[Manifest] = [
        {"name": "scripts", "configMap": {"name": "check-scripts"}}, {"name": "scratch", "emptyDir": {}},
    ]  # fmt: skip
    if secret is not None:
        files = {"CA": "ca.crt", "CERT": "tls.crt", "KEY": "tls.key"}
        environment += [{"name": f"P2PRDF_TLS_{each}", "value": f"/tls/{file}"} for each, file in files.items()]
        mounts.append({"name": "tls", "mountPath": "/tls"})
        volumes.append({"name": "tls", "secret": {"secretName": secret, "defaultMode": 0o440}})
    container = {
        "name": "check", "image": image, "imagePullPolicy": "IfNotPresent", "command": command, "workingDir": "/tmp",
        "env": environment,
        "volumeMounts": mounts,
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        },
    }  # fmt: skip
    identity = {"runAsNonRoot": True, "runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}
    spec = {
        "automountServiceAccountToken": False, "enableServiceLinks": False, "terminationGracePeriodSeconds": 1,
        "securityContext": {**identity, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container], "volumes": volumes,
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": dict(labels)}, "spec": spec}
