"""crossline: real-time pattern and fraud detection on Apache Spark.

The Python library: ``detect`` and ``figures`` over tables, dicts and Spark frames, ``Detector`` for a loop of one's
own, ``load_rules`` and ``load_streams``. All of it is loaded on first use, so that importing the package does not start
what a command may not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crossline.api.declarations import Stream, load_rules, load_streams
    from crossline.api.detection import detect, figures
    from crossline.api.detector import Detector, Processed
    from crossline.api.results import DECISION_SCHEMA, Alerts, Decisions, Figures
    from crossline.basics.errors import CrosslineError, StateError, UsageError
    from crossline.basics.texts.problems import RefusedError
    from crossline.evaluate.alerts.alert import ALERT_SCHEMA
    from crossline.rules.base import Defaults
    from crossline.rules.ruleset import RuleSet

    __version__: str

__all__ = [
    "ALERT_SCHEMA",
    "DECISION_SCHEMA",
    "Alerts",
    "CrosslineError",
    "Decisions",
    "Defaults",
    "Detector",
    "Figures",
    "Processed",
    "RefusedError",
    "RuleSet",
    "StateError",
    "Stream",
    "UsageError",
    "__version__",
    "detect",
    "figures",
    "load_rules",
    "load_streams",
]

_PLACES = {
    "ALERT_SCHEMA": "evaluate.alerts.alert",
    "CrosslineError": "basics.errors",
    "DECISION_SCHEMA": "api.results",
    "Alerts": "api.results",
    "Decisions": "api.results",
    "Defaults": "rules.base",
    "Detector": "api.detector",
    "Figures": "api.results",
    "Processed": "api.detector",
    "RefusedError": "basics.texts.problems",
    "RuleSet": "rules.ruleset",
    "StateError": "basics.errors",
    "Stream": "api.declarations",
    "UsageError": "basics.errors",
    "detect": "api.detection",
    "figures": "api.detection",
    "load_rules": "api.declarations",
    "load_streams": "api.declarations",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for, once."""
    found: Any
    if name == "__version__":
        found = import_module("crossline.api.version").version()
    elif name in _PLACES:
        found = getattr(import_module(f"crossline.{_PLACES[name]}"), name)
    else:
        raise AttributeError(f"module 'crossline' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
