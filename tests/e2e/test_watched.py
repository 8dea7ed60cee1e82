"""A run that is watched: what it serves while it works, while a sink is down, and once it has ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crossline.basics.errors import SinkError
from crossline.io.sinks.base import Delivery
from crossline.io.sinks.jsonl import JsonlSink
from crossline.observe.spans import exporter
from crossline.observe.spans.exporter import Spans
from crossline.observe.telemetry import Telemetry
from crossline.observe.watch import run_watch as watching
from crossline.observe.watch.run_watch import RunWatch
from crossline.rule_registry.directory import find_log, ruleset_of_log
from crossline.settings.watch import OtlpSettings, WatchSettings

from .collector import Collector, attributes
from .project import Project, figures, from_twin, read_jsonl
from .scraping import Scrape, alerting_rules, asked, dashboard_expressions, names_in, until, until_scraped
from .traffic import STREAM, Body, expected, lines, records, velocity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SINKS = [
    {"kind": "sqlite", "path": "out/alerts.db"},
    {"kind": "jsonl", "path": "out/alerts.jsonl", "decisions": "out/decisions.jsonl"},
]
# Each hit of the one is read by the other, which floods never.
OFTEN = velocity("often", threshold=1, emit="every", action="review", score=10, breaker={"alerts_max": 30, "per": "1h"})
PAIRS = velocity("pairs", threshold=2, source_topic="rule:often", group_by="account", window="1m", emit="every")
POLICY = "schema_version: 1\nversion: 1\nbands: [{from: 5, decision: review}]\n"


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunWatch]:
    """On any free port. Its stream has the clock of the records; the test gives it a broker's, to have latencies."""
    monkeypatch.setattr(watching, "ASK_EVERY_S", 0.05)
    watch = RunWatch(WatchSettings(listen="0"), "shop", {STREAM: "wall"})
    yield watch
    watch.close()


@pytest.fixture
def down(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """While it is set, the sink of lines takes nothing."""
    event, deliver = threading.Event(), JsonlSink.deliver

    def fails(sink: JsonlSink, delivery: Delivery) -> None:
        if event.is_set():
            raise SinkError("the disk is full")
        deliver(sink, delivery)

    monkeypatch.setattr(JsonlSink, "deliver", fails)
    return event


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setattr(exporter, "END_S", 60.0)  # of a machine that is busy
    with Collector() as collector:
        yield collector


def assert_batches_are_traces(collector: Collector, deliveries: Sequence[Delivery]) -> None:
    """A span of each batch with its counts, and below it its phases and what each sink did."""
    spans = collector.spans()
    batches = {attributes(span)["crossline.batch_id"]: span for span in spans if span.name == "batch"}
    body = {number: attributes(span)["crossline.records"] for number, span in batches.items()}
    assert body == {each.batch_id: each.figures["records"] for each in deliveries}
    for each in batches.values():
        below = {span.name: span for span in spans if span.parent_span_id == each.span_id}
        assert {"plan", "tasks", "collect", "deliver", "mark"} == set(below)
        assert all(span.trace_id == each.trace_id for span in below.values())
        begun, ended = each.start_time_unix_nano, each.end_time_unix_nano
        assert begun <= below["plan"].start_time_unix_nano
        assert below["mark"].end_time_unix_nano == ended
        sinks = [span.name for span in spans if span.parent_span_id == below["deliver"].span_id]
        assert sorted(sinks) == ["deliver to jsonl", "deliver to sqlite"]
    attempts = [attributes(span)["crossline.attempts"] for span in spans if span.name == "deliver to jsonl"]
    assert max(attempts) > 1, "it was down"


def as_logged(project: Project) -> list[Body]:
    """The rules as the twin takes them, with what the breaker made of them."""
    bodies: dict[Any, Body] = {}
    found: list[Body] = []
    for event in project.rule_log():
        if event["event"] in {"published", "status_changed"}:
            bodies[event["rule_id"], event["version"]] = event["body"]
        if event["event"] in {"published", "status_changed", "tripped"}:
            body = bodies[event["rule_id"], event["version"]]
            found.append({**body, "status": event["status"], "effective_from": event["effective_from_ms"]})
    return found


def assert_files_name_what_is_there(scrape: Scrape) -> None:
    """Every metric of the alerting rules and of the dashboard is in a scrape of a real run; nearly all have values."""
    wanted = {name for rule in alerting_rules() for name in names_in(rule["expr"])}
    wanted |= {name for expression in dashboard_expressions() for name in names_in(expression)}
    assert wanted - scrape.names() == {"up"}
    without = {name for name in wanted - {"up"} if not scrape.values(name)}
    assert without == {
        "crossline_sink_backlog_seconds",  # no sink is behind
        "crossline_source_waiting_records",  # there is no topic
        "crossline_unscored_records_total",  # nor a model
    }


def test_a_run_is_watched(
    spark: SparkSession, tmp_path: Path, watch: RunWatch, collector: Collector, down: threading.Event
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    project = Project(tmp_path, [OFTEN, PAIRS], sinks=SINKS, policy="policy.yaml")
    log = records(240, seed=5)
    place = watch.place
    assert asked(place, "/healthz") == (200, {"ok": True, "reasons": [], "state": "starting"})
    assert asked(place, "/readyz")[0] == 503
    spans = Spans(OtlpSettings(endpoint=collector.endpoint), "shop")
    with project.start(spark, watch=Telemetry(watch, spans)) as running:
        project.give("0.jsonl", lines(log[:80]) + b"{\n")
        running.until_read(81)
        until(place, "/readyz", 200)
        until_scraped(place, lambda each: each.values("crossline_rules") == {("active",): 1, ("shadow",): 1})
        scrape = until_scraped(place, lambda each: each.values("crossline_source_waiting_bytes") == {(STREAM,): 0})
        assert scrape.values("crossline_records_total") == {(STREAM,): 80}
        assert scrape.values("crossline_dead_letters_total")["malformed_json", STREAM] == 1
        assert scrape.values("crossline_sink_behind_seconds") == {("sqlite",): 0, ("jsonl",): 0}
        assert scrape.values("crossline_rule_events_total")["tripped",] == 1

        down.set()
        project.give("1.jsonl", lines(log[80:160]))
        body = until(place, "/readyz", 503)
        assert "sink jsonl has not accepted the batch for" in body["reasons"][0]
        assert asked(place, "/healthz")[0] == 200
        held = until_scraped(place, lambda each: each.values("crossline_sink_retries_total")["jsonl",] >= 1)
        assert held.values("crossline_source_waiting_bytes")[STREAM,] > 0
        assert held.values("crossline_ready") == {(): 0}
        assert held.values("crossline_records_total") == {(STREAM,): 80}, "not delivered"

        down.clear()
        until(place, "/readyz", 200)
        project.give("2.jsonl", lines(log[160:]))
        running.until_read(241)
        scrape = until_scraped(place, lambda each: each.values("crossline_records_total") == {(STREAM,): 240})
    assert until(place, "/healthz", 503)["reasons"] == ["the query is dead: see the log of the run"]

    spans.close()
    assert_batches_are_traces(collector, running.deliveries)
    alerts = project.alerts()
    content = scrape.values("crossline_alerts_total")
    for rule in ("often", "pairs"):
        kinds = [each["kind"] for each in alerts.values() if each["rule_id"] == rule]
        for kind in set(kinds):
            assert content[kind, rule] == kinds.count(kind)
    assert sum(scrape.values("crossline_decisions_total").values()) == len(project.rows("SELECT 1 FROM decisions"))
    assert_files_name_what_is_there(scrape)

    # The breaker: the rule is shadow from the instant that the log has, also to those who read its hits.
    (trip,) = [event for event in project.rule_log() if event["event"] == "tripped"]
    assert (trip["rule_id"], trip["who"], trip["status"]) == ("often", "breaker", "shadow")
    assert figures(alerts) == from_twin(expected(as_logged(project), log))
    assert {(a["kind"]) for a in alerts.values() if a["rule_id"] == "often"} == {"alert", "shadow"}
    delivered = read_jsonl(tmp_path / "out" / "alerts.jsonl")
    assert delivered == {name: each for name, each in alerts.items() if each["kind"] == "alert"}
    logged = find_log(tmp_path / "rules", "shop")
    assert logged is not None
    kept = [(v.kind, v.effective_from_ms) for v in ruleset_of_log(logged).versions if v.rule.rule_id == "often"]
    assert kept[1] == ("shadow", trip["effective_from_ms"])
