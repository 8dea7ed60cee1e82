"""A restored checkpoint before its query starts: what topics have deleted is judged from the lake, batch by batch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crossline.runtime.changes.stored_past import StoredSlice
from crossline.runtime.pipeline import stored_batches
from crossline.runtime.pipeline.stored_batches import StoredBatches
from crossline.runtime.snapshot.checkpoint import RESTORED
from crossline.runtime.snapshot.spark_log import began_ms, last_committed, last_planned, offsets_of
from crossline.runtime.sources.plan_source import SourcePlan

STREAM = "payments"


class KilledError(BaseException):
    """The process ends here."""


def rows_of(numbers: Sequence[int]) -> list[pa.RecordBatch]:
    return [pa.record_batch({"number": list(numbers)})] if numbers else []


@dataclass
class Tail:
    """Records 0, 1, … of one partition, in slices of four."""

    end: int

    @property
    def ends(self) -> Mapping[str, Mapping[str, Any]]:
        return {STREAM: {"t": {"0": self.end}}}

    def slices(self, begins: Mapping[str, Any], ends: Mapping[str, Any]) -> Iterator[StoredSlice]:
        at, end = (each[STREAM]["t"]["0"] for each in (begins, ends))
        while at < end:
            upto = min(at + 4, end)
            yield StoredSlice({STREAM: rows_of(range(at, upto))}, {STREAM: {"t": {"0": upto}}})
            at = upto


@dataclass
class Stored:
    """A lake with the records up to ``end``; None: it has nothing, or a gap."""

    end: int | None

    def behind(self, begins: Mapping[str, Any]) -> Tail | None:  # noqa: ARG002 - the protocol's
        return None if self.end is None else Tail(self.end)

    def intake(self, stream: str) -> Any:
        return stream


@dataclass
class Restored:
    """A checkpoint that had read ten records by batch 5; the topic begins at ``first``."""

    folder: Path
    first: int
    end: int | None
    die_at: int | None = None
    ran: list[tuple[int, list[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.write("metadata", '{"id":"one"}')
        self.write("offsets/5", 'v1\n{"batchTimestampMs":7,"conf":{"a":"b"}}\n{"t":{"0":10}}')
        self.write("commits/5", 'v1\n{"nextBatchWatermarkMs":0}')
        (self.folder / RESTORED).write_text("{}")

    def write(self, name: str, text: str) -> None:
        path = self.folder / "spark" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def judge(self, *, topic: bool = True) -> int:
        first = (lambda _: {"t": {"0": self.first}}) if topic else None
        source = SourcePlan(STREAM, None, None, None, None, first=first)  # type: ignore[arg-type]
        return StoredBatches(None, str(self.folder), [source], Stored(self.end), self.run).judge()  # type: ignore[arg-type]

    def run(self, frame: list[int], _: Any, batch: int) -> None:
        if batch == self.die_at:
            raise KilledError
        self.ran.append((batch, frame))

    def at(self) -> tuple[int, int, Any]:
        folder = str(self.folder)
        last = last_committed(folder)
        return last, last_planned(folder), offsets_of(folder, last)


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def numbers(_: Any, batches: Sequence[pa.RecordBatch]) -> list[int]:
        return [number for rows in batches for number in rows.column("number").to_pylist()]

    monkeypatch.setattr(stored_batches, "stored_frame", numbers)
    monkeypatch.setattr(stored_batches, "union_of", lambda inputs: inputs[0])
    monkeypatch.setattr(stored_batches, "as_batch", lambda *_: nullcontext())


def test_batches_end_where_the_lake_ends(tmp_path: Path) -> None:
    made = Restored(tmp_path, first=17, end=19)
    assert made.judge() == 3
    assert made.ran == [(6, [10, 11, 12, 13]), (7, [14, 15, 16, 17]), (8, [18])]
    assert made.at() == (8, 8, [{"t": {"0": 19}}])
    assert not (tmp_path / RESTORED).exists()
    planned = (tmp_path / "spark" / "offsets" / "8").read_text().splitlines()
    assert (planned[0], json.loads(planned[1])["conf"], json.loads(planned[2])) == ("v1", {"a": "b"}, {"t": {"0": 19}})
    assert (tmp_path / "spark" / "commits" / "8").read_text() == 'v1\n{"nextBatchWatermarkMs":0}'


def test_a_planned_batch_comes_again_with_its_records(tmp_path: Path) -> None:
    made = Restored(tmp_path, first=17, end=19)
    made.write("offsets/6", 'v1\n{"batchTimestampMs":9}\n{"t":{"0":16}}')
    assert made.judge() == 2
    assert made.ran == [(6, [10, 11, 12, 13, 14, 15]), (7, [16, 17, 18])]
    assert began_ms(str(tmp_path), 6) == 9, "planned once"


@pytest.mark.parametrize("die_at", [6, 7, 8])
def test_killed_in_a_batch_it_goes_on_with_that_batch(tmp_path: Path, die_at: int) -> None:
    made = Restored(tmp_path, first=19, end=19, die_at=die_at)
    with pytest.raises(KilledError):
        made.judge()
    assert (tmp_path / RESTORED).exists()
    assert last_committed(str(tmp_path)) == die_at - 1
    planned_ms = began_ms(str(tmp_path), die_at)
    made.die_at = None
    made.judge()
    assert [batch for batch, _ in made.ran] == [6, 7, 8]
    assert [number for _, numbers in made.ran for number in numbers] == list(range(10, 19))
    assert began_ms(str(tmp_path), die_at) == planned_ms, "its id and its instant stay"
    assert made.at() == (8, 8, [{"t": {"0": 19}}])


def test_a_topic_that_has_all_is_read_itself(tmp_path: Path) -> None:
    made = Restored(tmp_path, first=10, end=19)
    assert (made.judge(), made.ran) == (0, [])
    assert not (tmp_path / RESTORED).exists(), "asked once"
    assert made.judge() == 0


@pytest.mark.parametrize(("end", "planned"), [(None, None), (16, None), (18, 19)])
def test_where_some_are_nowhere_the_source_says_so(tmp_path: Path, end: int | None, planned: int | None) -> None:
    made = Restored(tmp_path, first=17, end=end)
    if planned is not None:
        made.write("offsets/6", f'v1\n{{"batchTimestampMs":9}}\n{{"t":{{"0":{planned}}}}}')
    assert (made.judge(), made.ran) == (0, [])
    assert last_committed(str(tmp_path)) == 5
    assert (tmp_path / RESTORED).exists(), "a later start looks again"


def test_another_checkpoint_is_not_looked_at(tmp_path: Path) -> None:
    made = Restored(tmp_path, first=17, end=19)
    (tmp_path / RESTORED).unlink()
    assert (made.judge(), made.ran) == (0, [])
    assert Restored(tmp_path, first=17, end=19).judge(topic=False) == 0
