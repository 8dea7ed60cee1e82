"""The one tree of errors. A user meets the text: what was found, where, what was expected, what to do."""

from __future__ import annotations


class CrosslineError(Exception):
    """Root of all errors of crossline. ``exit_code`` is what the command line returns for it."""

    exit_code = 1


class PermanentError(CrosslineError):
    """Trying again will not help: the input, the configuration or the use is wrong."""


class RetryableError(CrosslineError):
    """The same call may succeed later. ``retry_after_ms`` is a hint, None where there is none."""

    def __init__(self, message: str, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class UsageError(PermanentError):
    """The command or call was used wrongly."""

    exit_code = 2


class StateError(PermanentError):
    """State on disk is missing, damaged, or of a format that this version does not read."""


class StoppedError(CrosslineError):
    """The work was stopped before its end; the next run goes on from there."""


class SourceError(RetryableError):
    """A source cannot be read now."""


class SinkError(RetryableError):
    """A sink cannot take the batch now; the batch is held and tried again."""
