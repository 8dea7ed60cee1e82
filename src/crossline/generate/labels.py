"""Labels: what was planted where, kept apart from the records, one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from crossline.basics.errors import PermanentError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PlantedFraud:
    """A planted fraud: its records in stream order, and the key that it turns on, as field name to value.

    The event time of each of its records lies in [start_ms, end_ms]. ``complete`` is false where the fraud goes on
    outside the range of records that the label was made for.
    """

    fraud_id: str
    scenario: str
    record_ids: tuple[str, ...]
    key: dict[str, str]
    start_ms: int
    end_ms: int
    complete: bool = True


def label_lines(labels: Iterable[PlantedFraud]) -> bytes:
    """The labels as JSON lines; times are RFC 3339 UTC with milliseconds."""
    return b"".join(
        orjson.dumps(
            {
                "schema_version": 1,
                "fraud_id": label.fraud_id,
                "scenario": label.scenario,
                "record_ids": label.record_ids,
                "key": label.key,
                "start": rfc3339(label.start_ms),
                "end": rfc3339(label.end_ms),
                "complete": label.complete,
            },
            option=orjson.OPT_APPEND_NEWLINE,
        )
        for label in labels
    )


def read_labels(lines: bytes) -> list[PlantedFraud]:
    """Labels back from their JSON lines; PermanentError names the line that is none."""
    labels = []
    for number, line in enumerate(lines.splitlines(), start=1):
        try:
            labels.append(_label(orjson.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            message = (
                f"labels, line {number}: not a label ({error!r}); make them with `crossline generate cards --labels`"
            )
            raise PermanentError(message) from error
    return labels


def _label(fields: dict[str, Any]) -> PlantedFraud:
    return PlantedFraud(
        fraud_id=fields["fraud_id"],
        scenario=fields["scenario"],
        record_ids=tuple(fields["record_ids"]),
        key=dict(fields["key"]),
        start_ms=_epoch_ms(fields["start"]),
        end_ms=_epoch_ms(fields["end"]),
        complete=bool(fields["complete"]),
    )


def rfc3339(epoch_ms: int) -> str:
    """An instant as RFC 3339 UTC with milliseconds."""
    text = (EPOCH + timedelta(milliseconds=epoch_ms)).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _epoch_ms(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1)
