"""The tx workload: its statistics as published, and any cut of it equal to the whole."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.errors import UsageError
from crossline.generate.tx import BLOCK, TxWorkload, account_shares, tx_lines, tx_records

SAMPLE = 200_000


@pytest.fixture(scope="module")
def sample() -> pa.Table:
    return tx_records(0, SAMPLE, 7)


def test_the_columns_are_the_published_ones(sample: pa.Table) -> None:
    assert sample.column_names == [
        "transaction_id", "account_id", "card_hash", "merchant_id", "amount_cents", "currency", "lat", "lon",
        "event_time", "payment_type",
    ]  # fmt: skip
    assert sample.num_rows == SAMPLE
    assert all(column.null_count == 0 for column in sample.columns)
    assert sample["transaction_id"][7].as_py() == "t0000007"


def test_ids_are_unique_beyond_seven_digits() -> None:
    ids = TxWorkload().records(9_999_990, 20)["transaction_id"].to_pylist()
    assert ids == [f"t{number:07d}" for number in range(9_999_990, 10_000_010)]


def test_no_account_takes_more_than_one_percent(sample: pa.Table) -> None:
    counts = pc.value_counts(sample["account_id"]).field("counts").to_numpy()
    # One per cent plus five standard deviations of a share counted in this sample.
    assert counts.max() / SAMPLE <= 0.01 + 5 * (0.01 * 0.99 / SAMPLE) ** 0.5
    assert counts.max() / SAMPLE >= 0.008


@pytest.mark.parametrize("accounts", [1, 50, 1_000, 50_000])
def test_shares_are_zipf_below_the_limit_and_sum_to_one(accounts: int) -> None:
    shares = np.diff(account_shares(accounts), prepend=0.0)
    limit = max(0.0095, 1 / accounts)
    assert shares.sum() == pytest.approx(1.0)
    assert shares.max() <= limit * (1 + 1e-9)
    free = np.flatnonzero(shares < limit * (1 - 1e-6))
    ranks = free + 1.0
    products = shares[free] * ranks**1.1
    assert np.allclose(products, products[:1], rtol=1e-6)


def test_amounts_are_log_normal_around_2500_cents(sample: pa.Table) -> None:
    amounts = sample["amount_cents"].to_numpy()
    assert np.median(amounts) == pytest.approx(2_500, rel=0.02)
    assert np.log(amounts).std() == pytest.approx(1.0, rel=0.02)
    assert amounts.min() >= 1


def test_event_time_runs_at_the_rate_and_within_the_disorder(sample: pa.Table) -> None:
    times = sample["event_time"].to_numpy()
    assert times.min() >= 1_767_225_600_000
    assert times.max() - times.min() == pytest.approx(SAMPLE / 2_000 * 1_000, abs=2_100)
    behind = np.maximum.accumulate(times) - times
    assert 1_900 < behind.max() <= 2_000
    assert (behind > 0).mean() > 0.5


def test_merchants_types_and_places_spread_as_stated(sample: pa.Table) -> None:
    assert pc.count_distinct(sample["merchant_id"]).as_py() == 2_000
    cash = pc.mean(pc.cast(pc.equal(sample["payment_type"], "CSH"), "int8")).as_py()
    assert cash == pytest.approx(0.20, abs=0.005)
    assert pc.min_max(sample["lat"]).as_py()["min"] >= -90
    assert pc.min_max(sample["lat"]).as_py()["max"] <= 90
    assert pc.min_max(sample["lon"]).as_py()["min"] >= -180
    assert pc.min_max(sample["lon"]).as_py()["max"] <= 180


def test_a_card_belongs_to_one_account(sample: pa.Table) -> None:
    pairs = sample.group_by(["card_hash", "account_id"]).aggregate([]).num_rows
    assert pairs == pc.count_distinct(sample["card_hash"]).as_py()


def test_lines_parse_to_the_records() -> None:
    lines = tx_lines(0, 5_000, 7).splitlines(keepends=True)
    assert all(200 <= len(line) <= 240 for line in lines)
    assert [json.loads(line) for line in lines] == tx_records(0, 5_000, 7).to_pylist()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 3 * BLOCK), min_size=1, max_size=4))
def test_any_cut_equals_the_whole(cuts: list[int]) -> None:
    workload = TxWorkload(seed=3)
    end = 2 * BLOCK + 1_000
    bounds = [0, *sorted(min(cut, end) for cut in cuts), end]
    parts = b"".join(workload.lines(low, high - low) for low, high in pairwise(bounds))
    assert parts == workload.lines(0, end)


def test_seeds_differ_and_devices_leave_the_rest_alone() -> None:
    plain, other = tx_records(0, 1_000, 1), tx_records(0, 1_000, 2)
    assert plain["account_id"] != other["account_id"]
    with_device = TxWorkload(seed=1, with_device=True).records(0, 1_000)
    assert with_device.drop_columns("device_id") == plain
    assert with_device["device_id"].null_count == 0


def test_rate_base_and_accounts_are_parameters() -> None:
    table = TxWorkload(accounts=10, rate_per_s=10, disorder_ms=0, base_ms=5_000).records(0, 100)
    assert table["event_time"].to_pylist() == [5_000 + number * 100 for number in range(100)]
    assert pc.count_distinct(table["account_id"]).as_py() == 10


def test_an_empty_range_has_columns_and_bad_parameters_are_refused() -> None:
    assert tx_records(5, 0, 1).num_rows == 0
    assert tx_lines(5, 0, 1) == b""
    with pytest.raises(UsageError, match="accounts is 0; it must be 1 or more"):
        TxWorkload(accounts=0)
    with pytest.raises(UsageError, match="start is -1"):
        tx_records(-1, 5, 1)
