"""Alerts of real rules over generated card payments, in a store and in cases; made once a process."""

from __future__ import annotations

import atexit
import json
import shutil
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import orjson

from crossline.basics.times import parse_instant_ms
from crossline.cli.main import run_command
from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.rule_registry.directory import DirectoryRuleLog
from crossline.serve.cases.cases import FILE, Cases
from crossline.serve.cases.intake.batches import CaseIntake
from crossline.settings.process.casework import CasesSettings

RECORDS, SEED = 144_000, 7
LINK = ["card_hash", "device_id", "beneficiary_id"]
CASES = {"link": LINK, "within": "24h", "money": {"field": "amount_cents", "currency": "currency", "decimals": 2}}
CASEWORK = CasesSettings.model_validate(CASES)
PIPELINE = """\
schema_version: 1
name: cards
streams: stream.yaml
sources:
  payments: {kind: files, path: in}
rules: {kind: directory, path: rules/}
policy: policy.yaml
sinks: [{kind: sqlite, path: out/crossline.db}]
defaults: {time_mode: event_time, watermark_delay: 45s, allowed_lateness: 2m, record: all}
decisions: {emit: all, path: out/decisions}
"""


@cache
def cards() -> Path:
    """A project with payments of two hours, what its rules made of them, and the cases of that."""
    folder = Path(mkdtemp(prefix="crossline-cards-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    template = files("crossline.cli") / "templates" / "cards"
    with_rules = {"stream.yaml", "policy.yaml"}
    for name in with_rules:
        (folder / name).write_bytes((template / name).read_bytes())
    (folder / "rules").mkdir()
    for each in (template / "rules").iterdir():
        (folder / "rules" / each.name).write_bytes(each.read_bytes())
    pipeline = folder / "pipeline.yaml"
    pipeline.write_text(PIPELINE)
    (folder / "in").mkdir()
    made = ["--seed", str(SEED), "--records", str(RECORDS), "--labels", str(folder / "labels.jsonl")]
    assert run_command(["generate", "cards", *made, "--output", str(folder / "in/payments.jsonl")]) == 0
    alerts, decisions = _judged(folder, pipeline)
    config = read_pipeline_in_place(pipeline)
    sink = SqliteSink(folder / "out/crossline.db", config.name)
    sink.open()
    sink.deliver(Delivery(config.name, 0, alerts=alerts, decisions=decisions))
    sink.close()
    log = DirectoryRuleLog(config.rules.path, config.name, config.streams, list)
    log.start(parse_instant_ms(alerts[0]["event_time"]) - 14 * 86_400_000)
    log.close()
    _cases(folder, alerts, decisions)
    return folder


def last_ms(folder: Path) -> int:
    """When the last alert of a project was, in epoch milliseconds."""
    lines = (folder / "alerts.jsonl").read_text().splitlines()
    return max(parse_instant_ms(json.loads(line)["event_time"]) for line in lines)


def _judged(folder: Path, pipeline: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    paths = {name: folder / f"{name}.jsonl" for name in ("alerts", "decisions")}
    given = ["--pipeline", str(pipeline), "--input", str(folder / "in/*.jsonl"), "--output", str(paths["alerts"])]
    assert run_command(["backtest", *given, "--decisions", str(paths["decisions"]), "--json"]) == 0
    alerts, decisions = ([json.loads(line) for line in each.read_text().splitlines()] for each in paths.values())
    return alerts, decisions


def _cases(folder: Path, alerts: list[dict[str, Any]], decisions: list[dict[str, Any]]) -> None:
    """As the API makes them, by the clock of the last alert."""
    at = folder / "serve" / FILE
    Cases(at, clock_ms=lambda: last_ms(folder)).close()
    intake = CaseIntake(at, CASEWORK, clock_ms=lambda: last_ms(folder))
    alerted = {each["record_id"] for each in alerts}
    steps: list[Any] = [("alerts", orjson.dumps(each)) for each in alerts]
    steps += [("decisions", orjson.dumps(each)) for each in decisions if each["record_id"] in alerted]
    for start in range(0, len(steps), 250):
        intake.take(steps[start : start + 250], None)
    intake.close()
