"""``p2prdf experiment plan``: predicted load, traffic and memory of an overlay."""

from __future__ import annotations

import enum
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from p2prdf.errors import DataRefused, LocalProtocolError
from p2prdf_cli.exits import ExitCode, run_plain
from p2prdf_cli.options import AlgorithmName
from p2prdf_lab.commands.output import JsonFile, PlotFile, document_foot, refuse_early, write_document, write_figure
from p2prdf_lab.commands.queries import read_queries

if TYPE_CHECKING:
    from p2prdf_lab.capacity.plan import PlanOptions

__all__ = ["plan"]

TRIPLES_MAX: Final = 300_000


class Indexes(enum.StrEnum):
    """The indexes that every triple is put into."""

    all = "all"
    on_demand = "on-demand"


class OverlayName(enum.StrEnum):
    """Overlay that assigns keys to nodes."""

    kademlia = "kademlia"
    chord = "chord"


class PlacesName(enum.StrEnum):
    """Placement of peers on the ring."""

    random = "random"
    even = "even"


def plan(
    peers: Annotated[int, typer.Option(min=1, max=100_000, help="Number of nodes to plan for.")],
    queries: Annotated[
        list[Path],
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="Standing queries: SPARQL separated by lines of ----, or .json; repeatable.",
        ),
    ],
    data: Annotated[
        Path, typer.Option(metavar="FILE", help="A sample of the stream: .nt, .nq or .ttl, each also .gz.")
    ],
    rate: Annotated[float, typer.Option(metavar="N", help="Triples published per second.")] = 1000.0,
    hours: Annotated[
        float | None, typer.Option(metavar="H", help="Length of the stream. (default: the sample)")
    ] = None,
    algorithm: Annotated[AlgorithmName, typer.Option(help="Join algorithm.")] = AlgorithmName.csbv,
    indexes: Annotated[
        Indexes, typer.Option(help="Indexes of the nodes: all, or those that the queries need.")
    ] = Indexes.all,
    overlay: Annotated[OverlayName, typer.Option(help="Overlay that assigns keys to nodes.")] = OverlayName.kademlia,
    places: Annotated[PlacesName, typer.Option(help="Places of nodes on the ring.")] = PlacesName.random,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Triples published at once.")] = 1000,
    publishers: Annotated[int, typer.Option(min=1, metavar="N", help="Nodes at which triples are published.")] = 1,
    triples_max: Annotated[int, typer.Option(min=1, metavar="N", help="Largest sample, in triples.")] = TRIPLES_MAX,
    node_load: Annotated[
        float, typer.Option(metavar="N", help="Capacity of a node: copies and partial results per second.")
    ] = 200_000.0,
    node_memory: Annotated[float, typer.Option(metavar="GIB", help="Memory of a node.")] = 4.0,
    node_link: Annotated[
        float, typer.Option(metavar="MBIT", help="Bandwidth of a node, both directions together.")
    ] = 1000.0,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal plans.")] = 1,
    plot: PlotFile = None,
    document: JsonFile = None,
) -> None:
    """Plan capacity: load, traffic and memory of N nodes for queries and a stream.

    Joins a sample of the data with the queries as nodes do. Loads and messages are
    counted, bytes are those of real frames, memory that of real tables; only the
    time after the sample is estimated.

    \b
    Examples:
      p2prdf experiment plan --peers 50 -f q.rq --data airports.nt.gz
      p2prdf experiment plan --peers 50 -f all.json --data d.nt --rate 2000 --hours 8
      p2prdf experiment plan --peers 50 -f q.rq --data d.nt --algorithm cqc --plot plan.png
    """
    from p2prdf.rdf.query import Algorithm
    from p2prdf_lab.capacity.plan import NodeLimits, PlanOptions

    options = PlanOptions(
        peers, Algorithm(algorithm.value), indexes.value, overlay.value, places.value, rate, hours, batch, publishers,
        seed, NodeLimits(node_load, node_memory * (1 << 30), node_link * 1e6 / 8),
    )  # fmt: skip
    try:
        options.validate()
    except LocalProtocolError as error:
        raise typer.BadParameter(str(error)) from None

    def action() -> ExitCode:
        refuse_early(plot, document)
        return _run(options, queries, data, triples_max, plot, document)

    run_plain(action)


def _run(
    options: PlanOptions, queries: list[Path], data: Path, triples_max: int, plot: Path | None, document: str | None
) -> ExitCode:
    from p2prdf_cli.progress import RunBar
    from p2prdf_lab.capacity.planner import plan_capacity
    from p2prdf_lab.capacity.verdict import verdict
    from p2prdf_lab.commands.plan_report import foot, panels, write_plan

    started = time.monotonic()
    with RunBar("reading") as bar:
        asked = read_queries(queries)
        triples, more = _read(data, triples_max)
        found = plan_capacity(asked, triples, options, bar.show)
    seconds = time.monotonic() - started
    taken = f"the first {triples_max:,} triples of {data} (--triples-max)"
    sample = taken if more else f"all {len(triples[0]):,} triples of {data}"
    if plot is not None:
        write_figure(plot, f"Capacity of {options.peers:,} peers", panels(found), foot(found))
    if document is not None:
        source = {"data": str(data), "cut_at_triples_max": more, "verdict": verdict(found)}
        write_document({**found.as_dict(), **source, **document_foot(seconds)}, document)
    if document != "-":
        write_plan(found, sample, seconds, plot)
    return ExitCode.OK


def _read(file: Path, triples_max: int) -> tuple[tuple[list[str], list[str], list[str]], bool]:
    """Return the triples of a file as columns, and whether the file has more than ``triples_max``."""
    from p2prdf.rdf.ntriples import detect, read_triples

    syntax, compressed = detect(file.name)
    columns: tuple[list[str], list[str], list[str]] = ([], [], [])
    with file.open("rb") as stream:
        for batch in read_triples(
            stream, publication_id="plan", syntax=syntax, compressed=compressed, source=str(file), strict=True
        ):
            for column, part in zip(columns, (batch.s, batch.p, batch.o), strict=True):
                column += part
            if len(columns[0]) > triples_max:
                for column in columns:
                    del column[triples_max:]
                return columns, True
    if not columns[0]:
        raise DataRefused("there is no triple in it", source=str(file))
    return columns, False
