"""A message larger than the limit of the client or the topic is truncated, and holds no other message."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from confluent_kafka import Message
from structlog.testing import capture_logs

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import SinkError
from crossline.io.kafka.messages import alert_message, dead_message
from crossline.io.kafka.sink import KafkaSink
from crossline.io.sinks.base import Delivery, deliver_all

from .kafka_mock import mock_brokers, read_topic
from .makers import alert

__all__ = ["mock_brokers"]

RAW = bytes(range(256)) * 8_192  # 2 MiB, twice what the client takes
LIMITS = [100_000, 10_000, 3_000, 1_000]


def big_alert(record: str = "big", **changes: Any) -> dict[str, Any]:
    """With the fifty records of its window, 40 kB each."""
    records = [{"record_id": f"r{n}", "event_time": "", "values": {"note": str(n) + "x" * 40_000}} for n in range(50)]
    ids = [f"r{n}" for n in range(50)]
    return alert(record, evidence={"count": 900, "record_ids": ids, "records": records}, **changes)


def big_letter(offset: int = 7, raw: bytes = RAW) -> DeadLetter:
    return DeadLetter("payments", "malformed_json", "no end", "payments-3", offset, raw, None)


def headers(message: Message) -> dict[str, str]:
    return {name: value.decode() for name, value in message.headers()}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_cut_alert_is_still_an_alert(limit: int) -> None:
    whole = big_alert(message="é\x01" * 9_000, key={"account_id": "a" * 9_000})
    message = alert_message("alerts", whole, {}, limit)
    assert message.size <= limit
    found = json.loads(message.value)
    assert found["cut"]["bytes"] == len(json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode())
    assert found["cut"]["left_out"]
    assert {name: found[name] for name in ("alert_id", "rule_id", "record_id", "event_time")} == {
        name: whole[name] for name in ("alert_id", "rule_id", "record_id", "event_time")
    }
    assert message.name == "id-big"


def test_a_record_that_makes_an_alert_too_large_is_left_out_and_named() -> None:
    small = {name: value for name, value in big_alert().items() if name != "evidence"} | {"evidence": {"count": 1}}
    small |= {"message": "one", "description": "one"}
    found = json.loads(alert_message("alerts", {**small, "record": {"note": "x" * 5_000}}, {}, 4_000).value)
    assert "record" not in found
    assert found["cut"]["left_out"] == ["evidence.records", "record"]
    assert found["message"] == "one"


def test_of_the_records_of_a_window_the_latest_stay() -> None:
    found = json.loads(alert_message("alerts", big_alert(), {}, 600_000).value)
    ids = [each["record_id"] for each in found["evidence"]["records"]]
    assert ids == [f"r{n}" for n in range(38, 50)], "fifty are halved twice"
    assert found["evidence"]["record_ids"] == [f"r{n}" for n in range(50)]


@pytest.mark.parametrize("limit", LIMITS)
def test_a_cut_dead_letter_is_the_start_of_its_bytes_and_says_where_the_rest_is(limit: int) -> None:
    letter = DeadLetter("payments", "duplicate_id", "id 'x" + "y" * 5_000, "payments-3", 7, RAW, "x" * 5_000)
    whole, message = dead_message("dead", letter), dead_message("dead", letter, limit)
    assert message.size <= limit
    assert len(message.value) > limit // 8
    assert letter.raw is not None
    assert letter.raw.startswith(message.value)
    assert message.headers["raw_bytes"] == str(len(RAW))
    assert {name: message.headers[name] for name in ("stream", "partition", "offset", "reason")} == {
        "stream": "payments",
        "partition": "payments-3",
        "offset": "7",
        "reason": "duplicate_id",
    }
    assert message.name == whole.name


def test_the_name_of_a_letter_from_a_deep_folder_is_short() -> None:
    letter = DeadLetter("payments", "bad_json", "", "/deep" * 800, 7, b"", None)
    assert len(dead_message("dead", letter).name) == 32


def test_what_the_client_does_not_take_is_sent_cut_once(mock_brokers: str) -> None:
    sink = KafkaSink(mock_brokers, "alerts", dead_letter_topic="dead")
    sink.open()
    batch = Delivery(
        "p", 0, [alert("t1"), big_alert(), alert("t2")], [big_letter(5, b"{"), big_letter(), big_letter(9, b"[")]
    )
    with capture_logs() as logs:
        for _ in range(2):
            sink.deliver(batch)
    sink.close()
    assert sorted(headers(m)["alert_id"] for m in read_topic(mock_brokers, "alerts")) == ["id-big", "id-t1", "id-t2"]
    dead = {headers(m)["offset"]: m for m in read_topic(mock_brokers, "dead")}
    assert {offset: m.value() for offset, m in dead.items() if offset != "7"} == {"5": b"{", "9": b"["}
    assert len(dead["7"].value()) > 900_000
    assert RAW.startswith(dead["7"].value())
    assert headers(dead["7"])["raw_bytes"] == str(len(RAW))
    assert [entry["topic"] for entry in logs] == ["alerts", "dead"]


@pytest.mark.kafka
def test_what_the_topic_does_not_take_is_sent_cut_and_the_rest_whole(kafka_broker: Any) -> None:
    config = {"max.message.bytes": "20000"}
    name = f"narrow-{uuid.uuid4()}"
    topic = kafka_broker.create_topic(name, config=config)
    dead = kafka_broker.create_topic(f"{name}-dead", config=config)
    noise = [uuid.uuid4().hex for _ in range(2_000)]  # does not compress to nothing
    alerts = [alert(f"t{n}", message="".join(noise[n * 10 : n * 10 + 10])) for n in range(200)]
    letters = [big_letter(n, noise[n].encode()) for n in range(100)] + [big_letter(200, "".join(noise).encode())]
    batch = Delivery("p", 0, [*alerts, alert("big", message="".join(noise))], letters)
    for _ in range(2):
        sink = KafkaSink(kafka_broker.brokers, topic, dead_letter_topic=dead)
        sink.open()
        with capture_logs():
            deliver_all([sink], batch)
        sink.close()
    found = {headers(m)["alert_id"]: json.loads(m.value()) for m in read_topic(kafka_broker.brokers, topic)}
    assert len(read_topic(kafka_broker.brokers, topic)) == 201
    assert [name for name, each in found.items() if "cut" in each] == ["id-big"]
    assert sorted(found) == sorted(each["alert_id"] for each in batch.alerts)
    values = {headers(m)["offset"]: m.value() for m in read_topic(kafka_broker.brokers, dead)}
    assert {int(offset): value for offset, value in values.items() if offset != "200"} == {
        n: noise[n].encode() for n in range(100)
    }
    assert "".join(noise).encode().startswith(values["200"])
    assert len(values["200"]) > 5_000


@pytest.mark.kafka
def test_a_topic_that_takes_nothing_holds_the_batch_and_no_other_topic(kafka_broker: Any) -> None:
    name = f"wide-{uuid.uuid4()}"
    topic = kafka_broker.create_topic(name)
    tiny = kafka_broker.create_topic(f"{name}-tiny", config={"max.message.bytes": "100"})
    sink = KafkaSink(kafka_broker.brokers, topic, timeout_ms=5_000)
    sink.open()
    with capture_logs(), pytest.raises(SinkError, match=f"topic {tiny} takes no message .* raise max.message.bytes"):
        sink.deliver(Delivery("p", 0, [alert("t1", sink_topic=tiny), alert("t2")]))
    sink.close()
    assert [headers(m)["alert_id"] for m in read_topic(kafka_broker.brokers, topic)] == ["id-t2"]


@pytest.mark.kafka
def test_a_topic_that_cannot_be_made_holds_the_batch_and_no_other_topic(kafka_broker: Any) -> None:
    topic = kafka_broker.create_topic(f"with_bar-{uuid.uuid4()}")
    clash = topic.replace("_", ".")  # brokers refuse a name that differs from another in that alone
    sink = KafkaSink(kafka_broker.brokers, topic, timeout_ms=5_000)
    sink.open()
    with pytest.raises(SinkError, match=f"topic {clash}"):
        sink.deliver(Delivery("p", 0, [alert("t1", sink_topic=clash), alert("t2")]))
    sink.close()
    assert [headers(m)["alert_id"] for m in read_topic(kafka_broker.brokers, topic)] == ["id-t2"]


def test_what_can_be_no_topic_goes_to_the_topic_of_the_sink(mock_brokers: str) -> None:
    sink = KafkaSink(mock_brokers, "alerts")
    sink.open()
    sink.deliver(Delivery("p", 0, [alert("t1", sink_topic="my alerts!"), alert("t2", sink_topic="..")]))
    sink.close()
    found = {headers(m)["alert_id"]: headers(m)["sink_topic"] for m in read_topic(mock_brokers, "alerts")}
    assert found == {"id-t1": "my alerts!", "id-t2": ".."}
