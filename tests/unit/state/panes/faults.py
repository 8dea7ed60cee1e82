"""Run by ``test_builds`` in a process of its own: a table names a slot which is not there; the error is printed."""

from __future__ import annotations

import sys

from tests.unit.state.panes.test_memory import plan_of, row
from tests.unit.state.windows.naive import batch_of, line

from crossline.plan.spaces import AggregateSpec
from crossline.state.memory.access import BUILD
from crossline.state.memory.bounds_check import OutOfBoundsError
from crossline.state.panes import layout as at
from crossline.state.panes.store import PaneState

PLAN = plan_of((AggregateSpec(0, -1, "count"),), line(0, ">=", 3))
assert BUILD != "plain"
state = PaneState(PLAN)
state.judge(batch_of(PLAN, [row(number, 100 + number) for number in range(3)]))
table = state._memory.kept(at.KEY_TABLE)
table[table != 0] += 7  # there is one slot
try:
    state.judge(batch_of(PLAN, [row(4, 200)]))
except OutOfBoundsError as error:
    sys.stdout.write(str(error))
