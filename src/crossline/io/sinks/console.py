"""The console sink: one line per alert."""

from __future__ import annotations

import errno
import io
import select
import sys
import threading
from collections.abc import Mapping
from typing import Any, Self, TextIO

from rich.console import Console
from rich.text import Text

from crossline.basics.errors import SinkError
from crossline.basics.texts.plaintext import printable
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.io.sinks.base import LOOK_S, Delivery, for_delivery
from crossline.logs import get_logger
from crossline.settings import sinks as config_sinks

log = get_logger(__name__)

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EAGAIN}
_PIECE = select.PIPE_BUF // 4  # characters, of up to four bytes: a pipe with any room takes them without waiting
SEVERITY_STYLE = {"info": "dim", "low": "cyan", "medium": "yellow", "high": "red", "critical": "bold white on red"}


class ConsoleSink:
    """Prints one line an alert: time, severity, rule and version, sentence, record. Coloured on a terminal.

    ``stream``: the standard output where None. ``limit``: the most lines per batch; the rest is counted.

    Guarantee: each alert once in the life of the process; a batch that a kill interrupted is printed again by the next.
    A screen that went away (a closed pipe or terminal) ends the printing, not the pipeline; one that cannot take a line
    now (a file on a full disk, a pipe whose reader stands still) holds the batch, but no stop. What its encoding does
    not have is written as escapes.
    """

    def __init__(self, stream: TextIO | None = None, limit: int = 50) -> None:
        self._stream = stream
        self._limit = limit
        self._last: int | None = None
        self._printing: int | None = None
        self._printed = 0
        self._encoding = "utf-8"
        self._screen: TextIO | None = None
        self._console = Console(file=io.StringIO())
        self._stop = threading.Event()

    @classmethod
    def from_settings(cls, settings: config_sinks.ConsoleSettings, pipeline: str) -> Self:  # noqa: ARG003 - the protocol's
        """The screen, on the standard output."""
        return cls()

    def open(self) -> None:
        """Look at what kind of screen it is."""
        stream = self._stream or sys.stdout
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._screen = stream
        colours: Any = Console(file=stream).color_system
        # rich only renders the line: it would block without end on a pipe without a reader.
        self._console = Console(file=io.StringIO(), color_system=colours, soft_wrap=True, highlight=False, emoji=False)

    def use_cancel_token(self, stop: threading.Event) -> None:
        """Wait for a reader no longer once ``stop`` is set."""
        self._stop = stop

    def deliver(self, delivery: Delivery) -> None:
        """Print the alerts of a batch not printed yet; raises SinkError where the screen takes no line now."""
        if self._screen is None or (self._last is not None and delivery.batch_id <= self._last):
            return
        if self._printing != delivery.batch_id:
            self._printing, self._printed = delivery.batch_id, 0
        alerts = for_delivery(delivery)
        lines = [_with_record(alert) for alert in alerts[: self._limit]]
        if len(alerts) > self._limit:
            lines.append(Text(f"… and {len(alerts) - self._limit:,} more alerts in this batch", "dim"))
        for line in lines[self._printed :]:
            if self._screen is None:
                return
            self._print(self._screen, line)
            self._printed += 1
        self._last = delivery.batch_id

    def _print(self, screen: TextIO, line: Text) -> None:
        fitting = line.plain.encode(self._encoding, "backslashreplace").decode(self._encoding)
        if fitting != line.plain:
            line.plain = fitting
        with self._console.capture() as captured:
            self._console.print(line)
        text = captured.get()
        try:
            for start in range(0, len(text), _PIECE):
                self._await_room(screen)
                screen.write(text[start : start + _PIECE])
                screen.flush()
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in _NO_ROOM:
                raise SinkError(f"the screen cannot be written to now: {error}") from error
            # Nobody looks any more: the stream is closed, or the terminal is gone.
            self._screen = None
            if not isinstance(error, BrokenPipeError):
                log.warning("the screen went away, alerts are no longer printed", error=str(error))

    def _await_room(self, screen: TextIO) -> None:
        """Wait while a write would, in pieces that a stop can come between."""
        try:
            descriptor = screen.fileno()
        except (OSError, ValueError):
            return  # no file, or a closed one: the write raises
        room = select.poll()
        room.register(descriptor, select.POLLOUT)
        while not room.poll(LOOK_S * 1000):
            if self._stop.is_set():
                raise SinkError("the screen cannot be written to now: who reads it stands still")

    def close(self) -> None:
        """Nothing is held; the stream is not ours to close."""
        self._screen = None


def _with_record(alert: Mapping[str, Any]) -> Text:
    """``alert`` in one line, with the record that it carries, if it does."""
    line = alert_line(alert)
    if "record" not in alert:
        return line
    return Text.assemble(line, "  ", (printable(json_bytes(alert["record"]).decode()), "dim"))


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
