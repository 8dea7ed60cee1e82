"""The error of a record that does not fit its stream: it points at the field, and says what was found and expected."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from crossline.basics.streams.schema import StreamSpec
from crossline.serve.decisions.record_faults import fault_of
from crossline.serve.decisions.records import RefusedRecord, StreamRecords
from crossline.serve.decisions.replies import HttpReply, asked_of, no_stream, stalled, unkept

FIELDS = {"id": "string", "amount": "integer", "a/b": "string?", "place": {"lat": "number?"}, "on": "timestamp?"}
SPEC = StreamSpec.model_validate({"id": "id", "event_time": {"field": "at"}, "fields": {**FIELDS, "at": "integer"}})
RECORD = {"id": "p1", "amount": 5, "at": 1_767_225_600_000}


def fault(line: bytes) -> dict[str, Any]:
    (checked,) = StreamRecords({"payments": SPEC}).check("payments", [line], 1_767_225_600_000)
    assert isinstance(checked, RefusedRecord)
    return fault_of(checked)


@pytest.mark.parametrize(
    ("change", "pointer", "found", "expected"),
    [
        ({"amount": "1, expected 2"}, "/amount", 'string "1, expected 2"', "integer"),
        ({"amount": None}, "/amount", "nothing", "integer"),
        ({"amount": 2**63}, "/amount", "9223372036854775808", "a number within a 64-bit integer"),
        ({"place": {"lat": True}}, "/place/lat", "true", "number"),
        ({"place": 5}, "/place", "number 5", "an object"),
        ({"a/b": 5}, "/a~1b", "number 5", "string"),
        ({"id": ""}, "/id", '""', "an id"),
        ({"at": -1}, "/at", "-1", "a time from 1970-01-01 to 2200-01-01"),
        ({"on": "noon"}, "/on", 'string "noon"', "a time such as 2026-01-31T09:30:00.000Z"),
    ],
)
def test_a_field_that_does_not_fit_is_pointed_at(
    change: dict[str, Any], pointer: str, found: str, expected: str
) -> None:
    line = (
        orjson.dumps({**RECORD, **change})
        if change.get("amount") != 2**63
        else b'{"id":"p1","amount":9223372036854775808,"at":1}'
    )
    assert fault(line) == {"pointer": pointer, "found": found, "expected": expected, "hint": None}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"[]", "a list"),
        (b"", "nothing"),
        (b'{"id": "p1", "id": "p2"}', "key id stands twice in one object"),
        (b'{"id": NaN}', "NaN is not a number of JSON"),
    ],
)
def test_a_line_that_is_no_record_has_no_pointer(line: bytes, found: str) -> None:
    error = fault(line)
    assert (error["pointer"], error["found"]) == ("", found)
    assert error["expected"]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (asked_of("payments", RefusedRecord("wrong_type", "field amount: found true, expected integer"), 0), "invalid"),
        (no_stream("other"), "not-found"),
        (unkept("the disk is full"), "try-again"),
        (stalled(), "try-again"),
    ],
)
def test_problems_have_the_form_of_those_of_other_routes(reply: HttpReply, kind: str) -> None:
    body = orjson.loads(reply.body)
    assert body.keys() == {"type", "title", "status", "detail", "errors"}
    assert body["type"] == f"urn:crossline:problem:{kind}"
