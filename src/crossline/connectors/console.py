"""Alerts as sentences on the screen."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Self, TextIO

from rich.console import Console
from rich.text import Text

from crossline.connectors.base import Delivery, for_delivery
from crossline.core import config_sinks
from crossline.core.errors import SinkError
from crossline.core.plaintext import printable

SEVERITY_STYLE = {"info": "dim", "low": "cyan", "medium": "yellow", "high": "red", "critical": "bold white on red"}


class _Screen(Console):
    """A console whose closed pipe ends the printing; rich would end the process."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


class ConsoleSink:
    """Prints one line an alert: time, severity, rule and version, sentence, record. Coloured on a terminal.

    ``stream``: the standard output where None. ``limit``: the most lines per batch; the rest is counted.

    Guarantee: each alert once in the life of the process; a batch that a kill interrupted is printed again by the next.
    A batch that was held half way is printed from its start. A screen that went away (a closed pipe) ends the printing,
    not the pipeline.
    """

    def __init__(self, stream: TextIO | None = None, limit: int = 50) -> None:
        self._stream = stream
        self._limit = limit
        self._last: int | None = None
        self._console: _Screen | None = None

    @classmethod
    def from_settings(cls, settings: config_sinks.ConsoleSink, pipeline: str) -> Self:  # noqa: ARG003 - the protocol's
        """The screen, on the standard output."""
        return cls()

    def open(self) -> None:
        """Look at what kind of screen it is."""
        self._console = _Screen(file=self._stream or sys.stdout, soft_wrap=True, highlight=False, emoji=False)

    def deliver(self, delivery: Delivery) -> None:
        """Print the alerts of a batch not printed yet; raises SinkError where the output takes nothing now."""
        if self._console is None or (self._last is not None and delivery.batch_id <= self._last):
            return
        alerts = for_delivery(delivery)
        try:
            for alert in alerts[: self._limit]:
                self._console.print(alert_line(alert))
            if len(alerts) > self._limit:
                self._console.print(f"… and {len(alerts) - self._limit:,} more alerts in this batch", style="dim")
        except OSError as error:
            # The output may be a file on a full disk. What rich holds back would come out twice.
            self.open()
            raise SinkError(f"the screen cannot be written now: {error.strerror or error}") from error
        self._last = delivery.batch_id

    def close(self) -> None:
        """Nothing is held; the stream is not ours to close."""
        self._console = None


def alert_line(alert: Mapping[str, Any]) -> Text:
    """``alert`` in one line."""
    severity = str(alert["severity"])
    return Text.assemble(
        (printable(str(alert["event_time"])), "dim"),
        "  ",
        (f"{severity:<8}", SEVERITY_STYLE.get(severity, "")),
        "  ",
        (f"{alert['rule_id']}@{alert['rule_version']}", "bold"),
        f"  {printable(str(alert['message']))}  ",
        (f"[{printable(str(alert['record_id']))}]", "dim"),
    )
