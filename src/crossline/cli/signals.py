"""SIGINT and SIGTERM during a command with Spark: it stops in order, prints one line, and exits."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import typer

from crossline.basics.errors import CrosslineError, StoppedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from crossline.settings.process.engine import EngineSettings

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# One wish may come as several signals: to the process, and to its group. A later one is a person who will not wait.
ONE_WISH_S = 2.0
# A start is many calls to Java, some of them long. Nothing is lost with one that is cut off.
START_S_MAX = 3.0
# The main thread handles a signal within milliseconds, but not during a call that takes a minute.
HEARS_S = 0.5


class Stoppable(Protocol):
    """A pipeline, or what is stopped like one."""

    @property
    def running(self) -> bool:
        """Whether it has come to judge."""
        ...

    def stop(self) -> None:
        """Stop; from any thread, again and again."""
        ...


class Stopping:
    """Handles the signals. ``signal`` is the first that came; ``stops`` registers what it stops."""

    def __init__(self, *, endless: bool) -> None:
        self.signal: signal.Signals | None = None
        self.ended = threading.Event()
        self._endless = endless
        self._unreported = threading.Semaphore()
        self._untaken = threading.Semaphore()
        self._first_s = math.inf
        self._met = threading.Event()  # the main thread saw a signal
        self._late = False  # it has yet to hear of one that was acted on
        self._listening: tuple[threading.Thread, int, int] | None = None
        self._pipeline: Stoppable | None = None

    @property
    def code(self) -> int:
        """With which code a process that was stopped ends."""
        return 0 if self._endless or self.signal is None else 128 + self.signal

    def notify(self) -> None:
        """Say that a signal came; once, whether the command comes to its end or is cut off at the same moment."""
        if self.signal is not None and self._unreported.acquire(blocking=False):
            sys.stderr.write(f"stopped by {self.signal.name}\n")

    def check(self) -> None:
        """Raise StoppedError if a signal was received."""
        if self.signal is not None:
            raise StoppedError("stopped")

    def stops(self, pipeline: Stoppable) -> None:
        """From now on a signal stops ``pipeline``; raises StoppedError where one came already."""
        self._pipeline = pipeline
        self.trust_main_thread()  # what judges is forked of a process with one thread
        self.check()

    def __call__(self, number: int, _: Any) -> None:
        """A signal came, to the main thread."""
        self._met.set()
        if self._untaken.acquire(blocking=False):
            self._begin(number)
        elif self._late:
            self._late = False
        elif time.monotonic() - self._first_s > ONE_WISH_S:
            os._exit(128 + number)

    def listen(self) -> None:
        """Act in the place of the main thread, where that is in a call that hears of no signal, as compiling is."""
        reads, writes = os.pipe()
        os.set_blocking(writes, False)
        before = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
        thread = threading.Thread(target=self._listen, args=(reads,), name="signals", daemon=True)
        self._listening = thread, writes, before
        thread.start()

    def trust_main_thread(self) -> None:
        """What follows comes back to Python again and again: no more need to ``listen``, nor a thread that does."""
        if self._listening is not None and threading.current_thread() is threading.main_thread():
            (thread, writes, before), self._listening = self._listening, None
            signal.set_wakeup_fd(before)
            os.close(writes)
            thread.join()

    def _listen(self, signals: int) -> None:
        while came := os.read(signals, 1):
            number = came[0]
            if number not in SIGNALS or self._met.wait(HEARS_S):
                continue
            if self._untaken.acquire(blocking=False):
                self._late = True
                self._begin(number)
            elif time.monotonic() - self._first_s > ONE_WISH_S:
                os._exit(128 + number)
        os.close(signals)

    def _begin(self, number: int) -> None:
        self._first_s, self.signal = time.monotonic(), signal.Signals(number)
        # Not here: this thread is in the midst of a call to Spark, whose connection takes one call at a time.
        threading.Thread(target=self._stop, name="stop", daemon=True).start()
        threading.Thread(target=self._cut_off, name="cut-off", daemon=True).start()

    def _stop(self) -> None:
        if self._pipeline is not None:
            with suppress(CrosslineError):  # reported to the caller of the pipeline
                self._pipeline.stop()

    def _cut_off(self) -> None:
        """End a start that does not come to its end."""
        if self.ended.wait(START_S_MAX) or (self._pipeline is not None and self._pipeline.running):
            return
        self.notify()
        sys.stderr.flush()
        os._exit(self.code)  # Java ends as after a kill; the next run removes its folder


@contextmanager
def stoppable(*, endless: bool = False) -> Iterator[Stopping]:
    """Signals end what is done in here, with one line on the standard error and exit code 128 + the signal's number.

    ``endless``: the work has no end of its own, so that being stopped is how it ends well. Then a signal's code is 0.
    """
    stopping = Stopping(endless=endless)
    before = {number: signal.signal(number, stopping) for number in SIGNALS}
    stopping.listen()
    try:
        yield stopping
    except StoppedError:
        if stopping.signal is None:
            raise
    finally:
        stopping.ended.set()
        stopping.trust_main_thread()
        for number, handler in before.items():
            signal.signal(number, handler)
    stopping.notify()
    if stopping.code:
        raise typer.Exit(stopping.code)


class Runner(StrEnum):
    """What judges files of the past: processes of this machine, or Spark for as long as it takes."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


@contextmanager
def session_of(name: str, stopping: Stopping, engine: EngineSettings | None = None) -> Iterator[SparkSession]:
    """A session that ends with the context.

    Args:
        name: The application's name.
        stopping: Raises StoppedError if a signal was received while the session started.
        engine: The master, the settings of Spark and the Python of executors; by default those of this machine.
    """
    from crossline.runtime.spark.session import build_session
    from crossline.runtime.spark_internals.gateway import end_session

    if engine is None:
        spark = build_session(name)
    else:
        spark = build_session(name, engine.master, settings=engine.spark, python=engine.python)
    try:
        stopping.check()
        yield spark
    finally:
        end_session(spark)
