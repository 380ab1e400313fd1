"""Programs that tests run to their end, with a deadline."""

from __future__ import annotations

import asyncio

__all__ = ["output_of"]


async def output_of(*words, environment=None, folder=None, fails=False, seconds=120.0):
    """Run a program; return its output, or its errors if it fails as it should."""
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment, cwd=folder
    )
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert (process.returncode != 0) is fails, (process.returncode, out.decode(), err.decode())
    return (err if fails else out).decode()
