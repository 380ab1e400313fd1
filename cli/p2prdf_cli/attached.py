"""Commands of the program, each loaded at its first use: its own ones and those of other distributions.

A call of one command imports that command's module alone.  The help imports all of them.

Other distributions attach commands by the entry point group ``p2prdf.commands``; an entry point names a
``typer.Typer``.  The laboratory (``lab/``) attaches ``experiment``.  Entry points are read when the program lists its
commands or gets a name that it does not know, because reading them takes longer than the start of most commands.
"""

from __future__ import annotations

import functools
import importlib
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import typer

from p2prdf_cli.commands import Commands, Group, refuse
from p2prdf_cli.panels import COMMANDS, put_into_panel

__all__ = ["ATTACHED", "GROUP", "MODULES", "Program"]

MODULES: Final = {
    "node": "node",
    "publish": "publish",
    "subscribe": "subscribe",
    "unsubscribe": "subscriptions",
    "query": "query",
    "update": "update",
    "backup": "node",
    "export": "export",
    "status": "subscriptions",
    "serve": "serve",
    "mcp": "mcp",
    "derive": "derive",
    "replica": "replica",
    "changesets": "changesets",
    "spark-publish": "spark_publish",
    "ca": "ca",
    "member": "member",
    "rules": "rules",
    "interest": "interest",
    "channel": "channel",
    "explain": "explain",
    "trace": "trace",
    "corpus": "corpus",
    "demo": "demo.command",
    "simulate": "simulate",
}
"""Modules of ``p2prdf_cli`` by command; the function ``register`` of a module adds its commands to a group."""

GROUP: Final = "p2prdf.commands"
"""Entry point group of commands."""

ATTACHED: Final = {
    "experiment": "the laboratory, which is not installed: pip install './lab[plot]' in a checkout of the source",
}
"""Commands that the help knows, and the distribution that attaches each."""


class Program(Group):
    """The group of all commands: its own, and those that other distributions attach."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the panels; attached commands that no panel names come last."""
        order = [name for texts in COMMANDS.values() for name in texts]
        names = dict.fromkeys([*MODULES, *super().list_commands(ctx), *self._attached])
        return sorted(names, key=lambda name: order.index(name) if name in order else len(order))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name, or None.

        Raises typer.Exit, with exit code 2, for a command of a distribution that is not installed.
        """
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        if cmd_name in MODULES:
            found = _own(MODULES[cmd_name])[cmd_name]
        elif cmd_name in self._attached:
            found = typer.main.get_group(self._attached[cmd_name].load())
            found.name = cmd_name
        elif cmd_name in ATTACHED:
            raise refuse(f"'{cmd_name}' is a command of {ATTACHED[cmd_name]}")
        else:
            for name in MODULES:  # the error suggests similar names of loaded commands
                self.get_command(ctx, name)
            return None
        put_into_panel(found)
        self.commands[cmd_name] = found
        return found

    @functools.cached_property
    def _attached(self) -> dict[str, EntryPoint]:
        return {each.name: each for each in entry_points(group=GROUP)}


def _own(module: str) -> dict[str, Any]:
    """Return the commands of a module of this package."""
    commands = Commands()
    importlib.import_module(f"p2prdf_cli.{module}").register(commands)
    return dict(typer.main.get_group(commands).commands)
