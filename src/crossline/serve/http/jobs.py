"""Jobs: long work in processes of their own, a few at a time, which end with the server."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

from crossline.basics.texts.plaintext import printable, printable_lines
from crossline.basics.times import format_instant
from crossline.logs import get_logger
from crossline.serve.fault_log import TellableError
from crossline.serve.http.commands import command_line, end, text_of, without_folder

RUNNING_MAX = 2
QUEUED_MAX = 20
KEPT_MAX = 100
RESULT_MAX = 16 << 20
_SAID_MAX = 64 << 10
_ERROR = re.compile(r"^error: ", re.MULTILINE)
_SHARE = re.compile(r"\b(\d{1,3})%")
PROGRESS = "CROSSLINE_PROGRESS"  # in the environment of a command: it prints lines with its progress

State = Literal["queued", "running", "done", "failed", "ended"]
ENDED: frozenset[State] = frozenset({"done", "failed", "ended"})

log = get_logger(__name__)


@dataclass
class Job:
    """Work of a request. ``result``: its answer, once it is done; ``error``: its error text, else."""

    job_id: str
    kind: str
    who: str
    folder: Path
    created_ms: int
    arguments: Sequence[str] = ()
    state: State = "queued"
    started_ms: int | None = None
    ended_ms: int | None = None
    message: str = ""
    result: Any = None
    error: str | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def to_json(self) -> dict[str, Any]:
        """As the API returns it."""
        share = _SHARE.search(self.message)
        progress = {"message": printable(self.message) or None, "share": int(share[1]) / 100 if share else None}
        times = {"created_at": self.created_ms, "started_at": self.started_ms, "ended_at": self.ended_ms}
        return {
            "job_id": self.job_id,
            "kind": self.kind,
            "state": self.state,
            **{name: None if ms is None else format_instant(ms) for name, ms in times.items()},
            "progress": {**progress, "share": 1.0} if self.state == "done" else progress,
            "result": self.result,
            "error": None if self.error is None else printable_lines(self.error),
        }


class Jobs:
    """Runs jobs: at most ``running_max`` at once, the others wait in order; the last ``KEPT_MAX`` are remembered.

    Nothing of a job outlives the server: its process ends with it, and so does its folder.
    """

    def __init__(self, folder: Path, now_ms: Callable[[], int], running_max: int = RUNNING_MAX) -> None:
        self._folder = folder
        shutil.rmtree(folder, ignore_errors=True)  # of a server that was killed
        self._now_ms = now_ms
        self._slots = asyncio.Semaphore(running_max)
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, kind: str, who: str, files: Mapping[str, bytes], arguments: Callable[[Path], Sequence[str]]) -> Job:
        """Queue a command. ``files``: what is written into the job's folder first, by name.

        ``arguments``: of the command line, for that folder. Raises RetryableError if too many jobs wait.
        """
        waiting = sum(1 for each in self._jobs.values() if each.state == "queued")
        if waiting >= QUEUED_MAX:
            raise TellableError(f"{waiting} jobs wait already; ask again once some are done", 10_000)
        self._forget()
        job_id = secrets.token_hex(16)
        folder = self._folder / job_id
        folder.mkdir(parents=True, mode=0o700)
        for name, data in files.items():
            (folder / name).write_bytes(data)
        job = Job(job_id, kind, who, folder, self._now_ms(), arguments(folder))
        self._jobs[job_id] = job
        task = self._tasks[job_id] = asyncio.create_task(self._run(job))
        task.add_done_callback(lambda _: self._ended(job))
        return job

    def get(self, job_id: str, who: str) -> Job | None:
        """A job of the caller; None: there is none, or it is another caller's."""
        found = self._jobs.get(job_id)
        return found if found is not None and found.who == who else None

    def of(self, who: str) -> list[Job]:
        """The jobs of the caller, the latest first."""
        return [each for each in reversed(self._jobs.values()) if each.who == who]

    async def end(self, job: Job) -> None:
        """End it, whether it waits or runs; it stays remembered."""
        task = self._tasks.get(job.job_id)
        if task is not None:
            task.cancel()
            await job.over.wait()

    async def close(self) -> None:
        """End all, and remove what they wrote."""
        for task in list(self._tasks.values()):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _run(self, job: Job) -> None:
        try:
            async with self._slots:
                job.state, job.started_ms = "running", self._now_ms()
                code = await self._process(job)
            await asyncio.to_thread(_finish, job, code)
        except Exception:
            log.exception("a job could not be run", job=job.job_id)
            job.state, job.error = "failed", "this is a fault of crossline, and the log of the server has more"

    def _ended(self, job: Job) -> None:
        """Also of one that was cancelled before it began."""
        if job.state not in ENDED:
            job.state, job.error = "ended", "it was ended before it was done"
        job.ended_ms = self._now_ms()
        shutil.rmtree(job.folder, ignore_errors=True)
        self._tasks.pop(job.job_id, None)
        job.over.set()

    async def _process(self, job: Job) -> int:
        with (job.folder / "out").open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                *command_line(job.arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, PROGRESS: "lines"},
                start_new_session=True,
            )
        try:
            await self._follow(job, process)
            return await process.wait()
        finally:
            if process.returncode is None:
                await asyncio.shield(end(process))

    async def _follow(self, job: Job, process: asyncio.subprocess.Process) -> None:
        """Read its output: the last line is its progress, all of it the reason if it fails."""
        assert process.stderr is not None  # noqa: S101 - it was asked for
        whole = bytearray()
        while piece := await process.stderr.read(_SAID_MAX):
            whole += piece
            del whole[:-_SAID_MAX]
            lines = [line for line in bytes(whole).splitlines() if line.strip()]
            job.message = lines[-1].decode(errors="backslashreplace")[:500] if lines else ""
            job.error = text_of(bytes(whole))

    def _forget(self) -> None:
        """The oldest of those that are over."""
        over = [each.job_id for each in self._jobs.values() if each.state in ENDED]
        for job_id in over[: max(0, len(self._jobs) - KEPT_MAX + 1)]:
            del self._jobs[job_id]


def _finish(job: Job, code: int) -> None:
    """Read what the command answered."""
    out = job.folder / "out"
    if out.stat().st_size > RESULT_MAX:
        job.state, job.error = "failed", f"its answer is larger than {RESULT_MAX >> 20} MiB"
        return
    lines = [line for line in out.read_bytes().splitlines() if line.strip()]
    if code == 0:
        rows = [orjson.loads(line) for line in lines]
        job.result, job.error, job.state = _without_paths(rows[0] if len(rows) == 1 else rows), None, "done"
    else:
        body = without_folder(job.error or f"it ended with {code}, and wrote nothing", job.folder)
        # Its progress comes before.
        begins = _ERROR.search(body)
        job.state, job.error = "failed", body if begins is None else body[begins.end() :]


def _without_paths(result: Any) -> Any:
    """Without where on this machine it was written."""
    if isinstance(result, dict):
        return {name: value for name, value in result.items() if name not in {"output", "decisions_output"}}
    return result
