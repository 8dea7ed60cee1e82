"""``distinct_count``: how many different values a field has; in panes by a sketch beyond 1,024 of them."""

from __future__ import annotations

from crossline.core.figures.aggregate import Aggregate, Bounds, Words

AGGREGATE = Aggregate(
    name="distinct_count",
    place=100,
    means="The field whose different values are counted.",
    takes="values",
    gives="integer",
    words=Words("the number of different {field} of {records}", after=" different {field}"),
    naive=lambda window: len(set(window.values)),
    bounds=lambda asked: Bounds("integer", missing=False, low=asked.own),
    window=("different",),
    pane=("distinct_count",),
    grows=(">", ">="),
    counts=True,
    sketch_error=0.01625,  # the standard error, beyond what is counted exactly
)
