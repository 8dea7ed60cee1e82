"""The Spark session as crossline needs it; each setting says which measurement or failure it answers."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from crossline.engine.runtime.archive import use_flags
from crossline.engine.runtime.gateway import session_folder, start_java
from crossline.engine.runtime.home import spark_home, worker_python
from crossline.engine.runtime.jars import ensure_jars
from crossline.engine.runtime.java import find_java
from crossline.engine.runtime.leftovers import OPEN_PACKAGES

TASK_TRIES = 4
DAEMON = "crossline.engine.runtime.daemon"
FEW_CORES = 4
# All of them always: the archive of Java's classes fits one class path.
JAR_GROUPS = ("local-fs", "spark-kafka")
# Without both, Spark binds to whatever the host name resolves to, where anybody who gets there may run code.
LOOPBACK: Mapping[str, str] = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
LOGGING = Path(__file__).with_name("log4j2.properties")

# Applied to any session that detect() is used in; changing them while Spark runs is allowed.
RUNTIME_SETTINGS: Mapping[str, str] = {
    # A chunk of records travels as one Arrow batch; the default of 10,000 rows costs a round trip each.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    # Shards are tasks; merging or splitting them would break "one task per shard".
    "spark.sql.adaptive.enabled": "false",
}


def build_session(
    app_name: str = "crossline",
    master: str | None = None,
    cores: int | str = "*",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session on ``master`` (default ``local[cores]``) with the settings below; ``settings`` win over them.

    What listens, listens on loopback, unless ``settings`` or, for masters elsewhere, ``SPARK_LOCAL_IP`` say otherwise.
    """
    here = master is None or re.match(r"local\b|spark://(127\.|localhost\b)", master) is not None
    os.environ["PYSPARK_PYTHON"] = str(worker_python()) if here else sys.executable
    bound = binding(os.environ, here=here)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if here:
        os.environ.setdefault("SPARK_HOME", str(spark_home()))
    os.environ["JAVA_HOME"] = str(find_java().home)
    jars = [jar for group in JAR_GROUPS for jar in ensure_jars(group)]
    wanted = {
        "spark.app.name": app_name,
        "spark.master": _retrying(master or f"local[{cores}]"),
        **_base_settings(jars),
        **bound,
        **RUNTIME_SETTINGS,
        **(settings or {}),
    }
    # While Java starts: nearly a second that the first query would otherwise wait for.
    threading.Thread(target=import_module, args=("pandas",), daemon=True).start()
    start_java(wanted)
    builder = SparkSession.builder
    for name, value in (_local_dir() | wanted).items():
        builder = builder.config(name, value)
    with _own_handlers():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def binding(environment: Mapping[str, str], *, here: bool) -> Mapping[str, str]:
    """Where the driver listens; ``here``: all runs on this machine. An address that somebody gave to Spark stays."""
    return LOOPBACK if here or "SPARK_LOCAL_IP" not in environment else {}


def _local_dir() -> dict[str, str]:
    folder = session_folder()
    return {} if folder is None else {"spark.local.dir": str(folder)}


@contextmanager
def _own_handlers() -> Iterator[None]:
    """PySpark takes SIGINT for itself and raises wherever its thread stands; who has said what it shall do keeps it."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread() and before not in {signal.default_int_handler, None}:
        signal.signal(signal.SIGINT, before)


def wake_workers(session: SparkSession) -> None:
    """Have Spark start its Python daemon now, beside whatever else is being got ready.

    The daemon takes three seconds to load what workers need, and Java as long to plan its first query; the first batch
    would wait for both. In a thread of its own; what goes wrong there goes wrong again, and is told, in that batch.
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


def java_options(archive: str) -> str:
    """Options of the driver's Java; ``archive``: those that use or make the archive of its classes.

    On few cores a collector of one thread: what lives is small, and the others' threads take the tasks' cores. R5 on
    two cores: 3.0 us of Java's processor time a record instead of 3.8.
    """
    few = (os.cpu_count() or 1) <= FEW_CORES
    collector = " -XX:+UseSerialGC" if few else ""
    logging = f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"
    return f"{logging} -XX:TieredStopAtLevel=1{collector} {OPEN_PACKAGES} {archive}".strip()


def _base_settings(jars: Sequence[Path]) -> dict[str, str]:
    class_path = os.pathsep.join(map(str, jars))
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "3g",
        # Spark's own chatter stays out of what people read; errors still show. The quick compiler alone: half of the
        # JVM's time in small batches went into optimising a planner that does little (median batch 350 -> 230 ms).
        "spark.driver.extraJavaOptions": java_options(use_flags()),
        "spark.driver.extraClassPath": class_path,
        "spark.executor.extraClassPath": class_path,
        # A forking daemon that does not read jar directories again at every task: 60-300 ms each.
        "spark.python.daemon.module": DAEMON,
        # TCP to the workers stalls 40 ms an exchange on delayed acknowledgements.
        "spark.python.unix.domain.socket.enabled": "true",
        # Hadoop's local file system forks `chmod` for each checkpoint file: 45 ms each.
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.shuffle.compress": "false",  # parts are compact already and stay on the machine
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.ui.retainedExecutions": "1",
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.locality.wait": "0",
    }
