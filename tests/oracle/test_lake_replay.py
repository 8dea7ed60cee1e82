"""A replay from the lake says what the naive twin says of the records, however they were committed and compacted."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.backtest import in_process
from crossline.evaluate.bounds import Bounds
from crossline.lake.maintenance.compaction import compact
from crossline.lake.replays.replay_input import LakeInput
from unit.lake.lake_kit import DAY_MS, START_MS, SpooledPipeline

from .composed import composed_detect
from .composed_strategies import composed_sets
from .fastpath import alert_values, stream_spec, twin_outcome
from .naive import running_max_ingest
from .strategies import LISTS, STREAM, Body, Record, records, rule_sets, wire_record
from .test_detect_equals_naive import DEEP, in_digits, with_ingest
from .test_runners import judged_of

PIPELINE = f"""\
schema_version: 1
name: twin
streams:
  {STREAM}: {{id: id, event_time: {{field: at, unit: ms}}, fields: {{id: string, at: integer}}}}
sources:
  {STREAM}: {{kind: files, path: in/*.jsonl}}
rules: {{kind: directory, path: rules/}}
sinks: [{{kind: console}}]
lake: {{}}
"""


def replayed(
    rules: list[Body], pipeline: SpooledPipeline, slice_rows: int, processes: int, *, ingest_column: bool, lag_ms: int
) -> list[dict[str, Any]]:
    """The alerts of a replay of all that the lake has."""
    judged = replace(judged_of(rules, [], ingest_column=ingest_column), bounds=Bounds(lag_ms))
    stored = LakeInput(pipeline.reader(), judged.history.streams, judged.history.inputs, slice_rows=slice_rows)
    output = pipeline.root / "alerts.jsonl"
    in_process.backtest(replace(judged, stored=stored), output, processes=processes)
    return [json.loads(line) for line in output.read_text().splitlines()]


FAR_MS = 10**11  # three years ahead


def with_far_times(made: list[Record], at: set[int], *, ingest_column: bool) -> list[Record]:
    """Some records with a time far ahead: the sender's, or that of the event, which the log's clock follows."""
    name = "_ingest_ms" if ingest_column else "_event_ms"
    return [{**record, name: record[name] + FAR_MS} if n in at else record for n, record in enumerate(made)]


@settings(
    max_examples=150 if DEEP else 10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    rule_sets() | composed_sets(),
    records(),
    st.booleans(),
    st.integers(1, 5),
    st.sets(st.integers(0, 4)),
    st.booleans(),
    st.sampled_from([1, 3, 20, 100_000]),
    st.integers(1, 2),
    st.sets(st.integers(0, 12), max_size=2),
)
def test_it_says_what_the_twin_says(
    rules: list[Body],
    made: list[Record],
    ingest_column: bool,
    batches: int,
    written_after: set[int],
    compacted: bool,
    slice_rows: int,
    processes: int,
    far: set[int],
) -> None:
    made = with_far_times(made, far, ingest_column=ingest_column)
    lag_ms = 3 * FAR_MS if far and ingest_column else 0  # later records are so far behind the clock of their log
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    wanted = twin_outcome(composed_detect(rules, made, lists=LISTS), made)[0]
    rough = {body["rule_id"] for body in rules if body.get("aggregation_type") == "stddev"}
    wire = [json.loads(json.dumps(wire_record(record))) for record in made]
    with tempfile.TemporaryDirectory() as name:
        pipeline = SpooledPipeline(Path(name), PIPELINE, stream_spec(ingest_column=ingest_column), stream=STREAM)
        for number in range(batches):
            pipeline.batch(wire[len(wire) * number // batches : len(wire) * (number + 1) // batches])
            if number in written_after:
                pipeline.write_all()
        pipeline.write_all()
        if compacted:
            for table in pipeline.reader().tables():
                compact(table, START_MS + 10_000 * DAY_MS)
        found = replayed(rules, pipeline, slice_rows, processes, ingest_column=ingest_column, lag_ms=lag_ms)
    assert [in_digits(reported, rough) for reported in sorted(map(alert_values, found))] == [
        in_digits(reported, rough) for reported in wanted
    ]
