"""Sources read backwards. What is expected are the lines as they were written, in the other order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crossline.backtest import reverse_readers
from crossline.backtest.record_search import RecordQuery, SourceRecord, event_ms
from crossline.backtest.reverse_readers import ReverseGeneratorReader, csv_parser, json_record, lines_backwards
from crossline.basics.streams.schema import StreamSpec, TimeField
from crossline.generate.source import read_source
from crossline.runtime.sources.fetch import fetch_generated
from crossline.runtime.sources.positions import GENERATED_SHIFT


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_lines_with_their_offsets(start: bytes, end: bytes) -> None:
    lines = [b'{"n":1}', b"", b"{", b"[1]", b'{"n":"\xc3\xa9"}', b'{"n":3}']
    data = start + b"\n".join(lines) + end
    first = SourceRecord("f", 0, {"n": 1})
    second, third = (SourceRecord("f", data.index(line), json.loads(line)) for line in lines[4:])
    assert list(lines_backwards(data, 0, "f", json_record)) == [third, second, first]
    assert list(lines_backwards(data, 0, "f", json_record, third.offset)) == [second, first]
    # A mark of byte order stands at the start of a file alone; elsewhere it makes no record.
    inside = [SourceRecord("f", 100 + row.offset, row.fields) for row in (third, second, *(() if start else (first,)))]
    assert list(lines_backwards(data, 100, "f", json_record)) == inside


def test_a_line_that_is_too_long_is_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reverse_readers, "LINE_BYTES_MAX", 7)
    assert [row.offset for row in lines_backwards(b'{"a":10}\n{"a":1}\n', 0, "f", json_record)] == [9]


def test_lines_of_csv() -> None:
    parse = csv_parser(["id", "name", "n"])
    assert parse(b'p1,"a, ""b""",\r') == {"id": "p1", "name": 'a, "b"', "n": None}
    assert [parse(raw) for raw in (b"p1,a", b"p1,a,1,2", b"\xff,a,1", b"")] == [None] * 4


def test_generated_records_stand_where_dead_letters_say() -> None:
    source = read_source({"workload": "tx", "records": 2_500})
    lines = source.lines(0, 2_500).splitlines()
    offset = (1_000 << GENERATED_SHIFT) + sum(len(line) + 1 for line in lines[1_000:1_234])
    assert fetch_generated(source, [offset]) == {offset: lines[1_234]}
    rows = [row for row in ReverseGeneratorReader("tx", source, 1_000, ("tx", offset), 0).rows(()) if row is not None]
    assert [row.fields for row in rows] == [json.loads(line) for line in reversed(lines[:1_235])]
    assert rows[0].offset == offset
    every = [row for row in ReverseGeneratorReader("tx", source, 1_000, None, 2_500).rows(()) if row is not None]
    assert len(every) == 2_500
    assert fetch_generated(source, [every[7].offset]) == {every[7].offset: lines[2_492]}


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("ms", 1_700_000_000_123, 1_700_000_000_123),
        ("ms", "1700000000123", 1_700_000_000_123),
        ("s", 1_700_000_000.123, 1_700_000_000_123),
        ("us", 1_700_000_000_123_999, 1_700_000_000_123),
        ("ns", "1700000000123999999", 1_700_000_000_123),
        ("iso8601", "2023-11-14T23:13:20.123+01:00", 1_700_000_000_123),
        ("ms", None, None),
        ("s", "soon", None),
        ("iso8601", 5.5, None),
    ],
)
def test_event_times(unit: Any, value: Any, expected: int | None) -> None:
    assert event_ms(TimeField(field="at", unit=unit), {"at": value}) == expected


def test_keys_as_sources_write_them() -> None:
    fields = {"id": "string", "at": "integer", "n": "number", "ok": "boolean", "day": "timestamp"}
    spec = StreamSpec.model_validate({"id": "id", "event_time": {"field": "at"}, "fields": fields})
    wanted = RecordQuery(spec, {"p"}, {"n": 1.5, "ok": True, "day": 86_400_000})
    good = {"id": "p", "at": 1, "n": 1.5, "ok": True, "day": "1970-01-02T00:00:00Z"}
    rows = [{**good, "n": 2}, {**good, "ok": False}, {**good, "n": None}, {**good, "n": "x"}, {**good, "id": "q"}]

    class Source:
        gone: list[str] = []  # noqa: RUF012 - never written

        def __init__(self, *rows: dict[str, Any]) -> None:
            self._rows = rows

        def rows(self, ids: Any) -> Any:  # noqa: ARG002
            return iter([SourceRecord("f", n, each) for n, each in enumerate(self._rows)])

    assert wanted.find(Source(*rows), float("inf")).rows == {}
    for same in (good, {**good, "n": "1.50", "ok": "TRUE"}):
        assert wanted.find(Source(*rows, same), float("inf")).rows == {"p": SourceRecord("f", 5, same)}
