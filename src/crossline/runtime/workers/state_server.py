"""A state server: a process that holds the states of shards and judges their batches for the workers of its machine.

Spark gives a task to whichever worker is free. A state that lived in workers would be in the wrong one half of the
time, would be built twice, and would end with a worker that Spark lets go. A state server is forked for the first
worker that asks for it (by the fork server; by that worker, where the fork server is gone), listens on a socket in a
folder that only this user can enter, and ends when the zygote, the daemon and all of its workers are gone: it holds the
read end of a pipe whose write end only they have.

It is a cache, no more: what it knows is in the log of segments, and one that died is forked again. Where the settings
ask for it, each has a standby: another one, which reads the log behind it, batch by batch, and takes its place.
"""

from __future__ import annotations

import fcntl
import gc
import os
import pickle
import re
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from crossline.basics.errors import CrosslineError
from crossline.runtime.machine.freed_memory import keep_freed_memory
from crossline.runtime.machine.process_title import set_process_title
from crossline.runtime.stages.shard_judge import ShardJudge
from crossline.runtime.state_log.cache import forget_ahead
from crossline.runtime.state_log.read_ahead import ReadAhead
from crossline.runtime.work.stopwatch import Stopwatch
from crossline.runtime.workers import fork_server

AHEAD_S_MAX = 60.0  # without a request; what was read ahead is let go then: it is asked for elsewhere
TURN_S, PAUSE_S = 0.05, 0.001  # of reading ahead between two looks at requests; how long one is waited for there
PATIENCE_S = 2.0  # with a standby, which looks at requests as often
ADDRESS_BYTES_MAX = 100  # of the name of a socket; systems allow 104 or 108
WAITING_MAX = 128  # workers that wait for one state server
READS, IDLE = b"reads", b"idle"  # what a state server says that is asked for nothing
SERVER, STANDBY = "server-", "standby-"  # and the number: the names of sockets
TITLE = "cl-state-server"
ANNOUNCEMENT = "state_servers"  # in the temporary folder: the folder in which they listen


_NAMES = re.compile(rf"({SERVER}|{STANDBY})\d{{1,3}}", re.ASCII)


@dataclass(frozen=True, slots=True)
class StateServerFolder:
    """Where the state servers of one daemon listen: ``folder``, made by the first; ``lifeline``: a pipe (read, write).

    ``lifeline`` None: in a process that is none of the daemon's: it has state servers forked, and forks none itself.
    """

    folder: Path
    lifeline: tuple[int, int] | None

    def connect(self, number: int) -> Connection:
        """A connection to state server ``number``, which is forked if it does not run.

        Raises OSError where it is not there, and neither the fork server nor this process forks it.
        """
        with suppress(FileNotFoundError, ConnectionRefusedError):
            return _connect(self._address(f"{SERVER}{number}"))
        return self._fork(f"{SERVER}{number}", f"{STANDBY}{number}")

    def follow(self, number: int, work: ReadAhead) -> None:
        """Have the standby of state server ``number``, which is forked if it does not run, do ``work``.

        Nobody waits for it, and where there is none, the batches go on without.
        """
        with suppress(OSError):
            name = f"{STANDBY}{number}"
            if not Path(self._address(name)).exists():
                self._fork(name).close()
            try:
                connection = _connect(self._address(name), waits=False)
            except ConnectionRefusedError:  # it has died
                connection = self._fork(name)
            with connection:
                connection.send_bytes(pickle.dumps((work, [])))

    def read_ahead(self, number: int, work: ReadAhead) -> None:
        """Have state server ``number``, which is forked if it does not run, do ``work``. Nobody waits for it."""
        with suppress(OSError):
            self.reading(number, work).close()

    def reading(self, number: int, work: ReadAhead) -> Connection:
        """The same, and a connection that ends once the work is done. Raises OSError where nobody does it."""
        connection = self.connect(number)
        connection.send_bytes(pickle.dumps((work, [])))
        return connection

    def has(self, number: int) -> bool:
        """Whether state server ``number`` was forked."""
        return Path(self._address(f"{SERVER}{number}")).exists()

    def announce(self) -> None:
        """Note in ``ANNOUNCEMENT`` which state servers Spark's tasks use: Spark may have several daemons."""
        met = Path(tempfile.gettempdir()) / ANNOUNCEMENT
        with suppress(OSError):
            if met.exists() and met.read_text(encoding="utf-8") == str(self.folder):
                return
            temporary = met.with_suffix(f".{os.getpid()}")
            temporary.write_text(str(self.folder), encoding="utf-8")
            temporary.replace(met)

    def _address(self, name: str) -> str:
        return str(self.folder / name)

    def _fork(self, name: str, standby: str | None = None) -> Connection:
        """A connection to ``name``, whose place ``standby`` takes, or else a new process."""
        if self.lifeline is not None:
            self.folder.mkdir(mode=0o700, exist_ok=True)
        address = self._address(name)
        # One lock for a server and its standby: a standby that is being forked is not renamed meanwhile.
        with (self.folder / f"{name.rpartition('-')[2]}.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with suppress(FileNotFoundError, ConnectionRefusedError):
                return _connect(address)  # another worker was quicker
            if standby is not None and _answers(self._address(standby)):
                with suppress(FileNotFoundError, ConnectionRefusedError):
                    Path(self._address(standby)).rename(address)
                    return _connect(address)
            if not fork_server.request_state_server(self.folder, name):
                if self.lifeline is None:
                    raise ConnectionRefusedError(f"{address}: no process there, and none that forks it")
                with self._listening(name) as listening:
                    if os.fork() == 0:
                        _live(self, self.lifeline[0], name, listening)
            return _connect(address)

    def _listening(self, name: str) -> socket.socket:
        if not _NAMES.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a state server")
        address = self._address(name)
        Path(address).unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(address)
        listening.listen(WAITING_MAX)
        return listening

    def open_fork_server(self) -> None:
        """In the daemon: have state servers forked by a process that nothing has touched."""
        if self.lifeline is not None:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            lifeline = self.lifeline[0]
            live = partial(_live, self, lifeline)
            fork_server.open_fork_server(self.folder, lifeline, self._listening, live, _leave_files)


# Set in the zygote or the daemon, so that all that they fork know it; None where Spark runs without the daemon.
_place: StateServerFolder | None = None


def state_server_folder() -> StateServerFolder | None:
    """Where this worker finds state servers; None where shards are judged in the worker itself."""
    return _place


def open_state_server_folder() -> None:
    """In the zygote, or else in the daemon, before it forks: where workers will find state servers.

    What comes of the zygote finds those that are there, whichever daemon ends and begins.
    """
    global _place  # noqa: PLW0603 - what a fork inherits
    if _place is not None:
        return
    folder = Path(tempfile.gettempdir()) / f"crossline-{os.getpid()}-{secrets.token_hex(8)}"
    if len(os.fsencode(folder / f"{STANDBY}000")) <= ADDRESS_BYTES_MAX:
        _place = StateServerFolder(folder, os.pipe())
        _place.open_fork_server()


def announced_folder(folder: Path) -> StateServerFolder | None:
    """Where the state servers listen that tasks used last; ``folder``: Spark's temporary one. None: nowhere."""
    try:
        return StateServerFolder(Path((folder / ANNOUNCEMENT).read_text(encoding="utf-8")), None)
    except OSError:
        return None


def use_folder(where: StateServerFolder | None) -> None:
    """In a process that is none of the daemon's: its shards are judged by the state servers at ``where``."""
    global _place  # noqa: PLW0603 - as above
    _place = where


def _connect(address: str, *, waits: bool = True) -> Connection:
    """Raises OSError where nobody listens there, or, unless it ``waits``, where too many others wait."""
    client = socket.socket(socket.AF_UNIX)
    try:
        client.setblocking(waits)
        client.connect(address)
        client.setblocking(True)
    except BaseException:
        client.close()
        raise
    return Connection(client.detach())


def _answers(address: str) -> bool:
    """Whether the process that listens there does anything: one that stands still takes connections all the same."""
    with suppress(OSError, EOFError), _connect(address, waits=False) as connection:
        connection.send_bytes(pickle.dumps((None, [])))
        return connection.poll(PATIENCE_S) and bool(connection.recv_bytes())
    return False


def _live(where: StateServerFolder, lifeline: int, name: str, listening: socket.socket) -> NoReturn:
    """What the forked process does; it never returns into the worker that it was."""
    try:
        set_process_title("cl-standby" if name.startswith(STANDBY) else TITLE)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the daemon's word to workers; a state server goes after them
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _leave_files({listening.fileno(), lifeline})
        gc.freeze()
        keep_freed_memory()
        threading.Thread(target=_await_end, args=(where.folder, lifeline), daemon=True).start()
        _serve(listening, standby=name.startswith(STANDBY))
    except BaseException:  # noqa: BLE001 - above it stands the worker's code
        traceback.print_exc()
    finally:
        os._exit(1)


def _serve(listening: socket.socket, *, standby: bool) -> NoReturn:
    """Answer requests, one at a time, and read ahead in between."""
    reading: dict[tuple[int, ...], _Reading] = {}  # by shards: what was asked for last
    while True:
        idle_s = None if standby else AHEAD_S_MAX
        listening.settimeout(PAUSE_S if reading else idle_s)
        try:
            client, _ = listening.accept()
        except TimeoutError:
            if reading:
                _read_on(reading)
            else:
                forget_ahead()
            continue
        # A worker that is gone needs no answer.
        with suppress(EOFError, OSError), Connection(client.detach()) as connection:
            work, counts = pickle.loads(connection.recv_bytes())  # noqa: S301 - from a process of this user only
            if isinstance(work, ReadAhead):
                reading[work.shards] = _Reading(work, Connection(os.dup(connection.fileno())))
            elif work is None:
                connection.send_bytes(READS if reading else IDLE)
            else:
                if standby:
                    standby = False  # it has taken the place of the one that it followed
                    set_process_title(TITLE)
                connection.send_bytes(_answer(work, counts, connection))


@dataclass(frozen=True, slots=True)
class _Reading:
    """``asking``: who asked, and may wait for the end of this connection; it ends with the last reference to it."""

    work: ReadAhead
    asking: Connection


def _read_on(reading: dict[tuple[int, ...], _Reading]) -> None:
    """Read a turn of what was asked for first; what is done, or cannot be read, is taken out."""
    shards = next(iter(reading))
    done = True
    with suppress(Exception):  # the batch meets it again, and reports it
        done = reading[shards].work.read(TURN_S)
    if done:
        del reading[shards]


def _leave_files(keep: set[int]) -> None:
    """Close what the worker has open, its connection to Spark above all.

    The numbers stay in use, so that an object of the worker that closes its own does not close one of the state
    server's.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - numbers, not paths
        number = int(name)
        if number > 2 and number not in keep:
            with suppress(OSError):  # that of the listing itself
                os.dup2(nothing, number, inheritable=False)


def _await_end(folder: Path, lifeline: int) -> None:
    os.read(lifeline, 1)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _answer(work: ShardJudge, counts: Sequence[tuple[int, int]], connection: Connection) -> bytes:
    """Judge the request: (rows of each shard, milliseconds by step, None), or an error in the third place.

    ``counts``: shards, and how many parts of each follow.
    """
    given = {shard: [connection.recv_bytes() for _ in range(count)] for shard, count in counts}
    watch = Stopwatch()
    try:
        rows = [work.shard(shard, blobs, watch) for shard, blobs in given.items()]
        work.drop_unused()
    except Exception as error:  # noqa: BLE001 - reported by the worker, as if it had happened there
        return pickle.dumps(([], {}, _sendable(error)))
    return pickle.dumps((rows, watch.spent_ms, None))


def _sendable(error: Exception) -> Exception:
    """The message of our own errors; of others with the place where they happened."""
    if isinstance(error, CrosslineError):
        with suppress(Exception):
            pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
            return error
    text = "".join(traceback.format_exception(error))
    return RuntimeError(f"in a state server of shards:\n{text}")
