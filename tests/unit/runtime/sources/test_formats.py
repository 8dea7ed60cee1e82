"""Parquet files that are finished and damaged: a dead letter each, and never the end of a run."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossline.basics.errors import SourceError
from crossline.basics.streams.schema import StreamSpec
from crossline.ingest.decode import make_layout
from crossline.io.chunks import ChunkRef
from crossline.runtime.sources.formats import decode_chunk

FIELDS = {"id": "string", "amount": "number", "at": "integer"}
LAYOUT = make_layout(
    "payments", StreamSpec.model_validate({"id": "id", "event_time": {"field": "at", "unit": "s"}, "fields": FIELDS})
)


def good() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": ["a", "b"], "amount": [1.0, 2.0], "at": [1, 2]}), out)
    return out.getvalue()


def chunk_of(folder: Path, data: bytes) -> ChunkRef:
    path = folder / "a.parquet"
    path.write_bytes(data)
    return ChunkRef(0, str(path), 0, len(data), f"{path}#2")


def test_a_good_file_has_no_dead_letter(tmp_path: Path) -> None:
    decoded = decode_chunk("parquet", LAYOUT, chunk_of(tmp_path, good()))
    assert (decoded.records.ids.to_pylist(), decoded.dead) == (["a", "b"], [])


@pytest.mark.parametrize("footer", [b"", b"\0" * 5_000, b"not thrift"])
def test_a_finished_file_that_is_no_table_is_one_dead_letter(tmp_path: Path, footer: bytes) -> None:
    data = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    chunk = chunk_of(tmp_path, data)
    decoded = decode_chunk("parquet", LAYOUT, chunk)
    (letter,) = decoded.dead
    assert len(decoded.records.ids) == 0
    assert (letter.stream, letter.reason, letter.partition, letter.offset, letter.raw, letter.record_id) == (
        "payments",
        "malformed_parquet",
        chunk.place,
        0,
        data[:4096],
        None,
    )
    assert letter.detail.startswith(
        f"{chunk.path}: found {len(data)} bytes, expected a Parquet file that can be read: "
    )
    assert "Parquet input source" in letter.detail, "the message of the format's reader"


def test_whichever_byte_is_damaged_the_file_ends_no_run(tmp_path: Path) -> None:
    whole = good()
    reported = 0
    for at in range(4, len(whole) - 8, 3):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        dead = decode_chunk("parquet", LAYOUT, chunk_of(tmp_path, bytes(damaged))).dead
        reported += [letter.reason for letter in dead] == ["malformed_parquet"]
    assert reported > 100


@pytest.mark.parametrize(
    ("error", "dead"),
    [(pa.ArrowInvalid, 1), (pa.ArrowNotImplementedError, 1), (OSError, 1), (pa.ArrowMemoryError, None)],
)
def test_what_is_the_files_fault_and_what_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], dead: int | None
) -> None:
    def fails(_: object) -> None:
        raise error("no such page")

    monkeypatch.setattr(pq, "read_table", fails)
    chunk = chunk_of(tmp_path, good())
    if dead is None:
        with pytest.raises(error, match="no such page"):
            decode_chunk("parquet", LAYOUT, chunk)
    else:
        assert len(decode_chunk("parquet", LAYOUT, chunk).dead) == dead


def test_a_file_that_is_gone_is_an_error_and_no_dead_letter(tmp_path: Path) -> None:
    chunk = chunk_of(tmp_path, good())
    Path(chunk.path).unlink()
    with pytest.raises(SourceError, match="put the file back"):
        decode_chunk("parquet", LAYOUT, chunk)
