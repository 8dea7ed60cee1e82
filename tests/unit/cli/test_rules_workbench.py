"""The commands that look into rules, on small files whose answers are counted by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crossline.backtest.alert_writer import AlertWriter
from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.workbench.sample import alerts_over, batches
from crossline.basics.streams.schema import load_streams
from crossline.cli.init import template_files
from crossline.cli.main import run_command
from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink
from crossline.rule_registry.rule_files import Known, read_rules
from crossline.rules.ruleset import RuleSet
from crossline.settings.sinks import SqliteSettings

Run = Callable[..., str]
HERE = ["--stream", "stream.yaml"]
SAMPLE = [*HERE, "--input", "in/*.jsonl"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``crossline rules …`` in a new project; returns its output."""
    for name, content in template_files():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)

    def ran(*options: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run_command(["rules", *options]) == code
        reported = capsys.readouterr()
        return reported.err if code == 2 else reported.out

    return ran


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_explain_says_what_rules_mean(run: Run) -> None:
    found = run("explain", "rules", *HERE)
    assert (
        "It looks at each payment where amount_cents > 100000 and channel == transfer. Each of them is a hit." in found
    )
    assert "It keeps nothing of the past." in found
    assert "payments by account_id, on event time" in found
    assert [line.split(maxsplit=2)[2].strip() for line in found.splitlines() if "shared with" in line] == [
        "spending",
        "card_testing",
    ]


def test_explain_says_what_a_hold_keeps_where_its_rule_keeps_nothing(run: Run) -> None:
    large = Path("rules/large_payment.yaml")
    held = large.read_text(encoding="utf-8").rstrip() + "\n  entity: account_id\n  hold: 5m\n"
    large.write_text(held, encoding="utf-8")
    found = run("explain", "rules", *HERE, "--rule", "large_payment")
    assert "It keeps nothing of the past, but for what its hold needs: records for 5 min." in found


def test_explain_measures_on_a_sample(run: Run) -> None:
    body = rows(run("explain", "rules", *SAMPLE, "--rule", "spending", "--cost", "--json"))
    assert body[0]["rule_id"] == "spending"
    (keeps,) = body[0]["keeps"]
    lines = [json.loads(line) for line in Path("in/2026-01-05.jsonl").read_text().splitlines()]
    accounts = [each["account_id"] for each in lines]
    assert (keeps["records"], keeps["keys"]) == (len(accounts), len(set(accounts)))
    assert keeps["bytes"] > 0
    assert {"ns_a_record", "noise_ns", "above_noise"} <= body[1].keys()
    assert body[2].keys() == {"all_rules_ns", "no_rules_ns"}


def test_explain_refuses(run: Run) -> None:
    assert "--cost is measured on a sample" in run("explain", "rules", *HERE, "--cost", code=2)
    assert "did you mean spending?" in run("explain", "rules", *HERE, "--rule", "spendin", code=2)


def test_lint_reports_where_what_why_and_what_to_do(run: Run) -> None:
    assert run("lint", "rules", *HERE) == ""
    rule = Path("rules/spending.yaml")
    rule.write_text(rule.read_text().replace("aggregation_type: sum", "aggregation_type: count").replace('">"', '"<"'))
    rule.write_text(rule.read_text().replace("aggregation_threshold: 200000", "aggregation_threshold: 0.5"))
    found = run("lint", "rules", *HERE, code=1)
    assert "rules/spending.yaml:" in found
    assert "never true, rule spending: count of amount_cents, which is at least 1, < 0.5 can never hold" in found
    (body,) = rows(run("lint", "rules", *HERE, "--json", code=1))
    assert (body["kind"], body["path"]) == ("never_true", "[0].aggregation_threshold")
    assert run("lint", "rules", *HERE, "--ignore", "never_true") == ""
    assert run("lint", "rules", *HERE, "--rule", "large_payment") == ""


def test_lint_shows_keys_that_are_nearly_one_a_record(run: Run) -> None:
    line = json.loads(Path("in/2026-01-05.jsonl").read_text().splitlines()[0])
    made = [
        {**line, "payment_id": f"x{n}", "account_id": f"a{n}", "paid_at": f"2026-01-05T09:{n // 60:02}:{n % 60:02}Z"}
        for n in range(1_200)
    ]
    Path("many.jsonl").write_text("".join(json.dumps(each) + "\n" for each in made))
    (body,) = rows(run("lint", "rules", *HERE, "--input", "many.jsonl", "--rule", "spending", "--json", code=1))
    assert body["kind"] == "unbounded_key"
    assert body["what"] == "the sample has 1,200 keys for the 1,200 records that enter"


def candidate(line: str, new: str, name: str = "large_payment") -> str:
    """Another version of a rule file."""
    Path("candidate").mkdir(exist_ok=True)
    text = Path(f"rules/{name}.yaml").read_text()
    assert line in text
    path = Path(f"candidate/{name}.yaml")
    path.write_text(text.replace("version: 1", "version: 2").replace(line, new))
    return str(path)


def test_compare_reports_what_only_one_catches(run: Run) -> None:
    """As the README counts them: one payment above 1,000 euros, two above 400."""
    other = candidate("value: 100000", "value: 40000")
    Path("labels.csv").write_text("payment_id,is_fraud\np0008,1\np0001,0\n")
    command = ("compare", "rules/large_payment.yaml", other, *SAMPLE)
    (body,) = rows(run(*command, "--labels", "labels.csv", "--amount", "amount_cents", "--json"))
    assert (body["a"]["alerts"], body["a"]["only"], body["a"]["precision"], body["a"]["recall"]) == (1, 0, 1.0, 1.0)
    assert (body["b"]["alerts"], body["b"]["shared"], body["b"]["only"], body["b"]["precision"]) == (2, 1, 1, 0.5)
    lines = {each["payment_id"]: each for each in rows(Path("in/2026-01-05.jsonl").read_text())}
    (alone,) = body["b"]["examples"]
    assert body["b"]["money_caught"] == lines["p0008"]["amount_cents"]
    assert body["b"]["money_false"] == lines[alone["record_id"]]["amount_cents"]
    assert body["rules"] == {"large_payment": {"both": 1, "appear": 1, "disappear": 0}}
    assert alone["record_id"] in run(*command)


def test_compare_takes_versions_of_a_file_and_of_the_log(run: Run) -> None:
    both = Path("both.yaml")
    other = Path(candidate("value: 100000", "value: 40000"))
    both.write_text(Path("rules/large_payment.yaml").read_text() + other.read_text())
    (body,) = rows(run("compare", "both.yaml@1", "both.yaml@2", *SAMPLE, "--json"))
    assert (body["a"]["alerts"], body["b"]["alerts"]) == (1, 2)
    assert "found no version 7" in run("compare", "both.yaml@7", "both.yaml", *SAMPLE, code=2)
    assert "none.yaml does not exist" in run("compare", "none.yaml", "both.yaml", *SAMPLE, code=2)
    assert "name them with --labels" in run(
        "compare", "both.yaml", "both.yaml", *SAMPLE, "--amount", "amount_cents", code=2
    )


def test_shadow_from_rules_and_from_alerts(run: Run) -> None:
    """``spending`` is in shadow; it fires at the payment at which ``large_payment`` does."""
    (body,) = rows(run("shadow", "rules", *SAMPLE, "--json"))
    assert (body["rule_id"], body["alerts"], body["shared"], body["with_rules"]) == (
        "spending",
        1,
        1,
        {"large_payment": 1},
    )
    assert "large_payment 1" in run("shadow", "rules", *SAMPLE)
    made = ["--rules", "rules", *SAMPLE, "--output", "alerts.jsonl"]
    judge(made)
    (again,) = rows(run("shadow", "--alerts", "alerts.jsonl", "--json"))
    assert {**again, "alerts_per_day": 0} == {**body, "alerts_per_day": 0}
    (stored,) = rows(run("shadow", "--db", "store.db", "--json"))
    assert {**stored, "alerts_per_day": 0} == {**body, "alerts_per_day": 0}
    assert "name one of RULES" in run("shadow", code=2)
    assert "with --input" in run("shadow", "rules", *HERE, code=2)


def judge(options: list[str]) -> None:
    """The alerts of the rules as they stand, shadow ones among them, as a backtest writes them."""
    streams = load_streams(Path("stream.yaml").read_text(), "stream.yaml")
    history = RecordedInput(streams, {"payments": ["in/*.jsonl"]})
    judged = BacktestSpec(RuleSet.from_rules(read_rules(Path("rules"), Known(streams))), history)
    alerts = alerts_over(judged, batches(history, Path()))
    store = SqliteSink.from_settings(SqliteSettings(kind="sqlite", path="store.db"), "payments")
    for sink in (AlertWriter(Path(options[-1])), store):
        sink.open()
        sink.deliver(Delivery("payments", 0, alerts, [], [], {"records": 24, "retained": 0, "ingest_ms": {}}))
        sink.close()


def test_suggest_threshold(run: Run) -> None:
    """Transfers of the project by amount: 1,500.00, and 450.00 below the present line of 1,000.00."""
    command = ("suggest-threshold", "rules", "--rule", "large_payment", *SAMPLE)
    Path("labels.csv").write_text("payment_id,is_fraud\np0005,1\np0008,1\n")
    (body,) = rows(run(*command, "--labels", "labels.csv", "--json"))
    assert (body["present"]["alerts"], body["present"]["recall"]) == (1, 0.5)
    assert (body["best"]["alerts"], body["best"]["f1"], body["path"]) == (2, 1.0, "conditions[0].value")
    assert body["threshold"] < 45_000 <= body["same_to"]
    assert len(body["judged"]) == body["lines"]
    found = run(*command, "--alerts-per-day", "0")
    assert "suggested  150,000" in found
    assert "name what is wanted" in run(*command, code=2)
    refused = run("suggest-threshold", "rules", "--rule", "lare_payment", *SAMPLE, "--alerts-per-day", "1", code=2)
    assert "did you mean large_payment?" in refused


def test_lint_finds_the_version_that_has_the_other_keys(run: Run) -> None:
    """Beside it in the files; lint looks at the newest version of each rule."""
    file = Path("rules/card_testing.yaml")
    old = file.read_text()
    new = old.replace("version: 1", "version: 2\n  share: 10%").replace("account_id", "merchant_id")
    assert "group_by: merchant_id" in new
    file.write_text(old + new)
    found = [each for each in rows(run("lint", "rules", *HERE, "--json", code=1)) if each["kind"] == "odd_share"]
    assert [(each["rule_id"], each["what"]) for each in found] == [
        (
            "card_testing",
            "share 10% of keys by merchant_id, and version 1, which has the others, has keys by account_id",
        )
    ]
    assert "odd_share" not in run("lint", "rules", *HERE, "--json", "--ignore", "odd_share")
    file.write_text(old + new.replace("share: 10%", "share: 100%").replace("merchant_id", "account_id"))
    (whole,) = [each for each in rows(run("lint", "rules", *HERE, "--json", code=1)) if each["kind"] == "odd_share"]
    assert whole["what"] == "share 100% is all keys, as no share is"
