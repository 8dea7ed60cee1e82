"""examples/checkout, judged in this process: what its rules and policy say of the shop's day, worked out by hand."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.in_process import backtest
from crossline.basics.streams.schema import load_streams
from crossline.client import Client, Decision
from crossline.evaluate.bounds import Bounds
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.rule_registry.rule_files import Known, read_rules
from crossline.rules.policy.policy import Deciding, Policy, load_policy
from crossline.rules.ruleset import RuleSet
from crossline.settings.config import rule_defaults

EXAMPLE = Path(__file__).parents[3] / "examples" / "checkout"
# Customer, cents, whether the CVV was right; then the decision, and the rules that it rests on.
DAY = [
    ("ann", 350, True, "allow", []),
    ("bob", 1_900, True, "allow", []),
    ("bob", 2_500, True, "allow", []),
    ("bob", 900, True, "allow", []),
    ("bob", 4_200, True, "step_up", ["account_burst"]),
    ("cleo", 180_000, True, "allow", []),
    ("cleo", 140_000, True, "review", ["account_spend"]),
    ("dan", 79_900, False, "block", ["dear_without_cvv"]),
    ("dan", 350, True, "block", ["dear_without_cvv"]),
]


def shop_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("shop", EXAMPLE / "shop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["shop"] = module
    spec.loader.exec_module(module)
    return module


class Counter(Client):
    """Answers from a table of its own, and remembers what was asked; nothing listens."""

    def __init__(self, decisions: list[str]) -> None:
        super().__init__("http://127.0.0.1:1")
        self.decisions, self.payments = decisions, list[Mapping[str, Any]]()
        self.asked = 0
        self.released: list[tuple[str, str | None]] = []

    def decide(self, stream: str, record: Any, **_: Any) -> Decision:
        assert stream == "payments"
        self.payments.append(record)
        return Decision(self.decisions.pop(0), "peek")

    def dry_run(self, stream: str, record: Any, **_: Any) -> Decision:
        assert record["account_id"] == self.payments[-1]["account_id"], stream
        self.asked += 1
        return Decision("block" if self.asked < 3 else "allow", "peek")

    def holds(self, key: Any = None) -> Any:
        held = {"hold_id": "h1", "rule_id": "dear_without_cvv", "until": "2026-01-01T00:30:00.000Z", "etag": '"e"'}
        return {"items": [held]} if key == {"account_id": self.payments[-1]["account_id"]} else {"items": []}

    def release(self, hold_id: str, *, reason: str, if_match: str | None = None) -> Any:
        assert reason
        self.released.append((hold_id, if_match))
        return {}


def test_the_shop_s_day(capsys: pytest.CaptureFixture[str]) -> None:
    module = shop_module()
    with Counter([*(each[3] for each in DAY), "allow"]) as client:
        module.LOOK_EVERY_S = 0.0
        shop = module.Shop(client)
        assert module.day(shop)
    names = [(each["account_id"].split("-")[0], each["amount_cents"], each["cvv_ok"]) for each in client.payments]
    assert names == [(*each[:2], each[2]) for each in DAY] + [("dan", 350, True)]
    assert client.released == [("h1", '"e"')]
    found = capsys.readouterr().out
    for became, times in (("asked for a code, then taken", 1), ("parked, somebody looks at it", 1), ("refused  ", 2)):
        assert found.count(became) == times, became


def test_a_decision_that_the_shop_does_not_know_is_refused() -> None:
    with Counter(["dance"]) as client:
        assert shop_module().Shop(client).pay("ann", 350) == "refused"


def test_what_the_rules_and_the_policy_say_of_it(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "checkout")
    root = tmp_path / "checkout"
    policy_file = yaml.safe_load((root / "policy.yaml").read_text())
    if "fallback" not in Policy.model_fields:
        del policy_file["fallback"]
        (root / "policy.yaml").write_text(yaml.safe_dump(policy_file))
    lines = []
    for number, (customer, cents, cvv_ok, *_) in enumerate(DAY):
        record = {"payment_id": f"p{number}", "account_id": customer, "card_hash": "c", "amount_cents": cents}
        record |= {"currency": "EUR", "cvv_ok": cvv_ok, "event_time": 1_767_225_600_000 + number * 1_000}
        lines.append(json.dumps(record))
    (tmp_path / "in.jsonl").write_text("".join(f"{line}\n" for line in lines))
    config = read_pipeline_in_place(root / "pipeline.yaml")
    streams = load_streams((root / "stream.yaml").read_text(), "stream.yaml")
    policy = load_policy((root / "policy.yaml").read_text(), "policy.yaml")
    rules = RuleSet.from_rules(read_rules(root / "rules", Known(streams)))
    history = RecordedInput(streams, {"payments": [str(tmp_path / "in.jsonl")]})
    judged = BacktestSpec(
        rules, history, defaults=rule_defaults(config), bounds=Bounds(60_000), deciding=Deciding(policy)
    )
    backtest(judged, tmp_path / "alerts.jsonl", decisions=tmp_path / "decisions.jsonl", processes=1)
    found = {
        each["record_id"]: each for each in map(json.loads, (tmp_path / "decisions.jsonl").read_text().splitlines())
    }
    texts = [
        (found[f"p{number}"]["decision"], [reason["rule_id"] for reason in found[f"p{number}"]["reasons"]])
        if f"p{number}" in found
        else ("allow", [])
        for number in range(len(DAY))
    ]
    assert texts == [(each[3], each[4]) for each in DAY]


def test_a_sender_whose_clock_is_ahead_makes_no_payment_of_others_late() -> None:
    config = read_pipeline_in_place(str(EXAMPLE / "pipeline.yaml"))
    (spec,) = config.streams.values()
    assert spec.ingest_time is None  # so it is the highest event time
    assert spec.future_bound <= rule_defaults(config).watermark_delay_ms
