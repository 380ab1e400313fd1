"""``p2prdf spark-publish``: publication of RDF files by Spark, on a cluster or all cores of a machine."""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from p2prdf import errors
from p2prdf.errors import LocalProtocolError
from p2prdf_cli.connecting import tls_in_use
from p2prdf_cli.exits import EXIT_CODES_HELP, run_plain
from p2prdf_cli.options import PEER_DEFAULT, Json, addresses, with_options

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("spark-publish", epilog=EXIT_CODES_HELP)(spark_publish)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT...",
            help="RDF files, folders, globs: .nt .nq (.gz .bz2 .zst) .ttl .trig .rdf .owl .jsonld .jelly (.gz).",
        ),
    ] = None
    peer: Annotated[
        list[str],
        typer.Option(
            "--peer",
            "-p",
            metavar="HOST:PORT",
            envvar="P2PRDF_PEER",
            callback=addresses,
            help="Nodes to publish at; repeatable.",
        ),
    ] = field(default_factory=PEER_DEFAULT.copy)
    master: Annotated[
        str, typer.Option(metavar="URL", help="Master of Spark: local[*], spark://..., yarn, k8s://...")
    ] = "local[*]"
    stream: Annotated[
        str | None, typer.Option(metavar="DIR", help="Publish files that appear in this folder, until interrupted.")
    ] = None
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Progress of --stream. (default: DIR/.p2prdf-checkpoint)")
    ] = None
    once: Annotated[bool, typer.Option("--once", help="With --stream: publish the present files, then stop.")] = False
    rate: Annotated[float, typer.Option(min=0, metavar="N", help="Most triples per second; 0: no limit.")] = 0
    graph: Annotated[
        str | None, typer.Option(metavar="IRI", help="Graph of triples that name none. (default: the default graph)")
    ] = None
    job: Annotated[
        str | None, typer.Option(metavar="NAME", help="A repeated job with this name publishes no event twice.")
    ] = None
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first malformed line.")
    ] = False
    bad: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for skipped lines and rows.")] = None
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="Setting of Spark; repeatable.")
    ] = None
    as_json: Json = False


@with_options(_Settings)
def spark_publish(settings: _Settings) -> None:
    """Publish RDF through Spark; done when all triples are indexed at all owners.

    Needs the extra spark (pip install 'p2prdf[spark]'); Java is included. Files are
    split over the executors; each partition is published at one node. With --stream
    each new file of a folder is published once, also after an interruption.

    \b
    Examples:
      p2prdf spark-publish dump.nt.bz2 --peer 10.0.0.1:7400,10.0.0.2:7400
      p2prdf spark-publish 'hdfs:///dumps/*.nq.gz' --master yarn --peer node1:7400
      p2prdf spark-publish --stream incoming --rate 5000
    """
    run_plain(lambda: _run(settings))


def _run(settings: _Settings) -> None:
    if bool(settings.inputs) == bool(settings.stream):
        raise LocalProtocolError("name either files to publish or, with --stream, a folder to watch")
    pairs = [each.partition("=") for each in settings.conf or ()]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise LocalProtocolError(f"--conf {key}: a setting of Spark is KEY=VALUE")
    try:
        from p2prdf.publish import session
    except ImportError as error:
        raise LocalProtocolError(f"{error.name} is not installed: pip install 'p2prdf[spark]'") from None
    spark = session(
        master=settings.master, name="p2prdf spark-publish",
        settings={"spark.log.level": "OFF", **{key: value for key, _, value in pairs}},
    )  # fmt: skip
    try:
        with tempfile.TemporaryDirectory(prefix="p2prdf-") as folder:
            _publish(spark, settings, Path(folder) / "report")
    finally:
        spark.stop()


def _publish(spark: Any, settings: _Settings, report: Path) -> None:
    from p2prdf.publish import read_rdf, stream_rdf

    bad_lines = spark.sparkContext.accumulator(0)
    how: dict[str, Any] = {
        "strict": settings.strict, "bad_lines": bad_lines, "bad_lines_path": str(settings.bad or ""),
        "publication": settings.job or "",
    }  # fmt: skip
    options = {
        "peers": ",".join(settings.peer), "badRows": "fail" if settings.strict else "skip", "report": str(report),
        **({"graph": settings.graph} if settings.graph else {}), **({"job": settings.job} if settings.job else {}),
        **({"badRowsPath": str(settings.bad)} if settings.bad and not settings.strict else {}),
        **_tls_options(),
    }  # fmt: skip
    slots = spark.sparkContext.defaultParallelism
    if settings.rate:
        options["partitionRate"] = f"{settings.rate / slots:g}"
    try:
        if settings.stream is None:
            frame = read_rdf(spark, settings.inputs or [], **how)
            _paced(frame, settings, slots).write.format("p2prdf").mode("append").options(**options).save()
        else:
            frame = _paced(stream_rdf(spark, settings.stream, **how), settings, slots)
            _stream(frame, settings, options)
    except Exception as error:  # noqa: BLE001 - Spark wraps the original error in its own
        raise _as_ours(error) from None
    _report(settings, report, int(bad_lines.value))


def _tls_options() -> dict[str, str]:
    """Return options for executors to connect with this command's TLS; they need the files at the same paths."""
    tls = tls_in_use()
    if tls is None:
        return {}
    return {"tlsCa": str(tls.ca), "tlsCert": str(tls.cert), "tlsKey": str(tls.key)}


def _paced(frame: Any, settings: _Settings, slots: int) -> Any:
    """Limit the concurrent partitions to the number among which the rate is shared."""
    return frame.coalesce(slots) if settings.rate else frame


def _stream(frame: Any, settings: _Settings, options: dict[str, str]) -> None:
    assert settings.stream is not None
    checkpoint = settings.checkpoint or Path(settings.stream) / ".p2prdf-checkpoint"
    writer = frame.writeStream.format("p2prdf").options(**options, checkpointLocation=str(checkpoint))
    writer = writer.trigger(availableNow=True) if settings.once else writer.trigger(processingTime="1 second")
    query = writer.start()
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        print("p2prdf: interrupted; the same command continues from the checkpoint", file=sys.stderr)
        query.stop()


def _as_ours(error: Exception) -> Exception:
    """Return the error of a failed task or plan, as an error of p2prdf if it was one."""
    if isinstance(error, LocalProtocolError):
        return error
    found = re.findall(r"^p2prdf\.errors\.(\w+): (.*)$", str(error), re.MULTILINE)
    if not found:
        return error
    name, text = found[-1]
    kind = getattr(errors, name, LocalProtocolError)
    return errors.error_from_code(kind.code, text)


def _report(settings: _Settings, report: Path, bad_lines: int) -> None:
    from p2prdf.publish import read_report
    from p2prdf_cli.render import write_json

    told = read_report(report)
    sums = {name: sum(each[name] for each in told) for name in ("triples", "repeated", "bad_rows", "partitions")}
    bad = bad_lines + sums["bad_rows"]
    seconds = sum(each["slowest_seconds"] for each in told)
    if settings.as_json:
        write_json({**sums, "commits": len(told), "bad_lines": bad_lines}, line=True)
        return
    again = f", {sums['repeated']:,} sent again" if sums["repeated"] else ""
    skipped = f", {bad:,} malformed skipped" if bad else ""
    print(f"{sums['triples']:,} triples published in {seconds:.1f} s by {sums['partitions']} tasks{again}{skipped}")
