"""Run by ``test_builds`` in a process of its own: a row that is not there is asked for; the error is printed.

To numpy a number below 0 is one from the end: without the look-up another record would be judged in silence.
"""

from __future__ import annotations

import sys
from typing import Any

from tests.unit.state.retraction.kit import placed, retraction
from tests.unit.state.windows.naive import Row, count_plan, line

from crossline.state.memory.access import BUILD
from crossline.state.memory.bounds_check import OutOfBoundsError
from crossline.state.retraction.table import Table

PLAN = count_plan(100, line(threshold=3))
assert BUILD != "plain"
state = retraction(PLAN)
state.judge(placed(PLAN, [Row("k", f"n{i}", 10 * i) for i in range(3)], 0))
in_order = Table.in_order


def one_too_few(table: Table, rows: Any) -> Any:
    """The rows in order, each number less by one."""
    return in_order(table, rows) - 1


Table.in_order = one_too_few  # type: ignore[method-assign]
try:
    state.judge(placed(PLAN, [Row("k", "late", 5)], 3))
except OutOfBoundsError as error:
    sys.stdout.write(str(error))
