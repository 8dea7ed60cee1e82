"""Loggers whose library is loaded with the first line that is written: most commands write none.

Lines have ids: those of the run (its pipeline), and those of what is being done (the batch).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_configure: list[Callable[[], None]] = []
_of_run: dict[str, Any] = {}
_of_work: ContextVar[Mapping[str, Any] | None] = ContextVar("of_work", default=None)


class Logger:
    """A structlog logger, once something is logged."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        import structlog  # noqa: PLC0415 - takes as long to load as a short command takes

        while _configure:
            _configure.pop()()
        return getattr(structlog.get_logger(self._name), method)


def get_logger(name: str) -> Logger:
    """The logger of a module."""
    return Logger(name)


def configure_helper() -> None:
    """Lines of a process that nobody looks at go to its standard error, for its standard output is not its own."""
    import structlog  # noqa: PLC0415 - as above

    if not structlog.is_configured():
        stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
        structlog.configure(
            [structlog.processors.add_log_level, stamp, structlog.processors.JSONRenderer()],
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )


def configure_with(configure: Callable[[], None]) -> None:
    """Have ``configure`` called before the first line is written; now, where the library is loaded already."""
    if "structlog" in sys.modules:
        configure()
    else:
        _configure[:] = [configure]


def of_run(**ids: Any) -> None:
    """From now on every line of this process has ``ids``."""
    _of_run.update(ids)


@contextmanager
def of_work(**ids: Any) -> Iterator[None]:
    """Lines that are written in here, by this thread or in a copy of its context, have ``ids``."""
    token = _of_work.set({**(_of_work.get() or {}), **ids})
    try:
        yield
    finally:
        _of_work.reset(token)


def with_ids(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor that adds the ids; what a line says itself stands."""
    for name, value in {**_of_run, **(_of_work.get() or {})}.items():
        event.setdefault(name, value)
    return event
