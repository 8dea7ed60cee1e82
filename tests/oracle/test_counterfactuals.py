"""What would not have fired: a change that is claimed turns the verdict of a naive twin, and one step less does not.

Windows, conditions and aggregates are the twin's; formulas, cases of a burst and speeds are worked out here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.investigation.counterfactual import Counterfactual, counterfactuals
from crossline.backtest.investigation.key_records import KeyRecord
from crossline.backtest.investigation.variant_runner import Budget, VariantRunner
from crossline.basics.streams.schema import load_streams
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from drawing import one_of_these

from .aggregates import aggregate
from .conditions import holds
from .naive import naive_detect
from .rule_versions import duration_ms
from .test_detect_equals_naive import DEEP

START_MS = 1_767_225_600_000
STREAMS = load_streams(
    """\
schema_version: 1
streams:
  payments:
    id: id
    event_time: {field: at}
    fields: {id: string, account: string, device: integer, amount: integer, price: number, lat: number, lon: number,
             at: integer}
""",
    "stream.yaml",
)
Body = dict[str, Any]
Row = dict[str, Any]
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
}
COMMON = {"rule_id": "r", "version": 1, "source_topic": "payments", "group_by": "account"}
WINDOWS = ["1s", "3s", "5s", "12s"]
CONDITIONS = [
    None,
    [{"field": "amount", "operator": ">=", "value": 4}],
    [{"field": "price", "operator": "<", "value": 3.5}],
]


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    at_ms, made = START_MS, list[Row]()
    for number in range(draw(st.integers(2, 14))):
        at_ms += draw(one_of_these(0, 1, 500, 500, 1000, 1000, 3000))
        made.append(
            {
                "id": f"t{number}",
                "account": draw(one_of_these("a1", "a1", "a1", "a2")),
                "device": draw(st.integers(1, 4)),
                "amount": draw(st.integers(0, 9)),
                "price": draw(st.integers(0, 600)) / 100,
                "lat": draw(st.integers(-20, 20)) / 10,
                "lon": draw(st.integers(-20, 20)) / 10,
                "at": at_ms,
            }
        )
    return made


@st.composite
def velocities(draw: st.DrawFn) -> Body:
    of, field = draw(
        st.sampled_from(
            [("count", None), ("sum", "amount"), ("sum", "price"), ("avg", "amount"), ("distinct_count", "device")]
        )
    )
    body = {
        **COMMON,
        "rule_type": "velocity",
        "aggregation_type": of,
        "aggregation_field": field,
        "aggregation_threshold": draw(one_of_these(1, 2, 3, 5, 7.5)),
        "operator": draw(one_of_these(">=", ">=", ">", "<")),
        "window": draw(st.sampled_from(WINDOWS)),
        "bounds": draw(one_of_these("(]", "[]")),
        "conditions": draw(st.sampled_from(CONDITIONS)),
    }
    return {name: value for name, value in body.items() if value is not None}


@st.composite
def formulas(draw: st.DrawFn) -> Body:
    one, other = draw(st.sampled_from(WINDOWS)), draw(st.sampled_from(WINDOWS))
    figures = {
        "f0": {"count": True, "group_by": "account", "window": one},
        "f1": {"sum": "amount", "group_by": "account", "window": other},
    }
    when = (
        f"f0 >= {draw(st.integers(1, 4))} and f1 > {draw(st.integers(0, 12))} and amount >= {draw(st.integers(0, 5))}"
    )
    body = {name: value for name, value in COMMON.items() if name != "group_by"}
    return {**body, "rule_type": "formula", "figures": figures, "when": when}


@st.composite
def bursts(draw: st.DrawFn) -> Body:
    cases = [{"count": f">= {draw(st.integers(2, 5))}"}]
    cases.append({"count": f"> {draw(st.integers(0, 3))}", "avg": f"< {draw(st.integers(1, 8))}"})
    more = {"any_of": cases, "aggregation_field": "amount", "window": draw(st.sampled_from(WINDOWS))}
    return {**COMMON, "rule_type": "burst", **more}


@st.composite
def travels(draw: st.DrawFn) -> Body:
    more = {
        "latitude_field": "lat",
        "longitude_field": "lon",
        "max_speed_kmh": draw(one_of_these(500, 50_000, 300_000)),
        "min_distance_km": draw(one_of_these(0, 5, 100)),
        "window": draw(one_of_these("3s", "12s")),
    }
    return {**COMMON, "rule_type": "geo_velocity", **more}


def holding(body: Mapping[str, Any], made: Sequence[Row]) -> set[str]:
    """The records at which the verdict of the rule holds."""
    if body["rule_type"] == "velocity":
        records = [{**row, "_id": row["id"], "_event_ms": row["at"], "_ingest_ms": row["at"]} for row in made]
        content = {**body, "emit": "every", "cooldown": "0ms"}
        return {hit.record_id for hit in naive_detect([content], records).hits}
    judged = {"formula": formula_holds, "burst": burst_holds, "geo_velocity": travel_holds}[body["rule_type"]]
    return {row["id"] for place, row in enumerate(made) if judged(body, row, made[: place + 1])}


def window(body: Mapping[str, Any], row: Row, upto: Sequence[Row]) -> list[Row]:
    since = row["at"] - duration_ms(body["window"])
    return [each for each in upto if each["account"] == row["account"] and since < each["at"] <= row["at"]]


def formula_holds(body: Mapping[str, Any], row: Row, upto: Sequence[Row]) -> bool:
    count, received = (window(body["figures"][name], row, upto) for name in ("f0", "f1"))
    values = {"f0": len(count), "f1": sum(each["amount"] for each in received), "amount": row["amount"]}
    parts = re.findall(r"(\w+) (>=|>) ([\d.]+)", body["when"])
    return all(OPERATORS[operator](values[name], float(line)) for name, operator, line in parts)


def burst_holds(body: Mapping[str, Any], row: Row, upto: Sequence[Row]) -> bool:
    amounts = [each["amount"] for each in window(body, row, upto)]

    def met(case: Mapping[str, str]) -> bool:
        parts = [(name, *text.split()) for name, text in case.items()]
        return all(OPERATORS[operator](aggregate(name, amounts), float(line)) for name, operator, line in parts)

    return any(map(met, body["any_of"]))


def travel_holds(body: Mapping[str, Any], row: Row, upto: Sequence[Row]) -> bool:
    earlier = window(body, row, upto)[:-1]
    if not earlier:
        return False
    before = max(enumerate(earlier), key=lambda pair: (pair[1]["at"], pair[0]))[1]
    km = haversine(before["lat"], before["lon"], row["lat"], row["lon"])
    far = km > 0 and km >= body.get("min_distance_km", 0)
    return far and km * 3_600_000 > body["max_speed_kmh"] * (row["at"] - before["at"])


def haversine(lat: float, lon: float, lat_b: float, lon_b: float) -> float:
    a, b = math.radians(lat), math.radians(lat_b)
    half = math.sin((b - a) / 2) ** 2 + math.cos(a) * math.cos(b) * math.sin(math.radians(lon_b - lon) / 2) ** 2
    return 2 * 6371.0088 * math.asin(math.sqrt(half))


def with_change(row: Counterfactual, made: Sequence[Row], *, less: bool) -> list[Row]:
    """The records with the change of a row, or with one step less of it."""
    value = row.one_less if less else row.turns_at
    if row.kind == "record":
        return [each for each in made if each["id"] != row.record_id]
    place = next(number for number, each in enumerate(made) if each["id"] == row.record_id)
    if row.kind == "time":
        return [*made[:place], {**made[place], "at": value}]
    return [{**each, row.field: value} if each["id"] == row.record_id else each for each in made]


def check(body: Body, made: list[Row], crossing: str, rows_found: Sequence[Counterfactual]) -> None:
    standing = holding(body, made)
    ids = [each["id"] for each in made]
    for row in rows_found:
        if row.body is not None and row.body_less is not None:
            turned, less = holding(row.body, made), holding(row.body_less, made)
        else:
            turned = holding(body, with_change(row, made, less=False))
            less = holding(body, with_change(row, made, less=True)) if row.turns_at is not None else {crossing}
        if row.sooner:
            account = next(each["account"] for each in made if each["id"] == crossing)
            key = [each["id"] for each in made[: ids.index(crossing)] if each["account"] == account]
            since = max((n + 1 for n, name in enumerate(key) if name in standing), default=0)
            assert turned & set(key[since:]), row
            assert not less & set(key[since:]), row
        else:
            assert crossing not in turned, row
            assert crossing in less, row


@pytest.mark.parametrize(
    "bodies", [velocities(), formulas(), bursts(), travels()], ids=["velocity", "formula", "burst", "geo_velocity"]
)
def test_each_change_turns_it_and_one_step_less_does_not(bodies: st.SearchStrategy[Body]) -> None:
    claimed = 0

    @settings(
        max_examples=400 if DEEP else 4,
        phases=[phase for phase in Phase if phase != Phase.explain],
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.data(), bodies, rows())
    def judged(data: st.DataObject, body: Body, made: list[Row]) -> None:
        nonlocal claimed
        standing = sorted(holding(body, made), key=lambda name: int(name[1:]))
        if not standing:
            return
        crossing = data.draw(st.sampled_from(standing))
        account = next(each["account"] for each in made if each["id"] == crossing)
        mine = [each for each in made if each["account"] == account]
        rule = load_rules_text(orjson.dumps([body]).decode(), "rules.yaml", STREAMS)[0].rule
        records = [KeyRecord("payments", each["id"], each["at"], each["at"], each) for each in mine]
        setting = BacktestSpec(RuleSet(), RecordedInput(STREAMS, {}))
        bench = VariantRunner(rule, setting, {"account": account}, crossing, Budget(runs=4_000 if DEEP else 250))
        alert = bench.holds(bench.batch(records))[crossing]
        found = counterfactuals(bench, alert, records, START_MS - 60_000)
        assert found.why_none == ""
        claimed += len(found.rows)
        check(body, mine, crossing, found.rows)

    judged()
    assert claimed > 0


def test_conditions_of_the_twin_are_those_of_the_rules() -> None:
    """The strategies' conditions mean something to the twin."""
    given_rows = [{"amount": 3, "price": 3.5}, {"amount": 4, "price": 3.49}]
    assert [[holds(each, row, {}) for row in given_rows] for each in CONDITIONS if each] == [
        [False, True],
        [False, True],
    ]
