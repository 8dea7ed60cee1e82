"""Servers with an owner process: most end when the owner ends, in any way; some continue alone."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from crossline.basics.errors import PermanentError
from crossline.runtime.machine.temporary_folders import OwnFolder, own_folder

HOST = "127.0.0.1"
RUNNING = "running"
_LOOK_S = 0.05
_LOOKED_AT_S = 5.0  # how long a process that only reads the state may hold the lock
# A reader waits on a pipe whose other end is ours. When we are gone, however we went, the pipe ends: the reader ends
# the server ($$) by the signal $1, waits for that, and removes its folder ($0, unless it is to stay). The server takes
# the shell's place, so we can wait for its end.
_GUARD = (
    'exec 3<&0; (read -r _ <&3; kill -"$1" $$ 2>/dev/null; n=0; '
    "while [ $n -lt 600 ] && kill -0 $$ 2>/dev/null; do n=$((n+1)); sleep 0.05; done; "
    '[ -z "$0" ] || rm -rf "$0") & shift; exec "$@" 3<&- </dev/null'
)
# The standard input is the lock: every process that has it open, the server and its forks, holds it. The process id is
# written before the server starts, and while the lock is held no other process has that id.
_ALONE = 'echo $$ >&0; exec "$@"'


@dataclass(slots=True)
class Home:
    """The folder of a server, and for how long both are there.

    A temporary folder goes with the server; one that was named stays. A server ends with this process, unless it is
    ``alone``: then it goes on, holds the lock of its folder as long as one of its processes lives, and is ended by
    the caller, see ``running`` and ``end``.
    """

    path: Path
    own: OwnFolder | None = None
    alone: bool = False

    @classmethod
    def open(cls, kind: str, folder: Path | None, *, alone: bool = False) -> Home:
        """``folder``, made where it is missing; a temporary one for None, with ``kind`` in its name."""
        if folder is None:
            own = own_folder(kind)
            return cls(own.path, own)
        folder = folder.absolute()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return cls(folder, None, alone)

    def start(
        self,
        command: Sequence[str],
        log_file: Path,
        *,
        by: str = "KILL",
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start ``command``; if this process ends first, the signal ``by`` ends the command."""
        if self.alone:
            shell, stdin = [_ALONE, str(self.path)], _locked(self.path)
        else:
            shell, stdin = [_GUARD, "" if self.own is None else str(self.path), by], subprocess.PIPE
        try:
            with log_file.open("ab") as log:
                return subprocess.Popen(
                    ["/bin/sh", "-c", *shell, *command],
                    stdin=stdin,
                    stdout=log,
                    stderr=log,
                    cwd=cwd or self.path,
                    env=environment,
                    start_new_session=True,
                )
        finally:
            if stdin != subprocess.PIPE:
                os.close(stdin)

    def remove(self) -> None:
        """Remove the folder if it is temporary; not to be called twice."""
        if self.own is not None:
            self.own.remove()


def end_at_once(process: subprocess.Popen[bytes]) -> None:
    """Kill a server and all its session, like a crash; wait until it has ended."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def end_in_order(process: subprocess.Popen[bytes], how: signal.Signals, wait_s: float) -> None:
    """Stop a server like an operator, so that it saves its data; kill it after ``wait_s``."""
    with suppress(ProcessLookupError):
        process.send_signal(how)
    with suppress(subprocess.TimeoutExpired):
        process.wait(wait_s)
    end_at_once(process)  # and with it the guard


def running(folder: Path) -> int | None:
    """The process of the server that runs alone in ``folder``; None if there is none."""
    deadline_s = time.monotonic() + _LOOKED_AT_S
    while _is_held(folder) and time.monotonic() < deadline_s:
        with suppress(OSError, ValueError):
            return int((folder / RUNNING).read_text(encoding="ascii"))
        time.sleep(_LOOK_S)  # its shell is about to write it
    return None


def end(folder: Path, how: signal.Signals, wait_s: float) -> bool:
    """End the server that runs alone in ``folder``, with all its processes; whether there was one.

    One that has not ended after ``wait_s`` is killed. Raises PermanentError where that does not end it either.
    """
    pid = running(folder)
    if pid is None:
        return False
    for signal_number in (how, signal.SIGKILL):
        with suppress(ProcessLookupError):
            if signal_number == signal.SIGKILL:
                os.killpg(pid, signal_number)
            else:
                os.kill(pid, signal_number)
        if _released(folder, wait_s):
            return True
    raise PermanentError(f"process {pid}, or one that it started, still holds {folder / RUNNING} after SIGKILL")


def free_ports(count: int = 1) -> list[int]:
    """Different ports on which nobody listened a moment ago."""
    with ExitStack() as stack:
        tried = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in tried:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in tried]


def is_free(port: int) -> bool:
    """Whether a server could listen at ``port``; connections that ended a moment ago do not matter."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, port))
        except OSError:
            return False
        return True


def _is_held(folder: Path) -> bool:
    """Whether a server has the lock; concurrent checks do not count."""
    try:
        lock = os.open(folder / RUNNING, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except PermissionError:
        raise PermanentError(f"what runs in {folder} is another user's: ask as that one") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _released(folder: Path, wait_s: float) -> bool:
    deadline_s = time.monotonic() + wait_s
    while _is_held(folder):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_LOOK_S)
    return True


def _locked(folder: Path) -> int:
    """Take the lock of ``folder``; raises PermanentError if a server has it."""
    lock = os.open(folder / RUNNING, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline_s = time.monotonic() + _LOOKED_AT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline_s:
                os.close(lock)
                raise PermanentError(f"a server runs in {folder} already: stop it first") from None
            time.sleep(_LOOK_S)
        else:
            os.ftruncate(lock, 0)
            return lock
