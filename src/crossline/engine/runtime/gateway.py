"""PySpark and the Java of this process: how they meet, and how a session ends with both."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import SparkSession

from crossline.core.basics.errors import PermanentError
from crossline.engine.runtime.launch import end, launch, started

_START_S_MAX = 120.0
_POLL_S = 0.02
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


def start_java(settings: Mapping[str, str]) -> None:
    """Start Java for ``settings`` and connect PySpark to it; nothing where this process has one already.

    Raises PermanentError where it does not come up; what it said stands on the standard error.
    """
    if SparkContext._gateway is not None or _PORT in os.environ:  # noqa: SLF001 - PySpark has no other word for it
        return
    made = launch(settings)
    port, secret = _connection(made.process, made.said)
    os.environ |= {_PORT: str(port), _SECRET: secret}
    try:
        gateway = launch_gateway()
    finally:
        del os.environ[_PORT], os.environ[_SECRET]
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001 - as above


def end_session(session: SparkSession) -> None:
    """Stop ``session`` and have the Java of this process end; no session can be made after it.

    What Spark and its workers say of their own end is not told: whatever failed was told before.
    """
    made = started()
    if made is None:
        session.stop()
        return
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - as above
    with suppress(Exception):
        gateway.jvm.System.err.close()
    session.stop()
    with suppress(Exception):
        gateway.shutdown()
    end(made, _START_S_MAX)


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
