"""PySpark and the Java of this process: how they meet, and how a session ends with both."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import SparkSession

from crossline.basics.errors import PermanentError
from crossline.runtime.java.launch import end, launch, started
from crossline.runtime.spark_internals.gateway_guard import guard

_START_S_MAX = 120.0
_POLL_S = 0.02
_ENDED_S_MAX = 5.0  # from a connection that broke to an exit code
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


def start_java(settings: Mapping[str, str]) -> None:
    """Start Java for ``settings`` and connect PySpark to it; nothing where this process has one already.

    Raises PermanentError where it does not come up; its output is on the standard error.
    """
    if SparkContext._gateway is not None or _PORT in os.environ:  # noqa: SLF001 - PySpark has no other word for it
        return
    _hush()
    made = launch(settings)
    port, secret = _connection(made.process, made.connection_file)
    os.environ |= {_PORT: str(port), _SECRET: secret}
    try:
        gateway = launch_gateway()
    finally:
        del os.environ[_PORT], os.environ[_SECRET]
    guard(gateway)
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001 - as above


def end_session(session: SparkSession) -> None:
    """Stop ``session`` and have the Java of this process end; no session can be made after it.

    Messages of Spark and its workers about their own end are discarded: failures were reported before.
    """
    made = started()
    if made is None:
        session.stop()
        return
    if made.process.poll() is not None:
        end(made)
        return
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - as above
    with suppress(Exception):
        gateway.jvm.System.err.close()
    session.stop()
    with suppress(Exception):
        gateway.shutdown()
    end(made, _START_S_MAX)


def raise_if_java_ended(failure: BaseException) -> None:
    """Raise PermanentError where ``failure`` is a lost connection, because Java ended during the run."""
    made = started()
    if made is None or not isinstance(failure, Py4JError | ConnectionError):
        return
    with suppress(subprocess.TimeoutExpired):
        code = made.process.wait(_ENDED_S_MAX)
        if code < 0:
            how = f"was ended by {signal.Signals(-code).name}, as the system does where memory is short"
        else:
            how = f"ended by itself (exit code {code}); its output is above"
        raise PermanentError(
            f"Java, in which Spark runs, {how}. What was under way is not lost: the next start runs it again"
        ) from failure


def _hush() -> None:
    """The end of Java is reported once, and not by tracebacks of every thread that used it."""
    logging.getLogger().addFilter(lambda record: record.module != "java_gateway")
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        server.handle_error = lambda *_: None


def _connection(process: subprocess.Popen[bytes], connection_file: Path) -> tuple[int, str]:
    """Port and secret, once Java has written them."""
    deadline_s = time.monotonic() + _START_S_MAX
    while not connection_file.is_file():
        if process.poll() is not None:
            raise PermanentError(
                f"Java ended while it started (exit code {process.returncode}); its output is above. "
                "`crossline doctor` shows which Java is found"
            )
        if time.monotonic() > deadline_s:
            raise PermanentError(f"Java did not come up within {_START_S_MAX:.0f} s; is the machine short of memory?")
        time.sleep(_POLL_S)
    with connection_file.open("rb") as written:
        return read_int(written), UTF8Deserializer().loads(written)
