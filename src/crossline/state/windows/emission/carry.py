"""What lines remember of keys, carried over to another plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from crossline.plan.spaces import WindowPlan
from crossline.state.windows.emission.columns import cooldown_columns, lines_of
from crossline.state.windows.program import classes, judge_class


@dataclass(frozen=True, slots=True)
class KeyFields:
    """What lines remember, of all keys at once: columns to read or to write.

    Attributes:
        satisfied: by number of the byte, the bits of 8 lines.
        judged: by class, the last record judged: its clock, or its number.
        emitted: by column (see ``cooldown_columns``), the last emission, likewise.
    """

    satisfied: Callable[[int], Any]
    judged: Callable[[int], Any]
    emitted: Callable[[int], Any]


def carry(old_plan: WindowPlan, old: KeyFields, plan: WindowPlan, new: KeyFields) -> None:
    """Put what ``old_plan``'s lines remember into ``new``, of the same keys; lines go by rule id and version."""
    numbers = {name: number for number, name in enumerate(lines_of(old_plan.judging))}
    old_classes, new_classes = classes(old_plan), classes(plan)
    for number, (name, line) in enumerate(zip(lines_of(plan.judging), plan.judging, strict=True)):
        was = numbers.get(name)
        if was is None:
            continue
        bits = (old.satisfied(was >> 3) >> np.uint8(was & 7)) & np.uint8(1)
        satisfied = new.satisfied(number >> 3)
        satisfied |= bits << np.uint8(number & 7)
        judged = new.judged(new_classes[judge_class(plan, line)])
        np.maximum(judged, old.judged(old_classes[judge_class(old_plan, old_plan.judging[was])]), out=judged)
    old_columns = cooldown_columns(old_plan.judging)
    for name, column in cooldown_columns(plan.judging).items():
        if name in old_columns:
            new.emitted(column)[:] = old.emitted(old_columns[name])
