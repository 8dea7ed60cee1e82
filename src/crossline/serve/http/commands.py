"""The command line as a process of its own, for what it alone does: one implementation, one text."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from crossline.serve.fault_log import TellableError
from crossline.serve.http.fork_server.client import ForkServer
from crossline.serve.http.problems import ProblemError

RUNNING_MAX = 2
WAITING_MAX = 32
OUT_MAX = 16 << 20
_TRACE = "Traceback (most recent call last)"
_DONE, _WRONG_USE = 0, 2
_GRACE_S = 5.0
# What people wait for with a page before them runs in a fork of a process that has these loaded.
WARM = frozenset({"alerts", "lake"})
LOADED = (
    *("crossline.cli.alerts.command", "crossline.cli.alerts.key_records", "crossline.cli.alerts.records"),
    *(
        "crossline.cli.backtest",
        "crossline.backtest.investigation.timeline_builder",
        "crossline.backtest.workbench.sample",
    ),
    *("crossline.rule_registry.content", "crossline.rule_registry.rule_files", "crossline.rule_registry.lists"),
)

# Besides, of a pipeline with a lake, where what it needs is installed.
LOADED_FOR_LAKE = (
    *("crossline.cli.lake.command", "crossline.cli.lake.alerts", "crossline.cli.lake.decisions"),
    *(
        "crossline.lake.lookup.history",
        "crossline.lake.catalogs.catalog",
        "pyiceberg.catalog.sql",
        "pyiceberg.io.pyarrow",
    ),
)


def command_line(arguments: Sequence[str]) -> list[str]:
    """How a process that ends with this one runs ``crossline ARGUMENTS``."""
    return [sys.executable, "-m", "crossline.serve.http.child", str(os.getpid()), *arguments]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A command that has ended. ``stderr``: its standard error, without ``error:``."""

    code: int
    out: bytes
    stderr: str


class Commands:
    """Runs commands, a few at a time.

    ``lake``: whether they read a lake. ``folder``: temporary files are named in their texts as if they lay here.
    """

    def __init__(self, running_max: int = RUNNING_MAX, *, lake: bool = False) -> None:
        self._slots = asyncio.Semaphore(running_max)
        self._waiting = 0
        more = LOADED_FOR_LAKE if lake and find_spec("pyiceberg") is not None else ()
        self._warm = ForkServer((*LOADED, *more))

    async def close(self) -> None:
        """End the process that is forked, and what it runs."""
        await self._warm.close()

    async def run(self, arguments: Sequence[str], wait_s: float, missing: ProblemError | None = None) -> CommandResult:
        """The command's answer. Raises ProblemError with its own text if it fails.

        ``missing``: what is raised in place of a no, where there is only one thing that it can mean. Raises
        RetryableError where too many wait, or it takes longer than ``wait_s``; RuntimeError where it ended by a fault
        of its own, whose text is for the log.
        """
        if self._waiting >= WAITING_MAX:
            raise TellableError(f"{self._waiting} commands wait already; send it again later", 5_000)
        self._waiting += 1
        try:
            async with asyncio.timeout(wait_s), self._slots:
                done = await self._done(arguments)
        except TimeoutError:
            raise TellableError(f"it was not done within {wait_s:.0f} s; send it again later", 5_000) from None
        finally:
            self._waiting -= 1
        if done.code == _DONE:
            return done
        if done.stderr.startswith(_TRACE):
            raise RuntimeError(f"crossline {arguments[0]} ended by a fault of its own\n{done.stderr}")
        if missing is not None and done.code != _WRONG_USE:
            raise missing
        if done.code < 0:
            raise TellableError(f"the command was ended by signal {-done.code}; send it again")
        raise ProblemError(400 if done.code == _WRONG_USE else 409, "refused", done.stderr)

    async def _done(self, arguments: Sequence[str]) -> CommandResult:
        """In a fork where it is one of ``WARM`` and there can be one, else in a process of its own."""
        ended = await self._warm.run(arguments) if arguments[0] in WARM else None
        if ended is None:
            return await _run(command_line(arguments))
        return CommandResult(ended.code, ended.out, text_of(ended.stderr))


async def _run(command: Sequence[str]) -> CommandResult:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        limit=OUT_MAX,
    )
    try:
        out, stderr = await process.communicate()
    finally:
        if process.returncode is None:
            await end(process)
    return CommandResult(process.returncode or 0, out, text_of(stderr))


def text_of(raw: bytes) -> str:
    """A command's standard error as one text."""
    text = raw.decode(errors="backslashreplace").strip()
    return text.removeprefix("error: ")


async def end(process: asyncio.subprocess.Process) -> None:
    """End a process and those that it started: asked first, so that it leaves nothing half done."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            await asyncio.wait_for(asyncio.shield(process.wait()), _GRACE_S)
        except TimeoutError:
            continue
        break
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # what it started, and left


def without_folder(text: str, folder: Path) -> str:
    """``text`` with files of a temporary folder called by their names alone."""
    return text.replace(f"{folder}/", "")
