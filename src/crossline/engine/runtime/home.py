"""A Spark home without Python's zips, for sessions on this machine.

Spark puts ``python/lib/pyspark.zip`` first on the path of every Python process that it starts, and Python compiles what
it imports from a zip anew each time: a second for each of the four processes that plan and read a source. Without the
zips they import the installed PySpark, which is the same and compiled.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

import pyspark

from crossline.engine.runtime.places import cache_dir

_PARTS = ("bin", "sbin", "jars")


def spark_home() -> Path:
    """The folder, made where it is missing: links to the installed Spark's own."""
    installed = Path(pyspark.__file__).parent
    home = cache_dir() / "spark-home" / hashlib.sha256(str(installed).encode()).hexdigest()[:16]
    home.mkdir(parents=True, exist_ok=True)
    for part in _PARTS:
        link = home / part
        if not link.is_symlink() and (installed / part).exists():
            with suppress(FileExistsError):  # another process was quicker
                link.symlink_to(installed / part)
    return home
