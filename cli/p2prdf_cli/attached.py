"""Commands that other distributions attach, by the entry point group ``p2prdf.commands``.

An entry point names a ``typer.Typer``.  The laboratory (``lab/``) attaches ``experiment``.  Entry points
are read when the program lists its commands or gets a name that it does not know, because reading them
takes longer than the start of most commands.
"""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import typer

from p2prdf_cli.commands import Group, refuse
from p2prdf_cli.panels import COMMANDS

__all__ = ["ATTACHED", "GROUP", "Program"]

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
        names = dict.fromkeys([*super().list_commands(ctx), *self._attached])
        return sorted(names, key=lambda name: order.index(name) if name in order else len(order))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name, or None.

        Raises typer.Exit, with exit code 2, for a command of a distribution that is not installed.
        """
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            return found
        entry_point = self._attached.get(cmd_name)
        if entry_point is not None:
            self.commands[cmd_name] = found = _loaded(entry_point)
        elif cmd_name in ATTACHED:
            raise refuse(f"'{cmd_name}' is a command of {ATTACHED[cmd_name]}")
        return found

    @functools.cached_property
    def _attached(self) -> dict[str, EntryPoint]:
        return {each.name: each for each in entry_points(group=GROUP)}


def _loaded(entry_point: EntryPoint) -> Any:
    command: Any = typer.main.get_group(entry_point.load())
    command.name = entry_point.name
    for panel, texts in COMMANDS.items():
        if entry_point.name in texts:
            command.rich_help_panel, command.short_help = panel, texts[entry_point.name]
    return command
