"""Clients of SPARQL endpoints by other authors, installed by ``make clients`` into ``.clients``.

Packages of Node.js are also found by NODE_PATH, the jars of Jena by P2PRDF_JENA, a folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["HERE", "INSTALL", "NODE", "jena_jars", "missing_package", "package_folder"]

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
INSTALL = "install it by: make clients"
NODE = os.environ | {
    "NODE_PATH": os.pathsep.join(filter(None, (os.environ.get("NODE_PATH"), str(ROOT / ".clients/node_modules")))),
}
"""The environment of Node.js."""
SECONDS = 120.0


def missing_package(name):
    """Return whether Node.js, or a package of it, is not here."""
    if shutil.which("node") is None:
        return True
    asked = ["node", "-e", f"require.resolve({json.dumps(name)})"]
    return subprocess.run(asked, capture_output=True, check=False, timeout=SECONDS, env=NODE).returncode != 0


def package_folder(name):
    """Return the folder of a package of Node.js, or None."""
    folders = NODE["NODE_PATH"].split(os.pathsep)
    return next((Path(each, name) for each in folders if Path(each, name).is_dir()), None)


def jena_jars():
    """Return the class path of Jena, or None if Java or the jars are not here."""
    folder = Path(os.environ.get("P2PRDF_JENA") or ROOT / ".clients/jena")
    if shutil.which("java") is None or not list(folder.glob("jena-arq-*.jar")):
        return None
    return f"{folder}/*"
