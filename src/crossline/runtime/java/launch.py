"""Java, and the process that Spark's Python is forked from: started first, beside all that is loaded meanwhile.

Nothing here imports PySpark or Arrow, so that both are under way a fraction of a second after a command began.

A terminal and a supervisor send SIGINT or SIGTERM to every process of a run at once. Java, were it to end at the same
moment as the pipeline that is being stopped, would fail that pipeline in the midst of its stop. So it ignores both; it
ends when the pipe that this process holds ends, which the system sees to, however this process ends.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from crossline.runtime.java.settings import (
    AUTHENTICATE,
    JAR_GROUPS,
    LOOPBACK,
    MODULES_OPENED,
    OWN_STATE_SERVERS,
    SOCKET_VARIABLE,
    base_settings,
)
from crossline.runtime.machine.jars import ensure_jars
from crossline.runtime.machine.java import find_java, without_incubators
from crossline.runtime.machine.spark_home import spark_home, worker_python
from crossline.runtime.machine.spark_installation import spark_folder
from crossline.runtime.machine.temporary_folders import OwnFolder, own_folder, sweep

END_S = 20.0  # Java takes half a second to end; more where a batch is under way
# What ignores a signal when it starts another program hands that on; Java leaves ignored signals alone.
_DEAF = 'trap "" INT TERM; exec "$@"'
# Each of these changes how Java is started: where one is set, Spark's scripts start it.
_OVERRIDES = (
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_SUBMIT_OPTS",
    "SPARK_DIST_CLASSPATH",
    "SPARK_DRIVER_MEMORY",
)
_SIGNALS = {signal.SIGINT, signal.SIGTERM}
_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"


@dataclass(frozen=True, slots=True)
class RunningJava:
    """A Java that was started here. ``connection_file``: with its port and secret. ``zygote`` None: there is none."""

    process: subprocess.Popen[bytes]
    folder: OwnFolder
    connection_file: Path
    zygote: subprocess.Popen[bytes] | None


_started: list[RunningJava] = []


def started() -> RunningJava | None:
    """The Java of this process; None where there is none, or where other code started it."""
    return _started[0] if _started else None


def session_folder() -> Path | None:
    """The temporary folder of the Java that was started here; None as in ``started``."""
    return _started[0].folder.path if _started else None


def is_on_this_machine(master: str | None) -> bool:
    """Whether all of Spark runs on this machine."""
    return master is None or re.match(r"local\b|spark://(127\.|localhost\b)", master) is not None


def is_one_process(master: str | None) -> bool:
    """Whether driver and tasks are one Java, which the workers of this machine are for."""
    return master is None or re.fullmatch(r"local(\[.*\])?", master) is not None


def is_started_here(master: str | None) -> bool:
    """Whether this process starts every process of Spark."""
    return is_one_process(master) or (master is not None and master.startswith("local-cluster["))


def prepare(environment: MutableMapping[str, str], *, here: bool, python: str | None = None) -> None:
    """What Spark and PySpark look for in the environment; values that are set stay. ``python``: of executors."""
    environment["PYSPARK_PYTHON"] = python or (str(worker_python()) if here else sys.executable)
    environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if here:
        environment.setdefault("SPARK_HOME", str(spark_home()))
    environment["JAVA_HOME"] = str(without_incubators(find_java()))


def found_jars() -> list[Path]:
    """The jars that every session has, fetched where missing."""
    return [jar for group in JAR_GROUPS for jar in ensure_jars(group)]


def launch_ahead(master: str | None) -> RunningJava | None:
    """Start for a session on ``master`` before anything is known of it but that.

    None where that is elsewhere, or where this process has a Java already.
    """
    if not is_one_process(master) or started() is not None:
        return None
    prepare(os.environ, here=True)
    return launch({**base_settings(found_jars()), **LOOPBACK, **AUTHENTICATE})


def launch(settings: Mapping[str, str]) -> RunningJava:
    """Start Java for ``settings``, or return the one that this process started before."""
    known = started()
    if known is not None:
        return known
    sweep()
    folder = own_folder()
    text = folder.path / "gateway"
    environment = {
        **os.environ,
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(text),
        "TMPDIR": str(folder.path),  # of Python's workers
    }
    zygote, master = None, settings.get("spark.master")
    if is_started_here(master):
        environment[SOCKET_VARIABLE] = str(folder.path / "zygote")
        zygote = _zygote(environment, folder.lock, places=is_one_process(master))
    process = _java(_with_folder(settings, folder.path), environment, folder.lock)
    made = RunningJava(process, folder, text, zygote)
    _started.append(made)
    atexit.register(_at_exit, os.getpid())
    return made


def zygote_of(java: RunningJava) -> Path | None:
    """The socket of its zygote, which is started where it has none; None where it has ended."""
    path = java.folder.path / "zygote"
    known = started() or java
    if known.zygote is None:
        known = replace(
            known, zygote=_zygote({**os.environ, SOCKET_VARIABLE: str(path)}, known.folder.lock, places=False)
        )
        _started[:] = [known]
    return path if known.zygote is not None and known.zygote.poll() is None else None


def end(made: RunningJava, wait_s: float = END_S) -> None:
    """Have Java end, wait for it, and remove its folder; one that does not end in time keeps it, for the next sweep."""
    process = made.process
    if process.stdin is None or process.stdin.closed:
        return
    for each in (process, made.zygote):
        if each is not None and each.stdin is not None:
            with suppress(OSError):
                each.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(wait_s)
        if made.zygote is not None:
            made.zygote.wait(wait_s)
        made.folder.remove()


def kill_java(made: RunningJava) -> None:
    """End at once what no session was made with."""
    made.process.kill()
    if made.zygote is not None:
        made.zygote.kill()


def _at_exit(owner: int) -> None:
    made = started()
    if made is not None and os.getpid() == owner:  # not in a process that was forked from it
        end(made)


def _with_folder(settings: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Spark's settings with its temporary files in ``folder``, unless they are set otherwise."""
    temp = shlex.quote(f"-Djava.io.tmpdir={folder}")
    options = f"{settings.get(_DRIVER_OPTIONS, '')} {temp}".strip()
    return {"spark.local.dir": str(folder), **settings, _DRIVER_OPTIONS: options}


def _java(settings: Mapping[str, str], environment: Mapping[str, str], lock: int) -> subprocess.Popen[bytes]:
    # A group of its own: a terminal's keys do not reach it, nor what is sent to the group of this process. It inherits
    # the lock of the folder, which is swept once Java is gone too.
    return _deaf(["/bin/sh", "-c", _DEAF, "sh", *_command(settings, environment)], environment, lock)


def _zygote(environment: Mapping[str, str], lock: int, *, places: bool) -> subprocess.Popen[bytes]:
    """The process that Spark's Python is forked from; its hashes are those of the workers that Spark starts itself.

    ``places``: the state servers are those of the zygote. Where there are several executors each has its own, which end
    with it, as on a cluster.
    """
    more = [] if places else [OWN_STATE_SERVERS]
    command = [sys.executable, "-m", "crossline.runtime.workers.zygote", environment[SOCKET_VARIABLE], *more]
    return _deaf(command, {**environment, "PYTHONHASHSEED": "0"}, lock)


def _deaf(command: list[str], environment: Mapping[str, str], lock: int) -> subprocess.Popen[bytes]:
    """Start ``command`` out of reach of SIGINT and SIGTERM; it has the lock, and ends with this process's pipe to it.

    The signals are blocked from the first instant, before a shell comes to its trap; so they are in all that Java
    starts, since Java leaves that as it is.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, process_group=0, pass_fds=(lock,))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _command(settings: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    """How Java is started.

    Spark's scripts ask one Java for the command of another, which takes half a second, and add modules that Java warns
    of. Where none of ``_OVERRIDES`` is set, the command is known.
    """
    given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    more = shlex.split(environment.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    home = Path(environment["SPARK_HOME"]) if "SPARK_HOME" in environment else None
    master = settings.get("spark.master")
    if home != spark_home() or any(environment.get(name) for name in _OVERRIDES) or not is_one_process(master):
        # Masters elsewhere hand PySpark's zips to their executors, as YARN does.
        home = home or (spark_home() if is_on_this_machine(master) else spark_folder())
        return [str(home / "bin" / "spark-submit"), *given, *more]
    # As Spark's scripts have it, and its executors: the archive of classes fits all of them, or none.
    first = [str(jar) for jar in (home / "jars").glob("slf4j-api-*")]
    class_path = os.pathsep.join([settings["spark.driver.extraClassPath"], f"{home}/conf", *first, f"{home}/jars/*"])
    options = [f"-Xmx{settings['spark.driver.memory']}", *shlex.split(settings[_DRIVER_OPTIONS]), *MODULES_OPENED]
    java = str(find_java().binary)
    return [java, "-cp", class_path, *options, "org.apache.spark.deploy.SparkSubmit", *given, *more]
