"""``p2prdf node``: run one node of the overlay.

The options are the declared settings that are marked so (:mod:`p2prdf_node.config`), with the first sentences of
their meanings.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from p2prdf.errors import LocalProtocolError
from p2prdf.settings import Declaration
from p2prdf_cli.connecting import tls_files
from p2prdf_cli.exits import EXIT_CODES_HELP, ExitCode, complain, run_plain
from p2prdf_node.config import SETTINGS, load_config

__all__ = ["register"]

_TYPES: Final[dict[str, Any]] = {"bool": bool, "tuple[str, ...]": list[str] | None, "Path | None": Path | None}
"""Types of options by those of settings; all others are texts, which the configuration converts and checks."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXIT_CODES_HELP)(_with_options(node))
    app.command(epilog=EXIT_CODES_HELP)(backup)


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each setting that has one."""
    options = {name: _option(name, each) for name, each in SETTINGS.items() if each.on_command_line}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in options.items()
    ]
    config = inspect.signature(command, eval_str=True).parameters["config"]
    command.__signature__ = inspect.Signature([*parameters, config])  # type: ignore[attr-defined]  # typer reads it
    command.__annotations__ = {**options, "config": config.annotation}
    return command


def _option(name: str, declared: Declaration) -> Any:
    text = declared.help.partition(". ")[0].removesuffix(".") + "."
    if declared.default not in (None, False, "", ()):
        text += f" (default: {declared.default})"
    flag = f"--{name.replace('_', '-')}"
    metavar = declared.metavar or "|".join(declared.choices) or (None if declared.type == "bool" else "N")
    return Annotated[_TYPES.get(declared.type, str | None), typer.Option(flag, metavar=metavar, help=text)]


def node(
    *,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", envvar="P2PRDF_CONFIG", help="TOML file of settings.")
    ] = None,
    **options: Any,
) -> None:
    """Run one node of a cluster until SIGTERM or Ctrl-C.

    A serving node writes one line to standard output: ready HOST:PORT KEY. With
    seed nodes it serves when it has reached one of them. Logs go to standard error.
    Options override the environment (P2PRDF_LISTEN, ...), which overrides the file.
    All settings: docs/reference/settings.md.

    \b
    Examples:
      p2prdf node    # the first node, for this machine only
      p2prdf node --listen 127.0.0.1:7401 --bootstrap 127.0.0.1:7400
      p2prdf node --listen 0.0.0.0:7400 --secret-file cluster.key \\
                  --advertise db1.example.org --data /var/lib/p2prdf
    """
    options["bootstrap"] = ",".join(options["bootstrap"] or ()) or None
    options["first"] = options["first"] or None
    for name, path in tls_files().items():
        options[f"tls_{name}"] = options[f"tls_{name}"] or path
    run_plain(lambda: _serve(options, config))


def _serve(options: dict[str, object], file: Path | None) -> ExitCode:
    from p2prdf_node.daemon import run

    try:
        config = load_config(options, file=file, environment=os.environ)
    except LocalProtocolError as error:
        complain(error)
        return ExitCode.USAGE
    return ExitCode.OK if run(config) == 0 else ExitCode.FAILURE


def backup(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Data directory of a node, running or not.")],
    to: Annotated[Path, typer.Argument(metavar="DIR", help="New directory for the copy.")],
) -> None:
    """Copy the data directory of a node, consistently while the node runs.

    The copy has everything that the node has acknowledged before. To restore it,
    start a node with --data DIR, in the place of the original.

    \b
    Examples:
      p2prdf backup /var/lib/p2prdf /backups/node0-today
    """
    run_plain(lambda: _back_up(data, to))


def _back_up(data: Path, to: Path) -> None:
    from p2prdf_node.backup import back_up

    size = back_up(data, to)
    print(f"{to}: {size:,} bytes")
