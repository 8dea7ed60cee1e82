"""The lake beside real pipelines: what a stream gave, a replay gives again; other engines read the same tables."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import yaml
from confluent_kafka import TopicPartition

from connectors.kafka_mock import WAIT_S
from crossline.lake.catalogs.catalog import open_lake
from crossline.lake.reading import LakeReader
from crossline.lake.writing.writer_setup import writer_of

from .feeding import fed, needed
from .killing import finish, kill_driver, running, tiered_at
from .project import Alerts, Project, by_id, figures, from_twin
from .test_hot_rules import as_published
from .test_kafka import BY_ACCOUNT, PAIR, SEED, scattered
from .topics import Sent, by_account, in_ingest_order, project_on, send, twin
from .traffic import RULES, STREAM, records, velocity

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

Topic = Callable[..., str]
EXAMPLE = Path(__file__).parents[2] / "examples" / "lake"


def with_lake(project: Project, **lake: Any) -> Project:
    """The same project with a lake, whose writer the test runs."""
    project.settings["lake"] = {"writer": False, **lake}
    project.pipeline.write_text(yaml.safe_dump(project.settings))
    return project


def write(project: Project) -> None:
    with writer_of(project.config()) as writer:
        while writer.write_next() is not None:
            pass


def write_up_to(project: Project, records: int) -> None:
    """Write until the lake has so many records: Spark commits a batch a moment after it is delivered."""
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        write(project)
        if reader_of(project).count(f"records_{STREAM}") >= records:
            return
    raise AssertionError(f"not {records} records in the lake in time")


def reader_of(project: Project) -> LakeReader:
    config = project.config()
    return LakeReader(open_lake(config), config)


def run(*arguments: str | Path, cwd: Path) -> str:
    """A command of crossline in a process of its own, as users start it."""
    made = subprocess.run(
        [sys.executable, "-m", "crossline", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


def replayed(project: Project, *options: str) -> Alerts:
    """By id, without what is of the run."""
    output = project.root / "replayed.jsonl"
    run("replay", "--pipeline", project.pipeline, "--output", output, *options, cwd=project.root)
    return by_id(json.loads(line) for line in output.read_text().splitlines())


def check(project: Project, records: int) -> None:
    """All that the store has is in the lake, once, and a replay gives it again."""
    reader = reader_of(project)
    assert reader.count(f"records_{STREAM}") == records
    lake = by_id(json.loads(body) for body in reader.rows("alerts").column("body").to_pylist())
    lake |= by_id(json.loads(body) for body in reader.rows("corrections").column("body").to_pylist())
    assert lake == project.alerts()
    assert sorted(reader.rows("late_records").column("record_id").to_pylist()) == project.late()
    letters = reader.rows("dead_letters").select(["reason", "record_id"]).to_pylist()
    assert sorted(((each["reason"], each["record_id"]) for each in letters), key=str) == project.dead()
    assert replayed(project) == project.alerts()


def test_partitions_that_are_read_at_once_are_replayed_as_the_stream_judged_them(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Topic, tmp_path: Path
) -> None:
    topics, alerts = [kafka_topic(2, append_time=False), kafka_topic(2, append_time=True)], kafka_topic(2)
    sent = scattered(*topics, time.time_ns() // 1_000_000)
    send(kafka_broker.brokers, sent, together=3)
    project = with_lake(project_on(kafka_broker.brokers, tmp_path, topics, alerts, RULES))
    project.drain(spark)
    write(project)
    check(project, len(sent))


def test_a_stop_in_the_midst_leaves_the_lake_whole(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Topic, tmp_path: Path
) -> None:
    topics, alerts = [kafka_topic(2, append_time=False) for _ in range(2)], kafka_topic(2)
    sent = by_account(topics, 240, SEED)
    project = with_lake(
        project_on(kafka_broker.brokers, tmp_path, topics, alerts, BY_ACCOUNT, max_records_per_batch=20)
    )
    with project.start(spark) as running:
        send(kafka_broker.brokers, sent[:120])
        running.until_read(60)
        running.hold_after(running.pipeline.totals.batches + 1)
        running.until_held()
    write(project)
    send(kafka_broker.brokers, sent[120:])
    project.drain(spark)
    write(project)
    check(project, len(sent))


def test_a_later_rule_gets_its_past_from_the_lake_where_its_topic_has_deleted_it(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Topic, tmp_path: Path
) -> None:
    """Twenty of fifty records are in the lake alone, ten in the lake and the topic, twenty in the topic alone."""
    topic, alerts, unhurried = kafka_topic(2), kafka_topic(), {"emit": "every", "allowed_lateness": "10m"}
    now_ms = time.time_ns() // 1_000_000
    log = [{**each, "event_time": now_ms - 10 * (60 - number)} for number, each in enumerate(records(59, seed=6))]
    sent = [Sent(topic, int(each["account"][1:]) % 2, json.dumps(each).encode(), 0) for each in log]
    project = with_lake(project_on(kafka_broker.brokers, tmp_path, [topic], alerts, [{**PAIR, **unhurried}]))
    with project.start(spark) as running:
        send(kafka_broker.brokers, sent[:20])
        running.until_read(20)
        delete = [
            TopicPartition(topic, number, sum(each.partition == number for each in sent[:20])) for number in (0, 1)
        ]
        send(kafka_broker.brokers, sent[20:30])
        running.until_read(30)
        write_up_to(project, 30)
        judged = in_ingest_order(kafka_broker.brokers, [topic])[:20]
        admin = kafka_broker.admin()
        for deleted in admin.delete_records(delete).values():
            deleted.result(WAIT_S)
        send(kafka_broker.brokers, sent[30:50])
        running.until_read(50)
        project.publish("sum.yaml", [velocity("sum", "sum", 100, aggregation_field="amount", **unhurried)])
        running.until_logged("published", rule_id="sum")
        send(kafka_broker.brokers, sent[50:])
        running.until_read(59)
    judged += in_ingest_order(kafka_broker.brokers, [topic])
    assert len(judged) == 59
    assert figures(project.alerts()) == from_twin(twin(as_published(project), judged))
    assert "without_past" not in [event["event"] for event in project.rule_log()]
    deleted_ids = {each["id"] for each in log[:20]}
    assert any(
        deleted_ids & set(alert["evidence"]["record_ids"])
        for alert in project.alerts().values()
        if alert["rule_id"] == "sum"
    )


def kill_writer(process: subprocess.Popen[bytes]) -> bool:
    """The lake writer beside a run, which starts it again. Whether it ran."""
    found = [each for each in psutil.Process(process.pid).children() if "lake" in each.cmdline()]
    for each in found:
        each.kill()
    return bool(found)


@pytest.mark.timeout(900)
def test_killed_writers_and_drivers_leave_each_row_once(tmp_path: Path) -> None:
    """Of rules that wait, correct, read tables and hits. The run starts the writer, and waits for it at its end."""
    count = needed(2)
    project = with_lake(tiered_at(tmp_path), writer=True, commit_every="1s")
    feed, draw = fed(project, count), random.Random(SEED)
    with running(project) as process:
        for kill in (kill_writer, kill_driver):
            while not feed.strike(process, draw, partial(kill, process)):
                pass
    feed.rest()
    finish(project)
    assert {"writer": reader_of(project).watermark() is not None, "spool": spooled(project)} == {
        "writer": True,
        "spool": [],
    }
    check(project, count)


def spooled(project: Project) -> list[str]:
    """Batches that the lake does not have."""
    return [each.name for each in (project.root / "out" / "checkpoint" / "lake").iterdir()]


def test_the_questions_of_the_example_have_their_answers(tmp_path: Path) -> None:
    """By DuckDB and by Polars, over the project that ``crossline init`` writes; the answers are counted by hand."""
    run("init", "payments", cwd=tmp_path)
    pipeline = tmp_path / "payments" / "pipeline.yaml"
    pipeline.write_text(pipeline.read_text() + "lake: {}\n")
    run("run", pipeline, "--drain", cwd=tmp_path)
    answers = {}
    for engine in ("duckdb", "polars"):
        program = [sys.executable, EXAMPLE / "ask.py", engine, "payments/out/lake/catalog.db"]
        made = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert made.returncode == 0, made.stderr
        answers[engine] = made.stdout.split()
    assert answers["duckdb"] == answers["polars"]
    expected = """
    alerts_by_rule
       card_testing 1 1 0
       large_payment 1 1 0
       spending 1 1 0
    records_of_alerts
       large_payment p0008 150000 None
       spending p0008 150000 None
       card_testing p0019 110 DE
    spending_of_alerted
       a3 7 52415
    """
    assert answers["duckdb"] == expected.split()
    assert run("replay", "--compare", "--json", cwd=pipeline.parent).count('"appear":0,"disappear":0') == 3
    shown = run("lake", "at", "2100-01-01T00:00:00Z", "alerts", "--json", cwd=pipeline.parent)
    assert [json.loads(line)["record_id"] for line in shown.splitlines()] == ["p0008", "p0008", "p0019"]
    status = [json.loads(line) for line in run("lake", "status", "--json", cwd=pipeline.parent).splitlines()]
    assert {each["table"]: each["rows"] for each in status}["records_payments"] == 24
    assert "records_payments" in run("lake", "maintain", cwd=pipeline.parent)
