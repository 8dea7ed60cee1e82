"""The real pipeline between topics of a real broker."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from connectors.kafka_mock import WAIT_S, read_topic
from crossline.runtime.java.launch import session_folder
from crossline.runtime.pipeline import batches, beside_spark, in_process_runner
from crossline.runtime.workers.in_process_worker import Setup
from crossline.runtime.workers.state_server import ANNOUNCEMENT

from .feeding import Feed
from .killing import RULES as KILL_RULES
from .killing import kill_driver, running
from .levels import BOTH, LEVELS
from .levels import RULES as STREAM_JOIN
from .project import Alerts, Project, figures, from_twin
from .test_hot_rules import as_published
from .test_kafka_decisions import decides
from .topics import Sent, by_account, in_ingest_order, on_topic, project_on, send, twin
from .traffic import BASE_MS, OF_RECORDS, RULES, STREAM, Record, records, velocity

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

Topic = Callable[..., str]
PAIR = velocity("pair", threshold=2, emit="every", window="60s")
# An account lies in one partition: so what these find does not depend on where batches are cut.
BY_ACCOUNT = [rule for rule in OF_RECORDS if "account" in rule.get("group_by", "account")]
KILLS = 2
SEED = 20_261_122


def delivered(alerts: Alerts) -> Alerts:
    """Those that leave the store."""
    return {name: alert for name, alert in alerts.items() if alert["kind"] == "alert"}


def decisions_on(brokers: str, topic: str) -> list[tuple[str, ...]]:
    """Record, decision and rules of each, in order of records."""
    lines = [json.loads(message.value()) for message in read_topic(brokers, topic)]
    return sorted((d["record_id"], d["decision"], *(each["alert_id"] for each in d["reasons"])) for d in lines)


def check(project: Project, broker: LocalBroker, alerts: str, topics: Iterable[str]) -> None:
    """Store and topic have what the naive twin finds, each alert once."""
    log = in_ingest_order(broker.brokers, topics)
    expected = twin(as_published(project), log)
    assert figures(project.alerts()) == from_twin(expected)
    assert on_topic(broker.brokers, alerts) == delivered(project.alerts())
    assert project.dead() == sorted(("duplicate_id", log[n]["_id"]) for n in expected.duplicates)
    assert project.late() == sorted(log[n]["_id"] for n in expected.late)


def scattered(created: str, appended: str, now_ms: int) -> list[Sent]:
    """Keys in all partitions of two topics.

    The senders' times reach from two minutes before ``now_ms`` to two minutes after it, and go back now and then.
    """
    draw = random.Random(SEED)
    log = records(240, SEED)
    shift_ms = now_ms - 120_000 - log[0]["event_time"]
    given: dict[str, Record] = {}
    sent, clock_ms = [], 0
    for record in log:
        event_ms = record["event_time"] + shift_ms
        clock_ms = max(clock_ms, event_ms)
        topic, ms = created, clock_ms - draw.choice([0, 0, 0, 700])
        if draw.random() < 0.4:
            topic, event_ms = appended, now_ms - (clock_ms - event_ms)
        whole = {**given.get(record["id"], {**record, "event_time": event_ms}), "amount": record["amount"]}
        given[record["id"]] = whole
        sent.append(Sent(topic, draw.randrange(2), json.dumps(whole).encode(), ms))
    return sent


@pytest.fixture(scope="module")
def drained(
    spark: SparkSession, kafka_broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Project, list[str], str]:
    """Two topics, one of them with the senders' times, read whole in one batch."""
    topics = [kafka_broker.create_topic(name, 2, append_time="append" in name) for name in ("e2e.create", "e2e-append")]
    alerts = kafka_broker.create_topic("e2e.alerts", 3)
    send(kafka_broker.brokers, scattered(topics[0], topics[1], time.time_ns() // 1_000_000), together=3)
    project = project_on(kafka_broker.brokers, tmp_path_factory.mktemp("kafka"), topics, alerts, RULES)
    assert project.drain(spark).batches == 1
    return project, topics, alerts


def test_topics_read_at_once_are_what_the_naive_twin_says(
    kafka_broker: LocalBroker, drained: tuple[Project, list[str], str]
) -> None:
    project, topics, alerts = drained
    log = in_ingest_order(kafka_broker.brokers, topics)
    assert len({record["_ingest_ms"] for record in log}) > 100, "the brokers' times are not tested"
    assert {alert["rule_id"] for alert in project.alerts().values()} == {rule["rule_id"] for rule in RULES}
    check(project, kafka_broker, alerts, topics)


def test_alerts_on_the_topic_are_keyed_by_their_entity(
    kafka_broker: LocalBroker, drained: tuple[Project, list[str], str]
) -> None:
    places: dict[bytes | None, set[int]] = {}
    for message in read_topic(kafka_broker.brokers, drained[2]):
        alert = json.loads(message.value())
        assert dict(message.headers())["alert_id"].decode() == alert["alert_id"]
        entity = list(alert["key"].values())
        if not entity:
            assert message.key() is None
        elif list(alert["key"]) == ["account"]:
            assert message.key().decode() == entity[0]
        else:
            assert json.loads(message.key()) == entity
        places.setdefault(message.key(), set()).add(message.partition())
    places.pop(None)
    assert all(len(partitions) == 1 for partitions in places.values())
    assert len(set().union(*places.values())) == 3, "all partitions are used"


def test_a_stop_in_the_midst_loses_and_repeats_nothing(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Topic, tmp_path: Path
) -> None:
    topics, alerts = [kafka_topic(2, append_time=False) for _ in range(2)], kafka_topic(2)
    sent = by_account(topics, 360, SEED)
    project = project_on(kafka_broker.brokers, tmp_path, topics, alerts, BY_ACCOUNT, max_records_per_batch=20)
    with project.start(spark) as running:
        send(kafka_broker.brokers, sent[:120])
        running.until_read(120)
        running.hold_after(running.pipeline.totals.batches + 2)
        send(kafka_broker.brokers, sent[120:240])
        running.until_held()
    assert 120 < running.pipeline.totals.records < 240, "it was not in the midst"
    with project.start(spark) as running:
        running.until(lambda totals: totals.batches >= 2)
        send(kafka_broker.brokers, sent[240:])
        running.until(lambda totals: totals.batches >= 4)
    project.drain(spark)
    check(project, kafka_broker, alerts, topics)


@pytest.mark.timeout(900)
def test_a_killed_driver_loses_and_repeats_nothing(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Topic, tmp_path: Path
) -> None:
    topics, alerts, undisturbed = [kafka_topic(2, append_time=False) for _ in range(2)], kafka_topic(2), kafka_topic(2)
    project = project_on(
        kafka_broker.brokers, tmp_path / "killed", topics, alerts, KILL_RULES, max_records_per_batch=60
    )
    decided = {each: kafka_topic(2) for each in ("killed", "whole")}
    decides(project, decided["killed"])
    feed = Feed(project, by_account(topics, 2_400, SEED), lambda _, piece: send(kafka_broker.brokers, piece))
    draw = random.Random(SEED)
    killed = 0
    while killed < KILLS:
        with running(project) as process:
            # The store comes before the topic: the kill meets the sending, what comes after it, or the next batch.
            killed += feed.strike(process, draw, partial(kill_driver, process))
    before = len(project.alerts())
    feed.more(120)  # what is left of the log need not come: the whole run reads what was sent
    whole = project_on(kafka_broker.brokers, tmp_path / "whole", topics, undisturbed, KILL_RULES)
    decides(whole, decided["whole"])
    whole.drain(spark)
    assert 0 < before < len(whole.alerts()), "the kills did not come under load"
    project.drain(spark)
    assert project.alerts() == whole.alerts()
    assert on_topic(kafka_broker.brokers, alerts) == whole.alerts()
    assert on_topic(kafka_broker.brokers, undisturbed) == whole.alerts()
    assert decisions_on(kafka_broker.brokers, decided["killed"]) == decisions_on(kafka_broker.brokers, decided["whole"])
    assert project.dead() == whole.dead()
    assert len(read_topic(kafka_broker.brokers, f"{alerts}.dead")) == len(whole.dead())


def test_an_idle_partition_stalls_nothing(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Topic, tmp_path: Path
) -> None:
    """One partition is empty, one falls silent at the start; the third is judged as it comes."""
    topic, alerts = kafka_topic(3, append_time=False), kafka_topic()
    log = records(90, seed=4)
    sent = [Sent(topic, 2, json.dumps(record).encode(), record["event_time"] + 100) for record in log]
    sent[0] = Sent(topic, 0, sent[0].value, sent[0].ms)
    project = project_on(kafka_broker.brokers, tmp_path, [topic], alerts, RULES)
    with project.start(spark) as running:
        # The first by itself: which of two partitions is seen first is the broker's affair.
        for start, end in pairwise([0, 1, 30, 60, 90]):
            send(kafka_broker.brokers, sent[start:end])
            running.until_read(end)
            expected = twin(as_published(project), in_ingest_order(kafka_broker.brokers, [topic]))
            assert figures(project.alerts()) == from_twin(expected)
    check(project, kafka_broker, alerts, [topic])


def test_dead_letters_have_their_place_and_their_bytes(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Topic, tmp_path: Path
) -> None:
    topic, alerts = kafka_topic(2, append_time=False), kafka_topic()

    def record(name: str, event_ms: int = 1_000_000, **changes: Any) -> bytes:
        fields = {"id": name, "account": "a1", "amount": 1, "kind": "web", "event_time": event_ms}
        return json.dumps({**fields, **changes}).encode()

    again = record("good", note="the bytes of the second")
    given: list[tuple[int, bytes | None, str | None, str | None]] = [
        (0, record("good"), None, None),
        (0, b'{"id": "torn", \xff', "bad_encoding", None),
        (1, b'{"id": "torn", "account"', "malformed_json", None),
        (0, record("typed", amount="12"), "wrong_type", "typed"),
        (1, None, "tombstone", None),
        (1, again, "duplicate_id", "good"),
        (0, record("late", 900_000), None, "late"),
        (0, record("other"), None, None),
    ]
    send(kafka_broker.brokers, (Sent(topic, partition, value, 1_000_000) for partition, value, _, _ in given))
    project = project_on(kafka_broker.brokers, tmp_path, [topic], alerts, [PAIR])
    project.drain(spark)
    places, at = [], [0, 0]
    for partition, value, reason, name in given:
        places.append((STREAM, f"{topic}-{partition}", at[partition], reason, name, value or b""))
        at[partition] += 1
    dead = sorted((each for each in places if each[3] is not None), key=lambda each: each[1:3])
    columns = 'stream, "partition", "offset", reason, record_id, raw'
    rows = project.rows(f'SELECT {columns} FROM dead_letters ORDER BY "partition", "offset"')  # noqa: S608 - our names
    assert rows == dead
    late = project.rows('SELECT stream, "partition", "offset", NULL, record_id, raw FROM late_records')
    assert late == [each for each in places if each[4] == "late"]
    letters = [
        ({name: text.decode() for name, text in m.headers()}, m.value())
        for m in read_topic(kafka_broker.brokers, f"{alerts}.dead")
    ]
    found = [(each["stream"], each["partition"], int(each["offset"]), each["reason"], value) for each, value in letters]
    assert sorted(found, key=str) == sorted(((*each[:4], each[5]) for each in dead), key=str)


def test_a_batch_takes_no_more_than_it_may(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Topic, tmp_path: Path
) -> None:
    topics, alerts = [kafka_topic(2, append_time=False) for _ in range(2)], kafka_topic()
    send(kafka_broker.brokers, by_account(topics, 110, SEED))
    project = project_on(kafka_broker.brokers, tmp_path, topics, alerts, BY_ACCOUNT, max_records_per_batch=25)
    with project.start(spark) as running:
        running.pipeline.drain()
    taken = [delivery.figures["records"] for delivery in running.deliveries]
    assert sum(taken) == 110
    assert max(taken) <= 25
    assert all(delivery.figures["cost_ms"]["rules"] for delivery in running.deliveries)
    check(project, kafka_broker, alerts, topics)


def test_a_later_rule_gets_its_past_from_the_topic(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Topic, tmp_path: Path
) -> None:
    """It holds from the instant at which it was taken up, by the broker's clock.

    That clock goes on while we wait, and by the defaults a record would be late after 25 seconds.
    """
    topic, alerts, unhurried = kafka_topic(2), kafka_topic(), {"emit": "every", "allowed_lateness": "10m"}
    now_ms = time.time_ns() // 1_000_000
    log = [{**each, "event_time": now_ms - 10 * (40 - number)} for number, each in enumerate(records(39, seed=6))]
    sent = [Sent(topic, int(each["account"][1:]) % 2, json.dumps(each).encode(), 0) for each in log]
    project = project_on(kafka_broker.brokers, tmp_path, [topic], alerts, [{**PAIR, **unhurried}])
    with project.start(spark) as running:
        send(kafka_broker.brokers, sent[:20])
        running.until_read(20)
        project.publish("sum.yaml", [velocity("sum", "sum", 100, aggregation_field="amount", **unhurried)])
        running.until_logged("published", rule_id="sum")
        send(kafka_broker.brokers, sent[20:])
        running.until_read(39)
    backfill = {each["id"] for each in log[:20]}
    assert any(backfill & set(a["evidence"]["record_ids"]) for a in project.alerts().values() if a["rule_id"] == "sum")
    check(project, kafka_broker, alerts, [topic])


def test_small_batches_run_without_a_job(
    spark: SparkSession,
    kafka_broker: LocalBroker,
    kafka_topic: Topic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But the first, whose beginning Spark alone knows, and those after a state server is gone.

    Batches that take long are Spark's too, lest they hold up a stream; here the machine may take its time.
    """
    monkeypatch.setattr(beside_spark, "Setup", partial(Setup, patience_s=WAIT_S))
    monkeypatch.setattr(in_process_runner, "ANSWER_S_MAX", WAIT_S)
    topics, alerts = [kafka_topic(2, append_time=False) for _ in range(2)], kafka_topic(2)
    sent = by_account(topics, 360, SEED)
    jobs: list[int] = []
    collect = batches.collect_from_spark

    def counted(*arguments: Any) -> Any:
        jobs.append(1)
        return collect(*arguments)

    monkeypatch.setattr(batches, "collect_from_spark", counted)
    project = project_on(kafka_broker.brokers, tmp_path, topics, alerts, BY_ACCOUNT, max_records_per_batch=20)
    with project.start(spark) as running:

        def without() -> int:
            return running.pipeline.totals.batches - len(jobs)

        send(kafka_broker.brokers, sent[:240])
        running.until_read(240)
        assert running.pipeline.totals.batches >= 12
        begun = without()
        assert begun > len(jobs)
        runner = running.pipeline._batches.in_process
        assert runner is not None
        # By that name people, and drills, find it.
        assert "cl-in-process" in {each.name() for each in psutil.Process().children(recursive=True)}
        runner.close()  # a new process is forked
        send(kafka_broker.brokers, sent[240:300])
        running.until_read(300)
        assert without() > begun
        gone = Path(str(session_folder())) / ANNOUNCEMENT
        state_servers, before = gone.read_text(), len(jobs)
        gone.unlink()
        send(kafka_broker.brokers, sent[300:330])
        running.until_read(330)
        assert len(jobs) > before, "Spark takes over"
        gone.write_text(state_servers)
        send(kafka_broker.brokers, sent[330:])
    project.drain(spark)
    check(project, kafka_broker, alerts, topics)


def test_topics_of_two_streams_meet_without_a_job(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Topic, tmp_path: Path
) -> None:
    """Records wait for their context, steps for what follows them, over small batches and over a restart."""
    payments, levels, alerts = kafka_topic(2, append_time=False), kafka_topic(1, append_time=False), kafka_topic()
    kafka = {"kind": "kafka", "brokers": kafka_broker.brokers}
    project = Project(
        tmp_path,
        [rule for rule in STREAM_JOIN if rule["rule_id"] in {"above", "level_then_cash", "device_of_account"}],
        streams=BOTH,
        sources={STREAM: {**kafka, "topic": payments}, LEVELS: {**kafka, "topic": levels}},
        sinks=[{"kind": "sqlite", "path": "out/alerts.db"}, {**kafka, "topic": alerts}],
    )

    def payment(name: str, second: int, account: str, amount: int, kind: str = "web") -> Sent:
        at = BASE_MS + 1_000 * second
        fields = {"id": name, "account": account, "device": 1, "amount": amount, "kind": kind, "event_time": at}
        return Sent(payments, int(account[1:]) % 2, json.dumps(fields).encode(), at)

    def level(name: str, second: int, owner: str, value: int, sent: int) -> Sent:
        fields = {"id": name, "owner": owner, "level": value, "event_time": BASE_MS + 1_000 * second}
        return Sent(levels, 0, json.dumps(fields).encode(), BASE_MS + 1_000 * sent)

    given = [
        level("l1", 0, "a1", 60, 0),
        payment("p1", 2, "a1", 160),  # 100 above
        payment("p2", 4, "a2", 250),  # there is no level of a2 yet; of the device there are 410
        payment("p3", 5, "a2", 9, "cash"),  # the second payment of a2
        level("l2", 3, "a2", 200, 6),  # is of both, and came late: p2 is 50 above
        payment("p4", 7, "a2", 1, "cash"),  # follows a level above 50; none of a1 did
    ]
    with ExitStack() as runs:
        running = runs.enter_context(project.start(spark))
        for number, each in enumerate(given):
            send(kafka_broker.brokers, [each])
            running.until_read(number + 1 if number < 4 else number - 3)
            if number == 3:
                runs.pop_all().close()
                running = runs.enter_context(project.start(spark))
        runner = running.pipeline._batches.in_process
        assert runner is not None, "Spark ran them all"
    found = [(each["rule_id"], each["record_id"], each["value"]) for each in project.alerts().values()]
    assert sorted(found) == [
        ("above", "p1", 100),
        ("above", "p2", 50),
        ("device_of_account", "p3", 419),
        ("device_of_account", "p4", 420),
        ("level_then_cash", "p4", 2),
    ]
    assert on_topic(kafka_broker.brokers, alerts) == project.alerts()
