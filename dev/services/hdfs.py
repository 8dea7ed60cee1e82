"""A name node and a data node on this machine, for tests that need them: Hadoop's own small cluster, on loopback.

It is one jar of 40 MB, fetched at the first use. Spark contains the rest of Hadoop.
"""

from __future__ import annotations

import importlib.util
import os
import time
from pathlib import Path
from typing import Self

import orjson

from crossline.basics.errors import PermanentError, SourceError
from crossline.runtime.machine.jars import ensure_jars
from crossline.runtime.machine.java import find_java
from dev.services.server import Server
from dev.services.supervision import HOST, Home

_START_S_MAX = 300.0
_PAUSE_S = 0.1
_LOG_TAIL = 15
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n%ex{5}
"""


class LocalHdfs(Server):
    """A file system as a context manager: ready inside, gone after, its files with it.

    Raises PermanentError without Java or jars, SourceError where it does not come up.
    """

    log_name = "hdfs.log"

    def __init__(self, heap_mb: int = 256) -> None:
        super().__init__(None, alone=False)
        self._heap_mb = heap_mb
        self.port = 0

    def __enter__(self) -> Self:
        java, jars = find_java(), ensure_jars("hdfs")
        self._home = Home.open("hdfs", None)
        try:
            logging = self.folder / "log4j2.properties"
            logging.write_text(_LOGGING, encoding="utf-8")
            command = [
                str(java.binary),
                *(f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                *(f"-Djava.io.tmpdir={self.folder}", f"-Dlog4j2.configurationFile={logging}"),
                *("-cp", os.pathsep.join([*map(str, jars), f"{jars_of_spark()}/*"])),
                *("org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-writeDetails", str(self._details)),
                *("-D", f"hdfs.minidfs.basedir={self.folder / 'data'}"),
            ]
            self._process = self._opened.start(command, self.log_file)
            self._await_details()
        except BaseException:
            self.close()
            raise
        return self

    @property
    def _details(self) -> Path:
        return self.folder / "details.json"

    @property
    def uri(self) -> str:
        """Of its root."""
        return f"hdfs://{HOST}:{self.port}"

    def _await_details(self) -> None:
        """Wait for the file in which the cluster writes its address once it accepts files."""
        deadline_s = time.monotonic() + _START_S_MAX
        while self._process is not None and self._process.poll() is None and time.monotonic() < deadline_s:
            try:
                self.port = int(orjson.loads(self._details.read_bytes())["namenode_port"])
            except (FileNotFoundError, orjson.JSONDecodeError):
                time.sleep(_PAUSE_S)
                continue
            return
        lines = self.log_file.read_text(errors="replace").splitlines()[-_LOG_TAIL:]
        tail = "".join(f"\n  {line}" for line in lines)
        raise SourceError(f"the name node did not come up within {_START_S_MAX:.0f} s; the end of its log:{tail}")


def jars_of_spark() -> Path:
    """The jars of Spark, with those of Hadoop's client."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise PermanentError("HDFS is started with the jars of Spark, found no pyspark; expected it installed")
    return Path(spec.origin).parent / "jars"
