"""``median``: the least value that half of the values do not exceed, by the sketch that panes keep."""

from __future__ import annotations

from crossline.programs.aggregate import Aggregate, Words
from crossline.programs.exact import RANKED_ERROR, ranked
from crossline.programs.tools import value_at_rank

AGGREGATE = Aggregate(
    name="median",
    place=124,
    means="The field whose median it is: the least value that half of them do not exceed. Needs `resolution`; within "
    "0.8 % of the true one.",
    least=1,
    words=Words("the median of {field} of {records}", before="median of {field} "),
    naive=ranked,
    value=value_at_rank,
    window=None,
    pane=("quantile",),
    limits="over panes a median is a sketch, within 0.8 % of the true value",
    rank=0.5,
    sketch_error=RANKED_ERROR,
    rounding=RANKED_ERROR,
)
