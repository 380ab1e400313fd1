"""The package that publishes from Spark, where its extra is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HIDE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
import p2prdf.publish
"""


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow"])
def test_the_import_error_names_the_package_to_install(missing):
    command = [sys.executable, "-c", HIDE, missing]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 1
    last = told.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ModuleNotFoundError: p2prdf.publish needs {missing}")
    assert "pip install 'p2prdf[spark]'" in last
    assert "pip install '.[spark]'" in last
