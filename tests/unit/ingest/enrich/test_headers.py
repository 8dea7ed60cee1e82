"""Headers of messages as fields of records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.basics.texts.problems import RefusedError
from crossline.ingest.enrich.headers import header_columns, with_headers
from crossline.runtime.sources.messages import HEADERS_TYPE, without_faults

TEXT = """
schema_version: 1
streams:
  payments:
    id: id
    event_time: {field: at}
    fields: {id: string, at: integer, channel: string}
    headers: %s
"""
HEADERS = "{via: string, tries: integer, risk: {header: x-risk, type: number}, test: boolean, raw: {header: via}}"


def spec(headers: str = HEADERS) -> StreamSpec:
    return load_streams(TEXT % headers, "stream.yaml")["payments"]


def given(*messages: dict[str, bytes | None] | None) -> pa.Array:
    return pa.array(
        [None if each is None else [{"key": k, "value": v} for k, v in each.items()] for each in messages], HEADERS_TYPE
    )


def test_each_is_read_as_its_type_and_may_be_missing() -> None:
    messages = [
        {"via": "äpp".encode(), "tries": b"3", "x-risk": b"-1.5e2", "test": b"true", "other": b"\xff"},
        {"via": None, "x-risk": b"7"},
        None,
    ]
    columns, wrong = header_columns(spec(), given(*messages))
    assert wrong == {}
    assert {name: column.to_pylist() for name, column in columns.items()} == {
        "via": ["äpp", None, None],
        "tries": [3, None, None],
        "risk": [-150.0, 7.0, None],
        "test": [True, None, None],
        "raw": ["äpp", None, None],
    }


def test_of_several_of_one_name_the_last_counts() -> None:
    pairs = [{"key": "via", "value": b"a"}, {"key": "via", "value": b"b"}]
    columns, _ = header_columns(spec("{via: string}"), pa.array([pairs], HEADERS_TYPE))
    assert columns["via"].to_pylist() == ["b"]


@pytest.mark.parametrize(
    ("message", "detail"),
    [
        ({"via": b"\xff"}, r'header via: found "\\xff", expected string'),
        ({"tries": b"3.0"}, 'header tries: found "3.0", expected integer'),
        ({"tries": b"9223372036854775808"}, 'header tries: found "9223372036854775808", expected integer'),
        ({"tries": b""}, 'header tries: found "", expected integer'),
        ({"x-risk": b"nan"}, 'header x-risk: found "nan", expected number'),
        ({"x-risk": b"1e999"}, 'header x-risk: found "1e999", expected number'),
        ({"test": b"yes"}, 'header test: found "yes", expected boolean'),
    ],
)
def test_what_is_not_of_its_type_is_reported(message: dict[str, bytes], detail: str) -> None:
    _, wrong = header_columns(spec(), given({}, message))
    assert wrong == {1: detail}


@pytest.mark.parametrize("headers", ["{channel: string}", "{a: text}", "{a: [string]}", "{a: {type: string}}", "[a]"])
def test_what_cannot_be_is_refused(headers: str) -> None:
    with pytest.raises(RefusedError):
        spec(headers)


def rows(values: list[bytes | None], headers: pa.Array, stamps_ms: list[int] | None = None) -> pa.RecordBatch:
    count = len(values)
    stamps = pa.array([1_000 * ms for ms in stamps_ms or [0] * count], pa.timestamp("us", "UTC"))
    offsets = pa.array(range(5, 5 + count), pa.int64())
    return pa.RecordBatch.from_pydict({"offset": offsets, "timestamp": stamps, "value": values, "headers": headers})


@pytest.mark.parametrize("good", [True, False])
def test_messages_that_are_no_records_are_dead_letters(good: bool) -> None:
    values: list[bytes | None] = [None, b"2", *([b"3"] if good else [])]
    found: list[dict[str, bytes | None] | None] = [None, {"tries": b"x"}, *([{"tries": b"4"}] if good else [])]
    left, columns, dead = without_faults(spec(), "payments", "t-1", rows(values, given(*found)))
    assert left.column("offset").to_pylist() == ([7] if good else [])
    assert columns["tries"].to_pylist() == ([4] if good else [])
    assert [(each.reason, each.partition, each.offset, each.raw) for each in dead] == [
        ("tombstone", "t-1", 5, b""),
        ("bad_header", "t-1", 6, b"2"),
    ]


@pytest.mark.parametrize("counts", [True, False])
def test_a_timestamp_before_1970_is_none_where_it_is_the_ingest_time(counts: bool) -> None:
    """Senders that give a message none have -1 written there; some write the year 1."""
    text = TEXT if counts else TEXT.replace("event_time:", "ingest_time: {field: at}\n    event_time:")
    declared = load_streams(text % "{via: string}", "stream.yaml")["payments"]
    values: list[bytes | None] = [b"1", None, b"3", b"4"]
    batch = rows(values, given(None, None, None, None), [-1, -1, 0, -62_135_596_800_000])
    left, _, dead = without_faults(declared, "payments", "t-1", batch)
    assert left.column("offset").to_pylist() == ([7] if counts else [5, 7, 8])
    lines = [(each.reason, each.offset, each.raw, each.detail) for each in dead]
    expected = "expected a time from 1970-01-01 to 2200-01-01"
    early = [
        ("time_out_of_range", at, raw, f"the message's timestamp: found {ms} ms, {expected}")
        for at, raw, ms in ((5, b"1", -1), (8, b"4", -62_135_596_800_000))
    ]
    tombstone = ("tombstone", 6, b"", "a message without a value")
    assert lines == ([early[0], tombstone, early[1]] if counts else [tombstone])


def test_records_of_no_topic_have_none() -> None:
    columns: Any = {"a": pa.array(["x"])}
    from crossline.basics.values import Records  # noqa: PLC0415 - of this test alone

    at = np.zeros(1, np.int64)
    records = Records("payments", "f", pa.array(["1"]), at, at, at, columns)
    found = with_headers(spec("{via: string}"), records).fields
    assert {name: found[name].to_pylist() for name in found} == {"a": ["x"], "via": [None]}
