"""The examples of docs/semantics.md over several streams: files of them, read as a backtest reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.in_process import outcomes
from crossline.basics.streams.schema import load_streams
from crossline.evaluate.bounds import Bounds
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from oracle.formulas import VALUES, WHENS
from oracle.naive import naive_detect

from .test_semantics import PAGE, ms

STREAMS = load_streams(
    """\
schema_version: 1
streams:
  payments:
    id: payment_id
    event_time: {field: at}
    ingest_time: {field: came}
    fields: {payment_id: string, account_id: string?, card: string?, pair: string?, rate: integer?, amount: integer?,
      at: integer, came: integer}
  rates:
    id: rate_id
    event_time: {field: at}
    ingest_time: {field: came}
    fields: {rate_id: string, currency: string, rate: integer, at: integer, came: integer}
  logins:
    id: login_id
    event_time: {field: when}
    ingest_time: {field: came}
    fields: {login_id: string, account_id: string, ok: boolean, when: integer, came: integer}
""",
    "stream.yaml",
)
_BLOCK = re.compile(r"```yaml\n(?P<rules>(?:.*\n)+?)```|(?P<table>^\| stream .*\n(?:^\|.*\n)+)", re.MULTILINE)

Row = dict[str, str]
Rules = list[dict[str, Any]]


def examples() -> dict[str, tuple[Rules, list[Row]]]:
    """By the id of the last rule: the rules, and the rows of the table below them."""
    found, rules = {}, ""
    for match in _BLOCK.finditer(PAGE):
        if match["rules"] is not None:
            rules = match["rules"]
            continue
        head, _, *lines = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in match["table"].splitlines()
        ]
        body = yaml.safe_load(rules)
        bodies = body if isinstance(body, list) else [body]
        found[bodies[-1]["rule_id"]] = bodies, [dict(zip(head, cells, strict=True)) for cells in lines]
    return found


EXAMPLES = examples()


def record(row: Row) -> dict[str, Any]:
    stream = STREAMS[row["stream"]]
    made: dict[str, Any] = {stream.id: row["id"], "came": ms(row.get("came", row["at"]))}
    made[stream.event_time.field] = ms(row["at"])
    made |= {name: row[name] for name in ("account_id", "card") if row.get(name)}
    made |= {name: int(row[name]) for name in ("rate", "amount") if row.get(name)}
    made |= {"ok": row["ok"] == "yes"} if row.get("ok") else {}
    pair = "currency" if row["stream"] == "rates" else "pair"
    return made | ({pair: row["pair"]} if "pair" in row else {})


def found_by_engine(bodies: Rules, rows: list[Row], folder: Path) -> list[dict[str, Any]]:
    files: dict[str, list[str]] = {}
    for stream in dict.fromkeys(row["stream"] for row in rows):
        path = folder / f"{stream}.jsonl"
        path.write_text("".join(json.dumps(record(row)) + "\n" for row in rows if row["stream"] == stream))
        files[stream] = [str(path)]
    rules = RuleSet.from_rules(item.rule for item in load_rules_text(json.dumps(bodies), "semantics", STREAMS))
    judged = BacktestSpec(rules, RecordedInput(STREAMS, files), bounds=Bounds(60_000))
    alerts: list[dict[str, Any]] = []
    for outcome in outcomes(judged, folder):
        assert not outcome.dead
        alerts += [json.loads(each) if isinstance(each, bytes | str) else each for each in outcome.alerts]
    return alerts


@pytest.mark.parametrize("rule_id", EXAMPLES)
def test_the_example_is_true(rule_id: str, tmp_path: Path) -> None:
    bodies, rows = EXAMPLES[rule_id]
    alerts = found_by_engine(bodies, rows, tmp_path)
    values = {(each["stream"], each["record_id"]): each["value"] for each in alerts if each["rule_id"] == rule_id}
    body = {(row["stream"], row["id"]): row["alert"] for row in rows if row["alert"]}
    assert values == {place: None if found == "yes" else pytest.approx(float(found)) for place, found in body.items()}
    assert len(values) == sum(each["rule_id"] == rule_id for each in alerts)
    mine = [(each["stream"], each["record_id"], each["rule_id"]) for each in alerts if each["rule_id"] != rule_id]
    for row in rows:
        members = [name for *place, name in mine if place == [row["stream"], row["id"]]]
        assert ", ".join(sorted(members)) == row.get("hits", "")


def test_the_formula_is_what_the_twin_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def above(values: Mapping[str, Any]) -> bool:
        return values["market"] is not None and values["rate"] > values["market"]

    monkeypatch.setattr("oracle.naive.FIELDS", ("rate",))
    monkeypatch.setitem(WHENS, "rate > market", above)
    monkeypatch.setitem(VALUES, "market", lambda values: values["market"])
    bodies, rows = EXAMPLES["above_market"]
    ordered = sorted(rows, key=lambda row: (row["came"], row["stream"] == "payments"))
    made = [
        {**record(row), "_stream": row["stream"], "_id": row["id"], "_event_ms": ms(row["at"])}
        | {"_ingest_ms": ms(row["came"])}
        for row in ordered
    ]
    for each in made:
        if each["_stream"] == "payments":
            del each["_stream"]
    hits = naive_detect(bodies, made).hits
    assert [(hit.record_id, hit.value) for hit in hits] == [
        (row["id"], int(row["alert"])) for row in ordered if row["alert"]
    ]


def test_there_are_five() -> None:
    assert list(EXAMPLES) == ["no_login", "above_market", "off_market", "takeover", "risky"]
