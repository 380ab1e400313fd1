"""A copy of ``k8s/`` that names the images under test, with two overlays for the check."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

import yaml

__all__ = ["CHECK", "NAMESPACE", "TLS", "TLS_NAMESPACE", "copy_manifests", "documented_commands", "split_image"]

NAMESPACE: Final = "p2prdf-dev"
TLS_NAMESPACE: Final = "p2prdf-check-tls"
CHECK: Final = "k8s/overlays/check"
TLS: Final = "k8s/overlays/check-tls"
WORKERS: Final = ["../../gateway", "../../interest-workers", "../../channel-workers"]
TARGET_HOST: Final = "check-target:8000"
Manifest = dict[str, Any]


def split_image(reference: str) -> tuple[str, str]:
    """Split an image's reference into name and tag; without a tag, ``latest``.  A port is no tag."""
    name, colon, tag = reference.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (reference, "latest")


def copy_manifests(root: Path, folder: Path, images: dict[str, str]) -> None:
    """Copy ``k8s/`` into a folder, let its kustomizations use the given images, and add the overlays of the check.

    ``images``: references by the name in the manifests.  The overlays of the repository stay as they are otherwise.
    """
    shutil.copytree(root / "k8s", folder / "k8s", dirs_exist_ok=True)
    for path in sorted(folder.glob("k8s/**/kustomization.yaml")):
        text = yaml.safe_load(path.read_text())
        changed = False
        for image in text.get("images", []):
            if image["name"] in images:
                image["newName"], image["newTag"] = split_image(images[image["name"]])
                changed = True
        if changed:
            path.write_text(yaml.safe_dump(text, sort_keys=False))
    if "p2prdf-fleet" in images:
        job = folder / "k8s/fleet/job.yaml"
        job.write_text(job.read_text().replace("value: p2prdf-fleet:0.2.0", f"value: {images['p2prdf-fleet']}"))
    _write(folder / CHECK, {
        "namespace": NAMESPACE,
        "resources": ["../dev", *WORKERS],
        "patches": [_hosts_of_targets()],
    })  # fmt: skip
    shutil.copy(folder / "k8s/overlays/dev/statefulset.yaml", _made(folder / TLS) / "statefulset.yaml")
    _write(folder / TLS, {
        "namespace": TLS_NAMESPACE,
        "resources": ["../../base", *WORKERS],
        "components": ["../../components/tls"],
        "secretGenerator": [{"name": "p2prdf-cluster", "literals": ["secret=for a check only", "seal-keys=secret"]}],
        "patches": [{"path": "statefulset.yaml"}],
    })  # fmt: skip


def _hosts_of_targets() -> Manifest:
    change = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "p2prdf-interest-worker"}}
    return {"patch": yaml.safe_dump({**change, "data": {"hosts": TARGET_HOST}})}


def _write(folder: Path, kustomization: Manifest) -> None:
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    (_made(folder) / "kustomization.yaml").write_text(yaml.safe_dump(head | kustomization, sort_keys=False))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def documented_commands(page: str, heading: str) -> list[str]:
    """Return the commands of a section's code blocks; a line that ends in a backslash goes on in the next one."""
    commands: list[str] = []
    inside = fenced = False
    unfinished = ""
    for line in page.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and line.startswith("#"):
            inside = line.lstrip("#").strip() == heading
        elif inside and fenced:
            unfinished += line
            if line.endswith("\\"):
                unfinished = unfinished[:-1]
            elif unfinished.strip():
                commands.append(unfinished.strip())
                unfinished = ""
    return commands
