"""Objectives in the report, the command's table, and the Prometheus rules."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import promql_parser
import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from crossline.basics.times import format_instant
from crossline.cli.main import run_command
from crossline.observe.objectives.declaration import objectives_of
from crossline.observe.objectives.formatting import value_text
from crossline.observe.objectives.histogram import counted, encode_buckets
from crossline.observe.objectives.metrics import ObjectiveCollector
from crossline.observe.objectives.minute_file import Minute, MinuteFile
from crossline.observe.objectives.prometheus import rules_of
from crossline.observe.objectives.recorder import Recorder
from crossline.observe.objectives.report import report
from crossline.settings.process.slo import SloSettings
from e2e.scraping import names_in

from .test_counting import NOW_MS, OTHERS, PIPELINE, START, pipeline

LAG = ("lag", "5000")


def put(path: Path, *minutes: tuple[int, int, int]) -> None:
    """Of lag: how many minutes ago one ended, how many of its seconds were good, and of how many."""
    rows = [Minute(*LAG, START - ago, good, total) for ago, good, total in minutes]
    MinuteFile(path, "payments").add(rows, [], START)


def test_command_api_and_page_show_the_same_value(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Of 1,000 seconds 999 have a lag of 1.2 s at most, one of 8 s: 99.9 % of them are at most 1.2 s behind.
    seconds = encode_buckets(counted(np.array([1_200.0] * 999 + [8_000.0]), 5_000.0))
    MinuteFile(folder / "out" / "slo.db", "payments").add([Minute(*LAG, START - 1, 999, 1_000, seconds)], [], START)
    found = lag_of(report(pipeline(folder / "out"), NOW_MS + 5_000))
    value = found["windows"]["1h"]["value"]
    assert 1_200 <= value < 1_200 * 2 ** (1 / 32)
    assert (found["limit"], found["measure"], found["target"]) == (5_000, "ms", 0.999)
    assert [each["value"] for each in found["windows"].values()] == [value] * 3
    assert run_command(["slo", "--json"]) == 0
    assert lag_of(json.loads(capsys.readouterr().out)) == found
    assert value_text(found, found["windows"]["1h"]) == "1.22 s"  # the bound above: 5,000 * 2^(-65/32) is 1,223
    assert run_command(["slo"]) == 0
    (lag,) = (each for each in capsys.readouterr().out.splitlines() if each.startswith("99.9 % of seconds"))
    assert lag.count("p99.9 1.22 s; 99.9 %, not known") == 3


def lag_of(body: dict[str, Any]) -> dict[str, Any]:
    (found,) = (each for each in body["objectives"] if each["name"] == "lag")
    return dict(found)


def test_a_report_worked_by_hand(tmp_path: Path) -> None:
    config = pipeline(tmp_path)
    # An hour that is known: 3,600 seconds, of which 3 had lag; 59 minutes before, of the hour before, 10 of 3,540.
    put(tmp_path / "slo.db", *((ago, 57 if ago == 30 else 60, 60) for ago in range(1, 61)))
    put(tmp_path / "slo.db", *((ago, 50 if ago == 90 else 60, 60) for ago in range(61, 120)))
    body = report(config, NOW_MS + 5_000)
    assert body["as_of"] == format_instant(NOW_MS)
    found = lag_of(body)
    hour, day = found["windows"]["1h"], found["windows"]["24h"]
    assert hour == {
        "value": None,  # counts alone were put there
        "kept": True,
        "share": 3_597 / 3_600,
        "good": 3_597,
        "total": 3_600,
        "known_minutes": 60,
        "unknown_minutes": 0,
        # 3 of the 3.6 seconds that may have lag.
        "budget_left": float(Fraction(6, 36)),
        "burn_rate": float(Fraction(30, 36)),
    }
    assert (day["good"], day["total"], day["unknown_minutes"]) == (7_127, 7_140, 1_440 - 119)
    assert day["kept"] is False, "what is known is enough to say that it was missed"
    # Of the last 5 minutes none was bad, so there is no page; three days have no more than these two hours.
    assert [(each["long"], each["long_burn_rate"]) for each in found["burning"]] == [
        ("3d", float(Fraction(13, 7_140) * 1_000))
    ]
    assert found["used_up_at"] is None
    others = {each["name"]: each["windows"]["30d"]["unknown_minutes"] for each in body["objectives"]}
    assert others["availability"] == 43_200
    put(tmp_path / "slo.db", (1, 0, 60), (2, 0, 60))
    burning = lag_of(report(config, NOW_MS + 5_000))["burning"]
    # An hour with 123 of 3,720 seconds, 5 minutes with 120 of 420, and so on; 6 h and 24 h have the same two hours.
    assert [(each["severity"], each["long"], each["short"]) for each in burning] == [
        ("critical", "1h", "5m"),
        ("critical", "6h", "30m"),
        ("warning", "1d", "2h"),
        ("warning", "3d", "6h"),
    ]
    assert burning[0]["long_burn_rate"] == float(Fraction(123, 3_720) * 1_000)


def test_a_minute_is_looked_at_once_it_has_been_written(tmp_path: Path) -> None:
    config = pipeline(tmp_path)
    assert report(config, NOW_MS + 4_999)["as_of"] == format_instant(NOW_MS - 60_000)
    assert report(replace(config, slo=None), NOW_MS)["objectives"] == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {**OTHERS, "pipeline.yaml": PIPELINE}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("crossline.cli.slo.time.time_ns", lambda: (NOW_MS + 5_000) * 1_000_000)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    return tmp_path


def test_the_command_reports_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "out" / "slo.db"
    put(path, *((ago, 60, 60) for ago in range(1, 61)), *((ago, 50, 60) for ago in (100, 200, 300)))
    assert run_command(["slo"]) == 0
    rows = capsys.readouterr().out.splitlines()
    (lag,) = (each for each in rows if each.startswith("99.9 % of seconds"))
    # 24 h: 3,750 of 3,780 seconds; 30 of the 3.78 that may be bad: 6.93 times over.
    assert "100 %, kept" in lag
    assert "99.2 %, missed" in lag
    assert "none, 693.65 % over" in lag
    assert "29 d 22 h 57 min" in lag
    (availability,) = (each for each in rows if each.startswith("99.95 % of requests"))
    assert availability.split("fault")[1].split() == ["unknown"] * 4 + ["30", "d"]
    assert run_command(["slo", "pipeline.yaml", "--json"]) == 0
    assert lag_of(json.loads(capsys.readouterr().out))["windows"]["30d"]["known_minutes"] == 63


def test_the_command_wants_objectives(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pipeline.yaml").write_text(PIPELINE.partition("slo:")[0])
    assert run_command(["slo"]) == 2
    assert "found no section slo; expected one" in capsys.readouterr().err


def test_the_rules_are_what_prometheus_takes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["slo", "--prometheus"]) == 0
    text = capsys.readouterr().out
    (group,) = yaml.safe_load(text)["groups"]
    assert set(group) == {"name", "rules"}
    assert group["name"] == "crossline-slo-payments"
    recorded = {rule["record"]: rule["expr"] for rule in group["rules"] if "record" in rule}
    assert {name.partition("rate")[2].rpartition("rate")[2] or name for name in recorded} == {
        *("5m", "30m", "1h", "2h", "6h", "1d", "3d")
    }
    scraped = exported(folder)
    for name, expression in recorded.items():
        assert names_in(expression) == {"crossline_slo_bad_events_total", "crossline_slo_events_total"} <= scraped
        assert f"[{name.rpartition('rate')[2]}]" in expression
    alerts = [rule for rule in group["rules"] if "alert" in rule]
    objectives = ("alert_latency", "decision_latency", "lag", "checkpoint", "availability")
    lines = [(each["alert"], each["labels"]["objective"]) for each in alerts]
    assert len(set(lines)) == len(lines) == 2 * len(objectives)
    for rule in alerts:
        assert set(rule) == {"alert", "expr", "labels", "annotations"}
        assert names_in(rule["expr"]) <= recorded.keys()
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert f'objective="{rule["labels"]["objective"]}"' in rule["expr"]
        assert set(rule["annotations"]) == {"summary", "do"}
    fast = next(each for each in alerts if "lag" in each["expr"])
    mine = '{pipeline="payments", objective="lag"}'
    base = "crossline:slo_bad_events:ratio_rate"
    assert fast["expr"] == (  # the workbook's, with its 14.4 and 6 times the 0.1 % that may be bad
        f"({base}1h{mine} > 0.0144 and {base}5m{mine} > 0.0144) or ({base}6h{mine} > 0.006 and {base}30m{mine} > 0.006)"
    )
    with pytest.raises(ValueError, match="unclosed"):
        promql_parser.parse(fast["expr"] + " or sum by (rate(")


def exported(folder: Path) -> set[str]:
    """The metric names of a run and of an API that have counted something."""
    found = set()
    recorder = Recorder(MinuteFile(folder / "x.db", "payments"), objectives_of(pipeline(folder).slo), lambda: NOW_MS)
    recorder.add("lag", 3, 5)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ObjectiveCollector("payments", recorder))  # type: ignore[arg-type]  # it has what a collector needs
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            found.add(sample.name)
            if sample.labels["objective"] == "lag":
                assert (
                    sample.value == {"crossline_slo_events_total": 5, "crossline_slo_bad_events_total": 2}[sample.name]
                )
            else:
                assert sample.value == 0
            assert sample.labels["pipeline"] == "payments"
    return found


def test_without_objectives_there_are_no_rules() -> None:
    assert yaml.safe_load(rules_of("payments", [])) == {"groups": []}
    bound = objectives_of(SloSettings.model_validate({"availability": {"percent": 99.999}}))
    assert "> 0.000144 and" in rules_of("payments", bound)
