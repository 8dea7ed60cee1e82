"""crossline: real-time pattern and fraud detection on Apache Spark.

``load_rules``, ``load_streams`` and ``detect`` are the Python API; they are loaded on first use, so that importing
the package does not start what a command may not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["ALERT_SCHEMA", "Defaults", "RuleSet", "Stream", "detect", "load_rules", "load_streams"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("crossline.api"), name)
    raise AttributeError(f"module 'crossline' has no attribute {name!r}")
