"""``streak``: how many of the latest records in the window meet conditions, one after the other."""

from __future__ import annotations

from itertools import takewhile

from crossline.programs.aggregate import Aggregate, Bounds, Words
from crossline.programs.tools import Compiled, Tools


def _value(tools: Tools, real: bool) -> Compiled:  # noqa: ARG001
    put, streak = tools.put_integer, tools.streak

    def value(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> None:  # noqa: ARG001
        put(h, streak(h, at, c, g, extra))

    return value


AGGREGATE = Aggregate(
    name="streak",
    place=40,
    means="How many of the key's latest records in the window meet `conditions`, one after the other.",
    takes="records",
    gives="integer",
    words=Words("how many of the latest {records} in a row have {meets},"),
    naive=lambda window: len(list(takewhile(bool, reversed(window.meets)))),
    value=_value,
    bounds=lambda _: Bounds("integer", missing=False, low=0),
    pane=("streak",),
    counts=True,
    meets=True,
)
