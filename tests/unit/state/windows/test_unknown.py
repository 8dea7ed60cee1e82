"""An unknown aggregate is an error, and never another aggregate."""

from __future__ import annotations

from typing import Any

import pytest

from crossline.plan.spaces import AggregateSpec, ComparisonPlan, PanePart, PaneSpacePlan, WindowSpec
from crossline.state.panes import program as panes
from crossline.state.windows import program as windows

from .naive import count_plan, line

UNKNOWN: Any = "mode"


def test_windows_know_no_such_aggregate() -> None:
    plan = count_plan(10, line(threshold=3))
    object.__setattr__(plan, "aggregates", (AggregateSpec(0, -1, UNKNOWN),))
    with pytest.raises(ValueError, match="mode is not defined on windows of records"):
        windows.check(plan)
    with pytest.raises(ValueError, match="mode is not defined on windows of records"):
        windows.compile_plan(plan)


def test_panes_know_no_such_aggregate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are looked up by name, so one is made known here: what its figure is, is not."""
    monkeypatch.setitem(panes.KEPT, UNKNOWN, panes.KEPT["count"])
    lines: tuple[ComparisonPlan, ...] = (line(threshold=3),)
    parts = (PanePart("count", 0, -1), PanePart(UNKNOWN, 0, -1))
    groups, cursors = (AggregateSpec(0, -1, UNKNOWN),), (WindowSpec(0, 10, False, False, True),)
    plan = PaneSpacePlan((), 1, cursors, groups, lines, 10, resolution_ms=5, settled_ms=0, parts=parts)
    with pytest.raises(ValueError, match="mode is not defined on panes"):
        panes.compile_plan(plan)
