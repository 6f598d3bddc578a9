"""The program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from orchconverge.acp_client.spec import Spec, taken
from orchconverge.acp_client.telling import tell
from orchconverge.acp_client.turn import CANCEL_SECONDS, Lost, Turn, explained
from orchconverge.acp_client.wire import LEAVE_SECONDS, Wire, ended, started

UNUSABLE, UNDONE, STOPPED = 66, 1, 143
ENDING = 2.0
"""Seconds to wait for the exit code of an agent whose output has ended."""


async def work(spec: Spec, prompt: str) -> int:
    """Start the agent and see it through. The exit code."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    try:
        agent = await started(spec.argv, spec.cwd)
    except OSError as error:
        tell(f"{spec.argv[0]} cannot be started: {error}", error=f"{spec.argv[0]}: {error.strerror}", failed="start")
        return UNDONE
    wire = Wire(agent)
    turn = Turn(spec, wire)
    doing, errors = asyncio.create_task(turn.run(prompt)), asyncio.create_task(wire.errors())
    gone, stopped = asyncio.create_task(agent.wait()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({doing, gone, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set() and not doing.done():
            tell("asked to stop", stopping=True)
            if turn.session:
                await turn.cancel()
                await asyncio.wait({doing}, timeout=CANCEL_SECONDS)
        elif gone.done():
            await asyncio.wait({doing}, timeout=LEAVE_SECONDS)  # its last messages are in the pipe
        if doing.done() and isinstance(doing.exception(), OSError):
            await asyncio.wait({gone}, timeout=ENDING)  # its output ends a moment before it does
        if doing.done():
            return said(doing, gone) if not stop.is_set() else STOPPED
        if not stop.is_set():
            lost(gone)
        return STOPPED if stop.is_set() else UNDONE
    finally:
        for each in (doing, stopped):
            each.cancel()
        await ended(agent)
        await asyncio.wait({errors}, timeout=LEAVE_SECONDS)
        errors.cancel()


def said(doing: asyncio.Task[bool], gone: asyncio.Task[int]) -> int:
    """How the turn ended, told if it did not end well."""
    try:
        return 0 if doing.result() else UNDONE
    except Lost as error:
        tell(f"lost: {error}", error=str(error), failed="lost")
    except TimeoutError:
        tell("it did not begin in time", error="the agent did not begin a session in time", failed="start")
    except OSError:
        lost(gone)
    except Exception as error:  # what the agent answered, which is the SDK's own error
        if not hasattr(error, "code"):
            raise
        tell(f"error: {explained(error)}", error=explained(error), code=error.code)
    return UNDONE


def lost(gone: asyncio.Task[int]) -> None:
    """Tell that the agent is gone in the middle."""
    how = f"with {gone.result()}" if gone.done() else "its output"
    tell(
        f"the agent ended {how} in the middle", error=f"the agent ended {how} in the middle of its turn", failed="died"
    )


def main() -> int:
    """Read the command line and SPEC."""
    try:
        spec, prompt = taken(Path(sys.argv[1]))
    except (IndexError, OSError, ValueError, TypeError) as error:
        sys.stderr.write(f"acp_client: no usable SPEC: {error}\n")
        return UNUSABLE
    return asyncio.run(work(spec, prompt))


if __name__ == "__main__":
    code = main()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(code)  # nothing is waited for any more: not the SDK's tasks, not a thread that waits for a process
