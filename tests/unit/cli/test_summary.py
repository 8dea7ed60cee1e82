"""What a run says as it goes and at its end, on screens of any width."""

from __future__ import annotations

import io
import time

import pytest

from crossline.cli import summary
from crossline.cli.init import template_files
from crossline.cli.summary import ProgressLine, summary_json, summary_text
from crossline.io.sinks.base import Delivery
from crossline.runtime.work.totals import Totals
from crossline.settings.config import load_pipeline


@pytest.mark.parametrize("columns", [20, 40, 200])
def test_the_summary_fits_the_screen(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    files = {name: content.decode() for name, content in template_files()}
    config = load_pipeline(files["pipeline.yaml"], "pipeline.yaml", files.__getitem__)
    totals = Totals(records=24, late=2)
    totals.alerts["a_rule_with_a_name_of_some_length"] = 12_345
    totals.dead["duplicate_id"] = 3
    text = summary_text(config, totals)
    assert max(map(len, text.splitlines())) <= columns
    joined = "".join(text.split())
    for part in ("24records", "12,345a_rule_with_a_name_of_some_length", "3duplicate_id", "written to the store): 2"):
        assert "".join(part.split()) in joined
    assert "out/crossline.db,out/alerts.jsonl,console" in joined


def test_a_summary_says_how_many_batches_ran_which_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    files = {name: content.decode() for name, content in template_files()}
    config = load_pipeline(files["pipeline.yaml"], "pipeline.yaml", files.__getitem__)
    totals = Totals()
    for number, ran in enumerate(["stages", "in_process", "in_process"]):
        totals.add(Delivery("p", number, [], [], [], {"records": 1, "ran": ran}))
    assert totals.batches == 3
    assert summary_json(config, totals)["batches_run"] == {"in_process": 2, "one_task": 0, "stages": 1}
    text = "batches: 3 (2 in a process beside Spark, 1 as stages of Spark)"
    assert text in summary_text(config, totals).splitlines()
    before = Totals()
    before.add(Delivery("p", 0, [], [], [], {"records": 1}))
    assert "batches_run" not in summary_json(config, before), "a backtest has no ways"


def test_the_summary_repeats_what_is_refused() -> None:
    files = {name: content.decode() for name, content in template_files()}
    config = load_pipeline(files["pipeline.yaml"], "pipeline.yaml", files.__getitem__)
    report = "bad.yaml:8\n  found amuont; expected a field"
    totals = Totals(records=116)
    totals.refused = [
        {"event": "refused", "source": "bad.yaml", "digest": "d", "text": report, "count": 3},
        {"event": "refused", "source": "one.yaml", "digest": "d", "text": "wrong", "count": 1},
        {"event": "refused", "source": "rows", "digest": "d", "text": "wrong", "count": 7, "table_name": "rows"},
        {"event": "refused", "source": "cut.yaml", "digest": "d", "text": "wrong"},
    ]
    assert summary_json(config, totals)["refused"] == [
        {"source": "bad.yaml", "rules": 3, "text": report},
        {"source": "one.yaml", "rules": 1, "text": "wrong"},
        {"source": "rows", "text": "wrong"},
        {"source": "cut.yaml", "text": "wrong"},
    ]
    lines = summary_text(config, totals).splitlines()
    begin = lines.index("refused: bad.yaml, and with it its 3 rules")
    assert lines[begin + 1 : begin + 3] == ["  bad.yaml:8", "    found amuont; expected a field"]
    assert "refused: one.yaml, and with it its only rule" in lines
    assert {"refused: rows", "refused: cut.yaml"} < set(lines)
    assert "refused" not in summary_json(config, Totals())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the clock shows, in its last item."""
    shown = [1_000.0]
    monkeypatch.setattr(time, "monotonic", lambda: shown[-1])
    monkeypatch.setenv("COLUMNS", "100")
    return shown


def batch(number: int) -> Delivery:
    return Delivery("backtest", number, [], [], [], {"records": 0})


def totals_after(elapsed_s: float, clock: list[float], share: float | None) -> Totals:
    totals = Totals(records=60_000, started_s=clock[-1], share=share)
    totals.alerts.update(one=1_200, two=34)
    clock.append(clock[-1] + elapsed_s)
    return totals


@pytest.mark.parametrize(
    ("elapsed_s", "share", "text"),
    [
        (30, None, "60,000 records, 2,000/s, 1,234 alerts, batch 7"),
        (30, 0.0, "60,000 records, 2,000/s, 1,234 alerts, batch 7"),
        (30, 0.25, "60,000 records, 2,000/s, 1,234 alerts, 25%, 1:30 left"),
        (60, 0.5, "60,000 records, 1,000/s, 1,234 alerts, 50%, 1:00 left"),
        (10, 0.667, "60,000 records, 6,000/s, 1,234 alerts, 67%, 0:05 left"),
        (60, 0.01, "60,000 records, 1,000/s, 1,234 alerts, 1%, 99:00 left"),
        (30, 1.0, "60,000 records, 2,000/s, 1,234 alerts, 100%, 0:00 left"),
    ],
)
def test_the_line_of_progress_says_how_far_it_is(
    clock: list[float], elapsed_s: float, share: float | None, text: str
) -> None:
    out = Terminal()
    progress = ProgressLine(out)
    progress.batch(batch(7), totals_after(elapsed_s, clock, share))
    assert out.getvalue() == f"\r\x1b[K{text}"
    progress.done()
    assert out.getvalue().endswith("left\n" if share else "batch 7\n")


def test_the_line_of_progress_is_written_over_itself_and_not_too_often(clock: list[float]) -> None:
    out = Terminal()
    progress = ProgressLine(out)
    for number in range(8):
        progress.batch(batch(number), totals_after(summary._SHOW_EVERY_S / 2, clock, None))
    assert [line.rpartition(" ")[2] for line in out.getvalue().split("\r")[1:]] == ["0", "2", "4", "6"]
    assert "\n" not in out.getvalue()


def test_a_line_of_progress_that_does_not_fit_is_cut(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    out = Terminal()
    ProgressLine(out).batch(batch(7), totals_after(30, clock, 0.25))
    assert out.getvalue() == "\r\x1b[K60,000 records, 2,000/s, 1,2…"


def test_nothing_is_stated_where_nobody_looks(clock: list[float]) -> None:
    out = io.StringIO()
    progress = ProgressLine(out)
    progress.batch(batch(7), totals_after(30, clock, 0.25))
    progress.done()
    assert out.getvalue() == ""


def test_of_a_pipeline_with_a_policy_it_says_what_was_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    files = {name: content.decode() for name, content in template_files()}
    totals = Totals(records=24)
    plain = load_pipeline(files["pipeline.yaml"], "pipeline.yaml", files.__getitem__)
    assert "decisions" not in summary_json(plain, totals)
    files["policy.yaml"] = "schema_version: 1\nversion: 1\n"
    config = load_pipeline(files["pipeline.yaml"] + "\npolicy: policy.yaml\n", "pipeline.yaml", files.__getitem__)
    totals.decisions.update(block=1_200, allow=3)
    assert list(summary_json(config, totals)["decisions"].items()) == [("allow", 3), ("block", 1_200)]
    lines = summary_text(config, totals).splitlines()
    at = lines.index("decisions on records with hits: 1,203")
    assert [line.split() for line in lines[at + 1 : at + 3]] == [["3", "allow"], ["1,200", "block"]]


def test_a_run_that_was_stopped_in_its_first_batch_took_no_time() -> None:
    files = {name: content.decode() for name, content in template_files()}
    config = load_pipeline(files["pipeline.yaml"], "pipeline.yaml", files.__getitem__)
    body = summary_json(config, Totals(first_s=5_650.4))
    assert (body["records"], body["elapsed_ms"], body["records_per_s"]) == (0, 0, None)
    assert "0 records in 0.0 s" in summary_text(config, Totals(first_s=5_650.4))


def test_the_summary_says_what_rules_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    files = {name: content.decode() for name, content in template_files()}
    config = load_pipeline(files["pipeline.yaml"], "pipeline.yaml", files.__getitem__)
    totals = Totals(records=2_000)
    totals.cost({"": 9.0, "one@1": 1.04, "two@3": 3.0})
    assert summary_json(config, totals)["cost_ms"] == {"two@3": 3.0, "one@1": 1.0}
    text = "costliest rules, processor time a record: two@3 1,500 ns (74%), one@1 520 ns (26%)"
    assert text in summary_text(config, totals).splitlines()
    assert "costliest" not in summary_text(config, Totals(records=2_000, cost_ms={"one@1": 1.0})), "one is all there is"


def test_a_program_that_asks_for_lines_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLINE_PROGRESS", "lines")
    out = io.StringIO()
    progress = ProgressLine(out)
    progress.show("24 records")
    progress.show("48 records")
    progress.done()
    assert out.getvalue() == "24 records\n48 records\n"
