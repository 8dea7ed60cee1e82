"""The bytes of records again, by their positions."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from crossline.basics.streams.schema import StreamSpec
from crossline.generate.source import Generator, read_source
from crossline.ingest.decode import decode_lines, make_layout
from crossline.io.files.log import FileChunks
from crossline.runtime.sources.fetch import FileFetch, fetch_generated
from crossline.runtime.sources.positions import GENERATED_SHIFT

DATA = b'{"n": 1}\n\n{"n": 2}\r\n{"n": "\xff"}\nlast'
LINES = {0: b'{"n": 1}', 10: b'{"n": 2}\r', 20: b'{"n": "\xff"}', 31: b"last"}
SOON_S = 60.0


def listed(root: Path, data: bytes = DATA) -> Path:
    """A file that a source has listed in chunks of two lines or so."""
    path = root / "in" / "a.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    log_of(root).poll(0)
    return path


def log_of(root: Path) -> FileChunks:
    return FileChunks([str(root / "in")], str(root / "list"), 12, unended="counts")


def test_lines_of_a_file_in_one_go(tmp_path: Path) -> None:
    path = listed(tmp_path)
    fetch = FileFetch("json", str(tmp_path / "list"))
    assert fetch(str(path), list(LINES), time.monotonic() + SOON_S) == LINES
    assert fetch(str(path), [10], time.monotonic() + SOON_S) == {10: LINES[10]}


def test_a_file_that_was_renamed_and_another_under_its_name(tmp_path: Path) -> None:
    path = listed(tmp_path)
    fetch = FileFetch("json", str(tmp_path / "list"))
    path.rename(path.with_name("old"))
    assert fetch(str(path), [0], time.monotonic() + SOON_S) == {0: LINES[0]}
    listed(tmp_path, b"uno\ndos\n")
    assert fetch(str(path), [0, 10], time.monotonic() + SOON_S) == {0: LINES[0], 10: LINES[10]}
    assert fetch(f"{path}#2", [0, 4], time.monotonic() + SOON_S) == {0: b"uno", 4: b"dos"}


def test_what_is_gone_cannot_be_fetched(tmp_path: Path) -> None:
    path = listed(tmp_path)
    until_s = time.monotonic() + SOON_S
    assert FileFetch("json", str(tmp_path / "list"))(str(path), [10_000], until_s) == {}
    assert FileFetch("parquet", str(tmp_path / "list"))(str(path), [0], until_s) == {}, "a row of it is no line"
    path.unlink()
    assert FileFetch("json", str(tmp_path / "list"))(str(path), [0], until_s) == {}


def test_when_time_is_up_the_rest_stays_away(tmp_path: Path) -> None:
    path = listed(tmp_path)
    assert FileFetch("json", str(tmp_path / "list"))(str(path), list(LINES), time.monotonic()) == {}


@pytest.mark.parametrize("workload", ["tx", "cards"])
def test_each_generated_record_by_the_offset_it_is_decoded_at(workload: str) -> None:
    source: Generator = read_source({"workload": workload, "records": 50})
    all_lines = source.lines(0, 50).splitlines()
    ids = {"id": "transaction_id", "event_time": {"field": "event_time"}}
    spec = StreamSpec.model_validate({**ids, "fields": {"transaction_id": "string", "event_time": "integer"}})
    layout = make_layout("payments", spec)
    offsets: list[int] = []
    for first, count in ((0, 20), (20, 30)):
        decoded = decode_lines(layout, source.lines(first, count), workload, first << GENERATED_SHIFT)
        offsets += decoded.records.offsets.tolist()
    assert fetch_generated(source, offsets) == dict(zip(offsets, all_lines, strict=True))
