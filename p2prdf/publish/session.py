"""A Spark session with everything set that the Python Data Source API needs on a machine nobody has set up."""

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
    """Return a Spark session in which the data source ``p2prdf`` is registered; the running one, if there is one.

    Finds Java, or brings one (:func:`p2prdf.publish.java.ensure_java`).  With a master on this machine (``local...``)
    everything stays on the loopback interface, workers run the same Python as this process, and what they write lies in
    a temporary folder; elsewhere that is for the cluster to say.  Sets environment variables of this process,
    but none that is set.  ``settings``: of Spark, which go before those that are set here.
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
