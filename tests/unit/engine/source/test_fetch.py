"""The bytes of one record again, by its position."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.core.decode import decode_lines, make_layout
from crossline.core.schema import StreamSpec
from crossline.engine.source.fetch import GENERATED_SHIFT, fetch_file, fetch_generated
from crossline.generate.source import GeneratorSource, read_source

DATA = b'{"n": 1}\n\n{"n": 2}\r\n{"n": "\xff"}\nlast'


@pytest.mark.parametrize(
    ("offset", "line"), [(0, b'{"n": 1}'), (10, b'{"n": 2}\r'), (20, b'{"n": "\xff"}'), (31, b"last")]
)
def test_a_line_of_a_file(tmp_path: Path, offset: int, line: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(DATA)
    assert fetch_file("json", str(path), offset) == line


def test_what_is_gone_cannot_be_fetched(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    assert fetch_file("json", str(path), 0) is None
    path.write_bytes(DATA)
    assert fetch_file("json", str(path), 10_000) is None
    assert fetch_file("parquet", str(path), 0) is None, "a row of it is no line"


@pytest.mark.parametrize("workload", ["tx", "cards"])
def test_each_generated_record_by_the_offset_it_is_decoded_at(workload: str) -> None:
    source: GeneratorSource = read_source({"workload": workload, "records": 50})
    all_lines = source.lines(0, 50).splitlines()
    first, count = 20, 30
    chunk = source.lines(first, count)
    ids = {"id": "transaction_id", "event_time": {"field": "event_time"}}
    spec = StreamSpec.model_validate({**ids, "fields": {"transaction_id": "string", "event_time": "integer"}})
    decoded = decode_lines(make_layout("payments", spec), chunk, workload, first << GENERATED_SHIFT)
    offsets = decoded.records.offsets.tolist()
    assert [fetch_generated(source, offset) for offset in offsets] == all_lines[first : first + count]
