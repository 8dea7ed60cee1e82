"""``last``: the latest value of a field, by clock, then by ingest order."""

from __future__ import annotations

from crossline.programs.aggregate import Aggregate, Words
from crossline.programs.exact import bounds_of_one
from crossline.programs.tools import one_of_them

AGGREGATE = Aggregate(
    name="last",
    place=110,
    means="The field whose latest value it is.",
    takes="ordered",
    gives="field",
    least=1,
    words=Words("the last {field} of {records}", before="last {field} "),
    naive=lambda window: window.values[-1],
    value=one_of_them,
    bounds=bounds_of_one,
    window=("last",),
    pane=("last",),
)
