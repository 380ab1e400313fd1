"""Run the examples of a document from its text, and compare their output with the output that the document shows.

``` ``console`` ``` blocks hold a reader's input after ``$ `` (``> `` continues the command), and the output.
Each terminal is a real interactive shell on a pseudo-terminal, so commands print for people: columns, not the
tab-separated values of a pipe.  Words after the language give options:

``terminal=2``
    another terminal; the first one is called 1.  A block that begins with output shows more output of the command that
    runs there.  Commands of the first terminal end, or end with ``&``; others may go on when their output has come.
``file=goals.nt``
    (any language) the block is the content of this file, in the folder where commands run.
``install``
    (``console``) typed by ``make newcomer`` only: it installs the project.

Two further conventions: a line ``^C`` interrupts the command of its terminal, and ``...`` in the output stands
for any text, alone on a line for any number of lines.  Numbers that differ between runs (identifiers, times,
durations) are compared by their form.  Ports 7400 to 7499 become free ports of the machine, the same in
commands, files and output.

``python -m documents README.md`` runs a document and prints the output of each command: new output for a
document.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import random
import re
import selectors
import shlex
import signal
import socket
import struct
import sys
import tempfile
import termios
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Block", "Command", "DocumentFails", "Session", "Typed", "commands_of", "matches", "parse", "run"]

SECONDS: Final = 90.0
"""Deadline of one command and its output."""
INTERRUPT_AGAIN: Final = 10.0
"""Seconds without output after which ``^C`` is typed once more."""
COLUMNS: Final = 100
_FENCE: Final = re.compile(r"^```(\S*)[ \t]*([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PORT: Final = re.compile(r"(?<=:)74\d\d\b")
_PROMPT: Final = re.compile(r"\x02(\d+)\x03")
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r")
_JOB: Final = re.compile(r"^\[\d+\][-+]? .*$", re.MULTILINE)
_VARYING: Final = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?"), "<time>"),
    (re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{16}(?:[0-9a-f]{16})?\b"), "<id>"),
    (re.compile(r"\b[\d,.]+ m?s\b"), "<seconds>"),
    (re.compile(r"\b[\d,.]+/s\b"), "<rate>"),
    (re.compile(r"[─━]+"), "─"),
    (re.compile(r"[ \t]+"), " "),
)


class DocumentFails(AssertionError):
    """The effect of a command differs from the document."""


@dataclass
class Block:
    """A fenced block: its language, the options behind it, its text and the line it begins at."""

    language: str
    options: dict[str, str]
    text: str
    line: int


@dataclass
class Command:
    """A command of a document, and its expected output.  Without text: more output of the command before."""

    terminal: str
    text: str
    line: int
    expected: list[str] = field(default_factory=list)


@dataclass
class Typed:
    """A typed command, its output up to the expected end, and the time of that (monotonic seconds)."""

    command: Command
    printed: str
    began: float
    ended: float


def parse(text: str) -> list[Block]:
    """Return the fenced blocks of a Markdown text, in order."""
    blocks = []
    for found in _FENCE.finditer(text):
        options = {}
        for word in shlex.split(found[2]):
            name, _, value = word.partition("=")
            options[name] = value
        blocks.append(Block(found[1], options, found[3], text.count("\n", 0, found.start()) + 1))
    return blocks


def commands_of(block: Block) -> list[Command]:
    """Return the commands of a console block, with the output shown for each."""
    terminal = block.options.get("terminal", "1")
    commands: list[Command] = []
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        if line.startswith("$ ") or line == "^C":
            commands.append(Command(terminal, line.removeprefix("$ "), number))
        elif line.startswith("> ") and commands and not commands[-1].expected:
            commands[-1].text += "\n" + line.removeprefix("> ")
        else:
            if not commands:
                commands.append(Command(terminal, "", number))
            commands[-1].expected.append(line)
    return commands


def _normal(text: str) -> str:
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text.strip()


def matches(expected: Sequence[str], printed: str, *, whole: bool) -> bool:
    """Tell whether output is as a document shows it: all of it, or its beginning if it is not ``whole``."""
    wanted = [_normal(line) for line in expected]
    lines = [line for line in map(_normal, printed.splitlines()) if line]
    pattern = ""
    for line in filter(None, wanted):
        if line == "...":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += ".*".join(map(re.escape, line.split("..."))) + r"\n"
    text = "".join(line + "\n" for line in lines)
    return bool(re.compile(pattern).fullmatch(text) if whole else re.compile(pattern).match(text))


class _Terminal:
    """An interactive shell on a pseudo-terminal."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.pid, self.handle = pty.fork()
        if not self.pid:  # the child: only exec may happen here
            os.chdir(directory)
            os.execvpe("bash", ["bash", "--noprofile", "--norc", "--noediting", "-i"], dict(environment))
        settings = termios.tcgetattr(self.handle)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(self.handle, termios.TCSANOW, settings)
        fcntl.ioctl(self.handle, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
        os.set_blocking(self.handle, False)
        self.raw = ""
        self.start = 0
        """Where the output of the current command begins."""
        self.has_jobs = False
        self.interrupted = False
        """Whether the line typed last is ``^C``."""
        self.ended = False

    def read(self) -> None:
        """Take the output printed so far."""
        try:
            while data := os.read(self.handle, 65536):
                self.raw += data.decode("utf-8", "replace")
        except BlockingIOError:
            return
        except OSError:  # the shell is gone
            pass
        self.ended = True

    def type(self, text: str) -> None:
        """Type a line; output from now on belongs to it."""
        self.start = len(self.raw)
        self.interrupted = text == "^C"
        if self.interrupted:
            os.write(self.handle, b"\x03")
        else:
            os.write(self.handle, (text + "\n").encode())

    def interrupt_again(self) -> None:
        """Repeat a ``^C`` that came while the shell was starting the next command, when no program received it."""
        if self.interrupted and self.status is None and not self.ended:
            os.write(self.handle, b"\x03")

    @property
    def printed(self) -> str:
        """The output of the current command, without control sequences and notices about jobs."""
        text = _CONTROL.sub("", _PROMPT.sub("", self.raw[self.start :])).replace("^C", "")
        return _JOB.sub("", text)

    @property
    def status(self) -> int | None:
        """The exit code of the current command, if it has ended."""
        found = _PROMPT.search(self.raw, self.start)
        return int(found[1]) if found else None

    def close(self) -> None:
        """End the shell and everything that was started from it."""
        for process in _processes_of(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.close(self.handle)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _processes_of(session: int) -> list[int]:
    """Return the processes of a terminal's session (on systems that have /proc)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            process, rest = path.read_text().split(" (", 1)
            if int(rest.rpartition(")")[2].split()[3]) == session:
                found.append(int(process))
    return found


class _Ports:
    """Free ports in place of those that a document names."""

    def __init__(self) -> None:
        self._ports: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        return _PORT.sub(lambda found: self[found[0]], text)

    def __getitem__(self, port: str) -> str:
        while port not in self._ports:
            candidate = random.SystemRandom().randrange(4000, 10000)  # four digits: columns stay as wide as they are
            if str(candidate) not in self._ports.values() and _is_free(candidate):
                self._ports[port] = str(candidate)
        return self._ports[port]


def _is_free(port: int) -> bool:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True


class Session:
    """Terminals in one folder, in which the examples of a document run.  Use with ``with``."""

    def __init__(self, directory: Path, *, seconds: float = SECONDS, free_ports: bool = True,
                 environment: Mapping[str, str] | None = None) -> None:  # fmt: skip
        """``environment``: variables that replace those by which the running interpreter's p2prdf is found."""
        self.directory = directory
        self.seconds = seconds
        self.typed = 0
        """Commands typed so far."""
        self.transcript: list[Typed] = []
        self._ports: Callable[[str], str] = _Ports() if free_ports else str
        self._terminals: dict[str, _Terminal] = {}
        self._environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("P2PRDF_", "XDG_", "COV_", "PYTEST"))
        } | {
            "HOME": str(directory / "home"), "PS1": "\x02$?\x03",
            "PS2": "", "VIRTUAL_ENV_DISABLE_PROMPT": "1", "TERM": "dumb",
            "COLUMNS": str(COLUMNS), "NO_COLOR": "1", "HISTFILE": "", "LC_ALL": "C.UTF-8",
            "P2PRDF_PEER": self._ports("127.0.0.1:7400"),
        }  # fmt: skip
        (directory / "home").mkdir(exist_ok=True)
        if environment is None:
            self._use_this_interpreter()
        else:
            self._environment |= environment

    def _use_this_interpreter(self) -> None:
        """Make ``p2prdf`` and ``python`` those of this process, from any place of its modules."""
        programs = self.directory / "programs"
        programs.mkdir(exist_ok=True)
        for name, arguments in {"p2prdf": "-m p2prdf_cli ", "python": "", "python3": ""}.items():
            (programs / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments}"$@"\n')
            (programs / name).chmod(0o755)
        self._environment["PATH"] = os.pathsep.join([str(programs), self._environment.get("PATH", "")])
        self._environment["PYTHONPATH"] = os.pathsep.join(sys.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for terminal in self._terminals.values():
            terminal.close()

    def write(self, name: str, text: str) -> None:
        """Write a file that a document shows."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._ports(text), "utf-8")

    def type(self, command: Command) -> None:
        """Type a command and wait until its output has come, and, in the first terminal, until it has ended."""
        began = time.monotonic()
        terminal = self._terminals.get(command.terminal)
        if terminal is None:
            terminal = self._terminals[command.terminal] = _Terminal(self.directory, self._environment)
        where = f"line {command.line}: {command.text}"
        if command.text:
            if command.text != "^C":
                self._wait(lambda: terminal.status is not None, terminal, f"{where}\nnot typed: another one runs")
                self.typed += 1
            terminal.type(self._ports(command.text))
            terminal.has_jobs |= command.text.endswith("&")
        expected = [self._ports(line) for line in command.expected]
        goes_on = command.text.endswith("&") or command.terminal != "1"

        def shown() -> bool:
            ended = terminal.status is not None
            return (ended or goes_on) and matches(expected, terminal.printed, whole=ended and not goes_on)

        def settled() -> bool:  # output of a background job may come after the prompt
            failed = terminal.status not in (None, 0) and not command.text.endswith("&") and command.text != "^C"
            return shown() or failed or (terminal.status == 0 and not goes_on and not terminal.has_jobs)

        self._wait(settled, terminal, where, expected)
        self.transcript.append(Typed(command, terminal.printed, began, time.monotonic()))
        if not shown():
            raise DocumentFails(_difference(where, expected, terminal.printed))
        if terminal.status not in (None, 0) and not goes_on and "error" not in "".join(expected):
            raise DocumentFails(f"{where}\nended with exit code {terminal.status}:\n{terminal.printed}")

    def _wait(self, condition: Callable[[], bool], terminal: _Terminal, where: str,
              expected: Sequence[str] = ()) -> None:  # fmt: skip
        """Read the output of all terminals until a condition holds."""
        deadline = time.monotonic() + self.seconds
        with selectors.DefaultSelector() as selector:
            for each in self._terminals.values():
                if not each.ended:
                    selector.register(each.handle, selectors.EVENT_READ, each)
            while not condition():
                remaining = deadline - time.monotonic()
                if remaining <= 0 or terminal.ended:
                    why = "the shell ended" if terminal.ended else f"not within {self.seconds:.0f} s"
                    raise DocumentFails(_difference(f"{where}\n{why}", expected, terminal.printed))
                ready = selector.select(min(remaining, INTERRUPT_AGAIN))
                for key, _ in ready:
                    key.data.read()
                    if key.data.ended:
                        selector.unregister(key.fileobj)
                if not ready:
                    terminal.interrupt_again()


def _difference(where: str, expected: Sequence[str], printed: str) -> str:
    shown = "\n".join(f"  {line}" for line in expected)
    there = "\n".join(f"  {line}" for line in printed.strip("\n").splitlines())
    return f"{where}\nexpected:\n{shown}\nprinted:\n{there}"


def run(text: str, session: Session, *, install: bool = False) -> None:
    """Run the examples of a document; raise `DocumentFails` at the first that differs from the document.

    ``install``: also type the commands that install the project.
    """
    said: dict[str, list[str]] = {}
    for block in parse(text):
        if "file" in block.options:
            session.write(block.options["file"], block.text)
        elif block.language == "console" and (install or "install" not in block.options):
            for command in commands_of(block):
                if not command.text:  # more output of the same command: its earlier output is expected, too
                    command.expected = said[command.terminal] + command.expected
                said[command.terminal] = command.expected
                session.type(command)


def main(arguments: list[str] | None = None) -> int:
    """Run documents and print the output of each command."""
    parser = argparse.ArgumentParser(prog="documents", description=__doc__.partition("\n")[0])
    parser.add_argument("documents", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="deadline of one command")
    chosen = parser.parse_args(arguments)
    failed = 0
    for document in chosen.documents:
        with tempfile.TemporaryDirectory() as folder, Session(Path(folder), seconds=chosen.seconds) as session:
            try:
                run(document.read_text("utf-8"), session)
            except DocumentFails as error:
                failed += 1
                print(f"{document}: {error}\n", file=sys.stderr)
            for typed in session.transcript:
                print(f"[{typed.command.terminal}] $ {typed.command.text}\n{typed.printed.strip()}\n")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
