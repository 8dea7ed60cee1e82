"""``count``: how many records."""

from __future__ import annotations

from crossline.programs.aggregate import Aggregate, Bounds, Words

AGGREGATE = Aggregate(
    name="count",
    place=10,
    means="How many records.",
    takes="records",
    gives="integer",
    words=Words("the number of {records}", after=" {records}"),
    naive=lambda window: len(window.values),
    bounds=lambda request: Bounds("integer", missing=False, low=request.own),
    grows=(">", ">="),
    counts=True,
    sortable=True,
)
