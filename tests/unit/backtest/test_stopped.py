"""``examples/cards`` under its policy: what follows of a fraud once it has crossed a line is stopped.

Which payments these are is reckoned from the records alone, by a sum over each takeover's payments in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.in_process import backtest
from crossline.basics.streams.schema import load_streams
from crossline.evaluate.bounds import Bounds
from crossline.generate.cards import CardWorkload
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.rule_registry.rule_files import Known, read_rules
from crossline.rules.policy.policy import Deciding, load_policy
from crossline.rules.ruleset import RuleSet
from crossline.settings.config import rule_defaults

EXAMPLE = Path(__file__).parents[3] / "examples" / "cards"
WORKLOAD, COUNT = CardWorkload(seed=7), 144_000
LINE_CENTS, WINDOW_MS = 200_000, 15 * 60_000  # of account_cash_out

Row = Mapping[str, Any]


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    return {row["transaction_id"]: row for row in map(orjson.loads, WORKLOAD.lines(0, COUNT).splitlines())}


@pytest.fixture(scope="module")
def decisions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """By record id."""
    folder = tmp_path_factory.mktemp("stopped")
    (folder / "in.jsonl").write_bytes(WORKLOAD.lines(0, COUNT))
    config = read_pipeline_in_place(EXAMPLE / "pipeline.yaml")
    streams = load_streams((EXAMPLE / "stream.yaml").read_text(), "stream.yaml")
    policy = load_policy((EXAMPLE / "policy.yaml").read_text(), "policy.yaml")
    rules = RuleSet.from_rules(read_rules(EXAMPLE / "rules", Known(streams)))
    history = RecordedInput(streams, {"payments": [str(folder / "in.jsonl")]})
    judged = BacktestSpec(
        rules, history, defaults=rule_defaults(config), bounds=Bounds(60_000), deciding=Deciding(policy)
    )
    backtest(judged, folder / "alerts.jsonl", decisions=folder / "decisions.jsonl", processes=1)
    found = map(orjson.loads, (folder / "decisions.jsonl").read_bytes().splitlines())
    return {each["record_id"]: each for each in found}


def beyond(rows: Mapping[str, Row]) -> dict[str, int]:
    """Cents of the payments of planted takeovers at which more left the account within the window than the line."""
    found = {}
    for label in WORKLOAD.labels(0, COUNT):
        if label.scenario != "account_takeover":
            continue
        account = label.key["account_id"]
        mine = [
            row
            for row in rows.values()
            if row["account_id"] == account and row["payment_type"] in {"CSH", "TRF"} and row["status"] == "approved"
        ]
        for row in mine:
            window = (each for each in mine if 0 <= row["event_time"] - each["event_time"] < WINDOW_MS)
            left = sum(each["amount_cents"] for each in window)
            if row["transaction_id"] in label.record_ids and left > LINE_CENTS:
                found[row["transaction_id"]] = row["amount_cents"]
    return found


def test_every_payment_of_a_takeover_after_the_crossing_is_stopped(
    rows: dict[str, Row], decisions: dict[str, Row]
) -> None:
    stopped = beyond(rows)
    assert len(stopped) > 20  # or the example shows little
    assert {record: decisions[record]["decision"] for record in stopped} == dict.fromkeys(stopped, "block")
    crossings = {
        record
        for record in stopped
        if any(why["rule_id"] == "account_cash_out" and "standing" not in why for why in decisions[record]["reasons"])
    }
    before, now = sum(stopped[record] for record in crossings), sum(stopped.values())
    assert now > 1.5 * before
