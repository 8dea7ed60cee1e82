"""A Spark home without Python's zips, for sessions on this machine.

Spark puts ``python/lib/pyspark.zip`` first on the path of every Python process that it starts, and Python compiles what
it imports from a zip anew each time: a second for each of the four processes that plan and read a source. Without the
zips they import the installed PySpark, which is the same and compiled.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path

from crossline.runtime.machine.cache_folder import cache_dir
from crossline.runtime.machine.spark_installation import spark_folder

_PARTS = ("bin", "sbin", "jars")
_PYTHON = """#!/bin/sh
# Python as Spark starts it for workers. Those that plan a source get PySpark's own daemon, whatever the settings say;
# crossline's does the same, and does not tell as an error that Spark let a worker go.
[ "$1 $2" = "-m pyspark.daemon" ] && shift 2 && set -- -m crossline.runtime.workers.daemon "$@"
exec {python} -I -S {attach} {python} "$@"
"""


def spark_home() -> Path:
    """The folder, made where it is missing: links to the installed Spark's own."""
    installed = spark_folder()
    home = cache_dir() / "spark-home" / hashlib.sha256(str(installed).encode()).hexdigest()[:16]
    home.mkdir(parents=True, exist_ok=True)
    for part in _PARTS:
        link = home / part
        if not link.is_symlink() and (installed / part).exists():
            with suppress(FileExistsError):  # another process was quicker
                link.symlink_to(installed / part)
    return home


def worker_python() -> Path:
    """What Spark starts workers with on this machine, made where it is missing: this Python, by way of a script."""
    attach = shlex.quote(str(Path(__file__).with_name("zygote_client.py")))
    text = _PYTHON.format(python=shlex.quote(sys.executable), attach=attach)
    script = spark_home() / f"python-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if not script.exists():
        temporary = script.with_name(f"{script.name}.{os.getpid()}")
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(0o755)
        temporary.replace(script)
    return script
