"""The brute force of ``bench.rolling``: figures in both orders, where a rule begins to hold, and the comparison."""

from __future__ import annotations

import io
import math

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.json
import pytest
from bench.peers.answers import Compared, compare, count, expected, reported
from bench.peers.naive import RULES, holds
from bench.workload import R5

from crossline.generate.tx import TxWorkload

from .quick import quick_detect, with_times

NAMES = [rule for rule, *_ in RULES]
# Few keys and much disorder, so that every rule has answers and many of them differ between the orders.
HOT = TxWorkload(seed=3, accounts=40, merchants=6, disorder_ms=4_000, rate_per_s=20)
LINES = HOT.lines(0, 600)
RECORDS = [orjson.loads(line) for line in LINES.splitlines()]


def table() -> pa.Table:
    return pa.json.read_json(io.BytesIO(LINES))


def figure(rule: str, place: int, *, later: bool) -> float:
    """By definition; NaN where there is no answer."""
    _, keys, window_ms, aggregate = next(each for each in RULES if each[0] == rule)
    mine = RECORDS[place]
    if aggregate == "avg" and mine["payment_type"] != "CSH":
        return math.nan
    amounts = [
        other["amount_cents"]
        for other in (RECORDS if later else RECORDS[: place + 1])
        if all(other[key] == mine[key] for key in keys)
        and mine["event_time"] - window_ms < other["event_time"] <= mine["event_time"]
        and (aggregate != "avg" or other["payment_type"] == "CSH")
    ]
    value = {"count": len(amounts), "sum": sum(amounts), "avg": sum(amounts) / len(amounts)}[aggregate]
    return value if holds(rule, value) else math.nan


@pytest.mark.parametrize("order", ["event", "arrival"])
def test_figures_are_those_of_the_definition(order: str) -> None:
    found = expected(table(), NAMES, "event" if order == "event" else "arrival")
    for rule in NAMES:
        by_hand = [figure(rule, place, later=order == "event") for place in range(len(RECORDS))]
        np.testing.assert_array_equal(found[rule], by_hand, err_msg=rule)
    assert count({rule: found[rule] for rule in ("account_count", "merchant_count", "pair_sum")}) > 100


def test_the_orders_differ_under_disorder() -> None:
    apart = compare(expected(table(), NAMES, "event"), expected(table(), NAMES, "arrival"))
    assert min(apart.right, apart.wrong, apart.missing) > 10


def test_a_rule_begins_to_hold_where_the_twin_has_a_hit() -> None:
    found = expected(table(), NAMES, "arrival", crossings=True)
    hits = quick_detect(R5, with_times(RECORDS, "transaction_id", "event_time"))
    ids = [record["transaction_id"] for record in RECORDS]
    twin = reported(((hit.rule_id, hit.record_id, hit.value or 0) for hit in hits), NAMES, ids)
    assert compare(twin, found) == Compared(len(hits), 0, 0, 0)
    assert 0 < len(hits) < count(expected(table(), NAMES, "arrival"))


def test_each_kind_of_difference_is_counted() -> None:
    ids = ["a", "b", "c", "d"]
    wanted = reported([("r", "a", 10), ("r", "b", 11), ("r", "c", 12)], ["r"], ids)
    given = reported([("r", "a", 10), ("r", "b", 12), ("r", "d", 10)], ["r"], ids)
    assert compare(wanted, given) == Compared(right=1, wrong=1, missing=1, extra=1)
    assert count(wanted) == 3


def test_a_second_answer_and_an_unknown_record_are_refused() -> None:
    with pytest.raises(ValueError, match=r"two answers of r to a: 10\.0 and 11; expected one"):
        reported([("r", "a", 10), ("r", "a", 11)], ["r"], ["a"])
    with pytest.raises(KeyError, match="z"):
        reported([("r", "z", 10)], ["r"], ["a"])
