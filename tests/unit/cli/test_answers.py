"""What commands answer a user who is wrong, or nearly: what was found, and what to do; and by which code they end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crossline.cli.init import template_files
from crossline.cli.main import run_command
from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink

from .alertkit import alert

Run = Callable[..., int]
Captured = pytest.CaptureFixture[str]
SAMPLE = ["--stream", "stream.yaml", "--input", "in/*.jsonl"]
SHARED = """
kind: figure
figure_id: account_tries
version: 1
source_topic: payments
count: true
group_by: account_id
window: 10m
"""
NAMES_IT = """
rule_id: f
version: 1
rule_type: formula
source_topic: payments
figures: {tries: {figure: account_tries}}
when: tries >= 3
"""
UNREAD = """
rule_id: f
version: 1
rule_type: formula
source_topic: payments
figures:
  tries: {count: true, group_by: account_id, window: 10m}
  spare: {sum: amount_cents, group_by: merchant_id, window: 30d}
when: tries >= 3 and channel != "spare"
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name, content in template_files():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *words: run_command(list(words))


def alerts(name: str = "alerts.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def test_backtest_lists_what_appears_and_disappears(run: Run, capsys: Captured) -> None:
    """With a lower bound the transfer of 450 euros is found too; rules that are not there find nothing any more."""
    text = Path("rules/large_payment.yaml").read_text()
    Path("candidate.yaml").write_text(text.replace("value: 100000", "value: 44999"))
    assert run("backtest", "--rules", "rules", *SAMPLE, "--compare", "candidate.yaml") == 0
    reported = capsys.readouterr().out.splitlines()
    assert [line.split(", ")[0] for line in reported if line.startswith(("appears", "disappears"))] == [
        "disappears: card_testing at p0019",
        "appears: large_payment at p0005",
        "disappears: spending at p0008",
    ]


def test_of_many_that_appear_some_are_listed_and_the_rest_counted(run: Run, capsys: Captured) -> None:
    every = "rule_id: every\nversion: 1\nrule_type: threshold\nsource_topic: payments\n"
    Path("every.yaml").write_text(f"{every}conditions: [{{field: amount_cents, operator: '>', value: 0}}]\n")
    assert run("backtest", "--rules", "rules", *SAMPLE, "--compare", "every.yaml") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("appear")]
    count = len(Path("in/2026-01-05.jsonl").read_text().splitlines())
    assert len(lines) == 6
    assert lines[-1] == f"appear: every at {count - 5} more"


def test_backtest_marks_rules_whose_alerts_no_sink_gets(run: Run, capsys: Captured) -> None:
    path = Path("rules/spending.yaml")
    path.write_text(path.read_text().rstrip() + "\n  emit_to_sink: false\n")
    assert run("backtest", "--rules", "rules", *SAMPLE) == 0
    body = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith(("sp", "car"))}
    assert body["spending"].endswith("no sink: emit_to_sink is false")
    assert body["card_testing"].rstrip().endswith("the sinks")
    assert run("backtest", "--rules", "rules", *SAMPLE, "--json") == 0
    assert json.loads(capsys.readouterr().out)["recorded_only"] == ["spending"]


@pytest.mark.parametrize("place", ["shared", "shared/tries.yaml"], ids=["folder", "file"])
def test_backtest_takes_shared_figures_from_elsewhere(run: Run, capsys: Captured, place: str) -> None:
    Path("shared").mkdir()
    Path("shared/tries.yaml").write_text(SHARED)
    Path("f.yaml").write_text(NAMES_IT)
    assert run("backtest", "--rules", "f.yaml", *SAMPLE) == 2
    assert "account_tries" in capsys.readouterr().err
    assert run("backtest", "--rules", "f.yaml", "--figures", place, *SAMPLE) == 0
    assert {alert["rule_id"] for alert in alerts()} == {"f"}
    for words in (["rules", "test"], ["rules", "explain"], ["rules", "lint"]):
        assert run(*words, "f.yaml", "--figures", place, *SAMPLE) == 0
    assert run("rules", "compare", "f.yaml", "f.yaml", "--figures", place, *SAMPLE) == 0


@pytest.mark.parametrize("command", [["backtest", "--rules", "rules"], ["rules", "test", "rules"]])
def test_where_every_record_is_a_dead_letter_the_answer_is_no(run: Run, capsys: Captured, command: list[str]) -> None:
    Path("bad.jsonl").write_text("nonsense\nmore\n")
    assert run(*command, "--stream", "stream.yaml", "--input", "bad.jsonl") == 1
    text = "every record was a dead letter, and none was judged: 2 malformed_json"
    assert text in capsys.readouterr().err


def test_a_csv_without_the_id_says_what_it_has_and_which_separator_would_fit(run: Run, capsys: Captured) -> None:
    Path("csv.yaml").write_text(Path("stream.yaml").read_text().replace("format: json", "format: csv"))
    names = ["payment_id", "account_id", "merchant_id", "amount_cents", "channel", "country", "paid_at"]
    row = ["p1", "a1", "m1", "5", "card", "NO", "2026-01-05T10:00:00Z"]
    for separator, called in ((";", "semicolons"), ("\t", "tabs")):
        Path("bad.csv").write_text(f"{separator.join(names)}\n{separator.join(row)}\n")
        assert run("backtest", "--rules", "rules", "--stream", "csv.yaml", "--input", "bad.csv") == 1
        text = " ".join(capsys.readouterr().out.split())
        assert f"found fields {', '.join(names)}, parted by {called}; write the file with commas" in text
    Path("bad.csv").write_text("payment,amount_cents\np1,5\n")
    assert run("backtest", "--rules", "rules", "--stream", "csv.yaml", "--input", "bad.csv") == 1
    assert "found fields payment, amount_cents" in " ".join(capsys.readouterr().out.split())


def test_labels_parted_by_semicolons_say_so(run: Run, capsys: Captured) -> None:
    Path("labels.csv").write_text("payment_id;is_fraud\np0001;1\n")
    assert run("rules", "compare", "rules", "rules", *SAMPLE, "--labels", "labels.csv") == 2
    assert "found fields payment_id, is_fraud, parted by semicolons; write the file with commas" in " ".join(
        capsys.readouterr().err.split()
    )


@pytest.mark.parametrize("text", ["[]\n", "", "# nothing yet\n"])
def test_check_of_no_rules_is_no_success(run: Run, capsys: Captured, text: str) -> None:
    Path("none.yaml").write_text(text)
    assert run("rules", "check", "none.yaml", "--stream", "stream.yaml") == 1
    assert capsys.readouterr().err == "found no rules in none.yaml; expected files with a rule or a list of rules\n"
    assert run("rules", "check", "none.yaml", "--stream", "stream.yaml", "--json") == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_check_of_shared_figures_alone_is_one(run: Run, capsys: Captured) -> None:
    Path("shared.yaml").write_text(SHARED)
    assert run("rules", "check", "shared.yaml", "--stream", "stream.yaml") == 0
    assert capsys.readouterr().err == "1 shared figure in 1 file: nothing wrong\n"


def test_a_figure_that_no_formula_reads_is_warned_of_and_costs_nothing(run: Run, capsys: Captured) -> None:
    """Also where a text in the formula is written as it is called; what it is of changes neither the key nor alerts."""
    Path("f.yaml").write_text(UNREAD)
    assert run("rules", "check", "f.yaml", "--stream", "stream.yaml") == 0
    text = "figure spare is read by no formula; remove it, or name it in when"
    assert f"warning: f.yaml:8: figures.spare: {text}" in capsys.readouterr().err
    assert run("rules", "check", "f.yaml", "--stream", "stream.yaml", "--json") == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert (warning["line"], warning["path"]) == (8, "figures.spare")
    assert run("rules", "lint", "f.yaml", "--stream", "stream.yaml", "--json") == 1
    assert json.loads(capsys.readouterr().out.splitlines()[0])["kind"] == "unread_figure"
    assert run("backtest", "--rules", "f.yaml", *SAMPLE) == 0
    found = alerts()
    Path("f.yaml").write_text("".join(line for line in UNREAD.splitlines(keepends=True) if "spare:" not in line))
    assert run("backtest", "--rules", "f.yaml", *SAMPLE) == 0
    assert found
    assert [each | {"detected_at": ""} for each in found] == [each | {"detected_at": ""} for each in alerts()]


def test_figures_of_which_none_is_read_are_an_error(run: Run, capsys: Captured) -> None:
    Path("f.yaml").write_text(UNREAD.replace("tries >= 3 and ", ""))
    assert run("rules", "check", "f.yaml", "--stream", "stream.yaml") == 1
    assert "expected a figure that when or value names" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("enabled: true", "write status: active, or status: paused for a rule that is not"),
        ("name: large", "a rule's name is its rule_id; what its alerts say is its description"),
        ('version: "1"', "without quotes: 1"),
        ("version: 1.0", "without the point: 1"),
    ],
)
def test_what_other_programs_write_has_a_hint_of_one_line(run: Run, capsys: Captured, line: str, hint: str) -> None:
    text = Path("rules/large_payment.yaml").read_text()
    if line.startswith("version"):
        text = re.sub(r"version: 1\b.*\n", f"{line}\n", text)
        assert line in text
    else:
        text = f"{text.rstrip()}\n  {line}\n"
    Path("rules/large_payment.yaml").write_text(text)
    assert run("rules", "check", "rules", "--stream", "stream.yaml") == 1
    assert capsys.readouterr().out.splitlines()[-1].strip() == hint


def test_show_of_an_alert_whose_value_no_line_is_of_has_the_value(run: Run, capsys: Captured) -> None:
    sink = SqliteSink(Path("s.db"), "payments")
    sink.open()
    sink.deliver(Delivery("p", 0, alerts=[alert("55", operator=None, threshold=None)]))
    sink.close()
    assert run("alerts", "show", "--db", "s.db", "55") == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "value 10" in lines
    assert not any(line.startswith("line") for line in lines)
