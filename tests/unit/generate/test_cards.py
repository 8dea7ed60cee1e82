"""The card scenario: labels that fit the records, frauds that look like their kind, any cut equal to the whole."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.errors import PermanentError, UsageError
from crossline.generate.cards import CardWorkload
from crossline.generate.frauds import EPOCH_MS, SCENARIOS, Scene, plan_epoch
from crossline.generate.labels import PlantedFraud, label_lines, read_labels, rfc3339

WORKLOAD = CardWorkload(seed=5)
COUNT = 50_000  # a little over two epochs

Row = dict[str, Any]


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    return {row["transaction_id"]: row for row in map(json.loads, WORKLOAD.lines(0, COUNT).splitlines())}


@pytest.fixture(scope="module")
def labels() -> list[PlantedFraud]:
    return WORKLOAD.labels(0, COUNT)


def planted(rows: dict[str, Row], labels: list[PlantedFraud], scenario: str) -> list[list[Row]]:
    chosen = [label for label in labels if label.scenario == scenario and label.complete]
    assert len(chosen) >= 4
    return [[rows[record_id] for record_id in label.record_ids] for label in chosen]


def test_labels_fit_their_records(rows: dict[str, Row], labels: list[PlantedFraud]) -> None:
    seen: set[str] = set()
    for label in labels:
        assert not seen.intersection(label.record_ids)
        seen.update(label.record_ids)
        for record_id in label.record_ids:
            row = rows[record_id]
            assert label.start_ms <= row["event_time"] <= label.end_ms
            shares_key = all(row[field] == value for field, value in label.key.items())
            assert shares_key
    assert {label.scenario for label in labels} == set(SCENARIOS)
    assert len({label.fraud_id for label in labels}) == len(labels)


def test_no_record_reports_that_it_was_planted(rows: dict[str, Row], labels: list[PlantedFraud]) -> None:
    names = {tuple(row) for row in rows.values()}
    assert len(names) == 1
    assert not {"label", "fraud_id", "scenario"} & set(next(iter(names)))


def test_card_testing_is_many_tiny_declined_payments_and_a_dear_one(
    rows: dict[str, Row], labels: list[PlantedFraud]
) -> None:
    for fraud in planted(rows, labels, "card_testing"):
        *tries, last = fraud
        assert all(row["amount_cents"] < 250 and not row["cvv_ok"] for row in tries)
        assert sum(row["status"] == "declined" for row in tries) >= len(tries) // 2
        assert len({row["card_hash"] for row in tries}) == 3
        assert last["amount_cents"] >= 80_000
        assert last["status"] == "approved"


def test_account_takeover_empties_an_account_from_a_new_device(
    rows: dict[str, Row], labels: list[PlantedFraud]
) -> None:
    for fraud in planted(rows, labels, "account_takeover"):
        assert sum(row["amount_cents"] for row in fraud) >= 240_000
        assert {row["payment_type"] for row in fraud} <= {"CSH", "TRF"}
        devices = {row["device_id"] for row in fraud}
        others = [row for row in rows.values() if row["device_id"] in devices and row not in fraud]
        assert (len(devices), others) == (1, [])


def test_impossible_travel_is_one_card_in_two_countries_in_minutes(
    rows: dict[str, Row], labels: list[PlantedFraud]
) -> None:
    for fraud in planted(rows, labels, "impossible_travel"):
        assert len({row["card_hash"] for row in fraud}) == 1
        assert len({row["country"] for row in fraud[:2]}) == 2
        assert fraud[1]["event_time"] - fraud[0]["event_time"] <= 160_000


def test_mule_fan_in_is_many_senders_and_one_beneficiary(rows: dict[str, Row], labels: list[PlantedFraud]) -> None:
    for fraud in planted(rows, labels, "mule_fan_in"):
        assert len({row["account_id"] for row in fraud}) == len(fraud) >= 10
        assert {row["merchant_id"] for row in fraud} == {None}
        assert len({row["beneficiary_id"] for row in fraud}) == 1


def test_merchant_anomaly_is_many_dear_payments_at_one_merchant(
    rows: dict[str, Row], labels: list[PlantedFraud]
) -> None:
    for fraud in planted(rows, labels, "merchant_anomaly"):
        assert len(fraud) >= 25
        assert min(row["amount_cents"] for row in fraud) >= 25_000


def test_everyday_traffic_is_plausible(rows: dict[str, Row], labels: list[PlantedFraud]) -> None:
    planted_ids = {record_id for label in labels for record_id in label.record_ids}
    everyday = [row for record_id, row in rows.items() if record_id not in planted_ids]
    assert len(planted_ids) / COUNT < 0.015
    assert sum(row["status"] == "declined" for row in everyday) / len(everyday) == pytest.approx(0.03, abs=0.005)
    transfers = {row["payment_type"] == "TRF": (row["merchant_id"], row["beneficiary_id"]) for row in everyday[:200]}
    assert transfers[True][0] is None
    assert transfers[False][1] is None
    abroad = {}
    for row in everyday:
        abroad.setdefault(row["account_id"], set()).add(row["country"])
    travellers = sum(len(countries) > 1 for countries in abroad.values())
    assert 0 < travellers < 0.02 * len(abroad)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 40_000), min_size=1, max_size=4))
def test_any_cut_equals_the_whole(cuts: list[int]) -> None:
    bounds = [0, *sorted(cuts), 40_000]
    parts = [WORKLOAD.lines(low, high - low) for low, high in pairwise(bounds)]
    assert b"".join(parts) == WORKLOAD.lines(0, 40_000)


def test_a_cut_fraud_is_labelled_as_incomplete_in_both_parts(labels: list[PlantedFraud]) -> None:
    whole = next(label for label in labels if len(label.record_ids) > 5)
    cut = int(whole.record_ids[3][1:])
    before = {label.fraud_id: label for label in WORKLOAD.labels(0, cut)}[whole.fraud_id]
    after = {label.fraud_id: label for label in WORKLOAD.labels(cut, COUNT - cut)}[whole.fraud_id]
    assert not before.complete
    assert not after.complete
    assert before.record_ids + after.record_ids == whole.record_ids
    assert WORKLOAD.labels(0, 0) == []


@pytest.mark.parametrize("rate_per_s", [1, 20, 2_000])
def test_every_fraud_lies_inside_its_epoch_on_places_of_its_own(rate_per_s: int) -> None:
    setting = Scene(3, 20_000, 1_000, 20_000, rate_per_s, 2)
    for epoch in range(30):
        places = [place for fraud in plan_epoch(setting, epoch) for place in fraud.positions]
        assert len(set(places)) == len(places)
        assert epoch * EPOCH_MS * rate_per_s // 1_000 <= min(places)
        assert max(places) < (epoch + 1) * EPOCH_MS * rate_per_s // 1_000


def test_no_frauds_leave_only_the_background() -> None:
    quiet = CardWorkload(seed=5, frauds_per_epoch=0)
    assert quiet.labels(0, COUNT) == []
    whole, background = WORKLOAD.records(0, 2_000).to_pylist(), quiet.records(0, 2_000).to_pylist()
    changed = {row["transaction_id"] for row, other in zip(whole, background, strict=True) if row != other}
    assert changed == {record_id for label in WORKLOAD.labels(0, 2_000) for record_id in label.record_ids}


def test_labels_are_read_back_as_written(labels: list[PlantedFraud]) -> None:
    assert read_labels(label_lines(labels)) == labels
    assert rfc3339(1_767_225_607_120) == "2026-01-01T00:00:07.120Z"
    with pytest.raises(PermanentError, match=r"labels, line 2: not a label .*crossline generate cards --labels"):
        read_labels(label_lines(labels[:1]) + b"{}\n")


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(UsageError, match="accounts is 10; it must be 1000 or more"):
        CardWorkload(accounts=10)


def test_kinds_that_are_planted_stand_where_they_stand_beside_others(
    rows: dict[str, Row], labels: list[PlantedFraud]
) -> None:
    some = CardWorkload(seed=5, kinds=("mule_fan_in", "card_testing"))
    mine = [label for label in labels if label.scenario in {"mule_fan_in", "card_testing"}]
    assert mine == some.labels(0, COUNT)
    given = {row["transaction_id"]: row for row in map(json.loads, some.lines(0, COUNT).splitlines())}
    others = {record_id for label in labels if label not in mine for record_id in label.record_ids}
    assert {name for name in rows if rows[name] != given[name]} == others


def test_an_unknown_kind_is_reported_with_the_known() -> None:
    with pytest.raises(UsageError, match="'robbery'; known: card_testing, account_takeover"):
        CardWorkload(kinds=("mule_fan_in", "robbery"))
