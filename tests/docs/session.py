"""A reader's session: the blocks of one page in their order, in one folder that is thrown away.

Shell goes to a shell. Lines that are a plain ``crossline`` command run in this process, on the suite's own Spark
session: a new one for each would cost more than all else here. A backtest needs none, nor do figures. They fork, which
a process with Spark's threads had better not do, and so they go to a shell too.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from dev.services.supervision import free_ports

from crossline.cli.app import app
from crossline.runtime.spark_internals import gateway

from .pages import Block

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEEDS_A_SHELL = frozenset("|&;<>$`(){}\\")
_STARTS_SPARK = ("run", "demo")
_FORKS = ("backtest", "figures")
_READY_S = 150.0
ADDRESS = "127.0.0.1:8080"


class Session:
    """``spark`` gives the Spark session, asked for by the first block that needs one; None: no block may need one.

    Where a page says ``ADDRESS``, the session has a port of its own, at which nothing listens until the page makes it
    do so: on the reader's own port a demo may run.
    """

    def __init__(
        self,
        folder: Path,
        spark: Callable[[], SparkSession] | None,
        patch: pytest.MonkeyPatch,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self._place = folder.with_name("cwd")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, **(environment or {})}
        self.names: dict[str, Any] = {"__name__": "docs"}
        self._spark = spark
        self._patch = patch
        self._served: subprocess.Popen[bytes] | None = None
        self.address = ADDRESS.replace("8080", str(free_ports()[0]))

    def run(self, block: Block) -> None:
        """Run a block of shell or Python; fails where it fails."""
        text = block.text.replace(ADDRESS, self.address)
        if block.language == "python":
            with self._on_spark():
                exec(compile(text, str(block), "exec"), self.names)  # noqa: S102 - our own pages
            return
        for part in shell_parts(text):
            if is_plain_command(part):
                self.command(part)
            else:
                self._shell(part)

    def command(self, line: str) -> None:
        """Run one plain command; fails where it does."""
        arguments = shlex.split(line)[1:]
        if "--serve" in arguments:
            self._serve(arguments)
            return
        if arguments[0] in _FORKS:
            self._shell(line)
            return
        if arguments[0] in _STARTS_SPARK:
            with self._on_spark():
                code = app(arguments, standalone_mode=False)
        else:
            with self._patch.context() as patch:
                patch.chdir(self.folder)
                code = app(arguments, standalone_mode=False)
        assert not code, f"{line} ended with {code}"

    def _shell(self, text: str) -> None:
        done = subprocess.run(
            ["sh", "-eu", "-c", f"{text}\npwd > {shlex.quote(str(self._place))}"],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        sys.stdout.write(done.stdout)
        self.folder = Path(self._place.read_text().strip())

    def _serve(self, arguments: list[str]) -> None:
        """Start what serves until it is stopped, as in a terminal of its own; returns once it answers."""
        assert self._served is None
        command = str(Path(sys.executable).with_name("crossline"))
        found = self.folder.with_name("served.log")
        with found.open("wb") as log:
            self._served = subprocess.Popen(
                [command, *arguments],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.seen_at("/", "")
        assert self._served.poll() is None, found.read_text()

    def seen_at(self, path: str, text: str) -> None:
        """Ask the console for the page at ``path`` until it has ``text``; fails where what serves it ends."""
        assert self._served is not None
        until, found = time.monotonic() + _READY_S, "nothing"
        while time.monotonic() < until:
            assert self._served.poll() is None, self.folder.with_name("served.log").read_text()
            with suppress(OSError), urllib.request.urlopen(f"http://{self.address}{path}", timeout=10) as answer:
                found = answer.read().decode()
                if text in " ".join(re.sub(r"<[^>]*>", "", found).split()):
                    return
            time.sleep(0.2)
        log = self.folder.with_name("served.log").read_text()
        raise AssertionError(f"{path} does not show {text!r} after {_READY_S:.0f} s, but {found}\n{log}")

    def stop(self) -> int | None:
        """Ctrl-C for what serves; its exit code, None where nothing does."""
        served, self._served = self._served, None
        if served is None:
            return None
        try:
            served.send_signal(signal.SIGINT)
            return served.wait(timeout=60)
        finally:
            if served.poll() is None:
                os.killpg(served.pid, signal.SIGKILL)
                served.wait()

    @contextmanager
    def _on_spark(self) -> Iterator[None]:
        """In the folder, for Python and for Spark; the session outlives a command that stops it."""
        if self._spark is None:
            with self._patch.context() as patch:
                patch.chdir(self.folder)
                yield
            return
        spark = self._spark()
        files = _local_files(spark)
        before, at_term = files.getWorkingDirectory(), signal.getsignal(signal.SIGTERM)
        with self._patch.context() as patch:
            patch.chdir(self.folder)
            patch.setattr(type(spark), "stop", lambda _: None)
            patch.setattr(gateway, "end_session", lambda _: None)
            files.setWorkingDirectory(_hadoop_path(spark, str(self.folder)))
            try:
                yield
            finally:
                files.setWorkingDirectory(before)
                signal.signal(signal.SIGTERM, at_term)


def shell_parts(text: str) -> Iterator[str]:
    """Plain commands each for themselves, and what lies between them as it stands."""
    held: list[str] = []
    inside: str | None = None  # the word that ends a here-document
    for line in text.splitlines():
        if inside is None and is_plain_command(line):
            if held:
                yield "\n".join(held)
            held = []
            yield line
            continue
        held.append(line)
        if inside is None and "<<'" in line:
            inside = line.partition("<<'")[2].partition("'")[0]
        elif line == inside:
            inside = None
    if held:
        yield "\n".join(held)


def is_plain_command(line: str) -> bool:
    return line.startswith("crossline ") and "\n" not in line and not _NEEDS_A_SHELL & set(line)


def _local_files(spark: SparkSession) -> Any:
    jvm: Any = spark.sparkContext._jvm
    context: Any = spark.sparkContext._jsc
    return jvm.org.apache.hadoop.fs.FileSystem.getLocal(context.hadoopConfiguration()).getRaw()


def _hadoop_path(spark: SparkSession, path: str) -> Any:
    jvm: Any = spark.sparkContext._jvm
    return jvm.org.apache.hadoop.fs.Path(path)
