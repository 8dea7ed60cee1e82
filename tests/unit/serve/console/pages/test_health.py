"""Health of rules: what floods, what is silent, predictions beside what came; of alerts that the test counted."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crossline.lake.parity.report import AlertDifference, DecisionParity, ParityReport, RuleParity, write_report
from unit.serve.console.kit import Room
from unit.serve.health.scene import DAY_MS, alerts_of, label, publish, take

from .working import seat, working

DAYS = 20


def fill(at: Room) -> None:
    """``large_payment`` floods, ``card_testing`` is silent, ``spending``, a shadow rule, does as it did."""
    at.clock.now_ms += DAYS * DAY_MS
    now_ms, path = at.clock.now_ms, at.folder.parent / "serve"
    publish(path, "large_payment", now_ms - 10 * DAY_MS, {"per_day": 4.0, "low": 0.0, "high": 9.0, "days": 8.0})
    flood = alerts_of("large_payment", [4] * DAYS + [40], now_ms)
    silent = alerts_of("card_testing", [3] * 14 + [0] * 7, now_ms)
    steady = alerts_of("spending", [2] * (DAYS + 1), now_ms, kind="shadow")
    take(path, now_ms, [*flood, *silent, *steady])
    known = [each["record_id"] for each in steady[:40]]
    label(path, now_ms - 3_600_000, {record: number < 30 for number, record in enumerate(known)})


@pytest.fixture
def health(tmp_path: Path) -> Iterator[Room]:
    with working(tmp_path) as at:
        fill(at)
        yield at


def row(page: str, rule_id: str) -> str:
    """A row of the table of rules with its notes, without what stands only on narrow screens."""
    rows = re.findall(r'<tr(?: class="noted")?>.*?</tr>(?:\s*<tr class="notes">.*?</tr>)?', page)
    found = next(each for each in rows if f'/rules/{rule_id}"' in each)
    text = re.sub(r'<span class="only-n.*?</span>', "", found)
    return re.sub(r"<[^>]+>", "|", text)


def shown(health: Room, query: str = "") -> str:
    return str(seat(health, "vera.lux").get(f"/health/{health.parts.deps.config.name}{query}").text)


def test_what_floods_and_what_is_silent_is_reported(health: Room) -> None:
    page = shown(health)
    assert "2 need you</b>: one is silent, one floods" in page
    flood = row(page, "large_payment")
    assert "|42|" in flood  # 40 since midnight, and 2 of the 4 of yesterday
    assert "|9.1|" in flood  # (6 * 4 + 40) / 7
    assert "Floods, 10 \N{MULTIPLICATION SIGN} predicted" in flood
    assert "|0 to 9|" in flood
    assert "too few labels" in flood
    assert "Silent for 6 days" in row(page, "card_testing")
    steady = row(page, "spending")
    assert "|shadow|" in steady
    # 30 of 40: Wilson says 0.60 to 0.86.
    assert "|0.75|" in steady
    assert "|0.60 to 0.86|" in steady
    assert "|10|" in steady  # false positives
    assert steady.endswith("|\N{EN DASH}||")  # of parity: this server has no ledger


def test_predictions_stand_beside_what_came(health: Room) -> None:
    path, now_ms = health.folder.parent / "serve", health.clock.now_ms
    page = shown(health)
    found = re.sub(r"<[^>]+>", "|", page[page.index('id="predictions"') :])
    assert "|alerts a day|" in found
    # Half of a day's band is 5; that of the mean of 7 days of a past of 8 is 5 * sqrt((1/7 + 1/8) / (9/8)) = 2.44.
    assert "|4, 1.6 to 6.4|" in found
    assert "|4|" in found
    assert "7 whole days" in found
    ahead = {"per_day": 9.0, "low": 6.0, "high": 12.0, "days": 50.0, "money": None, "precision": None}
    publish(path, "spending", now_ms - 5 * DAY_MS, ahead)
    page = shown(health)
    assert "3 need you</b>: one is silent, one floods, one is beyond its prediction" in page
    assert "Alerts a day: 2, predicted 7.5 to 10.5" in row(page, "spending")  # 3 * sqrt((1/4 + 1/50) / (51/50)) = 1.54


def test_the_last_report_of_parity_with_the_lake_is_shown(health: Room) -> None:
    assert "Parity with a lake: no report; crossline lake parity writes one." in shown(health)
    name, path = health.parts.deps.config.name, health.parts.deps.path
    differences = (AlertDifference("a1", "p1", "lake", "value"), AlertDifference("a1", "p1", "api", "value"))
    rules = (RuleParity("spending", 50, 40, 39, 10, 9, differences), RuleParity("card_testing", 3, 3, 3, 0, 0))
    at, since, until = "2026-02-01T10:00:00.000Z", "2026-02-01T08:00:00.000Z", "2026-02-01T09:00:00.000Z"
    decided = (DecisionParity("block", 9, 8, 7, 2, 1), DecisionParity("review", 1_200, 1_000, 1_000, 0, 0))
    write_report(ParityReport(name, at, since, until, 1_000, rules, decided), path)
    page = shown(health)
    assert "Decisions: 8 block, 1 differ, 2 with receipts, 1 differ; 1,000 review, 0 differ." in page
    found = "43 alerts compared with a replay, 1 differ; 10 with receipts, 1 differ"
    assert f"Parity with the lake as of 2026-02-01T10:00:00 UTC: {found}." in page
    assert "Lake and stream: 1 differs" in row(page, "spending")
    assert "Receipts and stream, by the lake: 1 differs" in row(page, "spending")
    assert "|same|" in row(page, "card_testing")


def test_spans_and_addresses(health: Room) -> None:
    vera = seat(health, "vera.lux")
    name = health.parts.deps.config.name
    assert vera.get("/health").headers["location"] == f"/health/{name}"
    assert "Alerts an hour over 24 hours, 42 in all" in shown(health, "?span=24h")
    assert vera.get(f"/health/{name}?span=year").status_code == 422
    assert vera.get("/health/other").status_code == 404


def test_a_server_without_cases_and_one_that_cannot_read_them_say_so(tmp_path: Path) -> None:
    with working(tmp_path, desk=None, cases=None) as at:
        page = shown(at)
        assert "Alerts are not counted here." in page
        assert "None needs you." in page
        assert "No version in force was published with a proof" in page


def test_a_file_that_takes_nothing_now_is_an_error_with_what_still_holds(health: Room) -> None:
    path = health.folder.parent / "serve" / "cases.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("ALTER TABLE rule_days RENAME TO gone")
    answer = seat(health, "vera.lux").get(f"/health/{health.parts.deps.config.name}")
    assert answer.status_code == 200
    assert "The health of rules cannot be shown." in answer.text
    assert "Rules go on judging." in answer.text
