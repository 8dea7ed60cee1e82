"""Spark's settings as crossline needs them, each with the measurement or failure behind it. Quick to import."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from crossline.runtime.machine.class_archive import use_flags
from crossline.runtime.machine.umask import umask

DAEMON = "crossline.runtime.workers.daemon"
# Where ``attach`` finds the process that Spark's Python is forked from.
SOCKET_VARIABLE = "CROSSLINE_ZYGOTE"
# Its argument where each daemon that is forked from it has state servers of its own.
OWN_STATE_SERVERS = "--own-state-servers"
FEW_CORES = 4
# All of them always: the archive of Java's classes fits one class path.
JAR_GROUPS = ("local-fs", "spark-kafka")
# Without both, Spark binds to whatever the host name resolves to, where anybody who gets there may run code.
LOOPBACK: Mapping[str, str] = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# Where driver and executors are started by us alone, all that Spark listens at asks for a secret, which Spark draws as
# it starts (on ``local[…]``) or gets from us (``local-cluster``), and is encrypted. On ``local[…]`` no executor
# connects.
AUTHENTICATE: Mapping[str, str] = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
SECRET = "spark.authenticate.secret"  # noqa: S105 - the name of a setting
LOGGING = Path(__file__).with_name("log4j2.properties")
# Of Java's own packages that ``leftovers`` looks into.
OPEN_PACKAGES = "--add-opens=java.base/java.nio.channels.spi=ALL-UNNAMED"
# What Spark needs of Java's own, as its scripts say it (JavaModuleOptions of Spark 4.1), but for incubator modules.
_OPENED = (
    *("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util", "util.concurrent", "util.concurrent.atomic"),
)
_OPENED_INSIDE = ("jdk.internal.ref", "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar")
MODULES_OPENED = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED),
    *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED_INSIDE),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--enable-native-access=ALL-UNNAMED",
)

# Of sessions of ours; one that ``crossline.detect`` is handed keeps its own, and is slower with those of Spark.
RUNTIME_SETTINGS: Mapping[str, str] = {
    # A chunk of records travels as one Arrow batch; the default of 10,000 rows costs a round trip each.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    # Shards are tasks; merging or splitting them would break "one task per shard".
    "spark.sql.adaptive.enabled": "false",
}

# Where tasks may run elsewhere. A task waits so long for the executor of its shards (``shard_placement``): as a batch
# should take; elsewhere they would be read first, and whole. No other place that Spark would prefer is worth a wait.
SHARD_PLACEMENT: Mapping[str, str] = {
    "spark.locality.wait.process": "5s",
    "spark.shuffle.reduceLocality.enabled": "false",
}
# On machines that we know nothing of. A container of YARN has its temporary folder below others with long names, and
# the address of a socket has 107 bytes at most: no worker would start. Sockets have random names.
ELSEWHERE: Mapping[str, str] = {"spark.python.unix.domain.socket.dir": "/tmp"}  # noqa: S108 - as above


def few_cores() -> bool:
    """Whether what Java does beside its tasks takes a part of their processors that counts."""
    return (os.cpu_count() or 1) <= FEW_CORES


def java_options(archive: str, *, executor: bool = False) -> str:
    """Options of Java: the driver's, or those of an executor that is a process of this machine.

    ``archive``: those that use or make the archive of its classes. On few cores a collector of one thread: what lives
    is small, and the others' threads take the tasks' cores. R5 on two cores: 3.0 us of Java's processor time a record
    instead of 3.8. An executor has the quick compiler alone on few cores only: one that starts in place of one that was
    lost does so beside the batch that takes over.
    """
    few = few_cores()
    quick = ["-XX:TieredStopAtLevel=1"] if few or not executor else []
    collector = ["-XX:+UseSerialGC"] if few else []
    # Spark looks into what stopped a query with an expression that takes some frames for each character of the text:
    # with the usual megabyte a stop in the midst of a batch could end in an overflow.
    driver = [] if executor else [f"-Dlog4j2.configurationFile={LOGGING.as_uri()}", "-Xss8m", OPEN_PACKAGES]
    return " ".join([*driver, *quick, *collector, *filter(None, [archive])])


def executors_here() -> Mapping[str, str]:
    """Settings of executors that are processes of this machine."""
    options = java_options(use_flags(), executor=True)
    return {"spark.executor.extraJavaOptions": options} if options else {}


def base_settings(jars: Sequence[Path]) -> dict[str, str]:
    """What every session starts with; ``jars``: those of ``JAR_GROUPS``."""
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
        # It has an idea of its own of the rights of files, whatever the process is reported.
        "spark.hadoop.fs.permissions.umask-mode": f"{umask():03o}",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.shuffle.compress": "false",  # parts are compact already and stay on the machine
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.ui.retainedExecutions": "1",
        # Spark describes the plan of each batch for its pages; so with the fewest words.
        "spark.sql.ui.explainMode": "simple",
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.locality.wait": "0",
    }
