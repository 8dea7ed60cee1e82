"""Encodes deliveries for the outbox, and decodes them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import StateError
from crossline.evaluate.alerts.alert_json import is_cut, json_bytes
from crossline.io.sinks.base import Delivery, LateRecord
from crossline.io.sinks.decisions import json_lines

_VERSION = 1


def encode_delivery(delivery: Delivery) -> bytes:
    """``delivery`` as one line of JSON, exact."""
    return json_bytes(
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
            "decisions": [orjson.Fragment(line) for line in json_lines(delivery.decisions)],
            "checkpoint": delivery.checkpoint,
            "began_ms": delivery.began_ms,
            "told": [base64.b64encode(each).decode() for each in delivery.feature_rows],
        }
    )


def decode_delivery(raw: bytes, where: str) -> Delivery:
    """The delivery in ``raw``, read from ``where``. Raises StateError where ``encode_delivery`` did not write it."""
    try:
        body = orjson.loads(raw)
        if body["schema_version"] != _VERSION:
            raise StateError(f"{where}: written by another version of crossline; run that one until it is delivered")
        if any(is_cut(alert) for alert in body["alerts"]):
            body = json.loads(raw)  # not the quick reader: a sum is an integer of more than 64 bits
        del body["schema_version"]
        body["dead"] = [DeadLetter(**_whole(each)) for each in body["dead"]]
        body["late"] = [LateRecord(**_whole(each)) for each in body["late"]]
        body["positions"] = [(partition, offset) for partition, offset in body["positions"]]
        body["feature_rows"] = [base64.b64decode(each) for each in body.pop("told")]
        return Delivery(**body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(f"{where}: damaged ({error}); it holds what a sink is to get: restore the file") from None


def _bare(record: DeadLetter | LateRecord) -> dict[str, Any]:
    body = asdict(record)
    return body if body["raw"] is None else {**body, "raw": base64.b64encode(body["raw"]).decode()}


def _whole(body: Mapping[str, Any]) -> dict[str, Any]:
    return {**body, "raw": None if body["raw"] is None else base64.b64decode(body["raw"])}
