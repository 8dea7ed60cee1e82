"""Alerts, dead letters and late records as Kafka messages, truncated to a size limit where needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from crossline.basics.deadletter import DeadLetter
from crossline.basics.times import format_instant
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.io.sinks.identity import dead_identity, identity_of

if TYPE_CHECKING:
    from crossline.io.sinks.base import LateRecord

LIMIT_MIN = 512  # bytes: a topic that rejects this size rejects everything
SPARE = 512  # bytes the client may count beyond our own size of a message
END_HEADER = "crossline_end"  # of a message that has no value, see TransactionalProducer
NAME_HEADERS = ("alert_id", "decision_id", "dead_letter_id", "late_record_id")
_NAME_MAX = 500  # characters of a name; a path may be longer
_OVERHEAD = 100  # bytes of the protocol around a message, and 10 more around each header
_HEADER_OVERHEAD = 10
TEXTS = (4_096, 1_024, 256, 64)  # characters to which texts are shortened, step by step
_ALWAYS = (
    "schema_version",
    "alert_id",
    "kind",
    "rule_id",
    "rule_version",
    "severity",
    "stream",
    "record_id",
    "event_time",
)
_OF_CORRECTIONS = ("corrects", "outcome", "caused_by")


@dataclass(slots=True)  # not frozen: that takes three times as long to make, and there are thousands
class Outgoing:
    """A message. Its first header is its name, which makes it idempotent. ``cut(bytes)`` truncates it to a size."""

    topic: str
    key: bytes | None
    value: bytes
    headers: dict[str, str]
    cut: Callable[[int], Outgoing]

    @property
    def name(self) -> str:
        """Its id in the topic."""
        return next(iter(self.headers.values()))

    @property
    def place(self) -> tuple[str, str]:
        """Its topic and its name there."""
        return self.topic, self.name

    @property
    def size(self) -> int:
        """Bytes, about as clients and brokers count them before compression."""
        return len(self.value) + bytes_around(self.key, self.headers)


def alert_message(
    topic: str, alert: Mapping[str, Any], headers: Mapping[str, str], limit: int | None = None
) -> Outgoing:
    """``alert`` for ``topic``: keyed by the entity that it is about, named by its id, with further ``headers``.

    Within ``limit`` bytes it is still the alert, as JSON: what takes most room is left out or shortened, step by step,
    and a field ``cut`` reports it: ``bytes`` it has as a whole, and what was ``left_out``. The whole is in the store.
    """
    named = {"alert_id": str(alert["alert_id"]), **headers}
    key = entity_key(alert["key"])
    if limit is None:
        value = json_bytes(alert)
    else:
        key = _start(key, limit // 4)
        value = _cut_alert(alert, limit - bytes_around(key, named))
    return Outgoing(topic, key, value, named, partial(alert_message, topic, alert, headers))


def dead_message(topic: str, letter: DeadLetter, limit: int | None = None) -> Outgoing:
    """``letter`` for ``topic``: its bytes, with headers that say why and from where.

    Within ``limit`` bytes its value is the start of them; ``raw_bytes`` is their full number, and the stream, the
    partition and the offset say where.
    """
    place = {"stream": letter.stream, "partition": letter.partition, "offset": str(letter.offset)}
    digest = identity_of(letter).hex()
    name = "/".join([*place.values(), letter.reason, digest[:16]])
    headers = {
        "dead_letter_id": name if len(name) <= _NAME_MAX else digest,
        "reason": letter.reason,
        "detail": letter.detail,
        **place,
    }
    key = letter.record_id.encode() if letter.record_id is not None else None
    raw = letter.raw or b""
    if limit is not None:
        each_max = limit // 16
        headers = {n: v if n in NAME_HEADERS else shortened(v, each_max) for n, v in headers.items()}
        headers["raw_bytes"] = str(len(raw))
        key = _start(key, limit // 4)
        raw = raw[: max(0, limit - bytes_around(key, headers))]
    return Outgoing(topic, key, raw, headers, partial(dead_message, topic, letter))


def late_message(topic: str, late: LateRecord, limit: int | None = None) -> Outgoing:
    """``late`` for ``topic``: its bytes, keyed by the record's id, with headers that say from where and how late."""
    place = {"stream": late.stream, "partition": late.partition, "offset": str(late.offset)}
    digest = dead_identity(late.stream, late.partition, late.offset, "late", late.record_id, None).hex()
    name = "/".join([*place.values(), digest[:16]])
    headers = {
        "late_record_id": name if len(name) <= _NAME_MAX else digest,
        "record_id": late.record_id,
        "event_time": format_instant(late.event_ms),
        "ingest_time": format_instant(late.ingest_ms),
        "lateness_ms": str(late.lateness_ms),
        **place,
    }
    key: bytes | None = late.record_id.encode()
    raw = late.raw or b""
    if limit is not None:
        headers = {n: v if n in NAME_HEADERS else shortened(v, limit // 16) for n, v in headers.items()}
        headers["raw_bytes"] = str(len(raw))
        key = _start(key, limit // 4)
        raw = raw[: max(0, limit - bytes_around(key, headers))]
    return Outgoing(topic, key, raw, headers, partial(late_message, topic, late))


def entity_key(key: Mapping[str, Any]) -> bytes | None:
    """The message key: the bytes of a single text value, else the JSON list of the values; None without any."""
    values = list(key.values())
    if not values:
        return None
    if len(values) == 1 and isinstance(values[0], str):
        return values[0].encode()
    return orjson.dumps(values)


def bytes_around(key: bytes | None, headers: Mapping[str, str]) -> int:
    """The bytes of a message beside its value, about."""
    named = sum(len(name) + len(text.encode()) + _HEADER_OVERHEAD for name, text in headers.items())
    return len(key or b"") + named + _OVERHEAD


def _start(data: bytes | None, size: int) -> bytes | None:
    return data[:size] if data is not None else None


def _cut_alert(alert: Mapping[str, Any], room: int) -> bytes:
    whole = len(json_bytes(alert))
    body = b""
    for smaller, left_out in _smaller(alert):
        body = json_bytes({**smaller, "cut": {"bytes": whole, "left_out": left_out}})
        if len(body) <= room:
            break
    return body


def _smaller(alert: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], list[str]]]:
    """``alert`` with ever less in it, and what it lacks: first what only illustrates, last what names it."""
    evidence = alert.get("evidence") or {}
    records = evidence.get("records") or []
    while records:
        records = records[-(len(records) // 2) :] if len(records) > 1 else []
        yield {**alert, "evidence": {**evidence, "records": records}}, ["evidence.records"]
    plain = {**alert, "evidence": {**evidence, "records": []}} if "records" in evidence else dict(alert)
    if "record" in plain:
        del plain["record"]
        yield plain, ["evidence.records", "record"]
    gone = ["evidence.records", *(["record"] if "record" in alert else [])]
    for text_max in TEXTS:
        yield shortened(plain, text_max), [*gone, f"texts past {text_max} characters"]
    few = {**plain, "evidence": {"count": evidence.get("count"), "record_ids": (evidence.get("record_ids") or [])[-1:]}}
    yield shortened(few, TEXTS[-1]), ["evidence", f"texts past {TEXTS[-1]} characters"]
    named = {name: alert.get(name) for name in _ALWAYS}
    named |= {name: alert[name] for name in _OF_CORRECTIONS if alert.get(name) is not None}
    yield shortened(named, TEXTS[-1]), ["all but its name"]


def shortened(value: Any, text_max: int) -> Any:
    """``value`` with no text longer than ``text_max`` characters in it; an ellipsis marks where one was cut."""
    if isinstance(value, str):
        return value if len(value) <= text_max else f"{value[:text_max]}…"
    if isinstance(value, Mapping):
        return {shortened(name, text_max): shortened(each, text_max) for name, each in value.items()}
    if isinstance(value, list):
        return [shortened(each, text_max) for each in value]
    return value
