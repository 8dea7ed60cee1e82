"""A replay that is stopped and killed again and again gives what one gives that never was."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.backtest import in_process, resumable
from crossline.backtest.alert_writer import AlertWriter
from crossline.backtest.backtest import BacktestSpec
from crossline.basics.errors import StateError, UsageError
from crossline.lake.replays.replay_input import LakeInput
from unit.lake.lake_kit import SpooledPipeline

from .composed_strategies import composed_sets
from .fastpath import stream_spec
from .naive import running_max_ingest
from .strategies import STREAM, Body, Record, records, rule_sets, wire_record
from .test_detect_equals_naive import DEEP, with_ingest
from .test_lake_replay import PIPELINE
from .test_runners import judged_of

RULE: Body = {"rule_id": "r0", "version": 1, "rule_type": "velocity", "source_topic": STREAM, "group_by": "account"}
RULE |= {"window": "60s", "aggregation_type": "count", "aggregation_threshold": 1, "emit": "every"}


class Killed(BaseException):
    """The process ends here."""


class Kills:
    """Ends the run of each batch once, before or after the batch is marked as done."""

    def __init__(self, patch: pytest.MonkeyPatch, before: set[int], after: set[int]) -> None:
        mark = resumable.KeptRun.mark
        self.runs = 0

        def marked(kept: resumable.KeptRun, batch: int, place: Sequence[int], writer: AlertWriter) -> None:
            if batch in before:
                before.discard(batch)
                raise Killed
            mark(kept, batch, place, writer)
            if batch in after:
                after.discard(batch)
                raise Killed

        patch.setattr(resumable.KeptRun, "mark", marked)

    def finish(self, judged: BacktestSpec, root: Path, processes: list[int]) -> list[dict[str, Any]]:
        """Run until it ends; each run with the next number of processes. The alerts."""
        while True:
            count = processes[self.runs % len(processes)]
            self.runs += 1
            try:
                done = in_process.backtest(judged, root / "alerts.jsonl", processes=count, kept=root / "kept")
            except Killed:
                continue
            found = alerts_in(root)
            assert sum(done.totals.alerts.values()) == len(found)
            if self.runs % 2:  # killed after the output was copied: it is copied again
                again = in_process.backtest(judged, root / "alerts.jsonl", processes=count, kept=root / "kept")
                assert again.totals.alerts == done.totals.alerts
                assert alerts_in(root) == found
            resumable.discard(root / "kept")
            return found


def alerts_in(root: Path) -> list[dict[str, Any]]:
    """Without when they were detected, which is of the run."""
    return [{**json.loads(line), "detected_at": None} for line in (root / "alerts.jsonl").read_text().splitlines()]


def replay_of(rules: list[Body], pipeline: SpooledPipeline, slice_rows: int) -> BacktestSpec:
    judged = judged_of(rules, [], ingest_column=True)
    history = judged.history
    return replace(judged, stored=LakeInput(pipeline.reader(), history.streams, history.inputs, slice_rows=slice_rows))


def written(root: Path, made: list[Record]) -> SpooledPipeline:
    pipeline = SpooledPipeline(root, PIPELINE, stream_spec(ingest_column=True), stream=STREAM)
    pipeline.batch([json.loads(json.dumps(wire_record(record))) for record in made])
    pipeline.write_all()
    return pipeline


@settings(
    max_examples=100 if DEEP else 4,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    rule_sets() | composed_sets(),
    records(),
    st.sampled_from([1, 3]),
    st.sets(st.integers(0, 24), max_size=3),
    st.sets(st.integers(0, 24), max_size=3),
    st.lists(st.integers(1, 2), min_size=1, max_size=3),
)
def test_whenever_it_is_stopped(
    rules: list[Body], made: list[Record], slice_rows: int, before: set[int], after: set[int], processes: list[int]
) -> None:
    made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        root = Path(name)
        judged = replay_of(rules, written(root, made), slice_rows)
        in_process.backtest(judged, root / "alerts.jsonl", processes=processes[0])
        wanted = alerts_in(root)
        assert Kills(patch, before, after).finish(judged, root, processes) == wanted


def ten(root: Path) -> SpooledPipeline:
    made = [
        {"_id": f"t{n}", "_event_ms": 1_700_000_000_000 + n, "_ingest_ms": 1_700_000_000_000 + n, "account": "a1"}
        for n in range(40)
    ]
    return written(root, made)


def test_forty_batches_with_a_kill_in_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of the state are merged every sixteen batches; the n-th record is the n-th in the window."""
    kills = Kills(monkeypatch, {3, 15, 16, 17, 31, 32}, {0, 16, 33, 39})
    found = kills.finish(replay_of([RULE], ten(tmp_path), 1), tmp_path, [1, 2])
    assert [alert["value"] for alert in found] == list(range(1, 41))
    assert kills.runs == 11


def test_a_folder_of_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = ten(tmp_path)
    judged, output, kept = replay_of([RULE], pipeline, 10), tmp_path / "alerts.jsonl", tmp_path / "kept"
    kept.mkdir()
    (kept / "replay.json.tmp").write_bytes(b"{")  # of a start that was killed
    with pytest.raises(UsageError, match=r"found in, expected an empty folder or one of a replay"):
        in_process.backtest(judged, output, kept=tmp_path)
    with monkeypatch.context() as patch:
        Kills(patch, {2}, set())
        with pytest.raises(Killed):
            in_process.backtest(judged, output, kept=kept)
    other = replay_of([{**RULE, "window": "61s"}], pipeline, 10)
    with pytest.raises(UsageError, match=r"has a replay by other rules"):
        in_process.backtest(other, output, kept=kept)
    with pytest.raises(UsageError, match=r"has a replay by other rules, .* or options"):
        in_process.backtest(judged, output, decisions=tmp_path / "decisions.jsonl", kept=kept)
    (kept / "alerts.jsonl").write_bytes(b"")
    with pytest.raises(StateError, match=r"found less than the .* bytes of the mark; delete the folder"):
        in_process.backtest(judged, output, kept=kept)
    (kept / "mark.json").write_bytes(b"{")
    with pytest.raises(StateError, match=r"mark.json: damaged"):
        in_process.backtest(judged, output, kept=kept)
    assert not output.exists()
