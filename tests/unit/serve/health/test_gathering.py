"""Costs out of batches, parity out of answers, predictions out of proofs; and all of it through the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.serve.http.kit import NOW_MS, Client, FakeLedger, project, served

from crossline.analysis.forecast import DailyForecast
from crossline.analysis.health.shares import Precision
from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink
from crossline.io.stores.factory import open_store
from crossline.io.stores.protocol import AlertFilter
from crossline.lake.parity.report import (
    AlertDifference,
    DecisionDifference,
    DecisionParity,
    ParityReport,
    RuleParity,
    write_report,
)
from crossline.serve.health.reader import costs_of, facts_of, parity_of, prediction_of
from crossline.serve.health.values import Parity, Prediction, RuleCost

from .scene import DAY_MS, alert, alerts_of, publish, take


def test_costs_are_shares_of_what_the_last_batches_measured() -> None:
    batches = [
        ("2026-01-05T09:00:10.000Z", {"records": 3_000, "cost_ms": {"rules": {"burst@2": 3.0, "mule@1": 1.0}}}),
        ("2026-01-05T09:00:05.000Z", {"records": 1_000, "cost_ms": {"rules": {"burst@1": 1.0}, "others": 3.0}}),
        ("2026-01-05T09:00:00.000Z", {}),
    ]
    when = ("2026-01-05T09:00:00.000Z", "2026-01-05T09:00:10.000Z")
    # 4 ms for 4,000 records are 1 µs each; of 8 ms of rules they are half.
    assert costs_of(batches) == {"burst": RuleCost(1.0, 0.5, *when), "mule": RuleCost(0.25, 0.125, *when)}
    assert costs_of([]) == costs_of([("2026-01-05T09:00:00.000Z", {"records": 5})]) == {}


def test_a_prediction_is_scaled_to_the_currency_and_another_field_is_left_out() -> None:
    body = {"per_day": 4.0, "low": 0.0, "high": 9.0, "days": 8.0}
    assert prediction_of(3, 77, body, None) == Prediction(3, 77, DailyForecast(4.0, 0.0, 9.0, 8.0))
    body |= {
        "money": {"field": "amount_cents", "per_day": 1_200.0, "low": 300.0, "high": 2_100.0, "days": 8.0},
        "precision": {"true": 40, "labels": 50, "value": 0.8, "low": 0.67, "high": 0.89},
    }  # type: ignore[operator]
    found = prediction_of(3, 77, body, ("amount_cents", 2))
    assert found.money == DailyForecast(12.0, 3.0, 21.0, 8.0)
    assert found.precision == Precision(40, 50)
    assert prediction_of(3, 77, body, ("price", 2)).money is None
    assert prediction_of(3, 77, body, None).money is None


class Alerts:
    """A store with alerts by rule."""

    def __init__(self, by_rule: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self._by_rule = by_rule

    def alerts(self, which: AlertFilter, limit: int | None = None) -> Iterator[Mapping[str, Any]]:
        yield from self._by_rule.get(str(which.rule_id), ())[:limit]


def answer(record_id: str, *rules: str) -> dict[str, Any]:
    return {"stream": "payments", "record_id": record_id, "reasons": [{"rule_id": each} for each in rules]}


def test_parity_compares_the_figure_of_the_same_record_and_decisions_that_differ() -> None:
    stream = {"burst": [alert(name, "burst", 0, value=value) for name, value in (("a", 7), ("b", 8), ("c", 9))]}
    kept = FakeLedger(
        answered={"d1": answer("r-x", "mule", "burst"), "d2": answer("r-y", "mule")},
        revised={"d1": [answer("r-x", "burst")], "d2": [answer("r-y", "mule")]},
        receipts={
            "d3": {"decision": answer("r-a"), "figures": [{"name": "burst", "value": 7}]},
            "d4": {"decision": answer("r-b"), "figures": [{"name": "burst", "value": 6}]},
        },
    )
    found = parity_of(kept, Alerts(stream), ["burst", "mule", "quiet"], NOW_MS)  # type: ignore[arg-type]
    # Of a, b and c the API answered a and b; mule was a reason of r-x in the answer alone.
    assert found == {"burst": Parity(2, 1, 0), "mule": Parity(0, 0, 2), "quiet": Parity(0, 0, 0)}
    assert parity_of(None, Alerts(stream), ["burst"], NOW_MS) == {}  # type: ignore[arg-type]


def test_of_rules_the_version_in_force_counts_and_drafts_are_none() -> None:
    body = {"owner": "risk", "description": "many"}
    row = {"rule_id": "burst", "version": 3, "rule_type": "velocity", "severity": "high", "body": body}
    (facts,) = facts_of([{**row, "status": "active"}, {**row, "version": 4, "status": "draft"}], [])
    assert (facts.rule_id, facts.version, facts.owner, facts.sentence, facts.since_day) == (
        *("burst", 3, "risk", "many"),
        None,
    )


@pytest.fixture
def api(tmp_path: Path) -> Iterator[tuple[Client, Path, Path]]:
    folder, path = project(tmp_path), tmp_path / "serve"
    path.mkdir(mode=0o700)
    now_ms = NOW_MS + 20 * DAY_MS
    with served(folder, path, now_ms=lambda: now_ms) as client:
        yield client, folder, path


def test_the_api_says_how_each_rule_does(api: tuple[Client, Path, Path]) -> None:
    client, folder, path = api
    now_ms = NOW_MS + 20 * DAY_MS
    take(path, now_ms, alerts_of("large_payment", [4] * 20 + [2], now_ms))
    ahead = {"per_day": 20.0, "low": 10.0, "high": 30.0, "days": 30.0}
    publish(path, "large_payment", now_ms - 9 * DAY_MS, ahead)
    pipeline = client.get("/v1/health/rules").json()["pipeline"]
    sink = SqliteSink(folder / "out/crossline.db", pipeline)
    sink.open()
    sink.deliver(Delivery(pipeline, 1, figures={"records": 500, "cost_ms": {"rules": {"large_payment@1": 1.0}}}))
    sink.close()
    found = client.get("/v1/health/rules").json()
    by_name = {each["rule_id"]: each for each in found["items"]}
    assert sorted(by_name) == ["card_testing", "large_payment", "spending"]
    mine = by_name["large_payment"]
    assert mine["alerts"]["last_7d"] == 6 * 4 + 2
    assert mine["alerts"]["by_day"] == [4] * 19 + [2]
    assert mine["due"] == {**ahead, "by": "backtest"}
    (held,) = mine["kept"]
    assert (held["figure"], held["came"], held["of"], held["beyond"]) == ("alerts", 4.0, 7, True)
    assert mine["wrong"] == ["alerts"]
    assert found["calls"] == ["large_payment"]
    assert mine["precision"]["value"] is None
    assert mine["parity"] is None
    assert mine["cost"] is None  # asked for within the same minute
    assert by_name["spending"]["status"] == "shadow"
    assert found["lake_parity"] is None
    assert client.get("/v1/health/rules?x=1").status_code == 422


def test_the_api_says_what_the_last_report_on_the_lake_found(api: tuple[Client, Path, Path]) -> None:
    client, _, path = api
    pipeline = client.get("/v1/health/rules").json()["pipeline"]
    instants = {name: f"2026-02-01T{hour}:00:00.000Z" for name, hour in (("at", 10), ("since", "08"), ("until", "09"))}
    differences = (AlertDifference("a1", "p1", "lake", "value"), AlertDifference("a1", "p1", "api", "value"))
    rules = (RuleParity("spending", 50, 40, 39, 10, 9, differences), RuleParity("card_testing", 3, 3, 3, 0, 0))
    decided = (DecisionParity("block", 9, 8, 7, 2, 1, (DecisionDifference("payments", "p1", "api", "score (peek)"),)),)
    write_report(ParityReport(pipeline, *instants.values(), 1_000, rules, decided), path)
    found = client.get("/v1/health/rules").json()
    by_name = {each["rule_id"]: each for each in found["items"]}
    assert by_name["spending"]["parity"]["lake"] == {
        "at": instants["at"],
        "compared": 40,
        "differ": 1,
        "answered": 10,
        "answered_differ": 1,
        "alert_ids": ["a1"],
    }
    assert "parity" in by_name["spending"]["wrong"]
    assert (by_name["card_testing"]["parity_text"], by_name["card_testing"]["wrong"]) == ("same", [])
    assert by_name["large_payment"]["parity"] is None
    assert found["lake_parity"] == {
        **instants,
        "records": 1_000,
        "same": False,
        "decisions": [{"decision": "block", "compared": 8, "differ": 1, "answered": 2, "answered_differ": 1}],
    }


def test_stores_return_the_last_batches_first(tmp_path: Path) -> None:
    sink = SqliteSink(tmp_path / "store.db", "shop")
    sink.open()
    for number in range(3):
        sink.deliver(Delivery("shop", number, figures={"records": number}))
    sink.deliver(Delivery("other", 9, figures={"records": 9}))
    sink.close()
    store = open_store(str(tmp_path / "store.db"))
    assert [figures["records"] for _, figures in store.batch_figures("shop", 2)] == [2, 1]
    store.close()
