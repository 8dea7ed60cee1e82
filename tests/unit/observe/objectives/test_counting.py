"""What a run and an API count of their objectives, worked by hand."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crossline.basics.deadletter import DeadLetter
from crossline.basics.times import format_instant
from crossline.io.sinks.base import Delivery
from crossline.observe.objectives.budget import EventCounts
from crossline.observe.objectives.declaration import objectives_of
from crossline.observe.objectives.lag import LagMeter
from crossline.observe.objectives.minute_file import MinuteFile
from crossline.observe.objectives.requests import RequestCounts, counting
from crossline.observe.objectives.run_objectives import RunCounts, RunObjectives, spent_ms
from crossline.observe.telemetry import Telemetry
from crossline.runtime.pipeline.pipeline_status import PipelineStatus, SourceBacklog
from crossline.runtime.work.totals import Totals
from crossline.settings.config import PipelineConfig, load_pipeline

START = 29_800_000
NOW_MS = START * 60_000
PIPELINE = """\
schema_version: 1
name: payments
streams: stream.yaml
sources: {payments: {kind: kafka, brokers: "127.0.0.1:9092", topic: payments, key: account}}
rules: {kind: directory, path: rules}
sinks: [{kind: sqlite, path: out/crossline.db}]
policy: policy.yaml
serve: {open: true}
slo:
  alert_latency: {under: 250ms, percentile: 99}
  decision_latency: {under: 50ms}
  lag: {under: 5s}
  checkpoint: {share: 10}
  availability: {percent: 99.95}
"""
OTHERS = {
    "stream.yaml": "schema_version: 1\nstreams:\n  payments:\n    format: json\n    id: id\n"
    "    event_time: {field: at, unit: ms}\n    fields: {id: string, at: integer, account: string}\n",
    "policy.yaml": "schema_version: 1\nversion: 1\n",
}


def pipeline(folder: Path) -> PipelineConfig:
    config = load_pipeline(PIPELINE, "pipeline.yaml", OTHERS.__getitem__)
    assert config.slo is not None
    return replace(config, slo=config.slo.model_copy(update={"path": str(folder / "slo.db")}))


def counts(config: PipelineConfig, name: str) -> EventCounts:
    assert config.slo is not None
    held = {each.name: each.held for each in objectives_of(config.slo)}[name]
    return MinuteFile(Path(config.slo.path), "payments").counts(name, held, START + 1, [1])[1]


def alert(waited_ms: int, **more: Any) -> dict[str, Any]:
    came = format_instant(NOW_MS - waited_ms)
    return {"rule_id": "a", "kind": "alert", "stream": "payments", "rule_type": "velocity", "ingest_time": came, **more}


def delivered(*alerts: dict[str, Any], dead: int = 0, **figures: Any) -> Delivery:
    letters = [DeadLetter("payments", "bad_time", "", "p-0", each, b"") for each in range(dead)]
    return Delivery("payments", 1, list(alerts), letters, figures={"records": 7, **figures})


def test_the_promises_are_reported_whole(tmp_path: Path) -> None:
    assert [each.promise for each in objectives_of(pipeline(tmp_path).slo)] == [
        "99 % of alerts within 250 ms",
        "99 % of answers within 50 ms",
        "99.9 % of seconds at most 5 s behind",
        "99 % of minutes with at most 10 % of batch time",
        "99.95 % of requests without a fault",
    ]
    assert objectives_of(None) == ()


def test_a_run_counts_alerts_that_came_in_time(tmp_path: Path) -> None:
    config = pipeline(tmp_path)
    made = RunCounts(config, lambda: NOW_MS)
    found = [alert(100), alert(250), alert(251), alert(9_000), alert(9_000, kind="shadow")]
    found += [alert(9_000, rule_type="absence"), alert(9_000, stream="of_files"), alert(-5)]
    made.batch(delivered(*found, dead=2), Totals())
    made.batch(delivered(), Totals())
    made.flush()
    assert counts(config, "alert_latency") == EventCounts(3, 5, 1)
    file = MinuteFile(tmp_path / "slo.db", "payments").figures(START, START + 1)
    assert {name: value[START] for name, value in file.items()} == {
        "batches": 2,
        "records": 14,
        "late": 0,
        "dead": 2,
        "batch_ms": 0,
        "checkpoint_ms": 0,
        "alert_latency_ms": 9_000,
    }


def test_the_checkpoint_takes_its_share_of_a_batch() -> None:
    body = {"wall_ms": {"plan": 20, "tasks": 60, "collect": 5}, "spent_ms": {"judge": 90.0, "log": 30.0}}
    # A quarter of what tasks did was the log: 15 of their 60 ms; and 5 for the mark. Of 100 ms in all.
    assert spent_ms(body, {"deliver": 10.0, "mark": 5.0}) == (100.0, 20.0)
    assert spent_ms({}, {}) == (0.0, 0.0)


@pytest.mark.parametrize(("mark_ms", "good"), [(10.0, 1), (11.0, 0)])
def test_a_minute_is_good_where_the_checkpoint_took_little(tmp_path: Path, mark_ms: float, good: int) -> None:
    config = pipeline(tmp_path)
    made = RunCounts(config, lambda: NOW_MS)
    made.batch(delivered(wall_ms={"plan": 40, "tasks": 0}), Totals(after_ms={"deliver": 10.0}))
    made.batch(delivered(wall_ms={"plan": 50 - mark_ms}), Totals(after_ms={"mark": mark_ms}))
    made.flush()
    assert counts(config, "checkpoint") == EventCounts(good, 1, 1)
    made.flush()
    assert counts(config, "checkpoint") == EventCounts(good, 1, 1), "a minute without batches has nothing to be good"


def waiting(amount: int | None, stream: str = "payments") -> SourceBacklog:
    return SourceBacklog(stream, "records", amount)


def test_lag_is_the_age_of_what_waits() -> None:
    lag = LagMeter(["payments"], began_ms=1_000)
    assert lag.of([], {}, 2_000) is None, "no process was asked yet"
    assert lag.of([waiting(9)], {}, 4_000) == 3_000, "what waits was there when the run began"
    assert lag.of([waiting(9)], {"payments": 3_500}, 4_000) == 500
    assert lag.of([waiting(0)], {"payments": 3_500}, 60_000) == 0, "nothing waits"
    assert lag.of([waiting(1)], {"payments": 3_500}, 61_000) == 1_000, "a second ago nothing did"
    assert lag.of([waiting(1)], {"payments": 61_500}, 61_000) == 0, "a broker's clock that is ahead"
    assert lag.of([waiting(None)], {"payments": 3_500}, 62_000) is None
    assert lag.of([waiting(5, "files")], {}, 62_000) is None
    two = LagMeter(["a", "b"], began_ms=0)
    assert two.of([waiting(3, "a"), waiting(0, "b")], {"a": 900}, 1_000) == 100


def test_seconds_with_lag_and_without(tmp_path: Path) -> None:
    config = pipeline(tmp_path)
    now_ms = [NOW_MS]
    made = RunCounts(config, lambda: now_ms[0])
    for _ in range(7):
        now_ms[0] += 1_000
        made.sample([waiting(1)])
    now_ms[0] += 1_000
    made.sample([waiting(None)])
    made.sample([waiting(0)])
    made.flush()
    assert counts(config, "lag") == EventCounts(6, 8, 1), (
        "of 1 to 7 s two are above 5 s; a broker that is silent says nothing"
    )


def test_an_api_counts_its_requests(tmp_path: Path) -> None:
    config = pipeline(tmp_path)
    made = RequestCounts(config, lambda: NOW_MS)
    one = "/v1/decisions/{stream}"
    for route, status, took_s in (
        *((one, 200, 0.05), (one, 200, 0.051), (one, 422, 9.0), (one, 503, 9.0)),
        *(("/v1/alerts", 200, 9.0), ("/v1/decisions/{stream}:batch", 200, 9.0), ("/v1/alerts", 500, 0.001)),
        *((None, 401, 0.001), ("/healthz", 200, 0.001), ("/queue", 500, 0.001)),
    ):
        made.request(route, status, took_s)

    async def through() -> None:
        async with counting(made):
            pass

    asyncio.run(through())
    assert counts(config, "decision_latency") == EventCounts(1, 2, 1)
    assert counts(config, "availability") == EventCounts(5, 7, 1)


class Pipeline:
    """What is asked each second."""

    sinks = ()
    alive = True

    def __init__(self, asked: Any) -> None:
        self._asked = asked

    def standing(self) -> PipelineStatus:
        return PipelineStatus(started=True)

    def waiting(self) -> list[SourceBacklog]:
        self._asked.set()
        return [waiting(0)]


def test_a_run_is_counted_from_its_start_to_its_end(tmp_path: Path) -> None:
    config, asked = pipeline(tmp_path), threading.Event()
    watching = Telemetry(None, None, RunObjectives(config, lambda: NOW_MS))
    watching.follow(Pipeline(asked))
    assert asked.wait(60)
    watching.batch(delivered(alert(100)), Totals())
    watching.close()
    found = counts(config, "lag")
    assert found.good == found.total >= 1
    assert counts(config, "alert_latency") == EventCounts(1, 1, 1)


def test_a_batch_that_cannot_be_counted_is_done_all_the_same(tmp_path: Path) -> None:
    made = RunObjectives(pipeline(tmp_path))
    made.batch(delivered({"rule_id": "broken"}), Totals())
    made.close()
