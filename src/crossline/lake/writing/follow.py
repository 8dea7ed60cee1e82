"""Runs the lake writer until it is stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from crossline.basics.errors import CrosslineError, RetryableError
from crossline.lake.state.schedule import StateSchedule
from crossline.lake.writing.writer import LakeWriter, Written
from crossline.logs import get_logger

PAUSE_S, PAUSE_S_MAX = 0.5, 30.0
LAST_S_MAX = 60.0  # after the stop

Opened = TypeVar("Opened")

log = get_logger(__name__)


def until_opened(open_once: Callable[[], Opened], stop: threading.Event, pause_s: float = PAUSE_S) -> Opened | None:
    """What ``open_once`` gives, tried until the catalog answers; None: ``stop`` was set before that.

    Args:
        open_once: Opens the lake; a failed call leaves nothing open.
        stop: Ends the attempts.
        pause_s: The pause before the second attempt, in seconds; later ones are longer.

    Raises:
        PermanentError: A further attempt does not help.
    """
    while not stop.is_set():
        try:
            return open_once()
        except RetryableError as error:
            log.warning("the lake cannot be opened; trying again", error=str(error).partition("\n")[0])
            stop.wait(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
    return None


@dataclass(frozen=True, slots=True)
class Follower:
    """Writes what is committed every ``every_s`` seconds.

    Attributes:
        writer: Writes one slice of batches.
        every_s: Seconds between the starts of two rounds.
        on_written: Called after each slice.
        check: Called before each round: warns where the writer is far behind.
        maintain: Maintains the tables.
        maintain_every_s: Seconds between two calls of it.
        state: Takes snapshots of the pipeline's state; None: none are taken.
    """

    writer: LakeWriter
    every_s: float
    on_written: Callable[[Written], None] = lambda _: None
    check: Callable[[], None] = lambda: None
    maintain: Callable[[], None] = lambda: None
    maintain_every_s: float = 3_600.0
    state: StateSchedule | None = None

    def run(self, stop: threading.Event) -> None:
        """Follow until ``stop`` is set; then write what is committed by then, within a minute.

        Raises:
            CrosslineError: What a further attempt does not help against.
        """
        maintained_s = time.monotonic()
        while not stop.is_set():
            began_s = time.monotonic()
            self.check()
            self._round_with_state(stop, began_s + PAUSE_S_MAX)
            if time.monotonic() - maintained_s >= self.maintain_every_s and not stop.is_set():
                maintained_s = time.monotonic()
                self._maintained()
            stop.wait(max(0.0, began_s + self.every_s - time.monotonic()))
        self._round(threading.Event(), time.monotonic() + LAST_S_MAX)

    def catch_up(self, stop: threading.Event) -> None:
        """Write what is committed, and return."""
        self._round_with_state(stop, None)

    def _maintained(self) -> None:
        try:
            self.maintain()
        except Exception as error:  # noqa: BLE001 - whatever it is, the writer goes on
            log.warning("the lake cannot be maintained; trying again later", error=str(error).partition("\n")[0])

    def _round_with_state(self, stop: threading.Event, failing_until_s: float | None) -> None:
        """A round that ends with the batch of a snapshot of the state, if one is due; then the snapshot."""
        pinned = None if self.state is None or stop.is_set() else self.state.pin()
        if self.state is None or pinned is None:
            self._round(stop, failing_until_s)
            return
        try:
            self._round(stop, failing_until_s, pinned.copy.batch)
            self.state.put(pinned, stop)
        finally:
            pinned.release()

    def _round(self, stop: threading.Event, failing_until_s: float | None, upto: int | None = None) -> None:
        """Write what is committed now, slice by slice; retry failures until ``failing_until_s`` (None: for ever).

        Batches that come meanwhile wait for the next round: each commit writes a file a day and table. So do batches
        behind ``upto``, where it is given.
        """
        pause_s = PAUSE_S
        while not stop.is_set():
            try:
                if upto is None:
                    upto = max(self.writer.pending(), default=-1)
                written = self.writer.write_next(upto)
                if written is None:
                    self.writer.write_side_logs()
            except Exception as error:
                if isinstance(error, CrosslineError) and not isinstance(error, RetryableError):
                    raise
                log.warning("the lake cannot be written; trying again", error=str(error).partition("\n")[0])
                if failing_until_s is not None and time.monotonic() > failing_until_s:
                    return
                stop.wait(pause_s)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
            else:
                if written is None:
                    return
                pause_s = PAUSE_S
                self.on_written(written)
