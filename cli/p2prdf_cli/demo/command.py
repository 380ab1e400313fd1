"""The command ``p2prdf demo``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from p2prdf_cli.exits import EXIT_CODES_HELP, ExitCode, run
from p2prdf_cli.options import Json

if TYPE_CHECKING:
    from p2prdf_cli.demo.daemons import Daemons

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXIT_CODES_HELP)(demo)


def _publisher(value: str | None) -> str | None:
    if value not in (None, "spark", "plain"):
        raise typer.BadParameter(f"{value!r} is neither spark nor plain")
    return value


def demo(
    nodes: Annotated[int, typer.Option(min=1, max=50, help="Number of node processes.")] = 5,
    airports: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of airports. (default: all, about 28,000)")
    ] = None,
    publisher: Annotated[
        str | None,
        typer.Option(metavar="spark|plain", help="Publisher. (default: spark if installed)", callback=_publisher),
    ] = None,
    as_json: Json = False,
) -> None:
    """Start a small cluster on this machine and check its solutions.

    Starts five nodes on loopback, subscribes to queries, publishes the world's
    airports (about 250,000 triples) through Spark or plain clients, and compares all
    solutions with a centralised evaluation. Exit code 1 if they differ.

    \b
    Examples:
      p2prdf demo
      p2prdf demo --nodes 8 --airports 5000 --publisher plain
    """
    try:
        import airportsdata  # noqa: F401 - reports a missing package before the start
    except ImportError:
        raise typer.BadParameter("the demonstration's data is not installed: pip install 'p2prdf[demo]'") from None
    from p2prdf_cli.demo.daemons import Daemons
    from p2prdf_cli.demo.fleet import Fleet

    if publisher == "spark" and not Fleet.installed():
        raise typer.BadParameter("Spark is not installed: pip install 'p2prdf[spark]', or --publisher plain")
    spark = publisher != "plain" and Fleet.installed()
    daemons = Daemons()
    try:
        run(_play(daemons, nodes, airports, spark=spark, as_json=as_json))
    finally:
        daemons.kill()


async def _play(daemons: Daemons, nodes: int, airports: int | None, *, spark: bool, as_json: bool) -> ExitCode:
    from p2prdf_cli.demo.fleet import Fleet
    from p2prdf_cli.demo.run import Demonstration
    from p2prdf_cli.demo.screen import Screen
    from p2prdf_cli.render import write_json
    from p2prdf_cli.terminal import output

    console = output()
    fleet = Fleet() if spark else None
    summary = await Demonstration(daemons, Screen(console, quiet=as_json), nodes, airports, fleet).play()
    if as_json:
        write_json(summary.as_json())
    else:
        for each in summary.tables():
            console.print()
            console.print(each)
        console.print()
        verdict = "all expected, each once, and no others" if summary.good else "THEY DIFFER from the expected ones"
        console.print(f"{sum(h.answers for h in summary.holdings):,} solutions: {verdict}; all nodes are stopped")
    return ExitCode.OK if summary.good else ExitCode.FAILURE
