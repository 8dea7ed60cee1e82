"""The same stages by several runners: in one process, and in a pool of them; both say what the naive twin says.

Spark's two are compared with these over whole projects, in tests/e2e/test_equality.py.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.backtest import in_process
from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.basics.conditions.lists import named_lists
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.runtime.local.memory import MemoryJudge
from crossline.runtime.snapshot.snapshot import StaticSnapshot
from crossline.runtime.stages.outcome import Outcome, collect_outcome
from crossline.runtime.stages.stages import in_one, stages_of
from crossline.runtime.work.task import Task

from .composed import composed_detect
from .composed_strategies import composed_sets
from .fastpath import alert_values, stream_spec, twin_outcome
from .naive import running_max_ingest
from .rule_versions import DEFAULTS, duration_ms
from .strategies import LISTS, STREAM, Body, Record, records, rule_sets, wire_record
from .test_detect_equals_naive import DEEP, in_digits, with_ingest


def judged_of(rules: list[Body], files: Iterable[Path], *, ingest_column: bool) -> BacktestSpec:
    spec = stream_spec(ingest_column=ingest_column)
    loaded = load_rules_text(json.dumps(rules), "rules.yaml", {STREAM: spec}, LISTS)
    return BacktestSpec(
        RuleSet.from_rules(item.rule for item in loaded),
        RecordedInput({STREAM: spec}, {STREAM: [str(path) for path in files]}),
        named_lists(LISTS),
        Defaults("event_time", duration_ms(DEFAULTS["watermark_delay"]), duration_ms(DEFAULTS["allowed_lateness"])),
        Bounds(0),
    )


def in_pool(judged: BacktestSpec, folder: Path, processes: int, batch_bytes: int) -> list[dict[str, Any]]:
    with mock.patch.object(in_process, "BATCH_BYTES", batch_bytes):
        in_process.backtest(judged, folder / "alerts.jsonl", processes=processes)
    return [json.loads(line) for line in (folder / "alerts.jsonl").read_text().splitlines()]


def in_this_one(judged: BacktestSpec, folder: Path, shards: int, batch_bytes: int) -> list[dict[str, Any]]:
    """All stages one within the other, as Spark's one task has them, and no other process."""
    return [alert for outcome in outcomes(judged, folder, shards, batch_bytes) for alert in outcome.alerts]


def outcomes(judged: BacktestSpec, folder: Path, shards: int, batch_bytes: int) -> list[Outcome]:
    """What comes of each batch there."""
    source = StaticSnapshot(judged.snapshot(judged.rules, shards).to_json())
    with mock.patch.object(in_process, "BATCH_BYTES", batch_bytes):
        # Cut as the pool cuts: what is known later than its record comes with the batch in which it is known.
        # What was cut once in a folder stays cut so, hence a new one.
        inputs = in_process.Inputs.of(judged.history.files(), Path(tempfile.mkdtemp(dir=folder)), shards)
        stages = stages_of(source, inputs.intake, MemoryJudge(source))
        found = []
        for number, dealt in enumerate(inputs.batches(1)):
            rows = in_one(stages, Task(batch_id=number), iter(dealt[0]))
            pairs = [
                each
                for batch in rows
                for each in zip(batch.column("kind").to_pylist(), batch.column("body").to_pylist(), strict=True)
            ]
            found.append(collect_outcome(pairs, None))
    return found


def split(lines: Sequence[bytes], folder: Path, files: int) -> list[Path]:
    paths = []
    for number in range(files):
        path = folder / f"{number}.jsonl"
        path.write_bytes(b"".join(lines[len(lines) * number // files : len(lines) * (number + 1) // files]))
        paths.append(path)
    return paths


@settings(
    max_examples=400 if DEEP else 12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    rule_sets() | composed_sets(),
    records(),
    st.booleans(),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([1, 300, 2_000, 1_000_000]),
)
def test_all_say_what_the_twin_says(
    rules: list[Body], made: list[Record], ingest_column: bool, files: int, processes: int, batch_bytes: int
) -> None:
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    wanted = twin_outcome(composed_detect(rules, made, lists=LISTS), made)[0]
    rough = {body["rule_id"] for body in rules if body.get("aggregation_type") == "stddev"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = split([orjson.dumps(wire_record(record)) + b"\n" for record in made], folder, files)
        judged = judged_of(rules, paths, ingest_column=ingest_column)
        pool = in_pool(judged, folder, processes, batch_bytes)
        one = in_this_one(judged, folder, processes, batch_bytes)
    assert [in_digits(reported, rough) for reported in sorted(map(alert_values, pool))] == [
        in_digits(reported, rough) for reported in wanted
    ]
    for alert in (*pool, *one):
        del alert["detected_at"]
    assert pool == one, "in another order"


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_how_a_log_is_cut_changes_no_order(tmp_path: Path, processes: int) -> None:
    rules = [
        {"rule_id": name, "version": 1, "rule_type": "threshold", "source_topic": STREAM, "conditions": conditions}
        for name, conditions in (
            ("some", [{"field": "amount", "operator": ">=", "value": 2}]),
            ("all", [{"field": "amount", "operator": "exists"}]),
        )
    ]
    lines = [
        orjson.dumps(
            wire_record({"_id": f"r{n}", "_event_ms": 1_700_000_000_000 + n, "_ingest_ms": 1, "amount": n % 4})
        )
        + b"\n"
        for n in range(200)
    ]
    paths = split(lines, tmp_path, 2)
    judged = judged_of(rules, paths, ingest_column=False)
    wanted = [(f"r{n}", rule) for n in range(200) for rule in (["all", "some"] if n % 4 >= 2 else ["all"])]
    for batch_bytes in (1_000, 10_000, 10_000_000):
        found = in_pool(judged, tmp_path, processes, batch_bytes)
        assert [(alert["record_id"], alert["rule_id"]) for alert in found] == wanted
