"""A real server with the protocol of S3, for tests and demonstrations: loopback, signed requests.

It is S3Proxy over a folder. Only the jars that it needs for that are fetched (15 MB).
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Self

from crossline.basics.errors import SourceError
from crossline.runtime.machine.jars import ensure_jars
from crossline.runtime.machine.java import find_java
from dev.services.server import Server
from dev.services.supervision import HOST, Home, free_ports

REGION = "us-east-1"
# On a busy machine, 3 s of processor time take half a minute; a failed server ends, which is reported at once.
_START_S_MAX = 300.0
_ASK_S, _PAUSE_S = 2.0, 0.05
_LOG_TAIL = 15
_SETTINGS = """\
s3proxy.endpoint=http://{host}:{port}
s3proxy.authorization=aws-v2-or-v4
s3proxy.identity={access_key}
s3proxy.credential={secret_key}
jclouds.provider=filesystem-nio2
jclouds.filesystem.basedir={data}
"""
_LOGGING = """\
<configuration><appender name="log" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%d %level %logger{0}: %msg%n%ex{5}</pattern></encoder></appender>
<root level="WARN"><appender-ref ref="log"/></root></configuration>
"""
# An object is written under its name and a unique number, and becomes visible once its hash is stored with it.
_WRITTEN = re.compile(r".-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_HASH = "user.user.content-md5"


class LocalS3(Server):
    """A server as a context manager: ready inside, gone after, its objects with it unless ``folder`` names a place.

    ``bucket`` is there; ``environment`` is what clients need to know, as AWS's own libraries read it, the secret
    included. ``port``: a free one where 0. ``data``: a folder that stays; a temporary one where None. ``kill`` and
    ``start`` play a crash: the address stays, and so does everything acknowledged. It dies with this process, also when
    that is killed, unless it is ``alone`` (see Home). Raises PermanentError without Java or jars, SourceError where it
    does not come up.
    """

    log_name = "s3.log"

    def __init__(
        self,
        bucket: str = "crossline",
        port: int = 0,
        data: Path | None = None,
        access_key: str = "crossline",
        secret_key: str | None = None,
        heap_mb: int = 96,
        *,
        folder: Path | None = None,
        alone: bool = False,
    ) -> None:
        self.bucket = bucket
        self.host = HOST
        self.port = port
        self.access_key = access_key
        self.secret_key = secret_key or secrets.token_hex(16)
        self._fixed = port != 0
        self._data = data
        self._heap_mb = heap_mb
        super().__init__(folder, alone=alone)
        self._command: list[str] = []

    def __enter__(self) -> Self:
        java, jars = find_java(), ensure_jars("s3")
        self._home = Home.open("s3", self._kept, alone=self._alone)
        try:
            logging = self.folder / "logback.xml"
            logging.write_text(_LOGGING, encoding="utf-8")
            options = [f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            options += [f"-Djava.io.tmpdir={self.folder}", f"-Dlogback.configurationFile={logging.as_uri()}"]
            self._command = [
                str(java.binary),
                *options,
                "-cp",
                os.pathsep.join(map(str, jars)),
                "org.gaul.s3proxy.Main",
            ]
            (self.data / self.bucket).mkdir(parents=True, exist_ok=True)
            self._come_up(self._begin, "already in use", fixed=self._fixed)
        except BaseException:
            self.close()
            raise
        return self

    def _begin(self) -> None:
        if not self._fixed:
            (self.port,) = free_ports()
        self.start()

    @property
    def data(self) -> Path:
        """The folder of its objects, with a folder for each bucket."""
        return self._data or self.folder / "data"

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://{self.host}:{self.port}"

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of clients; the last variable disables trailing checksums, which it does not support."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
        }

    def start(self) -> None:
        """Start it on its data and address, and wait until it answers."""
        self._drop_cut_off()
        settings = self.folder / "s3.properties"
        settings.touch(mode=0o600)  # it has the secret
        known = {"access_key": self.access_key, "secret_key": self.secret_key, "data": self.data.absolute()}
        settings.write_text(_SETTINGS.format(host=self.host, port=self.port, **known), encoding="utf-8")
        self._process = self._opened.start([*self._command, "--properties", str(settings)], self.log_file)
        self._await_answer(self._process)

    def _drop_cut_off(self) -> None:
        """Remove incomplete objects of a crash: the server cannot list a folder with one."""
        if not hasattr(os, "listxattr"):  # another system than Linux
            return
        for path in (self.data / self.bucket).rglob("*"):
            with suppress(OSError):  # a file system without such notes
                if path.is_file() and _WRITTEN.search(path.name) and _HASH not in os.listxattr(path):
                    path.unlink()

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        deadline_s = time.monotonic() + _START_S_MAX
        while time.monotonic() < deadline_s and process.poll() is None:
            if self._answers():
                return
            time.sleep(_PAUSE_S)
        ended = process.poll()
        what = f"did not answer within {_START_S_MAX:.0f} s" if ended is None else f"ended (exit code {ended})"
        lines = self.log_file.read_text(errors="replace").splitlines()[-_LOG_TAIL:]
        self.kill()
        tail = "".join(f"\n  {line}" for line in lines)
        raise SourceError(f"the object store at {self.endpoint} {what} as it started; the end of its log:{tail}")

    def _answers(self) -> bool:
        """Whether it rejects an unsigned request."""
        connection = HTTPConnection(self.host, self.port, timeout=_ASK_S)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status == 403
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()
