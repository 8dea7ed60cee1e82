"""The Spark session as crossline needs it."""

from __future__ import annotations

import os
import re
import secrets
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from crossline.runtime.java.launch import (
    found_jars,
    is_on_this_machine,
    is_one_process,
    is_started_here,
    prepare,
    session_folder,
)
from crossline.runtime.java.settings import (
    AUTHENTICATE,
    ELSEWHERE,
    LOOPBACK,
    RUNTIME_SETTINGS,
    SECRET,
    SHARD_PLACEMENT,
    base_settings,
    executors_here,
)
from crossline.runtime.spark_internals.gateway import start_java

TASK_TRIES = 4
JARS = "spark.jars"  # what the driver hands to its executors


def build_session(
    app_name: str = "crossline",
    master: str | None = None,
    cores: int | str = "*",
    settings: Mapping[str, str] | None = None,
    python: str | None = None,
) -> SparkSession:
    """A session on ``master`` (default ``local[cores]``) with the settings below; ``settings`` win over them.

    ``python``: that of executors, as they find it; by default this one, by its path. Executors elsewhere get the jars.

    What listens, listens on loopback, unless ``settings`` or, for masters elsewhere, ``SPARK_LOCAL_IP`` say otherwise.
    """
    here = is_on_this_machine(master)
    bound = binding(os.environ, here=here)
    prepare(os.environ, here=here, python=python)
    jars = found_jars()
    wanted = {
        "spark.app.name": app_name,
        "spark.master": _retrying(master or f"local[{cores}]"),
        **base_settings(jars),
        **bound,
        **RUNTIME_SETTINGS,
        **(AUTHENTICATE if is_started_here(master) else {}),
        **({} if is_one_process(master) else SHARD_PLACEMENT),
        **(executors_here() if is_started_here(master) and not is_one_process(master) else {}),
        **({} if here else ELSEWHERE),
        **(settings or {}),
    }
    wanted |= handed_out(jars, wanted, here=here)
    # While Java starts: nearly a second that the first query would otherwise wait for.
    threading.Thread(target=import_module, args=("pandas",), daemon=True).start()
    start_java(wanted)
    builder = SparkSession.builder
    for name, value in (_local_dir() | _secret(master, wanted) | wanted).items():
        builder = builder.config(name, value)
    with _own_handlers():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def handed_out(jars: Sequence[Path], settings: Mapping[str, str], *, here: bool) -> dict[str, str]:
    """Executors on other machines get the jars from the driver, beside those that ``settings`` name."""
    return {} if here else {JARS: ",".join([*map(str, jars), *filter(None, [settings.get(JARS)])])}


def binding(environment: Mapping[str, str], *, here: bool) -> Mapping[str, str]:
    """Where the driver listens; ``here``: all runs on this machine. An address in Spark's settings stays."""
    return LOOPBACK if here or "SPARK_LOCAL_IP" not in environment else {}


def _local_dir() -> dict[str, str]:
    folder = session_folder()
    return {} if folder is None else {"spark.local.dir": str(folder)}


def _secret(master: str | None, settings: Mapping[str, str]) -> dict[str, str]:
    """What Spark does not draw itself. Over our connection to Java: a command line is for all to read."""
    drawn_here = is_started_here(master) and not is_one_process(master) and settings.get("spark.authenticate") == "true"
    return {SECRET: secrets.token_hex(32)} if drawn_here else {}


@contextmanager
def _own_handlers() -> Iterator[None]:
    """PySpark installs its own handler of SIGINT, which raises at any point. Restore the handler of before."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread() and before not in {signal.default_int_handler, None}:
        signal.signal(signal.SIGINT, before)


def wake_workers(session: SparkSession) -> None:
    """Have Spark start its Python daemon now, beside whatever else is being got ready.

    The daemon takes three seconds to load what workers need, and Java as long to plan its first query; the first batch
    would wait for both. In a thread of its own; what goes wrong there goes wrong again, and is reported, in that batch.
    """

    def wake() -> None:
        with suppress(Exception):
            session.range(1).mapInArrow(_as_they_are, "id long").collect()

    threading.Thread(target=wake, name="wake-workers", daemon=True).start()


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def _retrying(master: str) -> str:
    """Local masters try a failed task again, as clusters do: a worker that dies does not end the query."""
    found = re.fullmatch(r"local\[(\*|\d+)\]", master, re.ASCII)
    return f"local[{found.group(1)},{TASK_TRIES}]" if found else master
