"""Java for a session: out of reach of the signals that end a run, and ended with the process that started it.

A terminal and a supervisor send SIGINT or SIGTERM to every process of a run at once. Java, were it to end at the same
moment as the pipeline that is being stopped, would fail that pipeline in the midst of its stop. So it ignores both; it
ends when the pipe that this process holds ends, which the system sees to, however this process ends.
"""

from __future__ import annotations

import atexit
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import SparkSession

from crossline.core.basics.errors import PermanentError
from crossline.engine.runtime.temp import OwnFolder, own_folder, sweep

END_S = 20.0  # Java takes half a second to end; more where a batch is under way
_START_S_MAX = 120.0
_POLL_S = 0.02
# What ignores a signal when it starts another program hands that on; Java leaves ignored signals alone.
_DEAF = 'trap "" INT TERM; exec "$@"'
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"

_folder: OwnFolder | None = None
_process: subprocess.Popen[bytes] | None = None


def session_folder() -> Path | None:
    """Where the Java that was started here keeps what is temporary; None where there is none, or somebody else's."""
    return _folder.path if _folder is not None else None


def start_java(settings: Mapping[str, str]) -> None:
    """Start Java for ``settings`` and connect PySpark to it; nothing where this process has one already.

    Raises PermanentError where it does not come up; what it said stands on the standard error.
    """
    global _folder, _process  # noqa: PLW0603 - one Java a process, as PySpark has it
    if SparkContext._gateway is not None or _PORT in os.environ:  # noqa: SLF001 - PySpark has no other word for it
        return
    sweep()
    _folder = folder = own_folder()
    said = folder.path / "gateway"
    _process = process = _launch(_with_folder(settings, folder.path), said, folder.lock)
    atexit.register(_at_exit, os.getpid(), process, folder)
    port, secret = _connection(process, said)
    os.environ |= {_PORT: str(port), _SECRET: secret}
    try:
        gateway = launch_gateway()
    finally:
        del os.environ[_PORT], os.environ[_SECRET]
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001 - as above


def _at_exit(owner: int, process: subprocess.Popen[bytes], folder: OwnFolder) -> None:
    if os.getpid() == owner:  # not in a process that was forked from it
        _end_java(process, folder, END_S)


def _end_java(process: subprocess.Popen[bytes], folder: OwnFolder, wait_s: float) -> None:
    """Have Java end, wait for it, and remove its folder; one that does not end in time keeps it, for the next sweep."""
    if process.stdin is None or process.stdin.closed:
        return
    with suppress(OSError):
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(wait_s)
        folder.remove()


def end_session(session: SparkSession) -> None:
    """Stop ``session`` and have the Java of this process end; no session can be made after it.

    What Spark and its workers say of their own end is not told: whatever failed was told before.
    """
    if _process is None or _folder is None:
        session.stop()
        return
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - as above
    with suppress(Exception):
        gateway.jvm.System.err.close()
    session.stop()
    with suppress(Exception):
        gateway.shutdown()
    _end_java(_process, _folder, _START_S_MAX)


def _with_folder(settings: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Spark's settings with its temporary files in ``folder``, where nobody said otherwise."""
    options = "spark.driver.extraJavaOptions"
    temp = shlex.quote(f"-Djava.io.tmpdir={folder}")
    return {"spark.local.dir": str(folder), **settings, options: f"{settings.get(options, '')} {temp}".strip()}


def _launch(settings: Mapping[str, str], said: Path, lock: int) -> subprocess.Popen[bytes]:
    submit = str(Path(_find_spark_home()) / "bin" / "spark-submit")
    given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    more = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    environment = {
        **os.environ,
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(said),
        "TMPDIR": str(said.parent),  # of Python's workers
    }
    # A group of its own: a terminal's keys do not reach it, nor what is sent to the group of this process. It inherits
    # the lock of the folder, which is swept once Java is gone too. The signals are blocked from the first instant,
    # before the shell comes to its trap; so they are in all that Java starts, since Java leaves that as it is.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", _DEAF, "sh", submit, *given, *more],
            stdin=subprocess.PIPE,
            env=environment,
            process_group=0,
            pass_fds=(lock,),
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _connection(process: subprocess.Popen[bytes], said: Path) -> tuple[int, str]:
    """Port and secret, once Java has written them."""
    deadline_s = time.monotonic() + _START_S_MAX
    while not said.is_file():
        if process.poll() is not None:
            raise PermanentError(
                f"Java ended while it started (exit code {process.returncode}); what it said stands above. "
                "`crossline doctor` says which Java is found"
            )
        if time.monotonic() > deadline_s:
            raise PermanentError(f"Java did not come up within {_START_S_MAX:.0f} s; is the machine short of memory?")
        time.sleep(_POLL_S)
    with said.open("rb") as written:
        return read_int(written), UTF8Deserializer().loads(written)
