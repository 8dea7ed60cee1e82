"""A standalone cluster on loopback, of what is in the pyspark wheel: a master, and workers that die as machines do."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

import psutil
import pyspark

from crossline.runtime.machine.java import find_java

from .killing import QUICK, WAIT_S

_DEPLOY = "org.apache.spark.deploy"
_EXECUTOR = "CoarseGrainedExecutorBackend"
JARS = Path(pyspark.__file__).parent / "jars"


@contextmanager
def daemon(
    arguments: Sequence[str], awaited: str, log: Path, before: Sequence[Path] = ()
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A daemon of Spark's until the end of the context, and the rest of the line that ``awaited`` begins.

    ``before``: what its Java looks in before the jars of Spark.
    """
    path = os.pathsep.join([*map(str, before), str(JARS / "*")])
    command = [str(find_java().binary), "-Xmx256m", *QUICK, "-cp", path, *arguments]
    # What Spark's own scripts set: a worker starts executors with it.
    spark = {"SPARK_HOME": str(JARS.parent), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
    environment = {**os.environ, **spark}
    with log.open("w") as file, subprocess.Popen(command, stderr=file, env=environment, cwd=log.parent) as process:
        try:
            yield process, until_logged(process, awaited, log)
        finally:
            kill_all(process.pid)


def until_logged(process: subprocess.Popen[bytes], awaited: str, log: Path) -> str:
    deadline_s = time.monotonic() + WAIT_S
    pause = threading.Event()
    while True:
        for line in log.read_text().splitlines(keepends=True):
            if awaited in line and line.endswith("\n"):
                return line.partition(awaited)[2].strip()
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline_s, log.read_text()
        pause.wait(0.02)


def kill_all(pid: int) -> None:
    """SIGKILL to the process and to all that it started, as when the power of a machine goes."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in [process, *process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                each.kill()


class Standalone:
    """A context. ``settings``: a file with Spark's settings for master and workers; ``address``: the master's."""

    def __init__(self, folder: Path, settings: Path | None = None) -> None:
        self.folder = folder
        self.workers: list[subprocess.Popen[bytes]] = []
        self._stack = ExitStack()
        self._settings = [] if settings is None else ["--properties-file", str(settings)]
        self.address = ""

    def __enter__(self) -> Self:
        command = [f"{_DEPLOY}.master.Master", *self._here()]
        _, self.address = self._stack.enter_context(
            daemon(command, "Starting Spark master at ", self.folder / "master.log")
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _here(self) -> list[str]:
        return ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *self._settings]

    def add(self, cores: int = 1) -> None:
        """One worker more."""
        number = len(self.workers)
        work = ["--cores", str(cores), "--memory", "1g", "--work-dir", str(self.folder / "work")]
        command = [f"{_DEPLOY}.worker.Worker", *self._here(), *work, self.address]
        awaited = "Successfully registered with master "
        process, _ = self._stack.enter_context(daemon(command, awaited, self.folder / f"worker-{number}.log"))
        self.workers.append(process)

    def executors(self) -> list[psutil.Process]:
        """Those that run now."""
        found = []
        for worker in self.workers:
            with suppress(psutil.NoSuchProcess):
                found += [each for each in psutil.Process(worker.pid).children() if is_executor(each)]
        return found

    def lose(self) -> bool:
        """The oldest worker dies with all that it started; whether it had an executor."""
        worker = next(each for each in self.workers if each.poll() is None)
        busy = any(is_executor(each) for each in psutil.Process(worker.pid).children())
        kill_all(worker.pid)
        worker.wait()
        return busy


def is_executor(process: psutil.Process) -> bool:
    """Whether it is the Java of one, and not the shell that started it."""
    with suppress(psutil.Error):
        return process.name() == "java" and any(_EXECUTOR in part for part in process.cmdline())
    return False
