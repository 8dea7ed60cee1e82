"""Charts drawn from values: places by hand, names that say what one would conclude, nothing that the policy bans."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from crossline.backtest.investigation.figure_bars import FigureBar
from crossline.backtest.investigation.timeline import Timeline
from crossline.serve.console import charts
from crossline.serve.console.charts.bars import figure_bar
from crossline.serve.console.charts.chart import chart, context_of, record_rows
from crossline.serve.console.charts.correlation import ComparedValue
from crossline.serve.console.charts.dots import LEGEND, key
from crossline.serve.console.charts.scales import Scale, time_step_ms, time_ticks, value_ticks
from crossline.serve.console.charts.spark import histogram, sparkline
from crossline.serve.console.charts.svg import Element, element, px
from crossline.serve.console.charts.travel import great_circle
from crossline.serve.console.charts.words import Wording, counted, duration

from .samples import ABSENCE, BARS, CORRELATION, MANY, PACIFIC, SENDERS, SEQUENCE, TRAVEL, at, mark

WORDS = Wording(currency="EUR", minor=100, noun="payments")
TIMELINES = {
    "window": SENDERS,
    "many": MANY,
    "sequence": SEQUENCE,
    "travel": TRAVEL,
    "pacific": PACIFIC,
    "absence": ABSENCE,
}
WIDTHS = (320, 596, 872, 1200)
CSS = (Path(charts.__file__).parents[1] / "assets" / "css" / "71-charts.css").read_text()


def drawn(shown: Timeline, width: int = 872) -> Element:
    found = chart(shown, width, WORDS, ComparedValue([(at("14:10:00"), 1.08)], 1.1))
    assert found is not None
    return found


def test_a_scale_by_hand() -> None:
    scale = Scale(0, 10, 40, 90)
    assert [scale(0), scale(5), scale(10), scale.clipped(12)] == [40, 65, 90, 90]
    assert Scale(0, 10, 100, 20)(5) == 60
    assert Scale(3, 3, 0, 10)(3) == 5


def test_ticks_by_hand() -> None:
    assert time_step_ms(1_200_000, 820) == 120_000  # 20 min on ten ticks
    assert time_ticks(90_000, 400_000, 120_000) == [120_000, 240_000, 360_000]
    assert value_ticks(8) == [0, 5, 10]
    assert value_ticks(379.95) == [0, 200, 400]
    assert value_ticks(0) == [0]


def test_a_time_to_be_exact_has_all_its_units() -> None:
    assert duration(86_401_001, 4) == "1 d 1.001 s"
    assert duration(86_401_001) == "1 d"


def test_a_mark_stands_at_its_own_time_or_not_at_all() -> None:
    """One of hours before the window is in the table alone."""
    early = mark("t1", "09:00:00", "outside", 100)
    found = drawn(replace(SENDERS, records=(early, *SENDERS.records)))
    stand = [each.attribute("data-record") for each in found.find("dot")]
    assert "t0198203" in stand
    assert "t1" not in stand


def test_words_by_hand() -> None:
    assert [duration(each) for each in (900_000, 773_809, 8_580_000, 40)] == [
        "15 min",
        "12 min 53.809 s",
        "2 h 23 min",
        "40 ms",
    ]
    assert (counted(6), counted(250)) == ("Six", "250")
    assert WORDS.money(268367, code=True) == "EUR 2,683.67"
    assert WORDS.clock(at("14:04:16.550")) == "14:04:16.550"
    assert WORDS.held(BARS[1]) == "at least 1,500.00"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [*TIMELINES, "correlation"])
def test_it_is_as_wide_as_reported_and_has_nothing_that_the_policy_bans(name: str, width: int) -> None:
    found = drawn({**TIMELINES, "correlation": CORRELATION}[name], width)
    text = found.__html__()
    assert (found.attribute("width"), found.attribute("viewBox")) == (
        str(width),
        f"0 0 {width} {found.attribute('height')}",
    )
    assert found.attribute("aria-label")
    assert "style=" not in text
    assert "<script" not in text
    ET.fromstring(text)  # noqa: S314 - our own text
    for each in re.findall(r' class="([^"]*)"', text):
        for part in each.split():
            assert re.search(rf"\.{part}\b", CSS) or part in {"dot", "key"}, part


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", list(TIMELINES))
def test_all_that_is_drawn_lies_within_it(name: str, width: int) -> None:
    for each in drawn(TIMELINES[name], width).find("hit"):
        assert 0 <= float(each.attribute("cx") or each.attribute("x") or -1) <= width


def test_the_window_and_its_crossing_by_hand() -> None:
    """872 px: the widest label is 0, 3 or 6, one figure of 6.6 px between margins of 8; 16 px are free at the right."""
    found = drawn(SENDERS)
    left, right = 8 + 6.6 + 8, 872 - 16
    low, high = SENDERS.from_ms, SENDERS.to_ms + (SENDERS.to_ms - SENDERS.from_ms) // 50

    def x(text: str) -> str:
        return px(left + (at(text) - low) / (high - low) * (right - left))

    (window,) = found.find("win")
    assert window.attribute("x") == x("13:49:16.550")
    assert found.find("edge")[0].attribute("d") == f"M{x('13:49:16.550')} 16L{x('13:49:16.550')} 200"
    assert found.find("cross-l")[0].attribute("d") == f"M{x('14:04:16.550')} 16L{x('14:04:16.550')} 200"
    # The lane of figures is 70 px high, and its top is 8, the highest figure: 6 stands at 106 - 70 * 6 / 8.
    assert found.find("thr")[0].attribute("d") == f"M{px(left)} 53.5L{px(right)} 53.5"
    assert next(each.attribute("cy") for each in found.find("hit")) == "53.5"


def test_each_record_has_its_mark_and_the_largest_amount_the_longest_stem() -> None:
    found = drawn(SENDERS)
    dots = [each for each in found.find("dot") if each.attribute("data-record")]
    assert {each.attribute("data-record") for each in dots} == {each.record_id for each in SENDERS.records}
    tops = {each.attribute("data-record"): each.find("in-w")[0].attribute("cy") for each in dots if each.find("in-w")}
    assert tops["t0198604"] == "150"  # 379.95, of all the most: the top of its lane
    assert len(found.find("skip")) == 1


def test_above_sixty_records_are_columns_and_red_from_the_crossing_on() -> None:
    found = drawn(MANY)
    (crossing,) = [each for each in found.find("hit") if each.tag == "circle"]
    red = [float(each.attribute("x") or 0) for each in found.find("hit") if each.tag == "rect"]
    grey = [float(each.attribute("x") or 0) for each in found.find("col")]
    assert max(grey) < min(red)
    assert min(red) - 9 < float(crossing.attribute("cx") or 0)
    many = replace(SENDERS, records=tuple(mark(f"r{n}", "14:00:00", "counted") for n in range(60)))
    assert not drawn(many).find("col")


def test_names_say_what_one_would_conclude() -> None:
    assert drawn(SENDERS).attribute("aria-label") == (
        "13 payments from 13:45:30 to 14:06:10. Senders reaches 6 at 14:04:16.550; the threshold is 6."
    )
    assert drawn(TRAVEL).attribute("aria-label") == "1,199 km in 6 min 39 s, 10,821 km/h; the threshold is 500 km/h."
    assert drawn(ABSENCE).attribute("aria-label") == (
        "Two payments from 14:16:00 to 14:28:00. "
        "What was due within 10 min of t0200117, until 14:28:00.000, did not come."
    )
    assert "3 of 3 wrong CVV, then 1 of 1 approved" in (drawn(SEQUENCE).attribute("aria-label") or "")


def test_a_great_circle_goes_north_and_over_the_date_line() -> None:
    assert PACIFIC.travel is not None
    points = great_circle(PACIFIC.travel.start, PACIFIC.travel.end)
    assert points[0] == pytest.approx((139.69, 35.68))
    assert points[-1] == pytest.approx((360 - 122.42, 37.77))
    assert max(latitude for _, latitude in points) == pytest.approx(48.6, abs=0.5)  # north of both
    longitudes = [each for each, _ in points]
    assert longitudes == sorted(longitudes)


def test_the_threshold_stands_in_the_middle_of_every_bar() -> None:
    for bar in BARS:
        found = figure_bar(bar, 480, WORDS)
        assert found.find("tk")[0].attribute("x") == "239"
    red = figure_bar(BARS[1], 480).find("over")[0]  # 1,865.78 of 1,500: 298.5 px of 480
    assert (red.attribute("x"), red.attribute("width")) == ("240", "58.5")
    assert len(figure_bar(BARS[3], 480).find("over")) == 2  # with an arrow
    lacks = figure_bar(BARS[4], 480).find("over")[0]  # 302.5 under 500: red is what lacks
    assert (lacks.attribute("x"), lacks.attribute("width")) == ("145.2", "94.8")
    assert not figure_bar(BARS[5], 480).find("over")


def test_a_bar_without_a_scale_is_empty_and_says_why() -> None:
    found = figure_bar(FigureBar("f", "", None, 0, ">", "", None, beyond=False, met=False), 480)
    assert not found.find("v1")
    assert found.attribute("aria-label") == "f: \u2013, over 0"


def test_a_sparkline_is_red_beyond_its_band_alone() -> None:
    assert sparkline([1, 2, 3], 112, (0, 4)).attribute("class") == "ch spark"
    assert sparkline([1, 2, 9], 112, (0, 4)).attribute("class") == "ch spark bad"
    path = next(each for each in sparkline([0, None, 10], 106).children if isinstance(each, Element))
    assert path.attribute("d") == "M3 17M103 3"


def test_a_histogram_by_hand() -> None:
    found = histogram([1, 4], 0, 100, 536, 200, 150, "n")
    x = Scale(0, 216, 12, 512)
    assert [each.attribute("x") for each in found.find("col")] == [px(x(0) + 0.5), px(x(50) + 0.5)]
    assert [each.attribute("height") for each in found.find("col")] == ["20.5", "82"]


def test_marks_differ_in_shape() -> None:
    shapes = {mark: re.sub(r'class="[^"]*" ?', "", key(mark).__html__()) for mark in LEGEND}
    assert len({shapes[each] for each in ("counted", "before", "outside", "filtered", "crossing")}) >= 4
    assert shapes["outside"] == shapes["after"]


def test_the_table_is_the_timeline_as_text() -> None:
    rows = record_rows(SENDERS, ["account_id"], WORDS)
    assert (rows[2].record_id, rows[2].time, rows[2].amount, rows[2].fields) == (
        "t0198479",
        "13:51:22.741",
        "308.17",
        ("a1",),
    )
    assert len(rows) == len(SENDERS.records)


def test_the_context_of_a_correlation() -> None:
    rate = replace(mark("r1", "14:10:00", "counted", lane=1), fields={"rate": 1.08})
    own = replace(mark("t1", "14:20:00", "crossing"), fields={"rate_used": 1.1})
    found = context_of(replace(CORRELATION, records=(rate, own)), "rate", "rate_used")
    assert found == ComparedValue([(at("14:10:00"), 1.08)], 1.1)


def test_text_is_escaped_and_style_is_refused() -> None:
    hostile = replace(SENDERS, figure="<script>alert(1)</script>")
    assert "<script" not in drawn(hostile).__html__()
    for name in ("style", "onload"):
        with pytest.raises(ValueError, match="no attribute of a chart"):
            element("g", **{name: "x"})


def test_a_rule_that_looks_at_the_record_alone_has_no_drawing() -> None:
    assert chart(replace(SENDERS, shape="none"), 872) is None
