"""The errors of a record that does not fit its stream: each points at a field, with what was found and expected."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.unit.ingest.tokens.test_tokeniser import tokeniser

from crossline.basics.streams.schema import StreamSpec
from crossline.ingest.decode import make_layout
from crossline.ingest.decode.reasons import RecordFault
from crossline.serve.decisions.record_faults import error_of
from crossline.serve.decisions.records import RefusedRecord, StreamRecords
from crossline.serve.decisions.replies import HttpReply, asked_of, no_stream, stalled, unkept

FIELDS = {"id": "string", "amount": "integer", "a/b": "string?", "place": {"lat": "number?"}, "on": "timestamp?"}
SPEC = StreamSpec.model_validate({"id": "id", "event_time": {"field": "at"}, "fields": {**FIELDS, "at": "integer"}})
SENSITIVE = StreamSpec.model_validate({**SPEC.model_dump(exclude_unset=True), "sensitive": {"amount": {}}})
RECORD = {"id": "p1", "amount": 5, "at": 1_767_225_600_000}


def refused(line: bytes, spec: StreamSpec = SPEC) -> RefusedRecord:
    (checked,) = StreamRecords({"payments": spec}).check("payments", [line], 1_767_225_600_000)
    assert isinstance(checked, RefusedRecord)
    return checked


def fault(line: bytes) -> dict[str, Any]:
    (found,) = refused(line).faults
    return error_of(found)


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


def test_a_problem_has_all_faults_of_the_record() -> None:
    line = orjson.dumps({"id": "", "amount": True, "place": {"lat": "x"}, "on": "noon", "a/b": 5, "at": -1})
    reply = asked_of("payments", refused(line), 0)
    assert isinstance(reply, HttpReply)
    body = orjson.loads(reply.body)
    assert [each["pointer"] for each in body["errors"]] == ["/amount", "/a~1b", "/place/lat", "/on", "/id", "/at"]
    assert body["detail"] == (
        "the record does not fit stream payments: field amount: found true, expected integer; "
        'field a/b: found number 5, expected string; field place.lat: found string "x", expected number; and 3 more'
    )


def test_values_of_a_stream_with_sensitive_fields_are_withheld() -> None:
    layout = make_layout("payments", SENSITIVE, tokeniser(SENSITIVE))
    records = StreamRecords({"payments": SENSITIVE}, {"payments": layout})
    line = b'{"id": "p1", "amount": "secret", "place": {"lat": "secret"}}'
    (checked,) = records.check("payments", [line], 1_767_225_600_000)
    assert isinstance(checked, RefusedRecord)
    assert [error_of(each) for each in checked.faults] == [
        {"pointer": "/amount", "found": "a value that is withheld", "expected": "integer", "hint": None},
        {"pointer": "/place/lat", "found": "a value that is withheld", "expected": "number", "hint": None},
        {"pointer": "/at", "found": "nothing", "expected": "integer", "hint": None},
    ]
    (broken,) = records.check("payments", [b'{"id": "secret" "'], 1_767_225_600_000)
    assert isinstance(broken, RefusedRecord)
    assert [each.sentence for each in broken.faults] == ["the text is withheld: the stream has sensitive fields"]


def test_the_faults_of_each_record_are_its_own() -> None:
    lines = [orjson.dumps(each) for each in ({**RECORD, "amount": "x"}, RECORD, {**RECORD, "on": 1.5e300, "id": ""})]
    first, good, last = StreamRecords({"payments": SPEC}).check("payments", lines, 1_767_225_600_000)
    assert not isinstance(good, RefusedRecord)
    assert isinstance(first, RefusedRecord)
    assert isinstance(last, RefusedRecord)
    assert [[each.field for each in given.faults] for given in (first, last)] == [["amount"], ["on", "id"]]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (asked_of("payments", RefusedRecord((RecordFault("wrong_type", "true", "integer", "amount"),)), 0), "invalid"),
        (no_stream("other"), "not-found"),
        (unkept("the disk is full"), "try-again"),
        (stalled(), "try-again"),
    ],
)
def test_problems_have_the_form_of_those_of_other_routes(reply: HttpReply, kind: str) -> None:
    body = orjson.loads(reply.body)
    assert body.keys() == {"type", "title", "status", "detail", "errors"}
    assert body["type"] == f"urn:crossline:problem:{kind}"
