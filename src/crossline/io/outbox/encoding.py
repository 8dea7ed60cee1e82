"""Encodes deliveries for the outbox, and decodes them.

A delivery is a line of JSON. Decisions that came as columns stand behind it, a line each, and the columns in the first
line: a sink gets them as they came, and nothing parses them. There are thousands in a batch, and a backlog of batches
is what a sink has to get through quickly.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import orjson

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import StateError
from crossline.evaluate.alerts.alert_json import is_cut, json_bytes
from crossline.io.sinks.base import Delivery, LateRecord
from crossline.io.sinks.decisions import Decisions, json_lines

if TYPE_CHECKING:
    from crossline.evaluate.decisions.columns import DecisionColumns

_VERSION = 1


def encode_delivery(delivery: Delivery) -> bytes:
    """``delivery`` as JSON, exact, with lines of decisions behind it where they came so."""
    decisions = delivery.decisions
    columns = decisions.columns if isinstance(decisions, Decisions) else None
    head = json_bytes(
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
            "decisions": [orjson.Fragment(line) for line in json_lines(decisions)] if columns is None else [],
            **({} if columns is None else {"columns": _encoded(columns)}),
            "checkpoint": delivery.checkpoint,
            "began_ms": delivery.began_ms,
            "told": [base64.b64encode(each).decode() for each in delivery.feature_rows],
        }
    )
    return head if columns is None else b"\n".join([head, *columns.lines])


def decode_delivery(raw: bytes, where: str) -> Delivery:
    """The delivery in ``raw``, read from ``where``. Raises StateError where ``encode_delivery`` did not write it."""
    try:
        head, *lines = raw.split(b"\n")
        body = orjson.loads(head)
        if body["schema_version"] != _VERSION:
            raise StateError(f"{where}: written by another version of crossline; run that one until it is delivered")
        if any(is_cut(alert) for alert in body["alerts"]):
            body = json.loads(head)  # not the quick reader: a sum is an integer of more than 64 bits
        del body["schema_version"]
        body["dead"] = [DeadLetter(**_whole(each)) for each in body["dead"]]
        body["late"] = [LateRecord(**_whole(each)) for each in body["late"]]
        body["positions"] = [(partition, offset) for partition, offset in body["positions"]]
        body["feature_rows"] = [base64.b64decode(each) for each in body.pop("told")]
        columns = body.pop("columns", None)
        if columns is not None or lines:  # lines without columns are no delivery
            body["decisions"] = Decisions(_decoded(columns, lines))
        return Delivery(**body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(f"{where}: damaged ({error}); it holds what a sink is to get: restore the file") from None


def _encoded(columns: DecisionColumns) -> dict[str, Any]:
    """All but the lines. Ids are no JSON texts: half of a surrogate pair stands in them as it is."""
    return {
        "ids": _packed(columns.ids),
        "record_ids": _packed(columns.record_ids),
        "head": columns.head.tolist(),
        "heads": [list(each) for each in columns.heads],
        "event_ms": columns.event_ms.tolist(),
        "values": sorted(columns.values),
        "bytes": sum(map(len, columns.lines)),
    }


def _decoded(body: Mapping[str, Any], lines: Sequence[bytes]) -> DecisionColumns:
    """Raises ValueError where the lines are others than those that were encoded: the file was cut short."""
    import numpy as np  # noqa: PLC0415 - few commands load it

    from crossline.evaluate.decisions.columns import DecisionColumns, DecisionHead  # noqa: PLC0415 - as above

    if (len(lines), sum(map(len, lines))) != (len(body["head"]), body["bytes"]):
        raise ValueError("the lines of decisions are not those of their columns")
    return DecisionColumns(
        lines=lines,
        ids=_unpacked(body["ids"]),
        record_ids=_unpacked(body["record_ids"]),
        head=np.array(body["head"], np.int64),
        heads=[DecisionHead(*each) for each in body["heads"]],
        event_ms=np.array(body["event_ms"], np.int64),
        values={number: orjson.loads(lines[number]) for number in body["values"]},
    )


def _packed(texts: Sequence[bytes]) -> list[Any]:
    return [base64.b64encode(b"".join(texts)).decode(), list(map(len, texts))]


def _unpacked(body: Sequence[Any]) -> list[bytes]:
    raw, sizes = base64.b64decode(body[0]), body[1]
    return [raw[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]


def _bare(record: DeadLetter | LateRecord) -> dict[str, Any]:
    body = asdict(record)
    return body if body["raw"] is None else {**body, "raw": base64.b64encode(body["raw"]).decode()}


def _whole(body: Mapping[str, Any]) -> dict[str, Any]:
    return {**body, "raw": None if body["raw"] is None else base64.b64decode(body["raw"])}
