"""A Spark session with all settings of the Python Data Source API, for an unprepared machine."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from p2prdf.publish.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["session"]

_LOOPBACK: Final = "127.0.0.1"


def session(
    *, master: str = "local[*]", name: str = "p2prdf", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a Spark session with the data source ``p2prdf``; the running session if there is one.

    Finds Java, or provides it (:func:`p2prdf.publish.java.ensure_java`). With a local master (``local...``) all
    traffic stays on the loopback interface, workers run the Python of this process, and their files are in a
    temporary folder; otherwise the cluster's configuration decides. Sets environment variables of this process,
    unless they are set already. ``settings``: Spark settings with precedence over those set here.
    """
    from pyspark.sql import SparkSession

    from p2prdf.publish.source import P2PRDF

    ensure_java()
    chosen = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
    }
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        if master.startswith("local-cluster"):  # its workers write beside Spark's own files otherwise
            folder = tempfile.mkdtemp(prefix="p2prdf-spark-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            os.environ.setdefault("SPARK_WORKER_DIR", folder)
        chosen |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**chosen, **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(P2PRDF)
    return spark
