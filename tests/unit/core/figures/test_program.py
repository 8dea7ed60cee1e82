"""Programs: what can stand together, how far back they reach, and what a probe of one is."""

from __future__ import annotations

import pytest

from crossline.core.conditions.condition import Condition
from crossline.core.conditions.tree import AllOf
from crossline.core.figures.program import Comparison, Emission, Feed, Figure, Program, Window

FEED = Feed("payments", ("account_id",), "event_time", Condition(AllOf(())), 120_000)
COUNT = Figure(FEED, "count", Window(60_000))


def test_a_figure_and_a_verdict_come_together() -> None:
    with pytest.raises(ValueError, match="a verdict needs a figure"):
        Program(FEED, verdict=Comparison(">=", 10))
    with pytest.raises(ValueError, match="a verdict needs a figure"):
        Program(FEED, figure=COUNT)


@pytest.mark.parametrize(("cooldown_ms", "reach_ms"), [(0, 60_000), (59_999, 60_000), (300_000, 300_000)])
def test_it_reaches_as_far_as_its_window_or_its_cooldown(cooldown_ms: int, reach_ms: int) -> None:
    emission = Emission(every=False, cooldown_ms=cooldown_ms)
    assert Program(FEED, COUNT, Comparison(">=", 10), emission).reach_ms == reach_ms


def test_what_the_record_alone_decides_has_no_window() -> None:
    program = Program(FEED)
    assert (program.window_ms, program.reach_ms) == (None, 0)
    assert program.probing() == program


def test_a_probe_alerts_wherever_there_is_a_figure() -> None:
    probe = Program(FEED, COUNT, Comparison("<", 10), Emission(every=False, cooldown_ms=5)).probing()
    assert (probe.feed, probe.figure) == (FEED, COUNT)
    assert probe.emission == Emission(every=True, cooldown_ms=0, delivered=True)
    assert probe.verdict is not None
    assert probe.verdict.operator == ">="
    assert probe.verdict.threshold == -1.7976931348623157e308
