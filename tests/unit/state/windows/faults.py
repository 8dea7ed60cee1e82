"""Run by ``test_builds`` in a process of its own: a field names a record which is not there; the error is printed."""

from __future__ import annotations

import sys

from tests.unit.state.windows.naive import Row, batch_of, count_plan, line

from crossline.state.memory import layout as at
from crossline.state.memory.access import BUILD
from crossline.state.memory.bounds_check import OutOfBoundsError
from crossline.state.windows.store import KeySpaceState

PLAN = count_plan(100, line(threshold=3))
assert BUILD != "plain"
state = KeySpaceState(PLAN)
state.judge(batch_of(PLAN, [Row("k", f"n{i}", i) for i in range(10)]))
state._memory.field(at.SLOTS, at.TAIL)[:] = 12  # the last of ten is 9
try:
    state.judge(batch_of(PLAN, [Row("k", "m", 20)]))
except OutOfBoundsError as error:
    sys.stdout.write(str(error))
