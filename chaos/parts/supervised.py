"""The pipeline under a supervisor: ``crossline run`` in a session of its own, restarted whenever it ends."""

from __future__ import annotations

import base64
import os
import resource
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import orjson
import psutil

from chaos.pipeline import TOPIC, WEBHOOK_KEY_ENV
from crossline.runtime.java.child_processes import end_with_parent

AGAIN_S = 0.5
# Numbers of processes come again: what is struck and ended is known by this, too.
MARK = "CHAOS_RUN"
STOP_S_MAX = 300.0
DRAIN_S_MAX = 900.0
LEAVE_S = 30.0
EXECUTOR = "CoarseGrainedExecutorBackend"
# What the processes of a run are called; ``driver`` is the one that was started.
NAMES = {
    "worker": "cl-worker",
    "state-server": "cl-state-server",
    "in-process": "cl-in-process",
    "daemon": "cl-daemon",
    "zygote": "cl-zygote",
    "fork-server": "cl-fork-server",
    "follower": "cl-replica",
    "fork": "cl-replica-fork",
}
# The process that was started.
FIRST = frozenset({"driver", "api"})


@dataclass(slots=True)
class Start:
    """A run of the command: when it began and ended (epoch seconds), and how."""

    began_s: float
    ended_s: float | None = None
    code: int | None = None


@dataclass(slots=True)
class Supervised:
    """The pipeline in ``root``, whose file is ``pipeline``; ``stored``: where a store has its checkpoint.

    ``command``: of crossline, whose output goes into ``log``; ``serve`` for the API.
    """

    root: Path
    pipeline: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    stored: Path | None = None
    command: str = "run"
    log: str = "run.log"
    starts: list[Start] = field(default_factory=list)
    token: str = field(default_factory=partial(secrets.token_hex, 8))
    _process: subprocess.Popen[bytes] | None = None
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _sessions: list[int] = field(default_factory=list)
    _note: tuple[str, bytes] = ("", b"")

    def start(self) -> None:
        """Start it."""
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)
        self._thread.start()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """As an operator does; its exit code. It is not started again."""
        self._ending.set()
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(how)
        if self._thread is not None:
            self._thread.join(STOP_S_MAX)
        self.clear()
        return self.starts[-1].code if self.starts and self.starts[-1].code is not None else -1

    def drain(self) -> int:
        """``run --drain``: to the end of what is there, those sinks included that no batch waits for."""
        process = self._popen("--drain")
        try:
            return process.wait(DRAIN_S_MAX)
        except subprocess.TimeoutExpired:
            return -1
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self.clear()

    def processes(self, kind: str) -> list[psutil.Process]:
        """Those of the run that are of a kind, as named in ``faults``."""
        process = self._process
        if process is None or process.poll() is not None:
            return []
        if kind in FIRST:
            return [psutil.Process(process.pid)]
        found = []
        for each in family(process.pid, self.token):
            with suppress(psutil.Error):
                name, line = each.name(), " ".join(each.cmdline())
                is_executor = EXECUTOR in line
                if (
                    (kind == "java" and name == "java" and not is_executor)
                    or (kind == "executor" and is_executor)
                    or NAMES.get(kind) in {name, line.strip()}
                ):
                    found.append(each)
        return found

    def fill_disk(self, *, full: bool) -> int:
        """Whether the processes of the run may write to files; how many there are. See docs/chaos.md for what it is."""
        return _limited(self.family(), resource.RLIMIT_FSIZE, limited=full)

    def family(self) -> list[psutil.Process]:
        """All processes of the run."""
        process = self._process
        return family(process.pid, self.token) if process is not None else []

    def done(self) -> int:
        """Records of the topic that committed batches took."""
        with suppress(OSError, ValueError, KeyError, orjson.JSONDecodeError):
            text = self._offsets_on_store(self.stored) if self.stored is not None else self._offsets()
            return _records(text)
        return -1

    def begun(self) -> int:
        """Records of the topic up to the end of the batch that was begun last.

        A store learns of the end of a batch when the next one begins, and so never of the end of the last one.
        """
        if self.stored is None:
            return self.done()
        with suppress(OSError, ValueError, KeyError, orjson.JSONDecodeError):
            return _records(_noted_offsets(_newest_note(self.stored), "offsets"))
        return -1

    def _offsets(self) -> bytes:
        folder = self.root / "out" / "checkpoint" / "spark"
        last = max(int(path.name) for path in (folder / "commits").iterdir() if path.name.isdigit())
        return (folder / "offsets" / str(last)).read_bytes()

    def _offsets_on_store(self, folder: Path) -> bytes:
        newest = _newest_note(folder)
        if newest.name != self._note[0]:
            self._note = newest.name, _noted_offsets(newest, "commits")
        return self._note[1]

    def clear(self) -> None:
        """Orphans of the runs end by themselves; those that do not end in time are killed."""
        deadline_s = time.monotonic() + LEAVE_S
        left = [each for session in self._sessions for each in family(session, self.token)]
        while left and time.monotonic() < deadline_s:
            time.sleep(0.1)
            left = [each for session in self._sessions for each in family(session, self.token)]
        for each in left:
            with suppress(psutil.Error):
                each.kill()

    def _watch(self) -> None:
        while not self._ending.is_set():
            self._process = self._popen()
            self.starts.append(Start(time.time()))
            code = self._process.wait()
            self.starts[-1].ended_s, self.starts[-1].code = time.time(), code
            self._ending.wait(AGAIN_S)

    def _popen(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "crossline.cli.main", self.command, str(self.pipeline), *arguments]
        with (self.root / self.log).open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.root,
                env={**os.environ, **self.environment, WEBHOOK_KEY_ENV: "drilled", MARK: self.token},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - it does no more than one call to the system
            )
        self._sessions.append(process.pid)
        return process


def no_files(processes: Sequence[psutil.Process], *, limited: bool) -> int:
    """Whether they may open no file and no socket; how many there are. What is open stays so."""
    return _limited(processes, resource.RLIMIT_NOFILE, limited=limited)


def _limited(processes: Sequence[psutil.Process], what: int, *, limited: bool) -> int:
    count = 0
    for each in processes:
        with suppress(psutil.Error, ProcessLookupError, PermissionError):
            hard = resource.prlimit(each.pid, what)[1]
            resource.prlimit(each.pid, what, (0 if limited else resource.getrlimit(what)[0], hard))
            count += 1
    return count


def family(session: int, token: str) -> list[psutil.Process]:
    """All processes of a session that were started with the token, those among them whose parents are gone."""
    found = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError, psutil.Error):
            if os.getsid(pid) == session and psutil.Process(pid).environ().get(MARK) == token:
                found.append(psutil.Process(pid))
    return found


def _newest_note(folder: Path) -> Path:
    """Of a checkpoint on a store: see crossline.runtime.snapshot.checkpoint_mirror. It has all small files in it."""
    return max(path for path in (folder / "notes").iterdir() if path.suffix == ".json")


def _noted_offsets(note: Path, by: str) -> bytes:
    """The offsets of the last batch that has a file in ``by``: ``offsets`` begun, ``commits`` done."""
    files = orjson.loads(note.read_bytes())["files"]
    last = max(int(name.rpartition("/")[2]) for name in files if name.startswith(f"spark/{by}/"))
    return base64.b64decode(files[f"spark/offsets/{last}"]["tail"])


def _records(offsets: bytes) -> int:
    return int(sum(orjson.loads(offsets.splitlines()[-1])[TOPIC].values()))
