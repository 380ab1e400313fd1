"""Reads and writes scenario files.

A file is a sequence of blocks.  A block has comments (lines that start with ``#``), commands (one on a line; an
indented line continues the command above it), a separator ``----`` and the expected output, which ends at the next
blank line.  Comments and blank lines are kept when a file is rewritten.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["SEPARATOR", "Block", "Command", "ScenarioError", "parse", "play", "shown"]

SEPARATOR: Final = "----"


class ScenarioError(Exception):
    """A line of a scenario file is wrong; the text starts with the file and the number of the line."""

    def __init__(self, path: Path, line: int, text: str):
        super().__init__(f"{path}:{line}: {text}")


@dataclass(frozen=True, slots=True)
class Command:
    """A command with the number of its first line."""

    line: int
    text: str


@dataclass(slots=True)
class Block:
    """Commands and their output; ``head`` holds the lines of the file from the last block to the separator."""

    head: list[str] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    separated: bool = False


def parse(text: str, path: Path) -> list[Block]:
    """Return the blocks of a scenario file.

    The last block may hold comments only.  A block without a separator has ``separated`` false: the file is new, and
    ``--rewrite-golden`` will write its output.
    """
    blocks = [Block()]
    for number, line in enumerate(text.splitlines(), 1):
        block = blocks[-1]
        if block.separated:
            if line.strip():
                block.output.append(line)
                continue
            blocks.append(Block(head=[line]))
        elif line.strip() == SEPARATOR:
            if not block.commands:
                raise ScenarioError(path, number, f"{SEPARATOR} follows no command")
            block.separated = True
        elif not line.strip():
            if block.commands:
                blocks.append(Block())
            blocks[-1].head.append(line)
        else:
            block.head.append(line)
            if line.startswith("#"):
                continue
            if not line[0].isspace():
                block.commands.append(Command(number, line.strip()))
            elif block.commands:
                last = block.commands.pop()
                block.commands.append(Command(last.line, f"{last.text} {line.strip()}"))
            else:
                raise ScenarioError(path, number, "an indented line continues a command, and none stands above it")
    return blocks


def play(blocks: Sequence[Block], run: Callable[[Command], list[str]]) -> list[Block]:
    """Return the blocks with the output that their commands print when they are executed in order."""
    return [
        Block(block.head, block.commands, [line for each in block.commands for line in run(each)], bool(block.commands))
        for block in blocks
    ]


def shown(blocks: Sequence[Block]) -> str:
    """Return the text of a scenario file."""
    lines: list[str] = []
    for block in blocks:
        lines += block.head
        if block.separated:
            lines += [SEPARATOR, *block.output]
    return "".join(f"{line}\n" for line in lines)
