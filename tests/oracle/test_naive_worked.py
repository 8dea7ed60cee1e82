"""The naive twin against examples worked by hand: windows, crossing, lateness, aggregates."""

from __future__ import annotations

from typing import Any

import pytest

from .naive import Hit
from .worked import EVERY, click, detect, ids, rule, values


def test_the_articles_twelve_clicks_give_one_alert_at_the_tenth() -> None:
    body = rule(aggregation_threshold=10)
    (hit,) = detect(body, *[click(500 * i) for i in range(12)]).hits
    # Clicks at 0, 500, ... 5500; the tenth is at 4500. Its window began at 4500 - 10000.
    assert hit == Hit(
        alert_id=hit.alert_id,
        rule_id="r",
        version=1,
        key={"user": "u1"},
        record_id="t4500",
        position=9,
        kind="alert",
        value=10,
        count=10,
        window_start_ms=-5500,
        window_end_ms=4500,
        evidence=("t0", "t500", "t1000", "t1500", "t2000", "t2500", "t3000", "t3500", "t4000", "t4500"),
    )


def test_window_size_and_unit_as_in_the_article() -> None:
    body = rule(window=None, window_size=10, window_unit="seconds")
    assert ids(detect(body, click(0), click(1), click(9999), click(10_000))) == ["t9999"]


def test_equal_times_count_in_ingest_order() -> None:
    clicks = [click(700, id_=name) for name in "abcd"]
    # The third of four at the same instant sees the two before it and not the one after it.
    (hit,) = detect(rule(), *clicks).hits
    assert (hit.record_id, hit.value, hit.evidence) == ("c", 3, ("a", "b", "c"))


@pytest.mark.parametrize(
    ("bounds", "include_current", "expected"),
    [
        # Records at 0, 5000, 10000 (a) and 10000 (b); w = 10000. What each record's window counts:
        ("(]", None, [1, 2, 2, 3]),  # 0 is out at 10000; a sees itself, b sees a
        ("[]", None, [1, 2, 3, 4]),  # 0 is in at 10000
        ("[)", None, [0, 1, 2, 2]),  # without itself, and b without a, which has b's time
        ("(]", False, [0, 1, 1, 2]),
        ("[]", False, [0, 1, 2, 3]),
        ("[)", True, [1, 2, 3, 3]),
    ],
)
def test_bounds_at_exactly_the_edges(bounds: str, include_current: bool | None, expected: list[int]) -> None:
    body = rule(**EVERY, bounds=bounds, include_current=include_current)
    clicks = [click(0), click(5000), click(10_000, id_="a"), click(10_000, id_="b")]
    assert [value for _, value in values(body, *clicks)] == expected


def test_rearms_when_the_satisfied_record_has_left_the_window() -> None:
    # >= 1 is satisfied at every record. 9999 still has 0 in its window; 19999 has lost 9999 exactly; 20000 has 19999.
    body = rule(aggregation_threshold=1)
    assert ids(detect(body, click(0), click(9999), click(19_999), click(20_000))) == ["t0", "t19999"]


@pytest.mark.parametrize("bounds", ["[]", "[)"])
def test_rearms_by_the_left_bound_of_the_window(bounds: str) -> None:
    # Closed on the left: 10000 still has 0 in its window, 20001 has lost 10000.
    body = rule(aggregation_threshold=0, bounds=bounds)
    assert ids(detect(body, click(0), click(10_000), click(20_001))) == ["t0", "t20001"]


def test_rearms_after_a_dip_below_the_line() -> None:
    # 0 -> 1, 1000 -> 2, 2000 -> 3 hit, 11500 -> {2000, 11500} = 2 dips, 11600 -> 3 hit again, 11700 -> 4 stays above.
    clicks = [click(t) for t in (0, 1000, 2000, 11_500, 11_600, 11_700)]
    assert ids(detect(rule(), *clicks)) == ["t2000", "t11600"]


def test_emit_every_hits_at_every_satisfied_record() -> None:
    assert ids(detect(rule(emit="every"), *[click(t) for t in (0, 1, 2, 3)])) == ["t2", "t3"]


def test_cooldown_suppresses_and_the_suppressed_still_count_as_satisfied() -> None:
    every = rule(emit="every", aggregation_threshold=1, cooldown="4s")
    # Emitted at 0; 3999 is within the 4 s; 4000 is not, and starts 4 s anew; 7999 is within, 8000 is not.
    assert ids(detect(every, *[click(t) for t in (0, 3999, 4000, 7999, 8000)])) == ["t0", "t4000", "t8000"]
    crossing = rule(window="1s", aggregation_threshold=2, cooldown="4s")
    # Pairs within 1 s: 0 and 100 hit at 100. 2000 and 2100 cross at 2100, suppressed (< 4100). 2900: count 3, the
    # satisfied 2100 is still in its window: no crossing. 3800: {2900, 3800}, satisfied, after 2900: none. 4700: {3800,
    # 4700}, satisfied, cooldown over, but still the same crossing. 6000 and 6100: a new one.
    clicks = [click(t) for t in (0, 100, 2000, 2100, 2900, 3800, 4700, 6000, 6100)]
    assert ids(detect(crossing, *clicks)) == ["t100", "t6100"]


def test_an_out_of_order_record_is_judged_at_its_own_time() -> None:
    body = rule(**EVERY)
    # 5000 comes last, after 20000. Its window (-5000, 5000] has 1000 and itself: 6000 and 20000 lie ahead of it.
    clicks = [click(1000), click(6000), click(20_000), click(5000, ingest_ms=20_500)]
    assert values(body, *clicks) == [("t1000", 1), ("t6000", 2), ("t20000", 1), ("t5000", 2)]
    # From then on it counts: 14000 sees 5000 and 6000 and itself; 20000 is ahead.
    late = click(14_000, ingest_ms=20_600)
    assert values(body, *clicks, late)[-1] == ("t14000", 3)


def test_crossing_goes_by_ingest_order() -> None:
    body = rule(aggregation_threshold=2)
    # 20000: 1. 19000 (later): 1, since 20000 lies ahead. 20001: {19000, 20000, 20001} = 3, hit. 15000 (late): alone, 1,
    # and so the key is below again; 20002 = 5 crosses once more.
    clicks = [
        click(20_000),
        click(19_000, ingest_ms=20_000),
        click(20_001),
        click(15_000, ingest_ms=20_001),
        click(20_002),
    ]
    assert [(h.record_id, h.value) for h in detect(body, *clicks).hits] == [("t20001", 3), ("t20002", 5)]


def test_late_policies_and_the_very_late() -> None:
    times = {"watermark_delay": "1s", "allowed_lateness": "3s"}
    clicks = [
        click(10_000),
        click(9500, ingest_ms=10_500),  # 1000 late: on time
        click(9400, ingest_ms=10_401),  # 1001 late: late
        click(8000, ingest_ms=11_000),  # 3000 late: late
        click(7999, ingest_ms=11_000),  # 3001 late: very late
        click(11_000),
    ]
    result = detect(rule(**EVERY, **times), *clicks)
    # 9400 is alone at its time when it comes, since 9500 and 10000 lie ahead; so is 8000. 11000 has five of six.
    assert [(h.record_id, h.value) for h in result.hits] == [
        ("t10000", 1),
        ("t9500", 1),
        ("t9400", 1),
        ("t8000", 1),
        ("t11000", 5),
    ]
    assert result.late == [4]
    skipping = detect(rule(**EVERY, **times, late_policy="skip"), *clicks)
    # The late ones enter, so 11000 still counts 5, but are not judged.
    assert [(h.record_id, h.value) for h in skipping.hits] == [("t10000", 1), ("t9500", 1), ("t11000", 5)]
    assert skipping.late == [4]


def test_skipped_records_leave_the_crossing_alone() -> None:
    body = rule(aggregation_threshold=2, window="5s", watermark_delay="1s", allowed_lateness="10s", late_policy="skip")
    # 10000: 1; 10100: 2, hit; 3000 is 7.1 s late, entered, not judged, so it is no dip; 10200: 3, the same crossing.
    clicks = [click(10_000), click(10_100), click(3000, ingest_ms=10_100), click(10_200)]
    assert ids(detect(body, *clicks)) == ["t10100"]


def test_processing_time_knows_no_lateness_and_runs_on_the_ingest_clock() -> None:
    body = rule(**EVERY, time_mode="processing_time", allowed_lateness="1s")
    # An hour late by event time; on the ingest clock it comes 9999 ms after the first, which is still in.
    clicks = [click(4_000_000), click(0, ingest_ms=4_009_999), click(1, ingest_ms=4_010_000)]
    result = detect(body, *clicks, defaults={"allowed_lateness": "2h"})
    assert [(h.record_id, h.value, h.window_end_ms) for h in result.hits] == [
        ("t4000000", 1, 4_000_000),
        ("t0", 2, 4_009_999),
        ("t1", 2, 4_010_000),
    ]
    assert result.late == []


AMOUNTS = [click(0, amount=4), click(1000, amount=10), click(2000, amount=4), click(3000, amount=6)]


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("sum", [4, 14, 18, 24]),
        ("avg", [4.0, 7.0, 6.0, 6.0]),
        ("min", [4, 4, 4, 4]),
        ("max", [4, 10, 10, 10]),
        ("first", [4, 4, 4, 4]),
        ("last", [4, 10, 4, 6]),
        ("distinct_count", [1, 2, 2, 3]),
        # One record has no deviation. {4, 10}: mean 7, 9 + 9 over 1 = 18. {4, 10, 4}: mean 6, 4 + 16 + 4 over 2 = 12.
        # {4, 10, 4, 6}: mean 6, 4 + 16 + 4 + 0 over 3 = 8.
        ("stddev", [18**0.5, 12**0.5, 8**0.5]),
    ],
)
def test_each_aggregate(aggregate: str, expected: list[float]) -> None:
    body = rule(**EVERY, aggregation_type=aggregate, aggregation_field="amount")
    assert [value for _, value in values(body, *AMOUNTS)] == expected


def test_averages_and_deviations_are_rounded_once() -> None:
    big = 2**53
    # (2**53 + 3) / 3 lies between two doubles; the sum rounded first, to 2**53 + 4, would give the next one up.
    average = rule(**EVERY, aggregation_type="avg", aggregation_field="amount")
    assert values(average, click(0, amount=1), click(1, amount=1), click(2, amount=big + 1))[-1] == (
        "t2",
        3002399751580331.5,
    )
    # 2**53 and 2**53 + 2 lie 1 from their mean each, which no double holds: the root of (1 + 1) / 1.
    deviation = rule(**EVERY, aggregation_type="stddev", aggregation_field="amount")
    assert values(deviation, click(0, amount=big), click(1, amount=big + 2)) == [("t1", 2**0.5)]


def test_there_is_one_zero() -> None:
    body = rule(**EVERY, aggregation_type="min", aggregation_field="amount", group_by="amount")
    hits = detect(body, click(0, amount=-0.0), click(1, amount=0.0)).hits
    assert [str(hit.value) for hit in hits] == ["0.0", "0.0"]
    assert [(hit.count, str(hit.key["amount"])) for hit in hits] == [(1, "0.0"), (2, "0.0")]


def test_first_and_last_go_by_the_clock_and_not_by_ingest() -> None:
    clicks = [click(5000, amount=5), click(1000, ingest_ms=5000, amount=1), click(6000, amount=6)]
    first = rule(**EVERY, aggregation_type="first", aggregation_field="amount")
    last = rule(**EVERY, aggregation_type="last", aggregation_field="amount", include_current=False)
    assert values(first, *clicks) == [("t5000", 5), ("t1000", 1), ("t6000", 1)]
    # 5000 and 1000 have nothing before them; the last before 6000 is 5000, though 1000 came after it.
    assert values(last, *clicks) == [("t6000", 5)]


def test_float_sums_are_rounded_once() -> None:
    body = rule(**EVERY, aggregation_type="sum", aggregation_field="amount", window="1h")
    amounts = [1e16, 1.0, -1e16, 0.1, 0.1, 0.1]
    # Added one by one, 1e16 + 1.0 would lose the 1.0. The double 0.1 is 5.6e-18 above a tenth: too little to matter.
    clicks = [click(i, amount=amount) for i, amount in enumerate(amounts)]
    assert [value for _, value in values(body, *clicks)] == [1e16, 1e16, 1.0, 1.1, 1.2, 1.3]


def test_an_average_of_the_past_alone() -> None:
    body = rule(aggregation_type="avg", aggregation_field="amount", aggregation_threshold=5, include_current=False)
    result = detect(body, *AMOUNTS)
    # 0: no past, undefined. 1000: {4} = 4. 2000: {4, 10} = 7, hit. 3000: {4, 10, 4} = 6, the same crossing.
    (hit,) = result.hits
    assert (hit.record_id, hit.value, hit.count, hit.evidence) == ("t2000", 7.0, 2, ("t0", "t1000"))


def test_an_empty_window_counts_zero_and_has_no_average() -> None:
    empty: dict[str, Any] = {"include_current": False, "operator": "<=", "aggregation_threshold": 0}
    for aggregate in ("sum", "distinct_count"):
        body = rule(**empty, aggregation_type=aggregate, aggregation_field="amount")
        assert values(body, click(0, amount=4)) == [("t0", 0)]
    assert values(rule(**empty), click(0)) == [("t0", 0)]
    for aggregate in ("avg", "min", "max", "first", "last", "stddev"):
        body = rule(**empty, aggregation_type=aggregate, aggregation_field="amount")
        assert values(body, click(0, amount=-4)) == []
