"""Where the alerts of a replay go."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from crossline.connectors.base import Delivery
from crossline.core.alerts.alertjson import json_bytes
from crossline.core.basics.errors import UsageError


class AlertWriter:
    """A sink that writes every alert, shadow ones too, as a JSON line to a file of its own.

    It is for one run: there are no restarts, and nothing is promised over them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def from_settings(cls, settings: Any, pipeline: str) -> Self:  # noqa: ARG003 - the protocol's
        """Not for pipeline files."""
        raise UsageError("the backtest's writer is not a sink for pipelines; use jsonl")

    def open(self) -> None:
        """Start an empty file."""
        self._file = self._path.open("wb")

    def deliver(self, delivery: Delivery) -> None:
        """Append."""
        for alert in delivery.alerts:
            self._file.write(json_bytes(alert) + b"\n")

    def close(self) -> None:
        """Flush and close; safe to call twice."""
        self._file.close()
