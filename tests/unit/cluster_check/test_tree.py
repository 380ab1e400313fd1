"""The check works on a copy of the manifests with the images under test, and on the documentation's own commands."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from cluster_check.objects import client_objects, dumps_objects, in_namespace, without
from cluster_check.tree import CHECK, NAMESPACE, TLS, TLS_NAMESPACE, copy_manifests, documented_commands, split_image

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("p2prdf:0.2.0", ("p2prdf", "0.2.0")),
        ("localhost/p2prdf:0.2.0", ("localhost/p2prdf", "0.2.0")),
        ("registry.example.org:5000/p2prdf", ("registry.example.org:5000/p2prdf", "latest")),
        ("registry.example.org:5000/p2prdf:1", ("registry.example.org:5000/p2prdf", "1")),
    ],
)
def test_an_image_reference_is_split_at_its_tag_and_not_at_a_port(reference: str, expected: tuple[str, str]) -> None:
    assert split_image(reference) == expected


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    copy_manifests(ROOT, tmp_path, {"p2prdf": "example.org:5000/p2prdf:9", "p2prdf-fleet": "example.org:5000/fleet:9"})
    return tmp_path


@pytest.mark.parametrize(("overlay", "namespace"), [(CHECK, NAMESPACE), (TLS, TLS_NAMESPACE), ("k8s/fleet", None)])
def test_rendered_manifests_use_the_image_under_test_in_their_namespace(
    tree: Path, overlay: str, namespace: str | None
) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    words = ["kubectl", "kustomize", tree / overlay]
    rendered = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    objects = [each for each in yaml.safe_load_all(rendered) if each]
    pods = [each["spec"]["template"]["spec"] for each in objects if "template" in each.get("spec", {})]
    images = {container["image"] for pod in pods for container in pod["containers"]}
    assert images == {"example.org:5000/fleet:9" if overlay == "k8s/fleet" else "example.org:5000/p2prdf:9"}
    assert ("p2prdf-fleet:0.2.0" in rendered) is False
    assert {each["metadata"].get("namespace") for each in objects if each["kind"] != "Namespace"} == {namespace}


def test_the_commands_of_the_documentation_are_found_and_are_the_ones_that_the_check_needs() -> None:
    commands = documented_commands((ROOT / "docs/how-to/run-on-kubernetes.md").read_text(), "Three nodes")
    assert sum("p2prdf subscribe" in each for each in commands) == 1
    assert sum("p2prdf publish" in each for each in commands) == 1
    assert "kubectl apply -k k8s/overlays/dev" in commands
    assert not any(each.endswith("\\") for each in commands)


def test_commands_are_those_of_code_blocks_in_one_section_with_continued_lines_joined() -> None:
    page = "# A\n```\nno\n```\n## B\ntext\n```\none \\\n  two\n# comment\n\nthree\n```\n## C\n```\nno\n```\n"
    assert documented_commands(page, "B") == ["one   two", "# comment", "three"]


def test_objects_move_to_a_namespace_and_one_can_be_left_out() -> None:
    rendered = (
        "kind: Namespace\nmetadata: {name: old}\n---\nkind: Service\nmetadata: {name: a, namespace: old}\n---\n"
        "kind: RoleBinding\nmetadata: {name: b}\nsubjects: [{name: c, namespace: old}]\n"
    )
    objects = in_namespace(rendered, "new")
    assert [each["metadata"]["namespace"] for each in objects] == ["new", "new"]
    assert objects[1]["subjects"] == [{"name": "c", "namespace": "new"}]
    rest, taken = without(objects, "Service", "a")
    assert ([each["kind"] for each in rest], [each["kind"] for each in taken]) == (["RoleBinding"], ["Service"])


def test_pods_of_the_check_satisfy_the_restricted_security_level() -> None:
    objects = [*client_objects("i", secret="s"), *dumps_objects("i", None)]
    pods = [each for each in objects if each["kind"] == "Pod"]
    assert len(pods) == 3
    for pod in pods:
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["spec"]["containers"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        volumes = {each["name"] for each in pod["spec"]["volumes"]}
        assert {each["name"] for each in container["volumeMounts"]} == volumes
