"""The possible values of the figures of a program at a judged record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from crossline.analysis.claims import All, Present
from crossline.analysis.conditions import claim_of
from crossline.analysis.satisfiability import Known, ValueRange, value_range
from crossline.basics.streams.schema import FieldSpec
from crossline.programs.aggregate import BoundsRequest
from crossline.programs.program import Figure, Program
from crossline.programs.registry import declared


def figure_values(program: Program, figure: Figure, fields: Mapping[str, FieldSpec], known: Known) -> ValueRange:
    """The possible values of ``figure``; ``known``: those of fields."""
    aggregate, window = declared(figure.aggregate), figure.window
    if figure.error is not None:
        return ValueRange("number", missing=aggregate.least > 0)  # a sketch may be off to both sides
    itself = window.include_current and not window.delay_ms and figure.feed == program.feed
    request = BoundsRequest(_own(program, figure, fields) if itself else 0, window.delay_ms, window.reach_ms)
    if figure.column is not None and figure.feed.stream == program.feed.stream:
        entered = All((claim_of(figure.feed.condition.node, fields), Present(figure.column)))
        values = value_range(entered, figure.column, known)
        request = replace(request, kind=fields[figure.column].kind, low=values.low, high=values.high)
    found = aggregate.bounds(request)
    return ValueRange(found.kind, found.missing, found.low, found.high)


def _own(program: Program, figure: Figure, fields: Mapping[str, FieldSpec]) -> int:
    """1 if the judged record always counts in the figure, else 0."""
    if figure.column is None or program.formula is None:
        return 1  # a line judges the records that have the column
    return 0 if fields[figure.column].optional else 1
