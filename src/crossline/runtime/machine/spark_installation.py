"""Where the installed Spark is, and which: without importing it, which takes half a second."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path

from crossline.basics.errors import PermanentError


@cache
def spark_folder() -> Path:
    """The folder of the package ``pyspark``. Raises PermanentError where it is not installed."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise PermanentError("pyspark is not installed in this Python: `make setup`, or pip install 'crossline[spark]'")
    return Path(spec.origin).parent


@cache
def spark_version() -> str:
    """The version that the package declares."""
    text = (spark_folder() / "version.py").read_text(encoding="utf-8")
    found = re.search(r"__version__[^=]*= *[\"']([^\"']+)", text)
    return found.group(1) if found else "unknown"
