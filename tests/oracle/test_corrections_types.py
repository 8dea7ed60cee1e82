"""``late_policy: reevaluate``, type by type: what stands is what a scan over the records in order says."""

from __future__ import annotations

import base64
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from .composed import composed_detect
from .corrected import arrived, current_states, in_event_order, standing_in_order
from .fastpath import FastPath, hit_values, plan_of, plans_of, stream_spec
from .rule_versions import duration_ms
from .strategies import LISTS, STREAM, Body, Record, dormancy_body
from .test_corrections import BOUNDS, BUSY, WITHIN, bounded, disordered, judging, reevaluated, sorted_alert_values
from .test_detect_equals_naive import DEEP, Shape, many, run, shapes

few = settings(many, max_examples=800 if DEEP else 6)
_COMMON: Body = {"source_topic": STREAM, "group_by": "account", "window": "4s"}
Window = list[Record]


@dataclass(frozen=True)
class Case:
    """A rule, and by its words: which records are in its window, and what it shows where it is satisfied."""

    body: Body
    value: Callable[[Record, Window], float | None]
    itself: bool = True
    enters: Callable[[Record], bool] = lambda _: True


def _burst(_: Record, window: Window) -> float | None:
    amounts = [each["amount"] for each in window if each["amount"] is not None]
    low = bool(amounts) and statistics.fmean(amounts) < 1.5
    return len(window) if len(window) > 3 or (len(window) > 1 and low) else None


def _ratio(record: Record, window: Window) -> float | None:
    if record["amount"] is None or len(window) < 2:
        return None
    average = statistics.fmean(each["amount"] for each in window)
    return record["amount"] / average if average > 0 and record["amount"] > 1.2 * average else None


def _score(record: Record, window: Window) -> float | None:
    if record["amount"] is None or len(window) < 2:
        return None
    amounts = [each["amount"] for each in window]
    spread, away = statistics.stdev(amounts), record["amount"] - statistics.fmean(amounts)
    return away / spread if spread > 0 and abs(away) > 0.8 * spread else None


def _speed(record: Record, window: Window) -> float | None:
    if record["amount"] is None or not window:
        return None
    here, there = ([math.radians(each[name]) for name in ("amount", "device")] for each in (record, window[-1]))
    part = math.sin((here[0] - there[0]) / 2) ** 2
    part += math.cos(here[0]) * math.cos(there[0]) * math.sin((here[1] - there[1]) / 2) ** 2
    km, elapsed = 2 * 6371.0088 * math.asin(math.sqrt(part)), record["_event_ms"] - window[-1]["_event_ms"]
    return km * 3_600_000 / max(elapsed, 1) if km > 0 and km * 3_600_000 > 300_000 * elapsed else None


def _model(record: Record, window: Window) -> float | None:
    score = (record["amount"] or 0) + 0.5 * len(window)
    return score if score >= 2.5 else None


def _weighted(*weights: float) -> str:
    """A model that is the sum of its features, each times its weight; in base64."""
    real, given = TensorProto.FLOAT, numpy_helper.from_array(np.array([weights], np.float32).T, "w")
    io = [helper.make_tensor_value_info(*each) for each in (("x", real, [None, len(weights)]), ("y", real, [None, 1]))]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", io[:1], io[1:], [given])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return base64.b64encode(made.SerializeToString()).decode()


def _has_amount(record: Record) -> bool:
    return record["amount"] is not None


_ANOMALY: Body = {**_COMMON, "rule_type": "anomaly", "value_field": "amount", "min_points": 2}
CASES: dict[str, Case] = {
    "burst": Case(
        {
            **_COMMON,
            "rule_type": "burst",
            "aggregation_field": "amount",
            "any_of": [{"count": "> 3"}, {"count": "> 1", "avg": "< 1.5"}],
        },
        _burst,
    ),
    "anomaly of a ratio": Case({**_ANOMALY, "ratio": 1.2}, _ratio, itself=False, enters=_has_amount),
    "anomaly of a score": Case({**_ANOMALY, "z_score": 0.8, "emit": "every"}, _score, itself=False, enters=_has_amount),
    "geo_velocity": Case(
        {
            **_COMMON,
            "rule_type": "geo_velocity",
            "latitude_field": "amount",
            "longitude_field": "device",
            "max_speed_kmh": 300_000,
        },
        _speed,
        itself=False,
        enters=_has_amount,
    ),
    "model": Case(
        {
            "source_topic": STREAM,
            "rule_type": "model",
            "model": "sum.onnx",
            "model_data": _weighted(1, 0.5),
            "figures": {"tries": {"count": True, "group_by": "account", "window": "4s"}},
            "features": {"amount": "coalesce(amount, 0)", "tries": "tries"},
            "threshold": 2.5,
        },
        _model,
    ),
}


EVERY = {"anomaly", "geo_velocity", "model"}  # types that emit at every hit unless ``emit`` says otherwise


def scan(case: Case, made: Sequence[Record], allowed_ms: int) -> list[tuple[Any, ...]]:
    """What its alerts say, of records in the order in which they are judged; those later than allowed are left out."""
    every = case.body.get("emit", "every" if case.body["rule_type"] in EVERY else "on_crossing")
    window_ms, reported, seen = 4000, list[tuple[Any, ...]](), list[Record]()
    before: dict[str, tuple[bool, int]] = {}
    for record in made:
        account, at = record["account"], record["_event_ms"]
        known = any(each["_id"] == record["_id"] and each["account"] == account for each in seen)
        if account is None or known or record["_ingest_ms"] - at > allowed_ms:
            continue
        near = [each for each in seen if each["account"] == account and at - window_ms < each["_event_ms"] <= at]
        window = [each for each in (*near, *([record] if case.itself else [])) if case.enters(each)]
        seen.append(record)
        value = case.value(record, window)
        was, last_ms = before.get(account, (False, 0))
        if value is not None and (every == "every" or not was or last_ms <= at - window_ms):
            reported.append(
                (record["_id"], account, f"{value:.12g}", len(window), tuple(each["_id"] for each in window))
            )
        before[account] = value is not None, at
    return sorted(reported)


@few
@given(st.data(), disordered(25))
@pytest.mark.parametrize("name", CASES)
def test_what_stands_is_what_a_scan_in_order_says(name: str, data: st.DataObject, made: list[Record]) -> None:
    case = CASES[name]
    body = {**reevaluated(case.body, 0), "allowed_lateness": data.draw(BOUNDS)}
    path = judged([body], made, data.draw(shapes(len(made))))
    lines = [
        (
            alert["record_id"],
            alert["key"]["account"],
            f"{alert['value']:.12g}",
            alert["evidence"]["count"],
            tuple(alert["evidence"]["record_ids"]),
        )
        for alert in current_states(path.alerts)
    ]
    assert sorted(lines) == scan(case, in_event_order(made), duration_ms(body["allowed_lateness"]))


def judged(rules: Sequence[Body], made: Sequence[Record], shape: Shape) -> FastPath:
    """What comes of them."""
    path = FastPath.of(plan_of(rules, stream_spec(ingest_column=True), {}), shape.shards)
    run(path, shape, made, ["log"] * len(made))
    return path


DORMANT = [body for body in BUSY if body["rule_type"] == "dormancy"]


@few
@given(st.data(), st.one_of(st.sampled_from(DORMANT), dormancy_body()), disordered(25))
def test_what_stands_of_dormancy(data: st.DataObject, body: Body, made: list[Record]) -> None:
    rules = data.draw(bounded(st.just([reevaluated(body, 0)])))
    path = judged(rules, made, data.draw(shapes(len(made))))
    assert sorted_alert_values(current_states(path.alerts)) == standing_in_order(judging(rules), made)


@few
@given(st.data(), disordered(25), st.sampled_from(["1s", "2500ms", "4s"]), st.sampled_from([{}, {"cooldown": "2s"}]))
def test_what_stands_of_absences(data: st.DataObject, made: list[Record], within: str, cooldown: Body) -> None:
    """Absences wait for every record that may answer in time, so no emitted alert changes, nor one of their readers."""
    after, expect = ([{"field": "device", "operator": "==", "value": number}] for number in (1, 2))
    body: Body = {"source_topic": STREAM, "rule_type": "absence", "group_by": "account", "within": within, **cooldown}
    body |= {"after": after, "expect": expect}
    reader = {**_COMMON, "rule_type": "velocity", "aggregation_type": "count", "aggregation_threshold": 2}
    reader |= {"rule_id": "q0", "version": 1, "source_topic": "rule:r0", "group_by": "device"}
    rules = data.draw(bounded(st.just([reevaluated(body, 0)])))
    bound = {"allowed_lateness": data.draw(BOUNDS)}
    rules.append({**reader, **WITHIN, **bound, "late_policy": "evaluate"})
    end_ms = made[-1]["_ingest_ms"] + 20_000
    made = [*made, {"_id": "end", "_event_ms": end_ms, "_ingest_ms": end_ms}]
    shape = data.draw(shapes(len(made)))
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=True), {}), shape.shards)
    run(path, shape, made, ["log"] * len(made))
    ordered = in_event_order(arrived(made))
    expected = composed_detect([{**each, "late_policy": "evaluate"} for each in rules], ordered, lists=LISTS)
    assert sorted_alert_values(path.alerts) == sorted(hit_values(hit, ordered[hit.position]) for hit in expected.hits)
