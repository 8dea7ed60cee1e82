"""One deadline for a whole answer, over all that it takes: names, connecting, greetings, sending, every byte of it.

A library's own time-out is one read's. A server that sends a byte now and then is within it for ever.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Self, TypeVar

LOOK_S = 0.1  # between two looks at whether to stop
STOP_S = 1.0  # that what is under way still has once it is to stop
T = TypeVar("T")


class NoAnswerError(TimeoutError):
    """The deadline has passed, or a stop came before it, and the answer is not there, or not all of it."""


class Deadline:
    """``seconds`` for an answer, from ``begin`` on (at first from now); a second at most once ``stop`` is set.

    From one thread at a time; ``left_s`` from any.
    """

    def __init__(self, seconds: float, stop: threading.Event | None = None) -> None:
        self.seconds = seconds
        self.stop = stop or threading.Event()
        self._ends_s = 0.0
        self._stopped = False
        self.begin()

    def begin(self) -> None:
        """A new question is asked."""
        self._ends_s = time.monotonic() + self.seconds
        self._stopped = False

    def left_s(self) -> float:
        """How many seconds are left; 0 where none is."""
        now_s = time.monotonic()
        if self.stop.is_set() and not self._stopped:
            self._stopped = True
            self._ends_s = min(self._ends_s, now_s + STOP_S)
        return max(0.0, self._ends_s - now_s)

    def look_s(self) -> float:
        """How long to wait until the next look. Raises NoAnswerError where nothing is left."""
        left_s = self.left_s()
        if not left_s:
            raise NoAnswerError(self.said)
        return min(LOOK_S, left_s)

    @property
    def said(self) -> str:
        """Why there is no answer."""
        return "stopped before the answer was there" if self._stopped else f"no whole answer in {self.seconds:.3g} s"


def within(deadline: Deadline, call: Callable[[], T], name: str = "asking") -> T:
    """What ``call`` gives or raises, for what has no time-out that can be relied on.

    Raises NoAnswerError at the deadline. The call goes on then, in a thread that keeps no process from its end: it must
    change nothing that somebody else could change meanwhile (``SerialCalls`` is for what does).
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
    """Calls that change something, one behind the other: none begins while one that was given up may still be at work.

    Else what was written late would stand in the place of what was written after it.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()

    def within(self, deadline: Deadline, call: Callable[[], T], name: str = "asking") -> T:
        """As ``within``, after those before it."""
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
            if not begun.is_set():  # no thread could be had
                self._turn.release()
            raise


class DeadlineCutter:
    """Calls ``cut`` once a deadline has passed, unless the block was left: for clients whose sockets are their own."""

    def __init__(self, deadline: Deadline, cut: Callable[[], None]) -> None:
        self._deadline = deadline
        self._cut = cut
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="deadline", daemon=True)
        self.over = False  # whether it was cut

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
