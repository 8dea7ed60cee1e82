"""Logs of the command line: structured lines on stderr, so that stdout holds results alone."""

from __future__ import annotations

import logging
import sys

import structlog


def configure() -> None:
    """Readable lines on a terminal, one JSON value a line elsewhere."""
    # It prints what our own code raises into Spark, whole; that is told as an error once the query has ended.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
