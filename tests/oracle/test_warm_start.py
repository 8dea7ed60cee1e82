"""A rule that comes late finds in the lake what its topic has deleted: it reports what the naive twin reports."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from crossline.lake.maintenance.compaction import compact
from crossline.lake.warm_start import LakePast
from crossline.rules.base import Defaults
from unit.lake.lake_kit import CHECKPOINT, DAY_MS, START_MS, SpooledPipeline

from .fastpath import stream_spec, twin_outcome
from .living import Feed, Life, Piece
from .naive import naive_detect, running_max_ingest
from .strategies import LISTS, STREAM, Record, records, wire_record
from .test_detect_equals_naive import EXAMPLES, many, with_ingest
from .test_lake_replay import PIPELINE
from .test_publications import COUNT, SPREAD, _record, live, lives, outcome


@dataclass
class LakeLife(Life):
    """A life beside a lake.

    After batch n the lake is written if ``written[n]``, and compacted if ``compacted[n]``; the source then deletes what
    the lake has if ``deleted[n]``. ``gone``: how many chunks the source has deleted.
    """

    lake: SpooledPipeline | None = None
    written: Sequence[bool] = ()
    compacted: Sequence[bool] = ()
    deleted: Sequence[bool] = ()
    gone: int = 0
    slice_rows: int = 100_000
    from_lake: int = 0  # records that were read from the lake
    _taken: list[Record] = field(default_factory=list)

    def start(self) -> None:
        assert self.lake is not None
        begun = self.folder / "spark" / "sources" / "0" / "0"
        begun.parent.mkdir(parents=True, exist_ok=True)
        begun.write_text('v1\n{"chunk":0}')
        (self.folder / "spark" / "metadata").write_text(json.dumps({"id": CHECKPOINT}))
        self.stored = LakePast(self.lake.config, str(self.folder), {}, self.slice_rows)
        self.first = lambda _: {"chunk": self.gone}
        super().start()

    def take_in(self, records: Sequence[Record], pieces: int) -> None:  # noqa: ARG002 - a chunk a batch, as in the lake
        self._taken = list(records)
        super().take_in(records, 1)

    def commit(self) -> None:
        assert self.lake is not None
        number = self.batches
        super().commit()
        self.lake.batch([json.loads(json.dumps(wire_record(each))) for each in self._taken])
        if self.written[number % len(self.written)]:
            self.lake.write_all()
        if self.compacted[number % len(self.compacted)]:
            for table in self.lake.reader().tables():
                compact(table, START_MS + 10_000 * DAY_MS)
        if self.deleted[number % len(self.deleted)]:
            self.delete()

    def delete(self) -> None:
        """The source deletes all that a mark of the pipeline says the lake has."""
        assert self.stored is not None
        end, batch = self.history.last(), self.stored.batch()
        assert end is not None
        marks = [mark for mark in self.history.between(None, end) if batch is not None and mark.batch <= batch]
        if marks:
            self.gone = marks[-1].offsets[0]["chunk"]  # type: ignore[index]

    def _rows(self, stream: str, spark: Any, start: dict[str, Any] | None, end: dict[str, Any]) -> list[Piece]:
        assert start is None or start["chunk"] >= self.gone, "reads what the source has deleted"
        return super()._rows(stream, spark, start or {"chunk": self.gone}, end)

    def _decoded(self, snapshot: Any, pieces: Any) -> Any:
        for decoded, chunk in super()._decoded(snapshot, pieces):
            self.from_lake += len(decoded.records) if decoded.records.partition != "log" else 0
            yield decoded, chunk


FLAGS = st.lists(st.booleans(), min_size=1, max_size=6)


@settings(many, max_examples=max(10, EXAMPLES // 10))
@given(
    st.data(),
    records(30),
    st.booleans(),
    st.sampled_from([{}, SPREAD]),
    st.sampled_from([0, 500, 5000]),
    st.tuples(FLAGS, FLAGS, FLAGS),
    st.sampled_from([1, 3, 100_000]),
)
def test_any_life_reports_what_its_logs_say(
    data: st.DataObject,
    made: list[Record],
    ingest_column: bool,
    defaults: dict[str, str],
    lag_ms: int,
    flags: tuple[list[bool], list[bool], list[bool]],
    slice_rows: int,
) -> None:
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    spec = stream_spec(ingest_column=ingest_column)
    ops = data.draw(lives(len(made)))
    standing = Defaults(watermark_delay_ms=1000, allowed_lateness_ms=2000) if defaults else Defaults()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as lake:
        life = LakeLife(Path(folder), spec, standing, data.draw(st.integers(1, 3)), lag_ms, Feed())
        life.lake = SpooledPipeline(Path(lake), PIPELINE, spec, stream=STREAM)
        life.written, life.compacted, life.deleted = flags
        life.slice_rows = slice_rows
        live(life, ops, made)
        logged, noted = life.feed.logged, life.feed.noted
        found = outcome(life)
    assert noted == []
    if life.from_lake:
        event("records were read from the lake")
    expected = naive_detect(logged, made, defaults=defaults, lists=LISTS)
    assert found == twin_outcome(expected, made)


def _lake_life(root: Path, **more: Any) -> LakeLife:
    spec = stream_spec(ingest_column=True)
    lake = SpooledPipeline(root / "lake", PIPELINE, spec, stream=STREAM)
    standing = Defaults(watermark_delay_ms=1000, allowed_lateness_ms=2000)
    return LakeLife(root / "life", spec, standing, 1, 0, Feed(), lake=lake, **more)


@pytest.mark.parametrize("written", [True, False])
def test_a_late_rule_counts_what_is_in_the_lake_alone(tmp_path: Path, written: bool) -> None:
    """Five payments within the window, four of them deleted from the source: the fifth makes five."""
    life = _lake_life(tmp_path, written=[written], compacted=[False], deleted=[False])
    made = [_record(number, 2 * number) for number in range(5)]
    rule = {**COUNT, "rule_id": "late", "window": "60s"}
    first = {**COUNT, "rule_id": "first", "window": "10s"}
    live(life, [("publish", first), *[("batch", (1, 1, None))] * 4], made)
    life.gone = 4 if written else 3
    life.feed.waiting.append(rule)
    life.side_input()
    life.between()
    life.take_in(made[4:], 1)
    life.deliver(life.judge(life.plan_batch()))
    assert life.from_lake == (4 if written else 0)
    values = [alert["value"] for alert in life.alerts if alert["rule_id"] == "late"]
    assert values == ([5] if written else [2])
    assert [("have deleted" in text, "windows begin with what is left" in text) for text in life.feed.noted] == (
        [] if written else [(True, True)]
    )
