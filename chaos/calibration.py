"""The rate that the machine sustains while the whole drill runs without faults: the load grows until it is too much."""

from __future__ import annotations

import time
from dataclasses import dataclass

from chaos.lag_probe import Watching
from chaos.load.producer import Load

FIRST_PER_S, GROWTH = 1_000.0, 1.4
STEP_S = 8.0
BEHIND_S = 4.0  # of records that wait: the load is too much
LOOK_S = 0.1
STEPS_MAX = 14
KEPT_UP = 0.97  # of the rate


@dataclass(frozen=True, slots=True)
class Peak:
    """``per_s``: records a second that were committed while more came; ``steps``: (rate, seconds behind) of each."""

    per_s: float
    steps: tuple[tuple[float, float], ...]


def calibrated(load: Load, watching: Watching) -> Peak:
    """Find the peak, and leave the load at its first rate."""
    steps: list[tuple[float, float]] = []
    rate, found = FIRST_PER_S, FIRST_PER_S
    for _ in range(STEPS_MAX):
        load.rate_per_s = rate
        before, began_s = watching.committed, time.monotonic()
        while (passed_s := time.monotonic() - began_s) < STEP_S and watching.lag() < rate * BEHIND_S:
            time.sleep(LOOK_S)
        steps.append((rate, round(watching.lag() / rate, 1)))
        if watching.lag() > rate * BEHIND_S / 2:
            # What is committed while more waits than a batch takes; a moment's halt is none.
            found = _committed_per_s(watching, STEP_S)
            if found < rate * KEPT_UP:
                break
        else:
            found = (watching.committed - before) / max(passed_s, LOOK_S)
        rate *= GROWTH
    load.rate_per_s = FIRST_PER_S
    return Peak(found, tuple(steps))


def _committed_per_s(watching: Watching, seconds: float) -> float:
    """From one commit to another, so many seconds later at least."""
    points: list[tuple[float, int]] = []
    deadline_s = time.monotonic() + seconds * 4
    while time.monotonic() < deadline_s:
        watching.lag()
        if not points or watching.committed != points[-1][1]:
            points.append((time.monotonic(), watching.committed))
            if len(points) > 2 and points[-1][0] - points[1][0] >= seconds:
                break
        time.sleep(LOOK_S / 5)
    (from_s, before), (until_s, after) = points[min(1, len(points) - 1)], points[-1]
    return (after - before) / max(until_s - from_s, LOOK_S)
