"""Logs of the command line: structured lines on stderr, so that stdout holds results alone."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import Any

from crossline.basics.texts.plaintext import printable
from crossline.logs import configure_with, with_ids


class _Lines:
    """Writes lines to stderr. One that cannot be written is lost: what is logged goes on without its log."""

    def msg(self, message: str) -> None:
        with suppress(OSError):
            sys.stderr.write(f"{message}\n")
            sys.stderr.flush()

    debug = info = warning = warn = error = critical = fatal = exception = msg


class LogFormat(StrEnum):
    """How lines of the log are written; ``auto``: to read on a terminal, as JSON elsewhere."""

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"


def configure(form: LogFormat = LogFormat.AUTO) -> None:
    """Readable lines, or one JSON value a line."""
    # It prints whole what our own code raises into Spark; the error is reported once the query has ended.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    configure_with(partial(_configure, form))


def _configure(form: LogFormat) -> None:
    import structlog

    on_terminal = sys.stderr.isatty()
    to_read = form == LogFormat.TEXT or (form == LogFormat.AUTO and on_terminal)
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(colors=on_terminal) if to_read else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            with_ids,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([_printable] if to_read else []),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=lambda *_: _Lines(),
    )


def _printable(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape control characters: content of records and files must not control the terminal."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = printable(value)
    return event
