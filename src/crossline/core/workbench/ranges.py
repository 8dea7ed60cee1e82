"""What the figures of a program may be at a record that is judged."""

from __future__ import annotations

import math
from collections.abc import Mapping

from crossline.core.figures.program import Figure, Formed, Program
from crossline.core.streams.schema import FieldSpec
from crossline.core.workbench.claims import All, Present
from crossline.core.workbench.conditions import claim_of
from crossline.core.workbench.solve import Known, Values, hull

_SLACK = 1e-12  # of a value that is rounded more than once
_OF_THE_COLUMN = frozenset({"min", "max", "first", "last"})


def figure_values(program: Program, figure: Figure, fields: Mapping[str, FieldSpec], known: Known) -> Values:  # noqa: PLR0911 - a table
    """What ``figure`` may be; ``known``: what fields may be."""
    window = figure.window
    itself = window.include_current and not window.delay_ms and figure.feed == program.feed
    if figure.error is not None:
        return Values("number", missing=figure.aggregate != "distinct_count")  # a sketch may be off to both sides
    if figure.aggregate == "count":
        return Values("integer", missing=False, low=_own(program, figure, fields) if itself else 0)
    if figure.aggregate == "streak":
        return Values("integer", missing=False, low=0)
    if figure.aggregate in {"since", "age"}:
        return Values("integer", low=window.delay_ms, high=window.reach_ms)
    if figure.aggregate == "distinct_count":
        return Values("integer", missing=False, low=_own(program, figure, fields) if itself else 0)
    if figure.aggregate == "stddev":
        return Values("number", low=0)
    if figure.column is None or figure.feed.stream != program.feed.stream:
        return Values("number")
    return _of_column(figure, fields, known, itself=itself and bool(_own(program, figure, fields)))


def _own(program: Program, figure: Figure, fields: Mapping[str, FieldSpec]) -> int:
    """1 where the record that is judged is one of those that the figure is of, whatever it has."""
    if figure.column is None or not isinstance(program.verdict, Formed):
        return 1  # a line judges the records that have the column
    return 0 if fields[figure.column].optional else 1


def _of_column(figure: Figure, fields: Mapping[str, FieldSpec], known: Known, *, itself: bool) -> Values:
    column = figure.column or ""
    entered = All((claim_of(figure.feed.condition.node, fields), Present(column)))
    values = hull(entered, column, known)
    kind = "number" if figure.aggregate == "avg" or fields[column].kind == "number" else fields[column].kind
    low, high = values.low, values.high
    if figure.aggregate in _OF_THE_COLUMN:
        return Values(kind, not itself, low, high)
    if figure.aggregate == "avg":
        # Of whole numbers it is the exact one, rounded once, which passes no bound that is rounded too.
        ends = _loose(low, high) if fields[column].kind == "number" else (float(low), float(high))
        return Values(kind, not itself, *ends)
    if figure.aggregate == "sum":
        least = low if itself and low >= 0 else 0
        most = high if itself and high <= 0 else 0
        ends = (least if low >= 0 else -math.inf, most if high <= 0 else math.inf)
        return Values(kind, False, *(_loose(*ends) if kind == "number" else ends))
    if figure.aggregate in {"quantile", "decayed"}:
        return Values("number")
    raise ValueError(f"nothing is known of what {figure.aggregate} may be")


def _loose(low: float, high: float) -> tuple[float, float]:
    """With room for what rounding does; zero stays zero, since no rounding passes it."""
    return low - _SLACK * abs(low), high + _SLACK * abs(high)
