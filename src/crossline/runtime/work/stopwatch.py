"""Where the milliseconds of a task go: they travel with its outcome and end in the figures of the batch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from crossline.plan.costs import Meter


def measuring() -> Meter:
    """A meter of this thread's processor time."""
    return Meter(time.thread_time_ns)


@dataclass(slots=True)
class Stopwatch:
    """Milliseconds by step, and the task's begin and end on the wall clock."""

    began_ms: float = field(default_factory=lambda: time.time() * 1e3)
    spent_ms: dict[str, float] = field(default_factory=dict)
    _lap_s: float = field(default_factory=time.perf_counter)

    def start(self) -> None:
        """A step begins now."""
        self._lap_s = time.perf_counter()

    def lap(self, step: str) -> None:
        """What passed since the last start or lap was ``step``."""
        now_s = time.perf_counter()
        self.spent_ms[step] = self.spent_ms.get(step, 0.0) + (now_s - self._lap_s) * 1e3
        self._lap_s = now_s

    def add(self, spent_ms: Mapping[str, float]) -> None:
        """What another process spent for this task."""
        for step, ms in spent_ms.items():
            self.spent_ms[step] = self.spent_ms.get(step, 0.0) + ms

    def to_json(self) -> bytes:
        """For ``Spent.add``; the task ends now."""
        return orjson.dumps({"from_ms": self.began_ms, "to_ms": time.time() * 1e3, "spent_ms": self.spent_ms})


@dataclass(slots=True)
class Spent:
    """The stopwatches of all tasks of a batch."""

    from_ms: float | None = None
    to_ms: float = 0.0
    spent_ms: dict[str, float] = field(default_factory=dict)

    def add(self, body: bytes) -> None:
        """Take one task in."""
        data: dict[str, Any] = orjson.loads(body)
        self.from_ms = data["from_ms"] if self.from_ms is None else min(self.from_ms, data["from_ms"])
        self.to_ms = max(self.to_ms, data["to_ms"])
        for step, ms in data["spent_ms"].items():
            self.spent_ms[step] = self.spent_ms.get(step, 0.0) + ms

    def wall_ms(self, began_ms: float, ended_ms: float) -> dict[str, float]:
        """A batch from ``began_ms`` to ``ended_ms`` in three: up to the first task, tasks, after them.

        Tasks that began before the batch did count from its begin.
        """
        if self.from_ms is None:
            return {"plan": ended_ms - began_ms}
        from_ms = max(self.from_ms, began_ms)
        return {"plan": from_ms - began_ms, "tasks": self.to_ms - from_ms, "collect": ended_ms - self.to_ms}
