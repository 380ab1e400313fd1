"""``python -m cluster_check``: the command behind ``make cluster-check``."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from cluster_check.kubectl import Cluster, Failed
from cluster_check.plan import STEPS, UnknownStep, selected
from cluster_check.report import Report, Result
from cluster_check.steps import RUN, Check
from cluster_check.tree import NAMESPACE, TLS_NAMESPACE, copy_manifests

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = ROOT / "docs/how-to/run-on-kubernetes.md"


def main() -> int:
    """Run the selected steps; return 0 if all passed, 1 if one failed, 2 if the check could not begin."""
    arguments = _arguments()
    try:
        steps = selected(arguments.step, skipped=arguments.skip)
        if arguments.list:
            for step in STEPS:
                print(f"{step.name:12} {step.purpose}")
            return 0
        _check_tools(arguments.kubeconfig)
        if arguments.load:
            subprocess.run(arguments.load, shell=True, check=True)
        with tempfile.TemporaryDirectory(prefix="p2prdf-cluster-") as folder:
            report = _run(arguments, [step.name for step in steps], Path(folder))
    except (Failed, UnknownStep) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"error: {arguments.load}: exit code {error.returncode}", file=sys.stderr)
        return 2
    print(report.markdown())
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report.as_json(), indent=1))
    return 0 if report.good else 1


def _check_tools(kubeconfig: str) -> None:
    if not kubeconfig or not Path(kubeconfig).is_file():
        raise Failed(f"no kubeconfig at {kubeconfig!r}; give --kubeconfig FILE")
    if shutil.which("kubectl") is None:
        raise Failed("kubectl is not installed")


def _run(arguments: argparse.Namespace, names: list[str], folder: Path) -> Report:
    images = {"p2prdf": arguments.image}
    if arguments.fleet_image is not None:
        images["p2prdf-fleet"] = arguments.fleet_image
    copy_manifests(ROOT, folder, images)
    cluster = Cluster(Path(arguments.kubeconfig).resolve(), folder, patience=arguments.patience)
    taken = [each for each in (NAMESPACE, TLS_NAMESPACE) if cluster.exists("namespace", each)]
    if taken and not arguments.reuse:
        raise Failed(f"the cluster has a namespace {taken[0]}: delete it, or give --reuse if it is of this check")
    check = Check(
        cluster, PAGE.read_text(), arguments.image, arguments.fleet_image, Path(sys.executable).parent / "p2prdf",
        rate=arguments.rate, late_seconds=arguments.late_seconds, storage_class=arguments.dumps_class,
    )  # fmt: skip
    report = Report(_versions(cluster), _machines(cluster), arguments.image)
    for name in names:
        result = Result(name)
        report.results.append(result)
        if name == "fleet" and arguments.fleet_image is None:
            result.state = "skipped"
            result.facts.append("no --fleet-image")
            continue
        began = time.monotonic()
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            RUN[name](check, result)
        except Failed as error:
            result.state = "failed"
            result.facts.append(str(error))
        result.seconds = time.monotonic() - began
        print(result.line(), file=sys.stderr, flush=True)
        if result.state == "failed" and (name == "start" or not arguments.go_on):
            break
    if not arguments.keep:
        for namespace in (NAMESPACE, TLS_NAMESPACE):
            check.remove(namespace)
    return report


def _versions(cluster: Cluster) -> dict[str, str]:
    server = json.loads(cluster.run("version", "-o", "json"))["serverVersion"]["gitVersion"]
    runtimes = {each["status"]["nodeInfo"]["containerRuntimeVersion"] for each in cluster.get("nodes")["items"]}
    return {"Kubernetes": server} | ({"runtime": " and ".join(sorted(runtimes))} if runtimes else {})


def _machines(cluster: Cluster) -> list[str]:
    return sorted(each["metadata"]["name"] for each in cluster.get("nodes")["items"])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cluster_check", description="Check the manifests of k8s/ in a real cluster.")
    parser.add_argument("step", nargs="*", help="steps to run, with those that they need (default: all)")
    parser.add_argument("--list", action="store_true", help="list the steps and exit")
    parser.add_argument("--skip", action="append", default=[], metavar="STEP", help="do not run this step")
    parser.add_argument("--kubeconfig", default=os.environ.get("KUBECONFIG", ""), metavar="FILE")
    parser.add_argument("--load", metavar="COMMAND", help="shell command that brings the images into the cluster")
    parser.add_argument("--image", default="p2prdf:0.2.0", metavar="REFERENCE", help="image of nodes and clients")
    parser.add_argument("--fleet-image", metavar="REFERENCE", help="image of the Spark fleet; without it, no fleet")
    parser.add_argument(
        "--dumps-class", metavar="NAME", help="StorageClass of the fleet's dumps (default: the default)"
    )
    parser.add_argument("--rate", type=float, default=20.0, help="publications a second under load (default 20)")
    parser.add_argument("--late-seconds", type=float, default=60.0, help="how long names do not resolve (default 60)")
    parser.add_argument("--patience", type=float, default=1.0, help="factor for all deadlines (default 1)")
    parser.add_argument("--go-on", action="store_true", help="run the next steps after one has failed")
    parser.add_argument("--reuse", action="store_true", help="use namespaces of an earlier check")
    parser.add_argument("--keep", action="store_true", help="keep the namespaces at the end")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON, too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
