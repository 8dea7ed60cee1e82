"""Programs: what can stand together, how far back they reach, and what a probe of one is."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.tree import AllOf, Leaf
from crossline.basics.formula.check import check
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.naive import evaluate
from crossline.programs.program import (
    Comparison,
    Emission,
    FeatureQuery,
    Feed,
    Figure,
    FormulaPredicate,
    NamedStep,
    Program,
    SequencePredicate,
    Window,
)


def formula(text: str, *names: str) -> Formula:
    found = check(text, dict.fromkeys(names, "integer"), (), "value")
    assert isinstance(found, Formula)
    return found


def verdict(text: str, *names: str) -> Formula:
    found = check(text, dict.fromkeys(names, "integer"), (), "verdict")
    assert isinstance(found, Formula)
    return found


FEED = Feed("payments", ("account_id",), "event_time", Condition(AllOf(())), 120_000)
COUNT = Figure(FEED, "count", Window(60_000))


def test_a_figure_and_a_verdict_come_together() -> None:
    with pytest.raises(ValueError, match="a verdict needs a figure"):
        Program(FEED, verdict=Comparison(">=", 10))
    with pytest.raises(ValueError, match="a verdict needs a figure"):
        Program(FEED, (COUNT,))


@pytest.mark.parametrize(("cooldown_ms", "reach_ms"), [(0, 60_000), (59_999, 60_000), (300_000, 300_000)])
def test_it_reaches_as_far_as_its_window_or_its_cooldown(cooldown_ms: int, reach_ms: int) -> None:
    emission = Emission(every=False, cooldown_ms=cooldown_ms)
    assert Program(FEED, (COUNT,), Comparison(">=", 10), emission).reach_ms == reach_ms


FORMED = FormulaPredicate(("tries", "silent"), verdict("tries > 3 and amount > silent", "tries", "silent", "amount"))


def test_a_formula_has_the_figures_that_it_names() -> None:
    with pytest.raises(ValueError, match="a verdict of 2 figures, and 1 figures"):
        Program(FEED, (COUNT,), FORMED)
    late = Figure(FEED, "since", Window(1_000, delay_ms=90_000))
    program = Program(FEED, (COUNT, late), FORMED)
    assert (program.window_ms, program.reach_ms) == (60_000, 91_000)
    assert FORMED.fields == ("amount",)
    assert program.verdict is FORMED
    probe = program.probing().verdict
    assert isinstance(probe, FormulaPredicate)
    # It holds whatever there is, and still reads what is asked for, so that the evidence has it.
    assert (evaluate(probe.when.root, {}), probe.names, probe.read) == (True, FORMED.names, FORMED.read)


SHOWN = formula("tries - silent", "tries", "silent")
A = {"tries": 5, "silent": 9, "amount": 10}


@pytest.mark.parametrize(
    ("text", "value", "line"),
    [
        ("tries > 3 and amount > silent", "tries", Comparison(">", 3)),
        ("tries > 3 and amount > 1", "amount", Comparison(">", 1)),
        ("amount > silent and 3 < tries", "tries", Comparison(">", 3)),
        ("1 < tries < 30", "tries", Comparison(">", 1)),
        ("tries > -3", "tries", Comparison(">", -3)),
        ("not tries < 4", "tries", Comparison(">=", 4)),
        ("not (silent > 20 or tries <= 4)", "tries", Comparison(">", 4)),
        ("amount > 20 and silent > 3 or tries > 4 and silent > 5", "silent", Comparison(">", 5)),
        ("tries - silent < -2", "tries - silent", Comparison("<", -2)),
        ("tries > silent or amount > 3", "tries", None),
        ("tries > 100 or silent > 3", "tries", None),
        ("tries > 2 * silent", "tries / silent", None),
        ("missing(tries)", None, None),
    ],
)
def test_the_line_of_an_alert_is_what_its_value_is_standing_against(
    text: str, value: str | None, line: Comparison | None
) -> None:
    shown = None if value is None else formula(value, "tries", "silent", "amount")
    formed = FormulaPredicate(("tries", "silent"), verdict(text, "tries", "silent", "amount"), shown)
    of_value = None if shown is None else evaluate(shown.root, A)
    assert formed.line_at(of_value, A) == line
    assert formed.fixed_line in {None, line}, "what holds for all holds here"


def test_of_lines_that_a_type_gives_it_is_the_one_that_the_value_is_beyond() -> None:
    sides = (Comparison(">", 3), Comparison("<", -3))
    formed = FormulaPredicate(
        ("tries", "silent"), verdict("abs(tries - silent) > 6", "tries", "silent"), SHOWN, lines=sides
    )
    assert formed.fixed_line is None
    assert [formed.line_at(value, A) for value in (4, -4, math.inf, -math.inf)] == [*sides, *sides]
    # Where it does not hold, as at a probe, the nearer.
    assert [formed.line_at(value, A) for value in (2.9, -2.9)] == [*sides]


def test_conditions_are_all_that_a_record_is_asked() -> None:
    met = Condition(Leaf("status", "==", "declined"))
    streak = Figure(FEED, "streak", Window(60_000), streak_of=met)
    program = Program(FEED, (streak,), FormulaPredicate(("run",), verdict("run > 2", "run")))
    assert program.conditions == (FEED.condition, FEED.condition, met)


def test_what_the_record_alone_decides_has_no_window() -> None:
    program = Program(FEED)
    assert (program.window_ms, program.reach_ms) == (None, 0)
    assert program.probing() == program


def test_a_probe_alerts_wherever_there_is_a_figure() -> None:
    probe = Program(FEED, (COUNT,), Comparison("<", 10), Emission(every=False, cooldown_ms=5)).probing()
    assert (probe.feed, probe.figure) == (FEED, COUNT)
    assert probe.emission == Emission(every=True, cooldown_ms=0, delivered=True)
    assert isinstance(probe.verdict, Comparison)
    assert probe.verdict.operator == ">="
    assert probe.verdict.threshold == -1.7976931348623157e308


def feed(status: str) -> Feed:
    return replace(FEED, condition=Condition(Leaf("status", "==", status)))


ORDERED = SequencePredicate(
    (NamedStep("failed", feed("bad"), 3), NamedStep("success", feed("ok"))), 60_000, feed("out")
)


def test_an_order_has_no_figure_and_reaches_as_far_as_it_may_take() -> None:
    with pytest.raises(ValueError, match="one of order has none"):
        Program(FEED, (COUNT,), ORDERED)
    program = Program(FEED, verdict=ORDERED)
    assert (program.figure, program.window_ms, program.reach_ms) == (None, 60_000, 60_000)
    assert Program(FEED, verdict=ORDERED, emission=Emission(cooldown_ms=60_001)).reach_ms == 60_001
    assert ORDERED.names == ("failed", "failed", "failed", "success")


def test_of_an_order_a_record_is_asked_what_its_steps_ask() -> None:
    asked = tuple(feed(status).condition for status in ("bad", "ok", "out"))
    assert Program(FEED, verdict=ORDERED).conditions == asked
    assert Program(FEED, verdict=replace(ORDERED, strict=True)).conditions == (FEED.condition, *asked)


def test_a_program_over_other_records_is_so_in_all_its_parts() -> None:
    def later(each: Feed) -> Feed:
        return replace(each, allowed_lateness_ms=5)

    program = Program(FEED, verdict=ORDERED).over(later)
    assert isinstance(program.verdict, SequencePredicate)
    assert {each.allowed_lateness_ms for each in (program.feed, *program.verdict.feeds)} == {5}
    assert [each.condition for each in program.verdict.feeds] == [each.condition for each in ORDERED.feeds]
    assert Program(FEED, (COUNT,), Comparison(">", 1)).over(later).figures[0].feed == later(FEED)


def test_a_probe_of_an_order_is_the_same_order() -> None:
    program = Program(FEED, verdict=ORDERED, emission=Emission(cooldown_ms=5)).probing()
    assert program.verdict == replace(ORDERED, probes=True)
    assert program.emission.cooldown_ms == 0


def test_figures_may_be_reported_without_a_verdict() -> None:
    program = Program(FEED, (COUNT,), FeatureQuery(("tries",), ("amount",)))
    assert (program.reach_ms, program.probing()) == (60_000, program)
    with pytest.raises(ValueError, match="a verdict of 2 figures, and 1 figures"):
        Program(FEED, (COUNT,), FeatureQuery(("tries", "spent")))
    with pytest.raises(ValueError, match="a verdict needs a figure"):
        Program(FEED, verdict=FeatureQuery(()))
