"""``distinct_count``: how many different values a field has; in panes by a sketch beyond 1,024 of them."""

from __future__ import annotations

from crossline.programs.aggregate import Aggregate, Bounds, Words
from crossline.programs.tools import Compiled, Tools


def _value(tools: Tools, real: bool) -> Compiled:  # noqa: ARG001
    put, different = tools.put_integer, tools.different

    def value(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> None:  # noqa: ARG001
        put(h, different(h, at, c, g, extra))

    return value


AGGREGATE = Aggregate(
    name="distinct_count",
    place=100,
    means="The field whose different values are counted.",
    takes="values",
    gives="integer",
    words=Words("the number of different {field} of {records}", after=" different {field}"),
    naive=lambda window: len(set(window.values)),
    value=_value,
    bounds=lambda request: Bounds("integer", missing=False, low=request.own),
    window=("different",),
    pane=("distinct_count",),
    grows=(">", ">="),
    counts=True,
    sketch_error=0.01625,  # the standard error, beyond what is counted exactly
)
