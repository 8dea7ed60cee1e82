"""A real schema registry on this machine, on loopback, with its schemas in a file. It needs Java 21 or 25.

`python tools/fetch.py registry` fetches its files (159 MB). Tests use a fake instead.
"""

from __future__ import annotations

import shutil
import tarfile
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Self

from crossline.basics.errors import SourceError
from crossline.runtime.machine.jars import ensure_jars
from crossline.runtime.machine.java import find_java
from dev.services.server import Server
from dev.services.supervision import HOST, Home, end_at_once, free_ports

JAVA = (21, 25)
PATH = "/apis/ccompat/v7"
_START_S_MAX = 300.0  # of a core it takes half a minute
_ASK_S, _PAUSE_S = 2.0, 0.2
_LOG_TAIL = 15


class LocalRegistry(Server):
    """A registry as a context manager: ready inside, gone after, its schemas with it unless ``folder`` is theirs.

    ``url`` is what ``registry: {url: …}`` of a source takes; ``log_file`` what the registry says. ``kill`` and
    ``start`` play a crash: the address stays, and so does everything acknowledged. It dies with this process, also when
    that is killed, unless it is ``alone`` (see Home). Raises PermanentError without such a Java or
    what it is made of, SourceError where it does not come up.
    """

    log_name = "registry.log"

    def __init__(self, folder: Path | None = None, *, port: int = 0, heap_mb: int = 384, alone: bool = False) -> None:
        super().__init__(folder, alone=alone)
        self._heap_mb = heap_mb
        self._port = self._wanted_port = port
        self._command: list[str] = []

    def __enter__(self) -> Self:
        java, (archive,) = find_java(fitting=JAVA), ensure_jars("registry")
        self._home = Home.open("registry", self._kept, alone=self._alone)
        try:
            app = _unpacked(archive, self.folder)
            options = [f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={self.folder}"]
            options += [f"-Dquarkus.http.host={HOST}"]
            # It has a second server, for management: by default on all addresses, and always on the same port.
            options += [f"-Dquarkus.management.host={HOST}", "-Dquarkus.management.port=0"]
            options += ["-Dapicurio.storage.kind=sql", "-Dapicurio.storage.sql.kind=h2"]
            # Records name schemas by number: a number is on the disk before it is returned.
            options += [f"-Dapicurio.datasource.url=jdbc:h2:file:{self.folder / 'schemas'};WRITE_DELAY=0"]
            command = [str(java.binary), *options]
            self._come_up(lambda: self._begin(command, app), " in use", fixed=bool(self._wanted_port))
        except BaseException:
            self.close()
            raise
        return self

    def _begin(self, java: list[str], app: Path) -> None:
        if not self._wanted_port:
            (self._port,) = free_ports()
        own = f"-Dquarkus.http.port={self._port}"
        self._command = [*java, own, "-jar", str(app / "quarkus-run.jar")]
        self.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{HOST}:{self._port}{PATH}"

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._port

    def start(self) -> None:
        """Start it on its schemas and address, and wait until it answers."""
        self._process = self._opened.start(self._command, self.log_file)
        deadline_s = time.monotonic() + _START_S_MAX
        while not _answers(self._port):
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                ended = self._process.returncode
                what = f"did not answer within {_START_S_MAX:.0f} s" if ended is None else f"ended (exit code {ended})"
                tail = self.log_file.read_text(errors="replace").splitlines()[-_LOG_TAIL:]
                lines = "".join(f"\n  {line}" for line in tail)
                end_at_once(self._process)
                self._process = None
                raise SourceError(f"the registry at {self.url} {what} as it started; the end of its log:{lines}")
            time.sleep(_PAUSE_S)


def _unpacked(archive: Path, folder: Path) -> Path:
    """The programs of ``archive`` below ``folder``; those of another version there go."""
    app, whole = folder / "app", folder / "app" / "unpacked-from"
    if not whole.is_file() or whole.read_text(encoding="utf-8") != archive.name:
        shutil.rmtree(app, ignore_errors=True)
        with tarfile.open(archive) as packed:
            packed.extractall(app, filter="data")
        whole.write_text(archive.name, encoding="utf-8")
    return app


def _answers(port: int) -> bool:
    connection = HTTPConnection(HOST, port, timeout=_ASK_S)
    try:
        connection.request("GET", f"{PATH}/subjects")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
