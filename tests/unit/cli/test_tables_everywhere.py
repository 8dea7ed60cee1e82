"""Fields of tables are fields: every command says of rules over them what it says where records bring them along.

The twin has the same records with their rows written into them, looked up one by one at the running maximum of event
time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from crossline.cli.main import run_command

PIPELINE = """\
schema_version: 1
name: shop
streams:
  s: {id: id, event_time: {field: at}, fields: {id: string, at: integer, account: string, place: string?%s}}
sources: {s: {kind: files, path: in}}
rules: {kind: directory, path: rules}
sinks: [{kind: jsonl, path: out.jsonl, decisions: decisions.jsonl}]
policy: policy.yaml
%s
"""
ENRICH = """\
enrich:
  profile:
    kind: files
    path: profile.jsonl
    key: {account: id}
    fields: {country: "string?", risk: "number?", limit: "integer?"}
    valid_from: since
  town: {kind: files, path: town.csv, key: {place: name}, fields: {lat: number, lon: number}}
"""
WRITTEN = """\
, profile: {country: "string?", risk: "number?", limit: "integer?"}, town: {lat: "number?", lon: "number?"}"""
POLICY = """\
schema_version: 1
version: 1
decide: [{when: "score > 40", decision: block}, {when: "score > 0", decision: review}]
"""
RULES = """\
- rule_id: risky
  version: 1
  rule_type: threshold
  source_topic: s
  score: 50
  conditions: [{field: profile.risk, operator: ">", value: 0.6}]
  description: "{account} of {profile.country}"
- rule_id: above
  version: 1
  rule_type: velocity
  source_topic: "rule:risky"
  group_by: profile.country
  aggregation_type: sum
  aggregation_field: profile.limit
  aggregation_threshold: 60
  window: 3m
- rule_id: limits
  version: 1
  rule_type: velocity
  source_topic: s
  status: shadow
  group_by: profile.country
  aggregation_type: sum
  aggregation_field: profile.limit
  aggregation_threshold: 90
  window: 3m
  conditions: [{field: profile.limit, operator: "<", value: 40}]
- rule_id: panes
  version: 1
  rule_type: velocity
  source_topic: s
  group_by: profile.country
  aggregation_type: max
  aggregation_field: profile.risk
  aggregation_threshold: 0.8
  window: 1h
  resolution: 1m
- rule_id: figures
  version: 1
  rule_type: formula
  source_topic: s
  score: 20
  figures:
    n: {count: true, group_by: profile.country, window: 3m}
    usual: {avg: profile.risk, group_by: profile.country, window: 3m}
  when: "n > 2 and usual > 0.3 and coalesce(profile.limit, 0) < 25"
- rule_id: steps
  version: 1
  rule_type: sequence
  source_topic: s
  group_by: profile.country
  within: 5m
  steps:
    - {name: low, conditions: [{field: profile.limit, operator: "<", value: 15}]}
    - {name: high, conditions: [{field: profile.risk, operator: ">", value: 0.5}], group_by: place}
- rule_id: model
  version: 1
  rule_type: model
  source_topic: s
  model: m.onnx
  figures: {n: {count: true, group_by: profile.country, window: 3m}}
  features: {limit: "coalesce(profile.limit, 0)", n: n}
  threshold: 40
- rule_id: far
  version: 1
  rule_type: geo_velocity
  source_topic: s
  group_by: account
  latitude_field: town.lat
  longitude_field: town.lon
  max_speed_kmh: 500
- rule_id: never
  version: 1
  rule_type: threshold
  source_topic: s
  conditions:
    - {field: profile.country, operator: "==", value: "NO"}
    - {field: profile.country, operator: "==", value: "SE"}
"""
START_MS = 1_767_268_800_000
TOWNS = {"Oslo": {"lat": 59.9, "lon": 10.8}, "Rome": {"lat": 41.9, "lon": 12.5}}


def _drawn() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Records in disorder, and rows of profiles that hold from instants on."""
    dice = random.Random(7)
    rows = [
        {
            "id": f"a{number % 4}",
            "country": dice.choice(["NO", "SE", None]),
            "risk": dice.choice([0.2, 0.55, 0.7, 0.9, None]),
            "limit": dice.choice([10, 20, 40, None]),
            "since": START_MS + 100_000 * (number // 4),
        }
        for number in range(32)
    ]
    records = [
        {
            "id": f"r{number}",
            "at": START_MS + 10_000 * number - dice.choice([0, 0, 15_000]),
            "account": dice.choice(["a0", "a1", "a2", "a3", "a4"]),
            "place": dice.choice(["Oslo", "Rome", "NO", None]),
        }
        for number in range(90)
    ]
    return records, rows


def _with_rows(records: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    made, clock_ms = [], 0
    for record in records:
        clock_ms = max(clock_ms, record["at"])
        standing = [row for row in rows if row["id"] == record["account"] and row["since"] <= clock_ms]
        row = max(standing, key=lambda each: int(each["since"])) if standing else {}
        profile = {name: row.get(name) for name in ("country", "risk", "limit")}
        made.append({**record, "profile": profile, "town": TOWNS.get(record["place"], {})})
    return made


def _weighted(*weights: float) -> bytes:
    """A model: the sum of its features, each times its weight."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, len(weights)])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 1])],
        [numpy_helper.from_array(np.array([weights], np.float32).T, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _shop(folder: Path, records: Sequence[dict[str, Any]], fields: str, enrich: str) -> None:
    for name in ("rules", "in"):
        (folder / name).mkdir(parents=True)
    (folder / "shop.yaml").write_text(PIPELINE % (fields, enrich))
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "rules" / "r.yaml").write_text(RULES)
    (folder / "rules" / "m.onnx").write_bytes(_weighted(1, 5))
    (folder / "other").mkdir()
    (folder / "other" / "r.yaml").write_text(RULES.replace("value: 0.6", "value: 0.8"))
    (folder / "other" / "m.onnx").write_bytes(_weighted(1, 6))
    (folder / "in" / "a.jsonl").write_text(_lines(records))


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One with tables, and one whose records have their rows."""
    records, rows = _drawn()
    folder = tmp_path_factory.mktemp("shops")
    _shop(folder / "tables", records, "", ENRICH)
    (folder / "tables" / "profile.jsonl").write_text(_lines(rows))
    towns = "".join(f"{name},{each['lat']},{each['lon']}\n" for name, each in TOWNS.items())
    (folder / "tables" / "town.csv").write_text(f"name,lat,lon\n{towns}")
    _shop(folder / "written", _with_rows(records, rows), WRITTEN, "")
    return folder / "tables", folder / "written"


def _untimed(value: Any) -> Any:
    """The line without its time."""
    if isinstance(value, dict):
        return {name: _untimed(each) for name, each in value.items() if name not in {"detected_at", "decided_at"}}
    return [_untimed(each) for each in value] if isinstance(value, list) else value


SAMPLE = ("--input", "in")


@pytest.mark.parametrize(
    "command",
    [
        ("rules", "test", "rules", *SAMPLE),
        *(("rules", "test", "rules", *SAMPLE, "--record", record_id) for record_id in ("r41", "r88")),
        ("rules", "explain", "rules"),
        ("rules", "explain", "rules", *SAMPLE),
        ("rules", "lint", "rules"),
        ("rules", "lint", "rules", *SAMPLE),
        ("rules", "compare", "rules", "other", *SAMPLE),
        ("rules", "shadow", "rules", *SAMPLE),
        *(
            ("rules", "suggest-threshold", "rules", "--rule", rule_id, "--alerts-per-day", "500", *SAMPLE)
            for rule_id in ("risky", "figures")
        ),
    ],
    ids=" ".join,
)
def test_commands_say_the_same(
    shops: tuple[Path, Path],
    command: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = []
    for shop in shops:
        monkeypatch.chdir(shop)
        code = run_command([*command, "--pipeline", "shop.yaml", "--json"])
        reported = capsys.readouterr()
        lines.append((code, [_untimed(json.loads(line)) for line in reported.out.splitlines()]))
        assert lines[-1][1], reported.err
    assert lines[0] == lines[1]


def test_backtests_alert_and_decide_the_same(
    shops: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for shop in shops:
        monkeypatch.chdir(shop)
        assert run_command(["backtest", "--pipeline", "shop.yaml", *SAMPLE, "--decisions", "d.jsonl", "--json"]) == 0
        lines = [
            [json.loads(line) for line in Path(name).read_text().splitlines()] for name in ("alerts.jsonl", "d.jsonl")
        ]
        found.append([[_untimed(each) for each in rows] for rows in lines])
    capsys.readouterr()
    assert found[0] == found[1]
    alerts, decisions = found[0]
    assert {each["rule_id"] for each in alerts} == {
        *("risky", "above", "limits", "panes", "figures", "steps", "model", "far")
    }, "but never"
    assert {each["decision"] for each in decisions} == {"allow", "review", "block"}


def test_models_are_reported_apart_by_their_scores(
    shops: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The score is the limit here, so of each country the record of the highest one is nearest to the line."""
    monkeypatch.chdir(shops[0])
    folder = Path("models")
    folder.mkdir()
    ((body,),) = ([each for each in RULES.split("- rule_id: ") if each.startswith("model")],)
    body = body.replace(
        'features: {limit: "coalesce(profile.limit, 0)", n: n}', 'features: {f: "coalesce(profile.limit, 0) + 0 * n"}'
    )
    body = body.replace("threshold: 40", "threshold: 1000")
    other = body.replace("model\n", "other\n", 1).replace("m.onnx", "n.onnx")
    (folder / "r.yaml").write_text(f"- rule_id: {body}- rule_id: {other}")
    (folder / "m.onnx").write_bytes(_weighted(1))
    (folder / "n.onnx").write_bytes(_weighted(2))
    assert run_command(["rules", "lint", "models", "--pipeline", "shop.yaml", "--json"]) == 0, "neither says the other"
    assert run_command(["rules", "test", "models", "--pipeline", "shop.yaml", *SAMPLE, "--json"]) == 0
    content = {each["rule_id"]: each["near"] for each in map(json.loads, capsys.readouterr().out.splitlines())}
    highest: dict[str, int] = {}
    for record in _with_rows(*_drawn()):
        profile = record["profile"]
        if profile["country"] and profile["limit"]:
            highest[profile["country"]] = max(profile["limit"], highest.get(profile["country"], 0))
    for rule_id, weight in (("model", 1), ("other", 2)):
        assert {each["key"]["profile.country"]: each["value"] for each in content[rule_id]} == {
            country: weight * limit for country, limit in highest.items()
        }
