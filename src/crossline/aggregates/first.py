"""``first``: the earliest value of a field, by clock, then by ingest order."""

from __future__ import annotations

from crossline.programs.aggregate import Aggregate, Words
from crossline.programs.exact import bounds_of_one
from crossline.programs.tools import one_of_them

AGGREGATE = Aggregate(
    name="first",
    place=120,
    means="The field whose earliest value it is.",
    takes="ordered",
    gives="field",
    least=1,
    words=Words("the first {field} of {records}", before="first {field} "),
    naive=lambda window: window.values[0],
    value=one_of_them,
    bounds=bounds_of_one,
    window=("first",),
    pane=("first",),
)
