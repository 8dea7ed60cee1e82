"""The health of rules: the time to count an alert, and to show all rules, over many alerts.

``python -m bench.health [--alerts N] [--folder FOLDER] [--rounds N]``. The alerts belong to 40 rules over four weeks.
Each is counted as the intake counts it; one in ten has a label that came days later. If FOLDER holds a file of an
earlier run, it is read again. The target is 200 ms at the 99th percentile.
"""

from __future__ import annotations

import asyncio
import random
import time
from functools import partial
from pathlib import Path
from typing import Any

from bench.cases import SETTINGS
from bench.console import Browser, console_of, timed
from bench.console_store import RULES, Stock, pipeline
from bench.report import Report
from bench.rounds import TARGET_MS, add_times, folder_of, parser_of
from crossline.serve.cases.cases import FILE, Cases
from crossline.serve.cases.intake.facts import AlertFacts, facts_of
from crossline.serve.cases.intake.linking import keep_alert
from crossline.serve.cases.service import CaseService
from crossline.serve.cases.statistics.alerts import count_alert

DAYS, DAY_MS, AT_ONCE = 28, 86_400_000, 5_000


def fact(at: random.Random, number: int, count: int, now_ms: int) -> AlertFacts:
    """Alert ``number`` of ``count``."""
    body = {
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
    found: Any = facts_of(body, SETTINGS)
    event_ms = now_ms - DAYS * DAY_MS + number * DAYS * DAY_MS // count
    return AlertFacts(**{name: getattr(found, name) for name in AlertFacts.__slots__} | {"event_ms": event_ms})


def made(folder: Path, count: int) -> tuple[CaseService, float]:
    """The counts, made where they are not there, and microseconds that counting an alert took; 0: none was."""
    if (folder / FILE).exists():
        return CaseService(Cases(folder / FILE)), 0.0
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
    return CaseService(cases), 1e6 * spent / count


def run(folder: Path, count: int, rounds: int) -> Report:
    """Make the counts, and time what reads them."""
    report = Report("health", f"The health of {RULES} rules, {rounds} times, target {TARGET_MS:.0f} ms at p99")
    desk, us = made(folder, count)
    report.add(page="(counting)", alerts=count, us_an_alert=round(us, 1))
    config = pipeline(folder, {"kind": "sqlite", "path": "crossline.db"})
    (cases,) = desk.file.rows("SELECT count(*) AS n FROM cases")
    stock = Stock(config, desk, cases["n"], count, time.time_ns() // 1_000_000)
    with console_of(folder, stock) as (app, cookie):
        for path in (f"/health/{config.name}", "/rules"):
            times = asyncio.run(timed(Browser(app, cookie), partial(str, path), rounds, set()))
            add_times(report, times, TARGET_MS, page=path, alerts=count)
    desk.cases.close()
    return report


def main() -> None:
    """The command line."""
    given = parser_of(__doc__, alerts=100_000, rounds=100).parse_args()
    with folder_of(given.folder, "health") as folder:
        run(folder, given.alerts, given.rounds).finish()


if __name__ == "__main__":
    main()
