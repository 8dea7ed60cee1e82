"""Budgets: the workbook's own figures, examples worked by hand, and a twin that goes minute by minute."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import pytest

from crossline.observe.objectives.budget import PAIRS, WINDOWS, EventCounts, WindowVerdict, burns, minutes_left, verdict
from crossline.observe.objectives.minute_file import Minute, MinuteFile

THREE_NINES = Fraction(999, 1000)


def test_the_pairs_of_windows_are_those_of_the_workbook() -> None:
    # Site Reliability Workbook, table 5-8: budget consumed, long window, short window, burn rate, notification.
    lines = [(float(each.spent), each.long, each.short, float(each.factor), each.severity) for each in PAIRS]
    assert lines == [
        (0.02, "1h", "5m", 14.4, "critical"),
        (0.05, "6h", "30m", 6.0, "critical"),
        (0.10, "1d", "2h", 3.0, "warning"),
        (0.10, "3d", "6h", 1.0, "warning"),
    ]
    # Table 5-4: errors of 0.1 % use a budget of 99.9 % up in 30 days, those of 1 % in 3 days, of 100 % in 43 minutes.
    for bad, minutes in ((1, 43_200), (10, 4_320), (1_000, 43)):
        rate = verdict(EventCounts(1_000 - bad, 1_000, 60), THREE_NINES, 60).burn_rate
        assert rate is not None
        assert int(WINDOWS["30d"] / rate) == minutes


@pytest.mark.parametrize(
    ("counts", "minutes", "kept", "left", "rate"),
    [
        (EventCounts(10_000, 10_000, 60), 60, True, 1, 0),
        (EventCounts(9_990, 10_000, 60), 60, True, 0, 1),  # just kept: at least so many
        (EventCounts(9_989, 10_000, 60), 60, False, Fraction(-1, 10), Fraction(11, 10)),
        (EventCounts(9_995, 10_000, 60), 60, True, Fraction(1, 2), Fraction(1, 2)),
        (EventCounts(9_995, 10_000, 29), 60, None, Fraction(1, 2), Fraction(1, 2)),  # half of it and more is not known
        (EventCounts(9_995, 10_000, 30), 60, True, Fraction(1, 2), Fraction(1, 2)),
        (EventCounts(0, 10, 1), 60, False, -999, 1_000),  # what is known is enough to say no
        (EventCounts(0, 0, 60), 60, None, None, None),  # known, and nothing was to be counted
        (EventCounts(), 60, None, None, None),
    ],
)
def test_verdicts_worked_by_hand(
    counts: EventCounts, minutes: int, kept: bool | None, left: Fraction | None, rate: Fraction | None
) -> None:
    found = verdict(counts, THREE_NINES, minutes)
    assert (found.kept, found.budget_left, found.burn_rate) == (kept, left, rate)
    assert found.unknown == minutes - counts.minutes


def of_rate(rate: int | str, minutes: int = 60) -> WindowVerdict:
    bad = Fraction(rate) * 10  # of 10,000, where 10 may be
    assert bad.denominator == 1
    return verdict(EventCounts(10_000 - int(bad), 10_000, minutes), THREE_NINES, minutes)


def test_there_is_a_page_where_both_windows_burn() -> None:
    fast = PAIRS[0]
    assert not burns(fast, of_rate("14.4"), of_rate("14.4")), "just as fast is not faster"
    assert burns(fast, of_rate("14.5"), of_rate("14.5"))
    assert not burns(fast, of_rate("14.5"), of_rate(0)), "it is over already"
    assert not burns(fast, of_rate(1), of_rate(100)), "it has just begun"
    unknown = verdict(EventCounts(), THREE_NINES, 5)
    assert not burns(fast, of_rate(20), unknown)


def test_when_a_budget_is_used_up() -> None:
    # Half of it is left, and the day burns five times as fast as it may: a tenth of 30 days.
    assert minutes_left(of_rate("0.5"), of_rate(5)) == 3 * 1440
    assert minutes_left(of_rate("0.5"), of_rate("0.5")) is None, "30 days hence, and by then these are forgotten"
    assert minutes_left(of_rate("0.5"), of_rate(0)) is None
    assert minutes_left(of_rate(2), of_rate(2)) is None, "it is used up"
    assert minutes_left(of_rate("0.5"), verdict(EventCounts(), THREE_NINES, 1440)) is None


def twin(minutes: dict[int, tuple[int, int]], end: int, span: int) -> tuple[int, int, int, bool | None]:
    """Good, total, unknown minutes and whether 90 of 100 is kept, one minute after the other."""
    good = total = unknown = 0
    for minute in range(end - span, end):
        if minute not in minutes:
            unknown += 1
            continue
        for _ in range(minutes[minute][1]):
            total += 1
        good += minutes[minute][0]
    if total == 0:
        return good, total, unknown, None
    if good * 10 < total * 9:
        return good, total, unknown, False
    return good, total, unknown, None if unknown > span - unknown else True


@pytest.mark.parametrize("seed", range(6))
def test_the_file_and_a_twin_that_counts_say_the_same(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    file, end = MinuteFile(tmp_path / "slo.db", "payments"), 29_800_000
    known: dict[int, tuple[int, int]] = {}
    for minute in range(end - 400, end + 3):
        if chance.random() < (0.2, 0.9)[seed % 2]:
            for _ in range(chance.choice((1, 1, 2))):  # two processes had parts of it
                total = chance.randrange(12)
                good = sum(chance.random() < 0.9 for _ in range(total))
                file.add([Minute("lag", "5000", minute, good, total), Minute("lag", "1", minute, 0, 9)], [], end)
                before = known.get(minute, (0, 0))
                known[minute] = before[0] + good, before[1] + total
    spans = (1, 5, 60, 399)
    for span, counts in file.counts("lag", "5000", end, spans).items():
        found = verdict(counts, Fraction(9, 10), span)
        assert (counts.good, counts.total, found.unknown, found.kept) == twin(known, end, span), span
