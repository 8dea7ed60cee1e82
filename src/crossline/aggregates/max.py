"""``max``: the greatest value of a field."""

from __future__ import annotations

from crossline.programs.aggregate import Aggregate, Words
from crossline.programs.exact import bounds_of_one
from crossline.programs.tools import one_of_them

AGGREGATE = Aggregate(
    name="max",
    place=80,
    means="The field whose greatest value it is.",
    takes="ordered",
    gives="field",
    least=1,
    words=Words("the greatest {field} of {records}", before="maximum of {field} "),
    naive=lambda window: max(window.values),
    value=one_of_them,
    bounds=bounds_of_one,
    window=("max",),
    pane=("max",),
    grows=(">", ">="),
)
