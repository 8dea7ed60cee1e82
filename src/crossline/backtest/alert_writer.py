"""The sink of a backtest: alerts and decisions as JSON lines in files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Self

from crossline.basics.errors import UsageError
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.evaluate.alerts.alert_lines import AlertLines
from crossline.io.sinks.decisions import json_lines
from crossline.io.sinks.delivery import Delivery


class AlertWriter:
    """A sink that writes every alert, shadow alerts included, as a JSON line to a file, and decisions to another file.

    It is for one run. A run that goes on after a stop gives ``open`` the bytes of each file that count.
    """

    def __init__(self, path: Path, decisions: Path | None = None) -> None:
        self._path = path
        self._of_decisions = decisions
        self._decisions: BinaryIO | None = None

    @classmethod
    def from_settings(cls, settings: Any, pipeline: str) -> Self:  # noqa: ARG003 - the protocol's
        """Refused: pipeline files cannot name this sink."""
        raise UsageError("the backtest's writer is not a sink for pipelines; use jsonl")

    def open(self, alerts_bytes: int = 0, decisions_bytes: int = 0) -> None:
        """Go on after so many bytes of the files; by default they start empty."""
        self._file = _cut(self._path, alerts_bytes)
        if self._of_decisions is not None:
            self._decisions = _cut(self._of_decisions, decisions_bytes)

    def sizes(self) -> tuple[int, int]:
        """The bytes of both files so far, which are on disk then."""
        found = []
        for file in (self._file, self._decisions):
            if file is not None:
                file.flush()
                os.fsync(file.fileno())
            found.append(0 if file is None else file.tell())
        return found[0], found[1]

    def deliver(self, delivery: Delivery) -> None:
        """Append."""
        alerts = delivery.alerts
        lines = alerts.lines if isinstance(alerts, AlertLines) else list(map(json_bytes, alerts))
        if lines:
            with _named(self._path):
                self._file.write(b"\n".join([*lines, b""]))
        if self._decisions is not None and self._of_decisions is not None:
            with _named(self._of_decisions):
                self._decisions.writelines(line + b"\n" for line in json_lines(delivery.decisions))

    def close(self) -> None:
        """Flush and close; safe to call twice."""
        with _named(self._path):
            self._file.close()
        if self._decisions is not None and self._of_decisions is not None:
            with _named(self._of_decisions):
                self._decisions.close()


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """An error of an open file has the file's name: there may be two of them, and a standard output beside."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def _cut(path: Path, size: int) -> BinaryIO:
    file = path.open("r+b" if size else "wb")
    file.truncate(size)
    file.seek(size)
    return file
