"""``since``: how long ago the key's previous record in the window was."""

from __future__ import annotations

from crossline.programs.aggregate import Aggregate, Bounds, Words
from crossline.programs.tools import time_since

AGGREGATE = Aggregate(
    name="since",
    place=20,
    means="Milliseconds since the key's previous record in the window; missing where there is none.",
    takes="records",
    gives="integer",
    least=1,
    words=Words("the milliseconds since the {last_of} {records}"),
    naive=lambda window: window.now_ms - window.clocks_ms[-1],
    value=time_since,
    bounds=lambda request: Bounds("integer", low=request.delay_ms, high=request.reach_ms),
    window=("latest",),
    pane=("since",),
    in_ms=True,
    before_itself=True,
)
