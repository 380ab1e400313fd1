"""The demonstration's publisher: Spark with two executor threads on this machine, fed with a file of N-Triples."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from p2prdf_cli.demo.airports import Triple

__all__ = ["Fleet"]

MASTER: Final = "local[2]"
_PACKAGES: Final = ("pyspark", "pyarrow")


class Fleet:
    """A Spark session that publishes, in one thread: a session knows its data sources only in its own thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "spark")
        self._session: asyncio.Future[Any] | None = None

    @staticmethod
    def installed() -> bool:
        """Tell whether the extra ``spark`` is installed."""
        return all(importlib.util.find_spec(name) is not None for name in _PACKAGES)

    def start(self) -> None:
        """Begin to start Spark, which takes some ten seconds."""
        self._session = asyncio.get_running_loop().run_in_executor(self._thread, _start)

    async def publish(self, triples: Sequence[Triple], peers: Sequence[str]) -> dict[str, Any]:
        """Publish triples, and return the commit's report.  Raises the errors of :func:`p2prdf.publish.session`."""
        assert self._session is not None
        await self._session
        return await asyncio.get_running_loop().run_in_executor(self._thread, _publish, triples, peers)

    async def stop(self) -> None:
        """End the session, if it was started."""
        if self._session is not None:
            with contextlib.suppress(Exception):  # publish() has reported a failed start
                spark = await self._session
                await asyncio.get_running_loop().run_in_executor(self._thread, spark.stop)
        self._thread.shutdown()


def _start() -> Any:
    from p2prdf.publish import session

    return session(master=MASTER, name="p2prdf demo", settings={"spark.log.level": "OFF"})


def _publish(triples: Sequence[Triple], peers: Sequence[str]) -> dict[str, Any]:
    from p2prdf.publish import read_rdf, read_report

    # Spark finds data sources by the active session of the Java thread, which may have changed since the start.
    spark = _start()
    with tempfile.TemporaryDirectory(prefix="p2prdf-demo-") as folder:
        file, report = Path(folder) / "airports.nt", Path(folder) / "report"
        with file.open("w", encoding="utf-8") as lines:
            lines.writelines(f"{s} {p} {o} .\n" for s, p, o in triples)
        frame = read_rdf(spark, [str(file)])
        options = {"peers": ",".join(peers), "report": str(report)}
        frame.write.format("p2prdf").mode("append").options(**options).save()
        (told,) = read_report(report)
        return told
