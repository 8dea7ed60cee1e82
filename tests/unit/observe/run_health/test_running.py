"""The health report: figures computed by hand, each with its limit; unknown without data."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from crossline.basics.errors import RetryableError
from crossline.observe.run_health import limits
from crossline.observe.run_health.entries import batches_of, dead_of, figures_of, lag_ms, sinks_of
from crossline.observe.run_health.history import RunHistory
from crossline.observe.run_health.report import NO_SLO, NO_WATCH, ReplicaLag, running_report
from crossline.observe.run_health.scrape import Scrape, scrape
from crossline.observe.watch.listener import HttpListener, HttpPage
from crossline.settings.watch import Address, WatchSettings

from ..objectives.test_counting import pipeline  # noqa: TID252 - a pipeline of topics
from .kit import end_of, minutes, promising, run

ALERTS = Path(__file__).parents[4] / "deploy/watch/alerts.yaml"


@pytest.fixture
def seen() -> Any:
    with run(now_s=time.time()) as watch:
        yield scrape(watch.place, "payments", round(time.time() * 1000))


def figure(reported: list[Any], name: str) -> Any:
    (found,) = (each for each in reported if each.name == name)
    return found


def test_a_run_is_asked_where_prometheus_asks(seen: Scrape) -> None:
    assert seen.ready
    assert seen.one("batches_total") == 1
    assert seen.by("stream", "records_total") == {"payments": 1_000}
    assert seen.one("nothing") is None
    assert seen.began_ms is not None
    assert seen.began_ms <= seen.at_ms


def test_what_it_reports_of_batches_sinks_and_dead_letters(seen: Scrape) -> None:
    body = batches_of(seen)
    assert body["phases_ms"] == pytest.approx(
        {"plan": 40.0, "tasks": 80.0, "collect": 10.0, "deliver": 20.0, "mark": 10.0}
    )
    assert body["waiting"] == {"payments": {"amount": 40, "unit": "records"}}
    assert (body["batches"], body["running_crossed"]) == (1, False)
    assert dead_of(seen) == [
        {"reason": "missing_field", "stream": "payments", "count": 3},
        {"reason": "bad_time", "stream": "payments", "count": 1},
    ]
    first, second = sinks_of(seen)
    assert (first["behind_ms"], first["crossed"], first["backlog_batches"]) == (0, False, None)
    assert first["delivery_ms"] == pytest.approx(20.0)
    assert {first["name"], second["name"]} == {"kafka", "postgres"}


def test_figures_are_held_against_objectives_and_yesterday(tmp_path: Path, seen: Scrape) -> None:
    config, end = promising(pipeline(tmp_path), tmp_path, None), 29_800_000
    history = RunHistory({}, end)
    reported = figures_of(config, seen, history)
    lag = figure(reported, "lag")
    assert 900 <= lag.value < 900 + 60_000, "what waits is younger than what was judged last"
    assert (lag.limit, lag.source) == (5_000, "objective")
    latency = figure(reported, "alert_latency")
    # The 99th of 100 is the one at 31 s, in the bucket from 30 to 60 s whose only one it is: its upper bound.
    assert latency.value == pytest.approx(60_000.0)
    assert (latency.limit, latency.crossed) == (250, True)
    assert {each.value for each in reported if each.name not in {"lag", "alert_latency"}} == {None}


def test_figures_of_minutes_worked_by_hand(tmp_path: Path) -> None:
    config, end = promising(pipeline(tmp_path), tmp_path, None), 29_800_000
    minutes(config, end)
    report = running_report(config, end * 60_000 + 5_000)
    body = {each["name"]: each for each in report["figures"]}
    assert body["records_per_s"]["value"] == body["records_per_s"]["yesterday"] == 2_000
    assert (body["batch"]["value"], body["batch"]["yesterday"]) == (100, 80)
    assert (body["batch"]["limit"], body["batch"]["source"]) == (5_000, "setting")
    assert body["checkpoint_share"]["value"] == pytest.approx(0.09)
    assert body["checkpoint_share"]["yesterday"] == pytest.approx(0.05)
    assert (body["checkpoint_share"]["limit"], body["checkpoint_share"]["crossed"]) == (0.1, False)
    assert body["late_share"]["value"] == pytest.approx(0.0031)
    assert body["dead_letters"]["value"] == 6
    assert body["dead_letters"]["yesterday"] == 0
    assert body["dead_letters"]["limit"] == 0.01 * 1_440 * 120_000
    assert (body["lag"]["value"], body["lag"]["yesterday"]) == (None, 3_800)
    assert len(body["lag"]["hours"]) == 24
    assert sorted(set(body["lag"]["hours"])) == [900, 3_800]
    assert body["lag"]["hours"].count(3_800) == 2
    assert (report["state"], report["reasons"]) == ("unknown", [NO_WATCH])
    assert [report[name] for name in ("run", "sinks", "dead_letters", "replicas", "began")] == [None] * 5


def test_hours_that_are_not_known_are_reported_as_such() -> None:
    history = RunHistory({"lag_ms": {1_000: 5.0, 1_059: 7.0}, "late": {}, "records": {1_000: 10.0}}, 1_060)
    assert history.hours("lag_ms") == (*[None] * 23, 7.0)
    assert history.hours("late", "records") == (*[None] * 23, 0.0)
    assert history.peak("lag_ms", 60, 60) is None
    assert (history.last, RunHistory({}, 1).last) == (1_059, None)
    assert history.ratio("late", "batches", 60) is None
    two = RunHistory({"records": {1_000: 30.0, 1_001: 90.0, 900: 5.0}}, 1_060)
    assert two.per_s("records", 60) == 1.0, "120 records in the two minutes that are known"
    assert two.per_s("records", 60, 500) is None


@pytest.mark.parametrize(
    ("samples", "value"),
    [
        ({"source_waiting_records": 0.0}, 0.0),
        ({"source_waiting_records": 3.0, "ingest_timestamp_seconds": 9.0}, 1_000.0),
        ({"source_waiting_records": 3.0}, None),  # nothing was judged yet
        ({"source_waiting_records": 3.0, "ingest_timestamp_seconds": 9.0, "source_silent": 1.0}, None),
        ({}, None),
    ],
)
def test_lag_as_a_run_reports_it(samples: dict[str, float], value: float | None) -> None:
    body = {f"crossline_{name}": {(("stream", "s"),): each} for name, each in samples.items()}
    assert lag_ms(Scrape(10_000, body, ready=True), ["s"]) == value
    assert lag_ms(Scrape(10_000, body, ready=True), []) is None


def test_replicas_and_a_sink_that_is_held(tmp_path: Path) -> None:
    now_s = time.time()
    with run(now_s=now_s, held=True) as watch:
        config = promising(pipeline(tmp_path), tmp_path, watch)
        replicas = [ReplicaLag(0, 7, 12, ready=True), ReplicaLag(1, None, None, ready=False)]
        body = running_report(config, round((now_s + 1) * 1000), lambda: replicas)
    assert body["state"] == "not ready"
    assert "sink kafka has not accepted the batch" in body["reasons"][0]
    (kafka,) = (each for each in body["sinks"] if each["name"] == "kafka")
    assert (kafka["retries"], kafka["limit_ms"]) == (1, 60_000)
    assert [(each["behind"] if "behind" in each else each["ms"], each["crossed"]) for each in body["replicas"]] == [
        (12, False),
        (None, True),
    ]
    assert body["replicas"][0]["limit_ms"] == 1_000


def test_who_does_not_answer_is_unknown(tmp_path: Path) -> None:
    with run() as watch:
        place = watch.place
        with pytest.raises(RetryableError, match=rf"at {place} \(watch.listen\) answers payments; expected the run of"):
            scrape(place, "others", 0)
    with pytest.raises(RetryableError, match=rf"no run answers at {place} \(watch.listen\): Connection refused"):
        scrape(place, "payments", 0)
    other = HttpListener(Address("127.0.0.1", 0), {"/metrics": lambda _: HttpPage(b"<html>", "text/html")})
    try:
        with pytest.raises(RetryableError, match="no run answers at"):
            scrape(other.place, "payments", 0)
    finally:
        other.close()
    bare = replace(pipeline(tmp_path), slo=None, watch=WatchSettings(listen=str(place)))
    body = running_report(bare, 29_800_000 * 60_000)
    assert body["state"] == "unknown"
    assert body["minutes"] == {"last": None, "why": NO_SLO}


def test_minutes_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    config = promising(pipeline(tmp_path), tmp_path, None)
    (tmp_path / "slo.db").write_text("no database, and long enough to be looked at")
    (tmp_path / "slo.db").chmod(0o600)
    assert "found what is no database" in running_report(config, 29_800_000 * 60_000)["minutes"]["why"]


def test_the_limits_are_those_of_the_alerts() -> None:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    bounds = {
        rule["alert"]: float(re.findall(r"> ([0-9.e]+)", rule["expr"])[0])
        for rule in group["rules"]
        if ">" in rule["expr"]
    }
    assert {
        "CrosslineBatchStuck": limits.BATCH_RUNNING_S,
        "CrosslineSinkBehind": limits.SINK_BEHIND_S,
        "CrosslineSinkBacklog": limits.SINK_BACKLOG_S,
        "CrosslineAlertsLate": limits.ALERT_LATENCY_S,
        "CrosslineDeadLetters": limits.DEAD_SHARE,
        "CrosslineLateRecords": limits.LATE_SHARE,
    }.items() <= bounds.items()


def test_the_last_minute_is_reported(tmp_path: Path) -> None:
    config, end = promising(pipeline(tmp_path), tmp_path, None), end_of(29_800_000 * 60_000)
    minutes(config, end)
    assert (
        running_report(config, (end + 20) * 60_000)["minutes"]["last"]
        == running_report(config, end * 60_000 + 5_000)["minutes"]["last"]
    )
