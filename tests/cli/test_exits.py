"""How commands end: one line, and the code that goes with it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap

import pytest
import typer

from p2prdf.errors import Busy, DataRefused, LocalProtocolError, QueryRefused, RemoteProtocolError, Unavailable
from p2prdf_cli.exits import ExitCode, run, run_plain


def _exit_code(error: BaseException | None, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    async def action() -> None:
        if error is not None:
            raise error

    with pytest.raises(typer.Exit) as caught:
        run(action())
    return caught.value.exit_code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (None, 0, ""),
        (Unavailable("no answer"), 3, "p2prdf: error [unavailable]: no answer\n"),
        (Busy("full"), 3, "p2prdf: error [busy]: full (try again in 1 s)\n"),
        (
            QueryRefused("not supported", construct="OPTIONAL", line=2, column=5),
            4,
            "p2prdf: error [query-refused]: OPTIONAL: not supported at line 2, column 5\n",
        ),
        (DataRefused("bad", source="f.nt", line=3), 4, "p2prdf: error [data-refused]: f.nt:3: bad\n"),
        (LocalProtocolError("no such\nsubscription"), 4, "p2prdf: error [local-protocol]: no such subscription\n"),
        (RemoteProtocolError("lies"), 1, "p2prdf: error [remote-protocol]: lies\n"),
        (FileNotFoundError(2, "No such file", "f.nt"), 1, "p2prdf: error [system]: f.nt: No such file\n"),
        (ExceptionGroup("tasks", [Unavailable("gone")]), 3, "p2prdf: error [unavailable]: gone\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_every_failure_is_one_line_with_its_code(
    error: BaseException | None, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _exit_code(error, capsys) == (code, line)


def test_a_bug_is_not_dressed_up_as_a_failure() -> None:
    def action() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_plain(action)


def test_a_command_may_choose_its_code() -> None:
    with pytest.raises(typer.Exit) as caught:
        run_plain(lambda: ExitCode.USAGE)
    assert caught.value.exit_code == 2


SLEEPER = """
    import asyncio, sys
    from p2prdf_cli.exits import run
    async def action():
        print("begun", flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # the loop still serves what cleaning up needs
            print("cleaned up", flush=True)
    try:
        run(action())
    except BaseException as end:
        sys.exit(end.exit_code)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_signals_let_a_command_clean_up(number: signal.Signals, code: int) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(SLEEPER), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(20):
        assert await process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        out, err = await process.communicate()
    assert (out, err) == (b"cleaned up\n", b"")
    assert process.returncode == code


async def test_a_background_job_of_a_script_ends_on_sigterm_only() -> None:
    """A shell without job control starts the command before ``&`` with SIGINT ignored."""
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", textwrap.dedent(SLEEPER),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    async with asyncio.timeout(20):
        assert await process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        out, err = await process.communicate()
    assert (out, err, process.returncode) == (b"cleaned up\n", b"", 143)


def test_processes_that_the_tests_start_react_to_sigint() -> None:
    """Also where the tests are a background job themselves."""
    script = """
        import subprocess, sys
        from interruptions import let_children_be_interrupted
        let_children_be_interrupted()
        show = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
        subprocess.run([sys.executable, "-c", show], check=True)
    """
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True, text=True, timeout=20, check=False, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    code = """
        import sys
        from p2prdf_cli.exits import run_plain
        def action():
            while True:
                print("answer", flush=True)
        try:
            run_plain(action)
        except BaseException as end:
            sys.exit(end.exit_code)
    """
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=writing, stderr=subprocess.PIPE
    ) as process:
        os.close(writing)
        os.read(reading, 10)
        os.close(reading)
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(20) == 141
