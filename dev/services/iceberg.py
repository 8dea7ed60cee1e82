"""A real server with Iceberg's REST protocol, for tests and demonstrations: loopback, its catalog in a file of SQLite.

It is what the Iceberg project tests its own clients with: the servlet over a JDBC catalog, from the tests' jar of
iceberg-core. Jetty's XML names the parts and the address, so no program of our own runs. 22 MB of jars are fetched;
Spark contains the rest. It checks no token, and reaches files of this machine.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Self
from xml.sax.saxutils import escape

from crossline.basics.errors import SourceError
from crossline.runtime.machine.jars import ensure_jars
from crossline.runtime.machine.java import find_java
from dev.services.hdfs import jars_of_spark
from dev.services.server import Server
from dev.services.supervision import HOST, Home, free_ports

_START_S_MAX = 300.0
_ASK_S, _PAUSE_S = 2.0, 0.05
_LOG_TAIL = 15
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n%ex{5}
"""
_SETTINGS = """\
<?xml version="1.0"?>
<!DOCTYPE Configure PUBLIC "-//Jetty//Configure//EN" "https://jetty.org/configure_10_0.dtd">
<Configure id="server" class="org.eclipse.jetty.server.Server">
  <New id="hadoop" class="org.apache.hadoop.conf.Configuration"/>
  <New id="properties" class="java.util.HashMap">
    <Call name="put"><Arg>uri</Arg><Arg>jdbc:sqlite:{catalog}</Arg></Call>
    <Call name="put"><Arg>jdbc.schema-version</Arg><Arg>V1</Arg></Call>
    <Call name="put"><Arg>warehouse</Arg><Arg>{warehouse}</Arg></Call>
  </New>
  <Call id="catalog" class="org.apache.iceberg.CatalogUtil" name="loadCatalog">
    <Arg>org.apache.iceberg.jdbc.JdbcCatalog</Arg>
    <Arg>lake</Arg>
    <Arg><Ref refid="properties"/></Arg>
    <Arg><Ref refid="hadoop"/></Arg>
  </Call>
  <New id="adapter" class="org.apache.iceberg.rest.RESTCatalogAdapter"><Arg><Ref refid="catalog"/></Arg></New>
  <New id="servlet" class="org.apache.iceberg.rest.RESTCatalogServlet"><Arg><Ref refid="adapter"/></Arg></New>
  <New id="holder" class="org.eclipse.jetty.ee10.servlet.ServletHolder">
    <Set name="servlet"><Ref refid="servlet"/></Set>
  </New>
  <New id="context" class="org.eclipse.jetty.ee10.servlet.ServletContextHandler">
    <Set name="contextPath">/</Set>
    <Call name="addServlet"><Arg><Ref refid="holder"/></Arg><Arg>/*</Arg></Call>
  </New>
  <Set name="handler"><Ref refid="context"/></Set>
  <Call name="addConnector">
    <Arg>
      <New class="org.eclipse.jetty.server.ServerConnector">
        <Arg name="server"><Ref refid="server"/></Arg>
        <Set name="host">{host}</Set>
        <Set name="port">{port}</Set>
      </New>
    </Arg>
  </Call>
</Configure>
"""


class LocalIceberg(Server):
    """A catalog server as a context manager: ready inside, gone after, its catalog with it unless ``folder`` is given.

    ``uri`` is what ``catalog: {kind: rest, uri: …}`` takes. ``kill`` and ``start`` play a crash: the address stays, and
    so does everything acknowledged. ``port``: a free one where 0. It dies with this process, also when that is killed,
    unless it is ``alone`` (see Home). Raises PermanentError without Java or jars, SourceError where it does not come
    up.
    """

    log_name = "iceberg.log"

    def __init__(self, folder: Path | None = None, *, port: int = 0, heap_mb: int = 192, alone: bool = False) -> None:
        super().__init__(folder, alone=alone)
        self._heap_mb = heap_mb
        self._port = self._wanted_port = port
        self._command: list[str] = []

    def __enter__(self) -> Self:
        java, jars = find_java(), ensure_jars("iceberg")
        self._home = Home.open("iceberg", self._kept, alone=self._alone)
        try:
            logging = self.folder / "log4j2.properties"
            logging.write_text(_LOGGING, encoding="utf-8")
            self._command = [
                str(java.binary),
                *(f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                *(f"-Djava.io.tmpdir={self.folder}", f"-Dlog4j2.configurationFile={logging.as_uri()}"),
                *("-cp", os.pathsep.join([*map(str, jars), f"{jars_of_spark()}/*"])),
                *("org.eclipse.jetty.xml.XmlConfiguration", str(self.folder / "server.xml")),
            ]
            self._come_up(self._begin, "already in use", fixed=bool(self._wanted_port))
        except BaseException:
            self.close()
            raise
        return self

    def _begin(self) -> None:
        if not self._wanted_port:
            (self._port,) = free_ports()
        self.start()

    @property
    def uri(self) -> str:
        """Its address."""
        return f"http://{HOST}:{self._port}"

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._port

    def start(self) -> None:
        """Start it on its catalog and address, and wait until it answers."""
        own = self.folder.absolute()
        known = {"catalog": escape(str(own / "catalog.db")), "warehouse": escape((own / "warehouse").as_uri())}
        settings = self.folder / "server.xml"
        settings.write_text(_SETTINGS.format(host=HOST, port=self._port, **known), encoding="utf-8")
        self._process = self._opened.start(self._command, self.log_file)
        self._await_answer(self._process)

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        deadline_s = time.monotonic() + _START_S_MAX
        while time.monotonic() < deadline_s and process.poll() is None:
            if _answers(self._port):
                return
            time.sleep(_PAUSE_S)
        ended = process.poll()
        what = f"did not answer within {_START_S_MAX:.0f} s" if ended is None else f"ended (exit code {ended})"
        tail = self.log_file.read_text(errors="replace").splitlines()[-_LOG_TAIL:]
        self.kill()
        lines = "".join(f"\n  {line}" for line in tail)
        raise SourceError(f"the Iceberg catalog at {self.uri} {what} as it started; the end of its log:{lines}")


def _answers(port: int) -> bool:
    connection = HTTPConnection(HOST, port, timeout=_ASK_S)
    try:
        with suppress(OSError, HTTPException):
            connection.request("GET", "/v1/config")
            return connection.getresponse().status == 200
    finally:
        connection.close()
    return False
