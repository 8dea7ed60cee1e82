"""What a run did, as numbers that only rise, however many rules there are."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from crossline.basics.deadletter import DeadLetter
from crossline.basics.times import format_instant
from crossline.io.objects.file_stores import LocalFiles
from crossline.io.outbox.batch_spool import BatchSpool
from crossline.io.outbox.sink import Backlog, OutboxSink
from crossline.io.sinks.base import Delivery, LateRecord
from crossline.io.sinks.console import ConsoleSink
from crossline.io.sinks.jsonl import JsonlSink
from crossline.observe.watch.disk_usage import DiskUsage
from crossline.observe.watch.exposition import RunCollector, registry_of
from crossline.observe.watch.run_figures import NO_RULE, OTHERS, Histogram, RunFigures
from crossline.runtime.pipeline.lake_spool_sink import LakeSpoolSink
from crossline.runtime.pipeline.pipeline_status import PipelineStatus, SourceBacklog
from crossline.runtime.work.totals import Totals


def alert(rule_id: str, ago_s: float = 0.0, **more: Any) -> dict[str, Any]:
    ingest_time = format_instant(int((time.time() - ago_s) * 1000))
    body = {"rule_id": rule_id, "rule_type": "velocity", "kind": "alert", "stream": "s", "ingest_time": ingest_time}
    return {**body, **more}


def delivered(*alerts: dict[str, Any], **figures: Any) -> Delivery:
    return Delivery("p", 0, alerts=alerts, figures={"records": 0, **figures})


def exposed(figures: RunFigures, waiting: tuple[SourceBacklog, ...] = ()) -> dict[str, dict[tuple[str, ...], float]]:
    """By name of the sample and values of its labels."""
    collector = RunCollector("p", figures, PipelineStatus, lambda: waiting, DiskUsage, lambda: True)
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry_of(collector)).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(v for _, v in sorted(sample.labels.items()))] = sample.value
    return found


@given(st.lists(st.floats(-10, 10), max_size=30), st.lists(st.floats(-5, 5), min_size=1, max_size=5, unique=True))
def test_a_histogram_counts_as_one_by_one(values: list[float], bounds: list[float]) -> None:
    bounds.sort()
    one, many = Histogram(bounds), Histogram(bounds)
    for value in values:
        one.add(value)
    many.add_all(np.array(values, np.float64))
    naive = [sum(value <= bound for value in values) for bound in [*bounds, float("inf")]]
    assert np.cumsum(one.counts).tolist() == np.cumsum(many.counts).tolist() == naive
    assert abs(one.total - sum(values)) < 1e-9
    assert abs(many.total - sum(values)) < 1e-9


def test_batches_are_counted_by_the_way_in_which_they_ran() -> None:
    figures = RunFigures()
    assert exposed(figures)["crossline_batches_run_total"] == {("in_process",): 0, ("one_task",): 0, ("stages",): 0}
    for ran in ("in_process", "stages", "in_process"):
        figures.batch(delivered(ran=ran), Totals())
    found = exposed(figures)
    assert found["crossline_batches_run_total"] == {("in_process",): 2, ("one_task",): 0, ("stages",): 1}
    assert sum(found["crossline_batches_run_total"].values()) == found["crossline_batches_total"][()]


def test_a_batch_is_added_up() -> None:
    figures = RunFigures(wall=["s"], streams=["s", "quiet"])
    late = LateRecord("s", "r", 0, 1, 1, "s-0", 0)
    dead = [DeadLetter("s", "bad_time", "", "s-0", 1, b""), DeadLetter("s", "bad_time", "", "s-0", 2, b"")]
    body = {
        "by_stream": {"s": 7},
        "retained": 12,
        "segments_read": 5,
        "ingest_ms": {"s": 1_500},
        "missed": {"t": 2},
        "failed": {"m@1": {"records": 3, "why": "…"}},
        "cost_ms": {"rules": {"a@1": 500, "a@2": 250.0}, "others": 125, "no_rule": 1_000},
        "wall_ms": {"plan": 10, "tasks": 30, "collect": 5},
        "spent_ms": {"decode": 40.0},
    }
    hits = [alert("a", 2.0), alert("a", kind="shadow"), alert("b", 0.01, rule_type="absence"), alert("a", stream="t")]
    decisions = [{"decision": "review"}, {"decision": "block"}, {"decision": "review"}]
    totals = Totals(after_ms={"deliver": 100.0, "mark": 5.0})
    figures.batch(Delivery("p", 4, hits, dead, [late], body, decisions=decisions), totals)
    found = exposed(figures)
    assert found["crossline_records_total"] == {("s",): 7, ("quiet",): 0}
    assert found["crossline_dead_letters_total"] == {("bad_time", "s"): 2}
    assert found["crossline_late_records_total"] == {("s",): 1, ("quiet",): 0}
    assert found["crossline_alerts_total"] == {("alert", "a"): 2, ("shadow", "a"): 1, ("alert", "b"): 1}
    assert found["crossline_rule_cost_seconds_total"] == {("a",): 0.75, (OTHERS,): 0.125, (NO_RULE,): 1.0}
    assert found["crossline_unscored_records_total"] == {("m",): 3}
    assert found["crossline_decisions_total"] == {("review",): 2, ("block",): 1}
    assert found["crossline_table_misses_total"] == {("t",): 2}
    assert found["crossline_task_seconds_total"] == {("decode",): 0.04}
    assert found["crossline_retained_records"] == {(): 12}
    assert found["crossline_segments_read_total"] == {(): 5}
    assert found["crossline_ingest_timestamp_seconds"] == {("s",): 1.5}
    assert found["crossline_batch_phase_seconds_count"] == dict.fromkeys(
        [("plan",), ("tasks",), ("collect",), ("deliver",), ("mark",)], 1
    )
    assert found["crossline_batch_seconds_sum"] == {(): 0.15}
    assert found["crossline_alert_latency_seconds_count"] == {("s",): 1}, "an absence is emitted when time has passed"
    assert found["crossline_alert_latency_seconds_bucket"]["1.0", "s"] == 0
    assert abs(time.time() - found["crossline_last_batch_timestamp_seconds"][()]) < 100


def test_names_are_bounded_and_sums_never_fall() -> None:
    figures = RunFigures(rules_max=2)
    figures.batch(delivered(alert("a"), alert("b"), alert("c"), cost_ms={"rules": {"c@1": 1.0}}), Totals())
    figures.batch(delivered(alert("c"), alert("a"), alert("d"), cost_ms={"rules": {"a@1": 1.0}, "others": 2}), Totals())
    found = exposed(figures)
    assert found["crossline_alerts_total"] == {("alert", "a"): 2, ("alert", "b"): 1, ("alert", OTHERS): 3}
    assert found["crossline_rule_cost_seconds_total"] == {(OTHERS,): 0.003, ("a",): 0.001}


def test_a_clock_that_is_ahead_makes_no_sum_fall() -> None:
    figures = RunFigures(wall=["s"])
    figures.batch(delivered(alert("a", -3_600.0)), Totals())
    found = exposed(figures)
    assert found["crossline_alert_latency_seconds_sum"] == {("s",): 0}
    assert found["crossline_alert_latency_seconds_bucket"]["0.025", "s"] == 1


def test_sinks_are_reported_apart(tmp_path: Any) -> None:
    figures = RunFigures()
    sinks = [ConsoleSink(), JsonlSink(tmp_path / "a", None), JsonlSink(tmp_path / "b", None)]
    figures.name_sinks(sinks)
    figures.failed(sinks[2], OSError("full"))
    figures.failed(sinks[2], OSError("full"))
    figures.on_delivered(sinks[0], delivered(), 0.2)
    found = exposed(figures)
    assert found["crossline_sink_retries_total"] == {("console",): 0, ("jsonl",): 0, ("jsonl-2",): 2}
    behind = found["crossline_sink_behind_seconds"]
    assert (behind["console",], behind["jsonl",]) == (0, 0)
    since_s = figures.sinks["jsonl-2"].behind_since_s
    assert since_s is not None
    figures.on_delivered(sinks[2], delivered(), 3.0)
    assert exposed(figures)["crossline_sink_behind_seconds"]["jsonl-2",] == 0
    assert found["crossline_sink_delivery_seconds_count"] == {("console",): 1, ("jsonl",): 0, ("jsonl-2",): 0}


def test_a_sink_that_no_batch_waits_for_has_a_backlog(tmp_path: Any) -> None:
    figures = RunFigures()
    behind = OutboxSink(JsonlSink(tmp_path / "a", None), tmp_path / "behind")
    figures.name_sinks([ConsoleSink(), behind])
    found = exposed(figures)
    assert found["crossline_sink_backlog_batches"] == found["crossline_sink_backlog_seconds"] == {("jsonl",): 0}
    figures.failed(behind.sink, OSError("down"))
    figures.on_delivered(behind, delivered(), 0.1)
    figures.on_delivered(behind.sink, delivered(), 5.0)
    assert figures.sinks["jsonl"].behind_since_s is None, "no batch waits for it"
    found = exposed(figures)
    assert found["crossline_sink_retries_total"]["jsonl",] == 1
    assert found["crossline_sink_delivery_seconds_sum"]["jsonl",] == 5.0, "its own time, not that of the disk"
    (tmp_path / "behind").mkdir()
    behind.deliver(Delivery("p", 0, figures={}))  # it is not open: nothing is given on
    assert exposed(figures)["crossline_sink_backlog_batches"] == {("jsonl",): 1}


def test_the_lake_has_a_backlog_of_the_batches_in_its_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures, spool = RunFigures(), BatchSpool(LocalFiles(tmp_path / "lake"))
    sink = LakeSpoolSink(spool, lambda _: {}, clock_ms=lambda: 1_000)
    figures.name_sinks([ConsoleSink(), sink])
    assert exposed(figures)["crossline_sink_backlog_batches"] == {("lakespool",): 0}
    for number in (7, 8):
        sink.deliver(Delivery("p", number, figures={}))
    sink.look()
    found = exposed(figures)
    assert found["crossline_sink_backlog_batches"] == {("lakespool",): 2}
    assert found["crossline_sink_backlog_seconds"]["lakespool",] > 10**9, "since the first second of 1970"
    monkeypatch.setattr(LocalFiles, "names", failing)
    sink.look()
    assert sink.backlog() == Backlog(2, 1_000), "the disk does not answer: the last count stays"
    monkeypatch.undo()
    for number in (7, 8):
        spool.delete(number)
    sink.look()
    assert exposed(figures)["crossline_sink_backlog_seconds"] == {("lakespool",): 0}


def test_a_sink_without_a_backlog_is_0_seconds_behind_at_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = RunFigures()
    figures.name_sinks([ConsoleSink(), LakeSpoolSink(BatchSpool(LocalFiles(tmp_path)), lambda _: {})])
    now_s = 1_795_000_026.296341
    assert now_s - now_s * 1000 / 1000 > 0, "a time that is not that of its milliseconds"
    monkeypatch.setattr(time, "time", lambda: now_s)
    assert exposed(figures)["crossline_sink_backlog_seconds"] == {("lakespool",): 0}
    monkeypatch.setattr(LakeSpoolSink, "backlog", lambda _: Backlog(1, 0))
    assert exposed(figures)["crossline_sink_backlog_seconds"] == {("lakespool",): now_s}, "since the epoch"


def failing(_: LocalFiles) -> list[str]:
    raise OSError("gone")


def test_what_is_not_known_is_not_reported() -> None:
    waiting = (
        SourceBacklog("s", "records", 5),
        SourceBacklog("t", "bytes", None, "no answer"),
        SourceBacklog("u", "bytes", None),
    )
    found = exposed(RunFigures(), waiting)
    assert found["crossline_source_waiting_records"] == {("s",): 5}
    assert "crossline_source_waiting_bytes" not in found
    assert found["crossline_source_silent"] == {("s",): 0, ("t",): 1, ("u",): 0}
    assert "crossline_retained_records" not in found
    assert "crossline_last_batch_timestamp_seconds" not in found
