"""Decisions in sinks: each is stored once, by its id, also after repeated deliveries."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crossline.basics.errors import UsageError
from crossline.io.kafka.decision_messages import decision_messages
from crossline.io.kafka.sink import KafkaSink
from crossline.io.sinks.base import Delivery
from crossline.io.sinks.decisions import columns_of
from crossline.io.sinks.jsonl import JsonlSink
from crossline.io.sqlite.sink import SqliteSink
from crossline.settings.sinks import JsonlSettings

from .kafka_mock import mock_brokers, read_topic
from .makers import alert

__all__ = ["mock_brokers"]


def decision(record: str, **changes: Any) -> dict[str, Any]:
    """The decision of the example, on record ``record``, with id ``d-<record>`` and with ``changes``."""
    return {
        "schema_version": 1,
        "decision_id": f"d-{record}",
        "kind": "decision",
        "revision": 0,
        "stream": "payments",
        "record_id": record,
        "decision": "step_up",
        "score": 55,
        "reasons": [],
        "policy_version": 2,
        "rules_digest": "0",
        "event_time": "2026-01-01T00:00:07.120Z",
        "ingest_time": "2026-01-01T00:00:07.180Z",
        "decided_at": "2026-01-01T00:00:07.300Z",
        "answered": "exact",
        "degraded": [],
        **changes,
    }


def of(batch_id: int, *decisions: Mapping[str, Any]) -> Delivery:
    return Delivery("p", batch_id, alerts=[alert("t1")], decisions=decisions)


def test_a_file_has_each_once(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    for batches in ((of(0, decision("t1")), of(1, decision("t2"))), (of(0, decision("t1"), decision("t3")),)):
        sink = JsonlSink.from_settings(
            JsonlSettings(kind="jsonl", path=str(tmp_path / "alerts.jsonl"), decisions=str(path)), "p"
        )
        sink.open()
        for batch in batches:
            sink.deliver(batch)
        sink.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [decision(t) for t in ("t1", "t2", "t3")]
    assert len((tmp_path / "alerts.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({"decisions": "a"}, "path and decisions of a jsonl sink are both a; give decisions a file"),
        ({"dead_letters": "a"}, "path and dead_letters of a jsonl sink are both a; give dead letters a file"),
        ({"dead_letters": "b", "decisions": "b"}, "dead_letters and decisions of a jsonl sink are both b"),
    ],
)
def test_one_file_for_two_things_is_refused(more: dict[str, str], names: str) -> None:
    with pytest.raises(UsageError, match=names):
        JsonlSink.from_settings(JsonlSettings(kind="jsonl", path="a", **more), "p")


def test_a_store_has_each_once_for_each_pipeline(tmp_path: Path) -> None:
    path = tmp_path / "crossline.db"
    for pipeline in ("p", "q"):
        sink = SqliteSink(path, pipeline)
        sink.open()
        for batch in (of(0, decision("t1")), of(0, decision("t1"), decision("t2", decision="block"))):
            sink.deliver(Delivery(pipeline, batch.batch_id, batch.alerts, decisions=batch.decisions))
        sink.close()
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT pipeline, record_id, decision, score, body FROM decisions ORDER BY seq")
        found = [(*row[:4], json.loads(row[4])["decision_id"]) for row in rows]
    one = [("t1", "step_up", 55, "d-t1"), ("t2", "block", 55, "d-t2")]
    assert found == [(pipeline, *each) for pipeline in ("p", "q") for each in one]


def test_a_topic_has_each_once_and_those_without_a_topic_are_not_sent(mock_brokers: str) -> None:
    one, two = (decision(record, sink_topic="decided") for record in ("t1", "t2"))
    for batches in ((of(0, one, decision("t9")),), (of(0, one, two),)):
        sink = KafkaSink(mock_brokers, "alerts")
        sink.open()
        for batch in batches:
            sink.deliver(batch)
            sink.deliver(batch)
        sink.close()
    sent = read_topic(mock_brokers, "decided")
    found = [(message.key(), json.loads(message.value())["decision_id"]) for message in sent]
    assert sorted(found) == [(b"t1", "d-t1"), (b"t2", "d-t2")]
    assert [json.loads(message.value())["alert_id"] for message in read_topic(mock_brokers, "alerts")] == ["id-t1"]


def test_one_that_is_too_large_is_cut_and_still_decides() -> None:
    reasons = [{"rule_id": f"r{n}", "message": "m" * 5_000} for n in range(40)]
    body = decision("t1", reasons=reasons)
    ((whole,),) = decision_messages(columns_of([body]), "t")
    sizes = []
    for limit in (100_000, 20_000, 3_000, 1_200):
        cut = whole.cut(limit)
        body = json.loads(cut.value)
        assert cut.size <= limit
        assert (body["decision"], body["decision_id"], body["cut"]["bytes"]) == ("step_up", "d-t1", len(whole.value))
        assert cut.name == "d-t1"
        assert [each["rule_id"] for each in body["reasons"]] == [f"r{n}" for n in range(len(body["reasons"]))]
        sizes.append(len(body["reasons"]))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 40
