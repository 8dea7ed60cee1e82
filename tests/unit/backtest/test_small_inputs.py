"""Small files are judged in the process that was asked, larger ones in others; the alerts are the same either way.

That they are, whatever the rules and the records, is held by ``tests/oracle/test_runners.py``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from crossline.backtest import in_process
from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.basics.errors import StoppedError
from crossline.basics.streams.schema import load_streams
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

STREAM = """
schema_version: 1
streams:
  s: {id: i, event_time: {field: t}, fields: {i: string, t: integer, k: string, v: integer}}
"""
RULE = """
- {rule_id: r, version: 1, rule_type: velocity, source_topic: s, group_by: k, aggregation_type: sum,
   aggregation_field: v, aggregation_threshold: 3, window: 10s}
"""
# Two keys, a record of each in turn, a second between those of a key: the third of each is the first that makes 3.
LINES = b"".join(
    b'{"i": "%s%d", "t": %d, "k": "%s", "v": 1}\n' % (key, number, 1_769_851_800_000 + 1_000 * number, key)
    for number in range(4)
    for key in (b"a", b"b")
)


@pytest.fixture
def judged(tmp_path: Path) -> BacktestSpec:
    (tmp_path / "in.jsonl").write_bytes(LINES)
    streams = load_streams(STREAM, "stream.yaml")
    rules = RuleSet.from_rules(item.rule for item in load_rules_text(RULE, "r.yaml", streams))
    return BacktestSpec(rules, RecordedInput(streams, {"s": [str(tmp_path / "in.jsonl")]}))


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each process that is forked from here on."""
    found: list[int] = []
    fork = os.fork

    def counted() -> int:
        found.append(len(found))
        return fork()

    monkeypatch.setattr(os, "fork", counted)
    return found


def alerts(path: Path) -> list[tuple[Any, Any]]:
    return [(each["record_id"], each["value"]) for each in map(orjson.loads, path.read_bytes().splitlines())]


def test_small_files_are_judged_in_this_process(judged: BacktestSpec, forks: list[int], tmp_path: Path) -> None:
    found = in_process.backtest(judged, tmp_path / "alerts.jsonl")
    assert (forks, found.totals.records) == ([], len(LINES.splitlines()))
    assert alerts(tmp_path / "alerts.jsonl") == [("a2", 3), ("b2", 3)]


def test_larger_ones_are_not(
    judged: BacktestSpec, forks: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_process, "ALONE_BYTES", len(LINES) - 1)
    monkeypatch.setattr(in_process, "processors", lambda: 2)
    in_process.backtest(judged, tmp_path / "alerts.jsonl")
    assert len(forks) == 2
    assert alerts(tmp_path / "alerts.jsonl") == [("a2", 3), ("b2", 3)]


def test_nor_are_any_where_the_number_of_processes_is_given(
    judged: BacktestSpec, forks: list[int], tmp_path: Path
) -> None:
    in_process.backtest(judged, tmp_path / "alerts.jsonl", processes=1)
    assert len(forks) == 1
    assert alerts(tmp_path / "alerts.jsonl") == [("a2", 3), ("b2", 3)]


def test_a_small_run_that_is_stopped_leaves_the_output_as_it_was(judged: BacktestSpec, tmp_path: Path) -> None:
    (tmp_path / "alerts.jsonl").write_text("before\n")
    with pytest.raises(StoppedError):
        in_process.backtest(judged, tmp_path / "alerts.jsonl", on_start=in_process.LocalRun.stop)
    assert (tmp_path / "alerts.jsonl").read_text() == "before\n"
