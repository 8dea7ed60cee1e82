"""``streak``: how many of the latest records in the window meet conditions, one after the other."""

from __future__ import annotations

from itertools import takewhile

from crossline.core.figures.aggregate import Aggregate, Bounds, Words

AGGREGATE = Aggregate(
    name="streak",
    place=40,
    means="How many of the key's latest records in the window meet `conditions`, one after the other.",
    takes="records",
    gives="integer",
    words=Words("how many of the latest {records} in a row have {meets},"),
    naive=lambda window: len(list(takewhile(bool, reversed(window.meets)))),
    bounds=lambda _: Bounds("integer", missing=False, low=0),
    pane=("streak",),
    counts=True,
    meets=True,
)
