"""``age``: how long ago the first record in the window was."""

from __future__ import annotations

from crossline.programs.aggregate import Aggregate, Bounds, Words
from crossline.programs.tools import time_since

AGGREGATE = Aggregate(
    name="age",
    place=30,
    means="Milliseconds since the first record in the window; missing where it is empty.",
    takes="records",
    gives="integer",
    least=1,
    words=Words("the milliseconds since the first of {records}"),
    naive=lambda window: window.now_ms - window.clocks_ms[0],
    value=time_since,
    bounds=lambda request: Bounds("integer", low=request.delay_ms, high=request.reach_ms),
    window=("earliest",),
    pane=None,
    limits="panes do not know the first record of a window",
    in_ms=True,
)
