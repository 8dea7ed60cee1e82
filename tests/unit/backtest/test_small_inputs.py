"""Small files are judged in the process that was asked, larger ones in others; the alerts are the same either way.

That they are, whatever the rules and the records, is held by ``tests/oracle/test_runners.py``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crossline.backtest import in_process
from crossline.backtest.backtest import BacktestSpec
from crossline.basics.errors import StoppedError
from unit.backtest.two_keys import FIRST, LINES, alerts, written


@pytest.fixture
def judged(tmp_path: Path) -> BacktestSpec:
    return written(tmp_path)


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


def test_small_files_are_judged_in_this_process(judged: BacktestSpec, forks: list[int], tmp_path: Path) -> None:
    found = in_process.backtest(judged, tmp_path / "alerts.jsonl")
    assert (forks, found.totals.records) == ([], len(LINES.splitlines()))
    assert alerts(tmp_path / "alerts.jsonl") == FIRST


def test_larger_ones_are_not(
    judged: BacktestSpec, forks: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_process, "ALONE_BYTES", len(LINES) - 1)
    monkeypatch.setattr(in_process, "processors", lambda: 2)
    in_process.backtest(judged, tmp_path / "alerts.jsonl")
    assert len(forks) == 2
    assert alerts(tmp_path / "alerts.jsonl") == FIRST


def test_nor_are_any_where_the_number_of_processes_is_given(
    judged: BacktestSpec, forks: list[int], tmp_path: Path
) -> None:
    in_process.backtest(judged, tmp_path / "alerts.jsonl", processes=1)
    assert len(forks) == 1
    assert alerts(tmp_path / "alerts.jsonl") == FIRST


def test_a_small_run_that_is_stopped_leaves_the_output_as_it_was(judged: BacktestSpec, tmp_path: Path) -> None:
    (tmp_path / "alerts.jsonl").write_text("before\n")
    with pytest.raises(StoppedError):
        in_process.backtest(judged, tmp_path / "alerts.jsonl", on_start=in_process.LocalRun.stop)
    assert (tmp_path / "alerts.jsonl").read_text() == "before\n"
