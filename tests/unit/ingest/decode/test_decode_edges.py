"""Hand-worked cases: offsets, marks, blanks, limits, and the details of a dead letter."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from decode_streams import EVENTS, TIMES, layout_of, stream

from crossline.basics.deadletter import DeadLetter
from crossline.basics.times import parse_instant_ms
from crossline.ingest.decode import REASONS, Reason, decode_csv, decode_lines, decode_values

LAYOUT = layout_of(EVENTS)
LINE = b'{"id":"%s","amount":12,"at":1767225600000}'


def line(name: bytes) -> bytes:
    return LINE.replace(b"%s", name)


def dead_of(raw: bytes) -> DeadLetter:
    decoded = decode_lines(LAYOUT, raw, "in/a.jsonl", 50)
    assert len(decoded.records) == 0
    (letter,) = decoded.dead
    assert (letter.stream, letter.partition, letter.offset, letter.raw) == ("s", "in/a.jsonl", 50, raw)
    return letter


def test_every_reason_has_its_line() -> None:
    assert set(REASONS) == set(get_args(Reason))


def test_offsets_are_the_bytes_where_lines_start() -> None:
    chunk = line(b"a") + b"\n\n \t\r\nbroken\r\n" + line("é".encode()) + b"\r\n" + line(b"b")
    decoded = decode_lines(LAYOUT, chunk, "f", 1000)
    size = len(line(b"a"))
    assert decoded.records.ids.to_pylist() == ["a", "é", "b"]
    assert decoded.records.offsets.tolist() == [1000, 1000 + size + 14, 1000 + 2 * size + 17]
    assert [(letter.offset, letter.raw) for letter in decoded.dead] == [(1000 + size + 6, b"broken\r")]
    assert decoded.records.event_ms.tolist() == [1_767_225_600_000] * 3
    assert decoded.records.ingest_ms is None


@pytest.mark.parametrize("chunk", [b"", b"\n", b"\n\r\n  \n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_nothing_comes_of_nothing(chunk: bytes) -> None:
    decoded = decode_lines(LAYOUT, chunk, "f", 0)
    assert len(decoded.records) == len(decoded.dead) == 0
    assert {name: column.type for name, column in decoded.records.fields.items()}["tags"] == pa.list_(pa.string())


def test_a_byte_order_mark_is_taken_at_the_start_of_the_file_only() -> None:
    marked = b"\xef\xbb\xbf" + line(b"a")
    decoded = decode_lines(LAYOUT, marked + b"\n" + marked, "f", 0)
    assert decoded.records.offsets.tolist() == [0]
    assert [(letter.reason, letter.offset) for letter in decoded.dead] == [("bad_encoding", len(marked) + 1)]
    assert decode_lines(LAYOUT, marked, "f", 10).dead[0].reason == "bad_encoding"


def test_utf16_is_reported() -> None:
    letter = dead_of(b"\xff\xfe{\x00}\x00")
    assert (letter.reason, letter.detail) == (
        "bad_encoding",
        "UTF-16 text: found its byte order mark byte 0xff at byte 1, expected UTF-8",
    )


def test_a_long_line_is_cut() -> None:
    long = line(b"x" * 5_000)
    decoded = decode_lines(LAYOUT, long + b"\n" + line(b"a"), "f", 0, line_bytes_max=len(long) - 1)
    assert decoded.records.ids.to_pylist() == ["a"]
    (letter,) = decoded.dead
    assert letter.reason == "line_too_long"
    assert letter.detail == f"found {len(long)} bytes, expected at most {len(long) - 1}"
    assert letter.raw == long[:4096]
    assert decode_lines(LAYOUT, long, "f", 0, line_bytes_max=len(long)).dead == []


@pytest.mark.parametrize(
    ("raw", "reason", "detail", "record_id"),
    [
        (b'{"id":"a"', "malformed_json", "Expecting ',' delimiter at character 10", None),
        (b'{"id":"a","id":"b"}', "malformed_json", "key id stands twice in one object", None),
        (b"{} {}", "malformed_json", "Extra data at character 4", None),
        (b"[" * 100_000, "malformed_json", "nested deeper than 64 levels", None),
        (b"[1]", "not_an_object", "found a list, expected an object", None),
        (b'{"x":NaN}', "bad_number", "NaN is not a number of JSON", None),
        (b'{"id":"a","at":1}', "missing_field", "field amount is missing or null, expected integer", "a"),
        (b'{"id":"","amount":1,"at":1}', "missing_field", "field id is empty, expected an id", None),
        (b'{"id":7,"amount":1,"at":1}', "wrong_type", "field id: found number 7, expected string", None),
        (b'{"id":"a","amount":"5","at":1}', "wrong_type", 'field amount: found string "5", expected integer', "a"),
        (b'{"id":"a","amount":1.0,"at":1}', "wrong_type", "field amount: found number 1.0, expected integer", "a"),
        (b'{"id":"a","amount":1,"ok":0,"at":1}', "wrong_type", "field ok: found number 0, expected boolean", "a"),
        (
            b'{"id":"a","amount":1,"place":[],"at":1}',
            "wrong_type",
            "field place: found a list, expected an object",
            "a",
        ),
        (
            b'{"id":"a","amount":9223372036854775808,"at":1}',
            "bad_number",
            "field amount: found 9223372036854775808, beyond a 64-bit integer",
            "a",
        ),
        (
            b'{"id":"a","amount":1,"score":1e999,"at":1}',
            "bad_number",
            "field score: found 1e999, beyond a 64-bit float",
            "a",
        ),
        (
            b'{"id":"a","amount":1,"at":-1}',
            "time_out_of_range",
            "field at: found -1, expected a time from 1970-01-01 to 2200-01-01",
            "a",
        ),
        (
            b'{"id":"a","amount":1,"opened":"yesterday","at":1}',
            "bad_time",
            'field opened: found string "yesterday", expected a time such as 2026-01-31T09:30:00.000Z',
            "a",
        ),
        (
            b'{"id":"\\ud800","amount":1,"at":1}',
            "bad_encoding",
            "half of a surrogate pair (\\ud800 to \\udfff) stands alone",
            None,
        ),
        (b'{"id":"\xff"}', "bad_encoding", "not UTF-8: found byte 0xff at byte 8, expected UTF-8", None),
    ],
)
def test_a_dead_letter_reports_what_was_wrong(raw: bytes, reason: str, detail: str, record_id: str | None) -> None:
    letter = dead_of(raw)
    assert (letter.reason, letter.detail, letter.record_id) == (reason, detail, record_id)


def test_values_of_a_topic_keep_their_offsets_and_the_brokers_time() -> None:
    values = pa.array([line(b"a"), None, b"", line(b"b"), b"{\n}"], pa.binary())
    decoded = decode_values(LAYOUT, values, "t-3", np.array([5, 6, 9, 10, 12]), np.array([50, 60, 90, 100, 120]))
    assert decoded.records.ids.to_pylist() == ["a", "b"]
    assert decoded.records.offsets.tolist() == [5, 10]
    assert decoded.records.ingest_ms is not None
    assert decoded.records.ingest_ms.tolist() == [50, 100]
    reasons = [(letter.reason, letter.offset, letter.raw) for letter in decoded.dead]
    assert reasons == [("malformed_json", 6, b""), ("malformed_json", 9, b""), ("missing_field", 12, b"{\n}")]


def test_a_field_of_the_stream_for_ingest_time_goes_before_the_brokers() -> None:
    layout = layout_of(TIMES["two times"])
    values = pa.array([b'{"at":1767225600123999,"meta":{"id":"m","in":1767225601}}'], pa.binary())
    records = decode_values(layout, values, "t", np.array([1]), np.array([7])).records
    assert records.event_ms.tolist() == [1_767_225_600_123]
    assert records.ingest_ms is not None
    assert records.ingest_ms.tolist() == [1_767_225_601_000]
    assert records.fields["at"].to_pylist() == [1_767_225_600_123]
    assert records.fields["meta.in"].to_pylist() == [1_767_225_601]


@pytest.mark.parametrize(
    ("unit", "text", "event_ms"),
    [
        ("s", "1767225600.123", 1_767_225_600_123),
        ("s", "1767225600.123999", 1_767_225_600_123),
        ("s", "1767225600", 1_767_225_600_000),
        ("ms", "1767225600123.9", 1_767_225_600_123),
        ("us", "1767225600123999", 1_767_225_600_123),
        ("ns", "1.767225600123e18", 1_767_225_600_123),
    ],
)
def test_units_of_event_time_are_rounded_down(unit: str, text: str, event_ms: int) -> None:
    spec = stream(f"{{id: id, event_time: {{field: at, unit: {unit}}}, fields: {{id: string, at: number}}}}")
    records = decode_lines(layout_of(spec), f'{{"id":"a","at":{text}}}'.encode(), "f", 0).records
    assert records.event_ms.tolist() == [event_ms]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (b"9007199254740993", 2.0**53),
        (b"9223372036854775807", 2.0**63),
        (b"9223372036854775808", 2.0**63),
        (b"-9223372036854775809", -(2.0**63)),
        (b"18446744073709551616", 2.0**64),
        (b"1180591620717411303424", 2.0**70),
        (b"1" + b"0" * 308, 1e308),
        (b"1" + b"0" * 309, None),
    ],
)
def test_whole_numbers_of_any_size_are_rounded_where_a_number_is_declared(written: bytes, value: float | None) -> None:
    """As the reference of streams says; alone, in a list, and in CSV."""
    spec = stream("{id: id, event_time: {field: at}, fields: {id: string, at: integer, x: number?, xs: [number?]}}")
    lists = [b'{"id":"a","at":1,"x":%s}' % written, b'{"id":"b","at":1,"xs":[%s]}' % written]
    found = [decode_lines(layout_of(spec), each, "f", 0) for each in lists]
    single = stream("{id: id, event_time: {field: at}, fields: {id: string, at: integer, x: number?}}")
    found.append(decode_csv(layout_of(single), ["id", "at", "x"], b"c,1,%s\n" % written, "f", 0))
    if value is None:
        assert [letter.reason for each in found for letter in each.dead] == ["bad_number"] * 3
        return
    alone, listed, separated = (each.records.fields for each in found)
    assert (alone["x"].to_pylist(), listed["xs"].to_pylist(), separated["x"].to_pylist()) == (
        [value],
        [[value]],
        [value],
    )


@pytest.mark.parametrize("text", ["2016-12-31T23:59:60Z", "2016-12-31T23:59:60.5Z", "2017-01-01T00:59:60+01:00"])
def test_a_leap_second_is_no_time(text: str) -> None:
    """As the reference says, wherever a time is read as text: a field, the event's time, CSV, settings."""
    timed = stream("{id: id, event_time: {field: at, unit: iso8601}, fields: {id: string, at: string}}")
    held = stream("{id: id, event_time: {field: on}, fields: {id: string, on: integer, at: timestamp}}")
    found = [
        decode_lines(layout_of(timed), b'{"id":"a","at":"%s"}' % text.encode(), "f", 0),
        decode_lines(layout_of(held), b'{"id":"a","on":1,"at":"%s"}' % text.encode(), "f", 0),
        decode_csv(layout_of(timed), ["id", "at"], b"a,%s\n" % text.encode(), "f", 0),
    ]
    assert [[letter.reason for letter in each.dead] for each in found] == [["bad_time"]] * 3
    with pytest.raises(ValueError, match="is not"):
        parse_instant_ms(text)


def test_field_names_that_json_writes_with_escapes() -> None:
    spec = stream(
        r"""{id: id, event_time: {field: at}, fields: {id: string, at: integer, 'a"b\': string, "é": string?}}"""
    )
    raw = rb'{"id":"x","at":1,"a\"b\\":"v","\u00e9":"w"}'
    records = decode_lines(layout_of(spec), raw, "f", 0).records
    assert records.fields['a"b\\'].to_pylist() == ["v"]
    assert records.fields["é"].to_pylist() == ["w"]


@pytest.mark.parametrize("count", [1, 200, 256, 257, 2_000])
def test_many_unknown_fields_do_not_hide_a_known_one_nor_one_that_comes_twice(count: int) -> None:
    extra = ",".join(f'"x{number}":{{"y{number}":[{number}]}}' for number in range(count)).encode()
    good = b"{" + extra + b"," + line(b"a")[1:]
    twice = b"{" + extra + b',"x0":1,' + line(b"b")[1:]
    decoded = decode_lines(LAYOUT, b"\n".join([good, twice, good]), "f", 0)
    assert decoded.records.ids.to_pylist() == ["a", "a"]
    assert [letter.detail for letter in decoded.dead] == ["key x0 stands twice in one object"]


def test_a_buffer_is_decoded_as_its_bytes_are() -> None:
    chunk = line(b"a") + b"\n" + line(b"b")
    assert decode_lines(LAYOUT, pa.py_buffer(bytearray(chunk)), "f", 0).records.ids.to_pylist() == ["a", "b"]
