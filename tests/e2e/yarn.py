"""Hadoop's YARN on loopback: a resource manager, and node managers that die as machines do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import Popen
from typing import Any, Self
from xml.etree import ElementTree as ET

import psutil
from dev.services.supervision import free_ports

from crossline.runtime.machine.jars import ensure_jars

from .standalone import JARS, daemon, is_executor, kill_all

_SERVER = "org.apache.hadoop.yarn.server"
_LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d %p %c{1}: %m%n%ex{5}
"""
_MASTERS = ("ApplicationMaster", "ExecutorLauncher")
_HOST = "127.0.0.1"
# What Hadoop's own start scripts open of Java for it.
_OPENED = [f"--add-opens=java.base/java.{each}=ALL-UNNAMED" for each in ("lang", "net", "util", "io")]


class Yarn:
    """A context. ``configuration``: the folder that ``HADOOP_CONF_DIR`` names to its clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.configuration = folder / "conf"
        self.nodes: list[Popen[bytes]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._configure()
        self._daemon("resourcemanager.ResourceManager", "Transitioned to active state", "manager")
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def settings(self) -> Mapping[str, Any]:
        """Of Spark, that let a driver of this machine be served here."""
        return {
            "spark.yarn.jars": f"local:{JARS}/*",
            "spark.yarn.stagingDir": str(self.folder / "staging"),
            "spark.yarn.am.memory": "256m",
            "spark.executor.instances": 2,
            "spark.driver.host": _HOST,
            "spark.driver.bindAddress": _HOST,
        }

    def add(self) -> None:
        """One node more."""
        name = f"node-{len(self.nodes)}"
        folders = {f"yarn.nodemanager.{kind}-dirs": self.folder / name / kind for kind in ("local", "log")}
        given = [text for key, value in folders.items() for text in ("-D", f"{key}={value}")]
        self.nodes.append(self._daemon("nodemanager.NodeManager", "Registered with ResourceManager as", name, *given))

    def executors(self) -> list[psutil.Process]:
        """Those that run now."""
        return [each for node in self.nodes for each in _of(node) if is_executor(each)]

    def lose(self) -> bool:
        """The node without the application's master dies with all that it started; whether it had an executor."""
        node = next(each for each in self.nodes if each.poll() is None and not any(map(_is_master, _of(each))))
        busy = any(map(is_executor, _of(node)))
        kill_all(node.pid)
        node.wait()
        return busy

    def _daemon(self, name: str, awaited: str, log: str, *given: str) -> Popen[bytes]:
        options = [*_OPENED, f"-Dlog4j2.configurationFile={self.configuration / 'log4j2.properties'}"]
        command = [*options, f"{_SERVER}.{name}", *given]
        before = [self.configuration, *ensure_jars("hdfs"), *ensure_jars("yarn")]
        process, _ = self._stack.enter_context(daemon(command, awaited, self.folder / f"{log}.log", before))
        return process

    def _configure(self) -> None:
        self.configuration.mkdir()
        (self.configuration / "log4j2.properties").write_text(_LOGGING)
        ports = dict(zip(("", ".scheduler", ".resource-tracker", ".admin", ".webapp"), free_ports(5), strict=True))
        addresses = {f"yarn.resourcemanager{kind}.address": f"{_HOST}:{port}" for kind, port in ports.items()}
        node = {f"yarn.nodemanager.{kind}address": f"{_HOST}:0" for kind in ("", "localizer.", "webapp.")}
        _write(self.configuration / "core-site.xml", {"fs.defaultFS": "file:///"})
        _write(
            self.configuration / "yarn-site.xml",
            {
                **addresses,
                **node,
                "yarn.resourcemanager.scheduler.class": f"{_SERVER}.resourcemanager.scheduler.fifo.FifoScheduler",
                "yarn.resourcemanager.bind-host": _HOST,
                "yarn.scheduler.minimum-allocation-mb": 64,
                "yarn.nodemanager.hostname": _HOST,
                "yarn.nodemanager.resource.memory-mb": 2_048,
                "yarn.nodemanager.resource.cpu-vcores": 2,
                "yarn.nodemanager.pmem-check-enabled": "false",
                "yarn.nodemanager.vmem-check-enabled": "false",
                "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": 99,
                "yarn.nm.liveness-monitor.expiry-interval-ms": 5_000,
            },
        )


def _of(node: Popen[bytes]) -> Iterator[psutil.Process]:
    """All that a node started, and those in turn."""
    with suppress(psutil.NoSuchProcess):
        yield from psutil.Process(node.pid).children(recursive=True)


def _is_master(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return any(name in part for part in process.cmdline() for name in _MASTERS)
    return False


def _write(path: Path, properties: Mapping[str, object]) -> None:
    """Settings in Hadoop's form."""
    root = ET.Element("configuration")
    for name, value in properties.items():
        each = ET.SubElement(root, "property")
        ET.SubElement(each, "name").text = name
        ET.SubElement(each, "value").text = str(value)
    ET.ElementTree(root).write(path)
