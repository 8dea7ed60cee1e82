"""Where batches begin and end in topics and files, as Spark's offsets and the lists of chunks say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crossline.io.files.log import FileChunks
from crossline.runtime.pipeline import feed_sink
from crossline.runtime.pipeline.feed_sink import SourceEnds, log_name

NOW_MS = 1_767_225_600_000


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "spark" / "offsets").mkdir(parents=True)
    return tmp_path


def plan(checkpoint: Path, batch: int, *offsets: object) -> None:
    """As Spark notes a batch: a version, its own settings, and a line for each source."""
    lines = ["v1", '{"batchTimestampMs":1}', *("-" if each is None else json.dumps(each) for each in offsets)]
    (checkpoint / "spark" / "offsets" / str(batch)).write_text("\n".join(lines))


def test_topics_end_where_spark_says(checkpoint: Path) -> None:
    plan(checkpoint, 0, {"payments": {"0": 5, "1": 0}}, None)
    plan(checkpoint, 1, {"payments": {"0": 7, "1": 2}, "refunds": {"0": 1}}, {"cards": {"0": 9}})
    ends = SourceEnds(str(checkpoint), ["money", "cards"])
    first = {"money": {"payments-0": 5, "payments-1": 0}, "cards": {}}
    assert ends(0) == ({"money": {}, "cards": {}}, first)
    second = {"money": {"payments-0": 7, "payments-1": 2, "refunds-0": 1}, "cards": {"cards-0": 9}}
    assert ends(1) == (first, second)
    assert SourceEnds(str(checkpoint), ["money", "cards"])(1) == (first, second), "and after a restart"


@pytest.mark.parametrize("restarts", [False, True])
def test_files_end_where_their_chunks_do(checkpoint: Path, restarts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_sink, "LOGS_MAX", 3)
    folder = checkpoint / "in"
    folder.mkdir()
    chunks = FileChunks([f"{folder}/*.jsonl"], str(checkpoint / "sources" / "payments"), 10)
    names = [f"{number:08d}.jsonl" for number in range(1, 6)]
    count, sizes, before = 0, dict[str, int](), dict[str, int]()
    ends = SourceEnds(str(checkpoint), ["payments"])
    for batch, name in enumerate([name for name in names for _ in range(2)]):
        with (folder / name).open("ab") as file:
            file.write(b"123456789\n" * 3)
        sizes[name] = sizes.get(name, 0) + 30
        count = chunks.poll(NOW_MS)
        plan(checkpoint, batch, {"chunk": count})
        if restarts:
            ends = SourceEnds(str(checkpoint), ["payments"])
        after = dict(list(sizes.items())[-3:])
        assert ends(batch) == ({"payments": before}, {"payments": after})
        assert ends(batch) == ({"payments": before}, {"payments": after}), "a batch that is run again"
        before = after
    assert count == 30


def test_a_log_is_called_by_its_file() -> None:
    given = ["/data/in/00000001.jsonl", "00000001.jsonl", "payments-3", "/in/a.jsonl#2"]
    assert [log_name(each) for each in given] == ["00000001.jsonl", "00000001.jsonl", "payments-3", "a.jsonl#2"]
