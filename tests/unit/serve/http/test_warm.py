"""Commands in forks of a process that is warm: the same answers, ended with who waits, bounded in time."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest
from tests.unit.serve.http.kit import example

from crossline.serve.http import commands
from crossline.serve.http.fork_server.client import ForkServer
from crossline.serve.http.problems import problem_of


def with_warm(work: Callable[[ForkServer], Awaitable[None]], **more: float) -> None:
    """Do it over a process that has loaded nothing but the command line."""

    async def main() -> None:
        warm = ForkServer((), **more)
        try:
            await work(warm)
        finally:
            await warm.close()
            assert warm.pid is None

    asyncio.run(main())


def test_the_answer_is_that_of_a_process_of_its_own() -> None:
    """Evidence judged twice: in forks of one process, and cold; to the byte."""
    alert = json.loads((example() / "alerts.jsonl").read_text().splitlines()[0])
    asked = ["alerts", "evidence", alert["alert_id"], "--pipeline", str(example() / "pipeline.yaml"), "--json"]

    async def main() -> None:
        runs = commands.Commands()
        first = await runs.run(asked, 120)
        process = runs._warm.pid
        again = await runs.run(asked, 120)
        assert process is not None
        assert runs._warm.pid == process
        cold = await commands._run(commands.command_line(asked))
        assert first.out == again.out == cold.out
        assert json.loads(cold.out)["alert_id"] == alert["alert_id"]
        await runs.close()

    asyncio.run(main())


def test_codes_and_texts_are_those_of_the_command_line(tmp_path: Path) -> None:
    asked = ["rules", "list", "--rules", str(tmp_path / "none")]

    async def work(warm: ForkServer) -> None:
        ended = await warm.run(asked)
        cold = await commands._run(commands.command_line(asked))
        assert ended is not None
        assert (ended.code, commands.text_of(ended.stderr)) == (cold.code, cold.stderr)
        assert ended.code == 2

    with_warm(work)


def test_one_that_was_killed_is_started_anew() -> None:
    async def work(warm: ForkServer) -> None:
        assert await warm.run(["--help"]) is not None
        before = warm.pid
        assert before is not None
        os.kill(before, signal.SIGKILL)
        assert warm._process is not None
        warm._process.wait()
        ended = await warm.run(["--help"])
        assert ended is not None
        assert ended.code == 0
        assert warm.pid != before

    with_warm(work)


def test_a_command_without_a_waiter_is_ended(tmp_path: Path) -> None:
    """It reads a pipe without a writer, and would wait for ever."""
    pipe = tmp_path / "in.jsonl"
    os.mkfifo(pipe)
    asked = ["rules", "check", str(pipe)]

    async def work(warm: ForkServer) -> None:
        running = asyncio.create_task(warm.run(asked))
        opened = await asyncio.to_thread(os.open, pipe, os.O_WRONLY)  # returns once the command has it open
        assert warm.pid is not None
        (fork,) = psutil.Process(warm.pid).children()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        gone, _ = await asyncio.to_thread(psutil.wait_procs, [fork], 60)
        os.close(opened)
        assert gone == [fork]

    with_warm(work)


def test_it_ends_when_idle() -> None:
    async def work(warm: ForkServer) -> None:
        assert await warm.run(["--help"]) is not None
        assert warm._process is not None
        assert await asyncio.to_thread(warm._process.wait, 60) == 0
        assert await warm.run(["--help"]) is not None  # another one

    with_warm(work, idle_s=0.05)


def test_one_that_is_gone_before_it_begins_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ended between two looks: the command is run otherwise."""

    async def work(warm: ForkServer) -> None:
        asked = warm._started()
        assert warm._process is not None
        warm._process.kill()
        warm._process.wait()
        monkeypatch.setattr(warm, "_started", lambda: asked)
        assert await warm.run(["--help"]) is None

    with_warm(work)


def test_a_fault_of_a_command_is_for_the_log_and_not_for_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says then are lines of code and paths; as an answer it is a fault with an id."""

    async def broken(_: object, __: object) -> commands.CommandResult:
        return commands.CommandResult(
            1, b"", 'Traceback (most recent call last):\n  File "/srv/secret.py"\nKeyError: 1'
        )

    async def main() -> None:
        monkeypatch.setattr(commands.Commands, "_done", broken)
        with pytest.raises(RuntimeError, match="ended by a fault of its own") as raised:
            await commands.Commands().run(["alerts", "evidence"], 5)
        reported = problem_of(raised.value)
        assert reported.status == 500
        assert "secret" not in reported.detail

    asyncio.run(main())
