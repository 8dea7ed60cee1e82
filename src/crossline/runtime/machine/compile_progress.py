"""Reports when numba compiles. Loading from its cache takes no time and is not reported."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from crossline.basics.turns import when_numba_is_loaded


@dataclass(slots=True)
class CompileProgress:
    """Counts the functions that this process compiles.

    ``begun`` is called once, before the first of them; ``at`` before and after each that no other kernel calls, with
    how many are compiled, the seconds since the first, and whether one is being compiled now.
    """

    begun: Callable[[], None]
    at: Callable[[int, float, bool], None]
    process: int = field(default_factory=os.getpid)
    count: int = 0
    _depth: int = 0
    _since_s: float = 0.0

    def watch(self) -> None:
        """From now on, in this process; not in those that are forked of it."""
        progress = self

        def register(event: Any) -> None:
            class Listener(event.Listener):  # type: ignore[misc]  # numba has no types
                def on_start(self, event: Any) -> None:  # noqa: ARG002 - which function it is, is nothing to a reader
                    progress.started()

                def on_end(self, event: Any) -> None:  # noqa: ARG002
                    progress.ended()

            event.register("numba:compile", Listener())

        when_numba_is_loaded(register)

    def started(self) -> None:
        """Numba compiles a function."""
        if os.getpid() != self.process:
            return
        if not self._since_s:
            self._since_s = time.monotonic()
            self.begun()
        self._depth += 1
        if self._depth == 1:
            self.at(self.count, time.monotonic() - self._since_s, True)

    def ended(self) -> None:
        """It has done so, or given up."""
        if os.getpid() != self.process or not self._depth:
            return
        self._depth -= 1
        self.count += 1
        if not self._depth:
            self.at(self.count, time.monotonic() - self._since_s, False)
