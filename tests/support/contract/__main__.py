"""``python -m contract``: a node, a gateway, and schemathesis's requests; returns 1 for any wrong status.

``--schemathesis`` names the Python interpreter of an environment with schemathesis.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import sys
import tempfile
from pathlib import Path
from typing import Final

from chaos.cluster import Cluster
from gateways import GatewayProcess

SENDER: Final = Path(__file__).with_name("requests_sent.py")


async def run(interpreter: str, count: int, seed: int, folder: Path) -> int:
    """Send at least ``count`` requests; return the exit status."""
    cluster = Cluster(1, {"replicas": 1, "copies_min": 1, "drain_seconds": 1})
    try:
        await cluster.start()
        keys = folder / "keys"
        keys.write_text(f"contract {base64.b64encode(bytes(32)).decode()}\n")
        keys.chmod(0o600)
        gateway = await GatewayProcess.start(
            cluster.nodes[0].address, "--lease", "30", "--webhooks", str(keys), "--allow-host", "127.0.0.1",
            "--allow-private", "--allow-http",
        )  # fmt: skip
        try:
            sender = await asyncio.create_subprocess_exec(
                interpreter, SENDER, gateway.url, "--requests", str(count), "--seed", str(seed)
            )
            try:
                status = await sender.wait()
            finally:
                if sender.returncode is None:
                    sender.kill()
                    await sender.wait()
            if gateway.process.returncode is not None:
                print(f"contract: WRONG: the gateway ended with status {gateway.process.returncode}")
                status = 1
        finally:
            await gateway.kill()
        failures = await cluster.stop()
    finally:
        await cluster.close()
    for failure in failures:
        print(f"contract: WRONG: {failure}")
    return 1 if failures else status


def main() -> int:
    """Run with the options of the command line."""
    parser = argparse.ArgumentParser("contract", description=__doc__)
    parser.add_argument("--schemathesis", required=True, metavar="PYTHON")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(run(options.schemathesis, options.requests, options.seed, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
