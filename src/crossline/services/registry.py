"""A real schema registry on this machine: in memory, on loopback, gone with its owner. It needs a Java 21 or 25.

`python tools/fetch.py registry` fetches what it is made of (159 MB); tests use a fake of it instead.
"""

from __future__ import annotations

import socket
import subprocess
import tarfile
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self

from crossline.core.basics.errors import PermanentError, SourceError
from crossline.engine.machine.jars import ensure_jars
from crossline.engine.machine.java import find_java
from crossline.engine.machine.temp import OwnFolder, own_folder
from crossline.services.guarded import end_at_once, start_guarded

JAVA = (21, 25)
PATH = "/apis/ccompat/v7"
_START_S_MAX = 120.0
_ASK_S, _PAUSE_S = 2.0, 0.2
_LOG_TAIL = 15


class LocalRegistry:
    """A registry as a context manager: ready inside, gone after, its schemas with it.

    ``url`` is what ``registry: {url: …}`` of a source takes; ``log_file`` what the registry says. It dies with this
    process, also when that is killed. Raises PermanentError without such a Java or what it is made of, SourceError
    where it does not come up.
    """

    def __init__(self, heap_mb: int = 384, port: int = 0) -> None:
        self._heap_mb = heap_mb
        self._port = port
        self._folder: OwnFolder | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        java, (archive,) = find_java(fitting=JAVA), ensure_jars("registry")
        self._folder = own_folder("registry")
        try:
            with tarfile.open(archive) as packed:
                packed.extractall(self.folder / "app", filter="data")
            self._port = self._port or _free_port()
            options = [f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={self.folder}"]
            options += ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self._port}"]
            self._start([str(java.binary), *options, "-jar", str(self.folder / "app" / "quarkus-run.jar")])
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
        """The temporary folder of the registry."""
        if self._folder is None:
            raise PermanentError("the registry is not open: use it as `with LocalRegistry() as registry:`")
        return self._folder.path

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._port}{PATH}"

    @property
    def log_file(self) -> Path:
        """Where the registry's own log is."""
        return self.folder / "registry.log"

    def close(self) -> None:
        """End the registry and delete what it had."""
        process, self._process = self._process, None
        if process is not None:
            end_at_once(process)
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    def _start(self, command: list[str]) -> None:
        self._process = start_guarded(command, self.folder, self.log_file)
        deadline_s = time.monotonic() + _START_S_MAX
        while not _answers(self._port):
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                ended = self._process.returncode
                what = f"did not answer within {_START_S_MAX:.0f} s" if ended is None else f"ended (exit code {ended})"
                tail = self.log_file.read_text(errors="replace").splitlines()[-_LOG_TAIL:]
                lines = "".join(f"\n  {line}" for line in tail)
                raise SourceError(f"the registry at {self.url} {what} as it started; the end of its log:{lines}")
            time.sleep(_PAUSE_S)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _answers(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=_ASK_S)
    try:
        connection.request("GET", f"{PATH}/subjects")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
