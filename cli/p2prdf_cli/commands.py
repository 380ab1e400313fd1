"""Base classes of commands and groups, and the former names of commands and options.

A renamed command or option is refused with exit code 2 and one line that names the new form.  ``RENAMED_COMMANDS``
and ``RENAMED_OPTIONS`` hold all of them, so that no command needs a stub.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from p2prdf_cli.exits import ExitCode
from p2prdf_cli.panels import set_panels

__all__ = ["RENAMED_COMMANDS", "RENAMED_OPTIONS", "Command", "Commands", "Group", "refuse"]

RENAMED_COMMANDS: Final = {
    "gateway": "serve gateway",
    "replica serve": "serve interests",
    "channel serve": "serve channels",
    "channel create": "channel add",
    "channel drop": "channel remove",
    "channel stats": "channel status",
}
"""New names of commands by their former names, both without ``p2prdf``."""

RENAMED_OPTIONS: Final = {
    ("spark-publish", "--peers"): "--peer",
    ("interest add", "--query"): "--file",
    ("channel add", "--query"): "--file",
    ("simulate", "--query"): "--file",
    ("simulate", "-q"): "-f",
    ("experiment plan", "--queries"): "--file",
    ("replica apply", "--interest"): "--file",
    ("replica follow", "--interest"): "--file",
    ("derive", "--drop"): "--remove",
    ("ca issue", "--out"): "--output",
    ("node", "--rights"): "--permissions",
    ("node", "--roles"): "--indexes",
    ("status", "--in-step"): "--in-sync",
}
"""New names of options by the command's present name and the option's former name."""


def _path(ctx: Any) -> str:
    """Return the words that lead to a command, without ``p2prdf``."""
    words: list[str] = []
    while ctx.parent is not None:
        words.insert(0, ctx.info_name)
        ctx = ctx.parent
    return " ".join(words)


def refuse(text: str) -> typer.Exit:
    """Write a line about wrong usage, and return the exception that ends the program with exit code 2."""
    print(f"p2prdf: error [usage]: {text}", file=sys.stderr)
    return typer.Exit(ExitCode.USAGE)


class Command(TyperCommand):
    """A command with its options in panels; it refuses options by their former names."""

    def __init__(self, *given: Any, **how: Any):
        super().__init__(*given, **how)
        set_panels(self.params)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments.  Raises typer.Exit, with exit code 2, for a renamed option."""
        try:
            return super().parse_args(ctx, args)
        except typer.Exit:
            raise
        except Exception as error:
            path, option = _path(ctx), getattr(error, "option_name", "")
            new = RENAMED_OPTIONS.get((path, option))
            if new is None:
                raise
            raise refuse(f"'{option}' is now '{new}': p2prdf {path} {new} ...") from None


class Group(TyperGroup):
    """A group of commands that refuses commands by their former names."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options of the group, each with a one-line text."""
        options = super().get_params(ctx)
        for each in options:
            if each.name == "show_completion":
                each.help = "Print completion for the current shell."  # type: ignore[attr-defined]
        return options

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command.  Raises typer.Exit, with exit code 2, for a renamed command."""
        old = f"{_path(ctx)} {args[0]}".strip()
        new = RENAMED_COMMANDS.get(old)
        if new is not None:
            raise refuse(f"'{old}' is now '{new}': p2prdf {new} ...")
        return super().resolve_command(ctx, args)


class Commands(typer.Typer):
    """A group under construction: commands are added by :meth:`command`."""

    def __init__(self, **how: Any):
        super().__init__(**{"cls": Group, "no_args_is_help": True, "rich_markup_mode": "rich", **how})

    def command(self, name: str | None = None, **how: Any) -> Any:
        """Add a command, as :meth:`typer.Typer.command` does."""
        return super().command(name, **{"cls": Command, **how})
