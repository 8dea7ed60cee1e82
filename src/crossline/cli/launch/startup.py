"""How far a start is, and what its seconds went into; the first compilation of the kernels, where it comes to that."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from crossline.runtime.machine.compile_progress import CompileProgress

_TICK_S = 1.0
COMPILING = "compiling kernels, once after an installation; some half a minute"
_watched: list[CompileProgress] = []


@dataclass(slots=True)
class Startup:
    """Steps one after the other, the last of them under way until ``done``; ``show`` gets a line each second."""

    show: Callable[[str], None]
    began_s: float = field(default_factory=time.monotonic)
    steps: list[tuple[str, float]] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _done_s: float | None = None

    def step(self, name: str) -> None:
        """What was under way is done, ``name`` is now."""
        self.steps.append((name, time.monotonic()))
        if len(self.steps) == 1:
            threading.Thread(target=self._tick, name="startup", daemon=True).start()
        self.show(self.line())

    def done(self) -> None:
        """The first batch is delivered, or the start is given up; from then on nothing is shown."""
        if self._done_s is None:
            self._done_s = time.monotonic()
            self._ended.set()

    @property
    def spent_ms(self) -> dict[str, int]:
        """Milliseconds by step."""
        steps = tuple(self.steps)  # one more may begin while the other thread looks
        ends = [*(at for _, at in steps[1:]), self._done_s or time.monotonic()]
        return {name: round((end - at) * 1000) for (name, at), end in zip(steps, ends, strict=True)}

    def line(self) -> str:
        """``starting, 3 s: Spark (loading 1.2 s)``: what is under way, and what was before."""
        *before, (name, _) = self.spent_ms.items()
        spent = ", ".join(f"{each} {ms / 1000:.1f} s" for each, ms in before)
        return f"starting, {time.monotonic() - self.began_s:.0f} s: {name}{f' ({spent})' if spent else ''}"

    def _tick(self) -> None:
        while not self._ended.wait(_TICK_S):
            self.show(self.line())


def tell_compiling() -> None:
    """Have the standard error say so where this process compiles kernels: a line, and on a terminal how far it is."""
    if not _watched:
        _watched.append(CompileProgress(lambda: _write_err(f"{COMPILING}\n"), _compiled))
        _watched[0].watch()


def _compiled(count: int, seconds: float, under_way: bool) -> None:
    if sys.stderr.isatty():
        _write_err(f"\r\x1b[K{count} compiled, {seconds:.0f} s" if under_way else "\r\x1b[K")


def _write_err(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
