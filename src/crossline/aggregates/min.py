"""``min``: the least value of a field."""

from __future__ import annotations

from crossline.programs.aggregate import Aggregate, Words
from crossline.programs.exact import bounds_of_one
from crossline.programs.tools import one_of_them

AGGREGATE = Aggregate(
    name="min",
    place=70,
    means="The field whose least value it is.",
    takes="ordered",
    gives="field",
    least=1,
    words=Words("the least {field} of {records}", before="minimum of {field} "),
    naive=lambda window: min(window.values),
    value=one_of_them,
    bounds=bounds_of_one,
    window=("min",),
    pane=("min",),
    grows=("<", "<="),
)
