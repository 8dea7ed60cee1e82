"""Repaired dead letters are sent to topics once, over repeated clicks and kills."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pytest
from confluent_kafka import Producer
from dev.services.broker import LocalBroker

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import SourceError
from crossline.basics.streams.api_record import SubmittedRecord
from crossline.serve.assembly import _log
from crossline.serve.dead_letters.repair import NotFitError
from crossline.serve.dead_letters.resend import Resender, SentAlreadyError
from crossline.serve.dead_letters.resend_log import ResentFile
from crossline.serve.dead_letters.targets import close_own, ways_of
from crossline.serve.dead_letters.values import StoredDeadLetter
from crossline.settings.config import PipelineConfig, load_pipeline

from .registry_fake import FakeRegistry, fake_registry
from .test_kafka_recordlog import NOW_MS, read, run

pytestmark = pytest.mark.kafka
STREAM = """\
schema_version: 1
streams:
  payments:
    format: %s
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: integer, account: string}
"""
PIPELINE = """\
schema_version: 1
name: payments
streams: stream.yaml
sources: {payments: {kind: kafka, brokers: "%s", topic: "%s", key: account%s}}
rules: {kind: directory, path: rules}
sinks: [{kind: sqlite, path: out/crossline.db}]
engine: {checkpoint: "%s"}
"""
GOOD = orjson.dumps({"id": "p1", "at": NOW_MS, "account": "a1"})


def letter(raw: bytes | None, reason: str = "malformed_json") -> StoredDeadLetter:
    return StoredDeadLetter(1, DeadLetter("payments", reason, "it broke", "topic-0", 7, raw))


def pipeline(folder: Path, brokers: str, topic: str, form: str = "json", more: str = "") -> PipelineConfig:
    text = PIPELINE % (brokers, topic, more, folder / "checkpoint")
    return load_pipeline(text, "pipeline.yaml", lambda _: STREAM % form)


@asynccontextmanager
async def process(
    config: PipelineConfig, folder: Path, fails: str = "", now_ms: int = NOW_MS
) -> AsyncIterator[Resender]:
    """An API's own way of sending; ``fails``: the method of what was noted before which it ends."""
    log = _log(config, "payments")
    logs: dict[str, Any] = {} if log is None else {"payments": log}
    ways, resent = ways_of(config, logs, {}), ResentFile(folder / "resent.db")
    if fails:

        def ended(*_: Any) -> None:
            raise KeyboardInterrupt

        setattr(resent, fails, ended)
    yield Resender(config.streams, ways, resent, lambda: now_ms)
    await close_own(ways, logs)
    for each in logs.values():
        await each.close()
    resent.close()


def values(broker: LocalBroker, topic: str) -> list[tuple[bytes | None, bytes]]:
    return [(key, value) for key, value, _ in read(broker, topic, 2).values()]


def test_two_clicks_are_one_record(kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path) -> None:
    topic = kafka_topic(2)
    config, kept = pipeline(tmp_path, kafka_broker.brokers, topic), letter(b'{"id":')

    async def clicked() -> list[Any]:
        async with process(config, tmp_path) as one:
            both = await asyncio.gather(*(one.send(kept, GOOD, who) for who in ("ann", "bob")), return_exceptions=True)
            with pytest.raises(NotFitError, match="wrong_type"):
                await one.send(letter(b"other"), GOOD.replace(b'"p1"', b"[1]"), "ann")
            return both

    first, second = run(clicked())
    assert (first.who, first.record_id, first.log.rpartition("-")[0]) == ("ann", "p1", topic)
    assert isinstance(second, SentAlreadyError)
    assert "ann sent it again already, as record p1" in str(second)
    assert values(kafka_broker, topic) == [(b"a1", GOOD)]


@pytest.mark.parametrize("fails", ["begin", "done"])
def test_a_process_that_ends_in_between_sends_nothing_twice(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path, fails: str
) -> None:
    topic = kafka_topic(2)
    config, kept = pipeline(tmp_path, kafka_broker.brokers, topic), letter(b'{"id":')
    producer = Producer({"bootstrap.servers": kafka_broker.brokers})

    async def killed() -> None:
        async with process(config, tmp_path, fails) as one:
            with pytest.raises(KeyboardInterrupt):
                await one.send(kept, GOOD, "ann")

    async def again() -> Any:
        async with process(config, tmp_path) as one:
            found = await one.send(kept, GOOD, "bob")
            with pytest.raises(SentAlreadyError):
                await one.send(kept, GOOD, "ann")
            return found

    for number in range(500):  # what others send meanwhile
        producer.produce(topic, b'{"id":"q%d"}' % number, key=b"%d" % number)
    assert producer.flush(60) == 0
    run(killed())
    for number in range(500):
        producer.produce(topic, b'{"id":"r%d"}' % number, key=b"%d" % number)
    assert producer.flush(60) == 0
    found = run(again())
    assert found.who == ("bob" if fails == "begin" else "ann"), "who began it, sent it"
    stands = read(kafka_broker, topic, 2)
    (place,) = (each for each, (_, value, _) in stands.items() if value == GOOD)
    assert (found.log, found.place) == (place.log, place.at)


def test_what_never_came_there_may_be_mended_otherwise(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = kafka_topic(2)
    config, kept = pipeline(tmp_path, kafka_broker.brokers, topic), letter(b'{"id":')
    other = GOOD.replace(b'"p1"', b'"p2"')

    async def killed() -> None:
        async with process(config, tmp_path) as one:
            way = one._ways["payments"]

            async def ended(_: Any) -> Any:
                raise KeyboardInterrupt

            setattr(way.log, "append", ended)  # noqa: B010 - of a log that a test ends
            with pytest.raises(KeyboardInterrupt):
                await one.send(kept, GOOD, "ann")

    async def again() -> Any:
        async with process(config, tmp_path) as soon:
            with pytest.raises(SentAlreadyError, match="Expected the same bytes"):
                await soon.send(kept, other, "bob")
        async with process(config, tmp_path, now_ms=NOW_MS + 61_000) as later:
            return await later.send(kept, other, "bob")

    run(killed())
    assert run(again()).record_id == "p2"
    assert values(kafka_broker, topic) == [(b"a1", other)]


def test_a_record_of_another_that_has_its_id_is_not_taken_for_it(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = kafka_topic(2)
    config = pipeline(tmp_path, kafka_broker.brokers, topic)
    other = GOOD.replace(b"a1", b"a2")

    async def sent() -> None:
        log = _log(config, "payments")
        assert log is not None
        await log.append([SubmittedRecord(1, "payments", "p1", other, "d", NOW_MS)])
        resent = ResentFile(tmp_path / "resent.db")
        one = Resender(config.streams, ways_of(config, {"payments": log}, {}), resent, lambda: NOW_MS)
        with pytest.raises(SentAlreadyError, match="found record p1 in the stream already, with other bytes"):
            await one.send(letter(b"{"), GOOD, "ann")
        done = await one.send(letter(b"{"), GOOD.replace(b'"p1"', b'"p2"'), "ann")
        assert done.record_id == "p2"
        await log.close()
        resent.close()

    run(sent())
    assert sorted(value for _, value in values(kafka_broker, topic)) == [other, GOOD.replace(b'"p1"', b'"p2"')]


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
FIRST = {"type": "record", "name": "Payment", "fields": [
    {"name": "id", "type": "string"}, {"name": "at", "type": "long"}, {"name": "account", "type": "string"},
]}  # fmt: skip
NEWEST = {"type": "record", "name": "Payment", "fields": [
    {"name": "account", "type": "string"}, {"name": "id", "type": "string"}, {"name": "at", "type": MILLIS},
    {"name": "note", "type": ["null", "string"]},
]}  # fmt: skip
BROKEN = b"\0" + (1).to_bytes(4, "big") + b"\x04p1\x10"  # its time ends, and no account follows


def written(registry: FakeRegistry, topic: str) -> None:
    registry.add(1, FIRST)
    registry.add(2, NEWEST)
    registry.latest[f"{topic}-value"] = 2
    registry.versions[f"{topic}-value", 2] = {"id": 2, "version": 2, "schema": json.dumps(NEWEST)}


def test_a_dead_letter_of_avro_is_mended_as_json(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = kafka_topic(2)
    with fake_registry() as registry:
        written(registry, topic)
        config = pipeline(tmp_path, kafka_broker.brokers, topic, "avro", f", registry: {{url: '{registry.url}'}}")
        kept = letter(BROKEN, "malformed_avro")

        async def sent() -> Any:
            async with process(config, tmp_path) as one:
                assert one.why_not("payments") == ""
                seen = one.view("payments", BROKEN)
                assert seen is not None
                assert (seen.schema, seen.record, seen.read) == (1, {"id": "p1", "at": 8}, len(BROKEN))
                assert seen.broke.startswith("field account: the bytes end")
                unfit = {b'{"id": "p1", "at": 8}': "field account: found null", b"[": "malformed_json",
                         b'{"id": "", "at": 8, "account": "a"}': "missing_field"}  # fmt: skip
                for text, why in unfit.items():
                    with pytest.raises(NotFitError, match=why):
                        await one.send(kept, text, "ann")
                assert values(kafka_broker, topic) == []
                both = (one.send(kept, GOOD, who) for who in ("ann", "bob"))
                first, second = await asyncio.gather(*both, return_exceptions=True)
                assert isinstance(second, SentAlreadyError)
                return first

        done = run(sent())
        assert (done.who, done.record_id) == ("ann", "p1")
        ((key, value),) = values(kafka_broker, topic)
        assert key == b"a1"
        assert value[:5] == b"\0" + (2).to_bytes(4, "big"), "by the newest schema of the topic"
        body = fastavro.schemaless_reader(io.BytesIO(value[5:]), fastavro.parse_schema(NEWEST), None)
        assert (body["id"], body["account"], body["note"]) == ("p1", "a1", None)
        assert body["at"].timestamp() * 1_000 == NOW_MS


def test_avro_where_a_process_ends_in_between_and_where_the_registry_is_away(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = kafka_topic(2)
    with fake_registry() as registry:
        written(registry, topic)
        config = pipeline(tmp_path, kafka_broker.brokers, topic, "avro", f", registry: {{url: '{registry.url}'}}")
        kept = letter(None, "malformed_avro")

        async def killed() -> None:
            async with process(config, tmp_path, "done") as one:
                with pytest.raises(KeyboardInterrupt):
                    await one.send(kept, GOOD, "ann")

        async def again() -> Any:
            async with process(config, tmp_path) as one:
                registry.down()
                with pytest.raises(SourceError, match="does not answer"):
                    await one.send(kept, GOOD, "bob")
                registry.up()
                return await one.send(kept, GOOD, "bob")

        run(killed())
        assert run(again()).who == "ann"
        assert len(values(kafka_broker, topic)) == 1
