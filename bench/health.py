"""The health of rules: how long it takes to count an alert, and to show all rules, over many alerts.

``python -m bench.health [--alerts N] [--folder FOLDER] [--rounds N]``. Alerts of 40 rules over four weeks, each counted
as the intake counts it, one in ten with a label that came days later. A FOLDER with such a file is read again.
The target is 200 ms at the 99th percentile.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

from bench.cases import SETTINGS
from bench.console import console_of, timed
from bench.console_store import STREAM, Stock
from bench.report import Report, percentile
from crossline.core.settings.config import in_folder, load_pipeline
from crossline.serve.cases.cases import FILE, Cases
from crossline.serve.cases.counting.alerts import count_alert
from crossline.serve.cases.desk import CaseDesk
from crossline.serve.cases.intake.facts import AlertFacts, facts_of
from crossline.serve.cases.intake.linking import keep_alert

RULES, DAYS, DAY_MS, AT_ONCE, TARGET_MS = 40, 28, 86_400_000, 5_000, 200.0
RULE = """\
rule_id: rule_{0:02}
version: 1
rule_type: threshold
source_topic: payments
conditions: [{{field: at, operator: ">", value: 0}}]
severity: high
"""
PIPELINE = """\
schema_version: 1
name: bench
streams: stream.yaml
sources:
  payments: {kind: api, path: in/payments}
  logins: {kind: api, path: in/logins}
rules: {kind: directory, path: rules}
sinks: [{kind: sqlite, path: crossline.db}]
"""


def fact(at: random.Random, number: int, count: int, now_ms: int) -> AlertFacts:
    """Alert ``number`` of ``count``."""
    said = {
        "alert_id": f"{at.getrandbits(128):032x}",
        "rule_id": f"rule_{at.randrange(RULES):02}",
        "rule_version": 1,
        "severity": "high",
        "key": {"account_id": f"a{at.randrange(count // 4 + 1):07}"},
        "stream": "payments",
        "record_id": f"t{number // 5 * 4 + at.randrange(4):09}",
        "event_time": "2026-01-01T00:00:00.000Z",
        "message": "fired",
        "record": {"amount_cents": at.randrange(100, 900_000), "currency": "EUR"},
    }
    found: Any = facts_of(said, SETTINGS)
    event_ms = now_ms - DAYS * DAY_MS + number * DAYS * DAY_MS // count
    return AlertFacts(**{name: getattr(found, name) for name in AlertFacts.__slots__} | {"event_ms": event_ms})


def made(folder: Path, count: int) -> tuple[CaseDesk, float]:
    """The counts, made where they are not there, and microseconds that counting an alert took; 0: none was."""
    if (folder / FILE).exists():
        return CaseDesk(Cases(folder / FILE)), 0.0
    now_ms = time.time_ns() // 1_000_000
    at, spent, clock = random.Random(3), 0.0, [now_ms]
    cases = Cases(folder / FILE, clock_ms=lambda: clock[0])
    for first in range(0, count, AT_ONCE):
        facts = [fact(at, number, count, now_ms) for number in range(first, min(count, first + AT_ONCE))]
        with cases.file.transaction():
            for each in facts:
                keep_alert(cases.file, each)
            began = time.perf_counter()
            for each in facts:
                count_alert(cases.file, each, at.lognormvariate(3, 1))
            spent += time.perf_counter() - began
        for each in facts[::10]:
            clock[0] = min(now_ms, each.event_ms + int(at.expovariate(1 / 5) * DAY_MS))
            cases.put_label("payments", each.record_id, at.random() < 0.6, who="ada")
    return CaseDesk(cases), 1e6 * spent / count


def run(folder: Path, count: int, rounds: int) -> Report:
    """Make the counts, and time what reads them."""
    report = Report("health", f"The health of {RULES} rules, {rounds} times, target {TARGET_MS:.0f} ms at p99")
    (folder / "rules").mkdir(parents=True, exist_ok=True)
    for number in range(RULES):
        (folder / "rules" / f"rule_{number:02}.yaml").write_text(RULE.format(number))
    desk, us = made(folder, count)
    report.add(page="(counting)", alerts=count, us_an_alert=round(us, 1))
    config = in_folder(load_pipeline(PIPELINE, "pipeline.yaml", lambda _: STREAM), folder)
    (cases,) = desk.file.rows("SELECT count(*) AS n FROM cases")
    app, close = console_of(folder, Stock(config, desk, cases["n"], count, time.time_ns() // 1_000_000))
    with chdir(folder):  # where the pipeline's paths begin
        for path in ("/v1/health/rules", "/health/bench", "/rules"):
            times = asyncio.run(timed(app, partial(str, path), rounds))
            p50, p99 = (round(percentile(times, share), 1) for share in (0.5, 0.99))
            report.add(page=path, alerts=count, p50_ms=p50, p99_ms=p99, kept=p99 <= TARGET_MS)
    close()
    desk.cases.close()
    return report


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alerts", type=int, default=100_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crossline-health-") as folder:
        run(given.folder or Path(folder), given.alerts, given.rounds).finish()


if __name__ == "__main__":
    main()
