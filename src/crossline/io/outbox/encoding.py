"""Encodes deliveries for the outbox, and decodes them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import StateError
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.io.sinks.base import Delivery, LateRecord
from crossline.io.sinks.decisions import Decisions, json_lines

_VERSION = 2
_DECISIONS_WITHIN = 1  # the version whose decisions are in the first line


def encode_delivery(delivery: Delivery) -> bytes:
    """``delivery`` as lines of JSON, exact: one of all but the decisions, then one of each decision, as it came."""
    first = json_bytes(
        {
            "schema_version": _VERSION,
            "pipeline": delivery.pipeline,
            "batch_id": delivery.batch_id,
            "alerts": list(delivery.alerts),
            "dead": [_bare(each) for each in delivery.dead],
            "late": [_bare(each) for each in delivery.late],
            "figures": delivery.figures,
            "rule_events": list(delivery.rule_events),
            "positions": list(delivery.positions),
            "decisions": len(delivery.decisions),
            "checkpoint": delivery.checkpoint,
            "began_ms": delivery.began_ms,
            "told": [base64.b64encode(each).decode() for each in delivery.feature_rows],
        }
    )
    return b"\n".join([first, *json_lines(delivery.decisions)])


def decode_delivery(raw: bytes, where: str) -> Delivery:
    """The delivery in ``raw``, read from ``where``. Raises StateError where ``encode_delivery`` did not write it."""
    try:
        first, *lines = raw.split(b"\n")
        body = json.loads(first)  # not the quick reader: a sum may be an integer of more than 64 bits
        version = body.pop("schema_version")
        if version == _VERSION:
            body["decisions"] = _decisions(lines, body["decisions"])
        elif version != _DECISIONS_WITHIN:
            raise StateError(f"{where}: written by another version of crossline; run that one until it is delivered")
        body["dead"] = [DeadLetter(**_whole(each)) for each in body["dead"]]
        body["late"] = [LateRecord(**_whole(each)) for each in body["late"]]
        body["positions"] = [(partition, offset) for partition, offset in body["positions"]]
        body["feature_rows"] = [base64.b64decode(each) for each in body.pop("told")]
        return Delivery(**body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(f"{where}: damaged ({error}); it holds what a sink is to get: restore the file") from None


def _decisions(lines: Sequence[bytes], count: int) -> Sequence[Mapping[str, Any]]:
    if len(lines) != count:
        raise ValueError(f"{len(lines)} of {count} decisions")
    return Decisions(lines) if lines else []


def _bare(record: DeadLetter | LateRecord) -> dict[str, Any]:
    body = asdict(record)
    return body if body["raw"] is None else {**body, "raw": base64.b64encode(body["raw"]).decode()}


def _whole(body: Mapping[str, Any]) -> dict[str, Any]:
    return {**body, "raw": None if body["raw"] is None else base64.b64decode(body["raw"])}
