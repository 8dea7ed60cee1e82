"""Records of a topic as lines of a file: what they say, when they came, where they stand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crossline.basics.streams.schema import load_streams
from crossline.cli.verify.inputs import places_of
from crossline.cli.verify.topics import CAME, STANDS, _line
from crossline.serve.ledger.comparison import RecordPlace

from .test_release import STREAM
from .verifykit import digest


@pytest.mark.parametrize(
    "value", [b'{"payment_id": "p1", "at": 1.0}', b' {\r\n "payment_id": "p1",\n "at": 2 }\n', b"{}", b"{ }"]
)
def test_a_line_is_the_record_as_it_is_written_with_two_fields_before(value: bytes) -> None:
    line = _line(value, 17, "payments-3 99")
    assert b"\n" not in line
    found = json.loads(line)
    assert (found.pop(CAME), found.pop(STANDS)) == (17, "payments-3 99")
    assert found == json.loads(value)


@pytest.mark.parametrize("value", [b"", b"null", b"[1,\n2]", b"\xff", b"not json"])
def test_what_is_no_object_stays_so(value: bytes) -> None:
    assert _line(value, 17, "payments-3 99") == (value.replace(b"\n", b" ") or b"null")


def test_a_record_stands_where_the_topic_has_it(tmp_path: Path) -> None:
    record = {"payment_id": "p1", "at": 7, "account": "a"}
    (tmp_path / "in.jsonl").write_bytes(_line(json.dumps(record).encode(), 17, "payments-3 99") + b"\n")
    streams = load_streams(STREAM, "stream.yaml")
    found = places_of({"payments": [str(tmp_path / "in.jsonl")]}, streams, {"payments": ["p1"]})
    assert found == {"payments": {"p1": RecordPlace("payments-3", 99, digest(record), "offset")}}
