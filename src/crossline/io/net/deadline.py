"""One deadline for a whole request: name resolution, connect, TLS handshake, send and receive.

The time-out of a library covers a single read. A server that sends a byte now and then never exceeds it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Self, TypeVar

LOOK_S = 0.1  # between two checks of the stop event
STOP_S = 1.0  # that a running call still has after the stop event
T = TypeVar("T")


class NoAnswerError(TimeoutError):
    """The deadline has passed, or the stop event was set, before the answer was complete."""


class Deadline:
    """``seconds`` for an answer, from construction or the last ``begin`` on; at most one second once ``stop`` is set.

    Use it from one thread at a time; ``left_s`` from any.
    """

    def __init__(self, seconds: float, stop: threading.Event | None = None) -> None:
        self.seconds = seconds
        self.stop = stop or threading.Event()
        self._ends_s = 0.0
        self._stopped = False
        self.begin()

    def begin(self) -> None:
        """Start the deadline anew, for another request."""
        self._ends_s = time.monotonic() + self.seconds
        self._stopped = False

    def left_s(self) -> float:
        """Seconds left, 0 at the least."""
        now_s = time.monotonic()
        if self.stop.is_set() and not self._stopped:
            self._stopped = True
            self._ends_s = min(self._ends_s, now_s + STOP_S)
        return max(0.0, self._ends_s - now_s)

    def look_s(self) -> float:
        """Seconds to wait until the next check. Raises NoAnswerError where no time is left."""
        left_s = self.left_s()
        if not left_s:
            raise NoAnswerError(self.reason)
        return min(LOOK_S, left_s)

    @property
    def reason(self) -> str:
        """Why there is no answer."""
        return "stopped before the answer was there" if self._stopped else f"no whole answer in {self.seconds:.3g} s"


def within(deadline: Deadline, call: Callable[[], T], name: str = "asking") -> T:
    """Run ``call`` in a daemon thread and return its result, for calls without a reliable time-out.

    Raises what ``call`` raises, and NoAnswerError at the deadline. The call then goes on in its thread: it must not
    modify anything that another call may modify meanwhile. ``SerialCalls`` runs calls that do.
    """
    answers: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((call(), None))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            answers.put((None, error))

    threading.Thread(target=run, name=name, daemon=True).start()
    while True:
        try:
            found, error = answers.get(timeout=deadline.look_s())
        except queue.Empty:
            continue
        if error is not None:
            raise error
        return found  # type: ignore[return-value]  # what the call gave


class SerialCalls:
    """Runs calls that write, one at a time: none starts while an abandoned one may still run.

    Otherwise a late write could overwrite a newer one.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()

    def within(self, deadline: Deadline, call: Callable[[], T], name: str = "asking") -> T:
        """As ``within``, once the calls before it have ended."""
        while not self._turn.acquire(timeout=deadline.look_s()):
            pass
        begun = threading.Event()

        def in_turn() -> T:
            begun.set()
            try:
                return call()
            finally:
                self._turn.release()

        try:
            return within(deadline, in_turn, name)
        except NoAnswerError:
            raise
        except BaseException:
            if not begun.is_set():  # the thread could not start
                self._turn.release()
            raise


class DeadlineCutter:
    """A context manager that calls ``cut`` at the deadline: for clients that own their sockets."""

    def __init__(self, deadline: Deadline, cut: Callable[[], None]) -> None:
        self._deadline = deadline
        self._cut = cut
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="deadline", daemon=True)
        self.over = False  # whether ``cut`` was called

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while left_s := self._deadline.left_s():
            if self._done.wait(min(LOOK_S, left_s)):
                return
        self.over = True
        self._cut()
